/**
 * Stores partial results in memory: the outbox of a rank's own partial results, and the inbox with the partial results
 * of all ranks. Each (batch, kv head) tile has several partial results, called parts. A part has the number source rank
 * x splits + split. With work stealing, the number of a part is split x ranks + source rank.
 *
 *   sums    [slots, parts x batch x kv heads, G, D]
 *   stats   [slots, parts x batch x kv heads, 2, G]: maximum and sum of the softmax
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import { tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import type { Flags, Tensor } from '../../lang/tensor.ts'
import type { Fragment, Index, Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'
import { merge, normalised, nothing, type AttentionMeta, type Partial } from './attention.ts'

export const partialParams = { sums: tensor(f32, 4), stats: tensor(f32, 4) }
/**
 * Declares the parameters for partial results, as `partialParams` does, but for inboxes with one flag per partial
 * result. A target may store the flag of a partial result in the data words themselves (flag-in-data).
 */
export const carryingParams = (flags: string) => ({
  sums: tensor(f32, 4, { carries: flags }),
  stats: tensor(f32, 4, { carries: flags }),
})
export interface Partials {
  readonly sums: Tensor<'f32', 4>
  readonly stats: Tensor<'f32', 4>
}
type Extents = Pick<AttentionMeta, 'G' | 'D'>

/** The slot (0 or 1) of an inbox with two slots. The slot is the parity of the flags' epoch in this launch. */
export const slotOf = (t: Program, arrived: Flags, side: 'signal' | 'wait'): Scalar =>
  t.epoch(arrived, side).mod(2).to(i32)

/** The tiles in memory that hold one partial result. */
function placesOf({ sums, stats }: Partials, slot: Index, at: Scalar, { G, D }: Extents) {
  const both = stats.pick(slot).pick(at)
  return {
    sums: sums.pick(slot).pick(at).tile([0, 0], [G, D]),
    stats: both.tile([0, 0], [2, G]),
    m: both.pick(0).tile([0], [G]),
    l: both.pick(1).tile([0], [G]),
  }
}

export const on = ({ sums, stats }: Partials, rank: Scalar): Partials => ({
  sums: sums.on(rank),
  stats: stats.on(rank),
})

export function store(
  t: Program,
  to: Partials,
  slot: Index,
  at: Scalar,
  part: Partial,
  extents: Extents,
): void {
  const places = placesOf(to, slot, at, extents)
  t.store(places.sums, part.acc)
  t.store(places.m, part.m)
  t.store(places.l, part.l)
}

/** Copies a partial result from slot 0 of one buffer to a given slot of another buffer. */
export function forward(
  t: Program,
  from: Partials,
  fromAt: Scalar,
  to: Partials,
  slot: Index,
  toAt: Scalar,
  extents: Extents,
): void {
  const [source, target] = [placesOf(from, 0, fromAt, extents), placesOf(to, slot, toAt, extents)]
  t.put(source.sums, target.sums)
  t.put(source.stats, target.stats)
}

type Arrival = (part: Scalar, b: Scalar, h: Scalar) => void
/** Maps the number of a partial result to the buffer that holds it, and to its number in that buffer. */
export type Source = (part: Scalar) => { readonly from: Partials; readonly part: Scalar }
interface PartsMeta extends Extents {
  readonly splits: number | Scalar
}

/**
 * Merges all partial results of each (batch, kv head) tile. The order of merging is the same on every rank, so all ranks get
 * the same bits. The function `arrival` waits for a partial result, unless all are known to have arrived. With 'each', the
 * program waits for each partial result before merging it. With 'together', the program first waits for all partial results
 * of a tile. With 'together', a GPU can poll all flags at once, and load one partial result while it merges another.
 */
export function combine(
  t: Program,
  from: Partials | Source,
  slot: Index,
  out: Tensor<OperandDType, 4>,
  meta: PartsMeta,
  arrival?: Arrival,
  when: 'each' | 'together' = 'each',
): void {
  const { G, D } = meta
  const [batch, heads] = [out.dim(0), out.dim(1)]
  t.persistent([batch, heads], ([b, h]) => {
    const whole = combined(t, from, slot, [b, h], [batch, heads], meta, arrival, when)
    t.copy(whole.to(out.dtype), out.pick(b).pick(h).tile([0, 0], [G, D]))
  })
}

/** The result of one (batch, kv head), merged from all its partial results. */
export function combined(
  t: Program,
  from: Partials | Source,
  slot: Index,
  [b, h]: readonly [Scalar, Scalar],
  [batch, heads]: readonly [Scalar, Scalar],
  meta: PartsMeta,
  arrival?: Arrival,
  when: 'each' | 'together' = 'each',
): Fragment<'f32', 2> {
  const parts = typeof meta.splits === 'number' ? t.world * meta.splits : meta.splits.mul(t.world)
  const sourceOf: Source = typeof from === 'function' ? from : (part) => ({ from, part })
  const placesOfPart = (number: Scalar) => {
    const { from, part } = sourceOf(number)
    return placesOf(from, slot, part.mul(batch).add(b).mul(heads).add(h), meta)
  }
  const { m, l, acc } = nothing(t, meta)
  if (arrival && when === 'each') {
    const whole = t.for(parts, { m, l, acc }, (part, state) => {
      arrival(part, b, h)
      const places = placesOfPart(part)
      return merge(state, { m: t.load(places.m), l: t.load(places.l), acc: t.load(places.sums) })
    })
    return normalised(t, whole)
  }
  if (arrival) t.for(parts, (part) => arrival(part, b, h))
  // All partial results are present at this point. Each partial result is weighted only once, relative to the largest
  // maximum, so that no merge depends on the previous merge.
  const largest = t.for(parts, m, (part, m) => m.max(t.load(placesOfPart(part).m)))
  const whole = t.for(parts, { l, acc }, (part, { l, acc }) => {
    const places = placesOfPart(part)
    const weight = t.load(places.m).sub(largest).exp2()
    return {
      l: l.add(t.load(places.l).mul(weight)),
      acc: acc.add(t.load(places.sums).mul(weight.expand(1))),
    }
  })
  return normalised(t, whole)
}
