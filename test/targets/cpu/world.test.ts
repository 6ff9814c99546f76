/** Tests the world of CPU ranks with hand-written executables. */
import { f32, flags, i32, kernel, scalar, tensor, WorldError } from 'arke'
import { describe, expect, it } from 'vitest'
import { launchOf, type World } from '../../../src/world/world.ts'
import { body, openHandmade } from './handmade.ts'

const count = kernel('count', { x: tensor(i32, 1), n: scalar(i32) }, (t, { x, n }) => {
  t.atomic.add(x.on(0).at([0]), n)
})
body(count, 'for (let i = 0; i < t.scalar(1); i++) Atomics.add(t.words, t.pointer(0, 0) >>> 2, 1)')

const who = kernel('who', { x: tensor(i32, 1), by: scalar(i32) }, (t, { x, by }) => {
  t.store(x.at([t.program]), t.rank.mul(100).add(by))
})
body(who, 't.words[(t.pointer(0, t.rank) >>> 2) + t.program] = t.rank * 100 + t.scalar(1) + t.program')

const push = kernel('push', { x: tensor(i32, 1), value: scalar(i32) }, (t, { x, value }) => {
  t.store(x.at([0]), value)
})
/** Appends a value to a list, where x[0] is the number of values. */
body(
  push,
  't.sleep(t.scalar(1) % 3); const at = t.pointer(0, t.rank) >>> 2; t.words[at + ++t.words[at]] = t.scalar(1)',
)

const slow = kernel('slow', { x: tensor(i32, 1) }, (t, { x }) => {
  t.store(x.at([0]), 7)
})
body(slow, 't.sleep(50); t.words[t.pointer(0, t.rank) >>> 2] = 7')

const meet = kernel('meet', { ready: flags() }, (t, { ready }) => {
  t.signal(ready)
  t.wait(ready)
})
/** Increments a counter and waits until all ranks have done so. */
body(
  meet,
  'Atomics.add(t.words, t.pointer(0, 0) >>> 2, 1); while (Atomics.load(t.words, t.pointer(0, 0) >>> 2) < t.ranks) { if (t.aborted()) return -1 }',
)

async function using<T>(world: World, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } finally {
    await world.close()
  }
}

describe('launches', () => {
  it('run every program of the grid on every rank', async () => {
    const world = openHandmade({ ranks: 3 })
    await using(world, async () => {
      const x = world.zeros(i32, [8])
      world.launch(who, { x, by: 10 }, { grid: 8 })
      for (const rank of [0, 1, 2])
        expect([...(await world.read(x, rank))]).toEqual(
          [0, 1, 2, 3, 4, 5, 6, 7].map((p) => rank * 100 + 10 + p),
        )
    })
  })

  it('take arguments and grids by rank, and run on some ranks only', async () => {
    const world = openHandmade({ ranks: 3, workers: 2 })
    await using(world, async () => {
      const [x, y] = [world.full(i32, [4], -1), world.full(i32, [4], -1)]
      world.launch(
        who,
        { x: (rank) => (rank === 0 ? x : y), by: (rank) => rank * 10 },
        { grid: (rank) => rank + 1, ranks: [0, 2] },
      )
      expect([...(await world.read(x, 0))]).toEqual([0, -1, -1, -1])
      expect([...(await world.read(y, 2))]).toEqual([220, 221, 222, -1])
      expect([...(await world.read(y, 1))]).toEqual([-1, -1, -1, -1])
    })
  })

  it('of one stream run in order, even if there are more launches than a queue holds', async () => {
    const world = openHandmade({ ranks: 2, workers: 3 })
    await using(world, async () => {
      const x = world.zeros(i32, [151])
      for (let value = 1; value <= 150; value++) world.launch(push, { x, value }, { grid: 1 })
      const pushed = Array.from({ length: 150 }, (_, i) => i + 1)
      for (const rank of [0, 1]) expect([...(await world.read(x, rank))]).toEqual([150, ...pushed])
    })
  })

  it('without programs also end', async () => {
    const world = openHandmade({ ranks: 1 })
    await using(world, async () => {
      const x = world.zeros(i32, [1])
      world.launch(who, { x, by: 1 }, { grid: 0 })
      expect([...(await world.read(x, 0))]).toEqual([0])
    })
  })

  it('lose none of a million atomic additions from 8 ranks', async () => {
    const world = openHandmade({ ranks: 8 })
    await using(world, async () => {
      const x = world.zeros(i32, [1])
      for (let n = 0; n < 5; n++) world.launch(count, { x, n: 12_500 }, { grid: 2 })
      expect([...(await world.read(x, 0))]).toEqual([1_000_000])
    })
  })

  it('synchronise with more ranks than cores', async () => {
    const world = openHandmade({ ranks: 8 })
    await using(world, async () => {
      const ready = world.flags()
      world.launch(meet, { ready }, { grid: 1 })
      await world.synchronize()
    })
  })

  it('are compiled once', async () => {
    const once = kernel('once', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
    const { compilations } = await import('./handmade.ts')
    for (let n = 0; n < 3; n++) {
      const world = openHandmade({ ranks: 2 })
      await using(world, async () => {
        await world.prepare(once)
        world.launch(once, { x: world.zeros(f32, [1]) }, { grid: 1 })
        await world.synchronize()
      })
    }
    expect((await import('./handmade.ts')).compilations).toBe(compilations + 1)
  })
})

describe('a launch is checked for', () => {
  const expectRefused = async (act: (world: World) => void, message: string | RegExp): Promise<void> => {
    const world = openHandmade({ ranks: 2, workers: 2 })
    await using(world, async () => {
      expect(() => act(world)).toThrow(message)
      await world.synchronize()
    })
  }

  it('residency if its kernel waits', () =>
    expectRefused(
      (world) => world.launch(meet, { ready: world.flags() }, { grid: 3 }),
      /meet: 3 programs do not fit: 2 run at once on rank 0[^]*world\.test\.ts:\d+:\d+\)\. Launch at most 2, or grid: 'resident'/,
    ))

  it("a grid that fits if it is 'resident'", async () => {
    const world = openHandmade({ ranks: 1, workers: 2 })
    await using(world, async () => {
      const x = world.zeros(i32, [4])
      world.launch(who, { x, by: 5 }, { grid: 'resident' })
      expect([...(await world.read(x, 0))]).toEqual([5, 6, 0, 0])
    })
  })

  it('arguments', async () => {
    await expectRefused(
      (world) => world.launch(who, { x: world.zeros(i32, [2]) } as never, { grid: 1 }),
      'who: argument by is missing',
    )
    await expectRefused(
      (world) => world.launch(who, { x: world.zeros(f32, [2]), by: 1 } as never, { grid: 1 }),
      'who: argument x holds f32, the kernel wants i32',
    )
    await expectRefused((world) => {
      const x = world.zeros(i32, [1])
      world.free(x)
      world.launch(who, { x, by: 1 }, { grid: 1 })
    }, 'who: argument x was freed')
  })

  it('written tensors that are passed twice', async () => {
    const add = kernel('addInto', { x: tensor(i32, 1), y: tensor(i32, 1) }, (t, { x, y }) => {
      t.store(y.at([0]), t.load(x.at([0])))
    })
    await expectRefused((world) => {
      const x = world.zeros(i32, [1])
      world.launch(add, { x, y: x }, { grid: 1 })
    }, 'addInto: x and y are the same tensor, and the kernel writes it: pass it once')
  })

  it('co-launched kernels that cannot run concurrently', () =>
    expectRefused((world) => {
      const launch = launchOf(meet, { ready: world.flags() }, { grid: 1 })
      world.launchTogether([launch, launch])
    }, 'meet and meet are launched together on stream 0 of rank 0, where one would wait for the other'))
})

