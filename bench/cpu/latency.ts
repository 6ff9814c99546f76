/**
 * Measures the latency of operations that compute nothing: a launch, and a barrier between ranks.
 *
 *   npx tsx bench/cpu/latency.ts [--only launch|barrier] [--rounds N] [--json]
 *
 * A launch is measured on one rank, from the host's call until the host knows that the kernel has ended. The variant
 * `spinning` measures a launch while the worker still polls for work. The variant `asleep` measures a launch after a
 * pause in which the worker fell asleep. The message round trip of a plain worker is measured for comparison. For the
 * variant `asleep`, the benchmark also measures a lower bound: the time in which the host wakes a plain worker by
 * `Atomics.notify`, and the worker wakes the host in the same way. The measured barrier between ranks uses flags. A
 * measured kernel contains many barriers, and the launch time is divided by their number.
 */
import { Worker } from 'node:worker_threads'
import { flags, i32, kernel, openWorld, tensor, type World } from '../../src/index.ts'
import { figure, present, type Figure, type Variant } from '../measure.ts'

const argument = (name: string): string | undefined => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? undefined : process.argv[at + 1]
}
const only = argument('only')
const rounds = Number(argument('rounds') ?? 31)
const say = (text: string): void => void process.stderr.write(`${text}\n`)
const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds))

const under = (limit: number): Variant['goal'] => ({
  text: `< ${limit}`,
  reached: (median) => median < limit,
})

/** The variants of a comparison, keyed by name. The function `sample` returns a time in microseconds. */
type Contestants = ReadonlyMap<string, { readonly sample: () => Promise<number>; readonly goal?: number }>

/**
 * Runs every variant of the comparison in every round. The order of the variants changes from round to round, so that
 * each variant is first in some rounds.
 */
async function compare(contestants: Contestants, unit: string): Promise<Figure[]> {
  const all = [...contestants]
  const samples = new Map(all.map(([name]) => [name, [] as number[]]))
  for (const [, { sample }] of all) for (let warm = 0; warm < 3; warm++) await sample()
  for (let round = 0; round < rounds; round++)
    for (let turn = 0; turn < all.length; turn++) {
      const [name, { sample }] = all[(round + turn) % all.length]
      samples.get(name)!.push(await sample())
    }
  return all.map(([name, { goal }]) =>
    figure(name, unit, samples.get(name)!, goal === undefined ? undefined : under(goal)),
  )
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]

async function openIfThere(target: string, ranks: number): Promise<World | undefined> {
  try {
    return await openWorld({ target, ranks, workers: 1, heap: 1 << 20 })
  } catch (error) {
    say(`${target}: ${error instanceof Error ? error.message : String(error)}`)
    return undefined
  }
}

/** A worker that does nothing except wake the thread that woke it. */
function bareWaker() {
  const words = new Int32Array(new SharedArrayBuffer(8))
  const worker = new Worker(
    `const words = require('node:worker_threads').workerData
    for (let round = 0; ; round++) {
      while (Atomics.load(words, 0) === round) Atomics.wait(words, 0, round)
      Atomics.add(words, 1, 1)
      Atomics.notify(words, 1)
    }`,
    { eval: true, workerData: words },
  )
  const roundTrip = (): number => {
    const start = performance.now()
    const round = Atomics.load(words, 1)
    Atomics.add(words, 0, 1)
    Atomics.notify(words, 0)
    while (Atomics.load(words, 1) === round) Atomics.wait(words, 1, round)
    return (performance.now() - start) * 1000
  }
  return { roundTrip, close: () => worker.terminate() }
}

const empty = kernel('empty', { x: tensor(i32, 1) }, () => {})

