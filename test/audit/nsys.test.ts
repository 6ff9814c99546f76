/**
 * Tests the reader of Nsight Systems exports and the SQLite reader below it. SQLite itself (compiled to WebAssembly)
 * creates the databases, so the reader is compared with an independent program.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import sqlite, { type SQLiteValue } from 'node-sqlite3-wasm'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readNsys } from '../../src/audit/nsys.ts'
import { rangeOf } from '../../src/audit/ranges.ts'
import { SqliteDatabase } from '../../src/audit/sqlite/database.ts'
import type { SqlValue } from '../../src/audit/sqlite/record.ts'
import { columnsOf } from '../../src/audit/sqlite/schema.ts'
import { eventsOf, Kind, NONE, streams, threads } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'
import { random } from './trace.ts'

let folder = ''
let made = 0
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'arke-nsys-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Creates a database by running the SQL statements in `statements` and inserting the rows of `tables`. */
function makeDatabase(statements: readonly string[], tables: Record<string, SQLiteValue[][]> = {}): string {
  const path = join(folder, `made-${made++}.sqlite`)
  const database = new sqlite.Database(path)
  for (const statement of statements) database.exec(statement)
  database.exec('BEGIN')
  for (const [table, rows] of Object.entries(tables))
    for (const row of rows)
      database.run(`INSERT INTO ${table} VALUES (${row.map(() => '?').join(', ')})`, row)
  database.exec('COMMIT')
  database.close()
  return path
}

describe('SQLite files', () => {
  const value = fc.oneof(
    fc.integer(),
    fc.maxSafeInteger(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ maxLength: 20 }),
    // A string that is longer than a page of the database continues in overflow pages.
    fc.nat(9000).map((length) => 'é'.repeat(length)),
    fc.uint8Array({ maxLength: 30 }),
    fc.constant(null),
  )

  it.each([512, 4096, 65536])('of pages of %i bytes are read as they were written', (pageSize) => {
    fc.assert(
      fc.property(fc.array(fc.tuple(value, value, value), { maxLength: 60 }), (rows) => {
        const statements = [
          `PRAGMA page_size = ${pageSize}`,
          'CREATE TABLE t (a, id INTEGER PRIMARY KEY, b, c)',
        ]
        const path = makeDatabase(statements, { t: rows.map(([a, b, c], i) => [a, i * 1000, b, c]) })
        const warnings = new Warnings()
        const database = new SqliteDatabase(path, warnings)
        const seen: SqlValue[][] = []
        database.rows('t', ['c', 'id', 'absent', 'a', 'b'], (row) => seen.push([...row]))
        const plain = (one: SqlValue): SqlValue =>
          typeof one === 'bigint' && Number.isSafeInteger(Number(one))
            ? Number(one)
            : Object.is(one, -0)
              ? 0
              : one
        expect(seen).toEqual(rows.map(([a, b, c], i) => [c, i * 1000, null, a, b].map(plain)))
        rows.forEach(([a], i) => expect(database.find('t', i * 1000, ['a'])).toEqual([plain(a)]))
        expect(database.find('t', 1, ['a'])).toBe(null)
        expect(warnings.list()).toEqual([])
        database.close()
        rmSync(path)
      }),
      { seed: 3, numRuns: 12 },
    )
  })

  it('of many pages are walked in order, and single rows found', () => {
    const rows = Array.from({ length: 20_000 }, (_, i) => [i * 3, `name ${i}`])
    const path = makeDatabase(
      ['PRAGMA page_size = 1024', 'CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)'],
      {
        t: rows,
      },
    )
    const database = new SqliteDatabase(path, new Warnings())
    const seen: SqlValue[][] = []
    database.rows('t', ['id', 'name'], (row) => seen.push([...row]))
    expect(seen).toEqual(rows)
    for (const i of [0, 1, 777, 19_999]) expect(database.find('t', i * 3, ['name'])).toEqual([`name ${i}`])
    expect(database.find('t', 4, ['name'])).toBe(null)
    database.close()
  })

  it('have their columns parsed, whatever the CREATE statement looks like', () => {
    const sql = `CREATE TABLE "t" (
      -- a comment, with a comma
      start INTEGER NOT NULL, /* another ( */ "odd, name" TEXT DEFAULT 'a, (b' CHECK (length("odd, name") > 1),
      id INTEGER NOT NULL PRIMARY KEY, [x y] DECIMAL(10, 2), CONSTRAINT c UNIQUE (start, id), FOREIGN KEY (id) REFERENCES u(id))`
    expect(columnsOf(sql)).toEqual({ names: ['start', 'odd, name', 'id', 'x y'], rowNumber: 2 })
    expect(columnsOf('CREATE TABLE t (id INT PRIMARY KEY, b)').rowNumber).toBe(-1)
  })
})

