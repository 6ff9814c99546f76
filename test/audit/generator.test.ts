/**
 * Tests the trace generator itself: its jobs are possible and complete, and can be written in every schema of traces.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { demoTraces, demoTruth, RANKS, STRAGGLER } from '../../src/audit/demo/demo.ts'
import type { Laid, LaidEvent } from '../../src/audit/demo/laid.ts'
import { layOut } from '../../src/audit/demo/layout.ts'
import { truthOf } from '../../src/audit/demo/truth.ts'
import { dispatch, gap, kernel } from '../../src/audit/demo/workload.ts'
import { kinetoText, kinetoTextOf, schemas } from '../../src/audit/demo/write.ts'
import { readKinetoFile } from '../../src/audit/kineto.ts'
import { Kind, NONE } from '../../src/timeline/timeline.ts'
import { jobs } from './jobs.ts'

const deviceRoles: readonly LaidEvent['role'][] = ['kernel', 'copy', 'fill']
const callRoles: readonly LaidEvent['role'][] = ['launch', 'copyCall', 'fillCall', 'graphLaunch', 'call']
const isDevice = ({ role }: LaidEvent): boolean => deviceRoles.includes(role)
const end = ({ start, duration }: LaidEvent): number => start + duration

const tracks = (events: readonly LaidEvent[]): LaidEvent[][] =>
  [...new Set(events.map(({ track }) => track))].map((track) =>
    events.filter((one) => one.track === track).sort((a, b) => a.start - b.start || end(b) - end(a)),
  )

describe('a laid-out job', () => {
  const property = (name: string, check: (laid: Laid) => void): void =>
    it(name, () => {
      fc.assert(
        fc.property(jobs({ subgroups: true }), (job) => check(layOut(job))),
        { seed: 11, numRuns: 100 },
      )
    })

  property('has no two works at once on a stream', ({ ranks }) => {
    for (const { events } of ranks)
      for (const stream of tracks(events.filter(isDevice)))
        stream.slice(1).forEach((one, i) => expect(one.start).toBeGreaterThanOrEqual(end(stream[i])))
  })

  property('has calls that nest in operators, and operators in nothing but the step', ({ ranks }) => {
    for (const { events } of ranks) {
      const host = events.filter(({ role }) => role === 'operator' || callRoles.includes(role))
      for (const thread of tracks(host)) {
        const open: LaidEvent[] = []
        for (const one of thread) {
          while (open.length > 0 && end(open[open.length - 1]) <= one.start) open.pop()
          if (open.length > 0) {
            expect(open[open.length - 1].role).toBe('operator')
            expect(end(one)).toBeLessThanOrEqual(end(open[open.length - 1]))
          }
          open.push(one)
        }
      }
    }
  })

  property('has no work that starts before its launch has begun', ({ ranks }) => {
    for (const { events } of ranks) {
      const launches = new Map(
        events.filter(({ role }) => callRoles.includes(role)).map((one) => [one.correlation, one]),
      )
      for (const one of events.filter(isDevice)) {
        const launch = launches.get(one.correlation)
        expect(launch?.start).toBeLessThan(one.start)
      }
    }
  })

  property('has spans without a hole, of which the parts add up to wall, over all and in steps', (laid) => {
    const { ranks } = truthOf(laid)
    for (const { rank, spans } of laid.ranks) {
      spans.slice(1).forEach((span, i) => expect(span.from).toBe(spans[i].to))
      const { wall, parts, busy, idle, steps, from, to } = ranks[rank]
      const device = laid.ranks[rank].events.filter(isDevice)
      expect([from, to]).toEqual([
        Math.min(...device.map(({ start }) => start)),
        Math.max(...device.map((one) => end(one))),
      ])
      expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBe(wall)
      expect(wall).toBe(to - from)
      expect(busy + idle).toBe(wall)
      expect(steps.reduce((sum, step) => sum + step.wall, 0)).toBe(wall)
    }
  })

  property('has collectives that all ranks leave at once', (laid) => {
    laid.collectives.forEach(({ starts, end: left, work, group }, number) => {
      expect(left).toBe(Math.max(...starts) + work.transfer)
      group.ranks.forEach((rank, i) => {
        const [event] = laid.ranks[rank].events.filter(({ collective }) => collective === number)
        expect([event.start, end(event)]).toEqual([starts[i], left])
      })
    })
  })

  it('refuses impossible descriptions', () => {
    const job = (...phases: Parameters<typeof layOut>[0]['steps'][0]) =>
      layOut({ ranks: 1, groups: [], steps: [phases] })
    expect(() => job(kernel('k', 100))).toThrow('a step must begin with an idle phase')
    expect(() => job(dispatch(50), kernel('k', 2), kernel('l', 100))).toThrow('not enough time to launch')
    expect(() => job(dispatch(50), kernel('k', 100), gap(5))).toThrow('ends in an idle phase')
    expect(() => job(dispatch(50), kernel('k', 100), gap(5), gap(5), kernel('k', 9))).toThrow(
      'at most one idle interval',
    )
  })

  it('matches its description', () => {
    const laid = layOut({
      ranks: 2,
      groups: [{ name: '0', description: 'default_pg', ranks: [0, 1] }],
      steps: [
        [
          dispatch(100),
          kernel('a', [1000, 1600]),
          gap(7),
          kernel('b', 300),
          {
            phase: 'idle',
            host: [
              ['synchronize', 40],
              ['absent', 50],
              ['operator', 60],
            ],
            device: ['gap', 5],
          },
          { phase: 'work', work: { kind: 'collective', collective: 'allReduce', group: 0, transfer: 500 } },
        ],
      ],
    })
    const { ranks, collectives, keptWaiting } = truthOf(laid)
    const common = { gap: 12, hostBlocked: 40, hostAbsent: 50, dispatch: 60, transfer: 500 }
    expect(ranks[0].parts).toMatchObject({ ...common, compute: 1300, wait: 600 })
    expect(ranks[1].parts).toMatchObject({ ...common, compute: 1900, wait: 0 })
    expect(collectives[0].lastRank).toBe(1)
    expect(keptWaiting, 'nobody is charged with the first collective').toEqual([
      [0, 0],
      [0, 0],
    ])
    expect(truthOf(laid, [0]).ranks[0].parts).toMatchObject({ communication: 1100, wait: 0, transfer: 0 })
  })
})

describe('a written job', () => {
  it.each(schemas)('in the schema %s is read back completely', async (schema) => {
    await fc.assert(
      fc.asyncProperty(jobs({ unit: 1000, maxRanks: 3 }), fc.nat(2), async (job, python) => {
        const laid = layOut(job)
        for (const { rank, events } of laid.ranks) {
          const text = kinetoTextOf(laid, rank, { schema, python })
          const { traceEvents } = JSON.parse(text) as { traceEvents: { cat: string; dur: number }[] }
          const frames = traceEvents.filter(({ cat, dur }) => cat === 'python_function' && dur >= 500)
          const operators = events.filter(({ role }) => role === 'operator')
          expect(traceEvents).toHaveLength(events.length + python * operators.length)

          const file = await readKinetoFile(Buffer.from(text), { name: `rank${rank}.json` })
          expect(file.warnings.map((one) => one.class)).toEqual(python > 0 ? ['stacks'] : [])
          const [{ events: found, rank: number, tracks: kept }] = file.timeline.ranks
          expect(number).toBe(rank)
          expect(found.length).toBe(events.length + frames.length)
          const device = events.filter(isDevice)
          const launches = new Map(
            events.filter(({ role }) => callRoles.includes(role)).map((one) => [one.correlation, one]),
          )
          const first = Math.min(...events.map(({ start }) => start))
          const seen = kept
            .filter(({ role }) => role === 'stream')
            .flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i))
            .filter((event) => found.kind[event] <= Kind.communication)
            .sort((a, b) => found.start[a] - found.start[b] || found.duration[a] - found.duration[b])
          const zero = Math.min(...found.start)
          expect(seen.map((i) => [found.start[i] - zero, found.duration[i]])).toEqual(
            device
              .map(({ start, duration }) => [start - first, duration])
              .sort(([a, b], [c, d]) => a - c || b - d),
          )
          for (const event of seen) {
            expect(found.launch[event]).not.toBe(NONE)
            expect(found.kind[found.operator[event]]).toBe(Kind.operator)
            const launch = [...launches.values()].find(
              ({ start }) => start - first === found.start[found.launch[event]] - zero,
            )
            expect(launch).toBeDefined()
          }
          expect(seen.filter((i) => found.kind[i] === Kind.communication)).toHaveLength(
            device.filter(({ collective }) => collective !== undefined).length,
          )
          expect(found.kind.filter((kind) => kind === Kind.step)).toHaveLength(job.steps.length)
        }
      }),
      { seed: 5, numRuns: 40 },
    )
  })

  it('can be repeated, with new ids in each repetition', async () => {
    const laid = layOut({
      ranks: 1,
      groups: [],
      steps: [[dispatch(5000), kernel('a', 4000), gap(300), kernel('b', 900)]],
    })
    const text = [...kinetoText(laid, 0, { repeat: 50 })].join('')
    const file = await readKinetoFile(Buffer.from(text))
    expect(file.warnings).toEqual([])
    const [{ events }] = file.timeline.ranks
    expect(events.kind.filter((kind) => kind === Kind.kernel)).toHaveLength(100)
    expect(events.kind.filter((kind) => kind === Kind.step)).toHaveLength(50)
  })
})

describe('the demo', () => {
  const traces = demoTraces()

  it('is 8 ranks of a few hundred kilobytes, the same each time', () => {
    expect(traces.map(({ rank, name }) => [rank, name])).toEqual(
      Array.from({ length: RANKS }, (_, rank) => [rank, `rank${rank}.json`]),
    )
    for (const { text } of traces) expect(text.length).toBeLessThan(1 << 20)
    expect(demoTraces()).toEqual(traces)
  })

  it('has one straggler, for whom the others wait ten times as long as for anyone else', () => {
    const { keptWaiting } = demoTruth()
    const totals = keptWaiting.map((by) => by.reduce((sum, wait) => sum + wait, 0))
    totals.forEach((total, rank) => {
      if (rank !== STRAGGLER) expect(totals[STRAGGLER]).toBeGreaterThan(10 * total)
    })
  })

  it('is read without a warning', async () => {
    for (const { rank, name, text } of traces) {
      const file = await readKinetoFile(Buffer.from(text), { name })
      expect(file.warnings).toEqual([])
      expect(file.timeline.ranks.map((one) => one.rank)).toEqual([rank])
    }
  })
})
