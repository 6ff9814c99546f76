/**
 * Tests flags and epochs, roles and barriers, teams and `last`, and polling loops: the guarantees on which correct
 * kernels rely.
 */
import { describe, expect, it } from 'vitest'
import {
  f32,
  flags,
  i32,
  kernel,
  scalar,
  tensor,
  u32,
  type Arguments,
  type Program,
} from '../../src/index.ts'
import { explore, type Exploration } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { scenario, type World } from '../../src/world/world.ts'

async function everywhere(
  ranks: number,
  run: (world: World) => Promise<unknown>,
  residency?: number,
): Promise<unknown[]> {
  const values: unknown[] = []
  const subject = scenario('control', { ranks, residency }, run)
  for (const stage of ['recorded', 'lowered'] as const)
    for (const how of [{ preemptions: 2 }, { schedules: 200 }]) {
      const { findings, results } = await explore(subject, { ranks, stage, ...how })
      expect(findings.map(formatFinding), stage).toEqual([])
      values.push(...results.map(({ value }) => value))
    }
  expect(values.length).toBeGreaterThan(0)
  return values
}

async function findingsOf(
  ranks: number,
  run: (world: World) => Promise<unknown>,
  residency?: number,
): Promise<Exploration> {
  return explore(scenario('control', { ranks, residency }, run), { ranks, preemptions: 2 })
}

describe('a poll of a flag (reached)', () => {
  const params = { cell: tensor(i32, 1), out: tensor(i32, 1), ready: flags() }
  type Receive = (t: Program, args: Arguments<typeof params>) => void
  /** In this kernel, rank 0 writes an element of rank 1 and signals. The function `receive` is what rank 1 executes. */
  const told = (receive: Receive) => {
    const tell = kernel('tell', params, (t, args) => {
      t.if(
        t.rank.eq(0),
        () => {
          t.store(args.cell.on(1).at([0]), 7)
          t.signal(args.ready.on(1))
        },
        () => receive(t, args),
      )
    })
    return async (world: World): Promise<unknown> => {
      const out = world.from(i32, [1], [-1])
      world.launch(tell, { cell: world.empty(i32, [1]), out, ready: world.flags() }, { grid: 1 })
      return (await world.read(out, 1))[0]
    }
  }

  it('returns true or false, and after true the data written before the signal may be read', async () => {
    const values = await everywhere(
      2,
      told((t, { cell, out, ready }) =>
        t.if(
          t.reached(ready),
          () => t.store(out.at([0]), t.load(cell.at([0]))),
          () => t.store(out.at([0]), 0),
        ),
      ),
    )
    expect(new Set(values)).toEqual(new Set([0, 7]))
  })

  it('stays true once it has returned true', async () => {
    const values = await everywhere(
      2,
      told((t, { out, ready }) => {
        const first = t.reached(ready)
        t.if(first.and(t.reached(ready).not()), () => t.store(out.at([0]), 0))
      }),
    )
    expect(new Set(values)).toEqual(new Set([-1]))
  })

  it.each([
    [
      'regardless of its result',
      (t, { cell, out, ready }) => {
        t.reached(ready)
        t.store(out.at([0]), t.load(cell.at([0])))
      },
    ],
    [
      'after it returned false',
      (t, { cell, out, ready }) =>
        t.if(t.reached(ready).not(), () => t.store(out.at([0]), t.load(cell.at([0])))),
    ],
    [
      'after it returned false and an acquire fence',
      (t, { cell, out, ready }) =>
        t.if(t.reached(ready, { order: 'relaxed' }).not(), () => {
          t.fence('acquire')
          t.store(out.at([0]), t.load(cell.at([0])))
        }),
    ],
    [
      'after a relaxed poll',
      (t, { cell, out, ready }) =>
        t.if(t.reached(ready, { order: 'relaxed' }), () => t.store(out.at([0]), t.load(cell.at([0])))),
    ],
  ] satisfies readonly [string, Receive][])('orders no read %s', async (_, receive) => {
    const { findings } = await findingsOf(2, told(receive))
    expect(findings.map(({ kind }) => kind)).toContain('race')
  })

  it('may be relaxed if an acquire fence follows', async () => {
    const values = await everywhere(
      2,
      told((t, { cell, out, ready }) =>
        t.if(t.reached(ready, { order: 'relaxed' }), () => {
          t.fence('acquire')
          t.store(out.at([0]), t.load(cell.at([0])))
        }),
      ),
    )
    expect(new Set(values)).toEqual(new Set([-1, 7]))
  })

  const poll: Receive = (t, { cell, out, ready }) => {
    t.while(
      t.constant(i32, 0),
      () => t.reached(ready).not(),
      (turns) => turns,
    )
    t.store(out.at([0]), t.load(cell.at([0])))
  }

  it('in a loop acts as a wait', async () => {
    expect(new Set(await everywhere(2, told(poll)))).toEqual(new Set([7]))
  })

  it('in a loop that no signal ends is reported as a deadlock', async () => {
    const alone = kernel('alone', params, (t, args) => t.if(t.rank.eq(1), () => poll(t, args)))
    const { findings } = await findingsOf(2, async (world) => {
      const [cell, out] = [world.from(i32, [1], [0]), world.empty(i32, [1])]
      world.launch(alone, { cell, out, ready: world.flags() }, { grid: 1 })
      await world.synchronize()
    })
    expect(findings.map(({ kind }) => kind)).toEqual(['deadlock'])
    expect(formatFinding(findings[0])).toContain('spins in a loop that no other agent can end')
  })

  it('is not counted as a wait: the wait epoch does not advance', async () => {
    const seen = kernel('seen', { out: tensor(u32, 1), ready: flags() }, (t, { out, ready }) => {
      t.store(out.at([0]), t.epoch(ready, 'wait'))
      t.if(t.reached(ready), () => t.store(out.at([1]), 1))
    })
    const values = await everywhere(1, async (world) => {
      const [out, ready] = [world.empty(u32, [2]), world.flags()]
      world.launch(
        kernel('tell', { ready: flags() }, (t, args) => t.signal(args.ready)),
        { ready },
        { grid: 1 },
      )
      for (let n = 0; n < 3; n++) world.launch(seen, { out, ready }, { grid: 1 })
      return [...(await world.read(out, 0))].join()
    })
    expect(new Set(values)).toEqual(new Set(['1,1']))
  })
})

