/** Generates random timelines, with links only where the model allows them. */
import fc from 'fast-check'
import { RankBuilder, TimelineBuilder } from '../../src/timeline/builder.ts'
import {
  type Communication,
  Kind,
  NONE,
  sequenceOf,
  type Timeline,
  type Track,
} from '../../src/timeline/timeline.ts'

const text = fc.oneof(fc.string({ maxLength: 8 }), fc.constantFrom('aten::mm', 'odd "name" \\ é\n', ''))
const orNull = <T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(values, { nil: null })
const label = text.filter((one) => one !== '')
const count = fc.nat({ max: 2 ** 40 })

const communication: fc.Arbitrary<Communication> = fc.record({
  collective: orNull(fc.constantFrom('allReduce', 'sendRecv')),
  library: orNull(label),
  group: orNull(label),
  groupDescription: orNull(label),
  groupRanks: orNull(fc.array(fc.nat(1000), { maxLength: 4 })),
  groupSize: orNull(count),
  communicator: orNull(label),
  dtype: orNull(label),
  elementsIn: orNull(count),
  elementsOut: orNull(count),
  source: orNull(count),
  destination: orNull(count),
})
const operands = fc
  .array(fc.tuple(fc.array(fc.nat(5000), { maxLength: 3 }), text), { maxLength: 3 })
  .map((pairs) => ({ shapes: pairs.map(([shape]) => shape), types: pairs.map(([, type]) => type) }))
const track = fc.record({
  role: fc.constantFrom<Track['role']>('stream', 'thread', 'annotations', 'worker'),
  owner: fc.integer({ min: -1, max: 9 }),
  id: fc.integer({ min: -1, max: 2 ** 33 }),
})
const event = fc.record({
  kind: fc.integer({ min: 0, max: Kind.step }).map((kind) => kind as Kind),
  track: fc.nat(),
  name: text,
  start: fc.oneof(fc.integer({ min: -5000, max: 5000 }), fc.integer({ min: 0, max: 2 ** 50 - 5000 })),
  duration: fc.oneof(fc.nat(5000), fc.nat({ max: 2 ** 50 })),
  bytes: fc.oneof(fc.constant(0), count),
  target: fc.nat(),
  communication: fc.option(fc.nat(), { nil: NONE }),
  sequence: fc.option(fc.nat({ max: 2 ** 31 - 1 }), { nil: NONE }),
  operands: fc.option(fc.nat(), { nil: NONE }),
  traffic: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    fc.array(fc.record({ tensor: fc.nat(9), name: text, size: count, written: count, read: count }), {
      maxLength: 3,
    }),
  ),
})
const rank = fc.record({
  base: fc.bigInt({ min: -(2n ** 50n), max: 2n ** 61n }),
  device: orNull(text),
  tracks: fc.uniqueArray(track, {
    minLength: 1,
    maxLength: 4,
    selector: ({ role, owner, id }) => `${role} ${owner} ${id}`,
  }),
  communications: fc.array(communication, { maxLength: 3 }),
  operands: fc.array(operands, { maxLength: 3 }),
  events: fc.array(event, { maxLength: 30 }),
})

export const timelines: fc.Arbitrary<Timeline> = fc
  .uniqueArray(fc.tuple(fc.nat(5000), rank), { maxLength: 3, selector: ([number]) => number })
  .map((ranks) => {
    const builder = new TimelineBuilder()
    for (const [number, drawn] of ranks) fill(builder.rank(number), drawn, builder)
    return builder.freeze()
  })

type Drawn = typeof rank extends fc.Arbitrary<infer T> ? T : never

function fill(rank: RankBuilder, drawn: Drawn, builder: TimelineBuilder): void {
  rank.base = drawn.base
  rank.device = drawn.device
  const tracks = drawn.tracks.map(({ role, owner, id }) => rank.track(role, owner, id))
  const communications = drawn.communications.map((one) => rank.communication(one))
  const records = drawn.operands.map((one) => rank.addOperands(one))
  const pick = <T>(list: readonly T[], at: number): T | undefined =>
    at < 0 || list.length === 0 ? undefined : list[at % list.length]
  for (const one of drawn.events) {
    const added = rank.add(
      one.kind,
      tracks[one.track % tracks.length],
      builder.intern(one.name),
      one.start,
      one.duration,
    )
    rank.setBytes(added, one.bytes)
    rank.setCommunication(added, pick(communications, one.communication) ?? NONE, one.sequence)
    rank.setOperands(added, pick(records, one.operands) ?? NONE)
    rank.setTraffic(added, one.traffic)
  }
  const those = (wanted: (kind: Kind) => boolean): number[] =>
    drawn.events.flatMap(({ kind }, i) => (wanted(kind) ? [i] : []))
  const calls = those((kind) => kind >= Kind.launch && kind <= Kind.runtime)
  const operators = those((kind) => kind === Kind.operator)
  drawn.events.forEach(({ kind, target }, i) => {
    if (kind < Kind.launch) rank.linkLaunch(i, pick(calls, target % 2 === 0 ? target : NONE) ?? NONE)
    if (kind < Kind.operator) rank.linkOperator(i, pick(operators, target % 3 === 0 ? target : NONE) ?? NONE)
  })
}

/** The complete contents of a timeline, in a form that does not depend on the numbering of names and records. */
export const contents = ({ ranks, names }: Timeline) =>
  ranks.map(
    ({ rank: number, base, device, deviceSpan, tracks, events, communications, operands: records }) => ({
      number,
      base,
      device,
      deviceSpan,
      tracks,
      events: Array.from({ length: events.length }, (_, i) => ({
        start: events.start[i],
        duration: events.duration[i],
        bytes: events.bytes.get(i) ?? 0,
        kind: events.kind[i],
        name: names[events.name[i]],
        track: events.track[i],
        launch: events.launch[i],
        operator: events.operator[i],
        communication: events.communication[i] === NONE ? null : communications[events.communication[i]],
        sequence: sequenceOf(events, i),
        operands: events.operands[i] === NONE ? null : records[events.operands[i]],
        traffic: events.traffic.get(i) ?? [],
      })),
    }),
  )
