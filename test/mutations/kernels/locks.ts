/** Shared counters and locks built from atomics: spin locks across ranks, and a work queue. */
import { f32, i32, kernel, tensor } from '../../../src/index.ts'
import type { Access } from '../../../src/lang/access.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url

// A spin lock for each of two accounts on rank 0. Every rank adds to both accounts.

const spinLockMutants = {
  // Known bug pattern: a lock at GPU scope that peers on other ranks spin on, possibly forever.
  'locked-at-device-scope': {
    kind: 'scope-race',
    lines: ['lock', 'lock'],
    says: ['locks[0] of rank 0', 'device'],
  },
  'unlocked-at-device-scope': {
    kind: 'scope-race',
    lines: ['lock', 'unlock'],
    says: ['locks[0] of rank 0', 'device'],
  },
  'relaxed-lock': { kind: 'race', lines: ['read', 'write'], says: ['accounts[0] of rank 0'] },
  'relaxed-unlock': { kind: 'race', lines: ['read', 'write'], says: ['accounts[0] of rank 0'] },
  'unlocked-with-plain-store': {
    kind: 'race',
    lines: ['lock', 'unlock-weakly'],
    says: ['locks[0] of rank 0'],
  },
  'unlocked-before-writing': {
    kind: 'race',
    lines: ['read', 'write'],
    says: ['accounts[0] of rank 0'],
  },
  'tests-and-sets-apart': {
    kind: 'race',
    lines: ['read', 'write'],
    says: ['accounts['],
  },
  'other-lock-for-the-same-account': {
    kind: 'race',
    lines: ['read', 'write'],
    says: ['accounts[0] of rank 0'],
  },
  'never-unlocked': { kind: 'deadlock', lines: ['spin'], says: ['spins'] },
  // Known bug pattern: a lock array that overflows into the heap.
  'more-accounts-than-locks': { kind: 'out-of-bounds', lines: ['lock'], says: ['locks (1)'] },
} satisfies Mutants
type SpinLockMutation = keyof typeof spinLockMutants

const spinLockKernel = (mutation?: SpinLockMutation) =>
  kernel('spinLock', { locks: tensor(i32, 1), accounts: tensor(f32, 1) }, (t, { locks, accounts }) => {
    const locked = variant<SpinLockMutation, Access>(
      mutation,
      {
        'locked-at-device-scope': { order: 'acquire', scope: 'device' },
        'relaxed-lock': { order: 'relaxed' },
      },
      { order: 'acquire', scope: 'system' },
    )
    const unlocked = variant<SpinLockMutation, Access>(
      mutation,
      {
        'unlocked-at-device-scope': { order: 'release', scope: 'device' },
        'relaxed-unlock': { order: 'relaxed' },
      },
      { order: 'release', scope: 'system' },
    )
    t.for(2, (account) => {
      const own = mutation === 'other-lock-for-the-same-account' ? account.add(t.rank).mod(2) : account
      const lock = locks.on(0).at([own])
      const place = accounts.on(0).at([account])
      const unlock = (): void => {
        if (mutation === 'unlocked-with-plain-store')
          t.store(lock, 0) // @line unlock-weakly
        else if (mutation !== 'never-unlocked') t.atomic.xchg(lock, 0, unlocked) // @line unlock
      }
      // prettier-ignore
      t.while(t.constant(i32, 1), (held) => held.ne(0), () => { // @line spin
        if (mutation !== 'tests-and-sets-apart') return t.atomic.cas(lock, 0, 1, locked) // @line lock
        const held = t.load(lock, { order: 'acquire' })
        t.if(held.eq(0), () => t.store(lock, 1, { order: 'relaxed' }))
        return held
      })
      const balance = t.load(place) // @line read
      if (mutation === 'unlocked-before-writing') unlock()
      t.store(place, balance.add(t.rank.add(1).to(f32))) // @line write
      if (mutation !== 'unlocked-before-writing') unlock()
    })
  })

