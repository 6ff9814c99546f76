/**
 * Flash Decode in one kernel in which every (batch, kv head) has an owner rank. Every rank gets the whole result. Each
 * rank sends its partial result to the owner. The owner combines all partial results and sends the final result to all
 * ranks. Each partial result therefore travels once and is merged once, however many ranks there are. The disadvantage
 * of owners is that each final result needs two hops. (The kernel `fusedForAll` instead sends every partial result to
 * every rank.)
 *
 *   arrived   [part, batch, kv head], on the owner: that partial result is in the owner's inbox
 *   left      [rank]: that rank has sent all results that it owns
 *
 * An inbox needs only one slot per rank, not two that alternate. A rank that has ended a launch has received a signal
 * from every owner, and each owner signals after it has read the partial results. An owner sends a result only to ranks
 * that have begun the launch, because it has waited for their partial results.
 */
import { flags, kernel } from '../../lang/kernel.ts'
import { leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { attention, attentionMeta } from './attention.ts'
import { params } from './fusedForAll.ts'
import { combined, on, store } from './partials.ts'
import { eachPart } from './parts.ts'

export const fusedByOwnerKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeFusedByOwner',
    { ...params(dtype), arrived: flags(3), left: flags(1) },
    attentionMeta,
    (t, { q, k, v, lengths, out, sums, stats, arrived, left }, meta) => {
      const { G, D, splits } = meta
      const [batch, heads] = [q.dim(0), q.dim(1)]
      const attend = attention(t, { q, k, v, lengths }, meta)
      const inbox = { sums, stats }
      eachPart(t, { q, k }, meta, (b, h, split, where) => {
        const partial = attend(b, h, split, where)
        const part = t.rank.mul(splits).add(split)
        const tile = b.mul(heads).add(h)
        const owner = tile.mod(t.world)
        store(t, on(inbox, owner), 0, part.mul(batch).mul(heads).add(tile), partial, meta)
        t.signal(arrived.on(owner).at([part, b, h]))
      })
      const owned = batch
        .mul(heads)
        .add(t.world - 1)
        .sub(t.rank)
        .div(t.world)
      t.persistent([owned], ([n]) => {
        const tile = n.mul(t.world).add(t.rank)
        const [b, h] = [tile.div(heads), tile.mod(heads)]
        const whole = combined(
          t,
          inbox,
          0,
          [b, h],
          [batch, heads],
          meta,
          (...at) => t.wait(arrived.at(at)),
          'together',
        ).to(dtype)
        t.for(t.world, (step) => {
          const peer = t.rank.add(step).mod(t.world)
          t.store(out.on(peer).pick(b).pick(h).tile([0, 0], [G, D]), whole)
        })
      })
      leaveTogether(t, left)
    },
  ),
)
