/**
 * Tests the recognition of operations in the chains of a trace: the chains that are recognised, with their options, and
 * the chains that are not.
 */
import { describe, expect, it } from 'vitest'
import { dtypeCalled, layoutOf, operationCalled, shapesOf } from '../../src/cli/benchOptions.ts'
import { allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import { flashDecodeOperation } from '../../src/ops/flashDecode/index.ts'
import { recogniseNormGatherGemm } from '../../src/ops/normGatherGemm/recognise.ts'
import { operations, recognisers } from '../../src/ops/operations.ts'
import { RankTraffic } from '../../src/taxes/rankTraffic.ts'
import { recognised as recognisedBy, type Recogniser } from '../../src/taxes/recognition.ts'
import { Kind } from '../../src/timeline/timeline.ts'
import { timelineOf, type Work } from '../taxes/work.ts'

type Call = Pick<Work, 'operator' | 'shapes' | 'type'>
interface Chain {
  readonly before: Call
  readonly kind: string
  readonly communication: Work['communication']
  /** The operator call of the collective. */
  readonly called?: Call
  readonly after: Call
}

/** The recognised operation for a kernel, a collective and a kernel that follow each other. */
function recognised(
  { before, kind, communication, called, after }: Chain,
  by: readonly Recogniser[] = recognisers,
) {
  const { ranks, names } = timelineOf([
    [
      { from: 0, to: 20, ...before },
      {
        from: 25,
        to: 55,
        kind: Kind.communication,
        communication: { collective: kind, ...communication },
        ...called,
      },
      { from: 60, to: 80, ...after },
    ],
  ])
  const { from } = ranks[0].tracks[0]
  return recognisedBy(by, ranks[0], new RankTraffic(ranks[0], names), [from, from + 1, from + 2], kind)
}

const spelled = {
  f32: { operand: 'float', message: 'Float' },
  f16: { operand: 'c10::Half', message: 'Half' },
  bf16: { operand: 'c10::BFloat16', message: 'BFloat16' },
} as const
type Spelled = keyof typeof spelled

interface Gathering {
  readonly M: number
  readonly N: number
  readonly K: number
  readonly ranks: number
  readonly shard: 'K' | 'M'
  readonly dtype: Spelled
}
/** A chain of kernels: an all-gather of the previous kernel's output, followed by a matrix product. */
function gathering({ M, N, K, ranks, shard, dtype }: Gathering, before?: Partial<Call>): Chain {
  const { operand, message } = spelled[dtype]
  const slice = shard === 'K' ? [M, K / ranks] : [M / ranks, K]
  return {
    before: { operator: 'aten::mul', shapes: [slice, slice], type: operand, ...before },
    kind: 'allGather',
    communication: {
      dtype: message,
      elementsIn: (M * K) / ranks,
      elementsOut: M * K,
      groupSize: ranks,
    },
    after: { operator: 'aten::mm', shapes: [[M, K], [K, N]], type: operand }, // prettier-ignore
  }
}
const usual: Gathering = { M: 96, N: 40, K: 80, ranks: 4, shard: 'K', dtype: 'bf16' }

describe('all-gather and product', () => {
  const all = (['K', 'M'] as const).flatMap((shard) =>
    (['f32', 'f16', 'bf16'] as const).map((dtype): [Gathering] => [{ ...usual, shard, dtype }]),
  )
  it.each(all)('%j', (one) => {
    expect(recognised(gathering(one))).toEqual({
      name: 'allGatherGemm',
      shapes: `M=96, N=40, K=80, ${one.dtype}, shard ${one.shard} over 4 ranks`,
      command: `arke bench all-gather-gemm --shape M=96,N=40,K=80 --dtype ${one.dtype} --layout shard=${one.shard} --ranks 4`,
    })
  })

  it('with rows in several extents, a transposed operand, a bias', () => {
    const chain = gathering({ ...usual, shard: 'M' }, { shapes: [[2, 12, 80], [2, 12, 80]] }) // prettier-ignore
    const expected = recognised(gathering({ ...usual, shard: 'M' }))
    const after = (operator: string, shapes: number[][]): Chain => ({ ...chain, after: { operator, shapes } })
    expect(recognised(after('aten::linear', [[2, 48, 80], [40, 80]]))).toEqual(expected) // prettier-ignore
    expect(recognised(after('aten::addmm', [[40], [96, 80], [80, 40]]))).toEqual(expected) // prettier-ignore
    const sizeless = { ...chain, communication: { ...chain.communication, groupSize: null } }
    expect(recognised(sizeless)).toEqual(expected)
  })

  it('where the arguments of the all-gather show its slices', () => {
    const chain = gathering(usual, { shapes: undefined })
    expect(recognised(chain)).toBeNull()
    const called = { operator: 'c10d::_allgather_base_', shapes: [[96, 80], [96, 20]] } // prettier-ignore
    expect(recognised({ ...chain, called })).toEqual(recognised(gathering(usual)))
  })

  const chain = gathering(usual)
  const message = (more: Work['communication']): Chain => ({
    ...chain,
    communication: { ...chain.communication, ...more },
  })
  it.each<[string, Chain]>([
    ['another size', { ...chain, after: { ...chain.after, shapes: [[96, 60], [60, 40]] } }], // prettier-ignore
    ['another type of the product', { ...chain, after: { ...chain.after, type: 'float' } }],
    ['another type of the message', message({ dtype: 'Float' })],
    ['a type that is not multiplied', gatheringOf('double', 'Double')],
    ['another operator', { ...chain, after: { operator: 'aten::add', shapes: [[96, 80]] } }],
    ['a product of many matrices', { ...chain, after: { operator: 'aten::bmm', shapes: [[4, 24, 80], [4, 80, 40]] } }], // prettier-ignore
    ['another collective', { ...chain, kind: 'broadcast' }],
    ['ranks that do not divide it', message({ groupSize: 7 })],
    ['slices of neither axis', gathering(usual, { shapes: [[48, 40], [48, 40]] })], // prettier-ignore
    ['slices that nothing tells', gathering(usual, { shapes: [[1920], [1920]] })], // prettier-ignore
    ['no shapes', { ...chain, after: { operator: 'aten::mm' } }],
  ])('not with %s', (_, wrong) => {
    expect(recognised(wrong)).toBeNull()
  })

  function gatheringOf(operand: string, type: string): Chain {
    const { before, after, communication, kind } = gathering(usual)
    return {
      kind,
      before: { ...before, type: operand },
      communication: { ...communication, dtype: type },
      after: { ...after, type: operand },
    }
  }
})

describe('attention of one token', () => {
  const decoding = (
    operator: string,
    shapes: number[][],
    dtype: Spelled = 'bf16',
    elements = 3 * 12 * 64,
  ): Chain => ({
    before: { operator, shapes, type: spelled[dtype].operand },
    kind: 'allGather',
    communication: { dtype: 'Float', elementsIn: elements, elementsOut: 4 * elements, groupSize: 4 },
    after: { operator: 'aten::sum' },
  })
  const cache = [3, 4, 500, 64]
  const query = [3, 12, 1, 64]
  const scaled = 'aten::scaled_dot_product_attention'
  const extents = 'batch=3,queryHeads=12,kvHeads=4,D=64'

  it.each(['f32', 'f16', 'bf16'] as const)('and its gathering, in %s', (dtype) => {
    expect(recognised(decoding(scaled, [query, cache, cache], dtype))).toEqual({
      name: 'flashDecode',
      shapes: `batch=3, queryHeads=12, kvHeads=4, D=64, tokens=500, ${dtype} over 4 ranks`,
      command: `arke bench flash-decode --shape ${extents},tokens=500 --dtype ${dtype} --ranks 4`,
    })
  })

  it('in other layouts, followed by an all-reduce, with a paged cache', () => {
    const expected = recognised(decoding(scaled, [query, cache, cache]))
    const flat = [3, 500, 4, 64]
    const flash = decoding('flash_attn::_flash_attn_forward', [[3, 1, 12, 64], flat, flat])
    expect(recognised(flash)).toEqual(expected)
    expect(recognised({ ...flash, kind: 'allReduce' })).toEqual(expected)
    const [out, pages] = [[3, 12, 64], [77, 4, 8, 16, 8]] // prettier-ignore
    const command = `arke bench flash-decode --shape ${extents} --dtype bf16 --ranks 4`
    expect(recognised(decoding('_C::paged_attention_v1', [out, out, pages, pages]))).toMatchObject({
      command,
    })
  })

  it.each<[string, Chain]>([
    ['more tokens', decoding(scaled, [[3, 12, 2, 64], cache, cache], 'bf16', 2 * 3 * 12 * 64)],
    ['another message', decoding(scaled, [query, cache, cache], 'bf16', 100)],
    ['another collective', { ...decoding(scaled, [query, cache, cache]), kind: 'reduceScatter' }],
    ['heads that do not go into groups', decoding(scaled, [query, [3, 5, 500, 64], [3, 5, 500, 64]])],
    [
      'extents that are not told apart',
      decoding('flash_attn::_flash_attn_varlen_forward', [query, cache, cache]),
    ],
  ])('not with %s', (_, wrong) => {
    expect(recognised(wrong)).toBeNull()
  })
})

describe('layer norm, all-gather of rows and product', () => {
  const by: readonly Recogniser[] = [
    ...recognisers,
    { name: 'normGatherGemm', recognise: recogniseNormGatherGemm },
  ]
  const rows: Gathering = { ...usual, shard: 'M' }
  const norm = (operator: string, weights: number[], of: number[] = [24, 80]): Partial<Call> => ({
    operator,
    shapes: [of, [], weights],
  })

  it.each(['f32', 'f16', 'bf16'] as const)('in %s', (dtype) => {
    expect(recognised(gathering({ ...rows, dtype }, norm('aten::native_layer_norm', [80])), by)).toEqual({
      name: 'normGatherGemm',
      shapes: `M=96, N=40, K=80, ${dtype} over 4 ranks`,
      command: `arke bench norm-gather-gemm --shape M=96,N=40,K=80 --dtype ${dtype} --ranks 4`,
    })
  })

  it.each<[string, Gathering, Partial<Call>]>([
    ['RMS norm', rows, norm('aten::rms_norm', [80])],
    ['a norm over two extents', rows, norm('aten::layer_norm', [24, 80])],
    ['a norm without weights', rows, { operator: 'aten::layer_norm', shapes: [[24, 80]] }],
    ['slices along K', usual, norm('aten::layer_norm', [20], [96, 20])],
  ])('not with %s, which is a gathering all the same', (_, shape, before) => {
    expect(recognised(gathering(shape, before), by)?.name).toBe('allGatherGemm')
  })
})

describe('product and reduce-scatter', () => {
  /** A product of one rank's slices along K, whose M x N elements are scattered along M. */
  const scattering = (dtype: Spelled = 'bf16', more: Work['communication'] = {}): Chain => ({
    before: { operator: 'aten::mm', shapes: [[96, 20], [20, 40]], type: spelled[dtype].operand }, // prettier-ignore
    kind: 'reduceScatter',
    communication: {
      ...{ dtype: spelled[dtype].message, groupSize: 4 },
      ...{ elementsIn: 96 * 40, elementsOut: 24 * 40 },
      ...more,
    },
    after: { operator: 'aten::native_layer_norm', shapes: [[24, 40], [], [40]], type: spelled[dtype].operand }, // prettier-ignore
  })

  it.each(['f32', 'f16', 'bf16'] as const)('in %s', (dtype) => {
    expect(recognised(scattering(dtype))).toEqual({
      name: 'gemmReduceScatter',
      shapes: `M=96, N=40, K=80, ${dtype}, scatter M over 4 ranks`,
      command: `arke bench gemm-reduce-scatter --shape M=96,N=40,K=80 --dtype ${dtype} --layout scatter=M --ranks 4`,
    })
  })

  it('whatever follows, and where the trace does not state the number of ranks', () => {
    const expected = recognised(scattering())
    expect(recognised({ ...scattering(), after: {} })).toEqual(expected)
    expect(recognised(scattering('bf16', { groupSize: null }))).toEqual(expected)
  })

  const chain = scattering()
  it.each<[string, Chain]>([
    ['another size', scattering('bf16', { elementsIn: 96 * 20, elementsOut: 24 * 20 })],
    ['another type of the message', scattering('bf16', { dtype: 'Float' })],
    ['another collective', { ...chain, kind: 'allReduce' }],
    ['another operator', { ...chain, before: { ...chain.before, operator: 'aten::mul' } }],
    ['ranks that do not divide the rows', scattering('bf16', { groupSize: 7 })],
    ['no shapes', { ...chain, before: { operator: 'aten::mm' } }],
  ])('not with %s', (_, wrong) => {
    expect(recognised(wrong)).toBeNull()
  })
})

describe('the result of a recogniser', () => {
  it('is accepted by the command and by the operation', () => {
    const scaled = [[3, 12, 1, 64], [3, 4, 500, 64], [3, 4, 500, 64]] // prettier-ignore
    const decode: Chain = {
      before: { operator: 'aten::scaled_dot_product_attention', shapes: scaled, type: 'c10::Half' },
      kind: 'allGather',
      communication: { dtype: 'Half', elementsIn: 3 * 12 * 64, elementsOut: 2 * 3 * 12 * 64 },
      after: { operator: 'aten::sum' },
    }
    for (const [chain, definition, shape] of [
      [gathering({ ...usual, shard: 'M', dtype: 'f16' }), allGatherGemmOperation, { M: 96, N: 40, K: 80 }],
      [decode, flashDecodeOperation, { batch: 3, queryHeads: 12, kvHeads: 4, D: 64, tokens: 500 }],
    ] as const) {
      const words = recognised(chain)?.command.split(' ') ?? []
      const option = (name: string): string | undefined =>
        words.includes(`--${name}`) ? words[words.indexOf(`--${name}`) + 1] : undefined
      const known = operationCalled(words[2])
      expect(known.name).toBe(definition.name)
      expect(shapesOf(known, option('shape'), undefined)).toEqual([shape])
      expect(dtypeCalled(option('dtype') ?? '')).toBe('f16')
      const layout = option('layout')
      expect(layoutOf(known, { layout: layout === undefined ? [] : [layout] })).toEqual(
        'shard' in definition.defaults ? { shard: 'M' } : {},
      )
    }
  })

  it('comes from the definitions of the operations', () => {
    const recognising = operations.filter(({ recognise }) => recognise)
    expect(recognisers).toEqual(recognising.map(({ name, recognise }) => ({ name, recognise })))
  })
})
