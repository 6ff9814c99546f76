/**
 * Reads Chrome traces that Arke itself wrote (src/timeline/chrome.ts), from its own runs or from an audit, and rebuilds
 * the timeline they were written from. Damaged events are left out and reported in the warnings. If an event is
 * damaged, the links between all other events are kept.
 */
import { RankBuilder, TimelineBuilder } from '../timeline/builder.ts'
import { categories, CHROME_VERSION, COMMUNICATION_EVENT, isRole } from '../timeline/chrome.ts'
import type { ChromeRank } from '../timeline/chrome.ts'
import { Identifiers } from './identifiers.ts'
import {
  calledEvent,
  type Communication,
  isInReach,
  Kind,
  NONE,
  type RankTimeline,
  type TensorBytes,
} from '../timeline/timeline.ts'
import { Warnings } from '../timeline/warnings.ts'
import { IntegerMap } from './integerMap.ts'
import type { TraceEvent } from './json/event.ts'
import { NumberField, TextField } from './json/fields.ts'
import { TraceScanner } from './json/scanner.ts'
import { readBytes } from './json/source.ts'
import type { ByteStrings } from './json/strings.ts'
import { OperandRecords } from './operands.ts'
import { isCall } from './operators.ts'
import type { TraceFile, TraceFileOptions, TraceInput } from './traceFile.ts'

const kinds = new Map(categories.map((category, kind) => [category, kind as Kind]))

export async function readArkeTrace(source: TraceInput, options: TraceFileOptions = {}): Promise<TraceFile> {
  const warnings = new Warnings()
  const builder = new TimelineBuilder()
  const documents: ArkeDocument[] = []
  const scanner: TraceScanner = new TraceScanner(
    {
      phases: 'XM',
      accept: (phase, category) => phase === 'M' || (phase === 'X' && kinds.has(category)),
      event: (event) => {
        const document = (documents[event.document] ??= new ArkeDocument(
          scanner.documents[event.document].arke,
          builder,
          scanner.strings,
          warnings,
        ))
        document.add(event)
      },
    },
    warnings,
  )
  const bytes = await readBytes(source, (piece) => scanner.push(piece), warnings, options)
  scanner.end()
  const timelines = documents.flatMap((document) => document.finish())
  const { names } = builder.freeze()
  return {
    format: 'arke',
    bytes,
    names,
    ranks: timelines.map((timeline) => ({ timeline, origin: 'trace', worldSize: null })),
    warnings: warnings.list(),
  }
}

class ArkeDocument {
  private readonly ranks = new Map<number, ArkeRank>()
  private readonly strings: ByteStrings
  private readonly warnings: Warnings

  constructor(arke: unknown, timeline: TimelineBuilder, strings: ByteStrings, warnings: Warnings) {
    this.strings = strings
    this.warnings = warnings
    const described = arke as { version?: unknown; origin?: unknown; ranks?: unknown } | undefined
    if (described?.version !== CHROME_VERSION || !Array.isArray(described.ranks)) {
      this.unreadable(
        `its format version is ${String(described?.version)}, and this reader needs version ${CHROME_VERSION}`,
      )
      return
    }
    for (const one of described.ranks as ChromeRank[])
      try {
        const rank = new ArkeRank(one, BigInt(String(described.origin)), timeline, strings, warnings)
        this.ranks.set(one.process, rank)
      } catch {
        this.unreadable('the record of a rank is malformed')
      }
  }

  add(event: TraceEvent): void {
    const rank = this.ranks.get(event.process)
    if (event.phase === 'X') {
      if (rank) rank.add(event)
      else
        this.warnings.add(
          'garbage',
          () => `an event belongs to process ${event.process}, which is not a rank of this trace; left out`,
        )
    } else if (event.name >= 0 && this.strings.text(event.name) === COMMUNICATION_EVENT) rank?.describe(event)
  }

  finish(): RankTimeline[] {
    return [...this.ranks.values()].map((rank) => rank.finish())
  }

  private unreadable(why: string): void {
    this.warnings.add('garbage', () => `the "arke" metadata of the trace is not readable: ${why}`)
  }
}

class ArkeRank {
  private readonly builder = new RankBuilder()
  private readonly described: ChromeRank
  private readonly base: bigint
  /**
   * The time in the trace that corresponds to time 0 of the rank, as whole microseconds and the remaining nanoseconds.
   */
  private readonly whole: number
  private readonly nanoseconds: number
  private readonly tracks: readonly number[]
  private readonly timeline: TimelineBuilder
  private readonly strings: ByteStrings
  private readonly warnings: Warnings
  private readonly names: number[] = []
  private readonly operands: OperandRecords
  private readonly communications = new Map<number, number>()
  /** The parsed `traffic` records, keyed by the id of their interned text. */
  private readonly traffic = new Map<number, readonly TensorBytes[]>()
  /** For each event: the id that links it to a host call or to an operator, or NaN if the event has no such id. */
  private readonly correlations = new Identifiers()
  private readonly externalIds = new Identifiers()

  constructor(
    described: ChromeRank,
    origin: bigint,
    timeline: TimelineBuilder,
    strings: ByteStrings,
    warnings: Warnings,
  ) {
    this.described = described
    this.timeline = timeline
    this.strings = strings
    this.warnings = warnings
    this.base = BigInt(described.base)
    this.whole = Number((this.base - origin) / 1000n)
    this.nanoseconds = Number((this.base - origin) % 1000n)
    if (!Number.isSafeInteger(described.rank) || described.rank < 0)
      throw new Error('the rank number is not a non-negative integer')
    this.tracks = described.tracks.map(([role, owner, id]) => {
      if (!isRole(role)) throw new Error('unknown track role')
      return this.builder.track(role, owner, id)
    })
    this.operands = new OperandRecords(this.builder, warnings)
  }

