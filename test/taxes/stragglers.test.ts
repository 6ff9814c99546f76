/**
 * Tests stragglers: all waiting time is charged to a rank, and the reported activity of a straggler equals the
 * simulated activity.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Unblamed } from '../../src/taxes/collectiveTable.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { stragglersOf } from '../../src/taxes/stragglers.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, NONE } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { type Call, jobOf, type JobOptions, record } from './job.ts'
import { partitionWith } from './work.ts'

const jobs = fc.record({
  seed: fc.nat(),
  ranks: fc.integer({ min: 2, max: 8 }),
  layouts: fc.constantFrom<JobOptions['layouts'][]>(
    ['world'],
    ['pairs', 'strides'],
    ['world', 'pairs', 'strides'],
  ),
  rounds: fc.integer({ min: 12, max: 25 }),
})

type Span = readonly [from: number, to: number]

/** The total overlap of two lists of time spans, each instant counted once, by comparing all pairs. */
function overlap(spans: readonly Span[], windows: readonly Span[]): number {
  const merged: [number, number][] = []
  for (const [from, to] of [...windows].sort((a, b) => a[0] - b[0])) {
    const last = merged[merged.length - 1]
    if (last && from <= last[1]) last[1] = Math.max(last[1], to)
    else merged.push([from, to])
  }
  let sum = 0
  for (const [from, to] of spans)
    for (const [start, stop] of merged) sum += Math.max(0, Math.min(to, stop) - Math.max(from, start))
  return sum
}

const lastOf = ({ parts }: Call): Call['parts'][number] =>
  parts.reduce((latest, part) => (part.arrival > latest.arrival ? part : latest))

/**
 * The calls for which one rank is to blame: earlier calls connect all ranks of the call, and one rank arrived last
 * without a tie.
 */
function blamed(calls: readonly Call[], residuals: readonly (number | null)[]): Call[] {
  const first = (call: Call): number => Math.min(...call.parts.map(({ arrival }) => arrival))
  let sets = residuals.map((_, rank) => [rank])
  return [...calls]
    .sort((a, b) => first(a) - first(b))
    .filter(({ parts }) => {
      const met = sets.filter((set) => parts.some(({ rank }) => set.includes(rank)))
      sets = [...sets.filter((set) => !met.includes(set)), met.flat()]
      const [one, other] = [...parts].sort((a, b) => b.arrival - a.arrival)
      const residual = Math.max(residuals[one.rank] ?? 0, residuals[other.rank] ?? 0)
      return met.length === 1 && one.arrival - other.arrival > residual
    })
}

/** The simulated activity of the rank while others waited for it, on the exact clock. */
function plantedMeanwhile(
  calls: readonly Call[],
  charged: readonly Call[],
  rank: number,
): Map<string, number> {
  const windows: Span[] = []
  const did = new Map<string, Span[]>()
  const add = (what: string, from: number, to: number): void => {
    if (to > from) did.set(what, [...(did.get(what) ?? []), [from, to]])
  }
  for (const call of calls) {
    const own = call.parts.find((part) => part.rank === rank)
    if (!own) continue
    const last = lastOf(call)
    add(`compute ${own.kernel}`, own.computeFrom, own.arrival)
    add(`waiting rank ${last.rank}`, own.arrival, last.arrival)
    add(`collective ${call.kind} of group ${call.layout} group`, last.arrival, own.end)
    if (last !== own || !charged.includes(call)) continue
    const first = Math.min(...call.parts.filter((part) => part !== own).map(({ arrival }) => arrival))
    windows.push([first, own.arrival])
  }
  const sums = [...did].map(([what, spans]) => [what, overlap(spans, windows)] as const)
  return new Map(sums.filter(([, time]) => time > 0))
}

