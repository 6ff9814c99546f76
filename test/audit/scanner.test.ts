/** Tests the scanner: exact times, wanted fields, pieces of any size, and damage of every kind. */
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TraceEvent } from '../../src/audit/json/event.ts'
import { Microseconds } from '../../src/audit/json/microseconds.ts'
import { NumberField, TextField } from '../../src/audit/json/fields.ts'
import { TraceScanner, VALUE_LIMIT } from '../../src/audit/json/scanner.ts'
import { readBytes } from '../../src/audit/json/source.ts'
import { ByteStrings, OTHER } from '../../src/audit/json/strings.ts'
import { viewOf } from '../../src/audit/json/words.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { makeTrace, microseconds, random } from './trace.ts'
import { itForRuns } from '../long.ts'

interface Seen {
  name: string
  category: string
  document: number
  start: bigint
  duration: number
  correlation: number
}

function scan(pieces: Iterable<Uint8Array>) {
  const warnings = new Warnings()
  const seen: Seen[] = []
  const scanner: TraceScanner = new TraceScanner(
    {
      accept: (phase) => phase === 'X',
      event: ({ name, category, document, time, duration, numbers }) =>
        seen.push({
          name: scanner.strings.text(name),
          category: scanner.strings.text(category),
          document,
          start: BigInt(time.whole) * 1000n + BigInt(time.nanoseconds),
          duration,
          correlation: numbers[NumberField.correlation],
        }),
    },
    warnings,
  )
  for (const piece of pieces) scanner.push(piece)
  scanner.end()
  return { seen, classes: warnings.list().map((one) => one.class), scanner }
}
const scanText = (text: string) => scan([Buffer.from(text)])

function* cut(bytes: Uint8Array, size: () => number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length;) {
    const length = size()
    yield bytes.subarray(at, at + length)
    at += length
  }
}

describe('times', () => {
  const read = (text: string): bigint | null => {
    const time = new Microseconds()
    const bytes = Buffer.from(text)
    return time.read(bytes, 0, bytes.length) ? BigInt(time.whole) * 1000n + BigInt(time.nanoseconds) : null
  }

  it('are exact to the nanosecond', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }), (nanoseconds) => {
        expect(read(microseconds(nanoseconds))).toBe(nanoseconds)
      }),
    )
  })

  it.each([
    ['0', 0n],
    ['1682725898236567', 1682725898236567000n],
    ['4458676522690.655', 4458676522690655n],
    ['9007199254740991.999', 9007199254740991999n],
    ['0.0004', 0n],
    ['0.0005', 1n],
    ['0.99951', 1000n],
    ['-0.9996', -1000n],
    ['1.5e3', 1500000n],
    ['1E-3', 1n],
    ['1.7e+15', 1700000000000000000n],
    ['12.', null],
    ['.5', null],
    ['-', null],
    ['1e99', null],
    ['0e9999', 0n],
    ['NaN', null],
    ['9007199254740993000', null],
    ['1 2', null],
  ])('%s us', (text, nanoseconds) => {
    expect(read(text)).toBe(nanoseconds)
  })
})

