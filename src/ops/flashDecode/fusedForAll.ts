/**
 * Flash Decode in one kernel, with the whole result on every rank: each program attends to its share of (batch, kv head)
 * tiles, puts each partial result straight from registers into every rank's inbox, and then combines its share of tiles.
 * (`fusedByOwner` sends a tile to one owner alone, and `fusedFetching` leaves it where it is.)
 *
 *   coarse    one flag for each rank: all its partial results have arrived
 *   fine      one for each partial result; a rank combines a tile when its parts have arrived
 *
 * Inboxes have two slots by epoch and need no credit: every rank hears from every other in each launch, so whoever writes a
 * slot again, two launches later, knows that its reader has begun the launch in between.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import type { Flags, Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import { attention, attentionMeta, type AttentionMeta, type Cache } from './attention.ts'
import { carryingParams, combine, on, partialParams, slotOf, store, type Partials } from './partials.ts'
import { eachPart } from './parts.ts'

/** Of every fused kernel: the cache, the result and the inbox of partial results. */
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
  /** A partial result has been put into every peer's inbox; all are told at once, for one fence. */
  readonly sent: (peer: (step: Scalar) => Scalar, ...at: Parameters<Place>) => void
  /** All of this program's have. */
  readonly sentAll: () => void
  readonly arrival: Place
}

/** All ranks in turn, this one last. */
export const peerOf =
  (t: Program) =>
  (step: Scalar): Scalar =>
    t.rank.add(step).add(1).mod(t.world)

/** Attends to what this program has and sends it; gives the slot. */
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
  // In even shares a program has few parts, and nobody combines before the end: it does not wait for the first to have been sent.
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

/** A flag for each partial result, on every rank. */
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