const spinLock = original<SpinLockMutation>({
  name: 'spinLock',
  file,
  ranks: 2,
  mutants: spinLockMutants,
  scenario(mutation) {
    const add = spinLockKernel(mutation)
    return scenario('spinLock', { ranks: 2 }, async (world) => {
      const locks = world.zeros(i32, [mutation === 'more-accounts-than-locks' ? 1 : 2], { name: 'locks' })
      const accounts = world.zeros(f32, [2], { name: 'accounts' })
      world.launch(add, { locks, accounts }, { grid: 1 })
      expectClose(await world.read(accounts, 0), [3, 3])
    })
  },
})

// A work queue on rank 0: programs of any rank take the next tile from it.

const workQueueMutants = {
  'takes-with-load-and-store': {
    kind: 'race',
    lines: ['take-store', 'take-load'],
    says: ['next[0] of rank 0'],
  },
  'loads-and-stores-strongly': { kind: 'race', lines: ['work', 'work'], says: ['done['] },
  'queue-at-device-scope': {
    kind: 'scope-race',
    lines: ['take', 'take'],
    says: ['next[0] of rank 0', 'device'],
  },
  'one-ticket-too-many': { kind: 'out-of-bounds', lines: ['work'], says: ['done'] },
  'one-ticket-too-few': { kind: 'wrong-result', lines: ['compare-work'], says: ['element 2 is NaN'] },
  'queue-on-every-rank': { kind: 'race', lines: ['work', 'work'], says: ['done['] },
} satisfies Mutants
type WorkQueueMutation = keyof typeof workQueueMutants

const workQueueKernel = (mutation?: WorkQueueMutation) =>
  kernel('workQueue', { next: tensor(i32, 1), done: tensor(f32, 1) }, (t, { next, done }) => {
    const tickets = done
      .dim(0)
      .add(
        variant<WorkQueueMutation, number>(
          mutation,
          { 'one-ticket-too-many': 1, 'one-ticket-too-few': -1 },
          0,
        ),
      )
    const place = (mutation === 'queue-on-every-rank' ? next : next.on(0)).at([0])
    const scope = mutation === 'queue-at-device-scope' ? 'device' : 'system'
    const take = () => {
      if (mutation === 'takes-with-load-and-store') {
        const ticket = t.load(place) // @line take-load
        t.store(place, ticket.add(1)) // @line take-store
        return ticket
      }
      if (mutation === 'loads-and-stores-strongly') {
        const ticket = t.load(place, { order: 'relaxed' })
        t.store(place, ticket.add(1), { order: 'relaxed' })
        return ticket
      }
      return t.atomic.add(place, 1, { order: 'relaxed', scope }) // @line take
    }
    const first = take()
    t.while(
      first,
      (ticket) => ticket.lt(tickets),
      (ticket) => {
        t.store(done.on(0).at([ticket]), ticket.mul(ticket).to(f32)) // @line work
        return take()
      },
    )
  })

const workQueue = original<WorkQueueMutation>({
  name: 'workQueue',
  file,
  ranks: 2,
  mutants: workQueueMutants,
  scenario(mutation) {
    const work = workQueueKernel(mutation)
    return scenario('workQueue', { ranks: 2 }, async (world) => {
      const next = world.zeros(i32, [1], { name: 'next' })
      const done = world.empty(f32, [3], { name: 'done' })
      world.launch(work, { next, done }, { grid: 1 })
      expectClose(await world.read(done, 0), [0, 1, 4]) // @line compare-work
    })
  },
})

// A barrier of all ranks, built from one counter: every rank writes, reads from a peer, and writes again.

const handBarrierMutants = {
  'relaxed-arrival': { kind: 'race', lines: ['offer', 'collect'], says: ['x[0] of rank'] },
  'relaxed-poll': { kind: 'race', lines: ['offer', 'collect'], says: ['x[0] of rank'] },
  'arrives-at-device-scope': {
    kind: 'scope-race',
    lines: ['arrive', 'arrive'],
    says: ['counter[0] of rank 0', 'device'],
  },
  'goes-on-one-too-early': { kind: 'race', lines: ['offer', 'collect'], says: ['x[0] of rank'] },
  'no-second-barrier': { kind: 'race', lines: ['offer', 'collect'], says: ['x[0] of rank'] },
  'waits-for-one-too-many': {
    kind: 'deadlock',
    lines: ['loop', 'loop'],
    says: ['rank 1, program 0 spins'],
  },
  'counts-with-load-and-store': { kind: 'deadlock', lines: ['loop', 'loop'], says: ['spins'] },
} satisfies Mutants
type HandBarrierMutation = keyof typeof handBarrierMutants

