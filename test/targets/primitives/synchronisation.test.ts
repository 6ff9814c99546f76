/** Tests flags, epochs, lags, arrivals, fences, teams, `last` and roles, on every world size. */
import { describe, expect, it } from 'vitest'
import { flags, kernel, scalar, tensor, type Flag } from '../../../src/index.ts'
import { fewerOn, itForSizes, onWorld, range, targets, worldSizes } from './harness.ts'

const launches = 3
const sizesOn = (target: string): readonly number[] => fewerOn(target, worldSizes, [1, 3, 8])
const length = 9

/** Sends data around a ring, to the next rank. A wait with `lag` ensures that the inbox may be overwritten. */
const ring = kernel(
  'ring',
  { out: tensor('i32', 2), inbox: tensor('i32', 1), sent: flags(), taken: flags(), step: scalar('i32') },
  (t, { out, inbox, sent, taken, step }) => {
    const next = t.rank.add(1).mod(t.world)
    const previous = t.rank.add(t.world - 1).mod(t.world)
    t.wait(taken, { lag: 1 })
    t.store(inbox.on(next).tile([0], [16]), t.arange(16).add(t.rank.mul(100)).add(step.mul(1000)))
    t.signal(sent.on(next))
    t.wait(sent)
    t.copy(inbox.tile([0], [16]), out.pick(step).tile([0], [16]))
    t.signal(taken.on(previous))
  },
)

/** Sends data around a ring with relaxed flags, ordered by fences. */
const fenced = kernel(
  'fenced',
  { out: tensor('i32', 1), inbox: tensor('i32', 1), sent: flags() },
  (t, { out, inbox, sent }) => {
    const next = t.rank.add(1).mod(t.world)
    t.store(inbox.on(next).tile([0], [16]), t.rank)
    t.fence('release')
    t.signal(sent.on(next), { order: 'relaxed' })
    t.wait(sent, { order: 'relaxed' })
    t.fence('acquire')
    t.copy(inbox.tile([0], [16]), out.tile([0], [16]))
  },
)

/** Passes a message with a strong store and a polling loop, in each way that the memory model allows. */
const polled = (how: 'release and acquire' | 'fences' | 'atomics') =>
  kernel(
    'polled',
    { out: tensor('i32', 1), inbox: tensor('i32', 1), cell: tensor('u32', 1) },
    (t, { out, inbox, cell }) => {
      const next = t.rank.add(1).mod(t.world)
      const theirs = cell.on(next).at([0])
      t.store(inbox.on(next).tile([0], [16]), t.rank.mul(3).add(1))
      if (how === 'fences') t.fence('acqRel')
      if (how === 'atomics') t.atomic.add(theirs, 1, { order: 'release' })
      else t.store(theirs, 1, { order: how === 'fences' ? 'relaxed' : 'release' })
      t.while(
        t.constant('u32', 0),
        (seen) => seen.eq(0),
        () =>
          how === 'atomics'
            ? t.atomic.or(cell.at([0]), 0, { order: 'acquire' })
            : t.load(cell.at([0]), { order: how === 'fences' ? 'relaxed' : 'acquire' }),
      )
      if (how === 'fences') t.fence('seqCst')
      t.copy(inbox.tile([0], [16]), out.tile([0], [16]))
    },
  )

/** Sends data around a ring without blocking waits: every rank polls with `reached`. */
const looking = kernel(
  'looking',
  { out: tensor('i32', 2), inbox: tensor('i32', 1), sent: flags(), taken: flags(), step: scalar('i32') },
  (t, { out, inbox, sent, taken, step }) => {
    const [next, previous] = [t.rank.add(1).mod(t.world), t.rank.add(t.world - 1).mod(t.world)]
    const until = (flag: Flag, lag = 0): void => {
      t.while(
        t.constant('i32', 0),
        () => t.reached(flag, { lag }).not(),
        (turns) => turns.add(1),
      )
    }
    until(taken, 1)
    t.store(inbox.on(next).tile([0], [16]), t.rank.add(step.mul(10)))
    t.signal(sent.on(next))
    until(sent)
    t.copy(inbox.tile([0], [16]), out.pick(step).tile([0], [16]))
    t.signal(taken.on(previous))
    // The next two waits return at once. Without these two waits, the launch would not count as one that waited.
    t.wait(sent)
    t.wait(taken, { lag: 1 })
  },
)