describe('scanning', () => {
  const { text, events } = makeTrace({ seed: 5, kernels: 40 })
  const expected = events.map(({ name, category, start, duration, correlation }) => ({
    name,
    category,
    document: 0,
    start,
    duration: Number(duration),
    correlation: correlation ?? NaN,
  }))

  it('finds every event, whatever the pieces', () => {
    const bytes = Buffer.from(text)
    expect(scan([bytes]).seen).toEqual(expected)
    for (let seed = 0; seed < 30; seed++) {
      const draw = random(seed)
      const { seen, classes } = scan(cut(bytes, () => 1 + draw(seed < 3 ? 3 : 3000)))
      expect(seen).toEqual(expected)
      expect(classes).toEqual([])
    }
  })

  it('keeps metadata before and after the events', () => {
    const [metadata] = scanText(text).scanner.documents
    expect(metadata).toEqual({
      schemaVersion: 1,
      displayTimeUnit: 'ms',
      deviceProperties: [{ id: 0, name: 'NVIDIA H100', numSms: 132 }],
      distributedInfo: { backend: 'nccl', rank: 0, world_size: 2 },
      baseTimeNanoseconds: 1711964646000000000n,
    })
  })

  it('takes fields in any order, and values in any of their forms', () => {
    const event =
      '{"args":{"Process Group Ranks":[0, 1],"stream":"0x10","device":"2","comms id":18446744073709551615,"dtype":null},' +
      '"dur":"1.5","name":"a\\u0062","tid":"main","pid":-1,"ts":1e3,"cat":"kernel","other":[{"ph":1}],"ph":"X"}'
    let found = 0
    const sink = {
      accept: () => true,
      event: (one: TraceEvent) => {
        found++
        expect(scanner.strings.text(one.name)).toBe('ab')
        expect(one.duration).toBe(1500)
        expect(one.time.total()).toBe(1_000_000)
        expect(one.process).toBe(-1)
        expect(one.thread).toBeLessThan(-1)
        expect(one.numbers[NumberField.stream]).toBe(16)
        expect(one.numbers[NumberField.device]).toBe(2)
        expect(one.numbers[NumberField.correlation]).toBeNaN()
        expect(scanner.strings.text(one.texts[TextField.groupRanks])).toBe('[0, 1]')
        expect(scanner.strings.text(one.texts[TextField.communicator])).toBe('18446744073709551615')
        expect(one.texts[TextField.dtype]).toBe(-1)
      },
    }
    const scanner: TraceScanner = new TraceScanner(sink, new Warnings())
    scanner.push(Buffer.from(`[${event}]`))
    scanner.end()
    expect(found).toBe(1)
  })

  it('reads a bare array, a byte order mark, no events', () => {
    expect(scanText('\ufeff[{"ph":"X","name":"a","ts":1,"dur":2}]').seen).toHaveLength(1)
    expect(scanText('{"traceEvents":[]}').classes).toEqual([])
    expect(scanText('{"traceEvents":null, "x": -1.5e3 ,"y":true}').classes).toEqual([])
    expect(scanText('').classes).toEqual([])
  })
})

