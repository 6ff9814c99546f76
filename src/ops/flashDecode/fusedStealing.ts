/**
 * Flash Decode in one kernel with work stealing between ranks. Every rank gets the whole result. A rank that has
 * finished its own cache continues with the remaining pieces of other ranks' caches, so that all ranks share the work
 * that a late or slow rank has not done.
 *
 * Programs draw pieces of a rank's cache by means of atomic tickets. The program that draws a piece computes its
 * attention and sends the partial result to all ranks, just as the owner would. Most pieces are a whole (batch, kv
 * head) tile. In the last quarter of the tiles, each piece is one split of a tile, so that all ranks end at nearly the
 * same time.
 *
 *   tickets   [slot]: the number of tickets drawn from this rank
 *   entered   [rank]: that rank has begun the launch, so its cache may be read and its tickets may be drawn
 *   arrived   [slot x part, batch, kv head], part = split x ranks + owner: that partial result is in the inbox
 *
 * Each program draws tickets until it gets an invalid one, so `tickets` can exceed the number of pieces. Tickets,
 * inboxes and `arrived` have two slots selected by epoch parity. Every program waits until every rank has entered the
 * launch. A rank that has entered a launch has finished all draws, loads and signals of the previous launch. When a
 * launch begins, therefore, no program accesses the slot of two launches ago. Flags need two slots as well, selected by
 * epoch parity. In the next launch another rank may draw the same piece, and it may signal before the signals of this
 * launch have reached all ranks. The ticket counter is set to 0 before `entered` is signalled. Ticket operations use
 * relaxed ordering, because no other data is passed through them.
 *
 * A rank ends the launch when all partial results have arrived. Partial results are signalled after the cache was read,
 * so the cache may be overwritten after the launch.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
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
