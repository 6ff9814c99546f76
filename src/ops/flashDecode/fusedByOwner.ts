/**
 * Flash Decode in one kernel, with the whole result on every rank, where every (batch, kv head) has an owner: each rank sends
 * its partial result there, and the owner combines them and sends the result to everybody. So a partial result travels once,
 * however many ranks there are, and is merged once; in return a result makes two journeys. (`fusedForAll` sends every partial
 * result to every rank.)
 *
 *   arrived   [part, batch, kv head], on the owner: that partial result lies in its inbox
 *   left      [rank]: that rank has sent all results that it owns
 *
 * One inbox is enough: a rank that has left a launch has heard from every owner, which has read what it was sent. And a result
 * is sent to a rank that has begun the launch, since its part was waited for.
 */
import { flags, kernel } from '../../lang/kernel.ts'
import { leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../operation.ts'
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
