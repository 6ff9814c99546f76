/**
 * Roles of a program: a hand-written ring of stages with asynchronous copies, and roles that synchronise at barriers.
 */
import { f32, flags, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

// A producer fills a ring of two stages. A consumer multiplies and releases the stages.

const stageRingMutants = {
  'fills-without-waiting-for-empty': {
    kind: 'race',
    lines: ['fill-a', 'fill-a'],
    says: ['producer (asynchronous copy) writes'],
  },
  'empty-one-phase-late': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    says: ['producer waits for phase 0', 'consumer waits for phase 0'],
  },
  'empty-one-phase-early': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    says: ['producer waits for phase -2', 'consumer waits for phase 0'],
  },
  'barriers-shared-by-stages': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    also: [{ kind: 'uninitialised', lines: ['multiply'] }],
  },
  'one-buffer-too-few': { kind: 'race', lines: ['fill-a', 'fill-a'], says: ['asynchronous copy'] },
  'one-stage-too-many': {
    kind: 'out-of-bounds',
    lines: ['await-empty', 'choose-empty'],
    says: ['which has extent 2', 'producer'],
  },
  'gives-back-before-reading': {
    kind: 'race',
    lines: ['fill-a', 'multiply'],
    says: ['producer', 'consumer'],
  },
  'multiplies-without-waiting-for-full': {
    kind: 'race',
    lines: ['fill-a', 'multiply'],
    says: ['producer', 'consumer'],
    also: [{ kind: 'uninitialised', lines: ['multiply'] }],
  },
  'arrives-before-copying': { kind: 'race', lines: ['fill-a', 'multiply'], says: ['asynchronous copy'] },
  'one-copy-on-another-barrier': { kind: 'race', lines: ['fill-b', 'multiply'], says: ['asynchronous copy'] },
  'full-wants-two-arrivals': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    says: ['consumer waits for phase 0', 'counts 1 of 2 arrivals'],
  },
  'full-arrived-twice': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    says: ['has completed 2 phases'],
    also: [{ kind: 'phase', lines: ['arrive-again', 'await-full'] }],
  },
  'phase-counts-iterations': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    says: ['consumer waits for phase 1 of a barrier that has completed 1 phases'],
    also: [{ kind: 'phase', lines: ['await-full'] }],
  },
  'never-given-back': {
    kind: 'deadlock',
    lines: ['await-empty', 'await-full'],
    says: ['producer waits for phase 0 of a barrier that has completed 0 phases'],
  },
} satisfies Mutants
type StageRingMutation = keyof typeof stageRingMutants

const stageRingKernel = (mutation?: StageRingMutation) =>
  kernel('stageRing', { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2) }, (t, { a, b, c }) => {
    const stages = 2
    const as = t.shared(f32, [mutation === 'one-buffer-too-few' ? 1 : stages, 1, 1])
    const bs = t.shared(f32, [stages, 1, 1])
    const full = t.barriers(stages, mutation === 'full-wants-two-arrivals' ? 2 : 1)
    const empty = t.barriers(stages)
    const slices = a.dim(1)
    const cycle = mutation === 'one-stage-too-many' ? stages + 1 : stages
    const stageOf = (k: typeof slices) => {
      const stage = k.mod(cycle)
      const buffer = mutation === 'one-buffer-too-few' ? 0 : stage
      const barrier = mutation === 'barriers-shared-by-stages' ? 0 : stage
      return {
        phase: k.div(stages),
        b: bs.pick(stage),
        a: as.pick(buffer),
        full: full.at(barrier),
        empty: empty.at(barrier), // @line choose-empty
      }
    }
    t.roles({
      producer: () =>
        t.for(slices, (k) => {
          const stage = stageOf(k)
          const lap = variant<StageRingMutation, number>(
            mutation,
            { 'empty-one-phase-late': 0, 'empty-one-phase-early': 2 },
            1,
          )
          if (mutation !== 'fills-without-waiting-for-empty') t.wait(stage.empty, stage.phase.sub(lap)) // @line await-empty
          if (mutation === 'arrives-before-copying') t.arrive(stage.full)
          t.copyAsync(a.tile([0, k], [1, 1]), stage.a, stage.full) // @line fill-a
          const other =
            mutation === 'one-copy-on-another-barrier'
              ? full.at(t.constant('i32', 1).sub(k.mod(2)))
              : stage.full
          t.copyAsync(b.tile([k, 0], [1, 1]), stage.b, other) // @line fill-b
          if (mutation !== 'arrives-before-copying') t.arrive(stage.full)
          if (mutation === 'full-arrived-twice') t.arrive(stage.full) // @line arrive-again
        }),
      consumer: () => {
        const sum = t.for(slices, t.zeros(f32, [1, 1]), (k, acc) => {
          const stage = stageOf(k)
          const phase = mutation === 'phase-counts-iterations' ? k : stage.phase
          if (mutation !== 'multiplies-without-waiting-for-full') t.wait(stage.full, phase) // @line await-full
          if (mutation === 'gives-back-before-reading') t.arrive(stage.empty)
          const next = t.dot(stage.a, stage.b, acc) // @line multiply
          if (mutation !== 'gives-back-before-reading' && mutation !== 'never-given-back')
            t.arrive(stage.empty)
          return next
        })
        t.store(c.tile([0, 0], [1, 1]), sum)
      },
    })
  })