describe('flags', () => {
  it('advance their epochs without a reset: ten launches, and a rank may be a launch ahead', async () => {
    const ranks = 2
    const exchange = kernel(
      'exchange',
      { inbox: tensor(i32, 2), seen: tensor(i32, 1), arrived: flags(1), round: scalar(i32) },
      (t, { inbox, seen, arrived, round }) => {
        const slot = t.epoch(arrived).mod(2).to(i32)
        t.for(t.world, (step) => {
          const peer = t.rank.add(step).mod(t.world)
          t.store(inbox.on(peer).at([slot, t.rank]), round.mul(10).add(t.rank))
          t.signal(arrived.on(peer).at([t.rank]))
        })
        const sum = t.for(t.world, t.constant(i32, 0), (peer, total) => {
          t.wait(arrived.at([peer]))
          return total.add(t.load(inbox.at([slot, peer])))
        })
        t.store(seen.at([0]), sum)
      },
    )
    const subject = scenario('exchange', { ranks }, async (world) => {
      const args = { inbox: world.empty(i32, [2, ranks]), arrived: world.flags([ranks]) }
      const sums = Array.from({ length: 10 }, () => world.empty(i32, [1]))
      sums.forEach((seen, round) => world.launch(exchange, { ...args, seen, round }, { grid: 1 }))
      return Promise.all(sums.map(async (seen) => (await world.read(seen, 1))[0]))
    })
    const { findings, results } = await explore(subject, { ranks, schedules: 300 })
    expect(findings.map(formatFinding)).toEqual([])
    for (const { value } of results)
      expect(value).toEqual(Array.from({ length: 10 }, (_, round) => round * 20 + 1))
  })

  it('count arrivals: a wait ends after all of them', async () => {
    const gather = kernel(
      'gather',
      { cells: tensor(i32, 1), out: tensor(i32, 1), all: flags(0, { arrivals: 3 }) },
      (t, { cells, out, all }) => {
        t.store(cells.on(0).at([t.rank]), t.rank.add(1))
        t.signal(all.on(0))
        t.if(t.rank.eq(0), () => {
          t.wait(all)
          t.store(out.at([0]), t.load(cells.tile([0], [3])).sum())
        })
      },
    )
    const values = await everywhere(3, async (world) => {
      const out = world.empty(i32, [1])
      world.launch(
        gather,
        { cells: world.empty(i32, [3]), out, all: world.flags([], { arrivals: 3 }) },
        { grid: 1 },
      )
      return (await world.read(out, 0))[0]
    })
    expect(new Set(values)).toEqual(new Set([6]))
  })

  it('with lag 1 act as a credit for the previous launch', async () => {
    const send = kernel(
      'send',
      { inbox: tensor(i32, 1), full: flags(), free: flags(), round: scalar(i32) },
      (t, { inbox, full, free, round }) => {
        t.if(t.rank.eq(0), () => {
          t.wait(free, { lag: 1 })
          t.store(inbox.on(1).at([0]), round)
          t.signal(full.on(1))
        })
        t.if(t.rank.eq(1), () => {
          t.wait(full)
          t.atomic.add(inbox.at([1]), t.load(inbox.at([0])))
          t.signal(free.on(0))
        })
      },
    )
    const values = await everywhere(2, async (world) => {
      const inbox = world.from(i32, [2], [0, 0])
      const args = { inbox, full: world.flags(), free: world.flags() }
      for (const round of [1, 10, 100]) world.launch(send, { ...args, round }, { grid: 1 })
      return (await world.read(inbox, 1))[1]
    })
    expect(new Set(values)).toEqual(new Set([111]))
  })
})

