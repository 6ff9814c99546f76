/** Collectives inside a kernel: a ring, one shot, a personalised exchange with empty messages, and a counted gather. */
import { f32, flags, i32, kernel, scalar, tensor, type Scalar } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

// An all-gather around a ring: every rank forwards the data received from the previous rank to the next rank.

const ringMutants = {
  'flag-of-the-chunk-sent': {
    kind: 'deadlock',
    lines: ['await-chunk', 'await-chunk', 'await-chunk'],
    says: ['rank 2, program 0 waits for flag ready[2] of rank 2: it is 0, wanted 1'],
  },
  'signal-to-the-wrong-neighbour': {
    kind: 'deadlock',
    lines: ['await-chunk', 'await-chunk', 'await-chunk'],
    says: ['rank 0, program 0 waits for flag ready[2] of rank 0'],
  },
  'waits-after-the-loop': {
    kind: 'uninitialised',
    lines: ['forward'],
    says: ['ring[2, 0] of rank 0 is read'],
    also: [{ kind: 'race', lines: ['forward', 'forward'] }],
  },
  'no-credit': {
    kind: 'race',
    lines: ['forward', 'forward'],
    says: ['writes ring[', 'reads ring['],
    also: [{ kind: 'race', lines: ['forward', 'collect'] }],
  },
  'one-hop-too-few': { kind: 'uninitialised', lines: ['collect'], says: ['was never written'] },
} satisfies Mutants
type RingMutation = keyof typeof ringMutants

const ringKernel = (mutation?: RingMutation) =>
  kernel(
    'ringAllGather',
    { ring: tensor(f32, 2), out: tensor(f32, 3), ready: flags(1), free: flags(0), step: scalar(i32) },
    (t, { ring, out, ready, free, step }) => {
      const R = t.world
      const next = t.rank.add(1).mod(R)
      const previous = t.rank.add(R - 1).mod(R)
      const late = mutation === 'waits-after-the-loop'
      const mine = t.rank.mul(10).add(step.mul(100)).to(f32)
      t.store(ring.at([t.rank, 0]), mine)
      if (mutation !== 'no-credit') t.wait(free, { lag: 1 })
      t.for(mutation === 'one-hop-too-few' ? R - 2 : R - 1, (hop) => {
        const sent = t.rank.sub(hop).add(R).mod(R)
        const received = sent.add(R - 1).mod(R)
        t.copy(ring.tile([sent, 0], [1, 1]), ring.on(next).tile([sent, 0], [1, 1])) // @line forward
        t.signal(ready.on(mutation === 'signal-to-the-wrong-neighbour' ? previous : next).at([sent]))
        if (!late) t.wait(ready.at([mutation === 'flag-of-the-chunk-sent' ? sent : received])) // @line await-chunk
      })
      if (late) t.for(R - 1, (hop) => t.wait(ready.at([next.add(hop).mod(R)])))
      t.copy(ring.tile([0, 0], [R, 1]), out.pick(step).tile([0, 0], [R, 1])) // @line collect
      t.signal(free.on(previous))
    },
  )

const ringAllGather = original<RingMutation>({
  name: 'ringAllGather',
  file,
  ranks: 3,
  mutants: ringMutants,
  scenario(mutation) {
    const gather = ringKernel(mutation)
    return scenario('ringAllGather', { ranks: 3 }, async (world) => {
      const ring = world.empty(f32, [3, 1], { name: 'ring' })
      const out = world.empty(f32, [2, 3, 1], { name: 'out' })
      const ready = world.flags([3], { name: 'ready' })
      const free = world.flags([], { name: 'free' })
      for (const step of [0, 1]) world.launch(gather, { ring, out, ready, free, step }, { grid: 1 })
      for (const rank of range(3)) expectClose(await world.read(out, rank), [0, 10, 20, 100, 110, 120])
    })
  },
})

// One-shot all-reduce: every rank pushes to every inbox, with one flag per source, and each rank computes the sum
// itself.

const oneShotMutants = {
  'flag-of-the-destination': {
    kind: 'deadlock',
    lines: ['await-source', 'await-source'],
    says: ['waits for flag arrived[1] of rank 0: it is 0', 'waits for flag arrived[0] of rank 1: it is 0'],
  },
  // Known bug pattern: a lock array that overflows into the heap.
  'too-few-flags': {
    kind: 'out-of-bounds',
    lines: ['await-source'],
    says: ['flag [1] is outside arrived'],
    also: [{ kind: 'out-of-bounds', lines: ['signal'] }],
  },
  'one-source-too-many': {
    kind: 'out-of-bounds',
    lines: ['await-source'],
    says: ['flag [2] is outside arrived'],
  },
  'one-source-too-few': {
    kind: 'race',
    lines: ['push', 'reduce'],
  },
  'unwritten-accumulator': { kind: 'uninitialised', lines: ['start'], says: ['out[0, 0] of rank'] },
  'single-slot': { kind: 'race', lines: ['push', 'reduce'], says: ['inbox[0, '] },
  'waits-for-itself': { kind: 'race', lines: ['push', 'reduce'] },
  'waits-for-the-first-source': { kind: 'race', lines: ['push', 'reduce'] },
} satisfies Mutants
type OneShotMutation = keyof typeof oneShotMutants

