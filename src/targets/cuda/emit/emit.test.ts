import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { attention, elements, teams, transposedGemm } from '../../../../test/cuda/probes.ts'
import { lower } from '../../../ir/stages.ts'
import { bf16, f32, i32 } from '../../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../../lang/kernel.ts'
import { publish } from '../../../ops/allGatherGemm/publish.ts'
import { allGatherGemmPull } from '../../../ops/allGatherGemm/pull.ts'
import { flashDecodeFused } from '../../../ops/flashDecode/fused.ts'
import { gemm } from '../../../ops/gemm.ts'
import { prelude } from '../prelude.ts'
import type { KernelIR } from '../../../ir/node.ts'
import { emitCuda } from './emit.ts'
import { COMMON, STAGING } from './device.ts'
import { declarations, usedOf } from './library.ts'
import { factsOf, type EmittedKernel } from './recipe.ts'

const names = 'a b c q k v out x y sum sums total words turns source lengths inbox stats'.split(' ')

/** Emits with every tensor of one shape: all that the emitter knows of them is what divides their extents. */
function emit(ir: KernelIR, shape: readonly number[] = [4096, 4096]): EmittedKernel {
  return emitCuda(lower(ir), { tensors: Object.fromEntries(names.map((name) => [name, factsOf(shape)])) })
}

/** The kernel itself, without the functions it is written in. */
const bodyOf = ({ source, name }: EmittedKernel): string => source.slice(source.indexOf(`// ${name}, for`))

const small = { BM: 64, BN: 64, BK: 32, stages: 3 }
const emitted: Readonly<Record<string, () => EmittedKernel>> = {
  gemm: () => emit(gemm.record({ world: 1 })),
  'gemm-small': () => emit(gemm.record({ world: 1, meta: small })),
  'gemm-unaligned': () => emit(gemm.record({ world: 1, meta: small }), [33, 37]),
  'all-gather-gemm-pull': () => emit(allGatherGemmPull.record({ world: 2, meta: { slices: 32 } })),
  'all-gather-gemm-pull-small': () =>
    emit(allGatherGemmPull.record({ world: 2, meta: { ...small, slices: 5 } })),
  publish: () => emit(publish.record({ world: 2 })),
  attention: () => emit(attention.record({ world: 1 })),
  'transposed-gemm': () => emit(transposedGemm.record({ world: 1 })),
  elements: () => emit(elements.record({ world: 1 })),
  teams: () => emit(teams.record({ world: 2 })),
  'flash-decode': () => emit(flashDecodeFused.record({ world: 2, meta: { G: 64 } }), [4, 64, 128, 128]),
}

describe('emitted text', () => {
  it.each(Object.keys(emitted))('%s reads as it did', async (name) => {
    await expect(bodyOf(emitted[name]())).toMatchFileSnapshot(`snapshots/${name}.cu`)
  })

  it('is the same for the same kernel and facts', () => {
    expect(emitted.gemm().source).toBe(emitted.gemm().source)
  })
})

