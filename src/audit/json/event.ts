/**
 * Reads one trace event: the wanted fields of one JSON object, in any order. As soon as the phase and the category of
 * an event show that the event is not wanted, all its other fields are skipped. One event object is reused for all
 * events, so the receiver must copy what it needs before it returns.
 */
import { BAD, CLOSE_OBJECT, COLON, COMMA, MORE, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './bytes.ts'
import { endsScalar, skipScalar, skipSpace } from './bytes.ts'
import { argKeys, eventKeys, Field, FIRST_OPERAND, FIRST_TEXT } from './fields.ts'
import { NumberField, OperandField, TextField } from './fields.ts'
import { Microseconds } from './microseconds.ts'
import { Separators, START } from './separators.ts'
import { ByteStrings, OTHER } from './strings.ts'
import { scanned, scanString, skipRest, viewOf } from './words.ts'

const NUMBERS = Object.keys(NumberField).length
const TEXTS = Object.keys(TextField).length
const NULL = 0x6e
/**
 * The limit on the bytes of all distinct operand texts together. A single text, such as the list of all parameters of a
 * model, may have tens of kilobytes.
 */
const OPERAND_LIMIT = 8 << 20

export class TraceEvent {
  /** The index of the JSON document that contains the event. */
  document = 0
  /** The character of the event's phase; X means an event with a duration. */
  phase = ''
  /** String ids given by the scanner, or -1 if the field is absent. */
  category = -1
  name = -1
  /**
   * Process and thread ids, or NaN if they are absent. If a process or thread id is a name instead of a number, the
   * name is mapped to its own negative number.
   */
  process = NaN
  thread = NaN
  /** True if the event has a readable time, which is in `time`. */
  timed = false
  readonly time = new Microseconds()
  /** The duration in integer nanoseconds, or NaN if it is absent, unreadable or beyond 2^53. */
  duration = NaN
  /** The numeric args of the event, indexed by `NumberField`, or NaN for an absent one. */
  readonly numbers = new Float64Array(NUMBERS)
  /** The text args of the event as string ids, indexed by `TextField`, or -1 for an absent one. */
  readonly texts = new Int32Array(TEXTS)
  /** The ids of the operand texts in `operandTexts`, or -1 for an absent text. */
  shapes = -1
  types = -1
  readonly operandTexts = new ByteStrings(OPERAND_LIMIT)

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

/** The maximum number of digits that the fast path for integers reads. */
const DIGITS = 15

export class EventReader {
  readonly event = new TraceEvent()
  private readonly strings: ByteStrings
  private readonly accept: (phase: string, category: string) => boolean
  /** The phases whose events may be wanted, or null if events of all phases may be wanted. */
  private readonly phases: string | null
  /**
   * For each category: true if its events of phase X are wanted, or undefined if `accept` has not been called for it
   * yet.
   */
  private readonly wanted: (boolean | undefined)[] = []
  /**
   * For each category: the shortest wanted duration in nanoseconds, or undefined if `least` has not been called for it
   * yet.
   */
  private readonly shortest: (number | undefined)[] = []
  private readonly least: (category: string) => number
  private readonly span = new Microseconds()
  /**
   * For each event name: the name and the category of the event that followed the last event with this name. The reader
   * expects this name and category for the next event and compares them first.
   */
  private readonly nameAfter: number[] = []
  private readonly categoryAfter: number[] = []
  private lastName = OTHER
  private readonly separators = new Separators()
  private readonly argSeparators = new Separators()
  private data: Uint8Array = new Uint8Array(0)
  private view = viewOf(this.data)
  /** The number that the last call of `plain` has read. */
  private readonly value = new Float64Array(1)

  constructor(
    strings: ByteStrings,
    accept: (phase: string, category: string) => boolean,
    phases: string | null = null,
    least: (category: string) => number = () => 0,
  ) {
    this.strings = strings
    this.accept = accept
    this.phases = phases
    this.least = least
  }

  /** True if the event that `read` has just read is wanted. */
  accepted = false

  /** Reads the object that begins at `at`. Returns the position after the object, `MORE` or `BAD`. */
  read(data: Uint8Array, at: number, end: number): number {
    if (data !== this.data) {
      this.data = data
      this.view = viewOf(data)
    }
    const { event, view, separators } = this
    event.clear()
    this.accepted = false
    this.nameFrom = -1
    at++
    for (let separator = START; ;) {
      const guess = separators.guess(separator, view, at, end)
      let field: number
      if (guess > 0) {
        at += separators.length(guess)
        field = separators.field(guess)
        separator = guess
      } else {
        const from = at
        at = this.key(data, at, end, separator === START)
        if (at < 0) return at
        if (this.closed) {
          this.accepted = event.phase !== '' && this.isWanted() && !this.isShort()
          if (this.accepted) this.internName()
          return at
        }
        field = eventKeys.find(data, this.keyFrom, this.keyTo, scanned[0])
        separator = separators.learn(separator, view, from, at, end, field)
      }
      at = this.field(field, data, at, end)
      if (at < 0) return at
      if (field <= Field.category && field >= 0 && event.phase !== '' && this.isUnwanted())
        return skipRest(data, view, at, end, 1)
      if (field === Field.duration && this.isShort()) return skipRest(data, view, at, end, 1)
    }
  }

  /**
   * The results of the method `key`: whether the JSON object ended, and otherwise the byte range of the next key. The
   * hash of the key is in `scanned`.
   */
  private closed = false
  private keyFrom = 0
  private keyTo = 0

  /** Reads from the end of a value to the beginning of the next value, or past the end of the object. */
  private key(data: Uint8Array, at: number, end: number, isFirst: boolean): number {
    at = skipSpace(data, at, end)
    if (at >= end) return MORE
    this.closed = data[at] === CLOSE_OBJECT
    if (this.closed) return at + 1
    if (!isFirst) {
      if (data[at] !== COMMA) return BAD
      at = skipSpace(data, at + 1, end)
      if (at >= end) return MORE
    }
    if (data[at] !== QUOTE) return BAD
    this.keyFrom = at + 1
    at = scanString(data, this.view, at, end)
    if (at < 0) return at
    this.keyTo = at - 1
    at = skipSpace(data, at, end)
    if (at >= end) return MORE
    if (data[at] !== COLON) return BAD
    at = skipSpace(data, at + 1, end)
    return at < end ? at : MORE
  }

  /** True if the fields read so far already show that the event is not wanted. */
  private isUnwanted(): boolean {
    const { phase, category } = this.event
    if (phase !== 'X' && this.phases !== null && !this.phases.includes(phase)) return true
    return category >= 0 && !this.isWanted()
  }

  private isWanted(): boolean {
    const { phase, category } = this.event
    if (phase !== 'X') return this.accept(phase, category < 0 ? '' : this.strings.text(category))
    return (this.wanted[category + 1] ??= this.accept('X', category < 0 ? '' : this.strings.text(category)))
  }

  /** True if the event is shorter than the shortest wanted event of its category. */
  private isShort(): boolean {
    const { phase, category, duration } = this.event
    if (phase !== 'X' || category < 0) return false
    const least = this.shortestOf(category)
    return least > 0 && !(duration >= least)
  }

  private shortestOf(category: number): number {
    return (this.shortest[category] ??= this.least(this.strings.text(category)))
  }

  /** The position of a name that is interned only if the event is wanted, or -1. */
  private nameFrom = -1
  private nameTo = -1
  private nameHash = 0

  private internName(): void {
    if (this.nameFrom < 0) return
    this.event.name = this.strings.intern(this.view, this.nameFrom, this.nameTo, this.nameHash)
    this.nameFrom = -1
  }

  private field(field: number, data: Uint8Array, at: number, end: number): number {
    const { event, view } = this
    const byte = data[at]
    if (byte === QUOTE) {
      if (field === Field.name || field === Field.category) return this.string(field, data, at, end)
      const to = scanString(data, view, at, end)
      if (to < 0) return to
      if (field === Field.phase) {
        if (to - at === 3) event.phase = String.fromCharCode(data[at + 1])
      } else this.number(field, data, at, to)
      return to
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (field === Field.args && byte === OPEN_OBJECT) return this.args(data, at, end)
      const to = skipRest(data, view, at + 1, end, 1)
      if (to >= 0) this.number(field, data, at, to)
      return to
    }
    let to = -1
    if (field === Field.time) {
      to = event.time.scan(data, at, end)
      if (to >= 0) event.timed = true
    } else if (field === Field.duration) {
      to = this.span.scan(data, at, end)
      if (to >= 0) this.setDuration()
    } else if (field === Field.process) {
      to = this.plain(data, at, end)
      if (to >= 0) event.process = this.value[0]
    } else if (field === Field.thread) {
      to = this.plain(data, at, end)
      if (to >= 0) event.thread = this.value[0]
    }
    if (to >= 0) return to
    to = skipScalar(data, at, end)
    if (to >= 0) this.number(field, data, at, to)
    return to
  }

  /**
   * Reads the name or the category of an event. Programs repeat sequences of events, so the reader first tries the
   * string that followed the previous event's name last time.
   */
  private string(field: number, data: Uint8Array, at: number, end: number): number {
    const { view, strings, lastName } = this
    const { category } = this.event
    // Most events of a category with a minimum duration are short and have many different names, so a name is interned
    // only if its event is wanted.
    if (field === Field.name && category >= 0 && this.shortestOf(category) > 0) {
      const to = scanString(data, view, at, end)
      if (to < 0) return to
      this.nameFrom = at + 1
      this.nameTo = to - 1
      this.nameHash = scanned[0]
      return to
    }
    const after = field === Field.name ? this.nameAfter : this.categoryAfter
    let id = lastName < after.length ? after[lastName] : OTHER
    let to: number
    if (id !== OTHER && strings.isAt(id, view, at + 1, end)) to = at + 2 + strings.length(id)
    else {
      to = scanString(data, view, at, end)
      if (to < 0) return to
      id = strings.intern(view, at + 1, to - 1, scanned[0])
      while (after.length <= lastName) after.push(OTHER)
      after[lastName] = id
    }
    if (field === Field.name) this.event.name = this.lastName = id
    else this.event.category = id
    return to
  }

  /** Reads a numeric field that is written either as a number or as text. */
  private number(field: number, data: Uint8Array, at: number, to: number): void {
    const { event } = this
    const quoted = data[at] === QUOTE ? 1 : 0
    switch (field) {
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
        if (this.span.read(data, at + quoted, to - quoted)) this.setDuration()
        else if (!Number.isSafeInteger(event.duration)) event.duration = NaN
    }
  }

  private setDuration(): void {
    const duration = this.span.total()
    this.event.duration = Number.isSafeInteger(duration) ? duration : NaN
  }

  private args(data: Uint8Array, at: number, end: number): number {
    const { event, view, argSeparators: separators } = this
    at++
    for (let separator = START; ;) {
      const guess = separators.guess(separator, view, at, end)
      let field: number
      if (guess > 0) {
        at += separators.length(guess)
        field = separators.field(guess)
        separator = guess
      } else {
        const before = at
        at = this.key(data, at, end, separator === START)
        if (at < 0 || this.closed) return at
        field = argKeys.find(data, this.keyFrom, this.keyTo, scanned[0])
        separator = separators.learn(separator, view, before, at, end, field)
      }
      const from = at
      const byte = data[at]
      if (byte === QUOTE) {
        at = scanString(data, view, at, end)
        if (at < 0) return at
        if (field >= 0 && field < FIRST_TEXT) event.numbers[field] = this.numberIn(data, from, at)
        else if (field >= FIRST_TEXT && field < FIRST_OPERAND)
          event.texts[field - FIRST_TEXT] = this.strings.intern(view, from + 1, at - 1, scanned[0])
        else if (field >= FIRST_OPERAND) this.operand(field - FIRST_OPERAND, from, at)
      } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
        at = skipRest(data, view, at + 1, end, 1)
        if (at < 0) return at
        if (field >= 0) this.arg(field, data, from, at)
      } else {
        if (field >= 0 && field < FIRST_TEXT) at = this.plain(data, at, end)
        if (at !== from && at >= 0) event.numbers[field] = this.value[0]
        else {
          at = skipScalar(data, from, end)
          if (at < 0) return at
          if (field >= 0) this.arg(field, data, from, at)
        }
      }
    }
  }

  private arg(field: number, data: Uint8Array, from: number, to: number): void {
    if (field >= FIRST_OPERAND) this.operand(field - FIRST_OPERAND, from, to)
    else if (field >= FIRST_TEXT) this.event.texts[field - FIRST_TEXT] = this.text(data, from, to)
    else this.event.numbers[field] = this.numberIn(data, from, to)
  }

  private operand(field: number, from: number, to: number): void {
    const id = this.event.operandTexts.intern(this.view, from, to)
    if (field === OperandField.shapes) this.event.shapes = id
    else this.event.types = id
  }

  private text(data: Uint8Array, from: number, to: number): number {
    if (data[from] === NULL) return -1
    if (data[from] === QUOTE) {
      from++
      to--
    }
    return this.strings.intern(this.view, from, to)
  }

  /**
   * Reads decimal digits into `value`. Returns the position after the digits, or -1 if they are not a complete JSON
   * value.
   */
  private plain(data: Uint8Array, at: number, end: number): number {
    const from = at
    let digit: number
    let value = 0
    for (const stop = Math.min(end, at + 9); at < stop && (digit = data[at] ^ 0x30) <= 9; at++)
      value = (Math.imul(value, 10) + digit) | 0
    let total = value
    if (at === from + 9)
      for (const stop = Math.min(end, from + DIGITS); at < stop && (digit = data[at] ^ 0x30) <= 9; at++)
        total = total * 10 + digit
    if (at === from || at >= end || !endsScalar(data[at])) return -1
    this.value[0] = total
    return at
  }

  /** Parses a number or a text that contains a decimal or hexadecimal number, and returns NaN for anything else. */
  private numberIn(data: Uint8Array, from: number, to: number): number {
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
    const value = this.numberIn(data, from, to)
    if (!Number.isNaN(value)) return value
    const id = this.text(data, from, to)
    return id < 0 ? NaN : -2 - id
  }
}
