/** Messages between two ranks: slots by epoch parity, credits, and a flag built from stores and fences. */
import { f32, flags, i32, kernel, scalar, tensor } from '../../../src/index.ts'
import type { Access } from '../../../src/lang/access.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url
const n = 2
const message = (rank: number, step: number): number[] =>
  Array.from({ length: n }, (_, i) => 100 * rank + 10 * step + i)

/** The finding of the checker if a flag establishes no order. */
const unordered = { kind: 'race', lines: ['send', 'receive'] } as const

// In this kernel, both ranks send and receive. The inbox has two slots, selected by epoch parity.

const exchangeMutants = {
  'relaxed-signal': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[1, 0] of rank'] },
  'relaxed-wait': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[1, 0] of rank'] },
  'signal-before-data': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[1, 0] of rank'] },
  'device-signal': {
    kind: 'scope-race',
    lines: ['signal', 'wait'],
    says: ['ready of rank', 'device'],
    also: [unordered],
  },
  'device-wait': {
    kind: 'scope-race',
    lines: ['signal', 'wait'],
    says: ['ready of rank', 'device'],
    also: [unordered],
  },
  'flag-of-peer': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[1, 0] of rank'] },
  'epoch-lag': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[1, 0] of rank'] },
  'single-slot': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[0, 0] of rank'] },
  // Each rank waits for the other rank's signal before it sends its own.
  'wait-before-signal': {
    kind: 'deadlock',
    lines: ['early-wait', 'early-wait'],
    says: ['flag ready of rank 0: it is 0, wanted 1', 'flag ready of rank 1: it is 0, wanted 1'],
  },
  'host-writes-early': { kind: 'race', lines: ['host', 'load'], says: ['the host', 'bias[0] of rank 0'] },
  'other-shape-on-one-rank': {
    kind: 'asymmetric-allocation',
    lines: ['allocate-even', 'allocate-odd'],
    says: ['rank 0 allocates f32[2]', 'rank 1 allocates f32[3]'],
  },
  // Known bug pattern: a collective allocation on only some ranks. All later allocations have different offsets on
  // different ranks.
  'allocated-on-some-ranks': {
    kind: 'asymmetric-allocation',
    lines: ['allocate-inbox', 'allocate-on-some'],
    says: ['rank 0 allocates f32[2]', 'rank 1 allocates f32[2, 2]'],
  },
} satisfies Mutants
type ExchangeMutation = keyof typeof exchangeMutants

const exchangeKernel = (mutation?: ExchangeMutation) =>
  kernel(
    'exchange',
    { bias: tensor(f32, 1), inbox: tensor(f32, 2), out: tensor(f32, 2), ready: flags(0), step: scalar(i32) },
    (t, { bias, inbox, out, ready, step }) => {
      const peer = t.constant(i32, 1).sub(t.rank)
      const slot = mutation === 'single-slot' ? 0 : t.epoch(ready).mod(2).to(i32)
      const signalled = variant<ExchangeMutation, Access>(
        mutation,
        { 'relaxed-signal': { order: 'relaxed' }, 'device-signal': { scope: 'device' } },
        {},
      )
      const awaited = variant<ExchangeMutation, Access & { lag?: number }>(
        mutation,
        {
          'relaxed-wait': { order: 'relaxed' },
          'device-wait': { scope: 'device' },
          'epoch-lag': { lag: 1 },
        },
        {},
      )
      const base = t.rank.mul(100).add(step.mul(10)).to(f32)
      const mine = t.load(bias.tile([0], [n])).add(base) // @line load
      if (mutation === 'wait-before-signal') t.wait(ready) // @line early-wait
      if (mutation === 'signal-before-data') t.signal(ready.on(peer))
      t.store(inbox.on(peer).pick(slot).tile([0], [n]), mine) // @line send
      if (mutation !== 'signal-before-data') t.signal(ready.on(peer), signalled) // @line signal
      t.wait(mutation === 'flag-of-peer' ? ready.on(peer) : ready, awaited) // @line wait
      t.copy(inbox.pick(slot).tile([0], [n]), out.pick(step).tile([0], [n])) // @line receive
    },
  )

