/**
 * GEMMs: edge tiles, and all-gather + GEMM that either pulls from the owners or receives tiles pushed by a team of
 * senders.
 */
import { f32, flags, i32, kernel, scalar, tensor, type Index } from '../../../src/index.ts'
import type { Access } from '../../../src/lang/access.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)
const small = (seed: number) => (_: unknown, i: number) => ((7 * i + 3 * seed) % 5) - 2
const matrix = (count: number, seed: number): number[] => Array.from({ length: count }, small(seed))

/** The product in float64, computed from its definition. */
function product(a: readonly number[], b: readonly number[], M: number, N: number, K: number): number[] {
  return range(M * N).map((at) => {
    const [i, j] = [Math.floor(at / N), at % N]
    return range(K).reduce((sum, k) => sum + a[i * K + k] * b[k * N + j], 0)
  })
}

// Shapes that are not multiples of the tile.

const oddMutants = {
  'counts-whole-tiles-only': { kind: 'wrong-result', lines: ['compare-c'], says: ['element 2 is NaN'] },
  'next-tile': {
    kind: 'out-of-bounds',
    lines: ['load-a'],
    says: ['tile [2, 0] of 2 x 2 is wholly outside a'],
  },
  'one-slice-too-many': { kind: 'out-of-bounds', lines: ['load-a'], says: ['outside a'] },
  'stores-without-mask': { kind: 'out-of-bounds', lines: ['store-c'], says: ['c (3 x 3)'] },
  'unwritten-accumulator': { kind: 'uninitialised', lines: ['accumulator'], says: ['c[0, 0] of rank 0'] },
  'reads-before-filled': { kind: 'uninitialised', lines: ['dot'], says: ['shared tile'] },
  'rows-and-columns-exchanged': { kind: 'wrong-result', lines: ['compare-c'] },
} satisfies Mutants
type OddMutation = keyof typeof oddMutants

const oddKernel = (mutation?: OddMutation) =>
  kernel('oddGemm', { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2) }, (t, { a, b, c }) => {
    const T = 2
    const as = t.shared(f32, [T, T])
    const bs = t.shared(f32, [T, T])
    const tiles = (extent: number) => {
      const whole = c.dim(extent).div(T)
      return mutation === 'counts-whole-tiles-only'
        ? whole
        : c
            .dim(extent)
            .add(T - 1)
            .div(T)
    }
    t.persistent([tiles(0), tiles(1)], ([i, j]) => {
      const begin = c.tile([i, j], [T, T])
      const start = mutation === 'unwritten-accumulator' ? t.load(begin) : t.zeros(f32, [T, T]) // @line accumulator
      const slices = a
        .dim(1)
        .add(mutation === 'one-slice-too-many' ? 2 * T - 1 : T - 1)
        .div(T)
      const sum = t.pipeline([slices], start, ([k], acc) => {
        t.copy(a.tile([mutation === 'next-tile' ? i.add(1) : i, k], [T, T]), as) // @line load-a
        if (mutation !== 'reads-before-filled') t.copy(b.tile([k, j], [T, T]), bs)
        return t.dot(as, bs, acc) // @line dot
      })
      const rows = t.arange(T).add(i.mul(T)).expand(1)
      const columns = t.arange(T).add(j.mul(T)).expand(0)
      const inside = rows.lt(c.dim(0)).and(columns.lt(c.dim(1)))
      const mask = mutation === 'stores-without-mask' ? {} : { mask: inside }
      const place = mutation === 'rows-and-columns-exchanged' ? c.at([columns, rows]) : c.at([rows, columns])
      t.store(place, sum, mask) // @line store-c
    })
  })

const oddGemm = original<OddMutation>({
  name: 'oddGemm',
  file,
  ranks: 1,
  mutants: oddMutants,
  scenario(mutation) {
    const [M, N, K] = [3, 3, 5]
    const gemm = oddKernel(mutation)
    const [A, B] = [matrix(M * K, 1), matrix(K * N, 2)]
    return scenario('oddGemm', { ranks: 1 }, async (world) => {
      const a = world.from(f32, [M, K], A, { name: 'a' })
      const b = world.from(f32, [K, N], B, { name: 'b' })
      const c = world.empty(f32, [M, N], { name: 'c' })
      world.launch(gemm, { a, b, c }, { grid: 2 })
      expectClose(await world.read(c, 0), product(A, B, M, N, K)) // @line compare-c
    })
  },
})

// All-gather + GEMM that pulls: one kernel publishes this rank's slice, and the GEMM copies the slices it needs from
// their owners.

