/**
 * Measures how much recording slows kernels down. The same launches run, interleaved, on a world that records events
 * and on a world that does not.
 *
 *   npx tsx bench/cpu/recording.ts [--rounds N] [--json]
 *
 * One kernel computes for about 1 ms. The other kernel repeatedly synchronises with another rank, also for about 1 ms.
 */
import { f32, flags, kernel, openWorld, type World } from '../../src/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { figure, present, type Figure } from '../measure.ts'
import { again, race, type Contestant } from './race.ts'

const at = process.argv.indexOf('--rounds')
const rounds = at < 0 ? 400 : Number(process.argv[at + 1])

/**
 * The kernel computes between its waits, so that it waits as often per millisecond as a kernel that passes tiles
 * between ranks.
 */
const handing = kernel('handing', { arrived: flags(2) }, (t, { arrived }) => {
  t.for(arrived.dim(0), (n) => {
    t.signalAll(arrived.at([n, t.rank]))
    t.for(t.world, (source) => t.wait(arrived.at([n, source])))
    const busy = t.for(4000, t.constant(f32, 1), (_, x) => x.mul(1.0001).add(t.rank.to(f32)))
    t.if(busy.lt(0), () => t.signal(arrived.at([n, t.rank])))
  })
})

type Prepare = (world: World) => () => void

const product: Prepare = (world) => {
  const [m, n, k] = [256, 256, world.target === 'native' ? 1024 : 512]
  const [a, b, c] = [world.rand(f32, [m, k]), world.rand(f32, [k, n]), world.empty(f32, [m, n])]
  const meta = gemmTiles(world.machine, { m, n, k, dtype: 'f32' })
  return () => world.launch(gemmKernel(f32), { a, b, c }, { grid: 'resident', meta })
}
const waits: Prepare = (world) => {
  const arrived = world.flags([100, world.ranks])
  return () => world.launch(handing, { arrived }, { grid: 1 })
}

/**
 * The memory and the threads that a world happens to get influence the time more than recording does. Therefore several
 * pairs of worlds are measured, and in half of the pairs the recording world is opened first.
 */
const pairs = 8

async function raceOfPair(
  target: string,
  ranks: number,
  prepare: Prepare,
  recordingFirst: boolean,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const worlds: World[] = []
  const contestants: Contestant[] = []
  for (const record of [recordingFirst, !recordingFirst]) {
    const world = await openWorld({ target, ranks, workers: 1, heap: 1 << 24, record })
    worlds.push(world)
    const launch = prepare(world)
    const run = async (): Promise<void> => {
      launch()
      await world.synchronize()
    }
    contestants.push({ name: record ? 'recording' : 'plain', run: again(run) })
  }
  // Rounds are short and without garbage collection, so that the machine changes less within a round and no worker
  // falls asleep.
  const times = await race(contestants, Math.ceil(rounds / pairs), { executions: 4, collects: false })
  for (const world of worlds) await world.close()
  return times
}

const figures: Figure[] = []
for (const target of ['wasm', 'native'])
  for (const [name, ranks, prepare] of [
    ['a product', 1, product],
    ['100 meetings of 2 ranks', 2, waits],
  ] as const)
    try {
      const times = { recording: [] as number[], plain: [] as number[] }
      for (let pair = 0; pair < pairs; pair++) {
        const measured = await raceOfPair(target, ranks, prepare, pair % 2 === 0)
        times.recording.push(...measured.get('recording')!)
        times.plain.push(...measured.get('plain')!)
      }
      figures.push(
        figure(`${name}, ${target}: a launch, not recorded`, 'us', times.plain),
        figure(
          `${name}, ${target}: overhead of recording`,
          '%',
          times.recording.map((time, round) => 100 * (time / times.plain[round] - 1)),
          { text: '< 3', reached: (median) => median < 3 },
        ),
      )
    } catch (error) {
      process.stderr.write(`${target}: ${error instanceof Error ? error.message : String(error)}\n`)
    }
present('Recording', figures)
process.exit(0)
