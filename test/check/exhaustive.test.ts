/** Tests that a search that reports itself as exhaustive finds every outcome that needs no or few preemptions. */
import { describe, expect, it } from 'vitest'
import { f32, flags, i32, kernel, tensor, u32 } from '../../src/index.ts'
import { explore, type ExploreOptions } from '../../src/targets/check/explore.ts'
import { scenario, type World } from '../../src/world/world.ts'

async function verdict(
  ranks: number,
  run: (world: World) => Promise<unknown>,
  how: Partial<ExploreOptions> = { preemptions: 2 },
): Promise<{ kinds: string[]; complete: boolean; cuts: readonly string[]; values: unknown[] }> {
  const explored = await explore(scenario('exhaustive', { ranks }, run), { ranks, ...how })
  const { findings, complete, cuts, results } = explored
  return {
    kinds: findings.map(({ kind }) => kind),
    complete,
    cuts,
    values: results.map(({ value }) => value),
  }
}

describe('a flag that is signalled with an order and without', () => {
  const mixed = kernel('mixed', { x: tensor(f32, 1), f: flags() }, (t, { x, f }) => {
    t.if(
      t.rank.eq(0),
      () => {
        t.store(x.on(1).at([0]), 5)
        t.signal(f.on(1))
        t.signal(f.on(1), { order: 'relaxed' })
      },
      () => {
        t.wait(f)
        t.store(x.at([1]), t.load(x.at([0])))
      },
    )
  })

  it('may be observed through the signal that releases nothing', async () => {
    const found = await verdict(2, async (world) => {
      world.launch(mixed, { x: world.zeros(f32, [2]), f: world.flags() }, { grid: 1 })
      await world.synchronize()
    })
    expect(found.kinds).toEqual(['race'])
  })
})

describe('arrivals of several roles at a barrier', () => {
  const arriving = (twice: boolean) =>
    kernel('arriving', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) => {
      const tile = t.shared(f32, [4])
      const full = t.barriers(1, 2)
      t.roles({
        fills: () => {
          t.store(tile, t.load(x.tile([0], [4])))
          t.arrive(full.at(0))
        },
        helps: () => {
          t.arrive(full.at(0))
          if (twice) t.arrive(full.at(0))
        },
        reads: () => {
          t.wait(full.at(0), 0)
          t.store(y.tile([0], [4]), t.load(tile))
        },
      })
    })
  const run = (twice: boolean) => async (world: World) => {
    const x = world.zeros(f32, [4])
    world.launch(arriving(twice), { x, y: world.zeros(f32, [4]) }, { grid: 1 })
    await world.synchronize()
  }

  it('are unordered: one role may complete the phase alone', async () => {
    expect((await verdict(1, run(true))).kinds).not.toEqual([])
    expect((await verdict(1, run(true), { schedules: 200 })).kinds).not.toEqual([])
  })

  it('need no reordering if each role arrives once', async () => {
    expect(await verdict(1, run(false))).toMatchObject({ kinds: [], complete: true })
  })
})

describe('lanes of one atomic', () => {
  const swap = kernel('swap', { c: tensor(i32, 1), y: tensor(i32, 1) }, (t, { c, y }) => {
    const old = t.atomic.xchg(c.on(0).at([t.arange(2)]), t.rank.add(1).broadcast([2]))
    t.store(y.at([t.arange(2)]), old)
  })
  const add = kernel('add', { c: tensor(i32, 1) }, (t, { c }) => {
    t.atomic.add(c.on(0).at([t.arange(4).div(2)]), 1)
  })

  it('run in one order only, so a search in which the order is observable is incomplete', async () => {
    const found = await verdict(2, async (world) => {
      world.launch(swap, { c: world.zeros(i32, [2]), y: world.zeros(i32, [2]) }, { grid: 1 })
      await world.synchronize()
    })
    expect(found).toMatchObject({ kinds: [], complete: false, cuts: ['lanes'] })
  })

  it('make no difference if they add and the results are unused', async () => {
    const found = await verdict(2, async (world) => {
      world.launch(add, { c: world.zeros(i32, [2]) }, { grid: 1 })
      await world.synchronize()
    })
    expect(found).toMatchObject({ kinds: [], complete: true })
  })
})

describe('a loop that polls two words', () => {
  const polling = kernel(
    'polling',
    { a: tensor(u32, 1), b: tensor(u32, 1), go: tensor(u32, 1), out: tensor(u32, 1) },
    (t, { a, b, go, out }) => {
      const poll = (word: typeof a) => t.load(word.on(0).at([0]), { order: 'relaxed' })
      const zero = t.constant(u32, 0)
      t.if(
        t.rank.eq(0),
        () => {
          t.store(go.at([0]), 1, { order: 'relaxed' })
          const seen = t.while(
            { a: zero, b: zero },
            (now) => now.a.eq(0),
            () => ({ a: poll(a), b: poll(b) }),
          )
          t.store(out.at([0]), seen.b)
        },
        () => {
          t.while(
            zero,
            (now) => now.eq(0),
            () => poll(go),
          )
          t.store(b.on(0).at([0]), 1, { order: 'relaxed' })
          t.store(a.on(0).at([0]), 1, { order: 'relaxed' })
        },
      )
    },
  )

  it('may read a new value of one word and an old value of the other', async () => {
    const { kinds, values } = await verdict(
      2,
      async (world) => {
        const [a, b, go, out] = [1, 2, 3, 4].map(() => world.zeros(u32, [1]))
        world.launch(polling, { a, b, go, out }, { grid: 1 })
        return (await world.read(out, 0))[0]
      },
      { preemptions: 0 },
    )
    expect(kinds).toEqual([])
    expect(new Set(values)).toEqual(new Set([0, 1]))
  })
})