describe('waits for a part of an epoch', () => {
  const parts = (sent: number, wanted: readonly number[]) => async (world: World) => {
    const tell = kernel('tell', { cells: tensor(i32, 1), some: flags(0, { arrivals: 3 }) }, (t, args) =>
      t.for(sent, (k) => {
        t.store(args.cells.at([k]), k.add(10))
        t.signal(args.some)
      }),
    )
    const listen = kernel(
      'listen',
      { cells: tensor(i32, 1), out: tensor(i32, 1), some: flags(0, { arrivals: 3 }), n: scalar(i32) },
      (t, { cells, out, some, n }) => {
        t.wait(some, { atLeast: n })
        t.for(n, (k) => t.store(out.at([k]), t.load(cells.at([k]))))
      },
    )
    const [cells, out] = [world.empty(i32, [3]), world.zeros(i32, [3])]
    const some = world.flags([], { name: 'some', arrivals: 3 })
    world.launch(tell, { cells, some }, { grid: 1 })
    for (const n of wanted) world.launch(listen, { cells, out, some, n }, { grid: 1, stream: 1 })
    return [...(await world.read(out, 0))]
  }

  it('see what the first signals published', async () => {
    for (const value of await everywhere(1, parts(3, [2]))) expect(value).toEqual([10, 11, 0])
  })

  it('return at once if no signal is required', async () => {
    for (const value of await everywhere(1, parts(3, [0]))) expect(value).toEqual([0, 0, 0])
  })

  it('are reported if they require more signals than an epoch has', async () => {
    const tell = kernel('tell', { some: flags(0, { arrivals: 2 }) }, (t, { some }) =>
      t.for(4, () => t.signal(some)),
    )
    const listen = kernel('listen', { some: flags(0, { arrivals: 2 }), n: scalar(i32) }, (t, { some, n }) =>
      t.wait(some, { atLeast: n }),
    )
    const { findings } = await findingsOf(1, async (world) => {
      const some = world.flags([], { name: 'some', arrivals: 2 })
      world.launch(tell, { some }, { grid: 1 })
      world.launch(listen, { some, n: 3 }, { grid: 1, stream: 1 })
      await world.synchronize()
    })
    expect(findings.map(({ kind }) => kind)).toEqual(['flag-reuse'])
    expect(findings[0].message).toContain('awaited with atLeast 3, but an epoch has 2 signals')
  })

  it('are reported if the rest of the epoch is never signalled', async () => {
    const { findings } = await findingsOf(1, parts(2, [2]))
    expect(findings.map(({ kind }) => kind)).toEqual(['lost-signal'])
    expect(findings[0].message).toContain(
      'has 2 signals at the end of the run, but epoch 1 is complete with 3',
    )
  })

  it('are refused if the number is known to be too large or negative', () => {
    const waits = (n: number) =>
      kernel('waits', { some: flags(0, { arrivals: 2 }) }, (t, { some }) =>
        t.wait(some, { atLeast: n }),
      ).record({ world: 1 })
    expect(() => waits(3)).toThrow('atLeast 3 is more than the 2 signals of an epoch')
    expect(() => waits(-1)).toThrow('atLeast -1 is not a number of signals')
    expect(() => waits(2)).not.toThrow()
  })
})

