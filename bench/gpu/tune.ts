/** The table of tiles that is shipped, measured on the GPU of this machine: see `usage`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { columns, digits } from '../../src/report/format.ts'
import { time } from '../../src/report/units.ts'
import { findCuda } from '../../src/targets/cuda/driver.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { shippedTables } from '../../src/tune/shipped.ts'
import { namedNumbers, tableSource, withTiles } from '../../src/tune/tables.ts'
import { compileAhead } from './ahead.ts'
import { Pattern, type HalfDType } from './pattern.ts'
import { fail, lostStatus, parsed, partOf, surviveLostDevices } from './process.ts'
import { isLost } from './stage.ts'
import { Store, type Results } from './store.ts'
import { planPoints, tunedSections, tunePoint, type TunePointResult } from './tuning.ts'

const usage = `npx tsx bench/gpu/tune.ts [options]

  --only SECTION,...   ${tunedSections.join(', ')}; all by default
  --match TEXT         only points whose name has this in it, such as 'bf16 K M=8'; may be given several times
  --variants NAME,...  bsp and pull, or bsp, fused-coarse and fused, by default
  --shard K|M          where A is cut for All-Gather + GEMM; K by default
  --tiles NUMBERS      only such tiles and the default, such as 16,256,64,4; may be given several times
  --seconds S          for each point; 1.5 by default
  --json FILE          results, written as they come and read at the start; tune-gpu.json by default
  --again              tune again what the file has already
  --list               print the points and end
  --compile PART/PARTS only compile the kernels of every PARTS-th point, for a later run: start PARTS of them at once
  --table FILE.json... write the table of the device from such results, and end; what it has of other shapes stays
  --write FILE.ts      where --table writes; src/tune/h200.ts by default
  --help

Exit status: 0 all was tuned, 1 something failed, 2 nothing can be tuned here.
To run it where there is only Node: esbuild bench/gpu/tune.ts --bundle --platform=node --format=esm --external:koffi`

const { values: options, positionals } = parsed(() =>
  parseArgs({
    allowPositionals: true,
    options: {
      only: { type: 'string', default: tunedSections.join(',') },
      match: { type: 'string', multiple: true, default: [] },
      variants: { type: 'string' },
      shard: { type: 'string', default: 'K' },
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
  if (positionals.length === 0) fail('--table: name files of results')
  const results = positionals.flatMap(
    (path) => (JSON.parse(readFileSync(path, 'utf8')) as Results<TunePointResult>).cells,
  )
  const found = results.flatMap(({ tuned }) =>
    tuned ? [{ asked: tuned.asked, tiles: tuned.best.tiles }] : [],
  )
  const [name, ...others] = new Set(found.map(({ asked }) => asked.device))
  if (name === undefined || others.length > 0) fail('--table: results of one device are wanted')
  const exported = name.split(' ').at(-1)!.toLowerCase()
  writeFileSync(options.write, tableSource(exported, name, withTiles(shippedTables, found)[name]))
  console.log(`${found.length} points of ${name} are in ${options.write}`)
  process.exit(0)
}
if (positionals.length > 0) fail(`${positionals[0]}: only --table takes files`)

const sections = options.only.split(',')
const unknown = sections.find((name) => !(tunedSections as readonly string[]).includes(name))
if (unknown !== undefined) fail(`there is no section ${unknown}; there is ${tunedSections.join(', ')}`)
const { shard } = options
if (shard !== 'K' && shard !== 'M') fail(`--shard ${shard}: it is K or M`)
const seconds = Number(options.seconds)
if (!(seconds > 0)) fail(`--seconds ${options.seconds}: it is a number above 0`)
const points = planPoints(shard, options.variants?.split(',')).filter(
  ({ section, key }) =>
    sections.includes(section) &&
    (options.match.length === 0 || options.match.some((text) => `${key} `.includes(`${text} `))),
)
if (points.length === 0) fail(`no point has ${options.match.join(' or ')} in its name; --list names them`)
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
  if (!isOurs) fail(`--compile ${options.compile}: it is such as 0/8, the first of eight parts`)
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
if (!cuda.available) fail(`nothing is tuned: ${cuda.reason}`)
const { name, sms } = Device.open(0)
const machine = { device: name, multiprocessors: sms, driver: cuda.driverVersion, node: process.version }
const store = new Store<TunePointResult>(options.json, machine, new Date().toISOString().slice(0, 10))
const start = performance.now()
const log = (text: string): void =>
  console.log(`[${((performance.now() - start) / 1000).toFixed(1).padStart(6)} s] ${text}`)

function summaryOf({ tuned, failed }: TunePointResult): string {
  const dropped = Object.keys(failed).length
  if (!tuned) return `the default failed: ${Object.values(failed)[0]}`
  const { fallback, best, speedup, tried } = tuned
  const gain = best.tiles === fallback.tiles ? 'the default stays' : `${digits(speedup.median)} times as fast`
  return `${gain}: ${namedNumbers(best.tiles)} of ${tried}, ${dropped} dropped, ${time(best.time.median)}`
}

let failures = 0
for (const point of points) {
  if (store.has(point.key) && !options.again) continue
  if (store.isGivenUp(point.key) && !options.again) {
    log(`${point.key}: left out, since it was begun before and never ended; --again tries it again`)
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
console.log(columns([['point', 'default', '', 'best', '', 'faster'], ...rows], [0, 1, 3]).join('\n'))
log(failures === 0 ? 'all tuned' : `${failures} failed`)
process.exit(failures === 0 ? 0 : 1)