const pullMutants = {
  'own-flag': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'copies-before-waiting': { kind: 'race', lines: ['publish', 'pull-early'], says: ['a['] },
  'publishes-before-writing': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'publishes-at-device-scope': {
    kind: 'scope-race',
    lines: ['ready', 'await-owner'],
    says: ['ready of rank', 'device'],
    also: [{ kind: 'race', lines: ['publish', 'pull'] }],
  },
  'republishes-without-asking': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'asks-for-the-launch-before': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'every-program-says-done': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'first-program-says-done': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'says-done-before-pulling': { kind: 'race', lines: ['publish', 'pull'], says: ['a['] },
  'done-flag-of-the-owner': { kind: 'deadlock', lines: ['await-done', 'await-done'], says: ['flag done['] },
  'more-programs-than-fit': {
    kind: 'residency',
    lines: ['await-owner'],
    says: ['2 run at once on rank 0'],
  },
} satisfies Mutants
type PullMutation = keyof typeof pullMutants

const publishKernel = (mutation?: PullMutation) =>
  kernel(
    'publish',
    { source: tensor(f32, 2), a: tensor(f32, 2), ready: flags(0), done: flags(1), step: scalar(i32) },
    (t, { source, a, ready, done, step }) => {
      const lag = mutation === 'asks-for-the-launch-before' ? 2 : 1
      const scope = mutation === 'publishes-at-device-scope' ? 'device' : 'system'
      if (mutation !== 'republishes-without-asking')
        t.for(t.world, (reader) => t.wait(done.at([reader]), { lag })) // @line await-done
      if (mutation === 'publishes-before-writing') t.signal(ready)
      const slice = t.load(source.tile([0, 0], [2, 1])).mul(step.add(1).to(f32))
      t.store(a.tile([0, 0], [2, 1]), slice) // @line publish
      if (mutation !== 'publishes-before-writing') t.signal(ready, { scope }) // @line ready
    },
  )

const pullKernel = (mutation?: PullMutation) =>
  kernel(
    'allGatherGemmPull',
    {
      a: tensor(f32, 2),
      b: tensor(f32, 2),
      c: tensor(f32, 3),
      ready: flags(0),
      done: flags(1),
      step: scalar(i32),
    },
    (t, { a, b, c, ready, done, step }) => {
      const as = t.shared(f32, [1, 1])
      const bs = t.shared(f32, [1, 1])
      const sayDone = (): void => t.signalAll(done.at([t.rank]))
      if (mutation === 'says-done-before-pulling') t.last(sayDone)
      t.persistent(c.pick(step).tiles([1, 1]), (tile, [i, j]) => {
        const sum = t.pipeline([t.world], t.zeros(f32, [1, 1]), ([shift], acc) => {
          const owner = t.rank.add(shift).mod(t.world)
          const slice = a.on(owner).tile([i, 0], [1, 1])
          if (mutation === 'copies-before-waiting') t.copy(slice, as) // @line pull-early
          t.wait(mutation === 'own-flag' ? ready : ready.on(owner)) // @line await-owner
          if (mutation !== 'copies-before-waiting') t.copy(slice, as) // @line pull
          t.copy(b.tile([owner, j], [1, 1]), bs)
          return t.dot(as, bs, acc)
        })
        t.copy(sum, tile)
      })
      if (mutation === 'every-program-says-done') sayDone()
      else if (mutation === 'first-program-says-done') t.if(t.program.eq(0), sayDone)
      else if (mutation === 'done-flag-of-the-owner')
        t.last(() => t.for(t.world, (owner) => t.signal(done.on(owner).at([owner]))))
      else if (mutation !== 'says-done-before-pulling') t.last(sayDone)
    },
  )

const allGatherGemmPull = original<PullMutation>({
  name: 'allGatherGemmPull',
  file,
  ranks: 2,
  mutants: pullMutants,
  scenario(mutation) {
    const R = 2
    const publish = publishKernel(mutation)
    const gemm = pullKernel(mutation)
    const slices = range(R).map((rank) => matrix(2, rank + 1))
    const A = [0, 1].flatMap((i) => slices.map((slice) => slice[i]))
    const B = range(R).map((rank) => matrix(R, rank + 5))
    const grid = mutation === 'more-programs-than-fit' ? 4 : 2
    return scenario('allGatherGemmPull', { ranks: R, residency: 2 }, async (world) => {
      const source = world.from(f32, [2, 1], (rank) => slices[rank], { name: 'source' })
      const a = world.zeros(f32, [2, 1], { name: 'a' })
      const b = world.from(f32, [R, 1], (rank) => B[rank], { name: 'b' })
      const c = world.empty(f32, [2, 2, 1], { name: 'c' })
      const ready = world.flags([], { name: 'ready' })
      const done = world.flags([R], { name: 'done' })
      for (const step of [0, 1]) {
        world.launch(publish, { source, a, ready, done, step }, { grid: 1 })
        world.launch(gemm, { a, b, c, ready, done, step }, { grid })
      }
      for (const rank of range(R)) {
        const once = product(A, B[rank], 2, 1, R)
        expectClose(await world.read(c, rank), [...once, ...once.map((x) => 2 * x)])
      }
    })
  },
})

// All-gather + GEMM that pushes: in one launch, senders fill the peers' inboxes tile by tile while the other programs
// compute.

