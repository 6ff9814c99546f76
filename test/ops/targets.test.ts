/**
 * Runs every variant of every operation on the targets that execute kernels, and compares results with float64. The
 * tests cover odd shapes, 1 to 8 ranks, launches with only input-writing kernels in between, and ranks that are far
 * ahead of each other. Compiling C++ takes long, so `native` runs two world sizes per variant. ARKE_STRESS=1 runs all
 * world sizes, every dtype and more launches. The short tests run one world size per variant and, on `native`, one variant per operation.
 */
import { describe, expect, it } from 'vitest'
import { openWorld, type World } from '../../src/index.ts'
import { allGatherGemm, type MatrixShape } from '../../src/ops/allGatherGemm/index.ts'
import { flashDecode } from '../../src/ops/flashDecode/index.ts'
import { operandDTypes, type OperandDType } from '../../src/operation/definition.ts'
import { operations, type AnyDefinition } from '../../src/ops/operations.ts'
import type { Numbers } from '../../src/tune/tables.ts'
import { elements } from '../../src/ir/type.ts'
import { sharedOut, type Machine } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../src/world/machines.ts'
import { expectClose, type Scenario } from '../../src/world/world.ts'
import { realTargets } from '../targets/differential/targets.ts'
import { repeated } from './clean.ts'
import { withLengths } from './flashDecode/lengths.ts'
import { outOfStep } from './outOfStep.ts'
import { long } from '../long.ts'

const targets = await realTargets()
const everything = process.env.ARKE_STRESS === '1'
const launches = everything ? 50 : 20

/** The world sizes and dtypes for the n-th variant: a rotating selection, or all if ARKE_STRESS=1. */
function settings(target: string, n: number): (readonly [number, OperandDType])[] {
  const sizes = target === 'cuda' ? [1, 2, 4, 8] : [1, 2, 3, 8]
  if (everything) return sizes.flatMap((ranks) => operandDTypes.map((dtype) => [ranks, dtype] as const))
  const few = target === 'wasm' || target === 'cuda' ? sizes : [[2, 8][n % 2], [3, 1, 3, 3][n % 4]]
  return few.map((ranks, i) => [ranks, operandDTypes[(n + i) % operandDTypes.length]] as const)
}

async function on(
  target: string,
  ranks: number,
  run: (world: World) => Promise<unknown>,
  workers?: number,
): Promise<void> {
  const world = await openWorld({ target, ranks, ...(target === 'cuda' ? {} : { workers }) })
  try {
    await run(world)
  } finally {
    await world.close()
  }
}
const runOutOfStep = (target: string, ranks: number, seed: number, { run }: Scenario): Promise<void> =>
  on(target, ranks, (world) => run(outOfStep(world, seed)))

/** The machine record on which the variants and options of an operation may depend. */
const machineOf = (target: string, ranks: number): Machine =>
  target === 'cuda' ? sharedOut(h200, ranks) : cpuMachine(target, ranks)

