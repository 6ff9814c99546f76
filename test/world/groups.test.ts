/**
 * Rank groups: collectives and operations on random groups of a world agree with a float64 reference that is computed
 * per group, groups overlap and run at once, other ranks keep their memory, and messages name ranks of the world.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { flags, kernel, tensor } from '../../src/lang/kernel.ts'
import {
  allGather,
  allReduce,
  allToAll,
  barrier,
  broadcast,
  reduceScatter,
} from '../../src/ops/collectives/index.ts'
import { operations, type AnyDefinition } from '../../src/ops/operations.ts'
import type { OperationOptions } from '../../src/operation/definition.ts'
import { explore, type Exploration } from '../../src/targets/check/explore.ts'
import { eventsOf, Kind } from '../../src/timeline/timeline.ts'
import { openWorld } from '../../src/world/open.ts'
import {
  expectClose,
  scenario,
  WorldStopped,
  type SymmetricTensor,
  type World,
} from '../../src/world/world.ts'
import { itForSome, long } from '../long.ts'
import { realTargets } from '../targets/differential/targets.ts'

const RANKS = 8
const N = 5
const poison = -777

const open = (target: string, options: object = {}): Promise<World> =>
  openWorld({ target, ranks: RANKS, heap: 2 ** 22, workers: 1, ...options } as never)

/** Lists of one to eight distinct ranks: in any order, and ascending at a constant distance, which needs no table. */
const anyGroup: fc.Arbitrary<number[]> = fc.oneof(
  { weight: 3, arbitrary: fc.shuffledSubarray([...Array(RANKS).keys()], { minLength: 1 }) },
  fc
    .tuple(fc.nat(RANKS - 1), fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: RANKS }))
    .map(([first, step, count]) =>
      Array.from({ length: count }, (_, i) => first + i * step).filter((rank) => rank < RANKS),
    ),
)
const values = (rank: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => ((rank * 37 + i * 11) % 23) - 11)

/** A tensor on every rank of the world, filled with the poison value. */
const poisoned = (world: World, shape: readonly number[]): SymmetricTensor<'f32'> =>
  world.full('f32', shape, poison)

interface Case {
  readonly out: SymmetricTensor
  /** The values that rank r of the group must hold. */
  readonly wanted: (rank: number) => ArrayLike<number>
}

/** Starts a collective on the group, on inputs by rank of the world. */
type Collective = (world: World, group: World) => Case

const input = (world: World, group: World, shape: readonly number[]): SymmetricTensor<'f32'> => {
  const x = poisoned(world, shape)
  group.members.forEach((member, rank) =>
    group.write(
      x,
      rank,
      values(
        member,
        shape.reduce((a, b) => a * b),
      ),
    ),
  )
  return x
}
const sum = (lists: readonly (readonly number[])[]): number[] =>
  lists[0].map((_, i) => lists.reduce((all, list) => all + list[i], 0))

const options = { dtype: 'f32', elements: N, tile: 2 } as const
const collectives: Readonly<Record<string, Collective>> = {
  allGather(world, group) {
    const x = input(world, group, [N])
    const out = poisoned(world, [group.ranks, N])
    allGather(group, options).launch(x, out)
    return { out, wanted: () => group.members.flatMap((member) => values(member, N)) }
  },
  ...Object.fromEntries(
    (['oneShot', 'twoShot', 'ring'] as const).map((variant): [string, Collective] => [
      `allReduce ${variant}`,
      (world, group) => {
        const x = input(world, group, [N])
        allReduce(group, { ...options, variant }).launch(x)
        return { out: x, wanted: () => sum(group.members.map((member) => values(member, N))) }
      },
    ]),
  ),
  reduceScatter(world, group) {
    const x = input(world, group, [group.ranks, N])
    const out = poisoned(world, [N])
    reduceScatter(group, options).launch(x, out)
    const part = (member: number, rank: number): number[] =>
      values(member, group.ranks * N).slice(rank * N, (rank + 1) * N)
    return { out, wanted: (rank) => sum(group.members.map((member) => part(member, rank))) }
  },
  allToAll(world, group) {
    const x = input(world, group, [group.ranks, N])
    const out = poisoned(world, [group.ranks, N])
    allToAll(group, options).launch(x, out)
    const part = (member: number, rank: number): number[] =>
      values(member, group.ranks * N).slice(rank * N, (rank + 1) * N)
    return { out, wanted: (rank) => group.members.flatMap((member) => part(member, rank)) }
  },
  broadcast(world, group) {
    const x = input(world, group, [N])
    const root = group.ranks - 1
    broadcast(group, options).launch(x, root)
    barrier(group).launch()
    return { out: x, wanted: () => values(group.members[root], N) }
  },
}

