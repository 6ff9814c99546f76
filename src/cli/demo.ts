/**
 * Implements `arke demo`, a tour that takes less than a minute and needs no GPU. The tour audits a generated job, finds
 * a race and its source line, checks a fused kernel, and draws a recording from an H200. At the end, the tour compares
 * bulk synchronous and fused operations on CPU ranks.
 */
import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../files.ts'
import { operations } from '../ops/operations.ts'
import { writeRunsPage } from '../report/runs/html.ts'
import type { BenchResult } from '../runs/results.ts'
import { namedNumbers, type Numbers } from '../tune/tables.ts'
import { benchCommand, type BenchCommand } from './bench.ts'
import { check, type CheckOptions, type Checked, type Run } from './check.ts'
import { UsageError } from './errors.ts'
import { arke } from './invocation.ts'
import { load } from './load.ts'
import { writeOutput } from './output.ts'
import { usualTarget } from '../targets/stages.ts'
import { checkedStages } from './options.ts'
import type { Progress } from './progress.ts'
import { recordingLines, shippedRecording } from './recording.ts'
import { findingBlock, plural } from './report.ts'

const root = fileURLToPath(packageFile(''))
const folder = join(root, 'examples')
const page = 'arke-report.html'
const recordingPage = 'arke-recording.html'
const checking: CheckOptions = {
  schedules: 200,
  seed: 1,
  preemptions: 2,
  limit: 1000,
  stages: checkedStages(usualTarget),
}
const measuring: BenchCommand = {
  variant: 'bsp,fused',
  target: 'wasm',
  ranks: 2,
  dtype: 'f32',
  skew: '0',
  seconds: 3,
  pack: true,
  seed: 1,
}

/** Returns true if the planted mistakes were found and the fused kernel has no finding. */
export async function demo(
  print: (text: string) => void,
  progress: Progress,
  version: string,
  interrupt?: AbortSignal,
): Promise<boolean> {
  if (!existsSync(folder)) throw new UsageError('the folder examples is missing, and the demo needs it')
  await auditJob(print, progress, version, interrupt)
  const caught = await findRace(print, progress, interrupt)
  const clean = !interrupt?.aborted && (await checkFused(print, progress, interrupt))
  try {
    interrupt?.throwIfAborted()
    await showRecording(print, interrupt)
    await runOperations(print, progress, version, interrupt)
    interrupt?.throwIfAborted()
  } catch (error) {
    if (!interrupt?.aborted) throw error
    return false
  }
  print('\nNext:')
  const shown = (file: string): string => relative(process.cwd(), join(root, file))
  print(
    `  audit   ${arke} audit --demo, then your own traces (${shown('docs/audit.md')} explains how to record them)`,
  )
  print(
    `  read    ${shown('docs/language.md')}, the language on one page; ${shown('docs/operations.md')}, every pattern`,
  )
  print(
    `  check   ${arke} check ${shown('examples/06-message-passing.ts')}; swap its put and signal to get a race`,
  )
  print(`  bench   ${arke} bench flash-decode --sweep KV=256..16384 --report decode.html`)
  return caught && clean
}

const shortly = (file: string): string => relative(process.cwd(), join(folder, file)) || file

async function checked(
  file: string,
  progress: Progress,
  stages: CheckOptions['stages'],
  interrupt: AbortSignal | undefined,
): Promise<Checked> {
  const onProgress = (run: { scenario: string; ranks: number }, schedules: number): void =>
    progress.show(() => `checking "${run.scenario}" on ${run.ranks} ranks: ${schedules} schedules`)
  const found = await check([await load(shortly(file))], { ...checking, stages, interrupt }, { onProgress })
  progress.clear()
  return found
}

async function auditJob(
  print: (text: string) => void,
  progress: Progress,
  version: string,
  interrupt: AbortSignal | undefined,
): Promise<void> {
  print('1. An audit of generated profiler traces of an 8-rank job with a planted straggler:\n')
  const { auditDemo } = await import('./audit.ts')
  const { document } = await auditDemo({ html: false }, version, progress, interrupt)
  progress.clear()
  for (const line of [document.headline ?? '', ...document.summary]) print(`  ${line}`)
}

/** Draws the recording of a GPU that ships with Arke. */
async function showRecording(
  print: (text: string) => void,
  interrupt: AbortSignal | undefined,
): Promise<void> {
  const recording = shippedRecording()
  print('\n4. Bulk synchronous against fused, recorded on a GPU:\n')
  print(recordingLines(recording).join('\n'))
  await writeOutput(recordingPage, writeRunsPage(recording), interrupt)
  print(`\n  The timelines in detail: ${recordingPage}`)
  print(`  All measurements on this GPU: ${relative(process.cwd(), join(root, 'docs/results-h200.md'))}`)
}

async function findRace(
  print: (text: string) => void,
  progress: Progress,
  interrupt: AbortSignal | undefined,
): Promise<boolean> {
  const file = 'broken/message-passing.ts'
  print(
    `\n2. A race, found on a laptop. In ${shortly(file)}, a flag is signalled before the message is written:\n`,
  )
  const found = await checked(file, progress, ['recorded'], interrupt)
  for (const run of found.runs) for (const finding of run.findings) print(findingBlock(finding, run))
  return findings(found) > 0
}

async function checkFused(
  print: (text: string) => void,
  progress: Progress,
  interrupt: AbortSignal | undefined,
): Promise<boolean> {
  const file = '07-all-gather-gemm.ts'
  print(`\n3. The checker searches the interleavings of a fused kernel, ${shortly(file)}:\n`)
  const found = await checked(file, progress, checking.stages, interrupt)
  print(`  ${summary(found)}`)
  for (const run of found.runs) for (const finding of run.findings) print(findingBlock(finding, run))
  return findings(found) === 0
}

async function runOperations(
  print: (text: string) => void,
  progress: Progress,
  version: string,
  interrupt: AbortSignal | undefined,
): Promise<void> {
  print(
    '\n5. A live run: ranks are threads of this machine. Bulk synchronous against fused; All-Gather + GEMM also with one rank late.',
  )
  const results: BenchResult[] = []
  for (const { name, demo } of operations) {
    if (!demo) continue
    print('')
    const command = {
      ...measuring,
      shape: namedNumbers(demo.shape as Numbers, '=', ','),
      skew: demo.skews.join(),
    }
    const result = await benchCommand(name, command, version, print, progress, interrupt)
    if (result.interrupted) return
    results.push(result)
  }
  const all: BenchResult = { ...results[0], points: results.flatMap(({ points }) => points) }
  await writeOutput(page, writeRunsPage(all), interrupt)
  print(`\nThe timelines and ledgers of these executions, side by side: ${page}`)
}

const findings = ({ runs }: Checked): number => runs.reduce((sum, run) => sum + run.findings.length, 0)

function summary({ runs }: Checked): string {
  const total = (of: (run: Run) => number | undefined): number =>
    runs.reduce((sum, run) => sum + (of(run) ?? 0), 0)
  const searched = total((run) => run.search?.schedules)
  const random = total((run) => run.random?.schedules)
  const extent = runs.every((run) => run.search?.complete) ? 'exhaustive' : 'incomplete'
  const sizes = [...new Set(runs.map((run) => run.ranks))].join(' and ')
  const found = findings({ runs } as Checked)
  const outcome = found === 0 ? 'nothing found' : plural(found, 'finding')
  return `${plural(searched, 'distinct interleaving')} searched (${extent}), ${plural(random, 'random schedule')}, on ${sizes} ranks: ${outcome}`
}
