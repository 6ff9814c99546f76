/** Copies in flight: tiles sent from two buffers in turn, tiles fetched ahead into tensors and shared tiles, and puts that signal. */
import { f32, flags, i32, kernel, tensor, type Index, type Ref } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url
const [n, tiles, launches] = [2, 3, 2]

// In this kernel, both ranks double their numbers and send them tile by tile. The program fills one buffer while the
// other is sent. The credit `taken` lets the next launch overwrite the inbox.

const sendMutants = {
  'no-quiet': { kind: 'race', lines: ['send', 'receive'] },
  'signal-before-quiet': { kind: 'race', lines: ['send', 'receive'] },
  'quiet-of-reads-only': { kind: 'race', lines: ['send', 'receive'] },
  'no-quiet-between-tiles': { kind: 'race', lines: ['fill', 'send'] },
  // With only one buffer, the kernel overwrites the tile that is being sent.
  'one-buffer': { kind: 'race', lines: ['fill', 'send'] },
  'relaxed-signal': { kind: 'race', lines: ['send', 'receive'] },
  'no-credit': { kind: 'race', lines: ['send', 'receive'] },
} satisfies Mutants
type SendMutation = keyof typeof sendMutants

const sendKernel = (mutation?: SendMutation) =>
  kernel(
    'sendTiles',
    { x: tensor(f32, 1), inbox: tensor(f32, 1), out: tensor(f32, 1), sent: flags(), taken: flags() },
    (t, { x, inbox, out, sent, taken }) => {
      const peer = t.constant(i32, 1).sub(t.rank)
      const buffers = t.shared(f32, [2, n])
      if (mutation !== 'no-credit') t.wait(taken, { lag: 1 })
      t.for(tiles, (i) => {
        const buffer = buffers.pick(mutation === 'one-buffer' ? 0 : i.mod(2))
        t.store(buffer, t.load(x.tile([i], [n])).mul(2)) // @line fill
        if (mutation !== 'no-quiet-between-tiles') t.quiet({ reads: true })
        t.copyAsync(buffer, inbox.on(peer).tile([i], [n])) // @line send
      })
      if (mutation === 'signal-before-quiet') t.signal(sent.on(peer))
      if (mutation !== 'no-quiet') t.quiet({ reads: mutation === 'quiet-of-reads-only' })
      if (mutation !== 'signal-before-quiet')
        t.signal(sent.on(peer), mutation === 'relaxed-signal' ? { order: 'relaxed' } : {})
      t.wait(sent)
      t.for(tiles, (i) => t.copy(inbox.tile([i], [n]), out.tile([i], [n]))) // @line receive
      t.signal(taken.on(peer))
    },
  )

const sendTiles = original<SendMutation>({
  name: 'sendTiles',
  file,
  ranks: 2,
  mutants: sendMutants,
  scenario(mutation) {
    const send = sendKernel(mutation)
    return scenario('sendTiles', { ranks: 2 }, async (world) => {
      const length = n * tiles
      const xOf = (rank: number): number[] => Array.from({ length }, (_, i) => 10 * rank + i)
      const x = world.from(f32, [length], xOf, { name: 'x' })
      const inbox = world.empty(f32, [length], { name: 'inbox' })
      const out = world.empty(f32, [length], { name: 'out' })
      const [sent, taken] = [world.flags([], { name: 'sent' }), world.flags([], { name: 'taken' })]
      for (let step = 0; step < launches; step++)
        world.launch(send, { x, inbox, out, sent, taken }, { grid: 1 })
      for (const rank of [0, 1])
        expectClose(
          await world.read(out, rank),
          xOf(1 - rank).map((value) => 2 * value),
        )
    })
  },
})

// Each rank announces its numbers with a put and a signal. The peer fetches all of them, and returns their sum in the
// same way. The announcement of the number of elements is one more put, which the signal covers because it precedes it.

const fetchMutants = {
  'read-before-quiet': { kind: 'race', lines: ['add', 'fetch'] },
  'no-quiet': { kind: 'race', lines: ['add', 'fetch'] },
  'quiet-of-reads-only': { kind: 'race', lines: ['add', 'fetch'] },
  'fetch-before-wait': { kind: 'race', lines: ['announce', 'early-fetch'] },
  'count-after-put-signal': { kind: 'race', lines: ['late-count', 'read-count'] },
  'device-scope': {
    kind: 'scope-race',
    lines: ['announce', 'wait'],
    also: [{ kind: 'race', lines: ['announce', 'fetch'] }],
  },
  'signal-of-own-flag': {
    kind: 'race',
    lines: ['count', 'read-count'],
    also: [{ kind: 'race', lines: ['announce', 'fetch'] }],
  },
} satisfies Mutants
type FetchMutation = keyof typeof fetchMutants

const fetchKernel = (mutation?: FetchMutation) =>
  kernel(
    'fetchTiles',
    {
      x: tensor(f32, 1),
      offered: tensor(f32, 1),
      copied: tensor(f32, 1),
      count: tensor(i32, 1),
      sum: tensor(f32, 1),
      ready: flags(),
    },
    (t, { x, offered, copied, count, sum, ready }) => {
      const peer = t.constant(i32, 1).sub(t.rank)
      const flag = mutation === 'signal-of-own-flag' ? ready : ready.on(peer)
      const scope = mutation === 'device-scope' ? ({ scope: 'device' } as const) : {}
      const isLate = mutation === 'count-after-put-signal'
      if (!isLate) t.store(count.on(peer).at([0]), n) // @line count
      t.putSignal(x.tile([0], [n]), offered.tile([0], [n]), flag, scope) // @line announce
      if (isLate) t.store(count.on(peer).at([0]), n) // @line late-count
      if (mutation === 'fetch-before-wait') t.getNbi(offered.on(peer).tile([0], [n]), copied.tile([0], [n])) // @line early-fetch
      t.wait(ready) // @line wait
      if (mutation !== 'fetch-before-wait') t.getNbi(offered.on(peer).tile([0], [n]), copied.tile([0], [n])) // @line fetch
      const elements = t.load(count.at([0])) // @line read-count
      const isEarly = mutation === 'read-before-quiet' || mutation === 'no-quiet'
      if (!isEarly) t.quiet({ reads: mutation === 'quiet-of-reads-only' })
      const all = t.for(elements, t.constant(f32, 0), (i, before) => before.add(t.load(copied.at([i])))) // @line add
      if (mutation === 'read-before-quiet') t.quiet()
      t.store(sum.at([0]), all)
    },
  )