/** All combinations of the layout options. */
const layoutsOf = ({ layouts = {} }: AnyDefinition): readonly Readonly<Record<string, string>>[] =>
  Object.entries(layouts).reduce<readonly Readonly<Record<string, string>>[]>(
    (all, [name, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  )

const everyOperation = operations.flatMap((definition) =>
  targets.map((target) => [definition.title, target, definition] as const),
)
describe.each(everyOperation)('%s on %s', (_, target, definition) => {
  const isCompiled = target === 'native'
  const { forms, odd, factor, contents } = definition.points
  const formsOf = (ranks: number, dtype: OperandDType, shape: Numbers) =>
    forms({ machine: machineOf(target, ranks), ranks, dtype, shape })
  const names = Object.keys(formsOf(2, 'f32', odd[0].shape))

  const runInARow = async (
    name: string,
    choose: <T>(all: readonly T[], n: number) => readonly T[],
  ): Promise<void> => {
    const n = names.indexOf(name)
    for (const [ranks, dtype] of choose(settings(target, n), n)) {
      const at = odd[(n + ranks) % odd.length]
      const form = formsOf(ranks, dtype, at.shape)[name]
      // Some forms of a kernel exist only for one dtype or for some shapes.
      if (form === undefined) continue
      const { grid } = form as { readonly grid?: number }
      const subject = repeated(ranks, (world) => definition.make(world, { ...form, ...at, dtype }), {
        contents: (random, round) => contents?.(random as never, at.shape, round) ?? random,
        factor,
        launches,
      })
      await on(target, ranks, (world) => subject.run(outOfStep(world, 100 * n + ranks)), grid)
    }
  }
  it.each(names)(`%s, ${launches} launches in a row`, long, (name) => runInARow(name, (all) => all))
  it.each(target === 'wasm' ? names : names.slice(0, 1))(
    `%s on one world size, ${launches} launches in a row`,
    // Tests with eight ranks, the last size, take most of the time. Other tests of this file run eight ranks.
    (name) => runInARow(name, (all, n) => [all[n % Math.min(3, all.length)]]),
  )

  const laidOut = definition.variants.flatMap((variant) =>
    layoutsOf(definition).map((layout) => [variant, layout] as const),
  )
  it.each(laidOut)(
    '%s %j, with default tiles, packed and not packed',
    isCompiled ? long : {},
    async (variant, layout) => {
      const n = laidOut.findIndex((one) => one[0] === variant && one[1] === layout)
      const [ranks, dtype] = settings(target, n)[1]
      for (const { shape } of everything ? odd : [odd[n % 2]])
        await on(target, ranks, async (world) => {
          const operation = definition.make(world, {
            ...definition.defaults,
            ...layout,
            shape,
            dtype,
            variant,
          })
          const contents = operation.random(5)
          operation.fill(contents)
          for (const packed of [false, true]) {
            if (packed) await operation.pack()
            // Poison the outputs, so that elements that are not written are detected.
            for (const output of Object.values(operation.outputs))
              for (let rank = 0; rank < ranks; rank++)
                world.write(output, rank, new Float32Array(elements(output.shape)).fill(NaN))
            operation.launch()
            operation.launch()
            for (let rank = 0; rank < ranks; rank++)
              expectClose(await operation.result(rank), operation.reference(contents, rank), {
                atol: operation.tolerance,
              })
          }
        })
    },
  )
})

describe.each(targets)('All-Gather + GEMM, special shapes, on %s', (target) => {
  const isCompiled = target === 'native'
  const tolerance = { f32: 3e-5, f16: 1.5e-2, bf16: 1.2e-1 }
  // Shapes that are not multiples of anything, a shape with one row, and tiles larger than the matrices.
  const shapes: readonly MatrixShape[] = [
    { M: 7, N: 37, K: 45 },
    { M: 1, N: 70, K: 33 },
    { M: 9, N: 3, K: 5 },
  ]
  const tiles = { BM: 4, BN: 16, BK: 8, stages: 2 }

  it.each(['push', 'fused'] as const)(
    '%s along K in f32, own shards first or not',
    isCompiled ? long : {},
    async (variant) => {
      for (const ownFirst of target === 'cuda' ? [false] : [false, true])
        for (const ranks of target === 'wasm' || everything ? [1, 2, 3, 8] : [2]) {
          const options = {
            shape: shapes[ranks % 3],
            dtype: 'f32',
            variant,
            shard: 'K',
            tiles,
            ownFirst,
          } as const
          const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
            factor: 'a',
            tolerance: tolerance.f32,
            launches,
          })
          await runOutOfStep(target, ranks, ranks, subject)
        }
    },
  )

  // Out-of-step ranks are several launches apart, so that one rank has multiplied all it can before the other rank
  // starts its launch.
  it.runIf(target !== 'cuda').each(['push', 'fused'] as const)(
    '%s along M, own rows first',
    long,
    async (variant) => {
      for (const [ranks, dtype] of settings(target, 0))
        for (const [N, BN] of [
          [37, 16],
          [300, 256],
        ]) {
          const tiles = { BM: 12, BN, BK: 8, stages: 2 }
          const shape = { ...shapes[ranks % 3], N }
          const options = { shape, dtype, variant, shard: 'M', tiles, ownFirst: true } as const
          const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
            factor: 'a',
            tolerance: tolerance[dtype],
            launches,
          })
          await runOutOfStep(target, ranks, ranks, subject)
        }
    },
  )

  it.each([
    ['in the order of ranks', true],
    ['as they arrive', false],
  ])('fused along K, with one flag per shard, %s', isCompiled ? long : {}, async (_, inOrder) => {
    for (const [ranks, dtype] of settings(target, Number(inOrder))) {
      const options = { shape: shapes[ranks % 3], dtype, tiles, flagPer: 'shard', inOrder } as const
      const subject = repeated(
        ranks,
        (world) => allGatherGemm(world, { ...options, variant: 'fused', shard: 'K' }),
        { factor: 'a', tolerance: tolerance[dtype], launches },
      )
      await runOutOfStep(target, ranks, ranks, subject)
    }
  })

  it('pull along K, from outboxes', isCompiled ? long : {}, async () => {
    for (const [ranks, dtype] of settings(target, 2))
      for (const [n, grid] of ([undefined, 1] as const).entries()) {
        // Every second test case has several partial results per row.
        const shape = { ...shapes[(n + ranks) % 3], ...(n === 1 && { K: 300 * ranks }) }
        const options = { shape, dtype, tiles, staged: true, grid, variant: 'pull', shard: 'K' } as const
        const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
          factor: 'a',
          tolerance: (n === 1 ? 40 : 1) * tolerance[dtype],
          launches,
        })
        await runOutOfStep(target, ranks, ranks, subject)
      }
  })
})

