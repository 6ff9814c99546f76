/**
 * Runs the tests of primitives, collectives and operations on the GPU of this machine. Each result is compared with a
 * float64 computation in plain TypeScript. The variable `usage` in this file lists the command-line options. This file
 * is run through verify.ts, or as the bundle that verify.ts writes.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'

process.env.ARKE_TARGETS = 'cuda'
// Test cases compare line numbers of source files, which a bundle knows only through its source map.
process.setSourceMapsEnabled(true)
process.env.ARKE_TIMEOUT ??= '5000'

import { findCuda } from '../../src/targets/cuda/driver.ts'
import { findNvrtc } from '../../src/targets/cuda/nvrtc.ts'
import { compileAndKeep } from '../../src/targets/cuda/open.ts'
import type { EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { worlds, type OpenOptions } from '../../src/world/open.ts'
import type { World } from '../../src/world/world.ts'
import { fakeDriver } from '../../test/cuda/fakeDriver.ts'
import { unlisted } from '../../test/targets/differential/refusals.ts'
import { fail, parsed, partOf } from './process.ts'
import { cases, expectNothing, file, runCase, type Case, type Result } from './suite.ts'

const usage = `npx tsx bench/gpu/verify.ts [options]

  --bundle FILE.mjs     must come first: only write the bundle, for a machine with Node and koffi; the bundle takes the other options
  --results FILE        result file, written after each case; cases with a result are not run again. Default: verify.json
  --only TEXT           only run cases whose name contains this text
  --again               run failed cases again
  --list                print the names of the cases and run none; without a GPU, the cases of the CUDA world are missing
  --compile PART/PARTS  only compile the kernels of every PARTS-th case, for a later run
  --refused             only emit kernels, which needs no GPU, and print the cases that the emitter refuses
  --help

The last line is 'N passed, M failed'.
Exit status: 0 all cases passed or were refused, 1 some failed, 2 this machine cannot run the tests, 3 the device was lost: run the bundle again to continue.`

const { values: options } = parsed(() =>
  parseArgs({
    options: {
      results: { type: 'string', default: 'verify.json' },
      only: { type: 'string', default: '' },
      again: { type: 'boolean', default: false },
      compile: { type: 'string' },
      refused: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }),
)
if (options.help) {
  console.log(usage)
  process.exit(0)
}

// Modes that only compile or emit need no GPU: they use a world on a fake driver.
if (options.compile || options.refused || options.list) compileOnly()
else {
  const cuda = findCuda()
  if (!cuda.available) fail(`the tests cannot run on this machine: ${cuda.reason}`)
}

const files: Readonly<Record<string, () => Promise<unknown>>> = {
  world: () => import('../../test/cuda/device.test.ts'),
  arithmetic: () => import('../../test/targets/primitives/arithmetic.test.ts'),
  casts: () => import('../../test/targets/primitives/casts.test.ts'),
  moves: () => import('../../test/targets/primitives/moves.test.ts'),
  matrices: () => import('../../test/targets/primitives/matrices.test.ts'),
  atomics: () => import('../../test/targets/primitives/atomics.test.ts'),
  synchronisation: () => import('../../test/targets/primitives/synchronisation.test.ts'),
  stress: () => import('../../test/targets/primitives/stress.test.ts'),
  functions: () => import('../../test/targets/primitives/functions.test.ts'),
  gathered: () => import('../../test/targets/primitives/gathered.test.ts'),
  randomNumbers: () => import('../../test/targets/primitives/random.test.ts'),
  diagnostics: () => import('../../test/targets/primitives/diagnostics.test.ts'),
  hostSignals: () => import('../../test/targets/primitives/hostSignals.test.ts'),
  insideRoles: () => import('../../test/targets/primitives/insideRoles.test.ts'),
  lastArrival: () => import('../../test/targets/primitives/lastArrival.test.ts'),
  copiesInFlight: () => import('../../test/targets/primitives/copiesInFlight.test.ts'),
  clusters: () => import('../../test/targets/primitives/clusters.test.ts'),
  streams: () => import('../../test/targets/primitives/streams.test.ts'),
  groups: () => import('../../test/world/groups.test.ts'),
  random: () => import('../../test/targets/differential/differential.test.ts'),
  collectives: () => import('../../test/ops/collectives/targets.test.ts'),
  operations: () => import('../../test/ops/targets.test.ts'),
}
for (const [name, collect] of Object.entries(files)) {
  file(name)
  await collect()
}
/**
 * True if the test case runs on a device. The names of other test cases, such as tests of the checker, do not contain
 * the target `cuda`.
 */