describe('damage', () => {
  it('truncated input yields the events before the cut', () => {
    const { text, events } = makeTrace({ seed: 6, kernels: 20 })
    const lastEvent = text.lastIndexOf(']')
    for (let length = 1; length < lastEvent; length += 97) {
      const { seen, classes } = scanText(text.slice(0, length))
      expect(classes).toContain('truncated')
      expect(seen.map(({ start }) => start)).toEqual(events.slice(0, seen.length).map(({ start }) => start))
      const whole = text.slice(0, length).split(/"ph": "X"/).length - 1
      expect(seen.length).toBeGreaterThanOrEqual(whole - 1)
    }
  })

  it('two documents are kept separate', () => {
    const [a, b] = [makeTrace({ seed: 1, kernels: 5 }), makeTrace({ seed: 2, kernels: 7, rank: 1 })]
    const { seen, classes, scanner } = scanText(a.text + b.text)
    expect(classes).toEqual(['documents'])
    expect(seen.filter(({ document }) => document === 0)).toHaveLength(a.events.length)
    expect(seen.filter(({ document }) => document === 1)).toHaveLength(b.events.length)
    expect(scanner.documents.map(({ distributedInfo }) => distributedInfo)).toMatchObject([
      { rank: 0 },
      { rank: 1 },
    ])
  })

  it('one broken event loses only that event', () => {
    const { text, events } = makeTrace({ seed: 7, kernels: 10, compact: true })
    const at = text.indexOf('"cat"', text.length / 2)
    for (const stray of ['"', '}', '{', 'x', '\\', '\n', '\0']) {
      const { seen, classes } = scanText(text.slice(0, at) + stray + text.slice(at))
      expect(seen.length).toBeGreaterThanOrEqual(events.length - 2)
      if (seen.length < events.length) expect(classes.length).toBeGreaterThan(0)
    }
  })

  it('an event without an end is abandoned, and memory stays bounded', () => {
    const endless = Buffer.alloc(1 << 20, 'a')
    function* pieces(): Generator<Uint8Array> {
      yield Buffer.from('{"traceEvents":[{"ph":"X","name":"')
      for (let i = 0; i < (VALUE_LIMIT >> 20) + 3; i++) yield endless
      yield Buffer.from('"},{"ph":"X","name":"after","ts":1,"dur":1}]}')
    }
    const { seen, classes } = scan(pieces())
    expect(classes).toContain('too-large')
    expect(seen.map(({ name }) => name)).toEqual(['after'])
  })

  it('the memory for distinct names is bounded', () => {
    const strings = new ByteStrings(1000)
    const ids = Array.from({ length: 300 }, (_, i) => {
      const bytes = Buffer.from(`name ${i}`)
      return strings.intern(viewOf(bytes), 0, bytes.length)
    })
    expect(strings.overflowed).toBe(true)
    expect(ids[299]).toBe(OTHER)
    expect(strings.text(ids[0])).toBe('name 0')
  })

  it('deep nesting ends quickly', () => {
    const start = performance.now()
    scanText(`{"traceEvents":[${'{"ph":"X","args":['.repeat(200_000)}`)
    scanText('['.repeat(1_000_000))
    scanText('{"ph"'.repeat(300_000))
    expect(performance.now() - start).toBeLessThan(20_000)
  })

  itForRuns('hundreds of corruptions: no throw, no hang', 600, async (runs) => {
    const made = [makeTrace({ seed: 8, kernels: 15 }), makeTrace({ seed: 9, kernels: 15, compact: true })]
    for (let seed = 0; seed < runs; seed++) {
      const draw = random(seed)
      let bytes: Uint8Array = Buffer.from(made[seed % 2].text)
      const zipped = seed % 3 === 0
      if (zipped) bytes = gzipSync(bytes)
      for (let times = 1 + draw(4); times > 0; times--) {
        const at = draw(bytes.length)
        const length = draw(200)
        const kind = draw(5)
        if (kind === 0) bytes[at] = draw(256)
        else if (kind === 1) bytes = bytes.subarray(0, at)
        else if (kind === 2) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)])
        else if (kind === 3) bytes = Buffer.concat([bytes.subarray(0, at), bytes])
        else
          bytes = Buffer.concat([bytes.subarray(0, at), Buffer.alloc(length, draw(256)), bytes.subarray(at)])
        if (bytes.length === 0) break
      }
      const warnings = new Warnings()
      const scanner = new TraceScanner({ accept: () => true, event: () => {} }, warnings)
      await readBytes(bytes, (piece) => scanner.push(piece), warnings)
      scanner.end()
    }
  })
})

describe('bytes', () => {
  const read = async (bytes: Uint8Array | string) => {
    const warnings = new Warnings()
    const pieces: Uint8Array[] = []
    const total = await readBytes(bytes, (piece) => pieces.push(Buffer.from(piece)), warnings)
    return { text: Buffer.concat(pieces).toString(), total, classes: warnings.list().map((one) => one.class) }
  }
  const { text } = makeTrace({ kernels: 50 })

  it('are decompressed if their content is gzip, whatever the file name', async () => {
    expect(await read(Buffer.from(text))).toMatchObject({ text, classes: [] })
    expect(await read(gzipSync(text))).toMatchObject({ text, total: Buffer.byteLength(text), classes: [] })
    const two = Buffer.concat([gzipSync('ab'), gzipSync('cd')])
    expect(await read(two)).toMatchObject({ text: 'abcd' })
    for (const short of ['', 'x', '\x1f'])
      expect(await read(Buffer.from(short))).toMatchObject({ text: short })
  })

  it('are read up to the damage', async () => {
    const zipped = gzipSync(text)
    const half = await read(zipped.subarray(0, zipped.length / 2))
    expect(text.startsWith(half.text)).toBe(true)
    expect(half.text.length).toBeGreaterThan(1000)
    const damaged = Buffer.from(zipped)
    damaged.fill(0xff, damaged.length / 2, damaged.length / 2 + 40)
    expect((await read(damaged)).classes).toEqual(['gzip'])
    expect((await read('no/such/file.json')).classes).toEqual(['unreadable'])
  })
})