const handBarrierKernel = (mutation?: HandBarrierMutation) =>
  kernel(
    'handBarrier',
    { x: tensor(f32, 1), out: tensor(f32, 1), counter: tensor(i32, 1) },
    (t, { x, out, counter }) => {
      const place = counter.on(0).at([0])
      const peer = t.rank.add(1).mod(t.world)
      const early = variant<HandBarrierMutation, number>(
        mutation,
        { 'goes-on-one-too-early': 1, 'waits-for-one-too-many': -1 },
        0,
      )
      const arrived = variant<HandBarrierMutation, Access>(
        mutation,
        {
          'relaxed-arrival': { order: 'relaxed' },
          'arrives-at-device-scope': { order: 'release', scope: 'device' },
        },
        { order: 'release', scope: 'system' },
      )
      const polled: Access = { order: mutation === 'relaxed-poll' ? 'relaxed' : 'acquire' }
      const meet = (crossing: number): void => {
        if (mutation === 'counts-with-load-and-store') {
          const before = t.load(place, { order: 'acquire' })
          t.store(place, before.add(1), { order: 'release' })
        } else t.atomic.add(place, 1, arrived) // @line arrive
        const all = (crossing + 1) * t.world - early
        // prettier-ignore
        t.while(t.constant(i32, 0), (seen) => seen.lt(all), // @line loop
          () => t.load(place, polled), // @line poll
        )
      }
      const offer = (value: number): void => t.store(x.at([0]), t.rank.add(value).to(f32)) // @line offer
      offer(0)
      meet(0)
      t.store(out.at([0]), t.load(x.on(peer).at([0]))) // @line collect
      if (mutation !== 'no-second-barrier') meet(1)
      offer(10)
    },
  )

const handBarrier = original<HandBarrierMutation>({
  name: 'handBarrier',
  file,
  ranks: 2,
  mutants: handBarrierMutants,
  scenario(mutation) {
    const swap = handBarrierKernel(mutation)
    return scenario('handBarrier', { ranks: 2 }, async (world) => {
      const x = world.zeros(f32, [1], { name: 'x' })
      const out = world.empty(f32, [1], { name: 'out' })
      const counter = world.zeros(i32, [1], { name: 'counter' })
      world.launch(swap, { x, out, counter }, { grid: 1 })
      for (const rank of [0, 1]) {
        expectClose(await world.read(out, rank), [1 - rank])
        expectClose(await world.read(x, rank), [10 + rank])
      }
    })
  },
})

// The simplest lock: exchange 1 into the lock until the result is 0.

const exchangeLockMutants = {
  'relaxed-exchange': { kind: 'race', lines: ['read-total', 'write-total'], says: ['total[0] of rank 0'] },
  'exchange-at-device-scope': {
    kind: 'scope-race',
    lines: ['exchange', 'exchange'],
    says: ['lock[0] of rank 0', 'device'],
  },
  'keeps-the-lock': { kind: 'deadlock', lines: ['exchange-loop', 'exchange-loop'], says: ['spins'] },
  'takes-one-for-free': { kind: 'race', lines: ['read-total', 'write-total'], says: ['total[0] of rank 0'] },
} satisfies Mutants
type ExchangeLockMutation = keyof typeof exchangeLockMutants

const exchangeLockKernel = (mutation?: ExchangeLockMutation) =>
  kernel('exchangeLock', { lock: tensor(i32, 1), total: tensor(f32, 1) }, (t, { lock, total }) => {
    const place = lock.on(0).at([0])
    const how = variant<ExchangeLockMutation, Access>(
      mutation,
      {
        'relaxed-exchange': { order: 'relaxed' },
        'exchange-at-device-scope': { order: 'acquire', scope: 'device' },
      },
      { order: 'acquire', scope: 'system' },
    )
    const taken = mutation === 'takes-one-for-free' ? 2 : 1
    // prettier-ignore
    t.while(t.constant(i32, taken), (held) => held.eq(taken), // @line exchange-loop
      () => t.atomic.xchg(place, 1, how), // @line exchange
    )
    const sum = t.load(total.on(0).at([0])) // @line read-total
    t.store(total.on(0).at([0]), sum.add(1)) // @line write-total
    if (mutation !== 'keeps-the-lock') t.store(place, 0, { order: 'release' })
  })

