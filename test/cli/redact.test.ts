/**
 * `arke audit --redact`: a trace with a secret in every field that may name a person, a machine, a file, Python code or
 * an annotation. No output may contain any of the secrets.
 */
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, inflateRawSync, inflateSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { auditCommand, type AuditCommand } from '../../src/cli/audit.ts'
import { Progress } from '../../src/cli/progress.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-redact-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let count = 0
const secrets: string[] = []
/** A new secret, which is a word that occurs nowhere else. */
function secret(): string {
  const word = `sEcr${(count++).toString(36)}Zq${(7919 * count).toString(36)}`
  secrets.push(word)
  return word
}

const shared = { group: secret(), description: secret(), communicator: secret(), annotation: secret() }

function traceOf(rank: number): string {
  const event = (cat: string, name: string, ts: number, dur: number, more: object = {}, args: object = {}) => ({
    ph: 'X', cat, name, pid: cat === 'kernel' || cat.startsWith('gpu_') ? 0 : 4711, tid: cat === 'kernel' ? 7 : 1, ts, dur, ...more, args,
  }) // prettier-ignore
  const events: object[] = []
  for (let step = 0; step < 3; step++) {
    const at = 1000 * step
    events.push(
      event('user_annotation', `ProfilerStep#${step}`, at, 900),
      event('user_annotation', shared.annotation, at + 1, 50),
      event('user_annotation', `/home/${secret()}/train.py(12): forward`, at + 60, 50),
      event('gpu_user_annotation', secret(), at + 10, 40, { tid: 7 }, { stream: 7, device: 0 }),
      event(
        'python_function',
        `/data/${secret()}/model.py(33): ${secret()}`,
        at + 2,
        40,
        {},
        { 'Python id': 1 },
      ),
      // The audit names Python functions that take at least half a millisecond to explain what the host did.
      event('python_function', `${secret()}: ${secret()}`, at + 2, 800, {}, { 'Python id': 2 }),
      event('cpu_op', secret(), at + 5, 100, {}, { 'External id': 10 * step + 1 }),
      event('cpu_op', 'aten::mm', at + 110, 90, {}, {
        'External id': 10 * step + 2, 'Input Dims': [[128, 128], [128, 128]], 'Input type': ['c10::BFloat16', secret()],
        'Fwd thread id': secret(), 'Call stack': `/opt/${secret()}/x.py(1): ${secret()}`,
      }), // prettier-ignore
      event(
        'cuda_runtime',
        'cudaLaunchKernel',
        at + 120,
        5,
        {},
        { correlation: 10 * step + 2, 'External id': 10 * step + 2 },
      ),
      event('kernel', `gemm_/srv/${secret()}/kernels/gemm.cu_${step}`, at + 150 + 40 * rank, 200, {}, {
        device: 0, stream: 7, correlation: 10 * step + 2, 'External id': 10 * step + 2, hostname: secret(),
      }), // prettier-ignore
      event('kernel', 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)', at + 400 + 40 * rank, 300 - 40 * rank, { tid: 20 }, {
        device: 0, stream: 20, correlation: 999 + step, 'Collective name': 'allreduce', 'Process Group Name': shared.group,
        'Process Group Description': shared.description, 'Process Group Ranks': '[0, 1]', 'Group size': 2, dtype: secret(),
        'In msg nelems': 100, 'Out msg nelems': 100, 'comm_id': shared.communicator, Seq: step,
      }), // prettier-ignore
      event('user_annotation', secret(), NaN, 5),
    )
  }
  return JSON.stringify({
    schemaVersion: 1,
    deviceProperties: [{ id: 0, name: 'NVIDIA H200', host: secret() }],
    hostname: secret(),
    username: secret(),
    trace_id: secret(),
    traceName: `/scratch/${secret()}/rank${rank}.json`,
    distributedInfo: { backend: 'nccl', rank, world_size: 2, pg_config: [{ pg_name: shared.group, pg_desc: shared.description, pg_size: 2, ranks: [0, 1] }] },
    traceEvents: events,
  }) // prettier-ignore
}

/** The text of a page and of all data that is compressed in it. */
function unpacked(page: string): string {
  const blocks = [...page.matchAll(/>([A-Za-z0-9+/=\s]{60,})</g)].map(([, text]) => {
    const bytes = Buffer.from(text, 'base64')
    for (const inflate of [inflateRawSync, inflateSync, gunzipSync]) {
      try {
        return inflate(bytes).toString('latin1')
      } catch {
        // The text is not compressed data in the format that `inflate` reads.
      }
    }
    return bytes.toString('latin1')
  })
  return [page, ...blocks].join('\n')
}

async function outputs(command: AuditCommand): Promise<string> {
  const printed: string[] = []
  const print = (text: string): void => void printed.push(text)
  const run = join(folder, traces)
  const page = join(folder, 'page.html')
  const chrome = join(folder, 'out.json')
  const progress = new Progress(process.stderr)
  const tables = join(folder, 'tables')
  await auditCommand([run], { ...command, html: page, trace: chrome, csv: tables }, '0', print, progress)
  await auditCommand([run], { ...command, json: true }, '0', print, progress)
  const csv = readdirSync(tables).map((name) => readFileSync(join(tables, name), 'utf8'))
  expect(csv.length).toBeGreaterThan(4)
  return [...printed, ...csv, unpacked(readFileSync(page, 'utf8')), readFileSync(chrome, 'utf8')]
    .join('\n')
    .replaceAll(folder, '')
}

const traces = secret()
mkdirSync(join(folder, traces))
const host = secret()
for (const rank of [0, 1])
  writeFileSync(join(folder, traces, `${host}_rank${rank}.4711.pt.trace.json`), traceOf(rank))

describe('--redact', () => {
  it('without it, the secrets are there, so that the test can see them', async () => {
    const text = await outputs({})
    for (const one of [host, traces, shared.annotation, shared.group]) expect(text).toContain(one)
    expect(secrets.filter((one) => text.includes(one)).length).toBeGreaterThan(20)
    // Most names in the page are in its compressed data.
    const page = readFileSync(join(folder, 'page.html'), 'utf8')
    const visible = (from: string): number => secrets.filter((one) => from.includes(one)).length
    expect(visible(unpacked(page))).toBeGreaterThan(visible(page))
  })

  it('no output contains any of them', async () => {
    const text = await outputs({ redact: true })
    expect(secrets.filter((one) => text.includes(one))).toEqual([])
    // Redaction does not change the results of the audit.
    expect(text).toMatch(/rank 1/i)
    expect(text).toContain('ncclDevKernel_AllReduce_Sum_bf16_RING_LL')
    expect(text).toContain('aten::mm')
  })

  it('the figures are those of the audit without it', async () => {
    const documents = await Promise.all(
      [false, true].map(async (redact) => {
        const printed: string[] = []
        await auditCommand(
          [join(folder, traces)],
          { redact, json: true },
          '0',
          (text) => void printed.push(text),
          new Progress(process.stderr),
        )
        return JSON.parse(printed.join('')) as {
          ranks: unknown
          stragglers: { rank: number }[]
          collectives: unknown[]
        }
      }),
    )
    expect(documents[1].ranks).toEqual(documents[0].ranks)
    expect(documents[1].stragglers.map(({ rank }) => rank)).toEqual(
      documents[0].stragglers.map(({ rank }) => rank),
    )
    expect(documents[1].collectives.length).toBe(documents[0].collectives.length)
  })
})
