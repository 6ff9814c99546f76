/** Tests the audit's errors for a file without events: the file may be empty, cut off, or no trace at all. */
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import sqlite from 'node-sqlite3-wasm'
import { afterAll, describe, expect, it } from 'vitest'
import { AuditError, readTraces } from '../../src/audit/open.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-no-events-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The error message of the audit for a file with the given contents, without the path of the file. */
async function refusal(name: string, contents: string | Uint8Array): Promise<string> {
  const path = join(folder, name)
  writeFileSync(path, contents)
  const error: unknown = await readTraces([path]).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(AuditError)
  return (error as AuditError).message.replace(`${path}: `, '')
}

/** An SQLite database with one table of `rows` rows. */
function database(table: string, rows: number): Buffer {
  const path = join(folder, 'made.sqlite')
  rmSync(path, { force: true })
  const made = new sqlite.Database(path)
  made.exec(`CREATE TABLE ${table} (text TEXT)`)
  for (let row = 0; row < rows; row++) made.run(`INSERT INTO ${table} VALUES (?)`, ['x'.repeat(100)])
  made.close()
  return readFileSync(path)
}

const trace = JSON.stringify({
  schemaVersion: 1,
  traceEvents: [{ ph: 'X', cat: 'kernel', name: 'gemm', ts: 0, dur: 1 }],
})
const give = '; give traces of PyTorch (.json, .json.gz), Nsight Systems (.sqlite), rocprofv3 (.json) or Arke'
const cut = 'this is cut off before its first event; copy it again, or wait until the profiler has written it'

describe('an empty file', () => {
  it.each(['a.json', 'a.json.gz', 'a.sqlite', 'a.nsys-rep'])('%s', async (name) => {
    expect(await refusal(name, '')).toBe('this is empty; record or copy it again')
  })
  it('that is compressed', async () => {
    expect(await refusal('b.json.gz', gzipSync(''))).toBe(
      'this holds no data once it is decompressed; record or copy it again',
    )
  })
})

describe('a file that is cut off', () => {
  it.each([
    ['JSON, in its events', 'c.json', trace.slice(0, trace.indexOf('gemm'))],
    ['JSON, before its events', 'd.json', trace.slice(0, 12)],
    ['gzip', 'e.json.gz', gzipSync(trace.slice(0, trace.indexOf('gemm'))).subarray(0, -10)],
    ['gzip, in its header', 'f.json.gz', gzipSync(trace).subarray(0, 12)],
    ['rocprofv3', 'g.json', '{"rocprofiler-sdk-tool": [{"metadata": {'],
    ['SQLite, in its header', 'h.sqlite', database('CUPTI_ACTIVITY_KIND_KERNEL', 1).subarray(0, 60)],
    ['SQLite', 'i.sqlite', database('other', 1000).subarray(0, 4096)],
  ])('%s', async (_, name, contents) => {
    expect(await refusal(name, contents)).toBe(cut)
  })

  it('is audited as far as it goes where it has events', async () => {
    const path = join(folder, 'whole.json')
    const event = (ts: number) => ({
      ph: 'X',
      cat: 'kernel',
      name: 'gemm',
      pid: 0,
      tid: 7,
      ts,
      dur: 1,
      args: { device: 0, stream: 7 },
    })
    const text = JSON.stringify({ traceEvents: [event(0), event(2), event(4)] })
    writeFileSync(path, text)
    truncateSync(path, text.length - 20)
    const { timeline, warnings } = await readTraces([path])
    expect(timeline.ranks[0].events.start).toHaveLength(2)
    expect(warnings.map((one) => one.class)).toContain('truncated')
  })
})

describe('a file of another kind', () => {
  it.each([
    ['JSON', 'j.json', '{"name": "arke", "version": "1.0.0"}', 'JSON without trace events'],
    ['a list of numbers', 'k.json', '[1, 2, 3]', 'JSON without trace events'],
    ['text', 'l.json', 'step,loss\n1,2.5\n', 'a text file'],
    ['compressed text', 'm.json.gz', gzipSync('step,loss\n1,2.5\n'), 'a text file'],
    ['a page', 'n.trace', '<!doctype html><title>404</title>', 'an HTML page'],
    ['an image', 'o.json', Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0', 'latin1'), 'a PNG image'],
    ['bytes', 'p.json', Buffer.from([1, 2, 3, 0, 255]), 'a file of an unknown kind'],
  ])('%s', async (_, name, contents, what) => {
    expect(await refusal(name, contents)).toBe(`this is ${what}, no trace${give}`)
  })

  it('a database of somebody else', async () => {
    expect(await refusal('q.sqlite', database('customers', 3))).toBe(
      `this is an SQLite database, but no export of Nsight Systems${give}`,
    )
  })
})

it('a trace without GPU events', async () => {
  expect(await refusal('r.json', '{"traceEvents": []}')).toBe(
    'no GPU events found; record the GPU as well (ProfilerActivity.CUDA)',
  )
})