  add(event: TraceEvent): void {
    const { builder } = this
    const name = event.name < 0 ? '' : this.strings.text(event.name)
    const kind = kinds.get(this.strings.text(event.category))
    const track = this.tracks[event.thread - this.described.thread]
    const start = (event.time.whole - this.whole) * 1000 + event.time.nanoseconds - this.nanoseconds
    const { duration, numbers } = event
    if (kind === undefined || track === undefined)
      return this.warnings.add(
        'garbage',
        () => `${calledEvent(name)} refers to a track that its rank does not have; left out`,
      )
    const readable = event.timed && duration >= 0
    if (!readable || !isInReach(start, duration))
      return this.warnings.add('time', () => `${calledEvent(name)} has no readable time; left out`)
    const id =
      event.name < 0 ? this.timeline.intern('') : (this.names[event.name] ??= this.timeline.intern(name))
    const added = builder.add(kind, track, id, start, duration)
    this.correlations.push(numbers[NumberField.correlation])
    this.externalIds.push(numbers[NumberField.externalId])
    if (numbers[NumberField.bytes] > 0) builder.setBytes(added, numbers[NumberField.bytes])
    const communication = this.communications.get(numbers[NumberField.communication]) ?? NONE
    const sequence = numbers[NumberField.sequence]
    const fits = sequence >= 0 && sequence < 2 ** 31
    if (communication !== NONE || fits) builder.setCommunication(added, communication, fits ? sequence : NONE)
    this.operands.set(added, event)
    if (event.texts[TextField.traffic] >= 0) builder.setTraffic(added, this.trafficOf(event))
  }

  private trafficOf({ texts }: TraceEvent): readonly TensorBytes[] {
    const text = texts[TextField.traffic]
    let known = this.traffic.get(text)
    if (!known) {
      const read = trafficOf(this.strings.text(text))
      if (!read)
        this.warnings.add(
          'garbage',
          () => 'the record of the bytes that a kernel reads and writes is malformed; left out',
        )
      this.traffic.set(text, (known = read ?? []))
    }
    return known
  }

  describe(event: TraceEvent): void {
    const { numbers } = event
    const text = (field: number): string | null =>
      event.texts[field] < 0 ? null : this.strings.text(event.texts[field])
    const number = (field: number): number | null => (Number.isNaN(numbers[field]) ? null : numbers[field])
    const record: Communication = {
      collective: text(TextField.collective),
      library: text(TextField.library),
      group: text(TextField.group),
      groupDescription: text(TextField.groupDescription),
      groupRanks: ranksOf(text(TextField.groupRanks)),
      groupSize: number(NumberField.groupSize),
      communicator: text(TextField.communicator),
      dtype: text(TextField.dtype),
      elementsIn: number(NumberField.elementsIn),
      elementsOut: number(NumberField.elementsOut),
      source: number(NumberField.source),
      destination: number(NumberField.destination),
    }
    this.communications.set(numbers[NumberField.communication], this.builder.communication(record))
  }

  finish(): RankTimeline {
    const { builder } = this
    const calls = new IntegerMap()
    const operators = new IntegerMap()
    for (let event = 0; event < builder.length; event++) {
      const kind = builder.kind(event)
      const ids = isCall(kind) ? this.correlations : kind === Kind.operator ? this.externalIds : null
      if (ids && !Number.isNaN(ids.get(event))) (isCall(kind) ? calls : operators).set(ids.get(event), event)
    }
    let lost = 0
    const find = (ids: IntegerMap, id: number): number => {
      if (Number.isNaN(id)) return NONE
      const found = ids.get(id)
      if (found === NONE) lost++
      return found
    }
    for (let event = 0; event < builder.length; event++) {
      const kind = builder.kind(event)
      if (!isCall(kind)) builder.linkLaunch(event, find(calls, this.correlations.get(event)))
      if (kind !== Kind.operator) builder.linkOperator(event, find(operators, this.externalIds.get(event)))
    }
    if (lost > 0)
      this.warnings.add('correlation', () => 'events whose launch or operator is not in the trace', lost)
    builder.base = this.base
    builder.device = typeof this.described.device === 'string' ? this.described.device : null
    return builder.freeze(this.described.rank)
  }
}

function trafficOf(text: string): TensorBytes[] | null {
  try {
    const rows = JSON.parse(text) as unknown[][]
    const isRow = ([tensor, name, ...bytes]: unknown[]): boolean =>
      Number.isSafeInteger(tensor) &&
      typeof name === 'string' &&
      bytes.length === 3 &&
      bytes.every((count) => Number.isSafeInteger(count) && (count as number) >= 0)
    if (!rows.every(isRow)) return null
    return (rows as [number, string, number, number, number][]).map(
      ([tensor, name, size, written, read]) => ({
        tensor,
        name,
        size,
        written,
        read,
      }),
    )
  } catch {
    return null
  }
}

function ranksOf(text: string | null): number[] | null {
  if (text === null) return null
  try {
    const ranks = JSON.parse(text) as unknown
    return Array.isArray(ranks) && ranks.every(Number.isSafeInteger) ? (ranks as number[]) : null
  } catch {
    return null
  }
}