describe('plans', () => {
  const maps = ({ params }: EmittedKernel) => params.flatMap((param) => (param.kind === 'map' ? [param] : []))

  it('gives remote tiles a tensor map with rank as its outermost axis', () => {
    expect(maps(emitted['all-gather-gemm-pull']())).toEqual([
      { kind: 'map', tensor: 'a', box: [64, 128], swizzle: '128B', ranked: true },
      { kind: 'map', tensor: 'b', box: [64, 64], swizzle: '128B', ranked: false },
      { kind: 'map', tensor: 'c', box: [64, 64], swizzle: '128B', ranked: false },
    ])
  })

  it('copies a window by threads unless tiles are known to end with it', () => {
    const pull = allGatherGemmPull.record({ world: 2, meta: { slices: 3 } })
    expect(maps(emit(pull, [4096, 136])).map(({ tensor }) => tensor)).toEqual(['a', 'c'])
  })

  it('copies by threads, one element each, where rows are not aligned', () => {
    const text = emitted['gemm-unaligned']()
    expect(maps(text)).toEqual([])
    expect(text.source).not.toContain('setmaxnreg.inc.sync.aligned.u32 232')
  })

  it('lets one thread produce, and moves its registers to the consumers', () => {
    const text = bodyOf(emitted.gemm())
    expect(text).toContain('registers_lower<40>();')
    expect(text).toContain('registers_raise<232>();')
  })

  it('walks tiles in groups, but not where the order can be seen from outside', () => {
    expect(bodyOf(emitted.gemm())).toContain('grouped_tile')
    expect(bodyOf(emitted['flash-decode']())).not.toContain('grouped_tile')
  })

  it('keeps a product in flight only with a slot to spare', () => {
    expect(bodyOf(emitted.gemm())).toContain('wgmma_wait<1>')
    expect(bodyOf(emit(gemm.record({ world: 1, meta: { stages: 1 } })))).not.toContain('wgmma_wait<1>')
  })

  it('completes stores of the copy engine before it releases them', () => {
    const text = bodyOf(emitted['all-gather-gemm-pull']())
    expect(text.indexOf('tma_store_wait_done<0>')).toBeLessThan(text.indexOf('last_program'))
  })

  it('says which tiles do not fit shared memory', () => {
    expect(() => emit(gemm.record({ world: 1, meta: { stages: 6 } }))).toThrow(
      /gemm\.ts:\d+:\d+: gemm needs \d+ bytes of shared memory, a program has 232448.*6x128x64 bf16/,
    )
  })
})

