/** `arke demo`: the example ladder on the checker, from one load to a fused operation, and a race caught at its line. */
import { existsSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openWorld } from '../world/open.ts'
import { check, type CheckOptions, type Checked } from './check.ts'
import { UsageError } from './errors.ts'
import { load } from './load.ts'
import type { Progress } from './progress.ts'
import { findingBlock } from './report.ts'

const folder = fileURLToPath(new URL('../../examples/', import.meta.url))
/** How the reader starts this command: from a checkout, or installed. */
const arke = import.meta.url.endsWith('.ts') ? 'npx tsx src/cli/main.ts' : 'npx arke'
const options: CheckOptions = {
  schedules: 200,
  seed: 1,
  preemptions: 2,
  limit: 1000,
  stages: ['recorded', 'lowered'],
}

/** Whether all went as it should: the ladder clean, the mistake found. */
export async function demo(print: (text: string) => void, progress: Progress): Promise<boolean> {
  if (!existsSync(folder)) throw new UsageError('the examples are not here; the demo needs them')
  const shortly = (file: string): string => relative(process.cwd(), join(folder, file)) || file
  const onProgress = (run: { scenario: string; ranks: number }, schedules: number): void =>
    progress.show(() => `checking "${run.scenario}" on ${run.ranks} ranks: ${schedules} schedules`)

  print('Kernels that talk to each other, on ranks that this process plays. Each runs once, then under')
  print('many schedules, as written and as lowered.\n')
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
  print('  read    docs/language.md (the language on one page), then an example')
  print(`  change  ${shortly('06-message-passing.ts')}: swap the put and the signal`)
  print(`  check   ${arke} check ${shortly('06-message-passing.ts')}`)
  print(`  look    ${arke} emit ${shortly('07-all-gather-gemm.ts')} --kernel allGatherGemm --stage lowered`)
  return clean && findings(caught) > 0
}

const findings = (checked: Checked): number => checked.runs.reduce((sum, run) => sum + run.findings.length, 0)

function summary(checked: Checked): string {
  const schedules = checked.runs.reduce(
    (sum, run) => sum + (run.search?.schedules ?? 0) + (run.random?.schedules ?? 0),
    0,
  )
  const sizes = [...new Set(checked.runs.map((run) => run.ranks))].join(' and ')
  const found = findings(checked)
  return `${schedules} schedules on ${sizes} ranks: ${found === 0 ? 'nothing found' : `${found} findings`}`
}
