/**
 * Tests copies in flight: `putNbi`, `getNbi`, `copyAsync` from shared memory, `quiet` and `putSignal`. Hand-written
 * programs test each rule. Random programs are compared with an independent computation of happens-before, in which the
 * read and the write of a copy in flight are separate events that only a `quiet` orders before the events after it.
 */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { flags, i32, kernel, tensor, type Flags, type Program, type Tensor } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'

interface Places {
  readonly a: Tensor<'i32', 1>
  readonly b: Tensor<'i32', 1>
  readonly told: Flags<0>
}

/** In this scenario, rank 0 executes one body and rank 1 another. The host then reads both tensors of rank `read`. */
function two(
  first: (t: Program, places: Places) => void,
  second: (t: Program, places: Places) => void = () => undefined,
  read: readonly number[] = [],
): Scenario {
  const body = kernel('body', { a: tensor(i32, 1), b: tensor(i32, 1), told: flags() }, (t, places) => {
    t.if(
      t.rank.eq(0),
      () => first(t, places),
      () => second(t, places),
    )
  })
  return scenario('two ranks', { ranks: 2 }, async (world) => {
    const a = world.from(i32, [4], (rank) => [0, 1, 2, 3].map((i) => 10 * rank + i), { name: 'a' })
    const b = world.zeros(i32, [4], { name: 'b' })
    world.launch(body, { a, b, told: world.flags([], { name: 'told' }) }, { grid: 1 })
    await world.synchronize()
    for (const rank of read) await world.read(b, rank)
  })
}

const own = readFileSync(import.meta.filename, 'utf8').split('\n')

/** Each finding of the checker: its kind, and the sorted names of the methods that are called at the reported lines. */
async function found(subject: Scenario): Promise<string[]> {
  const { findings, complete } = await explore(subject, { ranks: 2, preemptions: 2, keepGoing: true })
  expect(complete).toBe(true)
  return findings.map(({ kind, parties }) => {
    const called = parties.map(({ site }) => {
      const at = site?.position
      return at ? /^\w+/.exec(own[at.line - 1].slice(at.column - 1))![0] : 'nothing'
    })
    return `${kind}: ${called.sort().join(', ')}`
  })
}

const whole = (x: Tensor<'i32', 1>) => x.tile([0], [4])

/** Waits for a signal of rank 0, then reads the data that rank 0 has put. */
const receive = (t: Program, { a, b, told }: Places): void => {
  t.wait(told)
  t.store(a.at([0]), t.load(b.at([3])))
}