describe('flags misused', () => {
  it('are reported when a late signal overwrites a later epoch', async () => {
    const turn = kernel('turn', { go: flags() }, (t, { go }) => t.signal(go.on(2)))
    const listen = kernel('listen', { go: flags() }, (t, { go }) => t.wait(go))
    const { findings } = await findingsOf(3, async (world) => {
      const go = world.flags([], { name: 'go' })
      // In this kernel, rank 0 signals epoch 1. Rank 1 signals twice, so its second signal is epoch 2.
      world.launch(turn, { go }, { grid: 1, ranks: [1] })
      world.launch(turn, { go }, { grid: 1, ranks: [1] })
      world.launch(turn, { go }, { grid: 1, ranks: [0] })
      world.launch(listen, { go }, { grid: 1, ranks: [2] })
      await world.synchronize()
    })
    expect(findings.map(({ kind }) => kind)).toEqual(['flag-reuse'])
    expect(findings[0].message).toContain('overwrites epoch 2 of go of rank 2')
  })

  it('are reported when concurrent launches share one side of a set, and keep their epoch when they do not', async () => {
    const twice = kernel('twice', { go: flags(), seen: tensor(u32, 1) }, (t, { go, seen }) => {
      t.store(seen.at([0]), t.epoch(go))
      t.signal(go)
      t.store(seen.at([1]), t.epoch(go))
    })
    const run =
      (shared: boolean) =>
      async (world: World): Promise<number[]> => {
        const sets = [world.flags([], { name: 'go' }), world.flags()]
        const seen = [world.empty(u32, [2]), world.empty(u32, [2])]
        for (const stream of [0, 1])
          world.launch(twice, { go: sets[shared ? 0 : stream], seen: seen[stream] }, { grid: 1, stream })
        return [...(await world.read(seen[0], 0)), ...(await world.read(seen[1], 0))]
      }
    const { findings } = await findingsOf(1, run(true))
    expect(findings.map(({ kind }) => kind)).toEqual(['flag-reuse'])
    for (const value of await everywhere(1, run(false))) expect(value).toEqual([1, 1, 1, 1])
  })

  it('end a run for good, even if the host program catches the error', async () => {
    const stuck = kernel('stuck', { go: flags() }, (t, { go }) => t.wait(go))
    const { findings } = await findingsOf(1, async (world) => {
      world.launch(stuck, { go: world.flags() }, { grid: 1 })
      await world.synchronize().catch(() => undefined)
    })
    expect(findings.map(({ kind }) => kind)).toEqual(['deadlock'])
  })
})

describe('arguments', () => {
  it('are refused when a kernel would write one tensor under two names', async () => {
    const copy = kernel('copy', { from: tensor(i32, 1), to: tensor(i32, 1) }, (t, { from, to }) =>
      t.copy(from.tile([0], [4]), to.tile([0], [4])),
    )
    const run = async (world: World): Promise<void> => {
      const x = world.zeros(i32, [4])
      world.launch(copy, { from: x, to: x }, { grid: 1 })
    }
    await expect(findingsOf(1, run)).rejects.toThrow('from and to are the same tensor')
  })
})