async function expectCase(world: World, group: World, { out, wanted }: Case): Promise<void> {
  for (let rank = 0; rank < world.ranks; rank++) {
    const found = [...(await world.read(out, rank))]
    const at = group.members.indexOf(rank)
    expect(found).toEqual(at < 0 ? found.map(() => poison) : [...Array.from(wanted(at))])
  }
}

describe.each(await realTargets())('groups on %s', (target) => {
  const isOnGpu = target === 'cuda'
  itForSome(isOnGpu ? [12] : [8, 25], (runs) => runs < 25)(
    'run every collective, two overlapping groups at once, %i times',
    async (runs) => {
      const names = Object.keys(collectives)
      await using world = await open(target)
      await fc.assert(
        fc.asyncProperty(
          anyGroup,
          anyGroup,
          fc.constantFrom(...names),
          fc.constantFrom(...names),
          async (a, b, x, y) => {
            const [one, other] = [world.group(a), world.group(b)]
            const cases = [collectives[x](world, one), collectives[y](world, other)]
            await expectCase(world, one, cases[0])
            await expectCase(world, other, cases[1])
          },
        ),
        { numRuns: runs },
      )
    },
  )

  it('run every form of the shipped operations', long, async () => {
    const lists = [[2], [5, 1], [7, 0, 4], [6, 4, 2, 0], [0, 2, 4, 6]]
    await using world = await open(target)
    for (const operation of operations)
      for (const [at, list] of lists.entries()) {
        const group = world.group(list)
        const { shape, tiles } = operation.points.odd[at % operation.points.odd.length]
        const setting = { machine: group.machine, ranks: group.ranks, dtype: 'f32', shape } as const
        // A rank of the test's world can run only one program at a time.
        const forms = Object.values(operation.points.forms(setting)).filter((form) => !('grid' in form))
        await expectOperation(operation, group, { ...forms[at % forms.length], shape, dtype: 'f32', tiles })
        await expectOperation(operation, group, { ...forms.at(-1)!, shape, dtype: 'f32', tiles })
      }
  })

  // On a GPU, the TMA copies tiles of all ranks through one tensor map that covers the heaps of all ranks.
  it('copy aligned tiles of their own ranks', async () => {
    await using world = await open(target)
    for (const list of [
      [1, 3, 5],
      [0, 1, 3],
      [6, 2, 4],
    ]) {
      const group = world.group(list)
      const x = world.zeros('bf16', [64, 64])
      list.forEach((member, rank) => group.write(x, rank, new Array<number>(64 * 64).fill(member + 1)))
      const y = poisoned(world, [64, 64])
      group.launch(pull, { x, y }, { grid: 1 })
      for (const [rank, member] of list.entries()) {
        const next = list[(rank + 1) % list.length] + 1
        expect(new Set(await world.read(y, member))).toEqual(new Set([64 * next * next]))
      }
    }
  })

  it('names ranks of the world when it stops', async () => {
    await using world = await open(target, { timeout: 300, onStall: () => {} })
    const group = world.group([4, 6])
    const ready = group.flags([], { name: 'ready' })
    group.launch(waiting, { ready }, { grid: 1, ranks: [1] })
    const stopped = await world.synchronize().catch((error: unknown) => error)
    expect(stopped).toBeInstanceOf(WorldStopped)
    expect((stopped as WorldStopped).workers).toMatchObject([{ rank: 6, members: [4, 6], flag: { rank: 4 } }])
    expect((stopped as Error).message).toMatch(
      /rank 6 \(rank 1 of group \[4, 6\]\), program 0 of waiting waits for ready on rank 4 \(rank 0 of group \[4, 6\]\)/,
    )
    await world.reset()
  })

  it('record events of the ranks of the world', async () => {
    await using world = await open(target, { record: true })
    const lists = [
      [6, 2],
      [3, 1, 7],
    ]
    for (const list of lists) {
      const group = world.group(list)
      const [x, y] = [input(world, group, [N]), poisoned(world, [N])]
      group.launch(fromNext, { x, y }, { grid: 1 })
      await expectCase(world, group, {
        out: y,
        wanted: (rank) => values(list[(rank + 1) % list.length], N),
      })
    }
    const { ranks, names } = world.timeline()
    const copiesOf = ({ events, tracks }: (typeof ranks)[number]): string[] =>
      tracks.flatMap((track) =>
        [...eventsOf(track)]
          .filter((event) => events.kind[event] === Kind.transfer)
          .map((event) => /rank \d+/.exec(names[events.name[event]])![0]),
      )
    const sources = (rank: number): string[] =>
      lists
        .filter((list) => list.includes(rank))
        .map((list) => `rank ${list[(list.indexOf(rank) + 1) % list.length]}`)
    expect(ranks.map(copiesOf)).toEqual(ranks.map((_, rank) => sources(rank)))
  })
})