describe.each(targets)('Flash Decode, special shapes, on %s', (target) => {
  const isCompiled = target === 'native'
  const tolerance = 2e-2
  const lengthOf = (rank: number, entry: number, round: number): number =>
    [37, 5, 0, 16, 33, 1][(rank + 2 * entry + round) % 6]

  // On a GPU, every thread holds adjacent elements of partial results with these numbers of heads.
  it.each([
    ['eight query heads', 8, 1],
    ['sixteen query heads, in two splits', 16, 2],
  ])('fused, partial results of %s', isCompiled ? long : {}, async (_, G, splits) => {
    const shape = { batch: 2, queryHeads: 2 * G, kvHeads: 2, D: 64, tokens: 37 }
    const options = { shape, tiles: { BN: 16, splits }, dtype: 'bf16', variant: 'fused' } as const
    for (const ranks of target === 'wasm' ? [2] : target === 'cuda' ? [1, 2, 4, 8] : [3]) {
      for (const fetching of [false, true]) {
        const choice = { owners: false, stealing: false, fetching }
        const subject = repeated(ranks, (world: World) => flashDecode(world, { ...options, ...choice }), {
          contents: (random, round) =>
            withLengths(random, (rank, entry) => lengthOf(rank, entry, round), shape),
          factor: 'v',
          tolerance,
          launches,
        })
        await runOutOfStep(target, ranks, 10 * G + ranks, subject)
      }
    }
  })
})

it('launches that are issued rank by rank all run', async () => {
  const counts = [0, 0, 0]
  const fake = {
    ranks: 3,
    launch: (_: unknown, __: unknown, { ranks }: { ranks: number[] }) => void counts[ranks[0]]++,
    barrier: () => Promise.resolve(),
  }
  const world = outOfStep(fake as unknown as World, 1)
  for (let i = 0; i < 100; i++) world.launch(undefined as never, {} as never, { grid: 1 })
  expect(counts).toEqual([0, 0, 0])
  await world.barrier()
  expect(counts).toEqual([100, 100, 100])
})
