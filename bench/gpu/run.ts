/**
 * Measures all published figures of the CUDA target on the GPU of this machine. The variable `usage` in this file lists
 * the command-line options. The benchmark writes its results to the file after each cell. A run continues where the
 * last run with the same file ended.
 */
import { parseArgs } from 'node:util'
import { findCuda } from '../../src/targets/cuda/driver.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { compileAhead } from './ahead.ts'
import {
  layoutFrom,
  layoutOptions,
  planCells,
  sectionNames,
  withLibraries,
  type Cell,
  type CellResult,
} from './cells.ts'
import { measureGemm } from './gemm.ts'
import { judge, verdict } from './goals.ts'
import { measureLaunch } from './launch.ts'
import { measureAgainstLibraries } from './libraries.ts'
import { measureOperation } from './operation.ts'
import { fail, lostStatus, parsed, partOf, surviveLostDevices } from './process.ts'
import { Pattern, type HalfDType } from './pattern.ts'
import { closePeers } from './peers.ts'
import { isLost, stageOptions, type Effort } from './stage.ts'
import { Store } from './store.ts'
import { asText, summaryOf, tablesOf } from './tables.ts'

const usage = `npx tsx bench/gpu/run.ts [options]

  --only SECTION,...   ${sectionNames.join(', ')}; default: all
  --match TEXT         only cells whose name contains this text, e.g. 'bf16 K M=8'; may be given several times
  --layout NAME=VALUE  a layout option, e.g. shard=M (${layoutOptions}); default: each operation's own
  --shard VALUE        short for --layout shard=VALUE
  --quick              fewer cells and rounds
  --seconds S          measuring time per cell in seconds; default: 0.6, with --quick 0.15
  --json FILE          result file, read at the start and written after each cell; default: bench-gpu.json,
                       with --quick bench-gpu-quick.json
  --again              measure again the cells that the file already contains
  --verbose            also print each step before it runs
  --list               print the names of the cells and exit
  --compile PART/PARTS only compile the kernels of every PARTS-th cell, for a later run; start PARTS such processes
  --help

Exit status: 0 everything was measured, 1 a contestant failed or was wrong, 2 this machine cannot run the benchmark.
For a machine that has only Node, bundle it: esbuild bench/gpu/run.ts --bundle --platform=node --format=esm --external:koffi`

const { values: options } = parsed(() =>
  parseArgs({
    options: {
      only: { type: 'string', default: sectionNames.join(',') },
      match: { type: 'string', multiple: true, default: [] },
      layout: { type: 'string', multiple: true, default: [] },
      shard: { type: 'string' },
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
if (unknown !== undefined) fail(`unknown section ${unknown}; the sections are ${sectionNames.join(', ')}`)
const { shard, quick } = options
const layout = parsed(() =>
  layoutFrom([...options.layout, ...(shard === undefined ? [] : [`shard=${shard}`])]),
)
const seconds = Number(options.seconds ?? (quick ? 0.15 : 0.6))
if (!(seconds > 0)) fail(`--seconds ${options.seconds}: expected a number above 0`)
const effort: Effort = quick
  ? { seconds, leastRounds: 8, mostRounds: 52 }
  : { seconds, leastRounds: 16, mostRounds: 152 }

const cells = planCells({ quick, layout }).filter(
  ({ section, key }) =>
    sections.includes(section) &&
    (options.match.length === 0 || options.match.some((text) => `${key} `.includes(`${text} `))),
)
if (cells.length === 0) fail(`no cell name contains ${options.match.join(' or ')}; --list prints the names`)
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

/** The sections of the benchmark that do not compare all variants of an operation. */
const sectionOf: Readonly<Partial<Record<string, (cell: Cell) => Promise<CellResult>>>> = {
  gemm: (cell) => measureGemm(cell, patternOf(cell.dtype), effort, !quick),
  ...Object.fromEntries(
    withLibraries.map(({ libraries }) => [
      libraries.section,
      (cell: Cell) => measureAgainstLibraries(cell, patternOf(cell.dtype), effort),
    ]),
  ),
  launch: (cell) => measureLaunch(cell, effort),
}
const measureCell = (cell: Cell): Promise<CellResult> =>
  sectionOf[cell.section]?.(cell) ?? measureOperation(cell, patternOf(cell.dtype), effort)

if (options.compile !== undefined) {
  const isOurs = partOf(options.compile)
  if (!isOurs)
    fail(`--compile ${options.compile}: expected PART/PARTS, e.g. 0/8 for the first of eight parts`)
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
if (!cuda.available) fail(`the benchmark cannot run on this machine: ${cuda.reason}`)
const { name, processors } = Device.open(0)
const machine = {
  device: name,
  multiprocessors: processors,
  devices: cuda.deviceCount,
  driver: cuda.driverVersion,
  node: process.version,
}
const store = new Store(
  options.json ?? `bench-gpu${quick ? '-quick' : ''}.json`,
  machine,
  new Date().toISOString().slice(0, 10),
)
log(`${name}, ${processors} multiprocessors, driver ${cuda.driverVersion}, Node ${process.version}`)

let failures = 0
for (const cell of cells) {
  if (store.has(cell.key) && !options.again) continue
  if (store.isGivenUp(cell.key) && !options.again) {
    log(`${cell.key}: skipped, because two earlier attempts did not finish; --again tries it again`)
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
log(failures === 0 ? 'everything was measured' : `${failures} measurements failed`)
process.exit(failures === 0 ? 0 : 1)
