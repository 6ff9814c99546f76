/** Damage inside a trace: to the JSON document around the events, and to the events themselves. */
import { field, set, without, first, edited, type Damage } from './traceText.ts'

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)

export const damagedEvents: readonly Damage[] = [
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
    what: 'bytes that are not UTF-8 in a name',
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
    what: 'a comma after the last event',
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
    classes: ['time', 'clock', 'aligned', 'unmatched', 'steps'],
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
    what: 'overlapping work on one stream',
    classes: ['overlap'],
    apply: edited('kernel', 7, (event) => set(event, 'dur', String(field(event, 'dur') + 40))),
  },
  {
    what: 'duplicated events',
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
    classes: ['overlap', 'clock', 'aligned', 'unmatched'],
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
