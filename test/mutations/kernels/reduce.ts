/** Reductions among several programs of a rank: a two-shot all-reduce, and split-K that the last program finishes. */
import { f32, flags, i32, kernel, scalar, tensor } from '../../../src/index.ts'
import type { Access } from '../../../src/lang/access.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

// Two-shot all-reduce, then a norm of the whole: each program reads data that all programs of all ranks computed.

const twoShotMutants = {
  // Known bug pattern: thread blocks of a two-shot all-reduce that are not all resident.
  'more-programs-than-run-at-once': {
    kind: 'residency',
    lines: ['await-parts'],
    says: ['3 programs do not fit: 2 run at once on rank 0', 'Launch at most 2'],
  },
  'norm-without-second-wait': {
    kind: 'uninitialised',
    lines: ['norm'],
    also: [{ kind: 'race', lines: ['spread', 'norm'] }],
  },
  'too-few-arrivals': {
    kind: 'uninitialised',
    lines: ['norm'],
    says: ['reads y['],
    also: [{ kind: 'race', lines: ['spread', 'norm'] }],
  },
  'too-many-arrivals': {
    kind: 'deadlock',
    lines: ['await-sums', 'await-sums', 'await-sums', 'await-sums'],
    says: ['waits for flag reduced[0] of rank 0: it is 2, wanted 3'],
  },
  'waits-for-own-sum-only': {
    kind: 'uninitialised',
    lines: ['norm'],
    says: ['reads y['],
    also: [{ kind: 'race', lines: ['spread', 'norm'] }],
  },
  'reduces-without-waiting': {
    kind: 'uninitialised',
    lines: ['reduce'],
    says: ['reads inbox['],
    also: [{ kind: 'race', lines: ['scatter', 'reduce'] }],
  },
  'flag-of-the-other-tile': {
    kind: 'race',
    lines: ['scatter', 'reduce'],
    also: [{ kind: 'uninitialised', lines: ['reduce'] }],
  },
  // Known bug pattern: a signal paired with the wrong wait. The two flag sets have the same shape, so the code
  // type-checks.
  'flag-sets-exchanged': {
    kind: 'deadlock',
    lines: ['await-parts', 'await-parts', 'await-parts', 'await-parts'],
    says: ['parts['],
  },
} satisfies Mutants
type TwoShotMutation = keyof typeof twoShotMutants

const twoShotKernel = (mutation?: TwoShotMutation) => {
  const arrivals = variant<TwoShotMutation, number>(
    mutation,
    { 'too-few-arrivals': 1, 'too-many-arrivals': 3 },
    2,
  )
  return kernel(
    'twoShotAllReduce',
    {
      x: tensor(f32, 2),
      inbox: tensor(f32, 2),
      y: tensor(f32, 2),
      norms: tensor(f32, 2),
      parts: flags(2),
      reduced: flags(1, { arrivals }),
      step: scalar(i32),
    },
    (t, { x, inbox, y, norms, parts, reduced, step }) => {
      const R = t.world
      const tile = t.program
      t.for(R, (shift) => {
        const owner = t.rank.add(shift).mod(R)
        const part = t.load(x.at([owner, tile])).mul(step.add(1).to(f32))
        t.store(inbox.on(owner).at([t.rank, tile]), part) // @line scatter
        t.signal(
          mutation === 'flag-sets-exchanged'
            ? reduced.on(owner).at([t.rank])
            : parts.on(owner).at([t.rank, tile]),
        )
      })
      const sum = t.for(R, t.constant(f32, 0), (source, acc) => {
        const of = mutation === 'flag-of-the-other-tile' ? t.constant(i32, 1).sub(tile) : tile
        if (mutation !== 'reduces-without-waiting') t.wait(parts.at([source, of])) // @line await-parts
        return acc.add(t.load(inbox.at([source, tile]))) // @line reduce
      })
      t.for(R, (shift) => {
        const peer = t.rank.add(shift).mod(R)
        t.store(y.on(peer).at([t.rank, tile]), sum) // @line spread
        t.signal(reduced.on(peer).at([t.rank]))
      })
      if (mutation !== 'norm-without-second-wait')
        t.for(R, (source) => t.wait(reduced.at([mutation === 'waits-for-own-sum-only' ? t.rank : source]))) // @line await-sums
      const all = t.load(y.tile([0, 0], [2, 2])) // @line norm
      t.store(norms.at([step, tile]), all.sum(1).sum())
    },
  )
}

const twoShotAllReduce = original<TwoShotMutation>({
  name: 'twoShotAllReduce',
  file,
  ranks: 2,
  mutants: twoShotMutants,
  scenario(mutation) {
    const reduce = twoShotKernel(mutation)
    const { arrivals } = reduce.params.reduced
    const R = 2
    const grid = mutation === 'more-programs-than-run-at-once' ? 3 : 2
    return scenario('twoShotAllReduce', { ranks: R, residency: 2 }, async (world) => {
      const x = world.from(f32, [R, 2], (rank) => range(2 * R).map((i) => i + 10 * rank), { name: 'x' })
      const inbox = world.empty(f32, [R, 2], { name: 'inbox' })
      const y = world.empty(f32, [R, 2], { name: 'y' })
      const norms = world.empty(f32, [2, 2], { name: 'norms' })
      const parts = world.flags([R, 2], { name: 'parts' })
      const reduced = world.flags([R], { name: 'reduced', arrivals })
      for (const step of [0, 1]) world.launch(reduce, { x, inbox, y, norms, parts, reduced, step }, { grid })
      for (const rank of range(R)) {
        const sums = range(2 * R).map((i) => i + (i + 10))
        const norm = sums.reduce((a, b) => a + b)
        expectClose(
          await world.read(y, rank),
          sums.map((sum) => 2 * sum),
        )
        expectClose(await world.read(norms, rank), [norm, norm, 2 * norm, 2 * norm])
      }
    })
  },
})

