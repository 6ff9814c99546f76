/**
 * Flash Decode in one kernel in which partial results stay on the rank that computed them. Every rank gets the whole
 * result. A rank stores each of its partial results once, in its outbox. Every rank that combines a tile loads all
 * partial results of the tile from the outboxes.
 *
 * The fetching variant suits ranks that share one memory. At the end, all ranks wait for the last partial result, which
 * is stored only once instead of once per rank. However, a remote load is a round trip, and polling too early costs
 * another round trip. (The kernel `fusedForAll` instead stores partial results into every rank's inbox.)
 *
 *   sums, stats   outboxes with two slots selected by epoch parity, for this rank's parts only
 *   arrived       [part, batch, kv head]: that partial result is in the outbox of its rank
 *
 * The readers of outboxes return no credits. Every rank receives a signal from every other rank in each launch. A rank
 * overwrites an outbox slot two launches after writing it; its readers have then begun the launch between these two.
 */
import { flags, kernel } from '../../lang/kernel.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
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
