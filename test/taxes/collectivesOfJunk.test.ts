/**
 * For random, inconsistent traces: nothing throws, every call is in exactly one collective, and the invariants hold.
 */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Unblamed } from '../../src/taxes/collectiveTable.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { stragglersOf } from '../../src/taxes/stragglers.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { type Communication, Kind, NONE } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'

const orNull = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary, { freq: 2 })
const small = fc.integer({ min: -1, max: 4 })
const communications: fc.Arbitrary<Communication> = fc.record({
  collective: orNull(fc.constantFrom('allReduce', 'broadcast', 'sendRecv', 'allToAll')),
  library: fc.constant(null),
  group: orNull(fc.constantFrom('', 'tp', 'dp')),
  groupDescription: orNull(fc.constantFrom('x')),
  groupRanks: orNull(fc.array(small, { maxLength: 4 })),
  groupSize: orNull(small),
  communicator: orNull(fc.constantFrom('a', 'b')),
  dtype: fc.constant(null),
  elementsIn: orNull(small),
  elementsOut: fc.constant(null),
  source: orNull(small),
  destination: orNull(small),
})
const events = fc.array(
  fc.record({
    kind: fc.constantFrom(Kind.communication, Kind.communication, Kind.kernel, Kind.memcpy),
    stream: fc.integer({ min: 1, max: 3 }),
    start: fc.integer({ min: -1000, max: 1_000_000 }),
    duration: fc.oneof(fc.constant(0), fc.nat(200_000)),
    communication: orNull(communications),
    sequence: fc.oneof(fc.constant(NONE), fc.nat(3)),
  }),
  { maxLength: 40 },
)
const ranks = fc.array(
  fc.record({ events, base: fc.oneof(fc.constant(0n), fc.bigInt(-(10n ** 20n), 10n ** 20n)) }),
  { maxLength: 5 },
)

it('collectives and stragglers of junk', () => {
  fc.assert(
    fc.property(ranks, fc.boolean(), (drawn, odd) => {
      const builder = new TimelineBuilder()
      drawn.forEach(({ events, base }, index) => {
        const rank = builder.rank(odd ? 2 * index + 1 : index)
        rank.base = base
        for (const { kind, stream, start, duration, communication, sequence } of events) {
          const track = rank.track('stream', 0, stream)
          const event = rank.add(kind, track, builder.intern(`kernel ${duration % 3}`), start, duration)
          if (kind === Kind.communication && communication !== null)
            rank.setCommunication(event, rank.communication(communication), sequence)
        }
      })
      const timeline = builder.freeze()
      const { collectives, clocks } = collectivesOf(timeline, new Warnings())
      expect(clocks).toHaveLength(timeline.ranks.length)
      for (const { offset, drift } of clocks)
        expect(Number.isFinite(offset) && Number.isFinite(drift)).toBe(true)

      const seen = new Set<string>()
      let waits = 0
      for (const [i, { members, last, endSkew }] of [...collectives].entries()) {
        expect(endSkew).toBeGreaterThanOrEqual(0)
        members.forEach(({ rank, event, wait, transfer }, k) => {
          if (k > 0) expect(rank).toBeGreaterThan(members[k - 1].rank)
          expect(seen.has(`${rank} ${event}`)).toBe(false)
          seen.add(`${rank} ${event}`)
          if (wait === null || transfer === null) return
          expect(wait + transfer).toBe(timeline.ranks[rank].events.duration[event])
          if (rank === last) expect(wait).toBe(0)
          // If nobody is to blame, no rank is charged with the waiting.
          if (collectives.unblamed[i] === Unblamed.no) waits += wait
        })
      }
      const calls = drawn.flatMap((rank) => rank.events.filter(({ kind }) => kind === Kind.communication))
      expect(seen.size).toBe(calls.length)
      const stragglers = stragglersOf(timeline, collectives, clocks, [])
      expect(stragglers.reduce((sum, { keptWaiting }) => sum + keptWaiting, 0)).toBe(waits)
    }),
    { seed: 1, numRuns: 500 },
  )
})
