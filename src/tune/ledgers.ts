/**
 * Records executions of an operation with given choices of tiles, so that the ledgers (tables of where time goes)
 * before and after tuning can be compared. Recorded executions run under the same conditions as during tuning:
 * interleaved, after a start gate, on inputs that rotate.
 */
import type { Operation, OperationDefinition, OperationOptions } from '../operation/definition.ts'
import { breathe } from '../runs/breath.ts'
import { executionOf, randomOrder } from '../runs/contest.ts'
import { Gate, gateName, type Timed } from '../runs/gate.ts'
import { executionsOf, pictureOf } from '../runs/ledger.ts'
import type { Picture } from '../runs/results.ts'
import { beyondCaches } from '../world/machine.ts'
import type { World } from '../world/world.ts'
import type { Numbers } from './tables.ts'
import { inputSets } from './tune.ts'

export interface RecordTilesOptions<Options extends OperationOptions> {
  /** The options of the operation, with the variant and without tiles. */
  readonly options: Options
  readonly tiles: readonly Numbers[]
  /** The host's clock in nanoseconds. */
  readonly now: () => number
  /** True if every worker of every rank has its own core. */
  readonly spin: boolean
  /** The memory bandwidth of one rank in bytes per second. */
  readonly bandwidth: number
  readonly seed?: number
  readonly interrupt?: AbortSignal
}

/** The number of recorded executions for each choice of tiles, after a first execution that compiles the kernels. */
const executions = 15

/** Returns the execution of median length for each choice of tiles. The world must record. */
export async function recordTiles<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  world: World,
  { options, tiles, now, spin, bandwidth, seed = 1, interrupt }: RecordTilesOptions<Options>,
): Promise<Picture[]> {
  const stream = world.stream()
  const gate = new Gate(world, stream, now, spin)
  await gate.prepare()
  const make = (of: Numbers, inputs?: Operation['inputs']): Operation<Contents> =>
    definition.make(world, { ...options, tiles: of, stream: stream.id }, inputs)
  const filling = { rotate: beyondCaches(world.machine), pack: true, seed, interrupt }
  const { sets } = await inputSets(world, () => make(tiles[0]), filling)
  const operations = tiles.map((of, n) => (n === 0 ? sets : sets.map(({ inputs }) => make(of, inputs))))
  for (const operation of operations.flat()) {
    await world.compile?.(() => operation.launch())
    operation.launch()
    await world.synchronize()
  }
  const pictures = tiles.map((): Picture[] => [])
  const wanted = new Map<Timed, Picture[]>()
  const random = randomOrder(seed)
  let turn = 0
  for (let round = 0; round < executions; round++) {
    await breathe(interrupt)
    const order = random(operations.length)
    const timed = order.map((n) => ({ ...executionOf(operations[n][turn++ % sets.length]) }))
    timed.forEach((one, place) => wanted.set(one, pictures[order[place]]))
    await gate.time(timed)
  }
  await world.synchronize()
  const timeline = world.timeline()
  for (const [n, execution] of executionsOf(timeline, gateName).entries()) {
    const timed = gate.log[n]
    if (timed) wanted.get(timed)?.push(pictureOf(timeline, execution, { bandwidth }))
  }
  return pictures.map((own) => own.sort((a, b) => a.wall - b.wall)[Math.floor((own.length - 1) / 2)])
}