/** Waits for a flag that the other rank never signals. */
const waiting = kernel('waiting', { ready: flags() }, (t, { ready }) => t.wait(ready.on(t.rank.sub(1))))

/** A kernel that copies x of the next rank. */
const fromNext = kernel('fromNext', { x: tensor('f32', 1), y: tensor('f32', 1) }, (t, { x, y }) =>
  t.copy(x.on(t.rank.add(1).mod(t.world)).tile([0], [8]), y.tile([0], [8])),
)

async function expectOperation(
  operation: AnyDefinition,
  group: World,
  options: OperationOptions,
): Promise<void> {
  const made = operation.make(group, options)
  for (const output of Object.values(made.outputs)) {
    const nothing = new Float64Array(output.shape.reduce((a, b) => a * b)).fill(NaN)
    for (const rank of group.localRanks) group.write(output, rank, nothing)
  }
  const contents = made.random(group.ranks)
  made.fill(contents)
  made.launch()
  for (const rank of group.localRanks) {
    const [found, wanted] = [await made.result(rank), made.reference(contents, rank)]
    expectClose(found, wanted, { atol: made.tolerance })
  }
}

describe('groups in the checker', () => {
  it.each(Object.entries(collectives))('%s on overlapping groups is clean', async (_, collective) => {
    const both = scenario('both', { ranks: 3 }, async (world) => {
      const [one, other] = [world.group([2, 0]), world.group([1, 2])]
      const cases = [collective(world, one), collective(world, other)]
      await expectCase(world, one, cases[0])
      await expectCase(world, other, cases[1])
    })
    const { findings } = await explore(both, { ranks: 3, schedules: 10 })
    expect(findings).toEqual([])
  })

  const raced = (run: (world: World) => Promise<unknown>): Promise<Exploration> =>
    explore(scenario('race', { ranks: 3 }, run), { ranks: 3, schedules: 30 })

  it('finds a race between launches of two groups', async () => {
    const { findings } = await raced(async (world) => {
      const [x, y] = [world.zeros('f32', [8]), world.zeros('f32', [8])]
      world.group([0, 2]).launch(fromNext, { x, y }, { grid: 1 })
      // In this case, rank 1 overwrites the x of rank 2, which rank 0 reads.
      world.group([1, 2]).launch(toNext, { x }, { grid: 1, ranks: [0] })
      await world.synchronize()
    })
    expect(findings.map(({ kind }) => kind)).toEqual(['race'])
    expect(JSON.stringify(findings[0].parties)).toContain('rank 1 (rank 0 of group [1, 2])')
  })

  it('orders launches of two groups by the stream of a rank', async () => {
    const { findings } = await raced(async (world) => {
      const [x, y] = [world.zeros('f32', [8]), world.zeros('f32', [8])]
      world.group([2, 0]).launch(fromNext, { x, y }, { grid: 1, ranks: [0] })
      // In this case, rank 2 overwrites the x of rank 0 after rank 2 has read it.
      world.group([1, 2, 0]).launch(toNext, { x }, { grid: 1, ranks: [1] })
      await world.synchronize()
    })
    expect(findings).toEqual([])
  })

  it('finds a rank outside the group', async () => {
    const { findings } = await raced(async (world) => {
      const ready = world.group([0, 2]).flags()
      world.group([0, 2]).launch(waiting, { ready }, { grid: 1, ranks: [0] })
      await world.synchronize()
    })
    expect(findings[0].message).toContain('there is no rank -1 in group [0, 2]')
  })
})

