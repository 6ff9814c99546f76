/**
 * Generates a trace file of any size for benchmarks: one rank of the demo, repeated until the file is large enough.
 *
 *   npx tsx test/audit/large.ts PATH [BYTES] [--python N] [--gzip]
 */
import { createWriteStream, readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createGzip, gunzipSync } from 'node:zlib'
import { demoJob } from '../../src/audit/demo/demo.ts'
import { layOut } from '../../src/audit/demo/layout.ts'
import { kinetoText, type WriteOptions } from '../../src/audit/demo/write.ts'

export interface LargeOptions extends WriteOptions {
  rank?: number
  gzip?: boolean
}

/**
 * Writes a trace of about `bytes` uncompressed bytes. Returns the exact size of the trace and the number of repetitions
 * of the job.
 */
export async function writeLargeTrace(
  path: string,
  bytes: number,
  { rank = 0, gzip = false, ...options }: LargeOptions = {},
): Promise<{ bytes: number; repeat: number }> {
  const laid = layOut(demoJob())
  let once = 0
  for (const piece of kinetoText(laid, rank, options)) once += piece.length
  const repeat = Math.max(1, Math.ceil(bytes / once))
  let written = 0
  function* pieces(): Generator<Buffer> {
    for (const piece of kinetoText(laid, rank, { ...options, repeat })) {
      if (piece === '') continue
      const buffer = Buffer.from(piece)
      written += buffer.length
      yield buffer
    }
  }
  const file = createWriteStream(path)
  if (gzip) await pipeline(Readable.from(pieces()), createGzip({ level: 1 }), file)
  else await pipeline(Readable.from(pieces()), file)
  return { bytes: written, repeat }
}

interface AnyEvent {
  ts?: number
  dur?: number
  args?: Record<string, unknown>
}

/** Writes the events of a real trace repeatedly, one repetition after the other in time, each with its own ids. */
export async function writeRepeated(source: string, path: string, bytes: number): Promise<number> {
  const { traceEvents, ...rest } = JSON.parse(gunzipSync(readFileSync(source)).toString()) as {
    traceEvents: AnyEvent[]
  }
  const times = traceEvents.filter(({ ts, dur }) => ts !== undefined && dur !== undefined)
  const from = times.reduce((least, { ts = 0 }) => Math.min(least, ts), Infinity)
  const to = times.reduce((most, { ts = 0, dur = 0 }) => Math.max(most, ts + dur), -Infinity)
  const span = Math.ceil(to - from)
  let written = 0
  function* pieces(): Generator<string> {
    yield `${JSON.stringify(rest).slice(0, -1)},"traceEvents":[\n`
    for (let time = 0; written < bytes; time++)
      for (const [i, event] of traceEvents.entries()) {
        const args = event.args && { ...event.args }
        for (const id of ['correlation', 'External id'])
          if (args && typeof args[id] === 'number') args[id] = args[id] + time * 1_000_000
        const moved = event.ts === undefined ? event : { ...event, ts: +(event.ts + time * span).toFixed(3) }
        const text = JSON.stringify({ ...moved, args }, undefined, 2).replaceAll('\n', '\n  ')
        const piece = `${time + i > 0 ? ',\n' : ''}  ${text}`
        written += piece.length
        yield piece
      }
    yield '\n]}\n'
  }
  await pipeline(Readable.from(pieces()), createWriteStream(path))
  return written
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const words = process.argv.slice(2)
  const flag = (name: string): number => words.indexOf(name)
  const python = flag('--python') >= 0 ? Number(words[flag('--python') + 1]) : 0
  const [path, size = '2e9'] = words.filter(
    (word, i) => !word.startsWith('--') && words[i - 1] !== '--python',
  )
  if (path === undefined)
    throw new Error('where to? npx tsx test/audit/large.ts PATH [BYTES] [--python N] [--gzip]')
  console.log(await writeLargeTrace(path, Number(size), { python, gzip: flag('--gzip') >= 0 }))
}
