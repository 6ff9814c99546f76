/**
 * Real traces: the reader's result equals that of `JSON.parse` on the whole file, and the device time equals the result
 * of another tool. The trace files are not part of this repository.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { readKinetoFile } from '../../src/audit/kineto.ts'
import { readTraces } from '../../src/audit/open.ts'
import { audit } from '../../src/taxes/audit.ts'
import { Kind, NONE } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'

const folder = join(root, '../shared/traces/kineto')
const here = existsSync(folder)
if (!here) console.log('skipped: the real traces are not beside this checkout')
const files = here ? readdirSync(folder).filter((name) => name.endsWith('.json.gz')) : []

interface Parsed {
  ph: string
  cat: string
  name: string
  ts: number
  dur: number
  tid: number
  args?: Record<string, number>
}

describe.skipIf(!here)('real traces', () => {
  it.each(files)('%s', async (name) => {
    const bytes = readFileSync(join(folder, name))
    const { traceEvents } = JSON.parse(gunzipSync(bytes).toString()) as { traceEvents: Parsed[] }
    const parsed = traceEvents.filter(({ ph }) => ph === 'X')
    const count = (...categories: string[]): number =>
      parsed.filter(({ cat }) => categories.includes(cat)).length

    const file = await readKinetoFile(join(folder, name))
    expect(file.events).toBe(traceEvents.length)
    expect(file.timeline.ranks).toHaveLength(1)
    const [{ events, base, rank }] = file.timeline.ranks
    expect(rank).toBe(Number(/rank(\d+)of/.exec(name)?.[1] ?? 0))
    const found = (...kinds: Kind[]): number =>
      events.kind.filter((kind) => kinds.includes(kind as Kind)).length
    expect(found(Kind.kernel, Kind.communication)).toBe(count('kernel'))
    expect(found(Kind.communication)).toBe(
      parsed.filter(
        (one) =>
          one.cat === 'kernel' &&
          /nccl|cross_device_reduce|multimem|_shot_|symm_mem|::.*allreduce/i.test(one.name),
      ).length,
    )
    expect(found(Kind.memcpy)).toBe(count('gpu_memcpy'))
    expect(found(Kind.memset)).toBe(count('gpu_memset'))
    expect(found(Kind.launch, Kind.synchronize, Kind.runtime)).toBe(count('cuda_runtime', 'cuda_driver'))
    expect(found(Kind.launch)).toBe(
      parsed.filter(
        ({ cat, name: call }) => /^cuda_(runtime|driver)$/.test(cat) && /Launch|Async$/.test(call),
      ).length,
    )
    expect(found(Kind.operator)).toBe(count('cpu_op'))
    expect(found(Kind.annotation, Kind.step)).toBe(count('user_annotation', 'gpu_user_annotation'))

    const device = parsed.filter(({ cat }) => ['kernel', 'gpu_memcpy', 'gpu_memset'].includes(cat))
    const calls = new Set(
      parsed.filter(({ cat }) => /^cuda_(runtime|driver)$/.test(cat)).map(({ args }) => args?.correlation),
    )
    const linked = device.filter(({ args }) => calls.has(args?.correlation)).length
    let launches = 0
    let sum = 0
    for (let i = 0; i < events.length; i++) {
      if (events.kind[i] > Kind.communication) continue
      if (events.launch[i] !== NONE) launches++
      sum += events.duration[i]
    }
    expect(launches).toBe(linked)
    expect(sum).toBe(device.reduce((ns, { dur }) => ns + Math.round(dur * 1000), 0))
    expect(base > 1_600_000_000_000_000_000n && base < 1_900_000_000_000_000_000n).toBe(true)
    const damage = ['garbage', 'truncated', 'gzip', 'documents', 'too-large', 'time', 'duplicate-event']
    expect(file.warnings.filter((one) => damage.includes(one.class))).toEqual([])
  })

  it('the device time of an H100 trace is that of TraceLens', async () => {
    const csv = readFileSync(join(folder, 'h100-qwen1.5-0.5b.tracelens-timeline.csv'), 'utf8')
    const lines = csv.trim().split('\n').slice(1)
    const expected = Object.fromEntries(
      lines.map((line) => line.split(',')).map(([type, time]) => [type, Number(time)]),
    )
    // TraceLens leaves out device work whose launch was not recorded, which belongs to the previous step.
    const { timeline } = await readTraces([join(folder, 'h100-qwen1.5-0.5b.json.gz')])
    const [{ ledger }] = audit(timeline, new Warnings()).ranks
    const milliseconds = {
      computation_time: ledger.compute / 1e6,
      exposed_comm_time: ledger.parts.communication / 1e6,
      exposed_memcpy_time: ledger.parts.copy / 1e6,
      busy_time: ledger.busy / 1e6,
      idle_time: ledger.idle / 1e6,
      total_time: ledger.wall / 1e6,
      total_memcpy_time: ledger.copy / 1e6,
      total_comm_time: ledger.communication / 1e6,
    }
    for (const [type, time] of Object.entries(milliseconds))
      expect(Math.abs(time - expected[type]), type).toBeLessThanOrEqual(expected[type] * 0.001)
  })
})
