/**
 * Tests the notes for a kernel's author: products without the matrix unit, and fragments that do not fit in registers.
 */
import { describe, expect, it } from 'vitest'

import { compileTogether, NO_SPILLS, noCompiler } from '../../../../test/cuda/compile.ts'
import { bodyOf, emit } from '../../../../test/cuda/emitting.ts'
import { productOf } from '../../../../test/cuda/probes.ts'
import { isSample, shippedKernels } from '../../../../test/cuda/shipped.ts'
import type { DotDType } from '../../../ir/dtype.ts'
import { lower } from '../stages.ts'
import { f32, i64 } from '../../../lang/dtypes.ts'
import { kernel, tensor } from '../../../lang/kernel.ts'
import { gemmKernel } from '../../../ops/gemm.ts'
import { emitCuda } from './emit.ts'
import { factsOf, type EmittedKernel } from './recipe.ts'
import { long } from '../../../../test/long.ts'

const product = (dtype: DotDType, meta: Record<string, number | string>): EmittedKernel =>
  emit(productOf(dtype).record({ world: 1, meta }), [16, 16])

const messages = ({ notes }: EmittedKernel): string[] => notes.map(({ message }) => message)

/** True if the emitted text multiplies with an instruction of the matrix unit. */
const usesMatrixUnit = (emitted: EmittedKernel): boolean =>
  /\b(wgmma_m64|mma_(b?f16)\()/.test(bodyOf(emitted))

describe('notes about products', () => {
  it.each(['f32', 'f8e4m3', 'f8e5m2', 'i8'] as const)(
    'reports that a product of %s values does not use the matrix unit',
    (dtype) => {
      const emitted = product(dtype, {})
      expect(messages(emitted)).toEqual([
        `this product of ${dtype} values does not use the matrix unit on sm_90a, which multiplies bf16 and f16 ` +
          'here; it becomes scalar multiply-adds. Use bf16 or f16 operands',
      ])
      expect(emitted.notes[0].at).toMatch(/^test\/cuda\/probes\.ts:\d+:\d+$/)
    },
  )

  it.each([
    [{ K: 24 }, 'K = 24 is not a multiple of 16', 'Use a K that is a multiple of 16'],
    [{ N: 20 }, 'N = 20 is not a multiple of 8', 'Use an N that is a multiple of 8'],
    [
      { M: 12, left: 'transposed' },
      'the left operand has rows of 24 bytes in shared memory, not a multiple of 16 bytes',
      'Use shared tiles whose rows are a multiple of 16 bytes',
    ],
  ])(
    'reports that a product of 16-bit floats does not use the matrix unit because of its shape (%j)',
    (meta, reason, advice) => {
      const { M, N, K } = { M: 16, N: 16, K: 16, ...meta }
      const emitted = product('bf16', meta)
      expect(messages(emitted)).toEqual([
        `this ${M}x${N}x${K} product of bf16 values does not use the matrix unit on sm_90a, because ${reason}; ` +
          `it becomes scalar multiply-adds. ${advice}`,
      ])
    },
  )

  const shapes = [8, 12, 16, 20, 24, 64].flatMap((M) =>
    [8, 12, 16, 20, 72, 256].flatMap((N) => [8, 16, 24, 48, 64].map((K) => ({ M, N, K }))),
  )
  const expectExact = (left: string, some: typeof shapes): void => {
    for (const shape of some)
      for (const right of ['shared', 'transposed', 'registers']) {
        const emitted = product('f16', { ...shape, left, right })
        const isScalar = messages(emitted).some((one) => one.includes('matrix unit'))
        expect([shape, right, isScalar]).toEqual([shape, right, !usesMatrixUnit(emitted)])
      }
  }
  const operands = ['shared', 'transposed', 'registers']
  it.each(operands)(
    'names exactly the products that do not use the matrix unit (left operand: %s)',
    long,
    (left) => expectExact(left, shapes),
  )
  it.each(operands)(
    'names exactly the products that do not use the matrix unit, for a sample of shapes (left operand: %s)',
    (left) =>
      // Every 13th shape is selected. 13 is coprime to the number of extents per axis, so every extent occurs.
      expectExact(
        left,
        shapes.filter((_, n) => n % 13 === 0),
      ),
  )

  it('names a product once if the kernel contains it once, even if a pipeline duplicates the product', () => {
    const { notes } = emit(gemmKernel(f32).record({ world: 1, meta: { BM: 64, BN: 64, BK: 32, stages: 2 } }))
    expect(notes.map(({ at }) => at)).toEqual([expect.stringMatching(/^src\/ops\/gemm\.ts:\d+:\d+$/)])
  })
})

const scaled = (dtype: 'f32' | 'bf16' | 'i64') =>
  kernel(
    'scaled',
    { x: tensor(dtype, 2), y: tensor(dtype, 2) },
    { M: 64, N: 64 },
    (t, { x, y }, { M, N }) => {
      const value = t.load(x.tile([0, 0], [M, N]))
      t.store(
        y.tile([0, 0], [M, N]),
        value
          .to(dtype === i64 ? i64 : f32)
          .add(1)
          .to(dtype),
      )
    },
  )

const onTile = (dtype: 'f32' | 'bf16' | 'i64', M: number, N: number): EmittedKernel =>
  emit(scaled(dtype).record({ world: 1, meta: { M, N } }), [M, N])

describe('notes about fragments', () => {
  it('names the size and the source line of a fragment that does not fit in registers', () => {
    const emitted = onTile('f32', 256, 1024)
    expect(messages(emitted)).toEqual([
      'this 256x1024 f32 fragment has 2048 values per thread, which take 2048 registers; a thread has 255. ' +
        'The remaining values spill to local memory. Use a smaller tile, or more warps in t.roles',
    ])
    expect(emitted.notes[0].at).toMatch(/notes\.test\.ts:\d+:\d+$/)
  })

  it('counts one register for two 16-bit values, and two registers for an i64 value', () => {
    const registers = (dtype: 'bf16' | 'i64'): string[] =>
      messages(onTile(dtype, 128, 512)).map((one) => /\b\d+ registers/.exec(one)![0])
    expect(registers('bf16')).toEqual(['256 registers', '512 registers'])
    expect(registers('i64')).toEqual(['1024 registers'])
  })

  it('ignores fragments that occupy no registers: values computed from indices, and repeated scalars', () => {
    const indexed = kernel('indexed', { y: tensor('i32', 2) }, (t, { y }) => {
      const row = t.arange(1024).expand(1).broadcast([1024, 1024])
      t.store(y.tile([0, 0], [1024, 1024]), row.add(t.arange(1024).expand(0)))
      t.store(y.tile([1, 0], [1024, 1024]), t.full('i32', [1024, 1024], 7))
    })
    expect(messages(emit(indexed.record({ world: 1 })))).toEqual([])
  })

  it('compares the size of a fragment with the registers per thread, which are few in a program with many threads', () => {
    const wide = kernel('wide', { x: tensor(f32, 2) }, (t, { x }) => {
      const tile = x.tile([0, 0], [256, 256])
      t.roles({ work: { warps: 16, body: () => t.store(tile, t.load(tile).mul(2)) } })
    })
    expect(messages(emit(wide.record({ world: 1 })))).toEqual([
      expect.stringContaining('which take 128 registers; a thread has 128.'),
    ])
  })

  it(
    'reports for shipped kernels no spills, and only f32 matrix products that do not use the matrix unit',
    long,
    () => expectNoneNoted(shippedKernels),
  )
  it('reports for a sample of kernels no spills, and only f32 matrix products that do not use the matrix unit', () =>
    expectNoneNoted(shippedKernels.filter(({ name }, place) => isSample([name], place))))

  function expectNoneNoted(kernels: typeof shippedKernels): void {
    const noted = kernels.flatMap((one) => messages(one.emit()).map((message) => [one.name, message]))
    expect(noted.filter(([, message]) => message.includes('registers'))).toEqual([])
    const scalar = noted.map(([name]) => name).filter((name) => !/ f32/.test(name))
    expect(scalar).toEqual([])
  }
})

describe.skipIf(noCompiler)('a kernel that is compiled for sm_90a', () => {
  it('spills registers if and only if one of its notes says so', long, () => {
    const widths = [128, 192, 224, 232, 256, 512]
    // All values of a row are needed before the first value is stored, as in a softmax.
    const held = kernel('held', { x: tensor(f32, 2) }, { N: 64 }, (t, { x }, { N }) => {
      const value = t.load(x.tile([0, 0], [128, N]))
      t.store(x.tile([0, 0], [128, N]), value.div(value.sum(1).expand(1)))
    })
    const emitted = widths.map((N) => emit(held.record({ world: 1, meta: { N } }), [128, N]))
    const spills = compileTogether(emitted).map(({ properties }) => properties !== NO_SPILLS)
    expect(spills).toEqual(emitted.map((one) => one.notes.length > 0))
    expect(spills).toEqual([false, false, false, true, true, true])
  })
})

describe('the header', () => {
  const header = (emitted: EmittedKernel): string =>
    bodyOf(emitted).slice(0, bodyOf(emitted).indexOf('extern'))
  const two = kernel('two', { a: tensor(f32, 2), b: tensor(f32, 1) }, { B: 16 }, (t, { a, b }, { B }) => {
    t.store(
      a.tile([0, 0], [B, B]),
      t
        .load(b.tile([0], [B]))
        .expand(1)
        .broadcast([B, B]),
    )
  })
  const text = (facts: Parameters<typeof emitCuda>[1]): string =>
    header(emitCuda(lower(two.record({ world: 4 })), facts))

  it('states what the emitted text assumes about the arguments and about the world', () => {
    expect(text({ tensors: { a: factsOf([48, 4096]), b: factsOf([0]) }, record: true })).toBe(
      [
        '// two, for 4 ranks; B = 16',
        '// Assumes, for sm_90a:',
        '//   a: starts at a multiple of 16 bytes; extents are multiples of [16, 1024]; 1 to 2^31 - 1 elements',
        '//   b: starts at a multiple of 16 bytes; extents are multiples of [1024]; fewer than 2^31 elements',
        '//   ranks: may be on several devices; recording: on',
        '',
      ].join('\n'),
    )
  })

  it('states that a tensor may have any address or any extents if the text assumes nothing about them', () => {
    const large = { divisors: [1, 1], small: false, filled: true }
    expect(text({ tensors: { a: large }, oneDevice: true })).toContain(
      [
        '//   a: starts at a multiple of 16 bytes; any extents; at least 1 element',
        '//   b: any address; any extents',
        '//   ranks: all on one device; recording: off',
      ].join('\n'),
    )
  })

  it('is the only difference between kernels whose facts have no effect on the code, and such kernels are compiled once', () => {
    const emitted = (rows: number): EmittedKernel =>
      emitCuda(lower(two.record({ world: 4 })), { tensors: { a: factsOf([rows, 4096]), b: factsOf([16]) } })
    expect(emitted(48).source).not.toBe(emitted(1024).source)
    expect(emitted(48).code).toBe(emitted(1024).code)
    expect(emitted(48).code).not.toContain('.ts:')
    const bare = (text: string): string => text.replace(/\/\/.*$/gm, '').replace(/\s+/g, ' ')
    expect(bare(emitted(48).code)).toBe(bare(emitted(48).source))
  })

  it('has the notes', () => {
    const emitted = product('f8e4m3', {})
    const [{ at, message }] = emitted.notes
    expect(header(emitted)).toContain(`// note: ${at}: ${message}\n`)
  })
})