describe('a put in flight', () => {
  it('is complete after quiet: the source may be written, the target may be read, a signal covers it', async () => {
    const subject = two(
      (t, { a, b, told }) => {
        t.putNbi(whole(a), whole(b.on(1)))
        t.quiet()
        t.store(a.at([0]), t.load(b.on(1).at([0])))
        t.signal(told.on(1))
      },
      receive,
      [1],
    )
    expect(await found(subject)).toEqual([])
  })

  it('reads its source until quiet', async () => {
    const reuse = two((t, { a, b }) => {
      t.putNbi(whole(a), whole(b.on(1)))
      t.store(a.at([0]), 7)
      t.quiet()
    })
    expect(await found(reuse)).toEqual(['race: putNbi, store'])
  })

  it('may share its source with loads and with other puts', async () => {
    const shared = two((t, { a, b }) => {
      t.putNbi(whole(a), whole(b))
      t.putNbi(whole(a), whole(b.on(1)))
      t.store(a.on(1).at([0]), t.load(a.at([1])))
      t.quiet()
    })
    expect(await found(shared)).toEqual([])
  })

  it('writes its target until quiet', async () => {
    const early = two((t, { a, b }) => {
      t.putNbi(whole(a), whole(b.on(1)))
      t.store(a.on(1).at([0]), t.load(b.on(1).at([0])))
      t.quiet()
    })
    expect(await found(early)).toEqual(['race: load, putNbi'])
  })

  it('has no order with another put to the same target', async () => {
    const twice = (between: (t: Program) => void): Scenario =>
      two((t, { a, b }) => {
        t.putNbi(whole(a), whole(b.on(1)))
        between(t)
        t.putNbi(a.on(1).tile([0], [4]), whole(b.on(1)))
        t.quiet()
      })
    expect(await found(twice(() => undefined))).toEqual(['race: putNbi, putNbi'])
    // A fence orders the accesses of the role, but a copy in flight is not an access of the role.
    expect(await found(twice((t) => t.fence('acqRel')))).toEqual(['race: putNbi, putNbi'])
    expect(await found(twice((t) => t.quiet()))).toEqual([])
  })

  it('is not covered by a signal, a barrier or a put with a signal before quiet', async () => {
    const told = (tell: (t: Program, places: Places) => void): Scenario =>
      two((t, places) => {
        t.putNbi(whole(places.a), whole(places.b.on(1)))
        tell(t, places)
        t.quiet()
      }, receive)
    const race = ['race: load, putNbi']
    expect(await found(told((t, { told: flag }) => t.signal(flag.on(1))))).toEqual(race)
    const barrier = told((t, { told: flag }) => {
      t.barrier()
      t.signal(flag.on(1))
    })
    expect(await found(barrier)).toEqual(race)
    const put = told((t, { a, told: flag }) => t.putSignal(a.at([1]), a.on(1).at([1]), flag.on(1)))
    expect(await found(put)).toEqual(race)
  })

  it('is complete when its role or its program ends, but not for another role before', async () => {
    const roles = (other: (t: Program, places: Places) => void) =>
      two(
        (t, places) => {
          t.roles({
            sender: () => {
              t.putNbi(whole(places.a), whole(places.b))
              t.barrier()
            },
            other: () => {
              t.barrier()
              other(t, places)
            },
          })
          t.store(places.a.at([0]), t.load(places.b.at([0])))
        },
        undefined,
        [0],
      )
    expect(await found(roles(() => undefined))).toEqual([])
    const race = ['race: load, putNbi']
    expect(await found(roles((t, { a, b }) => t.store(a.on(1).at([0]), t.load(b.at([0])))))).toEqual(race)
    // A `quiet` completes only the copies of the role that executes it.
    const quiet = roles((t, { a, b }) => {
      t.quiet()
      t.store(a.on(1).at([0]), t.load(b.at([0])))
    })
    expect(await found(quiet)).toEqual(race)
  })
})

describe('quiet({ reads: true })', () => {
  it('lets the source be written, but not the target be used', async () => {
    const after = (use: (t: Program, places: Places) => void): Scenario =>
      two((t, places) => {
        t.putNbi(whole(places.a), whole(places.b.on(1)))
        t.quiet({ reads: true })
        use(t, places)
        t.quiet()
      }, receive)
    const signalled = (before: (t: Program, places: Places) => void) =>
      after((t, places) => {
        before(t, places)
        t.signal(places.told.on(1))
      })
    expect(await found(signalled((t, { a }) => t.store(a.at([0]), 7)))).toEqual(['race: load, putNbi'])
    expect(await found(signalled((t) => t.quiet()))).toEqual([])
  })
})

describe('a get in flight', () => {
  it('must not be read before quiet', async () => {
    const get = (before: (t: Program) => void): Scenario =>
      two((t, { a, b }) => {
        t.getNbi(whole(a.on(1)), whole(b))
        before(t)
        t.store(a.at([0]), t.load(b.at([2])))
        t.quiet()
      })
    expect(await found(get(() => undefined))).toEqual(['race: getNbi, load'])
    expect(await found(get((t) => t.quiet()))).toEqual([])
  })
})

describe('putSignal', () => {
  it('has the findings of a put and a signal', async () => {
    const send = (how: (t: Program, places: Places) => void): Scenario => two(how, receive, [])
    const together = (scope?: 'device') =>
      send((t, { a, b, told }) => {
        t.store(b.on(1).at([0]), 5)
        t.putSignal(a.at([3]), b.on(1).at([3]), told.on(1), { scope })
      })
    const apart = (scope?: 'device') =>
      send((t, { a, b, told }) => {
        t.store(b.on(1).at([0]), 5)
        t.put(a.at([3]), b.on(1).at([3]))
        t.signal(told.on(1), scope && { scope })
      })
    expect(await found(together())).toEqual([])
    expect(await found(apart())).toEqual([])
    const kinds = async (subject: Scenario): Promise<string[]> =>
      (await found(subject)).map((one) => one.split(':')[0]).sort()
    expect(await kinds(together('device'))).toEqual(await kinds(apart('device')))
    expect(await kinds(together('device'))).toContain('scope-race')
  })

  it('does not cover what follows it', async () => {
    const late = two((t, { a, b, told }) => {
      t.putSignal(a.at([0]), b.on(1).at([0]), told.on(1))
      t.store(b.on(1).at([3]), 5)
    }, receive)
    expect(await found(late)).toEqual(['race: load, store'])
  })
})