const stageRing = original<StageRingMutation>({
  name: 'stageRing',
  file,
  ranks: 1,
  mutants: stageRingMutants,
  scenario(mutation) {
    const multiply = stageRingKernel(mutation)
    const [A, B] = [
      [1, 2, -3, 4, 5],
      [6, -7, 8, 9, 1],
    ]
    return scenario('stageRing', { ranks: 1 }, async (world) => {
      const a = world.from(f32, [1, 5], A, { name: 'a' })
      const b = world.from(f32, [5, 1], B, { name: 'b' })
      const c = world.empty(f32, [1, 1], { name: 'c' })
      world.launch(multiply, { a, b, c }, { grid: 1 })
      expectClose(await world.read(c, 0), [range(5).reduce((sum, k) => sum + A[k] * B[k], 0)])
    })
  },
})

// The kernel has one buffer per slice, so no buffer is reused. One barrier per buffer completes when the buffer is full.

const prefetchMutants = {
  // The producer may be two phases ahead, and the consumer cannot detect it because the barrier keeps only the
  // parity.
  'one-barrier-for-all': {
    kind: 'phase',
    lines: ['await-slice'],
    says: ['consumer waits for phase 0'],
    also: [{ kind: 'phase', lines: ['arrive', 'await-slice'] }],
  },
  'waits-for-the-first-only': {
    kind: 'race',
    lines: ['prefetch', 'accumulate'],
    says: ['asynchronous copy'],
  },
  'next-buffer': { kind: 'race', lines: ['prefetch', 'accumulate'], says: ['asynchronous copy'] },
} satisfies Mutants
type PrefetchMutation = keyof typeof prefetchMutants

const prefetchKernel = (mutation?: PrefetchMutation) =>
  kernel('prefetch', { a: tensor(f32, 2), out: tensor(f32, 1) }, (t, { a, out }) => {
    const slices = 3
    const buffers = t.shared(f32, [slices, 1, 1])
    const full = t.barriers(slices)
    const one = mutation === 'one-barrier-for-all'
    t.roles({
      producer: () =>
        t.for(slices, (k) => {
          const barrier = full.at(one ? 0 : k)
          t.copyAsync(a.tile([0, k], [1, 1]), buffers.pick(k), barrier) // @line prefetch
          t.arrive(barrier) // @line arrive
        }),
      consumer: () =>
        t.for(slices, (k) => {
          const barrier = full.at(one || mutation === 'waits-for-the-first-only' ? 0 : k)
          t.wait(barrier, one ? k : 0) // @line await-slice
          const value = t.load(buffers.pick(mutation === 'next-buffer' ? k.add(1) : k).at([0, 0])) // @line accumulate
          t.store(out.at([k]), value.mul(2))
        }),
    })
  })

const prefetch = original<PrefetchMutation>({
  name: 'prefetch',
  file,
  ranks: 1,
  mutants: prefetchMutants,
  scenario(mutation) {
    const double = prefetchKernel(mutation)
    return scenario('prefetch', { ranks: 1 }, async (world) => {
      const a = world.from(f32, [1, 3], [4, 5, 6], { name: 'a' })
      const out = world.empty(f32, [3], { name: 'out' })
      world.launch(double, { a, out }, { grid: 1 })
      expectClose(await world.read(out, 0), [8, 10, 12])
    })
  },
})

