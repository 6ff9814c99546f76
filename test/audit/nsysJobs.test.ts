/**
 * One job on two machines, with one Nsight Systems export per machine, created by SQLite itself. Exports of Nsight
 * Systems do not contain process groups.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sqlite from 'node-sqlite3-wasm'
import { afterAll, expect, it } from 'vitest'
import { readTraces } from '../../src/audit/open.ts'
import { type Audit, audit } from '../../src/taxes/audit.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'
import { type ParallelJob, type RankWork, run } from '../taxes/parallel.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-nsys-jobs-'))
afterAll(() => rmSync(folder, { recursive: true }))

/**
 * Writes the ranks of one machine, with one process and one GPU per rank. `ahead` is the clock offset in nanoseconds.
 */
function exportMachine(name: string, ranks: readonly RankWork[], firstProcess: number, ahead = 0): string {
  const path = join(folder, name)
  const database = new sqlite.Database(path)
  database.exec('CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)')
  database.exec(
    'CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)',
  )
  database.exec(
    'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER)',
  )
  database.exec('CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)')
  database.exec('BEGIN')
  database.run('INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)', [
    1_779_782_330_000_000_000n + BigInt(ahead),
  ])
  const names = ['cudaLaunchKernel_v7000', 'gemm', 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL']
  names.forEach((value, id) => database.run('INSERT INTO StringIds VALUES (?, ?)', [id, value]))
  ranks.forEach(({ calls, kernels }, device) => {
    const process = 2 ** 48 + (firstProcess + device) * 2 ** 24
    const work = [
      ...kernels.map(({ start, end }) => ({ start, end, stream: 7, name: 1 })),
      ...calls.map(({ start, end, stream }) => ({ start, end, stream, name: 2 })),
    ].sort((a, b) => a.start - b.start)
    work.forEach(({ start, end, stream, name }, i) => {
      const correlation = i + 1
      database.run('INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)', [
        start - 9_000,
        start - 5_000,
        process + 1,
        correlation,
        0,
      ])
      database.run('INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)', [
        start,
        end,
        device,
        1,
        stream,
        correlation,
        process,
        name,
        name,
      ])
    })
  })
  database.exec('COMMIT')
  database.close()
  return path
}

async function audited(
  name: string,
  job: ParallelJob,
  ahead = 0,
): Promise<{ found: Audit; warnings: Warning[] }> {
  const ranks = run(job)
  const half = ranks.length / 2
  const { timeline, warnings: read } = await readTraces([
    exportMachine(`${name}-a.sqlite`, ranks.slice(0, half), 100),
    exportMachine(`${name}-b.sqlite`, ranks.slice(half), 200, ahead),
  ])
  expect(timeline.ranks.map(({ rank }) => rank)).toEqual(ranks.map((_, rank) => rank))
  const warnings = new Warnings()
  const found = audit(timeline, warnings)
  return { found, warnings: [...read, ...warnings.list()] }
}

it('groups of one machine each: correct clocks are kept, no innocent rank is named, and a warning explains', async () => {
  for (const layers of [undefined, [0]]) {
    const job = { tensor: 4, data: 2, slow: { rank: 5, by: 300_000, layers } }
    const { found, warnings } = await audited(`groups-${layers?.length ?? 0}`, job)
    expect(found.clocks.map(({ correction }) => correction)).toEqual(found.clocks.map(() => 0))
    expect(warnings.map((one) => one.class)).toContain('groups')
    expect([undefined, 5]).toContain(found.stragglers[0]?.rank)
  }
})

it('one group over both machines, one clock ahead: the clock is corrected, and the slow rank is named', async () => {
  const job = { tensor: 8, slow: { rank: 5, by: 300_000, layers: [2] } }
  const { found } = await audited('world', job, 3_000_000)
  for (const { rank, correction } of found.clocks)
    expect(Math.abs(correction + (rank < 4 ? 0 : 3_000_000))).toBeLessThan(2_000)
  expect(found.stragglers[0].rank).toBe(5)
})