const oneShotKernel = (mutation?: OneShotMutation) =>
  kernel(
    'oneShotAllReduce',
    { x: tensor(f32, 1), inbox: tensor(f32, 3), out: tensor(f32, 2), arrived: flags(1), step: scalar(i32) },
    (t, { x, inbox, out, arrived, step }) => {
      const R = t.world
      const slot = mutation === 'single-slot' ? 0 : t.epoch(arrived).mod(2).to(i32)
      const mine = t.load(x.tile([0], [2])).mul(step.add(1).to(f32))
      t.for(R, (shift) => {
        const peer = t.rank.add(shift).mod(R)
        t.store(inbox.on(peer).pick(slot).pick(t.rank).tile([0], [2]), mine) // @line push
        t.signal(arrived.on(peer).at([mutation === 'flag-of-the-destination' ? peer : t.rank])) // @line signal
      })
      const zeros = t.zeros(f32, [2])
      const start = mutation === 'unwritten-accumulator' ? t.load(out.pick(step).tile([0], [2])) : zeros // @line start
      const sources = variant<OneShotMutation, number>(
        mutation,
        { 'one-source-too-many': R + 1, 'one-source-too-few': R - 1 },
        R,
      )
      const total = t.for(sources, start, (source, sum) => {
        const awaited = variant<OneShotMutation, Scalar>(
          mutation,
          { 'waits-for-itself': t.rank, 'waits-for-the-first-source': t.constant(i32, 0) },
          source,
        )
        t.wait(arrived.at([awaited])) // @line await-source
        return sum.add(t.load(inbox.pick(slot).pick(source).tile([0], [2]))) // @line reduce
      })
      t.store(out.pick(step).tile([0], [2]), total)
    },
  )

const oneShotAllReduce = original<OneShotMutation>({
  name: 'oneShotAllReduce',
  file,
  ranks: 2,
  mutants: oneShotMutants,
  scenario(mutation) {
    const reduce = oneShotKernel(mutation)
    return scenario('oneShotAllReduce', { ranks: 2 }, async (world) => {
      const R = world.ranks
      const x = world.from(f32, [2], (rank) => [rank + 1, 10 * rank], { name: 'x' })
      const inbox = world.zeros(f32, [2, R, 2], { name: 'inbox' })
      const out = world.empty(f32, [3, 2], { name: 'out' })
      const arrived = world.flags([mutation === 'too-few-flags' ? R - 1 : R], { name: 'arrived' })
      for (const step of range(3)) world.launch(reduce, { x, inbox, out, arrived, step }, { grid: 1 })
      for (const rank of range(R)) expectClose(await world.read(out, rank), [3, 10, 6, 20, 9, 30])
    })
  },
})

// An all-to-all with counts, in which a rank that has no data to send must still signal.

const allToAllMutants = {
  'silent-when-empty': {
    kind: 'deadlock',
    lines: ['await-parcel', 'await-parcel', 'await-parcel'],
    says: ['rank 0, program 0 waits for flag arrived[1] of rank 0: it is 0, wanted 1'],
  },
  'receives-without-mask': { kind: 'uninitialised', lines: ['receive'], says: ['parcels['] },
  'count-of-the-other-direction': { kind: 'uninitialised', lines: ['receive'], says: ['parcels['] },
  'writes-without-mask': { kind: 'wrong-result', lines: ['compare-parcels'], says: ['element 1 is -1'] },
} satisfies Mutants
type AllToAllMutation = keyof typeof allToAllMutants

const allToAllKernel = (mutation?: AllToAllMutation) =>
  kernel(
    'allToAll',
    { counts: tensor(i32, 2), parcels: tensor(f32, 2), out: tensor(f32, 2), arrived: flags(1) },
    (t, { counts, parcels, out, arrived }) => {
      const R = t.world
      const lanes = t.arange(2)
      t.for(R, (shift) => {
        const peer = t.rank.add(shift).mod(R)
        const count = t.load(counts.at([t.rank, peer]))
        const data = lanes.add(t.rank.mul(100)).add(peer.mul(10)).to(f32)
        const send = (): void => t.signal(arrived.on(peer).at([t.rank]))
        t.if(count.gt(0), () => {
          t.store(parcels.on(peer).at([t.rank, lanes]), data, { mask: lanes.lt(count) })
          if (mutation === 'silent-when-empty') send()
        })
        if (mutation !== 'silent-when-empty') send()
      })
      t.for(R, (source) => {
        t.wait(arrived.at([source])) // @line await-parcel
        const wrongWay = mutation === 'count-of-the-other-direction'
        const count = t.load(wrongWay ? counts.at([t.rank, source]) : counts.at([source, t.rank]))
        const some = lanes.lt(count)
        const mask = mutation === 'receives-without-mask' ? {} : { mask: some, other: -1 }
        const got = t.load(parcels.at([source, lanes]), mask) // @line receive
        t.store(out.at([source, lanes]), got, mutation === 'writes-without-mask' ? {} : { mask: some })
      })
    },
  )