describe('an epoch that is read while another launch advances it', () => {
  const advance = kernel('advance', { f: flags() }, (t, { f }) => {
    t.signal(f)
    t.wait(f)
  })
  const look = kernel('look', { f: flags(), y: tensor(u32, 1) }, (t, { f, y }) =>
    t.store(y.at([0]), t.epoch(f, 'wait')),
  )

  it('is reported, because its value depends on which launch runs first', async () => {
    const run = (ordered: boolean) => async (world: World) => {
      const [first, second] = [world.stream(), world.stream()]
      const f = world.flags([], { name: 'f' })
      world.launch(advance, { f }, { grid: 1, stream: first })
      if (ordered) second.wait(first.record())
      world.launch(look, { f, y: world.zeros(u32, [1]) }, { grid: 1, stream: second })
      await world.synchronize()
    }
    expect((await verdict(1, run(false))).kinds).toEqual(['flag-reuse'])
    expect((await verdict(1, run(true))).kinds).toEqual([])
  })
})

describe('a word of the host', () => {
  const poll = (scope: 'block' | 'device' | 'system') =>
    kernel('poll', { go: tensor(u32, 1) }, (t, { go }) => {
      t.while(
        t.constant(u32, 0),
        (seen) => seen.eq(0),
        () => t.load(go.at([0]), { order: 'acquire', scope }),
      )
    })
  const run = (scope: 'block' | 'device' | 'system', isEmpty: boolean) => async (world: World) => {
    const go = isEmpty ? world.empty(u32, [1]) : world.zeros(u32, [1])
    world.launch(poll(scope), { go }, { grid: 1 })
    world.write(go, 0, [1])
    await world.synchronize()
  }

  it('is polled at system scope', async () => {
    expect((await verdict(1, run('system', false))).kinds).toEqual([])
    expect((await verdict(1, run('device', false))).kinds).toEqual(['scope-race'])
    expect((await verdict(1, run('block', false))).kinds).toEqual(['scope-race'])
  })

  it('must be initialised before the host writes it', async () => {
    expect((await verdict(1, run('system', true))).kinds).toEqual(['uninitialised'])
  })
})

describe('gathered rows', () => {
  const gather = (column: number) =>
    kernel('gather', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) =>
      t.copy(x.rows(t.arange(4).add(1)).tile(column, 8), y.tile([0, 0], [4, 8])),
    )

  it.each([-1, 1, 5])('of column tile %i, which is outside the tensor, are reported', async (column) => {
    const found = await verdict(1, async (world) => {
      world.launch(gather(column), { x: world.zeros(f32, [8, 8]), y: world.zeros(f32, [8, 8]) }, { grid: 1 })
      await world.synchronize()
    })
    expect(found.kinds).toEqual(['out-of-bounds'])
  })
})

describe('a scenario that catches what ends its run', () => {
  const count = kernel('count', { x: tensor(i32, 1) }, (t, { x }) => void t.atomic.add(x.on(0).at([0]), 1))
  const stuck = kernel('stuck', { f: flags() }, (t, { f }) => t.wait(f))
  const wrapping = (launch: (world: World) => void) => async (world: World) => {
    launch(world)
    try {
      await world.synchronize()
    } catch (error) {
      throw new Error('the exchange failed', { cause: error })
    }
  }

  it('is not reported as wrong', async () => {
    const counting = wrapping((world) => world.launch(count, { x: world.zeros(i32, [1]) }, { grid: 1 }))
    expect(await verdict(3, counting)).toMatchObject({ kinds: [], complete: true })
    const waiting = wrapping((world) => world.launch(stuck, { f: world.flags() }, { grid: 1 }))
    expect((await verdict(1, waiting)).kinds).toEqual(['deadlock'])
  })
})

describe('a flag set shared by two concurrent launches', () => {
  it('is reported with the lines of both launches, once per flag set', async () => {
    const both = kernel('both', { f: flags(), g: flags() }, (t, { f, g }) => {
      t.signal(f)
      t.signal(g)
    })
    const run = scenario('both', { ranks: 1 }, async (world) => {
      const [f, g] = [world.flags([], { name: 'f' }), world.flags([], { name: 'g' })]
      for (const stream of [0, 1]) world.launch(both, { f, g }, { grid: 1, stream })
      await world.synchronize()
    })
    const { findings } = await explore(run, { ranks: 1, preemptions: 0, keepGoing: true })
    expect(findings.map(({ kind }) => kind)).toEqual(['flag-reuse', 'flag-reuse'])
    for (const { parties } of findings) {
      expect(parties).toHaveLength(2)
      expect(parties.every(({ site }) => site?.position?.file.endsWith('exhaustive.test.ts'))).toBe(true)
    }
  })
})