describe('stragglers', () => {
  it('are charged with all waiting for which somebody is to blame, and their activity during that time is reported', () => {
    fc.assert(
      fc.property(jobs, fc.bigInt(-50n, 50n), (options, apart) => {
        const calls = jobOf(options)
        const { timeline } = record(calls, options.ranks, {
          metadata: 'ranks',
          offset: (rank) => BigInt(rank) * apart * 1_000_000n,
        })
        const { collectives, clocks } = collectivesOf(timeline, new Warnings())
        const stragglers = stragglersOf(timeline, collectives, clocks, [])

        const charged = blamed(
          calls,
          clocks.map(({ residual }) => residual),
        )
        const waits = charged.flatMap((call) =>
          call.parts.map(({ arrival }) => lastOf(call).arrival - arrival),
        )
        const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0)
        expect(sum(stragglers.map(({ keptWaiting }) => keptWaiting))).toBe(sum(waits))
        for (const one of stragglers) {
          const { rank, keptWaiting, exposed, late, waiters, worst, collectives: count, meanwhile } = one
          const own = charged.filter((call) => lastOf(call).rank === rank)
          const lateness = own.map((call) => {
            const [one, other] = call.parts.map(({ arrival }) => arrival).sort((a, b) => b - a)
            return one - other
          })
          expect(count).toBe(own.length)
          expect(late).toBe(sum(lateness))
          expect(sum(waiters.map(({ wait }) => wait))).toBe(keptWaiting)
          expect(exposed, 'nothing is known to hide it').toBe(keptWaiting)
          const kept = own.map((call) => sum(call.parts.map(({ arrival }) => lastOf(call).arrival - arrival)))
          expect(worst.map((one) => one.keptWaiting)).toEqual(kept.sort((a, b) => b - a).slice(0, 10))
          const found = meanwhile.filter(({ what }) => what !== 'unattributed')
          expect(new Map(found.map(({ what, name, time }) => [`${what} ${name}`, time]))).toEqual(
            plantedMeanwhile(calls, charged, rank),
          )
          expect(meanwhile.map(({ time }) => time)).toEqual(
            meanwhile.map(({ time }) => time).sort((a, b) => b - a),
          )
        }
      }),
      { seed: 1, numRuns: 60 },
    )
  })

  it('are charged with the waiting in the windows of the waiting ranks, and sorted by exposed time', () => {
    const window = fc.tuple(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
    )
    fc.assert(
      fc.property(
        jobs,
        fc.array(window, { minLength: 8, maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 900_000 }), { minLength: 2, maxLength: 40 }),
        (options, cut, lengths) => {
          const { timeline } = record(jobOf(options), options.ranks, { metadata: 'ranks' })
          const { collectives, clocks } = collectivesOf(timeline, new Warnings())
          const partitions = timeline.ranks.map(({ deviceSpan }, rank) => {
            const [first, last] = deviceSpan ?? [0, 0]
            const at = (share: number): number => Math.round(first + share * (last - first))
            const [from, to] = cut[rank].map(at).sort((a, b) => a - b)
            // Exposed and hidden intervals alternate.
            const edges = [from]
            for (const length of lengths) edges.push(Math.min(to, edges[edges.length - 1] + length))
            const wait = edges.slice(0, edges.length & ~1).filter((_, i, all) => all[i | 1] > all[i & ~1])
            return partitionWith(from, to, { wait })
          })
          const stragglers = stragglersOf(timeline, collectives, clocks, partitions)

          const kept = timeline.ranks.map(() => timeline.ranks.map(() => [0, 0]))
          for (const [i, { last, members }] of [...collectives].entries())
            for (const { rank, event, wait } of members) {
              if (collectives.unblamed[i] !== Unblamed.no) continue
              const { from, to, processors } = partitions[rank]
              const [{ parts }] = processors
              const start = timeline.ranks[rank].events.start[event]
              const spans: Span[] = [[start, start + (wait ?? 0)]]
              kept[last ?? rank][rank][0] += overlap(spans, [[from, to]])
              for (let i = 0; i < parts.wait.length; i += 2)
                kept[last ?? rank][rank][1] += overlap(spans, [[parts.wait[i], parts.wait[i + 1]]])
            }
          const found = timeline.ranks.map(() => timeline.ranks.map(() => [0, 0]))
          for (const { rank, waiters, keptWaiting, exposed } of stragglers) {
            for (const { rank: waiter, wait, exposed: own } of waiters) found[rank][waiter] = [wait, own]
            const sum = (of: 0 | 1): number => found[rank].reduce((all, times) => all + times[of], 0)
            expect([keptWaiting, exposed]).toEqual([sum(0), sum(1)])
          }
          expect(found).toEqual(kept)
          expect(stragglers.map(({ exposed }) => exposed)).toEqual(
            stragglers.map(({ exposed }) => exposed).sort((a, b) => b - a),
          )
        },
      ),
      { seed: 2, numRuns: 60 },
    )
  })

  it('report the host activity during device idle time, the copies, and the operators of kernels', () => {
    const builder = new TimelineBuilder()
    const call = {
      collective: 'allReduce',
      library: 'nccl',
      group: 'dp',
      groupDescription: null,
      groupRanks: [0, 1],
      groupSize: 2,
      communicator: null,
      dtype: null,
      elementsIn: null,
      elementsOut: null,
      source: null,
      destination: null,
    }
    for (const number of [0, 1]) {
      const rank = builder.rank(number)
      const stream = rank.track('stream', 0, 1)
      const thread = rank.track('thread', 9, 9)
      rank.add(Kind.operator, thread, builder.intern('step'), 0, 100_000)
      if (number === 1) {
        const operator = rank.add(Kind.operator, thread, builder.intern('aten::mm'), 500, 100)
        const gemm = rank.add(Kind.kernel, stream, builder.intern('gemm'), 5_000, 30_000)
        rank.linkOperator(gemm, operator)
        // The kernel `norm` overlaps the kernel `gemm`; only the time of `norm` after the end of `gemm` counts.
        rank.add(Kind.kernel, rank.track('stream', 0, 4), builder.intern('norm'), 30_000, 8_000)
        // The kernels hide the copy, except for its end.
        const copies = rank.track('stream', 0, 3)
        rank.add(Kind.memcpy, copies, builder.intern('Memcpy DtoH'), 20_000, 22_000)
      }
      // No rank is charged with the waiting at the first collective.
      const before = rank.add(
        Kind.communication,
        rank.track('stream', 0, 2),
        builder.intern('ncclDevKernel'),
        1_000,
        1_000,
      )
      rank.setCommunication(before, rank.communication(call), NONE)
      const arrival = number === 0 ? 10_000 : 60_000
      const event = rank.add(
        Kind.communication,
        rank.track('stream', 0, 2),
        builder.intern('ncclDevKernel'),
        arrival,
        80_000 - arrival,
      )
      rank.setCommunication(event, rank.communication(call), NONE)
    }
    const timeline = builder.freeze()
    const partition = partitionWith(0, 80_000, {
      hostBlocked: [42_000, 48_000],
      dispatch: [0, 5_000, 48_000, 59_000],
      wait: [0, 12_000, 50_000, 70_000],
    })
    const { collectives, clocks } = collectivesOf(timeline, new Warnings())
    expect(stragglersOf(timeline, collectives, clocks, [partition, partition])).toEqual([
      {
        rank: 1,
        keptWaiting: 50_000,
        exposed: 12_000,
        late: 50_000,
        collectives: 1,
        waiters: [{ rank: 0, wait: 50_000, exposed: 12_000 }],
        windows: Float64Array.of(10_000, 60_000),
        worst: [{ collective: 1, keptWaiting: 50_000, late: 50_000 }],
        meanwhile: [
          { what: 'compute', name: 'gemm', operator: 'aten::mm', time: 25_000 },
          { what: 'dispatch', name: null, operator: null, time: 11_000 },
          { what: 'hostBlocked', name: null, operator: null, time: 6_000 },
          { what: 'copy', name: 'Memcpy DtoH', operator: null, time: 4_000 },
          { what: 'compute', name: 'norm', operator: null, time: 3_000 },
          { what: 'unattributed', name: null, operator: null, time: 1_000 },
        ],
      },
    ])
  })

  it('are none without collectives', () => {
    const { timeline } = record([], 3, { metadata: 'ranks' })
    const { collectives, clocks } = collectivesOf(timeline, new Warnings())
    expect(stragglersOf(timeline, collectives, clocks, [])).toEqual([])
  })
})
