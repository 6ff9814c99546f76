/** A trace as text in pieces that can be edited. `JSON.parse` is not used, because it would round the times. */
import type { WarningClass } from '../../src/timeline/warnings.ts'
import type { TraceBytes } from './auditFiles.ts'

export interface Damage {
  readonly what: string
  /**
   * If the audit of the damaged trace gives a wrong result, the audit must print a warning of one of these classes. If
   * the list is empty, the result must be correct.
   */
  readonly classes: readonly WarningClass[]
  /** True if the result of the audit must be the truth and a warning must nevertheless name the damage. */
  readonly harmless?: boolean
  apply(traces: readonly TraceText[]): readonly TraceBytes[]
}

export class TraceText {
  readonly name: string
  head: string
  events: string[]
  tail: string

  constructor(name: string, text: string) {
    this.name = name
    const from = text.indexOf('[\n', text.indexOf('"traceEvents"')) + 2
    const to = text.lastIndexOf('\n  ],\n')
    this.head = text.slice(0, from)
    this.events = text.slice(from, to).split(/,\n(?= {2}\{\n)/)
    this.tail = text.slice(to)
  }

  get text(): string {
    return this.head + this.events.join(',\n') + this.tail
  }

  get bytes(): TraceBytes {
    return { name: this.name, bytes: Buffer.from(this.text) }
  }

  /** Edits every `each`-th event of a category, starting with the event `first`. Returns this trace. */
  edit(category: string, each: number, change: (event: string) => string, first = 0): this {
    let seen = 0
    this.events = this.events.map((event) =>
      event.includes(`"cat": "${category}"`) && seen++ % each === first ? change(event) : event,
    )
    return this
  }

  copy(): TraceText {
    return new TraceText(this.name, this.text)
  }
}

export const field = (event: string, key: string): number =>
  Number(new RegExp(`"${key}": (-?[\\d.]+)`).exec(event)?.[1])
export const set = (event: string, key: string, value: string): string =>
  event.replace(new RegExp(`"${key}": (-?[\\d.]+|"[^"]*")`), `"${key}": ${value}`)
export const without = (event: string, key: string): string =>
  event.replace(new RegExp(`, "${key}": [^,}\\n]+|"${key}": [^,}\\n]+, `), '')

/** Damages rank 0 and leaves the other ranks unchanged. */
export const first =
  (change: (trace: TraceText) => Uint8Array | string) =>
  (traces: readonly TraceText[]): TraceBytes[] => {
    const [trace, ...others] = traces.map((one) => one.copy())
    const changed = change(trace)
    const bytes = typeof changed === 'string' ? Buffer.from(changed) : changed
    return [{ name: trace.name, bytes }, ...others.map((one) => one.bytes)]
  }

export const edited = (
  category: string,
  each: number,
  change: (event: string) => string,
): ((traces: readonly TraceText[]) => TraceBytes[]) =>
  first((trace) => trace.edit(category, each, change).text)