const allToAll = original<AllToAllMutation>({
  name: 'allToAll',
  file,
  ranks: 3,
  mutants: allToAllMutants,
  scenario(mutation) {
    const counts = [
      [1, 2, 0],
      [0, 0, 1],
      [2, 1, 0],
    ]
    const exchange = allToAllKernel(mutation)
    return scenario('allToAll', { ranks: 3 }, async (world) => {
      const R = world.ranks
      const table = world.from(i32, [R, R], counts.flat(), { name: 'counts' })
      const parcels = world.empty(f32, [R, 2], { name: 'parcels' })
      const out = world.full(f32, [R, 2], 7, { name: 'out' })
      const arrived = world.flags([R], { name: 'arrived' })
      world.launch(exchange, { counts: table, parcels, out, arrived }, { grid: 1 })
      for (const rank of range(R)) {
        const expected = range(R).flatMap((source) =>
          [0, 1].map((i) => (i < counts[source][rank] ? 100 * source + 10 * rank + i : 7)),
        )
        expectClose(await world.read(out, rank), expected) // @line compare-parcels
      }
    })
  },
})

// A gather with one counting flag for all sources.

const countedMutants = {
  // The second signal of a fast source is counted in place of the first signal of a slow source.
  'no-credit': {
    kind: 'flag-reuse',
    lines: ['count', 'await-all'],
    says: ['arrived of rank 0 counts a signal of epoch 2'],
    also: [{ kind: 'race', lines: ['contribute', 'add'] }],
  },
  'too-few-arrivals': { kind: 'race', lines: ['contribute', 'add'], says: ['inbox['] },
  'too-many-arrivals': {
    kind: 'deadlock',
    lines: ['await-all', 'await-credit', 'await-credit'],
    says: ['rank 0, program 0 waits for flag arrived of rank 0: it is 2, wanted 3'],
  },
  'signals-twice': { kind: 'race', lines: ['contribute', 'add'], says: ['inbox['] },
} satisfies Mutants
type CountedMutation = keyof typeof countedMutants

const countedKernel = (mutation?: CountedMutation) => {
  const arrivals = variant<CountedMutation, number>(
    mutation,
    { 'too-few-arrivals': 1, 'too-many-arrivals': 3 },
    2,
  )
  return kernel(
    'countedGather',
    {
      inbox: tensor(f32, 2),
      out: tensor(f32, 1),
      arrived: flags(0, { arrivals }),
      credit: flags(0),
      step: scalar(i32),
    },
    (t, { inbox, out, arrived, credit, step }) => {
      const slot = step.mod(2)
      t.if(
        t.rank.eq(0),
        () => {
          t.wait(arrived) // @line await-all
          const sum = t.load(inbox.pick(slot).tile([0], [2])).sum() // @line add
          t.store(out.at([step]), sum)
          t.for({ from: 1, to: t.world }, (source) => t.signal(credit.on(source)))
        },
        () => {
          if (mutation !== 'no-credit') t.wait(credit, { lag: 1 }) // @line await-credit
          t.store(inbox.on(0).at([slot, t.rank.sub(1)]), t.rank.add(step.mul(10)).to(f32)) // @line contribute
          t.signal(arrived.on(0)) // @line count
          if (mutation === 'signals-twice') t.signal(arrived.on(0))
        },
      )
    },
  )
}

const countedGather = original<CountedMutation>({
  name: 'countedGather',
  file,
  ranks: 3,
  mutants: countedMutants,
  scenario(mutation) {
    const gather = countedKernel(mutation)
    const { arrivals } = gather.params.arrived
    return scenario('countedGather', { ranks: 3 }, async (world) => {
      const inbox = world.zeros(f32, [2, 2], { name: 'inbox' })
      const out = world.empty(f32, [2], { name: 'out' })
      const arrived = world.flags([], { name: 'arrived', arrivals })
      const credit = world.flags([], { name: 'credit' })
      for (const step of [0, 1]) world.launch(gather, { inbox, out, arrived, credit, step }, { grid: 1 })
      expectClose(await world.read(out, 0), [3, 23])
    })
  },
})

export const collectives = [ringAllGather, oneShotAllReduce, allToAll, countedGather]