// Split-K: programs store partial sums in a workspace. A counter identifies the last program, which adds the sums.

const splitKMutants = {
  'relaxed-counter': { kind: 'race', lines: ['partial', 'finish'], says: ['workspace['] },
  'counter-releases-only': { kind: 'race', lines: ['partial', 'finish'], says: ['workspace['] },
  'counter-acquires-only': { kind: 'race', lines: ['partial', 'finish'], says: ['workspace['] },
  'counter-at-block-scope': {
    kind: 'scope-race',
    lines: ['count', 'count'],
    says: ['counter[0] of rank 0', 'block'],
    also: [{ kind: 'race', lines: ['partial', 'finish'] }],
  },
  'first-program-finishes': {
    kind: 'uninitialised',
    lines: ['finish'],
    says: ['program 0 reads workspace['],
    also: [{ kind: 'race', lines: ['partial', 'finish'] }],
  },
  'counts-before-writing': {
    kind: 'race',
    lines: ['partial', 'finish'],
    says: ['workspace['],
    also: [{ kind: 'uninitialised', lines: ['finish'] }],
  },
  'counter-not-reset': { kind: 'wrong-result', lines: ['compare-sums'], says: ['element 2 is NaN'] },
  'load-and-store-for-atomic': {
    kind: 'race',
    lines: ['count-load', 'count-store'],
    says: ['counter[0] of rank 0'],
  },
  'finishes-one-too-early': {
    kind: 'uninitialised',
    lines: ['finish'],
    says: ['workspace['],
    also: [{ kind: 'race', lines: ['partial', 'finish'] }],
  },
  'adds-with-load-and-store': {
    kind: 'race',
    lines: ['add-load', 'add-store'],
    says: ['total[0] of rank 0'],
  },
} satisfies Mutants
type SplitKMutation = keyof typeof splitKMutants

const splitKKernel = (mutation?: SplitKMutation) =>
  kernel(
    'splitK',
    {
      a: tensor(f32, 2),
      b: tensor(f32, 2),
      workspace: tensor(f32, 2),
      counter: tensor(i32, 1),
      total: tensor(f32, 1),
      c: tensor(f32, 2),
      step: scalar(i32),
    },
    (t, { a, b, workspace, counter, total, c, step }) => {
      const how = variant<SplitKMutation, Access>(
        mutation,
        {
          'relaxed-counter': { order: 'relaxed', scope: 'device' },
          'counter-releases-only': { order: 'release', scope: 'device' },
          'counter-acquires-only': { order: 'acquire', scope: 'device' },
          'counter-at-block-scope': { order: 'acqRel', scope: 'block' },
        },
        { order: 'acqRel', scope: 'device' },
      )
      const place = counter.at([0])
      const count = () => {
        if (mutation !== 'load-and-store-for-atomic') return t.atomic.add(place, 1, how) // @line count
        const before = t.load(place) // @line count-load
        t.store(place, before.add(1)) // @line count-store
        return before
      }
      const product = t.dot(
        t.load(a.tile([0, t.program], [2, 1])),
        t.load(b.tile([t.program, 0], [1, 1])),
        t.zeros(f32, [2, 1]),
      )
      const early = mutation === 'counts-before-writing' ? count() : undefined
      t.store(workspace.at([t.program, t.arange(2)]), product.sum(1)) // @line partial
      const magnitude = product.sum(1).sum()
      if (mutation === 'adds-with-load-and-store') {
        const before = t.load(total.at([0])) // @line add-load
        t.store(total.at([0]), before.add(magnitude)) // @line add-store
      } else t.atomic.add(total.at([0]), magnitude)
      const before = early ?? count()
      const needed = t.programs.sub(mutation === 'finishes-one-too-early' ? 2 : 1)
      t.if(mutation === 'first-program-finishes' ? t.program.eq(0) : before.eq(needed), () => {
        const sum = t.for(
          t.programs,
          t.zeros(f32, [2]),
          (split, acc) => acc.add(t.load(workspace.at([split, t.arange(2)]))), // @line finish
        )
        t.store(c.at([step, t.arange(2)]), sum)
        if (mutation !== 'counter-not-reset') t.store(place, 0)
      })
    },
  )

const splitK = original<SplitKMutation>({
  name: 'splitK',
  file,
  ranks: 1,
  mutants: splitKMutants,
  scenario(mutation) {
    const gemm = splitKKernel(mutation)
    const [A, B] = [
      [1, 2, 3, -4, 5, 6],
      [2, -1, 3],
    ]
    const expected = [0, 1].map((i) => range(3).reduce((sum, k) => sum + A[3 * i + k] * B[k], 0))
    return scenario('splitK', { ranks: 1 }, async (world) => {
      const a = world.from(f32, [2, 3], A, { name: 'a' })
      const b = world.from(f32, [3, 1], B, { name: 'b' })
      const workspace = world.empty(f32, [3, 2], { name: 'workspace' })
      const counter = world.zeros(i32, [1], { name: 'counter' })
      const total = world.zeros(f32, [1], { name: 'total' })
      const c = world.empty(f32, [2, 2], { name: 'c' })
      for (const step of [0, 1]) world.launch(gemm, { a, b, workspace, counter, total, c, step }, { grid: 3 })
      expectClose(await world.read(c, 0), [...expected, ...expected]) // @line compare-sums
      expectClose(await world.read(total, 0), [2 * (expected[0] + expected[1])])
    })
  },
})

export const reductions = [twoShotAllReduce, splitK]
