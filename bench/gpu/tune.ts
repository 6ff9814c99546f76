/**
 * Measures the tile sizes for the table that Arke ships, on the GPU of this machine. The variable `usage` in this file
 * lists the command-line options.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { columns, digits } from '../../src/report/format.ts'
import { time } from '../../src/report/units.ts'
import { findCuda } from '../../src/targets/cuda/driver.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { shippedTables } from '../../src/tune/shipped.ts'
import { namedNumbers, tableSource, withTiles } from '../../src/tune/tables.ts'
import { compileAhead } from './ahead.ts'
import { layoutFrom, layoutOptions } from './cells.ts'
import { Pattern, type HalfDType } from './pattern.ts'
import { fail, lostStatus, parsed, partOf, surviveLostDevices } from './process.ts'
import { isLost } from './stage.ts'
import { Store, type Results } from './store.ts'
import { planPoints, tunedSections, tunePoint, type TunePointResult } from './tuning.ts'

const usage = `npx tsx bench/gpu/tune.ts [options]

  --only SECTION,...   ${tunedSections.join(', ')}; default: all
  --match TEXT         only points whose name contains this text, e.g. 'bf16 K M=8'; may be given several times
  --variants NAME,...  the variants to tune; default: those that the operation names, e.g. bsp and pull
  --layout NAME=VALUE  a layout option, e.g. shard=M (${layoutOptions}); default: each operation's own
  --shard VALUE        short for --layout shard=VALUE
  --tiles NUMBERS      only try these tiles and the default, e.g. 16,256,64,4; may be given several times
  --seconds S          measuring time per point in seconds; default: 1.5
  --json FILE          result file, read at the start and written after each point; default: tune-gpu.json
  --again              tune again the points that the file already contains
  --list               print the names of the points and exit
  --compile PART/PARTS only compile the kernels of every PARTS-th point, for a later run; start PARTS such processes
  --table FILE.json... write the device's table from these result files and exit; entries for other shapes are kept
  --write FILE.ts      the file that --table writes; default: src/tune/h200.ts
  --help

Exit status: 0 every point was tuned, 1 a point failed, 2 this machine cannot tune.
For a machine that has only Node, bundle it: esbuild bench/gpu/tune.ts --bundle --platform=node --format=esm --external:koffi`

const { values: options, positionals } = parsed(() =>
  parseArgs({
    allowPositionals: true,
    options: {
      only: { type: 'string', default: tunedSections.join(',') },
      match: { type: 'string', multiple: true, default: [] },
      variants: { type: 'string' },
      layout: { type: 'string', multiple: true, default: [] },
      shard: { type: 'string' },
      tiles: { type: 'string', multiple: true, default: [] },
      seconds: { type: 'string', default: '1.5' },
      json: { type: 'string', default: 'tune-gpu.json' },
      again: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      compile: { type: 'string' },
      table: { type: 'boolean', default: false },
      write: { type: 'string', default: 'src/tune/h200.ts' },
      help: { type: 'boolean', default: false },
    },
  }),
)

if (options.help) {
  console.log(usage)
  process.exit(0)
}

if (options.table) {
  if (positionals.length === 0) fail('--table: name at least one result file')
  const results = positionals.flatMap(
    (path) => (JSON.parse(readFileSync(path, 'utf8')) as Results<TunePointResult>).cells,
  )
  const found = results.flatMap(({ tuned }) =>
    tuned ? [{ asked: tuned.asked, tiles: tuned.best.tiles }] : [],
  )
  const [name, ...others] = new Set(found.map(({ asked }) => asked.device))
  if (name === undefined || others.length > 0)
    fail('--table: the files must contain results of exactly one device')
  const exported = name.split(' ').at(-1)!.toLowerCase()
  writeFileSync(options.write, tableSource(exported, name, withTiles(shippedTables, found)[name]))
  console.log(`${found.length} points of ${name} were written to ${options.write}`)
  process.exit(0)
}
if (positionals.length > 0) fail(`${positionals[0]}: files are accepted only with --table`)

const sections = options.only.split(',')
const unknown = sections.find((name) => !(tunedSections as readonly string[]).includes(name))
if (unknown !== undefined) fail(`unknown section ${unknown}; the sections are ${tunedSections.join(', ')}`)
const { shard } = options
const layout = parsed(() =>
  layoutFrom([...options.layout, ...(shard === undefined ? [] : [`shard=${shard}`])]),
)
const seconds = Number(options.seconds)
if (!(seconds > 0)) fail(`--seconds ${options.seconds}: expected a number above 0`)
const points = planPoints(layout, options.variants?.split(',')).filter(
  ({ section, key }) =>
    sections.includes(section) &&
    (options.match.length === 0 || options.match.some((text) => `${key} `.includes(`${text} `))),
)
if (points.length === 0) fail(`no point name contains ${options.match.join(' or ')}; --list prints the names`)
if (options.list) {
  for (const { key } of points) console.log(key)
  process.exit(0)
}

const patterns = new Map<HalfDType, Pattern>()
function patternOf(dtype: HalfDType): Pattern {
  let pattern = patterns.get(dtype)
  if (!pattern) patterns.set(dtype, (pattern = new Pattern(dtype, 1)))
  return pattern
}

if (options.compile !== undefined) {
  const isOurs = partOf(options.compile)
  if (!isOurs)
    fail(`--compile ${options.compile}: expected PART/PARTS, e.g. 0/8 for the first of eight parts`)
  compileAhead()
  for (const [n, point] of points.entries())
    if (isOurs(n)) {
      const { failed } = await tunePoint(point, patternOf(point.dtype), seconds, options.tiles)
      for (const [what, why] of Object.entries(failed)) console.log(`${point.key}: ${what}: ${why}`)
    }
  process.exit(0)
}

surviveLostDevices()
const cuda = findCuda()
if (!cuda.available) fail(`this machine cannot tune: ${cuda.reason}`)
const { name, processors } = Device.open(0)
const machine = {
  device: name,
  multiprocessors: processors,
  driver: cuda.driverVersion,
  node: process.version,
}
const store = new Store<TunePointResult>(options.json, machine, new Date().toISOString().slice(0, 10))
const start = performance.now()
const log = (text: string): void =>
  console.log(`[${((performance.now() - start) / 1000).toFixed(1).padStart(6)} s] ${text}`)

function summaryOf({ tuned, failed }: TunePointResult): string {
  const dropped = Object.keys(failed).length
  if (!tuned) return `the default tiles failed: ${Object.values(failed)[0]}`
  const { fallback, best, speedup, tried } = tuned
  const gain =
    best.tiles === fallback.tiles ? 'the default is fastest' : `${digits(speedup.median)} times as fast`
  return `${gain}: ${namedNumbers(best.tiles)} (${tried} candidates, ${dropped} of them dropped), ${time(best.time.median)}`
}

let failures = 0
for (const point of points) {
  if (store.has(point.key) && !options.again) continue
  if (store.isGivenUp(point.key) && !options.again) {
    log(`${point.key}: skipped, because two earlier attempts did not finish; --again tries it again`)
    failures++
    continue
  }
  store.begin(point.key)
  try {
    const result = await tunePoint(point, patternOf(point.dtype), seconds, options.tiles)
    store.add(result)
    if (!result.tuned) failures++
    log(`${point.key}: ${summaryOf(result)}`)
  } catch (error) {
    failures++
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
    log(`${point.key}: FAILED: ${message}`)
    if (isLost(message)) process.exit(lostStatus)
  }
}
const rows = points.flatMap(({ key }) => {
  const tuned = store.results.cells.find((cell) => cell.key === key)?.tuned
  if (!tuned) return []
  const { fallback, best, speedup } = tuned
  return [
    [
      key,
      namedNumbers(fallback.tiles),
      time(fallback.time.median),
      namedNumbers(best.tiles),
      time(best.time.median),
      `${digits(speedup.median)} (${speedup.interval.map(digits).join(' to ')})`,
    ],
  ]
})
console.log(
  columns([['point', 'default', 'time', 'best', 'time', 'speed-up'], ...rows], [0, 1, 3]).join('\n'),
)
log(failures === 0 ? 'every point was tuned' : `${failures} points failed`)
process.exit(failures === 0 ? 0 : 1)
