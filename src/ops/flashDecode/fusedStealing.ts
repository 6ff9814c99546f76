/**
 * Flash Decode in one kernel, with the whole result on every rank, where a rank that has attended to all of its own cache goes on
 * with what is left of others': what a late or slow rank has not done is done by all. Pieces of a rank's cache are drawn by
 * tickets; whoever draws one attends to it and sends the partial result to everybody, as its owner would. Most pieces are a
 * whole (batch, kv head) tile; those of the last quarter are a split of one, so that all end at nearly the same time.
 *
 *   tickets   [slot]: how many were drawn of this rank's; more than there are, since everybody draws until one is too many
 *   entered   [rank]: that rank has begun the launch: its cache may be read, and tickets drawn
 *   arrived   [slot x part, batch, kv head], part = split x ranks + owner: that partial result lies in the inbox
 *
 * All but `entered` have two slots by epoch. Every program hears from every rank that it has entered, and so that its draws, loads
 * and signals of the launch before are over; hence whoever begins a launch knows that nobody is still at the slot of two launches
 * ago. Flags need slots too: in the launch after this one another rank may draw the piece, and signal before this one's
 * signals have got to all. Zero is stored before entering is told; nothing else is passed on through tickets, they are relaxed.
 *
 * A rank leaves when all parts have arrived, which are told after the cache was read: its cache may then be written again.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import { attention, attentionMeta } from './attention.ts'
import { params, peerOf } from './fusedForAll.ts'
import { combined, on, store } from './partials.ts'
import { cutShare } from './tiles.ts'

export const fusedStealingKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeFusedStealing',
    { ...params(dtype), tickets: tensor(i32, 1), entered: flags(1), arrived: flags(3) },
    attentionMeta,
    (t, { q, k, v, lengths, out, sums, stats, tickets, entered, arrived }, meta) => {
      const { G, D, splits } = meta
      const inbox = { sums, stats }
      const slot = t.epoch(arrived).mod(2).to(i32)
      const attend = attention(t, { q, k, v, lengths }, meta)
      const [batch, heads] = [q.dim(0), q.dim(1)]
      const tiles = batch.mul(heads)
      const whole = tiles.sub(ceilDiv(tiles, cutShare))
      const pieces = whole.add(tiles.sub(whole).mul(splits))
      const splitsOf = (tile: Scalar): Scalar => tile.lt(whole).select(t.constant(i32, 1), splits)
      const arrivalOf = (part: Scalar, b: Scalar, h: Scalar, rank: Scalar = t.rank) =>
        arrived.on(rank).at([slot.mul(t.world * splits).add(part), b, h])

      const attendAndSend = (owner: Scalar, ticket: Scalar): void => {
        const cut = ticket.sub(whole).max(0)
        const tile = ticket.min(whole).add(cut.div(splits))
        const [split, b, h] = [cut.mod(splits), tile.div(heads), tile.mod(heads)]
        const partial = attend(b, h, split, { owner, splits: splitsOf(tile) })
        const part = split.mul(t.world).add(owner)
        const peer = peerOf(t)
        t.for(t.world, (step) =>
          store(t, on(inbox, peer(step)), slot, part.mul(tiles).add(tile), partial, meta),
        )
        t.for(t.world, (step) => t.signal(arrivalOf(part, b, h, peer(step))))
      }

      t.if(t.program.eq(0), () => {
        t.store(tickets.at([slot]), 0)
        t.signalAll(entered.at([t.rank]))
      })
      t.for(t.world, (step) => {
        const owner = t.rank.add(step).mod(t.world)
        const draw = () => t.atomic.add(tickets.on(owner).at([slot]), 1)
        t.wait(entered.at([owner]))
        t.for(pieces, draw(), (_, ticket) =>
          t.if(
            ticket.lt(pieces),
            () => {
              attendAndSend(owner, ticket)
              return draw()
            },
            () => ticket,
          ),
        )
      })

      t.persistent([batch, heads], ([b, h]) => {
        const parts = { G, D, splits: splitsOf(b.mul(heads).add(h)) }
        const arrival = (...at: [Scalar, Scalar, Scalar]): void => t.wait(arrivalOf(...at))
        const result = combined(t, inbox, slot, [b, h], [batch, heads], parts, arrival, 'together')
        t.copy(result.to(dtype), out.pick(b).pick(h).tile([0, 0], [G, D]))
      })
    },
  ),
)