const fetchTiles = original<FetchMutation>({
  name: 'fetchTiles',
  file,
  ranks: 2,
  mutants: fetchMutants,
  scenario(mutation) {
    const fetch = fetchKernel(mutation)
    return scenario('fetchTiles', { ranks: 2 }, async (world) => {
      const x = world.from(f32, [n], (rank) => [rank + 1, rank + 2], { name: 'x' })
      const [offered, copied] = ['offered', 'copied'].map((name) => world.zeros(f32, [n], { name }))
      const count = world.zeros(i32, [1], { name: 'count' })
      const sum = world.empty(f32, [1], { name: 'sum' })
      world.launch(
        fetch,
        { x, offered, copied, count, sum, ready: world.flags([], { name: 'ready' }) },
        { grid: 1 },
      )
      for (const rank of [0, 1]) expectClose(await world.read(sum, rank), [2 * (1 - rank) + 3])
    })
  },
})

// Both ranks fetch the peer's tiles into two shared tiles in turn: the next tile is on its way while the current tile
// is added up.

const aheadMutants = {
  'no-quiet': { kind: 'race', lines: ['first', 'use'] },
  'quiet-of-reads-only': { kind: 'race', lines: ['first', 'use'] },
  'no-quiet-in-loop': { kind: 'race', lines: ['next', 'use'] },
  // With only one shared tile, the next copy overwrites the elements that are in use.
  'one-tile': { kind: 'race', lines: ['next', 'use'] },
  'fetch-before-wait': { kind: 'race', lines: ['offer', 'early'] },
  // The rank thanks too early, so the peer overwrites a tile that the rank still fetches.
  'thanks-before-quiet': { kind: 'race', lines: ['next', 'overwrite'] },
} satisfies Mutants
type AheadMutation = keyof typeof aheadMutants

const aheadKernel = (mutation?: AheadMutation) =>
  kernel(
    'fetchAhead',
    {
      x: tensor(f32, 1),
      offered: tensor(f32, 1),
      sum: tensor(f32, 1),
      ready: flags(),
      taken: flags(),
    },
    (t, { x, offered, sum, ready, taken }) => {
      const peer = t.constant(i32, 1).sub(t.rank)
      const tile = t.shared(f32, [2, n])
      const slot = (i: Index): Ref<'f32', 1, 'shared'> => tile.pick(mutation === 'one-tile' ? 0 : i)
      const theirs = offered.on(peer)
      if (mutation === 'fetch-before-wait') t.getNbi(theirs.tile([0], [n]), slot(0)) // @line early
      t.copy(x.tile([0], [n * tiles]), offered.tile([0], [n * tiles])) // @line offer
      t.signal(ready.on(peer))
      t.wait(ready)
      if (mutation !== 'fetch-before-wait') t.getNbi(theirs.tile([0], [n]), slot(0)) // @line first
      if (mutation !== 'no-quiet') t.quiet({ reads: mutation === 'quiet-of-reads-only' })
      const all = t.for(tiles - 1, t.zeros(f32, [n]), (i, before) => {
        t.getNbi(theirs.tile([i.add(1)], [n]), slot(i.add(1).mod(2))) // @line next
        const added = before.add(t.load(slot(i.mod(2)))) // @line use
        if (mutation === 'thanks-before-quiet') t.if(i.eq(tiles - 2), () => t.signal(taken.on(peer)))
        if (mutation !== 'no-quiet-in-loop') t.quiet()
        return added
      })
      t.store(sum.tile([0], [n]), all.add(t.load(slot((tiles - 1) % 2))))
      if (mutation !== 'thanks-before-quiet') t.signal(taken.on(peer))
      t.wait(taken)
      t.store(offered.tile([0], [n * tiles]), t.zeros(f32, [n * tiles])) // @line overwrite
    },
  )

const fetchAhead = original<AheadMutation>({
  name: 'fetchAhead',
  file,
  ranks: 2,
  mutants: aheadMutants,
  scenario(mutation) {
    const fetch = aheadKernel(mutation)
    return scenario('fetchAhead', { ranks: 2 }, async (world) => {
      const length = n * tiles
      const xOf = (rank: number): number[] => Array.from({ length }, (_, i) => 10 * rank + i)
      const x = world.from(f32, [length], xOf, { name: 'x' })
      const offered = world.zeros(f32, [length], { name: 'offered' })
      const sum = world.empty(f32, [n], { name: 'sum' })
      const [ready, taken] = [world.flags([], { name: 'ready' }), world.flags([], { name: 'taken' })]
      world.launch(fetch, { x, offered, sum, ready, taken }, { grid: 1 })
      for (const rank of [0, 1]) {
        const theirs = xOf(1 - rank)
        const wanted = [0, 1].map((at) => theirs.filter((_, i) => i % n === at).reduce((a, b) => a + b))
        expectClose(await world.read(sum, rank), wanted)
      }
    })
  },
})

export const inFlight = [sendTiles, fetchTiles, fetchAhead]
