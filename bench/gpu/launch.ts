/**
 * Measures the cost of a launch: the host's time per call, and the time per launch in a long sequence, which includes
 * the device. A kernel that stores one 32-bit word is launched by a driver call, by the world, and as a node of a
 * graph. The times are compared with PyTorch and Triton.
 */
import { randomOrder } from '../../src/runs/contest.ts'
import { quantityOf } from '../../src/runs/quantity.ts'
import { i32 } from '../../src/lang/dtypes.ts'
import { kernel, scalar, tensor } from '../../src/lang/kernel.ts'
import { compileCuda } from '../../src/targets/cuda/nvrtc.ts'
import { i32 as argument, u64 } from '../../src/targets/gpu/device.ts'
import type { Cell, CellResult, Role, Timing } from './cells.ts'
import { openPeers } from './peers.ts'
import { Stage, stageOptions, type Effort } from './stage.ts'

const params = { x: tensor(i32, 1), value: scalar(i32) }
const put = kernel('put', params, (t, { x, value }) => t.store(x.at([0]), value))
const sourceOfPut = 'extern "C" __global__ void put(int* x, int value) { *x = value; }'
const graphNodes = 100
/**
 * The number of warm-up samples of Arke, which are not counted. JavaScript code is optimised after some ten thousand
 * calls.
 */
const warmingUp = 100

interface Launcher {
  readonly name: string
  readonly role: Role
  /** The time per launch in microseconds, for the host alone and including the device. */
  readonly sample: () => Promise<readonly [host: number, whole: number]>
}

export async function measureLaunch(cell: Cell, effort: Effort): Promise<CellResult> {
  const heap = 16 * 2 ** 20
  const stages = [await Stage.open({ ranks: 1, heap }), await Stage.open({ ranks: 8, heap })]
  try {
    const [one, eight] = stages.map(({ world, stream }) => {
      const x = world.zeros(i32, [16], { name: 'x' })
      // The launches use the stream of the start gates. With a second stream, no launch could start early (programmatic
      // dependent launch).
      return { world, launch: () => world.launch(put, { x, value: 1 }, { grid: 1, stream }), x }
    })
    const inARow =
      (count: number, each: number, launch: () => void, wait: () => void | Promise<void>) =>
      async (): Promise<readonly [number, number]> => {
        launch()
        await wait()
        const start = performance.now()
        for (let n = 0; n < count; n++) launch()
        const host = performance.now() - start
        await wait()
        const whole = performance.now() - start
        return [(1000 * host) / (count * each), (1000 * whole) / (count * each)]
      }
    const waitFor =
      ({ world }: typeof one) =>
      (): Promise<void> =>
        world.synchronize()
    const launchers: Launcher[] = [
      { name: 'launch', role: 'ours', sample: inARow(200, 1, one.launch, waitFor(one)) },
      {
        name: 'launch on 8 ranks, a rank',
        role: 'ours',
        sample: inARow(50, 8, eight.launch, waitFor(eight)),
      },
    ]
    one.launch()
    await one.world.synchronize()
    const graph = one.world.graph(() => {
      for (let node = 0; node < graphNodes; node++) one.launch()
    })
    launchers.push({
      name: 'graph node',
      role: 'ours',
      sample: inARow(10, graphNodes, () => graph.launch(), waitFor(one)),
    })
    const notes: string[] = []
    if (stageOptions.isMeasuring) {
      const stream = one.world.driverStream(0)
      const raw = stream.device
        .loadKernel(compileCuda(sourceOfPut).bytes, 'put')
        .prepare({ grid: 1, block: 32 }, [u64(one.world.addressOf(one.x, 0)), argument(1)])
      const sample = inARow(
        200,
        1,
        () => raw.on(stream),
        () => stream.synchronize(),
      )
      launchers.push({ name: 'the driver’s call', role: 'peer', sample })
      launchers.push({
        name: 'the driver’s call, made ready early',
        role: 'peer',
        sample: inARow(
          200,
          1,
          () => raw.on(stream, true),
          () => stream.synchronize(),
        ),
      })
      const peers = await openPeers()
      if (typeof peers === 'string') notes.push(`PyTorch and Triton were not measured: ${peers}`)
      else {
        notes.push(peers.about)
        const { names } = await peers.prepare({ do: 'launches' })
        for (const name of names) launchers.push({ name, role: 'peer', sample: () => peers.launch(name) })
      }
    }
    return { ...cell, timings: await timesOf(launchers, effort), failed: {}, notes }
  } finally {
    for (const stage of stages) await stage.close()
  }
}

async function timesOf(
  launchers: readonly Launcher[],
  { leastRounds, mostRounds }: Effort,
): Promise<Timing[]> {
  const samples = launchers.map((): (readonly [number, number])[] => [])
  const rounds = stageOptions.isMeasuring ? Math.round((leastRounds + mostRounds) / 2) : 1
  const random = randomOrder(launchers.length)
  if (stageOptions.isMeasuring)
    for (const { role, sample } of launchers)
      for (let n = 0; role === 'ours' && n < warmingUp; n++) await sample()
  for (let round = -2; round < rounds; round++)
    for (const n of random(launchers.length)) {
      const sample = await launchers[n].sample()
      if (round >= 0) samples[n].push(sample)
    }
  return launchers.flatMap(({ name, role }, n): Timing[] => [
    { name: `${name}, host`, role, form: '', ...quantityOf(samples[n].map(([host]) => host)) },
    { name: `${name}, with the device`, role, form: '', ...quantityOf(samples[n].map(([, all]) => all)) },
  ])
}