async function launches(): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const target of ['wasm', 'native']) {
    // Only one world is open at a time, so that the host and the world's worker each have a core.
    const world = await openIfThere(target, 1)
    if (!world) continue
    const x = world.zeros(i32, [1])
    const launchAndWait = async (): Promise<number> => {
      const start = performance.now()
      world.launch(empty, { x }, { grid: 1 })
      await world.synchronize()
      return (performance.now() - start) * 1000
    }
    const echo = new Worker(
      `require('node:worker_threads').parentPort.on('message', () => {
      require('node:worker_threads').parentPort.postMessage(0) })`,
      { eval: true },
    )
    const message = async (): Promise<number> => {
      const start = performance.now()
      echo.postMessage(0)
      await new Promise((resolve) => echo.once('message', resolve))
      return (performance.now() - start) * 1000
    }
    const waker = bareWaker()
    const repeat = (count: number, one: () => number | Promise<number>) => async (): Promise<number> => {
      const times: number[] = []
      for (let n = 0; n < count; n++) times.push(await one())
      return median(times)
    }
    const afterPause = (one: () => number | Promise<number>) => async (): Promise<number> => {
      await pause(20)
      return one()
    }
    for (let warm = 0; warm < 5000; warm++) await launchAndWait()
    const name = `empty kernel, ${target}`
    figures.push(
      ...(await compare(
        new Map([
          [
            `${name}, spinning: launch and await synchronize`,
            { sample: repeat(200, launchAndWait), goal: 5 },
          ],
          [`postMessage round trip for comparison, spinning`, { sample: repeat(50, message) }],
          [`${name}, asleep: launch and await synchronize`, { sample: afterPause(launchAndWait), goal: 150 }],
          [`postMessage round trip for comparison, after a pause`, { sample: afterPause(message) }],
          [
            `Atomics.notify round trip for comparison, after a pause`,
            { sample: afterPause(waker.roundTrip) },
          ],
        ]),
        'us',
      )),
    )
    await echo.terminate()
    await waker.close()
    await world.close()
  }
  return figures
}

/** In this barrier kernel, every rank signals all ranks, as in `src/ops/collectives/barrier.ts`. */
const everybody = kernel('barriers', { arrived: flags(2) }, (t, { arrived }) => {
  t.for(arrived.dim(0), (n) => {
    t.signalAll(arrived.at([n, t.rank]))
    t.for(t.world, (source) => t.wait(arrived.at([n, source])))
  })
})

/** All ranks signal a counting flag on rank 0 and wait for that flag. */
const counted = (ranks: number) =>
  kernel('countedBarriers', { arrived: flags(1, { arrivals: ranks }) }, (t, { arrived }) => {
    t.for(arrived.dim(0), (n) => {
      t.signal(arrived.on(0).at([n]))
      t.wait(arrived.on(0).at([n]))
    })
  })

async function barriers(): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [ranks, count, goal] of [
    [2, 5000, 0.5],
    [8, 200, 150],
  ] as const)
    for (const target of ['wasm', 'native']) {
      const world = await openIfThere(target, ranks)
      if (!world) continue
      const time = async (launch: () => void): Promise<number> => {
        const start = performance.now()
        launch()
        await world.synchronize()
        return ((performance.now() - start) * 1000) / count
      }
      const [each, all] = [world.flags([count, ranks]), world.flags([count], { arrivals: ranks })]
      const count0 = counted(ranks)
      figures.push(
        ...(await compare(
          new Map([
            [
              `barrier, ${ranks} ranks, ${target}: every rank signals every rank`,
              { sample: () => time(() => world.launch(everybody, { arrived: each }, { grid: 1 })), goal },
            ],
            [
              `barrier, ${ranks} ranks, ${target}: counted on rank 0`,
              { sample: () => time(() => world.launch(count0, { arrived: all }, { grid: 1 })), goal },
            ],
          ]),
          'us',
        )),
      )
      await world.close()
    }
  return figures
}

const figures: Figure[] = []
if (!only || only === 'launch') figures.push(...(await launches()))
if (!only || only === 'barrier') figures.push(...(await barriers()))
present('Launches and barriers', figures)
process.exit(0)