describe('co-launched kernels', () => {
  it('wait for each other', async () => {
    const half = kernel('half', { ready: flags() }, (t, { ready }) => {
      t.signal(ready)
      t.wait(ready)
    })
    body(
      half,
      'Atomics.add(t.words, t.pointer(0, 0) >>> 2, 1); while (Atomics.load(t.words, t.pointer(0, 0) >>> 2) < 2 * t.ranks) { if (t.aborted()) return -1 }',
    )
    const world = openHandmade({ ranks: 2, workers: 1 })
    await using(world, async () => {
      const ready = world.flags()
      world.launchTogether([
        launchOf(half, { ready }, { grid: 1 }),
        launchOf(half, { ready }, { grid: 1, stream: world.stream() }),
      ])
      await world.synchronize()
    })
  })
})

describe('streams', () => {
  it('run concurrently and wait for events of each other', async () => {
    const world = openHandmade({ ranks: 2, workers: 1 })
    await using(world, async () => {
      const [first, second] = [world.stream(), world.stream()]
      const [x, y] = [world.zeros(i32, [1]), world.zeros(i32, [2])]
      const take = kernel('take', { x: tensor(i32, 1), y: tensor(i32, 1) }, (t, args) =>
        t.store(args.y.at([0]), t.load(args.x.at([0]))),
      )
      body(take, 't.words[t.pointer(1, t.rank) >>> 2] = t.words[t.pointer(0, t.rank) >>> 2] + 1')
      const before = first.record()
      world.launch(slow, { x }, { grid: 1, stream: first })
      const event = first.record()
      second.wait(event)
      world.launch(take, { x, y }, { grid: 1, stream: second })
      await second.synchronize()
      expect([...(await world.read(y, 1))]).toEqual([8, 0])
      world.launch(slow, { x }, { grid: 1, stream: first })
      const later = first.record()
      expect(() => later.elapsed(event)).toThrow('has not happened yet')
      await later.synchronize()
      expect(later.elapsed(event)).toBeGreaterThan(0)
      expect(later.elapsed(event, 1)).toBeGreaterThan(0)
      // An event that is recorded before the first launch of its stream occurs when it is recorded.
      expect(later.elapsed(before)).toBeGreaterThan(later.elapsed(event))
      expect(world.stream().record().elapsed(later)).toBeGreaterThanOrEqual(0)
    })
  })
})

it('an event occurs when it is recorded, if the launches before it have ended', async () => {
  const world = openHandmade({ ranks: 2, workers: 1 })
  await using(world, async () => {
    const x = world.zeros(i32, [1])
    const begin = performance.now()
    const first = world.defaultStream.record()
    world.launch(slow, { x }, { grid: 1 })
    const second = world.defaultStream.record()
    await world.synchronize()
    await new Promise((resolve) => setTimeout(resolve, 20))
    const third = world.defaultStream.record()
    const most = performance.now() - begin
    expect(second.elapsed(first)).toBeGreaterThan(0)
    expect(third.elapsed(second)).toBeGreaterThan(15)
    expect(third.elapsed(first)).toBeLessThanOrEqual(most)
  })
})

describe('closing', () => {
  it('waits for all launches and may be repeated', async () => {
    const world = openHandmade({ ranks: 2 })
    world.launch(slow, { x: world.zeros(i32, [1]) }, { grid: 1 })
    await world.close()
    await world.close()
    expect(() => world.zeros(i32, [1])).toThrow(new WorldError('the world is closed'))
  })

  it('is what disposal does', async () => {
    let closed: World
    {
      await using world = openHandmade({ ranks: 1 })
      closed = world
    }
    await expect(closed.synchronize()).rejects.toThrow('the world is closed')
  })
})
