/**
 * A program writes a tensor on its own rank, and a pipeline copies tiles of this tensor from other ranks. The pipeline
 * is split into roles only if the tiles certainly belong to another rank and not both roles load the data.
 */
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, i32, kernel, scalar, tensor, type Program, type Scalar, type Shared } from 'arke'
import { lower } from '../../src/targets/cuda/stages.ts'
import { pullStagedKernel } from '../../src/ops/allGatherGemm/pullStaged.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf } from '../../src/targets/cuda/emit/recipe.ts'
import { expectClose, scenario } from '../../src/world/world.ts'
import { ops, params, type Args } from './lowered.ts'

const T = [2, 2] as const
interface Turn {
  readonly t: Program
  readonly args: Args
  readonly owner: Scalar
  readonly k: Scalar
  readonly as: Shared
}

/**
 * Records a kernel that writes its rank's copy of `a` and then copies tiles with `take`. Returns true if the pipeline
 * is split into roles.
 */
function isSplit(take: (turn: Turn) => void): boolean {
  const made = kernel('k', params, (t, args) => {
    const as = t.shared(f32, T)
    // Pipelines in a loop: a producer can wait for a write before its first pipeline, but not for a write between two
    // pipelines.
    t.for(2, () => {
      t.store(args.a.tile([0, 0], T), t.zeros(f32, T))
      t.pipeline([3], ([k]) => {
        take({ t, args, owner: k.add(args.n).mod(t.world), k, as })
        t.store(args.c.tile([0, k], T), t.load(as))
      })
    })
  })
  return ops(lower(made.record({ world: 2 })).body).includes('copy.async')
}
const atHome = ({ t, args, k, as }: Turn): void => t.copy(args.b.tile([0, k], T), as)
const onOwner = ({ t, args, owner, k, as }: Turn): void => t.copy(args.a.on(owner).tile([0, k], T), as)
const branch =
  (condition: (turn: Turn) => Scalar<'bool'>, then: (turn: Turn) => void, otherwise: (turn: Turn) => void) =>
  (turn: Turn): void =>
    turn.t.if(
      condition(turn),
      () => then(turn),
      () => otherwise(turn),
    )

describe('a tensor written on its own rank', () => {
  it.each([
    ['the owner is not this rank', branch(({ t, owner }) => owner.ne(t.rank), onOwner, atHome)],
    [
      'the copy is in the else branch of: the owner is this rank',
      branch(({ t, owner }) => owner.eq(t.rank), atHome, onOwner),
    ],
    [
      'the copy is in the else branch of: this rank is the owner',
      branch(({ t, owner }) => t.rank.eq(owner), atHome, onOwner),
    ],
    [
      'the owner is the next rank',
      (turn: Turn) => onOwner({ ...turn, owner: turn.t.rank.add(1).mod(turn.t.world) }),
    ],
  ])('may be copied by the producer if %s', (_, take) => expect(isSplit(take)).toBe(true))

  it.each([
    ['the owner is this rank', branch(({ t, owner }) => owner.eq(t.rank), onOwner, atHome)],
    [
      'the copy is in the else branch of: the owner is not this rank',
      branch(({ t, owner }) => owner.ne(t.rank), atHome, onOwner),
    ],
    ['no branch tests the owner', onOwner],
    ['the owner is less than this rank', branch(({ t, owner }) => owner.lt(t.rank), onOwner, atHome)],
    ['the owner is not another number', branch(({ owner, k }) => owner.ne(k), onOwner, atHome)],
    [
      'the condition has another alternative',
      branch(({ t, owner, k }) => owner.ne(t.rank).or(k.gt(0)), onOwner, atHome),
    ],
    [
      'the condition tests another owner',
      branch(
        ({ t, owner }) => owner.ne(t.rank),
        (turn) => onOwner({ ...turn, owner: turn.owner.add(1).mod(turn.t.world) }),
        atHome,
      ),
    ],
    [
      'the reference is made before the branch',
      (turn: Turn) => {
        const { t, args, owner, k, as } = turn
        const place = args.a.on(owner).tile([0, k], T)
        t.if(
          owner.ne(t.rank),
          () => t.copy(place, as),
          () => atHome(turn),
        )
      },
    ],
    [
      'the owner is tested in another branch',
      branch(
        ({ k }) => k.eq(0),
        branch(({ t, owner }) => owner.ne(t.rank), atHome, atHome),
        onOwner,
      ),
    ],
  ])('prevents the split if %s', (_, take) => expect(isSplit(take)).toBe(false))

  it('as an outbox does not prevent early copies', () => {
    const staged = pullStagedKernel({ dtype: 'bf16', parts: 4 }).record({ world: 8 })
    expect(lower(staged).notes).toEqual([])
  })
})

