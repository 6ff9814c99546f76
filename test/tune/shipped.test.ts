/** Tests the shipped tables: every entry is legal and can be emitted, and none of its kernels spills registers. */
import { describe, expect, it } from 'vitest'
import { lower } from '../../src/targets/cuda/stages.ts'
import { pullKernel } from '../../src/ops/allGatherGemm/pullInPlace.ts'
import { fusedCoarseKernel, fusedKernel } from '../../src/ops/flashDecode/fusedForAll.ts'
import { attendKernel } from '../../src/ops/flashDecode/ladder.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import type { OperandDType } from '../../src/operation/definition.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { shippedTables } from '../../src/tune/shipped.ts'
import type { Numbers, Table } from '../../src/tune/tables.ts'
import { compileTogether, NO_SPILLS, noCompiler } from '../cuda/compile.ts'
import { long } from '../long.ts'

interface Entry {
  readonly name: string
  /** Entries with the same key are compiled once, because register use depends on nothing else. */
  readonly likeness: string
  emit(): EmittedKernel
}

function entriesOf(table: Table): Entry[] {
  return Object.entries(table).flatMap(([setting, classes]) => {
    const words = setting.split(' ')
    const dtype = words.find((word): word is OperandDType => /^(bf16|f16|f32)$/.test(word))!
    const ranks = Number(words.at(-1)!.split('x')[0])
    return Object.entries(classes).map(([name, tiles]) => {
      const shape = Object.fromEntries(
        name.split(' ').map((extent) => [extent.split('=')[0], Number(extent.split('=')[1])]),
      )
      const make = words[0] === 'flashDecode' ? decode : product
      const { stages: _, splits, ...sizes } = tiles
      return {
        name: `${setting} ${name}`,
        likeness: `${words.slice(0, -1).join(' ')} ${JSON.stringify(sizes)}${splits === 0 ? ' even' : ''}`,
        emit: () => make(words[1], dtype, ranks, shape, tiles),
      }
    })
  })
}

function product(variant: string, dtype: OperandDType, world: number, { M, N, K }: Numbers, tiles: Numbers) {
  const isPull = variant === 'pull'
  const tensors = { a: factsOf([M, isPull ? K / world : K]), b: factsOf([K, N]), c: factsOf([M, N]) }
  const ir = isPull
    ? pullKernel({ dtype, shard: 'K' }).record({ world, meta: { ...tiles, aligned: M % tiles.BM === 0 } })
    : gemmKernel(dtype).record({ world, meta: tiles })
  return emitCuda(lower(ir), { tensors })
}

function decode(variant: string, dtype: OperandDType, world: number, shape: Numbers, tiles: Numbers) {
  const { batch, queryHeads, kvHeads, D, tokens } = shape
  const G = queryHeads / kvHeads
  const { splits } = tiles
  const parted = splits === 0 ? { splits: 2, programs: 16 } : { splits, programs: 0 }
  const parts = world * parted.splits * batch * kvHeads
  const [rows, cache] = [
    [batch, kvHeads, G, D],
    [batch, kvHeads, tokens, D],
  ].map(factsOf)
  const tensors = {
    ...{ q: rows, k: cache, v: cache, out: rows, lengths: factsOf([batch]) },
    ...{ sums: factsOf([2, parts, G, D]), stats: factsOf([2, parts, 2, G]) },
  }
  const kernels: Record<string, typeof attendKernel | typeof fusedKernel | typeof fusedCoarseKernel> = {
    'fused-coarse': fusedCoarseKernel,
    fused: fusedKernel,
  }
  const kernel = (kernels[variant] ?? attendKernel)(dtype)
  return emitCuda(lower(kernel.record({ world, meta: { G, D, ...tiles, ...parted } })), { tensors })
}

const entries = entriesOf(shippedTables['NVIDIA H200'])
/** The entries of the shipped table, without entries with an equal key. */
const distinct = [...new Map(entries.map((entry) => [entry.likeness, entry])).values()]

describe('the table for H200', () => {
  it('has only tiles that can be emitted and fit shared memory', () => {
    for (const { name, emit } of distinct) expect(emit().sharedBytes, name).toBeLessThanOrEqual(227 * 1024)
  })

  if (noCompiler) console.log(`tuned kernels are not compiled here: ${noCompiler}`)
  it.skipIf(noCompiler)('has no tiles whose kernel spills registers', long, () => {
    const compiled = distinct.length === 0 ? [] : compileTogether(distinct.map(({ emit }) => emit()))
    expect(distinct.map(({ name }, n) => [name, compiled[n].properties])).toEqual(
      distinct.map(({ name }) => [name, NO_SPILLS]),
    )
  })
})
