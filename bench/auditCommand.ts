/**
 * Measures the built `arke audit` command: the time from the start of the process to its end, and its peak memory.
 *
 *   npm run build && npx tsx bench/auditCommand.ts [--json] [--rounds N] [--bytes 2e9] [--collectives 1e9]
 *
 * A trace of 1 MB is measured with and without the HTML page, interleaved with an empty process. After that, a trace of
 * 2 GB is measured once. The 2 GB trace repeats a real trace if one is available. The peak memory is compared with 350
 * MB plus 60 bytes per GPU event. Finally, the peak memory is measured for a 1 GB trace in which every fourth GPU event
 * is a collective, once with the HTML page and once as JSON. `--bytes 0` and `--collectives 0` skip the 2 GB trace and
 * the 1 GB trace.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeLargeTrace, writeRepeated } from '../test/audit/large.ts'
import { type Figure, measure, present } from './measure.ts'

const option = (name: string, usual: number): number => {
  const at = process.argv.indexOf(name)
  return at > 0 ? Number(process.argv[at + 1]) : usual
}
const arke = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
if (!existsSync(arke)) {
  console.error('dist/ is missing: run npm run build first')
  process.exit(1)
}
/**
 * The real trace with the most kernels per byte, which has one kernel per 2.6 kB. If there is no real trace, the demo's
 * trace with stacks is used, which has about as many kernels per byte.
 */
const real = fileURLToPath(
  new URL('../../shared/traces/kineto/a100-rank0of2-nccl-metadata.json.gz', import.meta.url),
)
const folder = mkdtempSync(join(tmpdir(), 'arke-bench-'))

function run(...args: string[]): { seconds: number; stdout: string } {
  const start = performance.now()
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    cwd: folder,
    maxBuffer: 1 << 30,
  })
  if (status !== 0) throw new Error(stderr)
  return { seconds: (performance.now() - start) / 1000, stdout }
}

interface Large {
  readonly megabytes: number
  readonly seconds: number
  readonly peak: number
  readonly limit: number
}

function large(path: string, ...options: string[]): Large {
  // The process reports its own peak memory when it ends, in kilobytes. The number of launches is a lower bound on the
  // GPU events.
  const runner = join(folder, 'runner.mjs')
  writeFileSync(
    runner,
    `import { writeFileSync } from 'node:fs'
     process.on('exit', () => writeFileSync('peak', String(process.resourceUsage().maxRSS)))
     process.argv = [process.argv[0], ${JSON.stringify(arke)}, 'audit', ...${JSON.stringify([path, '--json', ...options])}]
     await import(${JSON.stringify(arke)})`,
  )
  const { seconds, stdout } = run(runner)
  const { ranks } = JSON.parse(stdout) as { ranks: { launches: number }[] }
  const events = ranks.reduce((sum, { launches }) => sum + launches, 0)
  const peakBytes = Number(readFileSync(join(folder, 'peak'), 'utf8')) * 1024
  return {
    megabytes: statSync(path).size / 1e6,
    seconds,
    peak: peakBytes / 1e6,
    limit: 350 + (60 * events) / 1e6,
  }
}

try {
  const small = join(folder, 'rank0.json')
  await writeLargeTrace(small, 1e6)
  const underHalf = { text: 'under 0.5', reached: (median: number) => median < 0.5 }
  const figures: Figure[] = await measure(
    [
      {
        name: 'audit of 1 MB, with the HTML page',
        unit: 's',
        sample: () => run(arke, 'audit', small).seconds,
        goal: underHalf,
      },
      {
        name: 'audit of 1 MB, --no-html',
        unit: 's',
        sample: () => run(arke, 'audit', small, '--no-html').seconds,
      },
      { name: 'an empty process', unit: 's', sample: () => run('-e', '0').seconds },
    ],
    option('--rounds', 15),
  )
  const once = (name: string, unit: string, value: number, goal?: string, reached?: boolean): Figure => ({
    name,
    unit,
    median: value,
    interval: [value, value],
    samples: 1,
    goal,
    reached,
  })
  const peakOf = (name: string, { peak, limit }: Large): Figure =>
    once(name, 'MB', peak, `at most ${limit.toFixed(0)}`, peak <= limit)
  const bytes = option('--bytes', 2e9)
  if (bytes > 0) {
    const path = join(folder, 'rank1.json')
    if (existsSync(real)) await writeRepeated(real, path, bytes)
    else await writeLargeTrace(path, bytes, { python: 6 })
    const found = large(path)
    const rate = found.megabytes / found.seconds
    figures.push(
      once(
        `audit of ${found.megabytes.toFixed(0)} MB, whole command`,
        'MB/s',
        rate,
        'at least 100',
        rate >= 100,
      ),
      peakOf('  peak memory', found),
    )
    rmSync(path)
  }
  const crowded = option('--collectives', 1e9)
  if (crowded > 0) {
    const path = join(folder, 'rank2.json')
    await writeLargeTrace(path, crowded)
    figures.push(
      peakOf('peak memory, many collectives', large(path)),
      peakOf('  with the HTML page', large(path, '--html', join(folder, 'page.html'))),
    )
  }
  present('arke audit, as a process', figures)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
