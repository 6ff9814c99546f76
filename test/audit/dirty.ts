/**
 * Ways in which traces are damaged, each a function from good traces to bad ones, with the classes of warnings of which
 * one must name it unless the audit finds the truth all the same. Traces are edited as text: through `JSON.parse` their
 * times would be rounded.
 */
import { gzipSync } from 'node:zlib'
import type { WarningClass } from '../../src/timeline/warnings.ts'
import type { TraceBytes } from './auditFiles.ts'

export interface Damage {
  readonly what: string
  /** One of them must be there, where the result is not the truth; none: it must be the truth. */
  readonly classes: readonly WarningClass[]
  /** The result must be the truth, and yet a warning must say what was wrong. */
  readonly harmless?: boolean
  apply(traces: readonly TraceText[]): readonly TraceBytes[]
}

/** A trace in pieces that can be edited. */
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

  /** Edits every `each`-th event of a category, from the first or the one given; returns itself. */
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

const field = (event: string, key: string): number =>
  Number(new RegExp(`"${key}": (-?[\\d.]+)`).exec(event)?.[1])
const set = (event: string, key: string, value: string): string =>
  event.replace(new RegExp(`"${key}": (-?[\\d.]+|"[^"]*")`), `"${key}": ${value}`)
const without = (event: string, key: string): string =>
  event.replace(new RegExp(`, "${key}": [^,}\\n]+|"${key}": [^,}\\n]+, `), '')

/** Rank 0 is damaged, the others stay as they are. */
const first =
  (change: (trace: TraceText) => Uint8Array | string) =>
  (traces: readonly TraceText[]): TraceBytes[] => {
    const [trace, ...others] = traces.map((one) => one.copy())
    const changed = change(trace)
    const bytes = typeof changed === 'string' ? Buffer.from(changed) : changed
    return [{ name: trace.name, bytes }, ...others.map((one) => one.bytes)]
  }

const edited = (
  category: string,
  each: number,
  change: (event: string) => string,
): ((traces: readonly TraceText[]) => TraceBytes[]) =>
  first((trace) => trace.edit(category, each, change).text)

const cut = (bytes: Uint8Array, share: number): Uint8Array =>
  bytes.subarray(0, Math.floor(bytes.length * share))
const flipped = (bytes: Uint8Array, at: number): Uint8Array => {
  const copy = Uint8Array.from(bytes)
  copy[at] ^= 0x55
  return copy
}
const step = (number: number, from: number): string =>
  `  {\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#${number}", "pid": 4000, "tid": 4000,\n    "ts": ${from}, "dur": 0.5,\n    "args": {\n      "External id": 99\n    }\n  }`
const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)