/** Every program of every rank signals every rank. The number `arrivals` is the total number of signals. */
const counting = (arrivals: number) =>
  kernel(
    'counting',
    {
      marks: tensor('i32', 2),
      sums: tensor('i32', 1),
      here: flags(0, { arrivals }),
      back: flags(1),
      step: scalar('i32'),
    },
    (t, { marks, sums, here, back, step }) => {
      // A counting flag may be signalled again once all ranks have observed its completion.
      t.for(t.world, (rank) => t.wait(back.at([rank]), { lag: 1 }))
      t.for(t.world, (rank) => t.store(marks.on(rank).at([t.rank, 0]), step.add(t.rank)))
      t.signalAll(here)
      t.wait(here)
      const sum = t.for(t.world, t.constant('i32', 0), (rank, sum) => sum.add(t.load(marks.at([rank, 0]))))
      t.store(sums.at([step]), sum)
      t.last(() => t.signalAll(back.at([t.rank])))
    },
  )

const rounds = 4

/**
 * Passes a number around a ring in several rounds of one launch. The flag counts the rounds, so each wait requires
 * another number of signals. Signals of other kernels must also wake programs that wait for a number of signals.
 */
const circulating = kernel(
  'circulating',
  {
    out: tensor('i32', 1),
    inbox: tensor('i32', 2),
    sent: flags(0, { arrivals: rounds }),
    taken: flags(0, { arrivals: rounds }),
    step: scalar('i32'),
  },
  (t, { out, inbox, sent, taken, step }) => {
    const [next, previous] = [t.rank.add(1).mod(t.world), t.rank.add(t.world - 1).mod(t.world)]
    const last = t.for(rounds, t.rank.add(step.mul(100)), (k, x) => {
      const slot = k.mod(2)
      t.wait(taken, { lag: 1 })
      t.wait(taken, { atLeast: k.sub(1).max(0) }) // The next rank has now read the number of round k - 2.
      t.store(inbox.on(next).pick(slot).tile([0], [16]), x)
      t.signal(sent.on(next))
      t.wait(sent, { atLeast: k.add(1) })
      const got = t.load(inbox.at([slot, length - 1]))
      t.signal(taken.on(previous))
      return got.mul(2).add(k)
    })
    t.store(out.at([step]), last)
  },
)

