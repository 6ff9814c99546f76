/**
 * Walks through a JSON document of any size and passes the text of each value at a chosen path to a callback, one value
 * at a time. Bytes are pushed in chunks of any size. The walker holds one value at a time, of at most `VALUE_LIMIT`
 * bytes.
 *
 * A path is a list of keys; an element of an array has the key `*`. Damage between values ends the walk with a warning.
 * The values before the damage have already been passed to the callback.
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
import { VALUE_LIMIT } from './scanner.ts'

/**
 * What the walker does with a value: enter an object or array, pass the whole value to the callback, or skip the value.
 */
export type Visit = 'enter' | 'take' | 'skip'

export interface WalkSink {
  visit(path: readonly string[]): Visit
  value(path: readonly string[], text: string): void
  /** Called at the end of each object or array that was entered. */
  leave(path: readonly string[]): void
}

export class JsonWalker {
  private readonly sink: WalkSink
  private readonly warnings: Warnings
  private readonly path: string[] = []
  /**
   * The objects and arrays that are open at the current position. The entry of an open array is the action for the
   * array's elements; the entry of an open object is null.
   */
  private readonly open: (Visit | null)[] = []
  private expect: 'value' | 'key' | 'next' | 'end' | 'lost' = 'value'
  /** True if nothing has been read yet in the innermost open object or array. */
  private fresh = false
  private skipper: ValueSkipper | undefined
  private rest: Uint8Array = new Uint8Array(0)
  private readonly joined = new JoinedPieces()
  private passed = 0

  constructor(sink: WalkSink, warnings: Warnings) {
    this.sink = sink
    this.warnings = warnings
  }

  push(piece: Uint8Array): void {
    if (this.expect === 'lost') return
    const data = this.joined.after(this.rest, piece)
    const at = this.scan(data, 0, data.length)
    this.passed += at
    this.rest = new Uint8Array(data.subarray(at))
    if (this.rest.length <= VALUE_LIMIT) return
    const where = this.passed
    this.warnings.add('too-large', () => `the value at byte ${where} has more than ${VALUE_LIMIT} bytes`)
    this.skipper = new ValueSkipper()
    const large = this.rest
    this.rest = new Uint8Array(0)
    this.push(large)
  }

  end(): void {
    if (this.expect !== 'end' && this.expect !== 'lost')
      this.warnings.add('truncated', () => `the input ends inside a document, at byte ${this.passed}`)
  }

  /** Scans as many bytes as possible. Returns the position of the first byte that must be scanned again. */
  private scan(data: Uint8Array, at: number, end: number): number {
    for (;;) {
      let next: number
      if (this.skipper) {
        next = this.skipper.skip(data, at, end)
        if (next === MORE) return end
        this.skipper = undefined
        this.done()
      } else {
        at = skipSpace(data, at, end)
        if (at >= end) return end
        if (this.expect === 'value') next = this.value(data, at, end)
        else if (this.expect === 'key') next = this.key(data, at, end)
        else if (this.expect === 'next') next = this.next(data, at)
        else next = this.expect === 'end' ? BAD : end
      }
      if (next === MORE) return at
      if (next === BAD) {
        const where = this.passed + at
        this.warnings.add('garbage', () => `invalid JSON at byte ${where}; the rest of the file is left out`)
        this.expect = 'lost'
        return end
      }
      at = next
    }
  }

  private value(data: Uint8Array, at: number, end: number): number {
    const byte = data[at]
    const inside = this.open.at(-1)
    if (byte === CLOSE_ARRAY && this.fresh && inside) return this.close(at)
    this.fresh = false
    const what = inside ?? this.sink.visit(this.path)
    if (what === 'enter' && (byte === OPEN_OBJECT || byte === OPEN_ARRAY)) {
      if (byte === OPEN_ARRAY) {
        this.path.push('*')
        this.open.push(this.sink.visit(this.path))
        this.expect = 'value'
      } else {
        this.open.push(null)
        this.expect = 'key'
      }
      this.fresh = true
      return at + 1
    }
    if (what !== 'take') {
      this.skipper = new ValueSkipper()
      return at
    }
    const after = skipValue(data, at, end)
    if (after < 0) return after
    this.sink.value(this.path, Buffer.from(data.buffer, data.byteOffset + at, after - at).toString())
    this.done()
    return after
  }

  /** Updates the walker's state at the end of a value. */
  private done(): void {
    const inside = this.open.at(-1)
    if (inside === null) this.path.pop()
    this.expect = inside === undefined ? 'end' : 'next'
  }

  private key(data: Uint8Array, at: number, end: number): number {
    if (data[at] === CLOSE_OBJECT && this.fresh) return this.close(at)
    if (data[at] !== QUOTE) return BAD
    const after = skipString(data, at, end)
    if (after < 0) return after
    const colon = skipSpace(data, after, end)
    if (colon >= end) return MORE
    if (data[colon] !== COLON) return BAD
    this.path.push(keyOf(Buffer.from(data.buffer, data.byteOffset + at, after - at).toString()))
    this.fresh = false
    this.expect = 'value'
    return colon + 1
  }

  private next(data: Uint8Array, at: number): number {
    const array = this.open.at(-1) !== null
    if (data[at] === COMMA) {
      this.expect = array ? 'value' : 'key'
      return at + 1
    }
    return data[at] === (array ? CLOSE_ARRAY : CLOSE_OBJECT) ? this.close(at) : BAD
  }

  private close(at: number): number {
    if (this.open.pop() !== null) this.path.pop()
    this.fresh = false
    this.sink.leave(this.path)
    this.done()
    return at + 1
  }
}

/** Decodes a key; `text` includes the quotes. */
function keyOf(text: string): string {
  if (text.includes('\\'))
    try {
      return JSON.parse(text) as string
    } catch {
      // A JSON key with a damaged escape sequence never equals a wanted key.
    }
  return text.slice(1, -1)
}