export const damages: readonly Damage[] = [
  // The file as a whole
  ...[0.1, 0.5, 0.9, 0.999].map((share): Damage => ({
    what: `gzip that ends after ${share * 100} %`,
    classes: ['gzip', 'truncated'],
    apply: first((trace) => cut(gzipSync(trace.text), share)),
  })),
  ...[0.01, 0.3, 0.62, 0.99].map((share): Damage => ({
    what: `JSON that ends after ${share * 100} %`,
    classes: ['truncated'],
    apply: first((trace) => cut(Buffer.from(trace.text), share)),
  })),
  {
    what: 'JSON that ends behind an event, as of a process that was killed',
    classes: ['truncated'],
    apply: first((trace) => trace.head + trace.events.slice(0, -40).join(',\n')),
  },
  {
    what: 'a wrong checksum behind the compressed data',
    classes: ['gzip'],
    apply: first((trace) => {
      const bytes = gzipSync(trace.text)
      return flipped(bytes, bytes.length - 6)
    }),
  },
  {
    what: 'a wrong length behind the compressed data',
    classes: ['gzip'],
    apply: first((trace) => {
      const bytes = gzipSync(trace.text)
      return flipped(bytes, bytes.length - 2)
    }),
  },
  {
    what: 'a damaged byte in the compressed data',
    classes: ['gzip', 'garbage', 'truncated', 'time', 'correlation'],
    apply: first((trace) => {
      const bytes = gzipSync(trace.text)
      return flipped(bytes, bytes.length >> 1)
    }),
  },
  {
    what: 'garbage behind the compressed data',
    classes: ['gzip', 'garbage'],
    apply: first((trace) => Buffer.concat([gzipSync(trace.text), Buffer.from('not compressed')])),
  },
  {
    what: 'compressed data in two members',
    classes: [],
    apply: first((trace) => {
      const bytes = Buffer.from(trace.text)
      return Buffer.concat([gzipSync(bytes.subarray(0, 5000)), gzipSync(bytes.subarray(5000))])
    }),
  },
  {
    what: 'compressed twice',
    classes: ['format', 'garbage', 'no-events'],
    apply: first((trace) => gzipSync(gzipSync(trace.text))),
  },
  { what: 'an empty file', classes: ['no-events', 'format', 'missing-ranks'], apply: first(() => '') },
  { what: 'one byte', classes: ['no-events', 'format', 'truncated', 'garbage'], apply: first(() => '{') },
  {
    what: 'a binary file',
    classes: ['garbage', 'format'],
    apply: first(() => Uint8Array.from({ length: 20_000 }, (_, i) => (i * 7919) >> 3)),
  },
  {
    what: 'a text that is no trace',
    classes: ['garbage', 'format', 'no-events'],
    apply: first(() => 'Traceback (most recent call last):\n  File "train.py", line 3\n'),
  },
  {
    what: 'JSON that is no trace',
    classes: ['no-events', 'format'],
    apply: first(() => '{"answer": [42, {"a": null}]}'),
  },
  { what: 'a JSON number', classes: ['garbage', 'format', 'no-events'], apply: first(() => '42') },
  { what: 'a byte order mark', classes: [], apply: first((trace) => `\ufeff${trace.text}`) },
  {
    what: 'UTF-16',
    classes: ['garbage', 'format', 'no-events'],
    apply: first((trace) => Buffer.from(`\ufeff${trace.text}`, 'utf16le')),
  },
  {
    what: 'a log line before the trace',
    classes: ['garbage'],
    harmless: true,
    apply: first((trace) => `INFO: profiling done\n${trace.text}`),
  },
  {
    what: 'garbage behind the trace',
    classes: ['garbage'],
    harmless: true,
    apply: first((trace) => `${trace.text}\n}}]] done.\n`),
  },
  {
    what: 'zeros behind the trace, as of a file that was allocated and not filled',
    classes: ['garbage'],
    apply: first((trace) => trace.text + '\0'.repeat(4096)),
  },
  { what: 'carriage returns', classes: [], apply: first((trace) => trace.text.replaceAll('\n', '\r\n')) },
  { what: 'no white space', classes: [], apply: first((trace) => trace.text.replace(/\n */g, '')) },
  {
    what: 'events as the whole document',
    classes: ['rank', 'clock', 'duplicate-rank'],
    apply: first((trace) => `[${trace.events.join(',')}]`),
  },
  {
    what: 'events in another order',
    classes: [],
    apply: first((trace) => ((trace.events = shuffled(trace.events)), trace.text)),
  },

  // Ranks
  {
    what: 'two JSON documents in one file',
    classes: ['documents'],
    harmless: true,
    apply: ([one, other, ...rest]) => [
      { name: 'two.json', bytes: Buffer.from(one.text + other.text) },
      ...rest.map((trace) => trace.bytes),
    ],
  },
  {
    what: 'several ranks in one document',
    classes: ['several-ranks'],
    harmless: true,
    apply: ([one, other, ...rest]) => {
      const both = one.copy()
      both.events = [
        ...one.events,
        ...other.events.map((event) => shiftIds(event, 500_000).replace('"device": 0', '"device": 1')),
      ]
      return [both.bytes, ...rest.map((trace) => trace.bytes)]
    },
  },
  {
    what: 'several ranks on one device in one document',
    classes: ['several-ranks', 'overlap'],
    apply: ([one, other, ...rest]) => {
      const both = one.copy()
      both.events = [...one.events, ...other.events.map((event) => shiftIds(event, 500_000))]
      return [both.bytes, ...rest.map((trace) => trace.bytes)]
    },
  },
  {
    what: 'a rank that is missing',
    classes: ['missing-ranks'],
    apply: (traces) => traces.slice(1).map(({ bytes }) => bytes),
  },
  {
    what: 'one rank of many',
    classes: ['missing-ranks'],
    apply: (traces) => traces.slice(2, 3).map(({ bytes }) => bytes),
  },
  {
    what: 'a file twice',
    classes: ['duplicate-rank'],
    harmless: true,
    apply: (traces) => [
      ...traces.map(({ bytes }) => bytes),
      { ...traces[1].bytes, name: 'copy of rank1.json' },
    ],
  },
  {
    what: 'two ranks of one number',
    classes: ['duplicate-rank'],
    apply: first((trace) => trace.text.replace('"rank": 0', '"rank": 1')),
  },
  {
    what: 'ranks that nothing tells',
    classes: ['rank'],
    harmless: true,
    apply: (traces) =>
      traces.map((trace, i) => ({
        name: `${'abcdefgh'[i]}.json`,
        bytes: Buffer.from(trace.text.replace(/\n {2}"distributedInfo".*\n/, '\n')),
      })),
  },
  {
    what: 'a rank that is not a number',
    classes: ['rank', 'garbage'],
    apply: first((trace) => trace.text.replace('"rank": 0', '"rank": "zero"')),
  },
  {
    what: 'a rank without device work',
    classes: ['no-events', 'missing-ranks'],
    apply: first((trace) => {
      trace.events = trace.events.filter((event) => !/"cat": "(kernel|gpu_\w+)"/.test(event))
      return trace.text
    }),
  },
  {
    what: 'a collective that one rank has not recorded',
    classes: ['unmatched', 'missing-ranks'],
    apply: first((trace) => {
      trace.events.splice(
        trace.events.findIndex((event) => event.includes('nccl')),
        1,
      )
      return trace.text
    }),
  },
  {
    what: 'a clock that is years away',
    classes: ['clock'],
    harmless: true,
    apply: first((trace) => trace.text.replace(/"baseTimeNanoseconds": \d+/, '"baseTimeNanoseconds": 0')),
  },
  {
    what: 'an unreadable base time',
    classes: ['clock', 'garbage'],
    harmless: true,
    apply: first((trace) => trace.text.replace(/"baseTimeNanoseconds": \d+/, '"baseTimeNanoseconds": 1e400')),
  },

  // Steps
  {
    what: 'a step without work',
    classes: ['steps'],
    harmless: true,
    apply: (traces) =>
      traces.map((trace) => {
        const last = Math.max(...trace.events.map((event) => field(event, 'ts') + field(event, 'dur')))
        const copy = trace.copy()
        copy.events.push(step(99, Math.ceil(last) + 10))
        return copy.bytes
      }),
  },
  {
    what: 'a step that one rank has not recorded',
    classes: ['steps'],
    apply: first((trace) => {
      trace.events.splice(
        trace.events.findIndex((event) => event.includes('ProfilerStep')),
        1,
      )
      return trace.text
    }),
  },
  {
    what: 'a step that is there twice',
    classes: ['steps'],
    apply: first((trace) => {
      trace.events.push(trace.events[0])
      return trace.text
    }),
  },

  // The document
  {
    what: 'no traceEvents',
    classes: ['no-events'],
    apply: first((trace) => trace.text.replace('"traceEvents"', '"events"')),
  },
  ...['null', '"none"', '{}', '[]', '[null, 3, "x", [], {}]'].map((value): Damage => ({
    what: `traceEvents that are ${value}`,
    classes: ['no-events', 'garbage'],
    apply: first(() => `{"schemaVersion": 1, "traceEvents": ${value}, "displayTimeUnit": "ms"}`),
  })),
  {
    what: 'a metadata value nested 100,000 deep',
    classes: [],
    apply: first((trace) => trace.text.replace('{\n', `{\n  "deep": ${nested(100_000)},\n`)),
  },
  {
    what: 'a wanted metadata value nested 100,000 deep',
    classes: ['garbage'],
    harmless: true,
    apply: first((trace) =>
      trace.text.replace(/"deviceProperties": .*,\n/, `"deviceProperties": ${nested(100_000)},\n`),
    ),
  },
  {
    what: 'args nested 100,000 deep',
    classes: ['garbage'],
    apply: edited('kernel', 1e9, (event) => event.replace('"context": 1', `"context": ${nested(100_000)}`)),
  },
  {
    what: 'a value of 9 MB',
    classes: ['too-large'],
    harmless: true,
    apply: edited('cpu_op', 1e9, (event) =>
      event.replace('"Record function id": 0', `"stack": "${'x'.repeat(9 << 20)}"`),
    ),
  },
  {
    what: 'a name of 1 MB',
    classes: [],
    apply: edited('cpu_op', 1e9, (event) => set(event, 'name', `"${'x'.repeat(1 << 20)}"`)),
  },
  {
    what: 'bytes that are no UTF-8 in a name',
    classes: [],
    apply: first((trace) =>
      Buffer.from(
        trace.edit('cpu_op', 3, (event) => set(event, 'name', '"caf\u00e9 \u00ff"')).text,
        'latin1',
      ),
    ),
  },
  {
    what: 'a missing comma between events',
    classes: ['garbage'],
    apply: first((trace) => trace.text.replace('  },\n  {', '  }\n  {')),
  },
  {
    what: 'a comma behind the last event',
    classes: ['garbage'],
    apply: first((trace) => trace.head + trace.events.join(',\n') + ',' + trace.tail),
  },
  {
    what: 'a quote too many in an event',
    classes: ['garbage', 'truncated'],
    apply: edited('cpu_op', 1e9, (event) => event.replace('"Record', '""Record')),
  },
  {
    what: 'single quotes',
    classes: ['garbage'],
    apply: first((trace) => trace.text.replaceAll('"', "'")),
  },

  // Events
  {
    what: 'negative durations',
    classes: ['negative-duration'],
    apply: edited('kernel', 5, (event) => set(event, 'dur', '-3')),
  },
  {
    what: 'NaN as a time',
    classes: ['time', 'garbage'],
    apply: edited('kernel', 5, (event) => set(event, 'ts', 'NaN')),
  },
  {
    what: 'Infinity as a duration',
    classes: ['time', 'garbage'],
    apply: edited('kernel', 5, (event) => set(event, 'dur', 'Infinity')),
  },
  {
    what: 'words as times',
    classes: ['time'],
    apply: edited('kernel', 5, (event) => set(event, 'ts', '"soon"')),
  },
  {
    what: 'null as a time',
    classes: ['time'],
    apply: edited('kernel', 5, (event) => set(event, 'ts', 'null')),
  },
  {
    what: 'an object as a time',
    classes: ['time'],
    apply: edited('kernel', 5, (event) => set(event, 'ts', '{"a": 1}')),
  },
  {
    what: 'times in quotes',
    classes: [],
    apply: edited('kernel', 1, (event) => event.replace(/"ts": ([\d.]+)/, '"ts": "$1"')),
  },
  {
    what: 'times with an exponent',
    classes: [],
    apply: edited('kernel', 1, (event) => event.replace(/"dur": ([\d.]+)/, '"dur": $1e0')),
  },
  { what: 'no time', classes: ['time'], apply: edited('kernel', 5, (event) => without(event, 'ts')) },
  {
    what: 'no duration',
    classes: ['time'],
    apply: edited('kernel', 5, (event) => event.replace(/, "dur": [\d.]+/, '')),
  },
  {
    what: 'a time of 1e300',
    classes: ['time'],
    apply: edited('kernel', 5, (event) => set(event, 'ts', '1e300')),
  },
  {
    what: 'a time 400 digits long',
    classes: ['time'],
    apply: edited('kernel', 5, (event) => set(event, 'ts', '9'.repeat(400))),
  },
  {
    what: 'a time a year away',
    classes: ['time', 'clock', 'unmatched', 'steps'],
    apply: edited('kernel', 1e9, (event) => set(event, 'ts', '36000000000000')),
  },
  {
    what: 'a time of 0',
    classes: ['time', 'before-launch', 'before-recording'],
    apply: edited('kernel', 1e9, (event) => set(event, 'ts', '0')),
  },
  {
    what: 'a duration of 300 years',
    classes: ['time', 'overlap'],
    apply: edited('kernel', 1e9, (event) => set(event, 'dur', '9e15')),
  },
  {
    what: 'work at once on one stream',
    classes: ['overlap'],
    apply: edited('kernel', 7, (event) => set(event, 'dur', String(field(event, 'dur') + 40))),
  },
  {
    what: 'events twice',
    classes: ['duplicate-event', 'overlap', 'duplicate-correlation'],
    harmless: true,
    apply: first((trace) => {
      trace.events = trace.events.flatMap((event) =>
        event.includes('"cat": "kernel"') ? [event, event] : [event],
      )
      return trace.text
    }),
  },
  {
    what: 'work before its launch',
    classes: ['before-launch'],
    apply: edited('cuda_runtime', 6, (event) => set(event, 'ts', String(field(event, 'ts') + 50_000))),
  },
  {
    what: 'work without correlation',
    classes: ['correlation'],
    apply: edited('kernel', 4, (event) => without(event, 'correlation')),
  },
  {
    what: 'correlation 0',
    classes: ['correlation'],
    apply: edited('kernel', 4, (event) => set(event, 'correlation', '0')),
  },
  {
    what: 'a correlation that is a word',
    classes: ['correlation'],
    apply: edited('kernel', 4, (event) => set(event, 'correlation', '"x"')),
  },
  {
    what: 'the same correlation on many launches',
    classes: ['duplicate-correlation', 'correlation'],
    apply: edited('cuda_runtime', 4, (event) => set(event, 'correlation', '1003')),
  },
  {
    what: 'launches that were not recorded',
    classes: ['correlation'],
    apply: first((trace) => {
      trace.events = trace.events.filter((event) => !event.includes('"cat": "cuda_runtime"'))
      return trace.text
    }),
  },
  {
    what: 'no external ids',
    classes: [],
    apply: edited('kernel', 1, (event) => without(event, 'External id')),
  },
  {
    what: 'external ids of other operators',
    classes: [],
    apply: edited('kernel', 3, (event) => set(event, 'External id', '987654')),
  },
  {
    what: 'a stream that is a word',
    classes: ['overlap', 'clock', 'unmatched'],
    apply: edited('kernel', 1, (event) => set(event, 'stream', '"default"')),
  },
  {
    what: 'a device that is huge',
    classes: ['several-ranks'],
    apply: edited('kernel', 1e9, (event) => set(event, 'device', '1e308')),
  },
  {
    what: 'events of unknown categories and phases',
    classes: [],
    apply: first((trace) => {
      trace.events = trace.events.flatMap((event) => [
        event,
        event.replace(/"cat": "\w+"/, '"cat": "quantum"'),
        event.replace('"ph": "X"', '"ph": "Z"'),
      ])
      return trace.text
    }),
  },
  {
    what: 'begins without ends and ends without begins',
    classes: ['time'],
    apply: first((trace) => {
      const [operator] = trace.events.filter((event) => event.includes('"cat": "cpu_op"'))
      trace.events.push(
        operator.replace('"ph": "X"', '"ph": "B"'),
        ...[1, 2].map(() => operator.replace('"ph": "X"', '"ph": "E"')),
      )
      return trace.text
    }),
  },
  {
    what: 'a group of a million ranks',
    classes: ['missing-ranks', 'unmatched'],
    apply: first((trace) => trace.text.replaceAll(/"Group size": \d+/g, '"Group size": 1000000')),
  },
  {
    what: 'group metadata that is nonsense',
    classes: ['missing-ranks', 'unmatched'],
    apply: first((trace) =>
      trace.text
        .replaceAll(/"Group size": \d+/g, '"Group size": -5')
        .replaceAll(/"Process Group Ranks": "[^"]*"/g, '"Process Group Ranks": "[99999999999999999999, x"'),
    ),
  },
  {
    what: 'sequence numbers that are nonsense',
    classes: ['unmatched'],
    apply: first((trace) => trace.text.replaceAll(/"Seq": (\d+)/g, '"Seq": -$1.5')),
  },
]

function shiftIds(event: string, by: number): string {
  return event
    .replace(/"correlation": (\d+)/, (_, id: string) => `"correlation": ${Number(id) + by}`)
    .replace(/"External id": (\d+)/, (_, id: string) => `"External id": ${Number(id) + by}`)
}

/** Always the same order, with no pattern to it. */
function shuffled(events: readonly string[]): string[] {
  return events
    .map((event, i) => ({ event, at: Math.imul(i + 1, 0x9e3779b1) >>> 0 }))
    .sort((a, b) => a.at - b.at)
    .map(({ event }) => event)
}