it('copies that a program starts before a team with a pipeline are complete after a quiet in the team', async () => {
  const body = kernel('teamed', { x: tensor(i32, 2), y: tensor(i32, 2) }, (t, { x, y }) => {
    const [sent, tile] = [t.shared(i32, [4, 4]), t.shared(i32, [4, 4])]
    t.store(sent, t.full(i32, [4, 4], 7))
    t.copyAsync(sent, y.tile([0, 0], [4, 4]))
    t.teams({
      all: {
        programs: 'rest',
        body: () => {
          const sum = t.pipeline([2], t.full(i32, [4, 4], 0), ([k], all) => {
            t.copy(x.tile([k, 0], [4, 4]), tile)
            return all.add(t.load(tile))
          })
          t.quiet()
          t.store(y.tile([0, 0], [4, 4]), sum.add(t.load(y.tile([0, 0], [4, 4]))))
        },
      },
    })
  })
  const subject = scenario('teamed', { ranks: 1 }, async (world) => {
    const x = world.full(i32, [8, 4], 2)
    const y = world.zeros(i32, [4, 4])
    world.launch(body, { x, y }, { grid: 1 })
    return [...(await world.read(y, 0))]
  })
  for (const stage of ['recorded', 'lowered'] as const) {
    const { findings, results } = await explore(subject, { ranks: 1, stage, preemptions: 1 })
    expect(findings.map(formatFinding)).toEqual([])
    expect(results.map(({ value }) => value)).toEqual(results.map(() => new Array(16).fill(11)))
  }
})

// Generates random programs with asynchronous copies. Each agent executes straight-line code over a few cells of rank 0.

type Kind = 'write' | 'read' | 'put' | 'quiet' | 'quiet reads' | 'signal' | 'put signal' | 'wait'
interface Step {
  readonly agent: number
  readonly kind: Kind
  /** The cell (element of memory) that the step reads (as the source of a put) or writes. */
  readonly cell: number
  /** The target of a put. The target differs from the source. */
  readonly target: number
  readonly flag: number
}

const CELLS = 4
const AGENTS = 2
const kindsOf: readonly Kind[] = [
  ...(['write', 'read', 'put', 'put', 'put', 'quiet', 'quiet', 'quiet reads'] as const),
  ...(['signal', 'put signal', 'wait', 'wait'] as const),
]

const randomSteps: fc.Arbitrary<readonly Step[]> = fc
  .array(
    fc.tuple(
      fc.nat(AGENTS - 1),
      fc.constantFrom(...kindsOf),
      fc.nat(CELLS - 1),
      fc.integer({ min: 1, max: CELLS - 1 }),
    ),
    { minLength: 3, maxLength: 9 },
  )
  .map((draws) => {
    let signals = 0
    return draws.map(([agent, drawn, cell, by]): Step => {
      // In a random program, each flag has one signal, and a wait follows the signal of its flag, so that no agent blocks forever.
      const kind = drawn === 'wait' && signals === 0 ? 'read' : drawn
      const isSignal = kind === 'signal' || kind === 'put signal'
      const flag = isSignal ? signals++ : cell % Math.max(signals, 1)
      return { agent, kind, cell, target: (cell + by) % CELLS, flag }
    })
  })

/** A memory access or a synchronisation that a step performs. The read and the write of a put are two events. */
interface Event {
  readonly step: number
  readonly agent: number
  readonly cell?: number
  readonly writes?: boolean
}