describe('a group', () => {
  const refused: readonly (readonly [readonly number[], string])[] = [
    [[], 'group [] of a world of 8: a group needs at least one rank'],
    [[0, 8], 'group [0, 8] of a world of 8: there is no rank 8'],
    [[0, 0.5], 'group [0, 0.5] of a world of 8: there is no rank 0.5'],
    [[1, 2, 1], 'group [1, 2, 1] of a world of 8: rank 1 occurs more than once'],
  ]
  it.each(refused)('of %j is refused', async (list, message) => {
    await using world = await open('check')
    expect(() => world.group(list)).toThrow(message)
    expect(() => world.group(list)).toThrow(/^test\/world\/groups\.test\.ts:\d+:\d+: /)
  })

  it.each(['check', 'wasm'])('is made of a list, and launches take a group, on %s', async (target) => {
    await using world = await open(target)
    const place = /^test\/world\/groups\.test\.ts:\d+:\d+: /
    for (const make of [() => world.group(1 as never), () => world.group([0, 1]).group(1 as never)]) {
      expect(make).toThrow('group takes a list of ranks, such as [0, 1], not 1')
      expect(make).toThrow(place)
    }
    const args = { ready: world.flags() }
    for (const [group, text] of [
      [[0], '[0]'],
      [1, '1'],
    ] as const) {
      const launch = () => world.launch(signalling, args, { grid: 1, group: group as never })
      expect(launch).toThrow(`the group of a launch is what world.group(…) returns, not ${text}`)
      expect(launch).toThrow(place)
    }
  })

  itForSome(['check', 'wasm'], (target) => target === 'check')('owns its flags on %s', async (target) => {
    await using world = await open(target)
    await using elsewhere = await open(target)
    const [group, other] = [world.group([1, 3]), world.group([3, 1])]
    const ready = group.flags([], { name: 'ready' })
    expect(() => other.launch(waiting, { ready }, { grid: 1 })).toThrow(
      'ready belongs to group [1, 3], and the launch is on group [3, 1]',
    )
    expect(() => world.launch(waiting, { ready }, { grid: 1 })).toThrow(
      'ready belongs to group [1, 3], and the launch is on the whole world',
    )
    expect(() => group.launch(waiting, { ready: world.flags() }, { grid: 1 })).toThrow(
      'belongs to the whole world, and the launch is on group [1, 3]',
    )
    expect(() => group.launch(waiting, { ready }, { grid: 1, group: elsewhere.group([1, 3]) })).toThrow(
      'group [1, 3] is a group of another world',
    )
    expect(() => group.launch(waiting, { ready }, { grid: 1, ranks: [2] })).toThrow(
      'there is no rank 2 in group [1, 3]',
    )
    expect(() => group.write(world.zeros('f32', [1]), 2, [1])).toThrow('there is no rank 2 in group [1, 3]')
  })

  it('is a world: by list, nested, with its own ranks and machine', async () => {
    await using world = await open('check')
    const group = world.group([5, 3, 1])
    expect(world.group([5, 3, 1])).toBe(group)
    expect(group.group([2, 0]).members).toEqual([1, 5])
    expect(group.ranks).toBe(3)
    expect(group.localRanks).toEqual([0, 1, 2])
    expect(group.machine.processors).toHaveLength(3)
    expect(world.members).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    const x = poisoned(world, [1])
    const y = group.from('f32', [1], (rank) => [rank])
    await group.copy(y, x)
    await expectCase(world, group, { out: x, wanted: (rank) => [rank] })
    await group.broadcast(x, 2)
    await expectCase(world, group, { out: x, wanted: () => [2] })
    // A group of all ranks in order is the whole world, also for flags.
    const all = world.group(world.members)
    all.launch(signalling, { ready: world.flags() }, { grid: 1 })
  })
})

/** A kernel that writes into x of the next rank. */
const toNext = kernel('toNext', { x: tensor('f32', 1) }, (t, { x }) =>
  t.copy(t.zeros('f32', [8]), x.on(t.rank.add(1).mod(t.world)).tile([0], [8])),
)
const signalling = kernel('signalling', { ready: flags() }, (t, { ready }) => t.signal(ready))

/** Multiplies the matrix of the next rank by itself. */
const pull = kernel('pull', { x: tensor('bf16', 2), y: tensor('f32', 2) }, (t, { x, y }) => {
  const [a, b] = [t.shared('bf16', [64, 64]), t.shared('bf16', [64, 64])]
  const next = x.on(t.rank.add(1).mod(t.world))
  const sum = t.pipeline([1], t.zeros('f32', [64, 64]), (_, acc) => {
    t.copy(next.tile([0, 0], [64, 64]), a)
    t.copy(next.tile([0, 0], [64, 64]), b)
    return t.dot(a, b, acc)
  })
  t.copy(sum, y.tile([0, 0], [64, 64]))
})
