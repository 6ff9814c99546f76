/**
 * Forms of generated kernels other than independent work items: exchanges with peers and with the host, clusters,
 * roles, and work for the last program to arrive. Each generated form of a kernel is correct by construction.
 */
import type { Program, Scalar, Shared, Value } from '../../../src/index.ts'
import type { Builder } from './builder.ts'
import type { Choices } from './choices.ts'
import { call, entry, type Entry } from './entries.ts'
import type { Step } from './expressions.ts'
import { signals, wideExtents, type Args } from './params.ts'

/** A scalar i32 that is already available. */
export const knownInteger = (on: Builder): Scalar | undefined =>
  on.exact((one) => one.dtype === 'i32' && one.shape.length === 0)?.value as Scalar | undefined
const someInteger = (on: Builder): Scalar => knownInteger(on) ?? on.item.add(on.t.rank)

/**
 * Exchanges numbers with a peer several times. One flag of each rank counts the rounds: its own rank signals it, once
 * or several times per round, or its own rank and another one do. No rank starts a round before the previous round is
 * complete.
 */
export function exchangeRounds(on: Builder): void {
  const { t, choices, item } = on
  const { post, rounds } = on.args
  const both = choices.below(2) === 1
  const perRound = both ? 2 : choices.pick([1, 2, 3])
  const peer = on.peer()
  const [own, theirs] = [rounds.at([item]), rounds.on(peer).at([item])]
  const sum = t.for(signals / perRound, someInteger(on), (k, x) => {
    t.store(post.pick(item).at([k, 0]), x)
    for (let n = 0; n < (both ? 1 : perRound); n++) t.signal(own)
    if (both) t.signal(theirs)
    const atLeast = k.add(1).mul(perRound)
    t.wait(theirs, { atLeast })
    if (both) t.wait(own, { atLeast })
    return x.mul(3).add(t.load(post.on(peer).pick(item).at([k, 0])))
  })
  on.add(sum)
}

/** Waits for a request of the host and reads it. */
export function question(on: Builder): Scalar {
  const { t, item } = on
  t.wait(on.args.go.at([item]))
  const asked = t.load(on.args.asked.at([item]))
  on.add(asked)
  return asked
}
/** Answers the host, which polls the tensor `told` while the kernel runs. */
export function answer(on: Builder, asked: Scalar): void {
  const { t, item } = on
  t.store(on.args.reply.at([item]), someInteger(on), { order: 'relaxed' })
  t.store(on.args.told.at([item]), asked, { order: 'release' })
}

/**
 * A tile of a pipeline whose programs form a cluster. Each of the two programs of a cluster fetches eight rows of the
 * tile.
 */
export const declareWide = (t: Program): Shared<'i32', 2> => t.shared('i32', [16, 8])
/** The number of programs of a cluster. */
export const clusterSize = 2

/** Combines tiles that all programs of a cluster copy alike. The indices of the shared tiles do not depend on the item. */
export const multicast =
  (tile: Shared<'i32', 2>): Step =>
  (on) => {
    if (on.depth > 0) return
    const { t, choices } = on
    const [rows, columns] = [tile.shape[0], tile.shape[1]]
    const from = choices.rarely(3) ? on.args.wide.on(on.peer()) : on.args.wide
    const method = choices.pick(['add', 'max', 'xor'])
    const down = choices.between(1, wideExtents[0] / rows)
    const across = choices.between(1, wideExtents[1] / columns)
    const total = t.pipeline(
      [down, across],
      t.zeros('i32', [rows, columns]),
      (at, acc) => {
        t.copy(from.tile(at, [rows, columns]), tile, { multicast: 0 })
        return call(acc, method, t.load(tile)) as typeof acc
      },
      { stages: choices.between(1, 3) },
    )
    on.add(call(total, 'maximum', choices.below(2)))
  }

/**
 * A form with two roles. The first role fills a ring of buffers by asynchronous copies. The second role combines the
 * contents of the buffers, synchronises with the first role at a barrier, and continues with the result.
 */
export function withRing(
  t: Program,
  args: Args,
  choices: Choices,
  ring: Shared<'i32', 3>,
  rest: (given: readonly Entry[]) => void,
): void {
  const [slots, rows, columns] = ring.shape
  const count = choices.between(1, 5)
  const [full, empty] = [t.barriers(slots), t.barriers(slots)]
  const method = choices.pick(['add', 'min', 'or'])
  t.roles({
    fills: () => {
      t.for(count, (k) => {
        const slot = k.mod(slots)
        t.wait(empty.at(slot), k.div(slots).sub(1))
        t.copyAsync(args.wide.tile([0, k], [rows, columns]), ring.pick(slot), full.at(slot))
        t.arrive(full.at(slot))
      })
      t.barrier()
    },
    works: {
      warps: choices.pick([4, 1, 2, 8]),
      body: () => {
        const all = t.for(count, t.zeros('i32', [rows, columns]), (k, acc) => {
          const slot = k.mod(slots)
          t.wait(full.at(slot), k.div(slots))
          const next = call(acc, method, t.load(ring.pick(slot))) as typeof acc
          t.arrive(empty.at(slot))
          return next
        })
        t.barrier()
        rest([entry(all as Value)])
      },
    },
  })
}

/** Does the work of each item in the program that arrives last. The number of arrivals may differ between items. */
export function afterArrivals(
  t: Program,
  choices: Choices,
  items: number,
  work: (item: Scalar) => void,
): void {
  const most = choices.between(1, 3)
  const differ = choices.below(2) === 1
  t.persistent([items, most], ([i, j]) => {
    const arrivals = differ ? i.mod(most).add(1) : most
    const arrive = (): void => t.last(() => work(i), { at: i, of: items, arrivals })
    if (differ) t.if(j.lt(arrivals), arrive)
    else arrive()
  })
}
