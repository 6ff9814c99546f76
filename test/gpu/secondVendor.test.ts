/**
 * Tests that a GPU of a second vendor runs worlds: its devices and its platform implement only the interfaces of
 * src/targets/gpu, and the world, its queues, graphs, aborts and recordings are those of every GPU.
 */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { flags, i32, kernel, scalar, tensor, WorldStopped } from '../../src/index.ts'
import { GpuWorld } from '../../src/targets/gpu/world.ts'
import { eventsOf, Kind, streams } from '../../src/timeline/timeline.ts'
import { FakePlatform, type Program } from './fakeGpu.ts'

const put = kernel('put', { x: tensor(i32, 1), value: scalar(i32) }, (t, { x, value }) =>
  t.store(x.at([t.program]), value),
)
/** A kernel that sends the rank number to the next rank and signals a flag on that rank. */
const send = kernel('send', { x: tensor(i32, 1), ready: flags() }, (t, { x, ready }) => {
  const next = t.rank.add(1).mod(t.world)
  t.store(x.on(next).at([0]), t.rank.add(10))
  t.signal(ready.on(next))
})
const receive = kernel(
  'receive',
  { x: tensor(i32, 1), y: tensor(i32, 1), ready: flags() },
  (t, { x, y, ready }) => {
    t.wait(ready)
    t.store(y.at([0]), t.load(x.at([0])).mul(2))
  },
)

const ranks = 2

/** Executes the kernels of this file on the host, with the arguments of the launch. */
const programs: Readonly<Record<string, Program>> = {
  put({ memory, grid, address, number }) {
    for (let program = 0; program < grid; program++)
      memory.setWord(address('x') + BigInt(4 * program), number('value'))
    return true
  },
  send({ memory, args, address, number }) {
    const rank = number('rank')
    const next = BigInt((((rank + 1) % ranks) - rank) * number('heapStride'))
    const epochs = args['ready epochs'].value as bigint
    const epoch = memory.word(epochs) + 1
    memory.setWord(epochs, epoch)
    memory.setWord(address('x') + next, rank + 10)
    memory.setWord((args.ready.value as bigint) + next, epoch)
    return true
  },
  receive({ memory, args, address, number }) {
    const [flag, epochs, control] = ['ready', 'ready epochs', 'control'].map(
      (name) => args[name].value as bigint,
    )
    const wanted = memory.word(epochs + 4n) + 1
    const value = memory.word(flag)
    if (value < wanted) {
      if (memory.word(control) === 0) return false
      ;[1, number('rank'), value, wanted].forEach((word, n) =>
        memory.setWord(control + BigInt(16 + 4 * n), word),
      )
      return true
    }
    memory.setWord(epochs + 4n, wanted)
    memory.setWord(address('y'), 2 * memory.word(address('x')))
    return true
  },
}

const open = (options: { readonly record?: boolean; readonly timeout?: number } = {}): GpuWorld =>
  new GpuWorld(new FakePlatform(programs), { ranks, heap: 1 << 16, timeout: 5000, ...options })

it('is a machine of its own', async () => {
  const world = open()
  expect(world.machine).toMatchObject({
    ...{ name: 'Fake GPU', family: 'fake', processors: [6, 6], memories: [[0, 1]], warp: 64 },
    ...{ sharedBytes: 65_536, perProcessor: { registers: 131_072 }, capabilities: { matrixUnit: false } },
  })
  expect(world.clockTick).toBe(1000)
  await world.close()
})

it('runs kernels with its own tensor descriptors, and flags between ranks', async () => {
  const world = open()
  const [x, y, ready] = [world.zeros(i32, [4]), world.zeros(i32, [1]), world.flags([])]
  const sending = world.stream()
  world.launch(put, { x, value: (rank: number) => 7 + rank }, { grid: 3, stream: sending })
  await world.synchronize()
  expect([...(await world.read(x, 1))]).toEqual([8, 8, 8, 0])
  for (let round = 0; round < 3; round++) {
    const launches = [
      () => world.launch(send, { x, ready }, { grid: 1, stream: sending }),
      () => world.launch(receive, { x, y, ready }, { grid: 1 }),
    ]
    // After the first round has loaded the kernels, the receivers wait for senders that are launched later.
    for (const launch of round === 0 ? launches : launches.reverse()) launch()
    await world.synchronize()
  }
  expect([(await world.read(y, 0))[0], (await world.read(y, 1))[0]]).toEqual([22, 20])
  await world.close()
})

it('replays graphs', async () => {
  const world = open()
  const [x, y, ready] = [world.zeros(i32, [1]), world.zeros(i32, [1]), world.flags([])]
  const own = world.zeros(i32, [1])
  const graph = world.graph(() => {
    world.launch(put, { x: own, value: 3 }, { grid: 1 })
    world.launch(send, { x, ready }, { grid: 1 })
    world.launch(receive, { x, y, ready }, { grid: 1 })
  })
  expect(graph.nodes).toBe(3 * ranks)
  for (let replay = 0; replay < 3; replay++) {
    for (const rank of [0, 1]) for (const tensor of [own, y]) world.write(tensor, rank, [0])
    graph.launch()
    await world.synchronize()
    expect([(await world.read(y, 0))[0], (await world.read(y, 1))[0]]).toEqual([22, 20])
    expect((await world.read(own, 1))[0]).toBe(3)
  }
  await world.close()
})

it('aborts waits that nobody ends, says what they waited for, and goes on after a reset', async () => {
  const world = open({ timeout: 50 })
  const [x, y] = [world.zeros(i32, [1]), world.zeros(i32, [1])]
  const ready = world.flags([], { name: 'ready' })
  world.launch(receive, { x, y, ready }, { grid: 1 })
  const stop = (await world.synchronize().catch((thrown: unknown) => thrown)) as WorldStopped
  expect(stop).toBeInstanceOf(WorldStopped)
  expect(stop.workers.map(({ rank, flag }) => [rank, flag])).toEqual([
    [0, { name: 'ready', rank: 0, value: 0, wanted: 1 }],
    [1, { name: 'ready', rank: 1, value: 0, wanted: 1 }],
  ])
  await world.reset()
  world.launch(send, { x, ready }, { grid: 1 })
  world.launch(receive, { x, y, ready }, { grid: 1 })
  await world.synchronize()
  expect((await world.read(y, 0))[0]).toBe(22)
  await world.close()
})

it('records the launches of its kernels', async () => {
  const world = open({ record: true })
  const x = world.zeros(i32, [1])
  for (const value of [1, 2]) world.launch(put, { x, value }, { grid: 1 })
  await world.synchronize()
  const timeline = world.timeline()
  for (const rank of timeline.ranks) {
    const { events } = rank
    const launches = streams(rank).flatMap((track) => [...eventsOf(track)])
    expect(launches.map((event) => [events.kind[event], timeline.names[events.name[event]]])).toEqual([
      [Kind.kernel, 'put'],
      [Kind.kernel, 'put'],
    ])
    // The fake clock advances by 1 us from the start of a launch to its end.
    expect(launches.map((event) => events.duration[event])).toEqual([1000, 1000])
  }
  await world.close()
})

it('needs nothing of another vendor', () => {
  for (const file of ['fakeGpu.ts', 'secondVendor.test.ts']) {
    const text = readFileSync(new URL(file, import.meta.url), 'utf8')
    expect(text).not.toMatch(/from '[^']*targets\/(?!gpu\/)/)
  }
})
