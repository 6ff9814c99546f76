/** Runs Flash Decode, every variant, under the checker at small sizes. */
import { describe, it } from 'vitest'
import { flashDecode, type FlashDecodeOptions } from '../../../src/ops/flashDecode/index.ts'
import { operandDTypes } from '../../../src/operation/definition.ts'
import { expectClean, repeated } from '../clean.ts'
import { choices } from './choices.ts'
import { withLengths } from './lengths.ts'
import { itForSome, long } from '../../long.ts'

const shape = { batch: 2, queryHeads: 2, kvHeads: 1, D: 2, tokens: 5 }
const tiles = { BN: 2, stages: 2 }

type Given = Pick<FlashDecodeOptions, 'variant'> & Partial<FlashDecodeOptions>
interface Setting {
  readonly launches?: number
  readonly residency?: number
  readonly lengths?: (rank: number, entry: number, round: number) => number
}

function subject(ranks: number, given: Given, setting: Setting = {}) {
  const options = { shape, dtype: 'f32', tiles, grid: 1, ...given } as const
  const {
    launches = 3,
    residency,
    lengths = (rank, entry, round) => [5, 2, 4, 1][(rank + entry + round) % 4],
  } = setting
  return repeated(ranks, (world) => flashDecode(world, options), {
    contents: (random, round) =>
      withLengths(
        random,
        (rank, entry) => Math.min(lengths(rank, entry, round), options.shape.tokens),
        options.shape,
      ),
    factor: 'v',
    tolerance: { f32: 1e-5, f16: 2e-3, bf16: 2e-2 }[options.dtype],
    launches,
    residency,
  })
}

describe.each(choices.map((one, place) => [...one, place] as const))('%s', (_, choice, place) => {
  // Each choice of options runs half of the short tests: choices with even numbers one half, odd ones the other half.
  const isEven = place % 2 === 0
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)(
    'on %i ranks with ragged lengths, three launches in a row',
    async (ranks) => {
      await expectClean(subject(ranks, choice), { schedules: 12 / ranks, limit: 12 / ranks })
    },
  )

  it('with two programs per rank', isEven ? {} : long, async () => {
    await expectClean(subject(2, { ...choice, grid: 2 }))
  })

  itForSome(operandDTypes, (dtype) => !isEven && dtype === 'bf16')('in %s', async (dtype) => {
    await expectClean(subject(2, { ...choice, dtype }, { launches: 2 }), { schedules: 3, limit: 3 })
  })

  const ragged = [
    ['an empty shard', (rank: number) => (rank === 1 ? 0 : 3)],
    ['an empty shard of one batch entry', (rank: number, entry: number) => (rank === entry ? 0 : 4)],
    ['no tokens at all, then some', (_rank: number, _entry: number, round: number) => 3 * round],
    ['a batch entry without tokens', (_rank: number, entry: number) => 4 * entry],
    ['one token on one rank', (rank: number) => (rank === 0 ? 1 : 0)],
  ] as const
  itForSome(ragged, (_one, n) => isEven && n === 1)('with %s', async ([, lengths]) => {
    await expectClean(subject(3, choice, { lengths, launches: 2 }), { schedules: 3, limit: 3 })
  })

  const odd = [
    ['one head of one element', { batch: 1, queryHeads: 1, kvHeads: 1, D: 1, tokens: 1 }, 2],
    ['more kv heads than ranks', { batch: 1, queryHeads: 6, kvHeads: 3, D: 3, tokens: 3 }, 2],
    ['a batch of three', { batch: 3, queryHeads: 3, kvHeads: 1, D: 2, tokens: 4 }, 3],
  ] as const
  itForSome(odd, ([name]) => !isEven && name === 'more kv heads than ranks')(
    'of %s',
    async ([, shape, ranks]) => {
      await expectClean(subject(ranks, { ...choice, shape }, { launches: 2 }), { schedules: 3, limit: 3 })
    },
  )

  it('with a sequence in three parts on each rank, some empty', async () => {
    await expectClean(subject(2, { ...choice, tiles: { ...tiles, splits: 3 }, grid: 2 }), {
      schedules: 4,
      limit: 4,
    })
  })

  it('on eight ranks', long, async () => {
    const small = { ...shape, batch: 1, queryHeads: 1, D: 1, tokens: 2 }
    await expectClean(subject(8, { ...choice, shape: small }, { launches: 2 }), { schedules: 3, limit: 3 })
  })

  it('with one program resident on a rank', long, async () => {
    await expectClean(subject(2, { ...choice, grid: 'resident' }, { residency: 1 }))
  })
})

it('fused with stealing on one rank, which has no peers to steal from', async () => {
  await expectClean(subject(1, { variant: 'fused', stealing: true, tiles: { ...tiles, splits: 2 } }))
})
