/**
 * Reads the Chrome trace format, as PyTorch writes it, as a stream: an object with `traceEvents` and metadata, or a
 * bare array of events. Bytes are pushed in chunks of any size. Wanted events are passed to a callback while they are
 * read; metadata is available at the end. Unwanted values are skipped without being parsed.
 *
 * The scanner never throws on bad input. After a damaged event, the scanner searches for `{ "ph"`, the beginning of the
 * next event. If the input is truncated, the scanner yields all events before the cut. Damage and truncation each cause
 * a warning. The scanner holds one event or one metadata value at a time, and gives up on values of more than
 * `VALUE_LIMIT` bytes.
 */
import type { Warnings } from '../../timeline/warnings.ts'
import {
  BAD,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  MORE,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from './bytes.ts'
import { JoinedPieces, skipSpace, skipString, skipValue, ValueSkipper } from './bytes.ts'
import { EventReader, type TraceEvent } from './event.ts'
import { ByteStrings } from './strings.ts'

export const VALUE_LIMIT = 8 << 20

export interface TraceSink {
  /**
   * True if events of the given phase and category are wanted. For phase X, `accept` must always return the same value
   * for the same category.
   */
  accept(phase: string, category: string): boolean
  event(event: TraceEvent): void
  /** The minimum duration, in nanoseconds, of wanted events of phase X in a category; 0 if the function is absent. */
  least?(category: string): number
  /** The phases whose events may be wanted, one character each; if absent, all phases may be wanted. */
  readonly phases?: string
}

/** The metadata of a document. Any field of the metadata may be absent. */
export interface TraceMetadata {
  schemaVersion?: unknown
  displayTimeUnit?: unknown
  distributedInfo?: unknown
  deviceProperties?: unknown
  /** The description of the ranks, for `readArkeTrace`. Only traces that Arke wrote have the field `arke`. */
  arke?: unknown
  /** The time is a bigint, because a double cannot hold nanoseconds since 1970 exactly. */
  baseTimeNanoseconds?: bigint
}

const wantedMetadata = ['schemaVersion', 'displayTimeUnit', 'distributedInfo', 'deviceProperties', 'arke']
const BASE_TIME = 'baseTimeNanoseconds'

type State = 'outside' | 'object' | 'events' | 'skip' | 'lost'

export class TraceScanner {
  readonly strings = new ByteStrings()
  /** The metadata of each JSON document in the input. */
  readonly documents: TraceMetadata[] = []
  /** The number of all events in the input, whether they are wanted or not. */
  events = 0
  /** True if a list of events was found, even an empty one. */
  hasEvents = false
  private readonly reader: EventReader
  private readonly sink: TraceSink
  private readonly warnings: Warnings
  private state: State = 'outside'
  private skipper = new ValueSkipper()
  /** True if the document is a bare array of events. */
  private bare = false
  private needsComma = false
  /**
   * The bytes that will be scanned again after the next chunk is appended to them. The field `passed` counts the input
   * bytes that precede the bytes in `rest`.
   */
  private rest: Uint8Array = new Uint8Array(0)
  private readonly joined = new JoinedPieces()
  private passed = 0

  constructor(sink: TraceSink, warnings: Warnings) {
    this.sink = sink
    this.warnings = warnings
    this.reader = new EventReader(
      this.strings,
      (phase, category) => sink.accept(phase, category),
      sink.phases,
      sink.least && ((category) => sink.least?.(category) ?? 0),
    )
  }

  push(piece: Uint8Array): void {
    const data = this.joined.after(this.rest, piece)
    this.advance(data, 0)
    while (this.rest.length > VALUE_LIMIT) {
      const where = this.passed
      this.warnings.add('too-large', () => `the value at byte ${where} has more than ${VALUE_LIMIT} bytes`)
      this.abandon()
    }
  }

  end(): void {
    // The bytes that are not scanned yet may be one unfinished event, or complete events after a stray quote.
    while (this.rest.length > 0 && this.state !== 'lost') {
      const where = this.passed
      this.warnings.add('truncated', () => `the input ends inside a value that begins at byte ${where}`)
      this.abandon()
    }
    if (this.state !== 'outside' && this.state !== 'lost')
      this.warnings.add('truncated', () => `the input ends inside a document, at byte ${this.passed}`)
    if (this.strings.overflowed)
      this.warnings.add(
        'too-large',
        () => 'the trace has too many distinct names; further names are not kept',
      )
  }

  private advance(data: Uint8Array, from: number): void {
    const at = this.scan(data, from, data.length)
    this.passed += at
    // The bytes that are not scanned yet are copied, so that the caller can reuse or free the chunk.
    this.rest = new Uint8Array(data.subarray(at))
  }

  /** Gives up on the current value and searches for the next event after the beginning of that value. */
  private abandon(): void {
    this.state = 'lost'
    this.advance(this.rest, 1)
  }

  /** Scans as many bytes as possible. Returns the position of the first byte that must be scanned again. */
  private scan(data: Uint8Array, at: number, end: number): number {
    for (;;) {
      at = this.state === 'lost' || this.state === 'skip' ? at : skipSpace(data, at, end)
      if (at >= end) return end
      let next: number
      if (this.state === 'events') next = this.inEvents(data, at, end)
      else if (this.state === 'object') next = this.inObject(data, at, end)
      else if (this.state === 'outside') next = this.outside(data, at)
      else if (this.state === 'skip') {
        next = this.skipper.skip(data, at, end)
        if (next === MORE) return end
        this.state = 'object'
      } else {
        next = this.find(data, at, end)
        if (this.state === 'lost') return next
      }
      if (next === MORE) return at
      if (next === BAD) {
        const where = this.passed + at
        this.warnings.add(
          'garbage',
          () => `byte ${where} does not begin a trace event; skipped to the next event`,
        )
        this.state = 'lost'
        next = at + 1
      }
      at = next
    }
  }

  private outside(data: Uint8Array, at: number): number {
    const byte = data[at]
    const isByteOrderMark = byte === 0xef || byte === 0xbb || byte === 0xbf
    if (isByteOrderMark && this.passed + at < 3) return at + 1
    if (byte !== OPEN_OBJECT && byte !== OPEN_ARRAY) return BAD
    this.open()
    this.bare = byte === OPEN_ARRAY
    this.state = this.bare ? 'events' : 'object'
    this.hasEvents ||= this.bare
    this.needsComma = false
    return at + 1
  }

  private open(): void {
    if (this.documents.length > 0)
      this.warnings.add('documents', () => 'the file contains several JSON documents; all of them are read')
    this.documents.push({})
  }

  /** Scans the text between two members of a JSON document. */
  private inObject(data: Uint8Array, at: number, end: number): number {
    if (data[at] === CLOSE_OBJECT) {
      this.state = 'outside'
      return at + 1
    }
    if (this.needsComma) {
      if (data[at] !== COMMA) return BAD
      this.needsComma = false
      return at + 1
    }
    if (data[at] !== QUOTE) return BAD
    const afterKey = skipString(data, at, end)
    if (afterKey < 0) return afterKey
    let value = skipSpace(data, afterKey, end)
    if (value < end && data[value] !== COLON) return BAD
    value = skipSpace(data, value + 1, end)
    if (value >= end) return MORE

    const key = Buffer.from(data.buffer, data.byteOffset + at + 1, afterKey - at - 2).toString()
    if (key === 'traceEvents' && data[value] === OPEN_ARRAY) {
      this.state = 'events'
      this.hasEvents = true
      this.needsComma = false
      return value + 1
    }
    if (key !== BASE_TIME && !wantedMetadata.includes(key)) {
      this.needsComma = true
      this.state = 'skip'
      this.skipper = new ValueSkipper()
      return value
    }
    const after = skipValue(data, value, end)
    if (after < 0) return after
    this.needsComma = true
    this.keep(key, Buffer.from(data.buffer, data.byteOffset + value, after - value).toString())
    return after
  }

  private keep(key: string, text: string): void {
    const document = this.documents[this.documents.length - 1]
    try {
      if (key === BASE_TIME) document.baseTimeNanoseconds = BigInt(text.replace(/^"(.*)"$/, '$1'))
      else document[key as 'distributedInfo'] = JSON.parse(text)
    } catch {
      this.warnings.add('garbage', () => `the metadata field ${key} is malformed; left out`)
    }
  }

  private inEvents(data: Uint8Array, at: number, end: number): number {
    const byte = data[at]
    if (byte === CLOSE_ARRAY) {
      this.state = this.bare ? 'outside' : 'object'
      this.needsComma = true
      return at + 1
    }
    if (this.needsComma) {
      if (byte !== COMMA && byte !== OPEN_OBJECT) return BAD
      if (byte === OPEN_OBJECT)
        this.warnings.add('garbage', () => `a comma is missing before the event at byte ${this.passed + at}`)
      this.needsComma = false
      return byte === COMMA ? at + 1 : at
    }
    if (byte !== OPEN_OBJECT) return BAD
    const after = this.reader.read(data, at, end)
    if (after < 0) return after
    this.events++
    if (this.reader.accepted) {
      this.reader.event.document = this.documents.length - 1
      this.sink.event(this.reader.event)
    }
    this.needsComma = after >= end || data[after] !== COMMA
    return this.needsComma ? after : after + 1
  }

  /**
   * Searches for `{ "ph"` and returns its position. If `{ "ph"` is not found, returns the position at which it may
   * begin, or `end`.
   */
  private find(data: Uint8Array, at: number, end: number): number {
    for (; at < end; at++) {
      if (data[at] !== OPEN_OBJECT) continue
      const key = skipSpace(data, at + 1, Math.min(end, at + 65))
      if (key + 4 > end) return at
      if (data[key] !== QUOTE || data[key + 1] !== 0x70 || data[key + 2] !== 0x68 || data[key + 3] !== QUOTE)
        continue
      if (this.documents.length === 0) this.open()
      this.state = 'events'
      this.needsComma = false
      return at
    }
    return end
  }
}