const isOfDevice = (name: string): boolean => /\bcuda\b/.test(name)
const asked = cases.filter(({ name }) => isOfDevice(name) && name.includes(options.only))
if (asked.length === 0) fail(`no case name contains '${options.only}'; --list prints the names`)
if (options.list) for (const { name } of asked) console.log(name)
else if (options.compile) await compile(asked, options.compile)
else if (options.refused) await emit(asked)
else await verify(asked)

/**
 * Opens worlds on a fake driver that runs nothing. A launch on a world with a fake driver ends once its kernel is
 * compiled, or only emitted.
 */
function compileOnly(): void {
  expectNothing()
  const { driver } = fakeDriver()
  const device = new Device(driver, 0)
  const [cuda, nvrtc] = [findCuda(), findNvrtc()]
  const isHere = options.compile !== undefined && cuda.available && nvrtc.available
  const compileFor = isHere ? compileAndKeep(nvrtc.version, cuda.driverVersion) : undefined
  const real = isHere ? Device.open(0) : device
  const platform = {
    devices: [device],
    compile: (emitted: EmittedKernel) => compileFor?.(emitted, real) ?? new Uint8Array(),
  }
  // On a fake driver no kernel changes the memory, so a host that polls would never end; therefore `peek` fails.
  const peek = (): Promise<never> => Promise.reject(new Error('this world runs no kernels'))
  const open = ({ ranks, record }: OpenOptions): World =>
    Object.assign(new CudaWorld(platform, { ranks, record, heap: 1 << 22 }), { peek })
  ;(worlds as Record<string, typeof open>).cuda = open
}

/** Compiles the kernels of every PARTS-th test case. The results of the test cases are ignored. */
async function compile(all: readonly Case[], part: string): Promise<void> {
  const isOurs = partOf(part)
  if (!isOurs) return fail(`--compile ${part}: expected PART/PARTS, e.g. 0/8 for the first of eight parts`)
  for (const [n, one] of all.entries()) if (isOurs(n)) await runCase(one)
}

/**
 * Prints the test cases that contain a kernel which the emitter rejects. No kernel runs, so results are neither checked
 * nor stored.
 */
async function emit(all: readonly Case[]): Promise<void> {
  const results: Result[] = []
  for (const one of all) results.push(await runCase(one))
  const refused = results.filter(({ outcome, why }) => outcome === 'refused' || why?.includes(unlisted))
  for (const { name, why } of refused) console.log(`${name}\n    ${why?.replaceAll('\n', '\n    ')}`)
  console.log(`${results.length - refused.length} emitted, ${refused.length} refused`)
}

async function verify(all: readonly Case[]): Promise<void> {
  const known = existsSync(options.results)
    ? (JSON.parse(readFileSync(options.results, 'utf8')) as { running?: string; results: Result[] })
    : { results: [] }
  if (known.running !== undefined)
    known.results.push({
      name: known.running,
      outcome: 'failed',
      milliseconds: 0,
      why: 'the process ended while this case ran',
    })
  const results = known.results.filter(({ outcome }) => !options.again || outcome !== 'failed')
  const save = (running?: string): void =>
    writeFileSync(options.results, JSON.stringify({ running, results }, undefined, 1))
  let under = ''
  for (const one of all) {
    if (results.some(({ name }) => name === one.name)) continue
    const [file] = one.name.split(' > ')
    if (file !== under) {
      under = file
      console.log(`${file}: ${all.filter(({ name }) => name.startsWith(`${file} > `)).length} cases`)
    }
    save(one.name)
    const result = await runCase(one)
    results.push(result)
    if (result.outcome !== 'passed')
      console.log(`${result.outcome}  ${result.name}\n    ${result.why?.replaceAll('\n', '\n    ')}`)
    save()
    if (/cannot use the device any more|does not stop|cannot be stopped/.test(result.why ?? ''))
      process.exit(3)
  }
  // The result file may contain other test cases, from an earlier run or another value of --only.
  const names = new Set(all.map(({ name }) => name))
  const asked = results.filter(({ name }) => names.has(name))
  const count = (outcome: string): number => asked.filter((result) => result.outcome === outcome).length
  const reasons = new Map<string, number>()
  for (const { outcome, why = '' } of asked) {
    if (outcome !== 'refused') continue
    const reason = why.split('\n')[0].replace(/^.*?: /, '')
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
  }
  for (const [reason, times] of [...reasons].sort((a, b) => b[1] - a[1]))
    console.log(`refused ${times} times: ${reason}`)
  const seconds = asked.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 1000
  console.log(`${count('refused')} refused; ${seconds.toFixed(1)} s`)
  console.log(`${count('passed')} passed, ${count('failed')} failed`)
  process.exit(count('failed') > 0 ? 1 : 0)
}
