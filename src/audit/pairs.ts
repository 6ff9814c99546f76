/**
 * A Chrome trace may write an event as a begin and an end (phases B and E). This module turns the begin and the end
 * into one event with a duration. On each thread, pairs of begin and end are nested: an end event closes the latest
 * open begin event of its thread.
 */
import type { TraceEvent } from './json/event.ts'
import type { ByteStrings } from './json/strings.ts'
import { calledEvent } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'

/** The fields of a begin event that are kept until its end event arrives. */
interface Begun {
  readonly category: number
  readonly name: number
  readonly timed: boolean
  readonly whole: number
  readonly nanoseconds: number
  readonly numbers: Float64Array
  readonly texts: Int32Array
  readonly shapes: number
  readonly types: number
}

export class EventPairs {
  private readonly open = new Map<string, Begun[]>()
  private readonly strings: ByteStrings
  private readonly warnings: Warnings

  constructor(strings: ByteStrings, warnings: Warnings) {
    this.strings = strings
    this.warnings = warnings
  }

  begin(event: TraceEvent): void {
    const { category, name, timed, shapes, types } = event
    const { whole, nanoseconds } = event.time
    const numbers = event.numbers.slice()
    const texts = event.texts.slice()
    const begun = { category, name, timed, whole, nanoseconds, numbers, texts, shapes, types }
    const key = keyOf(event)
    const open = this.open.get(key)
    if (open) open.push(begun)
    else this.open.set(key, [begun])
  }

  /**
   * Turns an end event and its begin event into one event with a duration. Returns false if the thread has no open
   * begin event.
   */
  end(event: TraceEvent): boolean {
    const begun = this.open.get(keyOf(event))?.pop()
    if (!begun) {
      this.warnings.add('time', () => 'an end event has no matching begin; left out')
      return false
    }
    const { time, numbers, texts } = event
    event.phase = 'X'
    event.category = begun.category
    event.name = begun.name
    const duration = (time.whole - begun.whole) * 1000 + time.nanoseconds - begun.nanoseconds
    event.duration = event.timed && begun.timed && Number.isSafeInteger(duration) ? duration : NaN
    event.timed = begun.timed
    time.whole = begun.whole
    time.nanoseconds = begun.nanoseconds
    for (let i = 0; i < numbers.length; i++) if (Number.isNaN(numbers[i])) numbers[i] = begun.numbers[i]
    for (let i = 0; i < texts.length; i++) if (texts[i] < 0) texts[i] = begun.texts[i]
    if (event.shapes < 0) event.shapes = begun.shapes
    if (event.types < 0) event.types = begun.types
    return true
  }

  /** Warns about every begin event that has no end event. */
  finish(): void {
    for (const open of this.open.values())
      for (const { name } of open)
        this.warnings.add('time', () => {
          const called = calledEvent(name < 0 ? '' : this.strings.text(name))
          return `${called} has a begin event but no end; left out`
        })
  }
}

const keyOf = ({ document, process, thread }: TraceEvent): string => `${document} ${process} ${thread}`