describe('order inside a group', () => {
  it('lets threads meet between accesses of one place by different threads', () => {
    const reversed = kernel('reversed', { x: tensor(f32, 1) }, (t, { x }) => {
      const tile = t.shared(f32, [128])
      t.copy(x.tile([0], [128]), tile)
      t.store(x.tile([0], [128]), t.load(tile.at([t.arange(128).neg().add(127)])))
    })
    const text = bodyOf(emit(reversed.record({ world: 1 }), [128]))
    expect(text.indexOf('shared_store')).toBeLessThan(
      text.lastIndexOf('__syncthreads();', text.indexOf('shared_load')),
    )
  })

  it('does not let them meet where each thread stays with its elements', () => {
    const doubled = kernel('doubled', { x: tensor(f32, 1) }, (t, { x }) => {
      const tile = x.tile([0], [128])
      t.store(tile, t.load(tile).mul(2))
    })
    expect(bodyOf(emit(doubled.record({ world: 1 }), [128]))).not.toContain('__syncthreads')
  })

  /** The kernel's text from one place to the next. */
  const between = (text: string, from: string, to: string): string => {
    const start = text.indexOf(from)
    const end = text.indexOf(to, start + from.length)
    expect(Math.min(start, end), `${from} … ${to} in\n${text}`).toBeGreaterThan(0)
    return text.slice(start, end)
  }

  it('does not count on a meeting that a wait in a loop leaves out', () => {
    const skipped = kernel(
      'skipped',
      { x: tensor(f32, 1), y: tensor(f32, 1), ready: flags() },
      (t, { x, y, ready }) => {
        t.for(4, (i) => {
          t.store(x.tile([0], [64]), t.arange(64).to(f32).mul(i.to(f32)))
          t.wait(ready)
          t.store(y.at([i]), t.load(x.at([63])))
        })
      },
    )
    const text = bodyOf(emit(skipped.record({ world: 2 }), [64]))
    expect(between(text, 'awaited_1 = ready_flag;', 'loaded = ')).toMatch(/}\n\s*__syncthreads\(\);/)
  })

  it('meets between lanes that may be one element, and not between lanes that count up', () => {
    const lanes = (name: string, repeat: boolean) =>
      kernel(name, { x: tensor(i32, 1), y: tensor(i32, 1) }, (t, { x, y }) => {
        const i = t.arange(64)
        const places = x.at([repeat ? i.div(2) : i.add(3)])
        t.atomic.add(places, 1)
        t.store(y.at([i]), t.load(places))
      })
    expect(bodyOf(emit(lanes('repeated', true).record({ world: 1 }), [128]))).toContain('__syncthreads')
    expect(bodyOf(emit(lanes('counted', false).record({ world: 1 }), [128]))).not.toContain('__syncthreads')
  })

  it('keeps what the condition of a loop read until after the loop', () => {
    const counted = kernel('counted', { turns: tensor(i32, 1) }, (t, { turns }) => {
      t.while(
        { i: t.constant(i32, 0) },
        ({ i }) => i.lt(t.load(turns.at([0]))),
        ({ i }) => {
          t.fence('acqRel')
          return { i: i.add(1) }
        },
      )
      t.store(turns.at([0]), 100)
    })
    const text = bodyOf(emit(counted.record({ world: 1 }), [64]))
    expect(between(text, '+ 1u);', '= 100;')).toMatch(/}\n\s*__syncthreads\(\);/)
  })

  describe('from one iteration to the next', () => {
    const x = { x: tensor(f32, 1) }
    const textOf = (body: Parameters<typeof kernel<typeof x>>[2]): string =>
      bodyOf(emit(kernel('again', x, body).record({ world: 1 }), [1024]))

    it('lets threads meet where a window moves over elements of other threads', () => {
      const text = textOf((t, { x }) =>
        t.for(4, (i) => {
          const window = x.slice(0, i, 64).tile([0], [64])
          t.store(window, t.load(window).add(1))
        }),
      )
      expect(between(text, 'for (i32', 'loaded_f32[')).toContain('__syncthreads();')
    })

    it('does not take tiles for others where the window moves against the index', () => {
      const text = textOf((t, { x }) =>
        t.for(4, (i) => {
          const window = x.slice(0, t.constant(i32, 256).sub(i.mul(65)), 512).tile([i], [64])
          t.store(window, t.load(window).add(1))
        }),
      )
      expect(between(text, 'for (i32', 'loaded_f32[')).toContain('__syncthreads();')
    })

    it('does not let them meet between tiles that are other ones or dealt out alike', () => {
      const text = textOf((t, { x }) =>
        t.for(4, () =>
          t.for(4, (j) => {
            const tile = x.slice(0, 64, 512).tile([j], [64])
            t.store(tile, t.load(tile).add(1))
          }),
        ),
      )
      expect(text).not.toContain('__syncthreads')
    })
  })
})

