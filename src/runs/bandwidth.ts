/**
 * Measures how fast all ranks of a world together read data that no cache holds. The measurement works on any target.
 */
import { f32 } from '../lang/dtypes.ts'
import { kernel, tensor } from '../lang/kernel.ts'
import { beyondCaches } from '../world/machine.ts'
import type { World } from '../world/world.ts'
import { Gate } from './gate.ts'

const columns = 1024

const readKernel = kernel(
  'read',
  { x: tensor(f32, 2), sums: tensor(f32, 1) },
  { rows: 16 },
  (t, { x, sums }, { rows }) => {
    t.persistent([x.dim(0).div(rows)], ([n]) => {
      const sum = t.load(x.tile([n, 0], [rows, columns])).sum(0)
      t.if(sum.sum(0).ne(0), () => t.store(sums.at([0]), sum.sum(0)))
    })
  },
)

/**
 * The minimum duration of a run in seconds, if the machine record states the bandwidth. A launch takes little time
 * compared with the minimum duration.
 */
const seconds = 1e-3

/** The bytes that all ranks together read by default. The caches hold fewer bytes than the measurement reads. */
const bytesFor = ({ machine }: Pick<World, 'machine'>): number =>
  Math.max(beyondCaches(machine), seconds * (machine.bandwidth ?? 0))

/** The read bandwidth of all ranks together, in bytes per second, as the best of a few runs. */
export async function readBandwidth(
  world: World,
  now: () => number,
  spin: boolean,
  bytes = bytesFor(world),
): Promise<number> {
  const stream = world.stream()
  const gate = new Gate(world, stream, now, spin)
  await gate.prepare()
  const height = 16 * Math.ceil(bytes / world.ranks / (16 * columns * Float32Array.BYTES_PER_ELEMENT))
  const x = world.zeros(f32, [height, columns], { name: 'x' })
  const sums = world.zeros(f32, [1], { name: 'sums' })
  const launch = (): void => world.launch(readKernel, { x, sums }, { grid: 'resident', stream: stream.id })
  await world.compile?.(launch)
  launch()
  await world.synchronize()
  const laps = await gate.time(Array.from({ length: 6 }, () => ({ launches: 1, launch })))
  world.free(x)
  world.free(sums)
  const read = world.ranks * height * columns * Float32Array.BYTES_PER_ELEMENT
  return read / (Math.min(...laps.slice(1).map(({ time }) => time)) / 1e9)
}
