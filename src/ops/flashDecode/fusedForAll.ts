/**
 * Flash Decode in one kernel in which every rank combines all partial results. Every rank gets the whole result. Each
 * program computes the attention for its share of (batch, kv head) tiles and stores each partial result from registers
 * into the inbox of every rank. After attention, each program combines its share of tiles. (`fusedByOwner` sends a
 * tile's partial result to one owner only, and `fusedFetching` leaves it on its rank.)
 *
 *   coarse    one flag per rank: all partial results of that rank have arrived
 *   fine      one flag per partial result; a rank combines a tile when the parts of that tile have arrived
 *
 * Inboxes have two slots selected by epoch parity and need no credits. Every rank receives a signal from every other
 * rank in each launch. A sender overwrites an inbox slot two launches after it was written. When a sender overwrites an
 * inbox slot, the reader has already begun a later launch.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import type { Flags, Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { attention, attentionMeta, type AttentionMeta, type Cache } from './attention.ts'
import { carryingParams, combine, on, partialParams, slotOf, store, type Partials } from './partials.ts'
import { eachPart } from './parts.ts'

/** The parameters that every fused kernel has: the cache, the result and the inbox of partial results. */
export const params = (dtype: OperandDType) => ({
  q: tensor(dtype, 4),
  k: tensor(dtype, 4),
  v: tensor(dtype, 4),
  lengths: tensor(i32, 1),
  out: tensor(dtype, 4),
  ...partialParams,
})
type Tensors = Cache & Partials & { readonly out: Tensor<OperandDType, 4> }
type Place = (part: Scalar, b: Scalar, h: Scalar) => void

interface Signals {
  readonly arrived: Flags
  /**
   * Called when a partial result has been stored into the inboxes of all ranks. The callback signals all ranks
   * together, so that one fence is enough.
   */
  readonly sent: (peer: (step: Scalar) => Scalar, ...at: Parameters<Place>) => void
  /** Called when all partial results of this program have been stored into the inboxes. */
  readonly sentAll: () => void
  readonly arrival: Place
}

/** Maps step 0, 1, … to a rank, such that all ranks are visited and this rank comes last. */
export const peerOf =
  (t: Program) =>
  (step: Scalar): Scalar =>
    t.rank.add(step).add(1).mod(t.world)

/**
 * Computes the attention for the splits of this program and sends the partial results. Returns the inbox slot of this
 * launch.
 */
function attendAndSend(
  t: Program,
  tensors: Cache & Partials,
  meta: AttentionMeta,
  { arrived, sent }: Pick<Signals, 'arrived' | 'sent'>,
): Scalar {
  const { q } = tensors
  const [batch, heads] = [q.dim(0), q.dim(1)]
  const slot = slotOf(t, arrived, 'signal')
  const attend = attention(t, tensors, meta)
  const partOf = (split: Scalar): Scalar => t.rank.mul(meta.splits).add(split)
  const peer = peerOf(t)
  // With the stream-K assignment, a program has few splits, and no rank combines before the end. A program therefore
  // signals only after its last split.
  const late = meta.programs > 0
  eachPart(t, tensors, meta, (b, h, split, where) => {
    const partial = attend(b, h, split, where)
    const part = partOf(split)
    t.for(t.world, (step) => {
      store(t, on(tensors, peer(step)), slot, part.mul(batch).add(b).mul(heads).add(h), partial, meta)
    })
    if (!late) sent(peer, part, b, h)
  })
  if (late) eachPart(t, tensors, meta, (b, h, split) => sent(peer, partOf(split), b, h))
  return slot
}

/** Signals one flag for each partial result, on every rank. */
export const signalEach =
  (t: Program, arrived: Flags<3>): Signals['sent'] =>
  (peer, ...at) =>
    t.for(t.world, (step) => t.signal(arrived.on(peer(step)).at(at)))

function attendAndCombine(t: Program, tensors: Tensors, meta: AttentionMeta, signals: Signals): void {
  const slot = attendAndSend(t, tensors, meta, signals)
  signals.sentAll()
  combine(t, tensors, slot, tensors.out, meta, signals.arrival, 'together')
}

export const fusedCoarseKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeFusedCoarse',
    { ...params(dtype), arrived: flags(1) },
    attentionMeta,
    (t, { arrived, ...tensors }, meta) =>
      attendAndCombine(t, tensors, meta, {
        arrived,
        sent: () => undefined,
        sentAll: () => t.last(() => t.signalAll(arrived.at([t.rank]))),
        arrival: (part) => t.wait(arrived.at([part.div(meta.splits)])),
      }),
  ),
)

export const fusedKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeFusedForAll',
    { ...params(dtype), ...carryingParams('arrived'), arrived: flags(3) },
    attentionMeta,
    (t, { arrived, ...tensors }, meta) =>
      attendAndCombine(t, tensors, meta, {
        arrived,
        sent: signalEach(t, arrived),
        sentAll: () => undefined,
        arrival: (...at) => t.wait(arrived.at(at)),
      }),
  ),
)
