/**
 * Implements three variants of Flash Decode that use three kernels each. The three kernels compute attention over this
 * rank's shard, gather the partial results of all ranks, and combine them. The three gather kernels differ in what the
 * next kernel has to wait for.
 *
 *   bulk          sends after every rank has entered, and ends when every rank has everything
 *   gather        sends to each rank that has combined its previous parts, and ends when every rank has everything
 *   fineGrained   sends immediately, into the slot of the epoch's parity, and signals one flag per partial result
 *
 *   arrived       [rank], or [part, batch, kv head]: the data of that rank, or that partial result, is in the inbox
 *   done          [rank]: that rank has combined the parts that it received
 *
 * In `fineGrained`, the combine kernel waits for one partial result at a time. The fine-grained gather kernels need no
 * credits. Every rank receives a signal from every other rank in each launch. A sender overwrites an inbox slot two
 * launches after it was written. When a sender overwrites an inbox slot, the reader has already begun a later launch.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import type { Tensor } from '../../lang/tensor.ts'
import type { Index, Scalar } from '../../lang/value.ts'
import { announce, leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { attention, attentionMeta } from './attention.ts'
import { combine, forward, on, partialParams, slotOf, store, type Partials } from './partials.ts'
import { eachPart } from './parts.ts'

const { G, D, splits } = attentionMeta
const extents = { G, D, splits }

/** Stores this rank's partial results into slot 0 of its own `sums` and `stats`. */
export const attendKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeAttend',
    {
      q: tensor(dtype, 4),
      k: tensor(dtype, 4),
      v: tensor(dtype, 4),
      lengths: tensor(i32, 1),
      ...partialParams,
    },
    attentionMeta,
    (t, { q, k, v, lengths, sums, stats }, meta) => {
      const [batch, heads] = [q.dim(0), q.dim(1)]
      const attend = attention(t, { q, k, v, lengths }, meta)
      eachPart(t, { q, k }, meta, (b, h, split, where) => {
        const at = split.mul(batch).add(b).mul(heads).add(h)
        store(t, { sums, stats }, 0, at, attend(b, h, split, where), meta)
      })
    },
  ),
)

/** The parameters of the gather kernels: this rank's partial results, and the partial results of all ranks. */
const gathering = {
  sums: partialParams.sums,
  stats: partialParams.stats,
  allSums: partialParams.sums,
  allStats: partialParams.stats,
}
interface Gathering extends Partials {
  readonly allSums: Tensor<'f32', 4>
  readonly allStats: Tensor<'f32', 4>
}

/**
 * Sends each partial result of this rank to every rank. The functions `before` and `after` are called around each
 * transfer of a partial result.
 */
function sendEach(
  t: Program,
  { sums, stats, allSums, allStats }: Gathering,
  slot: Index,
  meta: { readonly G: number; readonly D: number },
  before: (peer: Scalar) => void = () => undefined,
  after: (peer: Scalar, n: Scalar) => void = () => undefined,
): void {
  const own = sums.dim(1)
  t.persistent([t.world, own], ([step, n]) => {
    const peer = t.rank.add(step).add(1).mod(t.world)
    before(peer)
    const to = on({ sums: allSums, stats: allStats }, peer)
    forward(t, { sums, stats }, n, to, slot, t.rank.mul(own).add(n), meta)
    after(peer, n)
  })
}

export const bulkGatherKernel = kernel(
  'flashDecodeBulkGather',
  { ...gathering, entered: flags(1), left: flags(1) },
  { G, D },
  (t, { entered, left, ...partials }, meta) => {
    announce(t, entered)
    sendEach(t, partials, 0, meta, (peer) => t.wait(entered.at([peer])))
    leaveTogether(t, left)
  },
)

export const gatherKernel = kernel(
  'flashDecodeGather',
  { ...gathering, arrived: flags(1), done: flags(1) },
  { G, D },
  (t, { arrived, done, ...partials }, meta) => {
    sendEach(t, partials, 0, meta, (peer) => t.wait(done.at([peer]), { lag: 1 }))
    leaveTogether(t, arrived)
  },
)

export const fineGrainedGatherKernel = kernel(
  'flashDecodeFineGrainedGather',
  { ...gathering, arrived: flags(3) },
  extents,
  (t, { arrived, ...partials }, meta) => {
    const [batch, heads] = [arrived.dim(1), arrived.dim(2)]
    sendEach(t, partials, slotOf(t, arrived, 'signal'), meta, undefined, (peer, n) => {
      const tile = n.mod(batch.mul(heads))
      const part = t.rank.mul(meta.splits).add(n.div(batch.mul(heads)))
      t.signal(arrived.on(peer).at([part, tile.div(heads), tile.mod(heads)]))
    })
  },
)

/**
 * Combines partial results after `bulkGatherKernel`. All partial results have arrived when this kernel starts. The next
 * gather kernel starts with a rank barrier, so no flags are needed.
 */
export const bulkCombineKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeBulkCombine',
    { ...partialParams, out: tensor(dtype, 4) },
    extents,
    (t, { sums, stats, out }, meta) => combine(t, { sums, stats }, 0, out, meta),
  ),
)

/**
 * Combines partial results after `gatherKernel`. All partial results have arrived when this kernel starts. The combine
 * kernel signals `done`, so that senders know that they may overwrite the inbox.
 */
export const combineKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeCombine',
    { ...partialParams, out: tensor(dtype, 4), done: flags(1) },
    extents,
    (t, { sums, stats, out, done }, meta) => {
      combine(t, { sums, stats }, 0, out, meta)
      t.last(() => t.signalAll(done.at([t.rank])))
    },
  ),
)

export const fineGrainedCombineKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeFineGrainedCombine',
    { ...partialParams, out: tensor(dtype, 4), arrived: flags(3) },
    extents,
    (t, { sums, stats, out, arrived }, meta) =>
      combine(t, { sums, stats }, slotOf(t, arrived, 'wait'), out, meta, (...at) => t.wait(arrived.at(at))),
  ),
)