const exchange = original<ExchangeMutation>({
  name: 'exchange',
  file,
  ranks: 2,
  mutants: exchangeMutants,
  scenario(mutation) {
    const launches = 3
    const send = exchangeKernel(mutation)
    return scenario('exchange', { ranks: 2 }, async (world) => {
      const bias = world.from(f32, [n], [0, 1], { name: 'bias' })
      if (mutation === 'other-shape-on-one-rank') {
        world.on(0).empty(f32, [n]) // @line allocate-even
        world.on(1).empty(f32, [n + 1]) // @line allocate-odd
      }
      if (mutation === 'allocated-on-some-ranks') world.on(0).empty(f32, [n]) // @line allocate-on-some
      const inbox = world.zeros(f32, [2, n], { name: 'inbox' }) // @line allocate-inbox
      const out = world.empty(f32, [launches, n], { name: 'out' })
      const ready = world.flags([], { name: 'ready' })
      for (let step = 0; step < launches; step++)
        world.launch(send, { bias, inbox, out, ready, step }, { grid: 1 })
      if (mutation !== 'host-writes-early') await world.synchronize()
      world.write(bias, 0, [7, 7])
      for (const rank of [0, 1])
        expectClose(
          await world.read(out, rank),
          [0, 1, 2].flatMap((step) => message(1 - rank, step)),
        )
    })
  },
})

// In this kernel, only one rank sends. The receiver returns a credit when it has read the only slot.

const creditMutants = {
  'no-credit': { kind: 'race', lines: ['send', 'receive'] },
  'credit-lag-2': { kind: 'race', lines: ['send', 'receive'] },
  'credit-of-this-launch': {
    kind: 'deadlock',
    lines: ['await-credit', 'await-message'],
    says: ['rank 0, program 0 waits for flag credit of rank 0: it is 0, wanted 1', 'flag ready of rank 1'],
  },
  'credit-before-read': { kind: 'race', lines: ['send', 'receive'] },
  // Known bug pattern: a signal paired with the wrong wait.
  'signals-swapped': {
    kind: 'deadlock',
    lines: ['await-credit', 'await-message'],
    says: ['rank 1, program 0 waits for flag ready of rank 1: it is 0, wanted 1'],
  },
  'credit-to-oneself': {
    kind: 'deadlock',
    lines: ['await-credit', 'await-message'],
    says: ['flag credit of rank 0: it is 0, wanted 1', 'flag ready of rank 1: it is 1, wanted 2'],
  },
} satisfies Mutants
type CreditMutation = keyof typeof creditMutants

const creditKernel = (mutation?: CreditMutation) =>
  kernel(
    'credit',
    { inbox: tensor(f32, 1), out: tensor(f32, 2), ready: flags(0), credit: flags(0), step: scalar(i32) },
    (t, { inbox, out, ready, credit, step }) => {
      const slot = inbox.tile([0], [n])
      t.if(
        t.rank.eq(0),
        () => {
          const lag = variant<CreditMutation, number>(
            mutation,
            { 'credit-lag-2': 2, 'credit-of-this-launch': 0 },
            1,
          )
          if (mutation !== 'no-credit') t.wait(credit, { lag }) // @line await-credit
          t.store(inbox.on(1).tile([0], [n]), t.arange(n).add(step.mul(10)).to(f32)) // @line send
          t.signal(mutation === 'signals-swapped' ? credit.on(1) : ready.on(1))
        },
        () => {
          t.wait(ready) // @line await-message
          if (mutation === 'credit-before-read') t.signal(credit.on(0))
          t.copy(slot, out.pick(step).tile([0], [n])) // @line receive
          if (mutation !== 'credit-before-read')
            t.signal(mutation === 'credit-to-oneself' ? credit : credit.on(0))
        },
      )
    },
  )