describe.each(targets)('flags on %s', (target) => {
  itForSizes(target, sizesOn(target))('count the rounds of a launch of %i ranks', async (ranks) => {
    await onWorld(target, ranks, async (world) => {
      const [out, inbox] = [world.empty('i32', [launches]), world.empty('i32', [2, length])]
      const [sent, taken] = [world.flags([], { arrivals: rounds }), world.flags([], { arrivals: rounds })]
      for (const step of range(launches))
        world.launch(circulating, { out, inbox, sent, taken, step }, { grid: 1 })
      for (const rank of range(ranks)) {
        const expected = range(launches).map((step) =>
          range(rounds).reduce(
            (x, k) => x * 2 + k,
            ((((rank - rounds) % ranks) + ranks) % ranks) + step * 100,
          ),
        )
        expect([...(await world.read(out, rank))]).toEqual(expected)
      }
    })
  })

  itForSizes(target, sizesOn(target))(
    'order messages around a ring of %i ranks, over several launches',
    async (ranks) => {
      await onWorld(target, ranks, async (world) => {
        const out = world.empty('i32', [launches, length])
        const inbox = world.empty('i32', [length])
        const [sent, taken] = [world.flags(), world.flags()]
        for (const step of range(launches)) world.launch(ring, { out, inbox, sent, taken, step }, { grid: 1 })
        for (const rank of range(ranks)) {
          const from = (rank + ranks - 1) % ranks
          expect([...(await world.read(out, rank))]).toEqual(
            range(launches).flatMap((step) => range(length).map((i) => i + from * 100 + step * 1000)),
          )
        }
      })
    },
  )

  itForSizes(target, sizesOn(target))(
    'may be relaxed if fences order the accesses: %i ranks',
    async (ranks) => {
      await onWorld(target, ranks, async (world) => {
        const [out, inbox] = [world.empty('i32', [length]), world.empty('i32', [length])]
        world.launch(fenced, { out, inbox, sent: world.flags() }, { grid: 1 })
        for (const rank of range(ranks))
          expect([...(await world.read(out, rank))]).toEqual(
            range(length).map(() => (rank + ranks - 1) % ranks),
          )
      })
    },
  )

  itForSizes(target, sizesOn(target))('count the arrivals of %i ranks', async (ranks) => {
    await onWorld(target, ranks, async (world) => {
      const marks = world.empty('i32', [ranks, 1])
      const sums = world.empty('i32', [launches])
      const [here, back] = [world.flags([], { arrivals: ranks }), world.flags([ranks])]
      for (const step of range(launches))
        world.launch(counting(ranks), { marks, sums, here, back, step }, { grid: 1 })
      for (const rank of range(ranks))
        expect([...(await world.read(sums, rank))]).toEqual(
          range(launches).map((step) => range(ranks).reduce((sum, from) => sum + step + from, 0)),
        )
    })
  })

  itForSizes(target, sizesOn(target))('can be polled by %i ranks', async (ranks) => {
    await onWorld(target, ranks, async (world) => {
      const out = world.empty('i32', [launches, length])
      const inbox = world.empty('i32', [length])
      const [sent, taken] = [world.flags(), world.flags()]
      for (const step of range(launches))
        world.launch(looking, { out, inbox, sent, taken, step }, { grid: 1 })
      for (const rank of range(ranks))
        expect([...(await world.read(out, rank))]).toEqual(
          range(launches).flatMap((step) =>
            range(length).map(() => ((rank + ranks - 1) % ranks) + step * 10),
          ),
        )
    })
  })

  it('are not reached before this launch signals them, except with a lag; polling does not count as a wait', async () => {
    const looks = kernel(
      'looks',
      { seen: tensor('i32', 2), ready: flags(), both: flags(0, { arrivals: 2 }), step: scalar('i32') },
      (t, { seen, ready, both, step }) => {
        const tell = (place: number, flag: Flag, lag = 0): void =>
          t.store(seen.at([step, place]), t.reached(flag, { lag }).to('i32'))
        tell(0, ready)
        tell(1, ready, 1)
        t.signal(both)
        tell(2, both)
        t.signal(both)
        tell(3, both)
        t.signal(ready)
        tell(4, ready)
        t.wait(ready)
        t.wait(both)
      },
    )
    const glance = kernel('glance', { seen: tensor('i32', 1), ready: flags() }, (t, { seen, ready }) =>
      t.store(seen.at([0]), t.reached(ready).to('i32')),
    )
    await onWorld(target, 2, async (world) => {
      const [seen, glanced] = [world.empty('i32', [launches, 5]), world.empty('i32', [1])]
      const [ready, both] = [world.flags(), world.flags([], { arrivals: 2 })]
      for (const step of range(launches)) {
        world.launch(looks, { seen, ready, both, step }, { grid: 1 })
        world.launch(glance, { seen: glanced, ready }, { grid: 1 })
      }
      for (const rank of range(2)) {
        expect([...(await world.read(seen, rank))]).toEqual(range(launches).flatMap(() => [0, 1, 0, 1, 1]))
        expect([...(await world.read(glanced, rank))]).toEqual([0])
      }
    })
  })

  it('have epochs that count the launches of each side', async () => {
    const epochs = kernel(
      'epochs',
      { seen: tensor('u32', 2), ready: flags(), step: scalar('i32') },
      (t, args) => {
        const { seen, ready, step } = args
        t.if(t.rank.eq(0), () => t.signalAll(ready))
        t.wait(ready)
        t.store(seen.at([step, 0]), t.epoch(ready))
        t.store(seen.at([step, 1]), t.epoch(ready, 'wait'))
      },
    )
    await onWorld(target, 3, async (world) => {
      const [seen, ready] = [world.empty('u32', [launches, 2]), world.flags()]
      for (const step of range(launches)) world.launch(epochs, { seen, ready, step }, { grid: 1 })
      for (const rank of range(3)) expect([...(await world.read(seen, rank))]).toEqual([1, 1, 2, 2, 3, 3])
    })
  })
})

describe.each(targets)('messages without flags on %s', (target) => {
  it.each(['release and acquire', 'fences', 'atomics'] as const)('by %s', async (how) => {
    for (const ranks of sizesOn(target))
      await onWorld(target, ranks, async (world) => {
        const [out, inbox] = [world.empty('i32', [length]), world.empty('i32', [length])]
        world.launch(polled(how), { out, inbox, cell: world.zeros('u32', [1]) }, { grid: 1 })
        for (const rank of range(ranks))
          expect([...(await world.read(out, rank))]).toEqual(
            range(length).map(() => ((rank + ranks - 1) % ranks) * 3 + 1),
          )
      })
  })
})

const divided = kernel(
  'divided',
  { left: tensor('i32', 1), right: tensor('i32', 1), ends: tensor('i32', 1) },
  (t, { left, right, ends }) => {
    t.teams({
      first: {
        programs: 2,
        body: () => t.persistent([5], ([i]) => t.store(left.at([i]), t.programs.mul(10).add(t.program))),
      },
      others: {
        programs: 'rest',
        body: () => t.persistent([7], ([i]) => t.store(right.at([i]), t.programs.mul(10).add(t.program))),
      },
    })
    t.last(() => {
      const all = t
        .load(left.tile([0], [5]))
        .sum()
        .add(t.load(right.tile([0], [7])).sum())
      t.store(ends.at([0]), t.load(ends.at([0])).add(all))
    })
  },
)

