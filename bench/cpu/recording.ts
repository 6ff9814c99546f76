/**
 * What recording costs: the same launches on a world that records and on one that does not, in turn.
 *
 *   npx tsx bench/cpu/recording.ts [--rounds N] [--json]
 *
 * One kernel computes for about a millisecond; the other one meets another rank as often as takes about as long.
 */
import { f32, flags, kernel, openWorld, type World } from '../../src/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { figure, present, type Figure } from '../measure.ts'
import { race } from './race.ts'

const at = process.argv.indexOf('--rounds')
const rounds = at < 0 ? 41 : Number(process.argv[at + 1])

/** Waits that other work lies between: as many in a millisecond as a kernel that hands over tiles has. */
const handing = kernel('handing', { arrived: flags(2) }, (t, { arrived }) => {
  t.for(arrived.dim(0), (n) => {
    t.signalAll(arrived.at([n, t.rank]))
    t.for(t.world, (source) => t.wait(arrived.at([n, source])))
    const busy = t.for(2000, t.constant(f32, 1), (_, x) => x.mul(1.0001).add(t.rank.to(f32)))
    t.if(busy.lt(0), () => t.signal(arrived.at([n, t.rank])))
  })
})

type Prepare = (world: World) => () => void

const product: Prepare = (world) => {
  const [m, n, k] = [256, 256, world.target === 'native' ? 1024 : 512]
  const [a, b, c] = [world.rand(f32, [m, k]), world.rand(f32, [k, n]), world.empty(f32, [m, n])]
  const meta = gemmTiles(world.target, { m, n, k, dtype: 'f32' })
  return () => world.launch(gemmKernel(f32), { a, b, c }, { grid: 'resident', meta })
}
const waits: Prepare = (world) => {
  const arrived = world.flags([100, world.ranks])
  return () => world.launch(handing, { arrived }, { grid: 1 })
}

const figures: Figure[] = []
for (const target of ['wasm', 'native'])
  for (const [name, ranks, prepare] of [
    ['a product', 1, product],
    ['100 meetings of 2 ranks', 2, waits],
  ] as const)
    try {
      const worlds = await Promise.all(
        [true, false].map((record) => openWorld({ target, ranks, workers: 1, heap: 1 << 24, record })),
      )
      const contestants = worlds.map((world, n) => {
        const launch = prepare(world)
        const run = async (): Promise<void> => {
          launch()
          await world.synchronize()
        }
        return { name: n === 0 ? 'recording' : 'plain', run }
      })
      const times = await race(contestants, rounds, 10)
      const [recording, plain] = [times.get('recording')!, times.get('plain')!]
      figures.push(
        figure(`${name}, ${target}: a launch, not recorded`, 'us', plain),
        figure(
          `${name}, ${target}: more for recording`,
          '%',
          recording.map((time, round) => 100 * (time / plain[round] - 1)),
          { text: '< 3', reached: (median) => median < 3 },
        ),
      )
      for (const world of worlds) await world.close()
    } catch (error) {
      process.stderr.write(`${target}: ${error instanceof Error ? error.message : String(error)}\n`)
    }
present('Recording', figures)
process.exit(0)