describe('roles', () => {
  it('pass tiles through a ring of barriers, and synchronise', async () => {
    const ring = kernel(
      'ring',
      { x: tensor(f32, 1), out: tensor(f32, 1) },
      { STAGES: 2, T: 5 },
      (t, { x, out }, { STAGES, T }) => {
        const tiles = t.shared(f32, [STAGES, 4])
        const total = t.shared(f32, [4])
        const full = t.barriers(STAGES)
        const empty = t.barriers(STAGES)
        t.roles({
          producer: () => {
            t.for(T, (i) => {
              const slot = i.mod(STAGES)
              t.wait(empty.at(slot), i.div(STAGES).sub(1))
              t.copyAsync(x.tile([i], [4]), tiles.pick(slot), full.at(slot))
              t.arrive(full.at(slot))
            })
            t.barrier()
            t.copy(total, out.tile([0], [4]))
          },
          consumer: () => {
            const sum = t.for(T, t.zeros(f32, [4]), (i, acc) => {
              const slot = i.mod(STAGES)
              t.wait(full.at(slot), i.div(STAGES))
              const tile = t.load(tiles.pick(slot))
              t.arrive(empty.at(slot))
              return acc.add(tile)
            })
            t.store(total, sum)
            t.barrier()
          },
        })
      },
    )
    const values = await everywhere(1, async (world) => {
      const out = world.empty(f32, [4])
      world.launch(
        ring,
        {
          x: world.from(
            f32,
            [20],
            Array.from({ length: 20 }, (_, i) => i),
          ),
          out,
        },
        { grid: 1 },
      )
      return [...(await world.read(out, 0))]
    })
    for (const value of values) expect(value).toEqual([40, 45, 50, 55])
  })
})

describe('teams and last', () => {
  it('divide the programs, and the last of a rank runs once', async () => {
    const divide = kernel(
      'divide',
      { sent: tensor(i32, 1), computed: tensor(i32, 1), ends: tensor(i32, 1) },
      (t, { sent, computed, ends }) => {
        t.teams({
          senders: {
            programs: 1,
            body: () => t.persistent([3], ([i]) => t.store(sent.at([i]), t.programs.mul(10).add(t.program))),
          },
          compute: {
            programs: 'rest',
            body: () =>
              t.persistent([4], ([i]) => t.store(computed.at([i]), t.programs.mul(10).add(t.program))),
          },
        })
        t.last(() =>
          t.store(
            ends.at([0]),
            t
              .load(sent.tile([0], [3]))
              .sum()
              .add(t.load(computed.tile([0], [4])).sum()),
          ),
        )
      },
    )
    const values = await everywhere(2, async (world) => {
      const args = {
        sent: world.empty(i32, [3]),
        computed: world.empty(i32, [4]),
        ends: world.empty(i32, [1]),
      }
      world.launch(divide, args, { grid: 3 })
      return [
        [...(await world.read(args.sent, 1))],
        [...(await world.read(args.computed, 1))],
        [...(await world.read(args.ends, 1))],
      ]
    })
    for (const value of values) expect(value).toEqual([[10, 10, 10], [20, 21, 20, 21], [112]])
  })
})

describe('loops that poll', () => {
  const polling = (stores: boolean) =>
    kernel(
      'polling',
      { cell: tensor(u32, 1), data: tensor(i32, 1), out: tensor(i32, 1) },
      (t, { cell, data, out }) => {
        t.if(
          t.rank.eq(0),
          () => {
            t.store(data.on(1).at([0]), 42)
            if (stores) t.store(cell.on(1).at([0]), 1, { order: 'release' })
          },
          () => {
            t.while(
              t.constant(u32, 0),
              (seen) => seen.eq(0),
              () => t.load(cell.at([0]), { order: 'acquire' }),
            )
            t.store(out.at([0]), t.load(data.at([0])))
          },
        )
      },
    )
  const run =
    (stores: boolean) =>
    async (world: World): Promise<unknown> => {
      const out = world.empty(i32, [1])
      world.launch(
        polling(stores),
        { cell: world.zeros(u32, [1]), data: world.empty(i32, [1]), out },
        { grid: 1 },
      )
      return (await world.read(out, 1))[0]
    }

  it('end when the value arrives', async () => {
    expect(new Set(await everywhere(2, run(true)))).toEqual(new Set([42]))
  })

  it('are a deadlock when the value never arrives', async () => {
    const { findings } = await findingsOf(2, run(false))
    expect(findings.map((finding) => finding.kind)).toEqual(['deadlock'])
    expect(findings[0].parties[0].what).toContain('spins')
  })

  it('take a lock one after the other', async () => {
    const lock = kernel('lock', { lock: tensor(u32, 1), count: tensor(i32, 1) }, (t, { lock, count }) => {
      t.while(
        t.constant(u32, 1),
        (taken) => taken.ne(0),
        () => t.atomic.cas(lock.on(0).at([0]), 0, 1, { order: 'acquire' }),
      )
      t.store(count.on(0).at([0]), t.load(count.on(0).at([0])).add(1))
      t.store(lock.on(0).at([0]), 0, { order: 'release' })
    })
    const values = await everywhere(3, async (world) => {
      const count = world.zeros(i32, [1])
      world.launch(lock, { lock: world.zeros(u32, [1]), count }, { grid: 1 })
      return (await world.read(count, 0))[0]
    })
    expect(new Set(values)).toEqual(new Set([3]))
  })
})