const credit = original<CreditMutation>({
  name: 'credit',
  file,
  ranks: 2,
  mutants: creditMutants,
  scenario(mutation) {
    const launches = 3
    const send = creditKernel(mutation)
    return scenario('credit', { ranks: 2 }, async (world) => {
      const inbox = world.zeros(f32, [n], { name: 'inbox' })
      const out = world.empty(f32, [launches, n], { name: 'out' })
      const ready = world.flags([], { name: 'ready' })
      const credit = world.flags([], { name: 'credit' })
      for (let step = 0; step < launches; step++)
        world.launch(send, { inbox, out, ready, credit, step }, { grid: 1 })
      expectClose(
        await world.read(out, 1),
        [0, 1, 2].flatMap((step) => message(0, step)),
      )
    })
  },
})

// A flag built from a relaxed store after a release fence, and a relaxed poll before an acquire fence.

const handFlagMutants = {
  'no-release-fence': { kind: 'race', lines: ['send', 'receive'] },
  'no-acquire-fence': { kind: 'race', lines: ['send', 'receive'] },
  'release-fence-at-block-scope': { kind: 'race', lines: ['send', 'receive'] },
  'acquire-fence-at-device-scope': { kind: 'race', lines: ['send', 'receive'] },
  'fence-after-flag': { kind: 'race', lines: ['send', 'receive'] },
  'flag-at-device-scope': {
    kind: 'scope-race',
    lines: ['raise', 'poll'],
    says: ['flag[0] of rank 1'],
    also: [unordered],
  },
  'poll-at-device-scope': {
    kind: 'scope-race',
    lines: ['raise', 'poll'],
    says: ['flag[0] of rank 1'],
    also: [unordered],
  },
  'weak-flag': {
    kind: 'race',
    lines: ['raise-weakly', 'poll'],
    says: ['flag[0] of rank 1'],
    also: [unordered, { kind: 'deadlock', lines: ['loop', 'await-hand-credit'] }],
  },
  // The second launch does not wait, because the flag still holds the value of the first launch.
  'compares-with-constant': { kind: 'race', lines: ['send', 'receive'], says: ['inbox[0] of rank 1'] },
  'flag-not-raised': {
    kind: 'deadlock',
    lines: ['loop', 'await-hand-credit'],
    says: ['rank 1, program 0 spins'],
  },
} satisfies Mutants
type HandFlagMutation = keyof typeof handFlagMutants

const handFlagKernel = (mutation?: HandFlagMutation) =>
  kernel(
    'handFlag',
    {
      inbox: tensor(f32, 1),
      out: tensor(f32, 2),
      flag: tensor(i32, 1),
      credit: flags(0),
      step: scalar(i32),
    },
    (t, { inbox, out, flag, credit, step }) => {
      const raised = step.add(1)
      const flagScope = mutation === 'flag-at-device-scope' ? 'device' : 'system'
      const pollScope = mutation === 'poll-at-device-scope' ? 'device' : 'system'
      const releaseScope = mutation === 'release-fence-at-block-scope' ? 'block' : 'system'
      const acquireScope = mutation === 'acquire-fence-at-device-scope' ? 'device' : 'system'
      const place = flag.on(1).at([0])
      const raise = (): void => {
        if (mutation === 'weak-flag')
          t.store(place, raised) // @line raise-weakly
        else t.store(place, raised, { order: 'relaxed', scope: flagScope }) // @line raise
      }
      t.if(
        t.rank.eq(0),
        () => {
          t.wait(credit, { lag: 1 }) // @line await-hand-credit
          t.store(inbox.on(1).tile([0], [n]), t.arange(n).add(step.mul(10)).to(f32)) // @line send
          if (mutation === 'fence-after-flag') raise()
          if (mutation !== 'no-release-fence') t.fence('release', releaseScope)
          if (mutation !== 'fence-after-flag' && mutation !== 'flag-not-raised') raise()
        },
        () => {
          const wanted = mutation === 'compares-with-constant' ? t.constant(i32, 1) : raised
          // prettier-ignore
          t.while(t.constant(i32, 0), (seen) => seen.lt(wanted), // @line loop
            () => t.load(place, { order: 'relaxed', scope: pollScope }), // @line poll
          )
          if (mutation !== 'no-acquire-fence') t.fence('acquire', acquireScope)
          t.copy(inbox.tile([0], [n]), out.pick(step).tile([0], [n])) // @line receive
          t.signal(credit.on(0))
        },
      )
    },
  )