/** True if program order, signals and waits, and the completion of copies by quiet leave two accesses unordered. */
function races(steps: readonly Step[]): boolean {
  const events: Event[] = []
  /** For each event, the events that directly precede it in happens-before. */
  const before: number[][] = []
  const last = Array.from({ length: AGENTS }, () => [] as number[])
  const pending = Array.from({ length: AGENTS }, () => ({ reads: [] as number[], writes: [] as number[] }))
  const signalled = new Map<number, number>()
  const add = (event: Event, preceding: readonly number[]): number => {
    before.push([...preceding])
    return events.push(event) - 1
  }
  steps.forEach(({ agent, kind, cell, target, flag }, step) => {
    const inOrder = (event: Omit<Event, 'step' | 'agent'>, also: readonly number[] = []): number => {
      const made = add({ step, agent, ...event }, [...last[agent], ...also])
      last[agent] = [made]
      return made
    }
    const { reads, writes } = pending[agent]
    if (kind === 'write') inOrder({ cell, writes: true })
    else if (kind === 'read') inOrder({ cell })
    else if (kind === 'put') {
      reads.push(add({ step, agent, cell }, last[agent]))
      writes.push(add({ step, agent, cell: target, writes: true }, last[agent]))
    } else if (kind === 'quiet') inOrder({}, [...reads.splice(0), ...writes.splice(0)])
    else if (kind === 'quiet reads') inOrder({}, reads.splice(0))
    else if (kind === 'wait') inOrder({}, [signalled.get(flag)!])
    else {
      if (kind === 'put signal') {
        inOrder({ cell })
        inOrder({ cell: target, writes: true })
      }
      signalled.set(flag, inOrder({}))
    }
  })
  const earlier = before.map(() => new Set<number>())
  before.forEach((direct, i) => {
    for (const one of direct) for (const all of [one, ...earlier[one]]) earlier[i].add(all)
  })
  return events.some((a, i) =>
    events.some(
      (b, j) =>
        i < j &&
        a.step !== b.step &&
        a.cell !== undefined &&
        a.cell === b.cell &&
        (a.writes || b.writes) &&
        !earlier[j].has(i),
    ),
  )
}

/** The contents of the cells after the steps have run in the generated order, which is one possible schedule. */
function finals(steps: readonly Step[]): number[] {
  const cells = Array.from({ length: CELLS }, () => 0)
  steps.forEach(({ kind, cell, target }, i) => {
    if (kind === 'write') cells[cell] = i + 1
    if (kind === 'put' || kind === 'put signal') cells[target] = cells[cell]
  })
  return cells
}

function asScenario(steps: readonly Step[]): Scenario {
  const body = kernel(
    'random',
    { cells: tensor(i32, 1), sink: tensor(i32, 1), set: flags(1) },
    (t, { cells, sink, set }) => {
      const at = (cell: number) => cells.on(0).at([cell])
      const flagOf = (flag: number) => set.on(0).at([flag])
      const act: Readonly<Record<Kind, (step: Step, i: number) => void>> = {
        write: ({ cell }, i) => t.store(at(cell), i + 1),
        read: ({ cell }, i) => t.store(sink.at([i]), t.load(at(cell))),
        put: ({ cell, target }) => t.putNbi(at(cell), at(target)),
        quiet: () => t.quiet(),
        'quiet reads': () => t.quiet({ reads: true }),
        signal: ({ flag }) => t.signal(flagOf(flag)),
        'put signal': ({ cell, target, flag }) => t.putSignal(at(cell), at(target), flagOf(flag)),
        wait: ({ flag }) => t.wait(flagOf(flag)),
      }
      for (let agent = 0; agent < AGENTS; agent++)
        t.if(t.rank.eq(agent), () =>
          steps.forEach((step, i) => step.agent === agent && act[step.kind](step, i)),
        )
    },
  )
  return scenario('random', { ranks: AGENTS }, async (world) => {
    const cells = world.zeros(i32, [CELLS], { name: 'cells' })
    const sink = world.empty(i32, [steps.length], { name: 'sink' })
    world.launch(body, { cells, sink, set: world.flags([steps.length]) }, { grid: 1 })
    return [...(await world.read(cells, 0))]
  })
}

it('random programs race exactly if two accesses are unordered, and give the right results otherwise', async () => {
  const seen = { race: 0, clean: 0 }
  await fc.assert(
    fc.asyncProperty(randomSteps, async (steps) => {
      const subject = asScenario(steps)
      const random = await explore(subject, { ranks: AGENTS, schedules: 3, seed: 5, keepGoing: true })
      const all = await explore(subject, { ranks: AGENTS, preemptions: 0, keepGoing: true, limit: 500 })
      const findings = [...random.findings, ...all.findings]
      expect([...new Set(findings.map(({ kind }) => kind))], findings.map(formatFinding).join('\n')).toEqual(
        races(steps) ? ['race'] : [],
      )
      if (races(steps)) return void seen.race++
      seen.clean++
      for (const { value } of random.results) expect(value).toEqual(finals(steps))
    }),
    { numRuns: 250, seed: 26 },
  )
  expect(Math.min(seen.race, seen.clean)).toBeGreaterThan(40)
})
