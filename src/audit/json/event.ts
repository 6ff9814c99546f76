/**
 * Reads one event of a trace: the wanted fields of one JSON object, in whatever order they come. As soon as phase and
 * category say that nobody wants the event, the rest of it is skipped. The event is one record that is filled anew
 * each time: whoever gets it takes what they need before they return.
 */
import { BAD, CLOSE_OBJECT, COLON, COMMA, MORE, OPEN_OBJECT, QUOTE } from './bytes.ts'
import { skipRest, skipSpace, skipString, skipValue } from './bytes.ts'
import { argKeys, eventKeys, Field, FIRST_OPERAND, FIRST_TEXT } from './fields.ts'
import { NumberField, OperandField, TextField } from './fields.ts'
import { Microseconds } from './microseconds.ts'
import { ByteStrings } from './strings.ts'

const NUMBERS = Object.keys(NumberField).length
const TEXTS = Object.keys(TextField).length
const NULL = 0x6e
/** Of distinct texts of operands. A list of all of a model's parameters has tens of kilobytes. */
const OPERAND_LIMIT = 8 << 20

export class TraceEvent {
  /** Which JSON document of the input it is in, from 0. */
  document = 0
  /** The phase's character: X for an event with a duration. */
  phase = ''
  /** Strings are numbers of the scanner's strings, -1 where absent. */
  category = -1
  name = -1
  /** NaN where absent; a name in place of a number becomes a negative number of its own. */
  process = NaN
  thread = NaN
  /** Whether it has a time, and that time. */
  timed = false
  readonly time = new Microseconds()
  /** Integer nanoseconds; NaN where absent, unreadable, or beyond 2^53. */
  duration = NaN
  /** By `NumberField`; NaN where absent. */
  readonly numbers = new Float64Array(NUMBERS)
  /** By `TextField`; -1 where absent. */
  readonly texts = new Int32Array(TEXTS)
  /** Numbers of `operandTexts`; -1 where absent. */
  shapes = -1
  types = -1
  readonly operandTexts = new ByteStrings(OPERAND_LIMIT, 3)

  clear(): void {
    this.phase = ''
    this.category = -1
    this.name = -1
    this.process = NaN
    this.thread = NaN
    this.timed = false
    this.duration = NaN
    for (let i = 0; i < NUMBERS; i++) this.numbers[i] = NaN
    for (let i = 0; i < TEXTS; i++) this.texts[i] = -1
    this.shapes = -1
    this.types = -1
  }
}

export class EventReader {
  readonly event = new TraceEvent()
  private readonly strings: ByteStrings
  private readonly accept: (phase: string, category: string) => boolean
  /** By category: whether it is wanted with phase X; undefined where nobody has asked. */
  private readonly wanted: (boolean | undefined)[] = []
  private readonly span = new Microseconds()

  constructor(strings: ByteStrings, accept: (phase: string, category: string) => boolean) {
    this.strings = strings
    this.accept = accept
  }

  /** Whether the event that `read` has passed is wanted. */
  accepted = false

  /** Reads the object that begins at `at`; returns the position after it, `MORE` or `BAD`. */
  read(data: Uint8Array, at: number, end: number): number {
    const { event } = this
    event.clear()
    this.accepted = false
    at = skipSpace(data, at + 1, end)
    if (at >= end) return MORE
    if (data[at] === CLOSE_OBJECT) return at + 1
    for (;;) {
      if (at >= end) return MORE
      if (data[at] !== QUOTE) return BAD
      const key = at + 1
      at = skipString(data, at, end)
      if (at < 0) return at
      const field = eventKeys.find(data, key, at - 1)
      at = this.colon(data, at, end)
      if (at < 0) return at
      at = this.field(field, data, at, end)
      if (at < 0) return at
      if (event.phase !== '' && event.category >= 0 && field <= Field.category && !this.isWanted())
        return skipRest(data, at, end, 1)
      at = skipSpace(data, at, end)
      if (at >= end) return MORE
      if (data[at] === CLOSE_OBJECT) {
        this.accepted = event.phase !== '' && this.isWanted()
        return at + 1
      }
      if (data[at] !== COMMA) return BAD
      at = skipSpace(data, at + 1, end)
    }
  }