describe('numbers that both roles load', () => {
  const rounds = 4
  const wanted = [0, 2, 0, 1]
  // A rank stores the number of tiles to add on its own rank or on its peer. In a round without tiles, no role of this
  // kernel waits for a producer.
  const counting = (isPulled: boolean) =>
    kernel(
      'counting',
      {
        ...{ a: tensor(f32, 2), c: tensor(f32, 2), counts: tensor(i32, 1), wanted: tensor(i32, 1) },
        ...{ ready: flags(1), done: flags(1) },
      },
      (t, { a, c, counts, wanted, ready, done }) => {
        const as = t.shared(f32, T)
        const peer = t.rank.add(1).mod(t.world)
        t.for(rounds, (round) => {
          t.if(round.gt(0), () => t.wait(done.at([round.sub(1)])))
          t.store((isPulled ? counts : counts.on(peer)).at([0]), t.load(wanted.at([round])))
          t.signal(ready.on(peer).at([round]))
          t.wait(ready.at([round]))
          const n = t.load((isPulled ? counts.on(peer) : counts).at([0]))
          const sum = t.pipeline([n], t.zeros(f32, T), ([i], sum) => {
            t.copy(a.tile([0, i], T), as)
            return sum.add(t.load(as))
          })
          t.store(c.tile([round, 0], T), sum)
          t.signal(done.on(peer).at([round]))
        })
      },
    )

  it.each([
    ['pulled', true],
    ['pushed', false],
  ])('are loaded once where they are %s in between', async (_, isPulled) => {
    const counted = counting(isPulled)
    const subject = scenario('counting', { ranks: 2 }, async (world) => {
      const [a, c] = [world.full(f32, [2, 8], 1), world.zeros(f32, [2 * rounds, 2])]
      const given = world.from(i32, [rounds], () => wanted)
      const words = {
        counts: world.zeros(i32, [1]),
        ready: world.flags([rounds]),
        done: world.flags([rounds]),
      }
      world.launch(counted, { a, c, wanted: given, ...words }, { grid: 1 })
      for (const rank of [0, 1])
        expectClose(
          await world.read(c, rank),
          wanted.flatMap((n) => [n, n, n, n]),
          { atol: 1e-6 },
        )
    })
    const { findings } = await explore(subject, { ranks: 2, stage: 'lowered', schedules: 40 })
    expect(findings.map(formatFinding)).toEqual([])
  })
})

describe('tiles that a program wrote on another rank', () => {
  const T = [64, 64] as const
  const readBack = (ownerOf: (t: Program, n: Scalar) => Scalar, isAsked: boolean) =>
    kernel(
      'readBack',
      { x: tensor(bf16, 2), y: tensor(bf16, 2), w: tensor(bf16, 2), c: tensor(bf16, 2), n: scalar('i32') },
      (t, { x, y, w, c, n }) => {
        const [as, bs] = [t.shared(bf16, T), t.shared(bf16, T)]
        const owner = ownerOf(t, n)
        const asked = (body: () => void): void => (isAsked ? void t.if(owner.ne(t.rank), body) : body())
        t.persistent(c.tiles(T), (_, [i, j]) =>
          asked(() => t.store(x.on(owner).tile([i, j], T), t.load(y.tile([i, j], T)))),
        )
        t.persistent(c.tiles(T), (ci, [i, j]) =>
          asked(() => {
            t.copy(x.on(owner).tile([i, j], T), as)
            t.copy(w.tile([0, 0], T), bs)
            t.copy(t.dot(as, bs, t.zeros(f32, T)).to(bf16), ci)
          }),
        )
      },
    )

  it.each([
    ['an owner that a branch tests', readBack((_, n) => n, true)],
    ['the next rank', readBack((t) => t.rank.add(1).mod(t.world), false)],
  ])('are its own when it reads them back from %s', (_, made) => {
    const large = factsOf([1024, 1024])
    const tensors = { x: large, y: large, w: factsOf([64, 64]), c: large }
    const { source } = emitCuda(lower(made.record({ world: 4 })), { tensors })
    expect(source).not.toContain('grouped_tile')
  })
})
