/**
 * Everything that is claimed of the cuda target, measured on the GPU of this machine: see `usage`. Results are written as they
 * come; a run goes on where the last one with the same file ended.
 */
import { parseArgs } from 'node:util'
import { findCuda } from '../../src/targets/cuda/driver.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { compileAhead } from './ahead.ts'
import { planCells, sectionNames, type Cell, type CellResult } from './cells.ts'
import { measureAttend } from './attend.ts'
import { measureGemm } from './gemm.ts'
import { judge, verdict } from './goals.ts'
import { measureLaunch } from './launch.ts'
import { measureOperation } from './operation.ts'
import { fail, lostStatus, parsed, partOf, surviveLostDevices } from './process.ts'
import { Pattern, type HalfDType } from './pattern.ts'
import { closePeers } from './peers.ts'
import { isLost, stageOptions, type Effort } from './stage.ts'
import { Store } from './store.ts'
import { asText, summaryOf, tablesOf } from './tables.ts'

const usage = `npx tsx bench/gpu/run.ts [options]

  --only SECTION,...   ${sectionNames.join(', ')}; all by default
  --match TEXT         only cells whose name has this in it, such as 'bf16 K M=8'; may be given several times
  --shard K|M          where A is cut for All-Gather + GEMM; K by default
  --quick              fewer cells and rounds
  --seconds S          for each cell; 0.6 by default, 0.15 with --quick
  --json FILE          results, written as they come and read at the start; bench-gpu.json by default,
                       bench-gpu-quick.json with --quick
  --again              measure again what the file has already
  --verbose            print what is about to be done, too
  --list               print the cells and end
  --compile PART/PARTS only compile the kernels of every PARTS-th cell, for a later run: start PARTS of them at once
  --help

Exit status: 0 all was measured, 1 something failed or was wrong, 2 nothing can be measured here.
To run it where there is only Node: esbuild bench/gpu/run.ts --bundle --platform=node --format=esm --external:koffi`

const { values: options } = parsed(() =>
  parseArgs({
    options: {
      only: { type: 'string', default: sectionNames.join(',') },
      match: { type: 'string', multiple: true, default: [] },
      shard: { type: 'string', default: 'K' },
      quick: { type: 'boolean', default: false },
      seconds: { type: 'string' },
      json: { type: 'string' },
      again: { type: 'boolean', default: false },
      verbose: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      compile: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  }),
)

if (options.help) {
  console.log(usage)
  process.exit(0)
}
const sections = options.only.split(',')
const unknown = sections.find((name) => !(sectionNames as readonly string[]).includes(name))
if (unknown !== undefined) fail(`there is no section ${unknown}; there is ${sectionNames.join(', ')}`)
const { shard, quick } = options
if (shard !== 'K' && shard !== 'M') fail(`--shard ${shard}: it is K or M`)
const seconds = Number(options.seconds ?? (quick ? 0.15 : 0.6))
if (!(seconds > 0)) fail(`--seconds ${options.seconds}: it is a number above 0`)
const effort: Effort = quick
  ? { seconds, leastRounds: 8, mostRounds: 52 }
  : { seconds, leastRounds: 16, mostRounds: 152 }

const cells = planCells({ quick, shard }).filter(
  ({ section, key }) =>
    sections.includes(section) &&
    (options.match.length === 0 || options.match.some((text) => `${key} `.includes(`${text} `))),
)
if (cells.length === 0) fail(`no cell has ${options.match.join(' or ')} in its name; --list names them`)
if (options.list) {
  for (const { key } of cells) console.log(key)
  process.exit(0)
}

const patterns = new Map<HalfDType, Pattern>()
function patternOf(dtype: HalfDType): Pattern {
  let pattern = patterns.get(dtype)
  if (!pattern) patterns.set(dtype, (pattern = new Pattern(dtype, Date.now())))
  return pattern
}

/** What is no operation. */
const sectionOf: Readonly<Partial<Record<string, (cell: Cell) => Promise<CellResult>>>> = {
  gemm: (cell) => measureGemm(cell, patternOf(cell.dtype), effort, !quick),
  attend: (cell) => measureAttend(cell, patternOf(cell.dtype), effort),
  launch: (cell) => measureLaunch(cell, effort),
}
const measureCell = (cell: Cell): Promise<CellResult> =>
  sectionOf[cell.section]?.(cell) ?? measureOperation(cell, patternOf(cell.dtype), effort)

if (options.compile !== undefined) {
  const isOurs = partOf(options.compile)
  if (!isOurs) fail(`--compile ${options.compile}: it is such as 0/8, the first of eight parts`)
  compileAhead()
  for (const [n, cell] of cells.entries())
    if (isOurs(n))
      for (const [what, why] of Object.entries((await measureCell(cell)).failed))
        console.log(`${cell.key}: ${what}: ${why}`)
  process.exit(0)
}

surviveLostDevices()

const start = performance.now()
const log = (text: string): void =>
  console.log(`[${((performance.now() - start) / 1000).toFixed(1).padStart(6)} s] ${text}`)

if (options.verbose) stageOptions.onProgress = (what) => log(`  ${what}`)

const cuda = findCuda()
if (!cuda.available) fail(`nothing is measured: ${cuda.reason}`)
const { name, sms } = Device.open(0)
const machine = {
  device: name,
  multiprocessors: sms,
  devices: cuda.deviceCount,
  driver: cuda.driverVersion,
  node: process.version,
}
const store = new Store(
  options.json ?? `bench-gpu${quick ? '-quick' : ''}.json`,
  machine,
  new Date().toISOString().slice(0, 10),
)
log(`${name}, ${sms} multiprocessors, driver ${cuda.driverVersion}, Node ${process.version}`)

let failures = 0
for (const cell of cells) {
  if (store.has(cell.key) && !options.again) continue
  if (store.isGivenUp(cell.key) && !options.again) {
    log(`${cell.key}: left out, since it was begun before and never ended; --again tries it again`)
    failures++
    continue
  }
  store.begin(cell.key)
  try {
    const result = await measureCell(cell)
    store.add(result)
    failures += Object.keys(result.failed).length
    log(`${cell.key}: ${summaryOf(result)}`)
    for (const [contestant, why] of Object.entries(result.failed))
      console.log(`    ${contestant}: ${why.replaceAll('\n', '\n      ')}`)
  } catch (error) {
    failures++
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
    log(`${cell.key}: FAILED: ${message}`)
    if (isLost(message)) process.exit(lostStatus)
  }
}
await closePeers()
const asked = cells.flatMap(({ key }) => store.results.cells.find((cell) => cell.key === key) ?? [])
for (const section of sectionNames)
  for (const table of tablesOf(
    section,
    asked.filter((cell) => cell.section === section),
  ))
    console.log(asText(table))
console.log(['', ...verdict(judge(asked))].join('\n'))
log(failures === 0 ? 'all measured' : `${failures} failed`)
process.exit(failures === 0 ? 0 : 1)