const handFlag = original<HandFlagMutation>({
  name: 'handFlag',
  file,
  ranks: 2,
  mutants: handFlagMutants,
  scenario(mutation) {
    const launches = 2
    const send = handFlagKernel(mutation)
    return scenario('handFlag', { ranks: 2 }, async (world) => {
      const inbox = world.zeros(f32, [n], { name: 'inbox' })
      const out = world.empty(f32, [launches, n], { name: 'out' })
      const flag = world.zeros(i32, [1], { name: 'flag' })
      const credit = world.flags([], { name: 'credit' })
      for (let step = 0; step < launches; step++)
        world.launch(send, { inbox, out, flag, credit, step }, { grid: 1 })
      expectClose(
        await world.read(out, 1),
        [0, 1].flatMap((step) => message(0, step)),
      )
    })
  },
})

// Rank 0 writes to rank 2 and signals rank 1, which signals rank 2. The order is transitive through rank
// 1.

const relayMutants = {
  'relay-waits-relaxed': { kind: 'race', lines: ['leave', 'find'], says: ['inbox[0] of rank 2'] },
  'relay-signals-relaxed': { kind: 'race', lines: ['leave', 'find'], says: ['inbox[0] of rank 2'] },
  'relay-signals-first': { kind: 'race', lines: ['leave', 'find'], says: ['inbox[0] of rank 2'] },
  'relay-reads-a-stale-flag': { kind: 'race', lines: ['leave', 'find'], says: ['inbox[0] of rank 2'] },
  'relay-tells-itself': {
    kind: 'deadlock',
    lines: ['await-relay'],
    says: ['rank 2, program 0 waits for flag second of rank 2: it is 0, wanted 1'],
  },
} satisfies Mutants
type RelayMutation = keyof typeof relayMutants

const relayKernel = (mutation?: RelayMutation) =>
  kernel(
    'relay',
    { inbox: tensor(f32, 1), out: tensor(f32, 1), first: flags(0), second: flags(0) },
    (t, { inbox, out, first, second }) => {
      const order = mutation === 'relay-waits-relaxed' ? 'relaxed' : 'acquire'
      const lag = mutation === 'relay-reads-a-stale-flag' ? 1 : 0
      t.if(t.rank.eq(0), () => {
        t.store(inbox.on(2).tile([0], [n]), t.arange(n).to(f32)) // @line leave
        t.signal(first.on(1))
      })
      t.if(t.rank.eq(1), () => {
        if (mutation !== 'relay-signals-first') t.wait(first, { order, lag })
        t.signal(mutation === 'relay-tells-itself' ? second : second.on(2), {
          order: mutation === 'relay-signals-relaxed' ? 'relaxed' : 'release',
        })
        if (mutation === 'relay-signals-first') t.wait(first)
      })
      t.if(t.rank.eq(2), () => {
        t.wait(second) // @line await-relay
        t.copy(inbox.tile([0], [n]), out.tile([0], [n])) // @line find
      })
    },
  )

const relay = original<RelayMutation>({
  name: 'relay',
  file,
  ranks: 3,
  mutants: relayMutants,
  scenario(mutation) {
    const pass = relayKernel(mutation)
    return scenario('relay', { ranks: 3 }, async (world) => {
      const inbox = world.zeros(f32, [n], { name: 'inbox' })
      const out = world.empty(f32, [n], { name: 'out' })
      const first = world.flags([], { name: 'first' })
      const second = world.flags([], { name: 'second' })
      world.launch(pass, { inbox, out, first, second }, { grid: 1 })
      expectClose(await world.read(out, 2), message(0, 0))
    })
  },
})

export const passing = [exchange, credit, handFlag, relay]
