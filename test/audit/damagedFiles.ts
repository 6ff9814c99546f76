/** Damage to whole files: truncated files, files with wrong bytes or the wrong rank, and files with wrong steps. */
import { gzipSync } from 'node:zlib'
import { field, first, type Damage } from './traceText.ts'

const cut = (bytes: Uint8Array, share: number): Uint8Array =>
  bytes.subarray(0, Math.floor(bytes.length * share))
const flipped = (bytes: Uint8Array, at: number): Uint8Array => {
  const copy = Uint8Array.from(bytes)
  copy[at] ^= 0x55
  return copy
}
const step = (number: number, from: number): string =>
  `  {\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#${number}", "pid": 4000, "tid": 4000,\n    "ts": ${from}, "dur": 0.5,\n    "args": {\n      "External id": 99\n    }\n  }`

export const damagedFiles: readonly Damage[] = [
  // Damage that affects a file as a whole
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
    what: 'JSON that ends after an event, as from a process that was killed',
    classes: ['truncated'],
    apply: first((trace) => trace.head + trace.events.slice(0, -40).join(',\n')),
  },
  {
    what: 'a wrong checksum after the compressed data',
    classes: ['gzip'],
    apply: first((trace) => {
      const bytes = gzipSync(trace.text)
      return flipped(bytes, bytes.length - 6)
    }),
  },
  {
    what: 'a wrong length after the compressed data',
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
    what: 'garbage after the compressed data',
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
    what: 'a text that is not a trace',
    classes: ['garbage', 'format', 'no-events'],
    apply: first(() => 'Traceback (most recent call last):\n  File "train.py", line 3\n'),
  },
  {
    what: 'JSON that is not a trace',
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
    what: 'garbage after the trace',
    classes: ['garbage'],
    harmless: true,
    apply: first((trace) => `${trace.text}\n}}]] done.\n`),
  },
  {
    what: 'zeros after the trace, as in a file that was allocated but not filled',
    classes: ['garbage'],
    apply: first((trace) => trace.text + '\0'.repeat(4096)),
  },
  { what: 'carriage returns', classes: [], apply: first((trace) => trace.text.replaceAll('\n', '\r\n')) },
  { what: 'no white space', classes: [], apply: first((trace) => trace.text.replace(/\n */g, '')) },
  {
    what: 'events as the whole document',
    classes: ['rank', 'clock', 'aligned', 'duplicate-rank'],
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
    what: 'two ranks with the same number',
    classes: ['duplicate-rank'],
    apply: first((trace) => trace.text.replace('"rank": 0', '"rank": 1')),
  },
  {
    what: 'traces without rank numbers',
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
    classes: ['aligned'],
    harmless: true,
    apply: first((trace) => trace.text.replace(/"baseTimeNanoseconds": \d+/, '"baseTimeNanoseconds": 0')),
  },
  {
    what: 'an unreadable base time',
    classes: ['clock', 'aligned', 'garbage'],
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
]

function shiftIds(event: string, by: number): string {
  return event
    .replace(/"correlation": (\d+)/, (_, id: string) => `"correlation": ${Number(id) + by}`)
    .replace(/"External id": (\d+)/, (_, id: string) => `"External id": ${Number(id) + by}`)
}

/** Reorders events in a way that looks random but is always the same. */
function shuffled(events: readonly string[]): string[] {
  return events
    .map((event, i) => ({ event, at: Math.imul(i + 1, 0x9e3779b1) >>> 0 }))
    .sort((a, b) => a.at - b.at)
    .map(({ event }) => event)
}