describe('device functions', () => {
  const library = [prelude({}), COMMON, STAGING].join('\n')

  it('are given to a kernel that uses them, with those they use, in order', () => {
    const names = declarations(usedOf(library, '// sigmoid_f32\nbarrier_await(b, 0, control);')).map(
      ({ name }) => name,
    )
    expect(names).toEqual(['u32', 'barrier_try', 'WaitRecord', 'Control', 'abort_raised', 'barrier_await'])
  })

  it('leave little before a small kernel', () => {
    const set = kernel('set', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
    const { source } = emit(set.record({ world: 1 }))
    expect(source.indexOf('// set, for')).toBeLessThan(500)
  })

  it('are each used by the emitter or by another', () => {
    const folder = import.meta.dirname
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    const renderers = files
      .filter((file) => file.endsWith('.ts') && !/test\.ts$|device\.ts$/.test(file))
      .map((file) => readFileSync(join(folder, file), 'utf8'))
      .join('\n')
    // Names that renderers put together from parts.
    const composed = /^(registers_(raise|lower)|stage_(halves|floats)|pack_b?f16|b?f16_to_f32|f32_to_b?f16)$/
    const all = declarations(library)
    const unused = all.filter(
      ({ name }) =>
        !composed.test(name) &&
        !new RegExp(`\\b${name}\\b`).test(renderers) &&
        !all.some((other) => other.name !== name && new RegExp(`\\b${name}\\b`).test(other.text)),
    )
    expect(unused).toEqual([])
  })
})

describe('what is not lowered yet is refused at the author’s line', () => {
  const one = { x: tensor(bf16, 2), y: tensor(f32, 2), rows: tensor(i32, 1), ready: flags() }
  const refusal = (body: Parameters<typeof kernel<typeof one>>[2]): unknown => {
    try {
      emitCuda(lower(kernel('refused', one, body).record({ world: 1 })), {
        tensors: { x: factsOf([64, 64]), y: factsOf([64, 64]), rows: factsOf([64]) },
      })
    } catch (error) {
      return (error as Error).message
    }
    return 'accepted'
  }
  const here = /^src\/targets\/cuda\/emit\/emit\.test\.ts:\d+:\d+: /

  it('products of few rows', () => {
    expect(() => emit(flashDecodeFused.record({ world: 2 }), [4, 64, 128, 128])).toThrow(
      /^src\/ops\/flashDecode\/fused\.ts:\d+:\d+: dot: a matrix of 16 rows/,
    )
  })
  it('gathered rows', () => {
    const message = refusal((t, { x, rows }) => {
      const tile = t.shared(bf16, [64, 64])
      t.copy(x.rows(t.load(rows.tile([0], [64]))).tile(0, 64), tile)
    })
    expect(message).toMatch(here)
    expect(message).toMatch(/rows: is not lowered/)
  })
  it('transposed fragments', () => {
    const message = refusal((t, { y }) =>
      t.store(y.tile([0, 0], [64, 64]), t.load(y.tile([0, 0], [64, 64])).transpose()),
    )
    expect(message).toMatch(/transpose: of a fragment is not lowered/)
  })
  it('a vector that is needed both as rows and as columns', () => {
    const message = refusal((t, { y }) => {
      const x = t.load(y.tile([0, 0], [64, 64]))
      const sums = x.sum(1)
      t.store(y.tile([0, 0], [64, 64]), x.mul(sums.expand(1)).mul(sums.expand(0)))
    })
    expect(message).toMatch(here)
    expect(message).toMatch(/needed as one number a row of a matrix.*and as one number a column/)
  })
  it('products of f32', () => {
    const message = refusal((t, { y }) => {
      const tile = t.shared(f32, [64, 64])
      t.copy(y.tile([0, 0], [64, 64]), tile)
      t.store(y.tile([0, 0], [64, 64]), t.dot(tile, tile, t.zeros(f32, [64, 64])))
    })
    expect(message).toMatch(/dot: of f32 is not lowered/)
  })
})

const compiler = spawnSync('nvcc', ['--version'], { encoding: 'utf8' })
if (compiler.status !== 0) console.log('emitted CUDA is not compiled here: nvcc is not on the PATH')

describe.skipIf(compiler.status !== 0)('compiled for sm_90a', () => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'arke-emit-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** PTX, and what ptxas says of the machine code. */
  function compile(name: string): { ptx: string; report: string } {
    const [source, ptx, cubin] = ['cu', 'ptx', 'cubin'].map((kind) => join(folder, `${name}.${kind}`))
    writeFileSync(source, emitted[name]().source)
    execFileSync('nvcc', ['-std=c++17', '-arch=compute_90a', '-ptx', '-o', ptx, source])
    const { stderr, status } = spawnSync('ptxas', ['-arch=sm_90a', '-v', '-o', cubin, ptx], {
      encoding: 'utf8',
    })
    expect(status, stderr).toBe(0)
    return { ptx: readFileSync(ptx, 'utf8'), report: stderr }
  }

  const multiplies = new Set(Object.keys(emitted).filter((name) => /gemm|attention|decode/.test(name)))

  it.each(Object.keys(emitted))('%s spills nothing and uses the matrix unit for its products', (name) => {
    const { ptx, report } = compile(name)
    expect(report).toContain('0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')
    expect(report).not.toMatch(/warning/i)
    expect(ptx.includes('wgmma.mma_async.sync.aligned')).toBe(multiplies.has(name))
  })
})