const exchangeLock = original<ExchangeLockMutation>({
  name: 'exchangeLock',
  file,
  ranks: 3,
  mutants: exchangeLockMutants,
  scenario(mutation) {
    const add = exchangeLockKernel(mutation)
    return scenario('exchangeLock', { ranks: 3 }, async (world) => {
      const lock = world.zeros(i32, [1], { name: 'lock' })
      const total = world.zeros(f32, [1], { name: 'total' })
      world.launch(add, { lock, total }, { grid: 1 })
      expectClose(await world.read(total, 0), [3])
    })
  },
})

// A reader without a lock (sequence lock): the reader retries unless the version was even and unchanged. All accesses
// are strong, so a mistake is not a race. A mistake in the sequence lock shows as two values of different versions.

const versionMutants = {
  'no-release-fence': { kind: 'wrong-result', lines: ['compare-pair'], says: ['torn'] },
  'no-acquire-fence': { kind: 'wrong-result', lines: ['compare-pair'], says: ['torn'] },
  'takes-odd-versions': { kind: 'wrong-result', lines: ['compare-pair'], says: ['torn'] },
  'version-first': { kind: 'wrong-result', lines: ['compare-pair'], says: ['torn'] },
  'weak-data': { kind: 'race', lines: ['write-pair', 'read-pair'], says: ['pair[0] of rank 0'] },
} satisfies Mutants
type VersionMutation = keyof typeof versionMutants

const versionKernel = (mutation?: VersionMutation) =>
  kernel(
    'versioned',
    { version: tensor(i32, 1), pair: tensor(i32, 1), out: tensor(i32, 1) },
    (t, { version, pair, out }) => {
      const strong: Access = mutation === 'weak-data' ? {} : { order: 'relaxed' }
      const lanes = t.arange(2)
      const place = version.on(0).at([0])
      const write = (): void => {
        t.store(place, 1, { order: 'relaxed' })
        if (mutation !== 'no-release-fence') t.fence('release')
        if (mutation === 'version-first') t.store(place, 2, { order: 'release' })
        t.store(pair.at([lanes]), 7, strong) // @line write-pair
        if (mutation !== 'version-first') t.store(place, 2, { order: 'release' })
      }
      const read = (): void => {
        const start = { again: t.constant(i32, 1), first: t.constant(i32, 0), second: t.constant(i32, 0) }
        const seen = t.while(
          start,
          ({ again }) => again.ne(0),
          () => {
            const before = t.load(place, { order: 'acquire' })
            const first = t.load(pair.on(0).at([0]), strong) // @line read-pair
            const second = t.load(pair.on(0).at([1]), strong)
            if (mutation !== 'no-acquire-fence') t.fence('acquire')
            const after = t.load(place, { order: 'relaxed' })
            const odd = before.mod(mutation === 'takes-odd-versions' ? 1 : 2).ne(0)
            return { again: odd.or(before.ne(after)).select(t.constant(i32, 1), 0), first, second }
          },
        )
        t.store(out.at([0]), seen.first)
        t.store(out.at([1]), seen.second)
      }
      t.if(t.rank.eq(0), write, read)
    },
  )

const versioned = original<VersionMutation>({
  name: 'versioned',
  file,
  ranks: 2,
  mutants: versionMutants,
  scenario(mutation) {
    const swap = versionKernel(mutation)
    return scenario('versioned', { ranks: 2 }, async (world) => {
      const version = world.zeros(i32, [1], { name: 'version' })
      const pair = world.zeros(i32, [2], { name: 'pair' })
      const out = world.empty(i32, [2], { name: 'out' })
      world.launch(swap, { version, pair, out }, { grid: 1 })
      const [first, second] = await world.read(out, 1)
      if (first !== second || ![0, 7].includes(first)) {
        throw new Error(`torn: ${first} and ${second}`) // @line compare-pair
      }
    })
  },
})

export const locks = [spinLock, exchangeLock, workQueue, handBarrier, versioned]
