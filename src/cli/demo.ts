/**
 * `arke demo`: an audit of a job with a planted straggler; then the example ladder on the checker, from one load to a
 * fused operation, and a race caught at its line.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openWorld } from '../world/open.ts'
import { auditCommand } from './audit.ts'
import { check, type CheckOptions, type Checked, type Run } from './check.ts'
import { UsageError } from './errors.ts'
import { arke } from './invocation.ts'
import { load } from './load.ts'
import type { Progress } from './progress.ts'
import { findingBlock, plural } from './report.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = join(root, 'examples')
const options: CheckOptions = {
  schedules: 200,
  seed: 1,
  preemptions: 2,
  limit: 1000,
  stages: ['recorded', 'lowered'],
}

/** Whether all went as it should: the ladder clean, the mistake found. */
export async function demo(
  print: (text: string) => void,
  progress: Progress,
  version: string,
): Promise<boolean> {
  if (!existsSync(folder)) throw new UsageError('the examples are not here; the demo needs them')
  print('What the taxes cost: the traces of a job on 8 ranks, made here, with a straggler planted in it.\n')
  await auditCommand([], { demo: true }, version, print, progress)
  print('\nWhat removes them: kernels that communicate from inside.\n')
  const shortly = (file: string): string => relative(process.cwd(), join(folder, file)) || file
  const onProgress = (run: { scenario: string; ranks: number }, schedules: number): void =>
    progress.show(() => `checking "${run.scenario}" on ${run.ranks} ranks: ${schedules} schedules`)

  print(
    'Kernels that talk to each other, on ranks that this process plays. Each runs once. Then, on each world',
  )
  print('size, as written and as lowered, the orders that can make a difference are searched (with up to')
  print(
    `${options.preemptions} preemptions, at most ${options.limit}), and ${options.schedules} random schedules follow.\n`,
  )
  let clean = true
  for (const file of readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name))) {
    const source = await load(shortly(file))
    for (const scenario of source.scenarios) {
      print(`${shortly(file)}: ${scenario.name}`)
      const world = await openWorld({ ranks: scenario.ranks[0] })
      for (const line of (await scenario.run(world)) as string[]) print(`  ${line}`)
      await world.close()
    }
    const checked = await check([source], options, { onProgress })
    progress.clear()
    print(`  ${summary(checked)}\n`)
    for (const run of checked.runs) for (const found of run.findings) print(findingBlock(found, run))
    clean &&= findings(checked) === 0
  }

  const broken = shortly('broken/message-passing.ts')
  print(`${broken}: the flag is raised before the message is there\n`)
  const caught = await check([await load(broken)], { ...options, stages: ['recorded'] }, { onProgress })
  progress.clear()
  for (const run of caught.runs) for (const found of run.findings) print(findingBlock(found, run))

  print('\nNext:')
  const language = relative(process.cwd(), join(root, 'docs/language.md'))
  print(`  read    ${language} (the language on one page), then an example`)
  print(`  change  ${shortly('06-message-passing.ts')}: swap the put and the signal`)
  print(`  check   ${arke} check ${shortly('06-message-passing.ts')}`)
  print(
    `  audit   ${arke} audit TRACES (${relative(process.cwd(), join(root, 'docs/audit.md'))} says how to record them)`,
  )
  print(`  look    ${arke} emit ${shortly('07-all-gather-gemm.ts')} --kernel allGatherGemm --stage lowered`)
  return clean && findings(caught) > 0
}

const findings = (checked: Checked): number => checked.runs.reduce((sum, run) => sum + run.findings.length, 0)

function summary(checked: Checked): string {
  const total = (of: (run: Run) => number | undefined): number =>
    checked.runs.reduce((sum, run) => sum + (of(run) ?? 0), 0)
  const orders = plural(
    total((run) => run.search?.schedules),
    'order',
  )
  const extent = checked.runs.every((run) => run.search?.complete) ? 'all' : 'not all'
  const random = plural(
    total((run) => run.random?.schedules),
    'random schedule',
  )
  const sizes = [...new Set(checked.runs.map((run) => run.ranks))].join(' and ')
  const found = findings(checked)
  const outcome = found === 0 ? 'nothing found' : plural(found, 'finding')
  return `${orders} searched (${extent}), ${random}, on ${sizes} ranks: ${outcome}`
}
