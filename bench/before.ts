/**
 * Compares the variants of the operations with those of another checkout, interleaved in one process on CPU ranks:
 *
 *   npx tsx bench/before.ts CHECKOUT [--target native|wasm] [--seconds S] [--dtype f32] [--only OPERATION] [--pairs N] [--json]
 *
 * Each round executes every variant of both checkouts once, in random order, and each checkout has a world of its own.
 * A ratio above 1 means that this checkout is faster. Points and variants that the other checkout does not have are
 * left out. The other checkout needs its dependencies (`npm ci`).
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { openWorld, type World } from '../src/index.ts'
import type { OperationOptions } from '../src/operation/definition.ts'
import { operations } from '../src/ops/operations.ts'
import { Contest, randomOrder, type Contestant } from '../src/runs/contest.ts'
import type { Gate } from '../src/runs/gate.ts'
import { quantityOf } from '../src/runs/quantity.ts'
import type { Quantity } from '../src/runs/results.ts'

const usage =
  'npx tsx bench/before.ts CHECKOUT [--target native|wasm] [--seconds S] [--dtype f32] [--only OPERATION] [--pairs N] [--json]'
const option = (name: string, usual: string): string => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? usual : process.argv[at + 1]
}
const checkout = process.argv[2]
if (checkout === undefined || checkout.startsWith('--')) {
  console.log(usage)
  process.exit(checkout === '--help' ? 0 : 2)
}
const target = option('target', 'native')
const seconds = Number(option('seconds', '4'))
const dtype = option('dtype', 'f32')
const only = option('only', '')
const json = process.argv.includes('--json')
const ranks = 2
/** The number of pairs of worlds, one world per checkout, that are measured at each benchmark point. */
const pairs = Number(option('pairs', '4'))
const now = (): number => performance.now() * 1e6

/** The exports of a checkout that the comparison uses. Older checkouts have all exports of this interface, too. */
interface Version {
  readonly openWorld: typeof openWorld
  readonly contest: typeof Contest
  readonly operations: typeof operations
}

const fromCheckout = async <Module>(path: string): Promise<Module> =>
  (await import(pathToFileURL(join(resolve(checkout), 'src', path)).href)) as Module

/** Older checkouts list their operations in another file. */
async function operationsOf(): Promise<typeof operations> {
  if (existsSync(join(checkout, 'src/ops/operations.ts')))
    return (await fromCheckout<{ operations: typeof operations }>('ops/operations.ts')).operations
  const found: unknown[] = []
  for (const name of operations.map(({ name }) => name)) {
    if (!existsSync(join(checkout, `src/ops/${name}/index.ts`))) continue
    const module = await fromCheckout<Record<string, unknown>>(`ops/${name}/index.ts`)
    const definition = module[`${name}Operation`]
    if (definition !== undefined) found.push(definition)
  }
  return found as typeof operations
}

const before: Version = {
  openWorld: (await fromCheckout<{ openWorld: typeof openWorld }>('index.ts')).openWorld,
  contest: (await fromCheckout<{ Contest: typeof Contest }>('runs/contest.ts')).Contest,
  operations: await operationsOf(),
}
const after: Version = { openWorld, contest: Contest, operations }

interface Row {
  readonly point: string
  readonly variant: string
  /** The time of the other checkout divided by the time of this checkout. */
  readonly ratio: Quantity
  readonly time: Quantity
}
const rows: Row[] = []
/** For each variant, the times on the other checkout, followed by the times on this checkout. */
type Times = Map<string, [number[], number[]]>

/**
 * Measures one benchmark point in two fresh worlds, one of each checkout. Times depend by a few per cent on the
 * addresses of a world's memory, so several pairs of worlds are measured, and each checkout opens its world first
 * equally often.
 */
async function measurePair(
  definition: (typeof operations)[number],
  older: (typeof operations)[number],
  settings: object,
  variants: readonly string[],
  pair: number,
  times: Times,
): Promise<void> {
  const versions = [
    { ...before, definition: older, side: 0 as const },
    { ...after, definition, side: 1 as const },
  ]
  if (pair % 2 === 1) versions.reverse()
  const sides: { side: 0 | 1; world: World; contest: Contest<OperationOptions, unknown> }[] = []
  for (const { openWorld, contest, definition, side } of versions) {
    const world = await openWorld({ target, ranks, heap: 0.75 * 2 ** 30 })
    const made = await contest.make(definition as never, settings as never, world)
    await made.fill(2)
    await made.pack()
    await made.warm()
    sides.push({ side, world, contest: made })
  }
  const runs: { variant: string; side: 0 | 1; gate: Gate; at: Contestant['at'] }[] = []
  for (const { side, contest } of sides) {
    const contestants = await contest.contestants(0)
    for (const variant of variants) {
      const { at } = contestants.find(({ name }) => name === variant)!
      runs.push({ variant, side, gate: contest.gate, at })
    }
  }
  const random = randomOrder(3 + pair)
  const began = now()
  const end = began + (seconds * 1e9) / pairs
  let turn = 0
  for (let round = 0; round < 401 && (round < 21 || now() < end); round++)
    for (const n of random(runs.length)) {
      const { variant, side, gate, at } = runs[n]
      const [lap] = await gate.time([at(turn++)])
      if (round > 2) times.get(variant)![side].push(lap.time)
    }
  for (const { world } of sides) await world.close()
}

for (const definition of operations) {
  if (only !== '' && only !== definition.name) continue
  const older = before.operations.find(({ name }) => name === definition.name)
  if (!older) continue
  const variants = definition.variants.filter((variant) => older.variants.includes(variant)).map(String)
  for (const { name, options } of definition.points.cpu) {
    const chosen = { ...definition.defaults, ...options, dtype }
    const settings = { options: chosen, variants, rotate: 64e6, now, spin: true }
    const times: Times = new Map(variants.map((variant) => [variant, [[], []]]))
    for (let pair = 0; pair < pairs; pair++)
      await measurePair(definition, older, settings, variants, pair, times)
    for (const variant of variants) {
      const [old, own] = times.get(variant)!
      const ratio = quantityOf(own.map((time, round) => old[round] / time))
      const time = quantityOf(own)
      rows.push({ point: `${definition.title} ${name}`, variant, ratio, time })
      const { median, interval } = ratio
      if (!json)
        console.log(
          [
            rows.at(-1)!.point.padEnd(42),
            variant.padEnd(14),
            `${(time.median / 1e3).toFixed(0).padStart(7)} us`,
            `${median.toFixed(3)} (${interval[0].toFixed(3)} to ${interval[1].toFixed(3)})`,
          ].join(' '),
        )
    }
  }
}

const geometricMean = Math.exp(rows.reduce((sum, { ratio }) => sum + Math.log(ratio.median), 0) / rows.length)
const slower = rows.filter(({ ratio }) => ratio.interval[1] < 0.97)
if (json) console.log(JSON.stringify({ target, dtype, ranks, pairs, rows, geometricMean }, undefined, 2))
else
  console.log(
    `\n${rows.length} variants and points: geometric mean ${geometricMean.toFixed(3)}; ` +
      `${slower.length} slower by more than 3 % with their whole interval`,
  )
