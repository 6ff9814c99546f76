/**
 * Flash Decode in one kernel, with the whole result on every rank, where partial results stay with whoever made them: a rank stores
 * each of its own once, in its outbox, and every rank that combines a tile fetches all its parts. What is stored at the end, when
 * everybody waits for the last, is less by the number of ranks. A fetch is a journey there and back, though, and a look that comes too soon
 * is another: this is for ranks whose memory is one. (`fusedForAll` puts parts into every rank's inbox.)
 *
 *   sums, stats   outboxes with two slots by epoch, of this rank's parts alone
 *   arrived       [part, batch, kv head]: that partial result lies in the outbox of its rank
 *
 * Outboxes need no credit: every rank hears from every other in each launch, so whoever writes a slot again, two launches later, knows that its
 * readers have begun the launch in between.
 */
import { flags, kernel } from '../../lang/kernel.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import { attention, attentionMeta } from './attention.ts'
import { params, peerOf, signalEach } from './fusedForAll.ts'
import { carryingParams, combine, on, slotOf, store } from './partials.ts'
import { eachPart } from './parts.ts'

export const fusedFetchingKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeFusedFetching',
    { ...params(dtype), ...carryingParams('arrived'), arrived: flags(3) },
    attentionMeta,
    (t, { q, k, v, lengths, out, sums, stats, arrived }, meta) => {
      const { splits } = meta
      const [batch, heads] = [q.dim(0), q.dim(1)]
      const slot = slotOf(t, arrived, 'signal')
      const outbox = { sums, stats }
      const attend = attention(t, { q, k, v, lengths }, meta)
      const tellAll = signalEach(t, arrived)
      eachPart(t, { q, k }, meta, (b, h, split, where) => {
        const partial = attend(b, h, split, where)
        store(t, outbox, slot, split.mul(batch).add(b).mul(heads).add(h), partial, meta)
        tellAll(peerOf(t), t.rank.mul(splits).add(split), b, h)
      })
      combine(
        t,
        (part) => ({ from: on(outbox, part.div(splits)), part: part.mod(splits) }),
        slot,
        out,
        meta,
        (...at) => t.wait(arrived.at(at)),
        'together',
      )
    },
  ),
)