  private isWanted(): boolean {
    const { phase, category } = this.event
    if (phase !== 'X') return this.accept(phase, category < 0 ? '' : this.strings.text(category))
    return (this.wanted[category + 1] ??= this.accept('X', category < 0 ? '' : this.strings.text(category)))
  }

  /** The position of the value after a key that ends at `at`. */
  private colon(data: Uint8Array, at: number, end: number): number {
    at = skipSpace(data, at, end)
    if (at >= end) return MORE
    if (data[at] !== COLON) return BAD
    at = skipSpace(data, at + 1, end)
    return at < end ? at : MORE
  }

  private field(field: number, data: Uint8Array, at: number, end: number): number {
    const { event } = this
    if (field === Field.args && data[at] === OPEN_OBJECT) return this.args(data, at, end)
    if (field === Field.category || field === Field.name) {
      if (data[at] !== QUOTE) return skipValue(data, at, end)
      const to = skipString(data, at, end)
      if (to < 0) return to
      const id = this.strings.intern(data, at + 1, to - 1)
      if (field === Field.name) event.name = id
      else event.category = id
      return to
    }
    const to = skipValue(data, at, end)
    if (to < 0) return to
    const quoted = data[at] === QUOTE ? 1 : 0
    switch (field) {
      case Field.phase:
        if (quoted && to - at === 3) event.phase = String.fromCharCode(data[at + 1])
        break
      case Field.process:
        event.process = this.numberOrName(data, at, to)
        break
      case Field.thread:
        event.thread = this.numberOrName(data, at, to)
        break
      case Field.time:
        event.timed = event.time.read(data, at + quoted, to - quoted)
        break
      case Field.duration:
        if (this.span.read(data, at + quoted, to - quoted)) event.duration = this.span.total()
        if (!Number.isSafeInteger(event.duration)) event.duration = NaN
    }
    return to
  }

  private args(data: Uint8Array, at: number, end: number): number {
    at = skipSpace(data, at + 1, end)
    if (at >= end) return MORE
    if (data[at] === CLOSE_OBJECT) return at + 1
    for (;;) {
      if (at >= end) return MORE
      if (data[at] !== QUOTE) return BAD
      const key = at + 1
      at = skipString(data, at, end)
      if (at < 0) return at
      const field = argKeys.find(data, key, at - 1)
      at = this.colon(data, at, end)
      if (at < 0) return at
      const from = at
      at = skipValue(data, at, end)
      if (at < 0) return at
      if (field >= FIRST_OPERAND) this.operand(field - FIRST_OPERAND, data, from, at)
      else if (field >= FIRST_TEXT) this.event.texts[field - FIRST_TEXT] = this.text(data, from, at)
      else if (field >= 0) this.event.numbers[field] = this.number(data, from, at)
      at = skipSpace(data, at, end)
      if (at >= end) return MORE
      if (data[at] === CLOSE_OBJECT) return at + 1
      if (data[at] !== COMMA) return BAD
      at = skipSpace(data, at + 1, end)
    }
  }

  private operand(field: number, data: Uint8Array, from: number, to: number): void {
    const id = this.event.operandTexts.intern(data, from, to)
    if (field === OperandField.shapes) this.event.shapes = id
    else this.event.types = id
  }

  private text(data: Uint8Array, from: number, to: number): number {
    if (data[from] === NULL) return -1
    if (data[from] === QUOTE) {
      from++
      to--
    }
    return this.strings.intern(data, from, to)
  }

  /** A number, or text that is one, also in hexadecimal; NaN otherwise. */
  private number(data: Uint8Array, from: number, to: number): number {
    if (data[from] === QUOTE) {
      from++
      to--
    }
    let value = 0
    let at = from
    if (to - from <= 15)
      while (at < to && data[at] >= 0x30 && data[at] <= 0x39) value = value * 10 + data[at++] - 0x30
    if (at === to && to > from) return value
    if (to === from || to - from > 64 || data[from] === NULL) return NaN
    return Number(String.fromCharCode(...data.subarray(from, to)))
  }

  private numberOrName(data: Uint8Array, from: number, to: number): number {
    const value = this.number(data, from, to)
    if (!Number.isNaN(value)) return value
    const id = this.text(data, from, to)
    return id < 0 ? NaN : -2 - id
  }
}