const pushMutants = {
  'flag-of-the-first-tile': { kind: 'race', lines: ['push', 'take'], says: ['inbox['] },
  'indices-exchanged': { kind: 'race', lines: ['push', 'take'], says: ['inbox['] },
  'signals-before-pushing': { kind: 'race', lines: ['push', 'take'], says: ['inbox['] },
  'relaxed-signal': { kind: 'race', lines: ['push', 'take'], says: ['inbox['] },
  'device-scope': {
    kind: 'scope-race',
    lines: ['signal', 'await-tile'],
    says: ['arrived[', 'device'],
    also: [{ kind: 'race', lines: ['push', 'take'] }],
  },
  'single-slot': { kind: 'race', lines: ['push', 'take'], says: ['inbox['] },
  'skips-the-last-tile': {
    kind: 'deadlock',
    lines: ['await-tile', 'await-tile'],
    says: ['compute waits for flag arrived[0, 1] of rank 0: it is 0, wanted 1'],
    lowered: {
      kind: 'deadlock',
      lines: ['await-tile', 'await-tile', 'multiply', 'multiply'],
      says: ['compute, producer waits for flag arrived[0, 1] of rank 0: it is 0, wanted 1'],
    },
  },
  'one-tile-too-many': {
    kind: 'out-of-bounds',
    lines: ['push'],
    says: ['tile [2, 0] of 1 x 1 is wholly outside a'],
  },
} satisfies Mutants
type PushMutation = keyof typeof pushMutants

const pushKernel = (mutation?: PushMutation) =>
  kernel(
    'allGatherGemmPush',
    { a: tensor(f32, 2), b: tensor(f32, 2), inbox: tensor(f32, 4), c: tensor(f32, 2), arrived: flags(2) },
    (t, { a, b, inbox, c, arrived }) => {
      const R = t.world
      const as = t.shared(f32, [1, 1])
      const bs = t.shared(f32, [1, 1])
      const slot = mutation === 'single-slot' ? 0 : t.epoch(arrived).mod(2).to(i32)
      const how = variant<PushMutation, Access>(
        mutation,
        { 'relaxed-signal': { order: 'relaxed' }, 'device-scope': { scope: 'device' } },
        {},
      )
      const tiles = variant<PushMutation, number>(
        mutation,
        { 'skips-the-last-tile': 1, 'one-tile-too-many': 3 },
        2,
      )
      const send = (): void =>
        t.for(tiles, (i) =>
          t.for(R, (shift) => {
            const peer = t.rank.add(shift).mod(R)
            const tile = arrived.on(peer).at([t.rank, i])
            if (mutation === 'signals-before-pushing') t.signal(tile)
            t.put(a.tile([i, 0], [1, 1]), inbox.on(peer).pick(slot).pick(t.rank).tile([i, 0], [1, 1])) // @line push
            if (mutation !== 'signals-before-pushing') t.signal(tile, how) // @line signal
          }),
        )
      const compute = (): void =>
        t.persistent(c.tiles([1, 1]), (tile, [i, j]) => {
          // prettier-ignore
          const sum = t.pipeline([R], t.zeros(f32, [1, 1]), ([source], acc) => { // @line multiply
            const at = variant<PushMutation, readonly [Index, Index]>(
              mutation,
              { 'flag-of-the-first-tile': [source, 0], 'indices-exchanged': [i, source] },
              [source, i],
            )
            t.wait(arrived.at(at)) // @line await-tile
            t.copy(inbox.pick(slot).pick(source).tile([i, 0], [1, 1]), as) // @line take
            t.copy(b.tile([source, j], [1, 1]), bs)
            return t.dot(as, bs, acc)
          })
          t.copy(sum, tile)
        })
      t.teams({ senders: { programs: 1, body: send }, compute: { programs: 'rest', body: compute } })
    },
  )

const allGatherGemmPush = original<PushMutation>({
  name: 'allGatherGemmPush',
  file,
  ranks: 2,
  mutants: pushMutants,
  scenario(mutation) {
    const R = 2
    const gemm = pushKernel(mutation)
    const slices = range(R).map((rank) => matrix(2, rank + 1))
    const A = [0, 1].flatMap((i) => slices.map((slice) => slice[i]))
    const B = range(R).map((rank) => matrix(R, rank + 5))
    return scenario('allGatherGemmPush', { ranks: R, residency: 2 }, async (world) => {
      const a = world.from(f32, [2, 1], (rank) => slices[rank], { name: 'a' })
      const b = world.from(f32, [R, 1], (rank) => B[rank], { name: 'b' })
      const inbox = world.zeros(f32, [2, R, 2, 1], { name: 'inbox' })
      const c = world.empty(f32, [2, 1], { name: 'c' })
      const arrived = world.flags([R, 2], { name: 'arrived' })
      for (let launch = 0; launch < 2; launch++) world.launch(gemm, { a, b, inbox, c, arrived }, { grid: 2 })
      for (const rank of range(R)) expectClose(await world.read(c, rank), product(A, B[rank], 2, 1, R))
    })
  },
})

export const gemms = [oddGemm, allGatherGemmPull, allGatherGemmPush]