// A loader and a worker synchronise at barriers: one tile is read while the next is filled. The loader reads the
// tiles from a peer.

const meetingMutants = {
  'no-barrier-after-filling': {
    kind: 'uninitialised',
    lines: ['use'],
    says: ['worker reads', 'shared tile'],
    also: [{ kind: 'race', lines: ['fill', 'use'] }],
  },
  'one-role-meets-less-often': {
    kind: 'deadlock',
    lines: ['meet', 'meet'],
    says: ['rank 1, program 0, loader waits at a barrier for worker, which has ended'],
  },
  'same-half-for-both': { kind: 'race', lines: ['fill', 'use'], says: ['loader writes', 'worker reads'] },
  'worker-reads-ahead': {
    kind: 'uninitialised',
    lines: ['use'],
    says: ['worker reads', 'shared tile'],
    also: [{ kind: 'race', lines: ['fill', 'use'] }],
  },
  'other-role-waits-for-the-flag': { kind: 'race', lines: ['offer', 'fetch'], says: ['loader reads x['] },
  'says-free-while-the-loader-reads': { kind: 'race', lines: ['offer', 'fetch'], says: ['loader reads x['] },
} satisfies Mutants
type MeetingMutation = keyof typeof meetingMutants

const meetingKernel = (mutation?: MeetingMutation) =>
  kernel(
    'meetingRoles',
    { source: tensor(f32, 2), x: tensor(f32, 2), out: tensor(f32, 2), ready: flags(0), free: flags(0) },
    (t, { source, x, out, ready, free }) => {
      const peer = t.constant('i32', 1).sub(t.rank)
      const halves = t.shared(f32, [2, 1])
      const steps = 3
      t.wait(free, { lag: 1 })
      t.copy(source.tile([0, 0], [steps, 1]), x.tile([0, 0], [steps, 1])) // @line offer
      t.signal(ready.on(peer))
      const half = (step: typeof peer) => (mutation === 'same-half-for-both' ? step.mul(0) : step.mod(2))
      const early = mutation === 'says-free-while-the-loader-reads'
      t.roles({
        loader: () => {
          if (mutation !== 'other-role-waits-for-the-flag') t.wait(ready)
          t.for(steps, (step) => {
            const value = t.load(x.on(peer).at([step, 0])) // @line fetch
            t.store(halves.at([half(step), 0]), value.mul(2)) // @line fill
            t.barrier() // @line meet
          })
        },
        worker: () => {
          if (mutation === 'other-role-waits-for-the-flag') t.wait(ready)
          if (early) t.signal(free.on(peer))
          t.for(mutation === 'one-role-meets-less-often' ? steps - 1 : steps, (step) => {
            if (mutation !== 'no-barrier-after-filling' && mutation !== 'worker-reads-ahead') t.barrier()
            t.store(out.at([step, 0]), t.load(halves.at([half(step), 0]))) // @line use
            if (mutation === 'worker-reads-ahead') t.barrier()
          })
          if (mutation === 'no-barrier-after-filling') t.for(steps, () => t.barrier())
        },
      })
      if (!early) t.signal(free.on(peer))
    },
  )

const meetingRoles = original<MeetingMutation>({
  name: 'meetingRoles',
  file,
  ranks: 2,
  mutants: meetingMutants,
  scenario(mutation) {
    const double = meetingKernel(mutation)
    return scenario('meetingRoles', { ranks: 2 }, async (world) => {
      const source = world.from(f32, [3, 1], (rank) => range(3).map((i) => i + 10 * rank), { name: 'source' })
      const x = world.zeros(f32, [3, 1], { name: 'x' })
      const out = world.empty(f32, [3, 1], { name: 'out' })
      const ready = world.flags([], { name: 'ready' })
      const free = world.flags([], { name: 'free' })
      for (let launch = 0; launch < 2; launch++)
        world.launch(double, { source, x, out, ready, free }, { grid: 1 })
      for (const rank of [0, 1])
        expectClose(
          await world.read(out, rank),
          range(3).map((i) => 2 * (i + 10 * (1 - rank))),
        )
    })
  },
})

export const roles = [stageRing, prefetch, meetingRoles]
