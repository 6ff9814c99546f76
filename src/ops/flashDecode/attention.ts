/**
 * Computes attention of one token over this rank's section of a KV cache, with an online softmax over tiles of keys and
 * values. The attention of a section is partial and can be merged with the partial results of other sections of the sequence.
 *
 *   q, out   [batch, kv heads, G, D]: G query heads share a kv head
 *   k, v     [batch, kv heads, capacity, D], of which `lengths[batch]` tokens exist; 0 is allowed
 *
 * Scores are exponents of base 2 in the attention kernels. The initial maximum is -1e30, because -1e30 can be
 * subtracted from itself and -Infinity cannot.
 */
import { f32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Tensor } from '../../lang/tensor.ts'
import type { Fragment, Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'

const NOTHING = -1e30

export interface Cache {
  readonly q: Tensor<OperandDType, 4>
  readonly k: Tensor<OperandDType, 4>
  readonly v: Tensor<OperandDType, 4>
  readonly lengths: Tensor<'i32', 1>
}
/**
 * The partial result of each query head: the largest score `m`, the sum `l` of exponentials relative to `m`, and the
 * weighted sum `acc` of values.
 */
export interface Partial {
  readonly m: Fragment<'f32', 1>
  readonly l: Fragment<'f32', 1>
  readonly acc: Fragment<'f32', 2>
}
export interface AttentionMeta {
  readonly G: number
  readonly D: number
  /** The number of tokens per tile of keys and values. */
  readonly BN: number
  readonly stages: number
  readonly scale: number
  /** The number of splits into which a rank's sequence is divided; attention is computed for each split independently. */
  readonly splits: number
  /**
   * The number of programs among which a rank's cache is divided stream-K style (parts.ts). With 0 shares, each program
   * takes whole splits of the sequence.
   */
  readonly programs: number
}
export const attentionMeta = {
  ...{ G: 16, D: 128, BN: 64, stages: 2 },
  ...{ scale: 0.08838834764831845, splits: 1, programs: 0 },
}

export function nothing(t: Program, { G, D }: Pick<AttentionMeta, 'G' | 'D'>) {
  return { m: t.full(f32, [G], NOTHING), l: t.zeros(f32, [G]), acc: t.zeros(f32, [G, D]) }
}

/** Merges the partial results of two sections of a sequence. A section without tokens has weight 0. */
export function merge(one: Partial, other: Partial) {
  const m = one.m.max(other.m)
  const [kept, added] = [one.m.sub(m).exp2(), other.m.sub(m).exp2()]
  return {
    m,
    l: one.l.mul(kept).add(other.l.mul(added)),
    acc: one.acc.mul(kept.expand(1)).add(other.acc.mul(added.expand(1))),
  }
}

/**
 * Selects the tokens for attention. The field `owner` is the rank whose cache is read; by default, this rank. The field
 * `splits` overrides the number of splits. The fields `first` and `most` select tokens by number rather than by split.
 */
export interface Where {
  readonly owner?: Scalar
  readonly splits?: Scalar
  readonly first?: Scalar
  readonly most?: Scalar
}

/**
 * Declares the shared tiles at the top of a kernel. Returns a function that computes the attention over one split of a
 * (batch, kv head).
 */
export function attention(
  t: Program,
  { q, k, v, lengths }: Cache,
  meta: AttentionMeta,
): (b: Scalar, h: Scalar, split: Scalar, where?: Where) => Partial {
  const { G, D, BN, stages, scale } = meta
  const ks = t.shared(k.dtype, [BN, D])
  const vs = t.shared(v.dtype, [BN, D])
  return (b, h, split, { owner, splits = meta.splits, first: start, most } = {}) => {
    const query = t.load(q.pick(b).pick(h).tile([0, 0], [G, D]))
    const held = owner === undefined ? { k, v, lengths } : cacheOn(owner, { k, v, lengths })
    const length = t.load(held.lengths.at([b]))
    const [first, count] = start && most ? within(length, start, most) : splitOf(length, split, splits, BN)
    const keys = held.k.pick(b).pick(h).slice(0, first, count)
    const values = held.v.pick(b).pick(h).slice(0, first, count)
    return t.pipeline(
      [ceilDiv(count, BN)],
      nothing(t, meta),
      ([j], { m, l, acc }) => {
        t.copy(keys.tile([j, 0], [BN, D]), ks)
        t.copy(values.tile([j, 0], [BN, D]), vs)
        const token = t.arange(BN).add(j.mul(BN)).expand(0).broadcast([G, BN])
        const scores = t.dot(query, ks.transpose(), t.zeros(f32, [G, BN])).mul(scale * Math.LOG2E)
        const masked = token.lt(count).select(scores, NOTHING)
        const next = m.max(masked.maximum(1))
        const p = masked.sub(next.expand(1)).exp2()
        const kept = m.sub(next).exp2()
        return {
          m: next,
          l: l.mul(kept).add(p.sum(1)),
          acc: t.dot(p.to(v.dtype), vs, acc.mul(kept.expand(1))),
        }
      },
      { stages },
    )
  }
}

const cacheOn = (owner: Scalar, { k, v, lengths }: Omit<Cache, 'q'>): Omit<Cache, 'q'> => ({
  k: k.on(owner),
  v: v.on(owner),
  lengths: lengths.on(owner),
})

/**
 * The range of tokens in one split. Every split except the last nonempty one consists of whole tiles, and the last
 * splits may be empty.
 */
function splitOf(
  length: Scalar,
  split: Scalar,
  splits: number | Scalar,
  BN: number,
): readonly [first: Scalar | 0, count: Scalar] {
  if (typeof splits === 'number' && splits === 1) return [0, length]
  const more = typeof splits === 'number' ? splits - 1 : splits.sub(1)
  const most = ceilDiv(length, BN).add(more).div(splits).mul(BN)
  return within(length, split.mul(most), most)
}

/** Clips the range of `most` tokens that starts at `start` to the tokens that exist. */
function within(length: Scalar, start: Scalar, most: Scalar): readonly [first: Scalar, count: Scalar] {
  const first = start.min(length)
  return [first, length.sub(first).min(most)]
}

/**
 * The attention result of the whole sequence, from its merged partial results. The attention result is 0 if the
 * sequence has no tokens.
 */
export function normalised(t: Program, { l, acc }: Pick<Partial, 'l' | 'acc'>): Fragment<'f32', 2> {
  const one = t.full(f32, l.shape as [number], 1)
  return acc.mul(one.div(l.gt(0).select(l, 1)).expand(1))
}