/** Two GPUs with one process each. Both processes use correlation id 1 for their launch. */
function twoProcesses(leaveOut: readonly string[] = []): string {
  const process = (pid: number): number => 2 ** 48 + pid * 2 ** 24
  const tables: Record<string, [columns: string, rows: SQLiteValue[][]]> = {
    StringIds: [
      'id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL',
      [
        [5, 'cudaLaunchKernel_v7000'],
        [6, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'],
        [7, 'gemm'],
        [8, 'cudaStreamSynchronize_v3020'],
        [9, 'void gemm<float>(float*)'],
        [10, 'cudaMemcpyAsync_ptsz_v7000'],
      ],
    ],
    CUPTI_ACTIVITY_KIND_RUNTIME: [
      'start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER',
      [
        [100, 110, process(40) + 41, 1, 5],
        [105, 116, process(50) + 51, 1, 5],
        [120, 125, process(40) + 41, 2, 10],
        [130, 400, process(40) + 41, 3, 8],
      ],
    ],
    CUPTI_ACTIVITY_KIND_KERNEL: [
      'start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER',
      [
        [200, 250, 0, 1, 7, 1, process(40), 9, 7],
        [210, 260, 1, 2, 15, 1, process(50), 6, 7],
        [300, 320, 1, 2, 15, 77, process(50), 6, 7],
      ],
    ],
    CUPTI_ACTIVITY_KIND_MEMCPY: [
      'start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER',
      [[260, 270, 0, 7, 2, process(40), 4096, 1]],
    ],
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: [
      'start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER',
      // The first row states device 0, but the row's CUDA context belongs to device 1.
      [
        [280, 281, 0, 2, 15, 9, process(50), 2],
        [130, 400, 0, 1, 7, 3, process(40), 3],
      ],
    ],
    NVTX_EVENTS: [
      'start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER',
      [
        [90, 118, 'aten::mm, seq = 3, op_id = 12, sizes = [[2, 3], [3, 4]]', null, process(40) + 41],
        [80, 500, 'step 7', null, process(40) + 41],
        [85, 119, null, 7, process(50) + 51],
        [10, null, 'a mark', null, process(40) + 41],
      ],
    ],
    TARGET_INFO_GPU: [
      'id INTEGER, name TEXT',
      [
        [0, 'NVIDIA H100'],
        [1, 'NVIDIA H200'],
      ],
    ],
    TARGET_INFO_SESSION_START_TIME: ['utcEpochNs INTEGER', [[1_779_782_330_176_752_435n]]],
    ANALYSIS_DETAILS: ['startTime INTEGER', [[50]]],
  }
  const kept = Object.entries(tables).filter(([name]) => !leaveOut.includes(name))
  return makeDatabase(
    kept.map(([name, [columns]]) => `CREATE TABLE ${name} (${columns})`),
    Object.fromEntries(kept.map(([name, [, rows]]) => [name, rows])),
  )
}

describe('an export with two GPUs', () => {
  it('is two ranks, each with its own process, links, steps and names', async () => {
    const { ranks, names, warnings, format } = await readNsys(twoProcesses())
    expect(format).toBe('nsys')
    expect(warnings.map((one) => [one.class, one.count])).toEqual([['correlation', 1]])
    const [first, second] = ranks.map(({ timeline }) => timeline)
    expect(ranks.map(({ timeline, origin }) => [timeline.rank, origin, timeline.device])).toEqual([
      [0, 'device', 'NVIDIA H100'],
      [1, 'device', 'NVIDIA H200'],
    ])
    expect(threads(first).map(({ owner, id }) => [owner, id])).toEqual([[40, 41]])
    expect(threads(second).map(({ owner, id }) => [owner, id])).toEqual([[50, 51]])

    const { events } = first
    const absolute = (event: number): number =>
      Number(first.base - 1_779_782_330_176_752_385n) + events.start[event]
    const [kernel, copy] = [...eventsOf(streams(first)[0])]
    expect(names[events.name[kernel]]).toBe('void gemm<float>(float*)')
    expect(absolute(kernel)).toBe(200)
    expect([events.kind[copy], events.bytes.get(copy), names[events.name[copy]]]).toEqual([
      Kind.memcpy,
      4096,
      'Memcpy HtoD',
    ])
    expect(absolute(events.launch[kernel])).toBe(100)
    expect(names[events.name[events.launch[copy]]]).toBe('cudaMemcpyAsync')
    const operator = events.operator[kernel]
    expect(names[events.name[operator]]).toBe('aten::mm')
    expect(first.operands[events.operands[operator]].shapes).toEqual([
      [2, 3],
      [3, 4],
    ])
    expect(events.operator[copy]).toBe(NONE)
    expect([...events.kind].sort((a, b) => a - b)).toEqual([
      Kind.kernel,
      Kind.memcpy,
      Kind.launch,
      Kind.launch,
      Kind.synchronize,
      Kind.operator,
      Kind.step,
    ])

    const kinds = [...eventsOf(streams(second)[0])].map((event) => second.events.kind[event])
    expect(kinds).toEqual([Kind.communication, Kind.wait, Kind.communication])
    expect(second.communications).toMatchObject([{ collective: 'allReduce', library: 'nccl', group: null }])
  })

  it('may lack any table; the other tables are read', async () => {
    const tables = [
      'StringIds',
      'CUPTI_ACTIVITY_KIND_RUNTIME',
      'CUPTI_ACTIVITY_KIND_MEMCPY',
      'CUPTI_ACTIVITY_KIND_SYNCHRONIZATION',
      'NVTX_EVENTS',
      'TARGET_INFO_GPU',
      'TARGET_INFO_SESSION_START_TIME',
      'ANALYSIS_DETAILS',
    ]
    for (const leftOut of [...tables.map((table) => [table]), tables]) {
      const { ranks } = await readNsys(twoProcesses(leftOut))
      expect(ranks.map(({ timeline }) => timeline.rank)).toEqual([0, 1])
    }
    const none = await readNsys(twoProcesses(['CUPTI_ACTIVITY_KIND_KERNEL', 'CUPTI_ACTIVITY_KIND_MEMCPY']))
    expect(none.warnings.map((one) => one.class)).toEqual(['format'])
  })

  it('yields its readable part if any byte is damaged, without a throw or a hang', async () => {
    const bytes = readFileSync(twoProcesses())
    const draw = random(11)
    const path = join(folder, 'damaged.sqlite')
    for (let i = 0; i < 300; i++) {
      const damaged = Buffer.from(bytes)
      for (let n = 0; n <= draw(20); n++) damaged[draw(damaged.length)] = draw(256)
      writeFileSync(path, draw(4) === 0 ? damaged.subarray(0, draw(damaged.length)) : damaged)
      const { ranks } = await readNsys(path)
      expect(ranks.length).toBeLessThan(10)
    }
  })
})

describe('ranges', () => {
  it.each([
    ['aten::empty, op_id = 990346', Kind.operator, 'aten::empty'],
    ['aten::mm, seq = 1, op_id = 2, sizes = [[1], []]', Kind.operator, 'aten::mm'],
    ['FSDP::post_forward (blocks.10), op_id = 994942', Kind.annotation, 'FSDP::post_forward (blocks.10)'],
    ['ProfilerStep#12, op_id = 5', Kind.step, 'ProfilerStep#12'],
    ['iteration 3', Kind.step, 'iteration 3'],
    ['train_step_40', Kind.step, 'train_step_40'],
    ['step', Kind.annotation, 'step'],
    ['optimizer step 3 of 4', Kind.annotation, 'optimizer step 3 of 4'],
  ])('%s', (text, kind, name) => {
    expect(rangeOf(text)).toMatchObject({ kind, name })
  })
})

const real = join(root, '../shared/traces/nsys/mfu-2gpu.sqlite')
const here = existsSync(real)
if (!here) console.log('skipped: the real traces are not beside this checkout')

describe.skipIf(!here)('a real export', () => {
  it('has two ranks with 33 SendRecv each, and all events that SQLite counts', async () => {
    // SQLite creates a lock file beside the database. Arke's reader must work without a lock file.
    const copy = join(folder, 'real.sqlite')
    copyFileSync(real, copy)
    const database = new sqlite.Database(copy, { readOnly: true })
    const rows = (sql: string): number[] =>
      database.all(sql).map((row) => Number((row as Record<string, SQLiteValue>).n))
    const { ranks, names, warnings } = await readNsys(real)
    expect(ranks.map(({ timeline }) => timeline.rank)).toEqual([0, 1])
    const of = (kind: Kind): number[] =>
      ranks.map(({ timeline }) => timeline.events.kind.filter((one) => one === kind).length)
    expect(of(Kind.communication)).toEqual([33, 33])
    const kernels = rows(
      'SELECT count(*) n FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId ORDER BY deviceId',
    )
    expect(of(Kind.kernel).map((count) => count + 33)).toEqual(kernels)
    expect(of(Kind.memcpy)).toEqual(
      rows('SELECT count(*) n FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY deviceId ORDER BY deviceId'),
    )
    const busy = ranks.map(({ timeline: { events } }) =>
      [...events.duration].reduce(
        (sum, one, i) => (events.kind[i] <= Kind.communication ? sum + one : sum),
        0,
      ),
    )
    expect(busy).toEqual(
      rows(
        `SELECT sum(d) n FROM (SELECT deviceId, end - start d FROM CUPTI_ACTIVITY_KIND_KERNEL
         UNION ALL SELECT deviceId, end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY
         UNION ALL SELECT deviceId, end - start FROM CUPTI_ACTIVITY_KIND_MEMSET) GROUP BY deviceId ORDER BY deviceId`,
      ),
    )
    const idsOf = (table: string, owner: string): string[] =>
      database
        .all(`SELECT (${owner} / 16777216) || ' ' || correlationId id FROM CUPTI_ACTIVITY_KIND_${table}`)
        .map((row) => String((row as Record<string, SQLiteValue>).id))
    const calls = new Set(idsOf('RUNTIME', 'globalTid'))
    const unlinked = ['KERNEL', 'MEMCPY', 'MEMSET']
      .flatMap((table) => idsOf(table, 'globalPid'))
      .filter((id) => !calls.has(id))
    expect(warnings.map((one) => [one.class, one.count])).toEqual([['correlation', unlinked.length]])
    expect(names).toContain('aten::empty')
    database.close()
  })
})