describe('reports', () => {
  it('name the flag, its value and the value wanted in a deadlock', async () => {
    const stuck = kernel('stuck', { ready: flags(1) }, (t, { ready }) => t.wait(ready.on(0).at([2])))
    const { findings } = await findingsOf(2, async (world) => {
      world.launch(stuck, { ready: world.flags([3], { name: 'ready' }) }, { grid: 1 })
      await world.synchronize()
    })
    expect(findings).toHaveLength(1)
    expect(findings[0].parties.map(({ who, what }) => `${who} ${what}`)).toEqual([
      'rank 0, program 0 waits for flag ready[2] of rank 0: it is 0, wanted 1',
      'rank 1, program 0 waits for flag ready[2] of rank 0: it is 0, wanted 1',
    ])
    expect(findings[0].message).toBe(
      '2 agents wait for events that cannot occur any more; no launched kernel signals ready',
    )
  })

  it('name who could have signalled the flag of a deadlock, and what became of them', async () => {
    const wait = kernel('wait', { ready: flags() }, (t, { ready }) => t.wait(ready))
    const signal = kernel('signal', { ready: flags() }, (t, { ready }) =>
      t.if(t.rank.eq(1), () => t.signal(ready)),
    )
    const { findings } = await findingsOf(2, async (world) => {
      const ready = world.flags([], { name: 'ready' })
      world.launch(signal, { ready }, { grid: 1, ranks: [0] })
      await world.synchronize()
      world.launch(wait, { ready }, { grid: 1 })
      world.launch(signal, { ready }, { grid: 1, ranks: [1] })
      await world.synchronize()
    })
    expect(findings).toHaveLength(1)
    expect(findings[0].message).toBe('2 agents wait for events that cannot occur any more')
    const signals = findings[0].parties.slice(2)
    expect(signals.map(({ who, what }) => `${who} ${what}`)).toEqual([
      'rank 0 could signal ready: signal has ended',
      'rank 1 could signal ready: signal has not started, because it follows wait on its stream',
    ])
    for (const { site } of signals) expect(String(site)).toMatch(/control\.test\.ts:\d+:\d+/)
  })

  it('say how many programs fit', async () => {
    const waits = kernel('waits', { ready: flags() }, (t, { ready }) => {
      t.signal(ready)
      t.wait(ready)
    })
    const run = async (world: World): Promise<void> => {
      world.launch(waits, { ready: world.flags() }, { grid: 3 })
      await world.synchronize()
    }
    const { findings } = await findingsOf(1, run, 2)
    expect(findings.map((finding) => finding.kind)).toEqual(['residency'])
    expect(findings[0].message).toContain('Launch at most 2')
    expect((await findingsOf(1, run, 3)).findings).toEqual([])
  })

  it('are the same for the same seed', async () => {
    const racy = kernel('racy', { cell: tensor(i32, 1) }, (t, { cell }) =>
      t.store(cell.on(0).at([0]), t.rank),
    )
    const run = scenario('racy', { ranks: 3 }, async (world) => {
      const cell = world.empty(i32, [1], { name: 'cell' })
      world.launch(racy, { cell }, { grid: 1 })
      return [...(await world.read(cell, 0))]
    })
    const [first, second] = [
      await explore(run, { ranks: 3, seed: 9 }),
      await explore(run, { ranks: 3, seed: 9 }),
    ]
    expect(first.findings.map(formatFinding)).toEqual(second.findings.map(formatFinding))
    expect(first.results).toEqual(second.results)
    expect(first.seed).toBe(9)
  })
})