/** Two roles: one fills a ring of tiles with asynchronous copies, the other consumes the tiles. */
const roles = kernel('roles', { x: tensor('f32', 1), y: tensor('f32', 1) }, (t, { x, y }) => {
  const buffer = t.shared('f32', [2, 4])
  const [full, empty] = [t.barriers(2), t.barriers(2)]
  t.roles({
    load: () =>
      t.for(5, (k) => {
        t.wait(empty.at(k.mod(2)), k.div(2).sub(1))
        t.copyAsync(x.tile([k], [4]), buffer.pick(k.mod(2)), full.at(k.mod(2)))
        t.arrive(full.at(k.mod(2)))
      }),
    add: () =>
      t.for(5, (k) => {
        t.wait(full.at(k.mod(2)), k.div(2))
        t.store(y.tile([k], [4]), t.load(buffer.pick(k.mod(2))).add(1))
        t.arrive(empty.at(k.mod(2)))
      }),
  })
})

describe.each(targets)('programs on %s', (target) => {
  it.each([3, 5, 8])(
    'of a grid of %i divide into teams, and the last of them sees the others',
    async (grid) => {
      await onWorld(target, 2, async (world) => {
        const args = {
          left: world.empty('i32', [5]),
          right: world.empty('i32', [7]),
          ends: world.zeros('i32', [1]),
        }
        for (let launch = 0; launch < launches; launch++) world.launch(divided, args, { grid })
        const left = range(5).map((i) => 20 + (i % 2))
        const right = range(7).map((i) => (grid - 2) * 10 + (i % (grid - 2)))
        const sum = [...left, ...right].reduce((total, one) => total + one, 0)
        for (const rank of [0, 1]) {
          expect([...(await world.read(args.left, rank))]).toEqual(left)
          expect([...(await world.read(args.right, rank))]).toEqual(right)
          expect([...(await world.read(args.ends, rank))]).toEqual([launches * sum])
        }
      })
    },
  )

  it.each([1, 2, 7, 16])('of a grid of %i divide an index space round-robin', async (grid) => {
    const deal = kernel('deal', { y: tensor('i32', 2) }, (t, { y }) =>
      t.persistent([5, 3], ([i, j]) => t.store(y.at([i, j]), t.program.add(t.rank.mul(100)))),
    )
    await onWorld(target, 2, async (world) => {
      const y = world.empty('i32', [5, 3])
      world.launch(deal, { y }, { grid })
      expect([...(await world.read(y, 1))]).toEqual(range(15).map((i) => (i % grid) + 100))
    })
  })

  it('have roles that pass tiles to each other', async () => {
    await onWorld(target, 2, async (world) => {
      const x = world.from('f32', [18], range(18))
      const y = world.full('f32', [18], 96)
      world.launch(roles, { x, y }, { grid: 1 })
      for (const rank of [0, 1]) expect([...(await world.read(y, rank))]).toEqual(range(18).map((i) => i + 1))
    })
  })
})

/** Polls a 32-bit word until the host has written it, then reads data that the host wrote before the word. */
const polling = kernel(
  'polling',
  { go: tensor('u32', 1), data: tensor('i32', 1), out: tensor('i32', 1) },
  (t, { go, data, out }) => {
    t.while(
      t.constant('u32', 0),
      (seen) => seen.eq(0),
      () => t.load(go.at([0]), { order: 'acquire', scope: 'system' }),
    )
    t.copy(data.tile([0], [16]), out.tile([0], [16]))
  },
)

describe.each(targets)('a word that the host writes, on %s', (target) => {
  itForSizes(target, sizesOn(target))('reaches kernels that poll it, on %i ranks', async (ranks) => {
    await onWorld(target, ranks, async (world) => {
      const args = {
        go: world.zeros('u32', [1]),
        data: world.full('i32', [length], 96),
        out: world.full('i32', [length], 96),
      }
      world.launch(polling, args, { grid: 1 })
      for (const rank of range(ranks)) {
        world.write(
          args.data,
          rank,
          range(length).map((i) => rank * 100 + i),
        )
        world.write(args.go, rank, [1])
      }
      for (const rank of range(ranks))
        expect([...(await world.read(args.out, rank))]).toEqual(range(length).map((i) => rank * 100 + i))
    })
  })
})
