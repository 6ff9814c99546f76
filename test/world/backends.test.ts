/**
 * Tests that messages of a world are the same on every backend: on threads of this process and on a GPU, for which the
 * tests use a fake driver.
 */
import { flags, i32, kernel, launchOf, scalar, tensor, WorldStopped, type World } from 'arke'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver } from '../cuda/fakeDriver.ts'
import { openHandmade } from '../targets/cpu/handmade.ts'

const heap = 1 << 16
const worlds: readonly (readonly [string, (timeout?: number) => World])[] = [
  ['a CPU', (timeout) => openHandmade({ ranks: 2, workers: 1, heap, timeout })],
  [
    'a GPU',
    (timeout) => {
      const devices = [new Device(fakeDriver({ sms: 2, programsPerSm: 1 }).driver, 0)]
      return new CudaWorld(
        { devices, compile: () => new Uint8Array() },
        { ranks: 2, heap, timeout, multiprocessors: 1 },
      )
    },
  ],
]

const put = kernel('put', { x: tensor(i32, 1), value: scalar(i32) }, (t, { x, value }) =>
  t.store(x.at([0]), value),
)
const move = kernel('move', { x: tensor(i32, 1), y: tensor(i32, 1) }, (t, { x, y }) =>
  t.store(y.at([0]), t.load(x.at([0]))),
)
const meet = kernel('meet', { ready: flags() }, (t, { ready }) => t.wait(ready.on(0)))

describe.each(worlds)('a world on %s', (_, open) => {
  let world: World
  beforeEach(() => {
    world = open()
  })
  afterEach(() => world.close())
  const refused = (launch: () => void, message: string | RegExp): void => expect(launch).toThrow(message)

  it('rejects programs that wait for each other and cannot all be resident', () => {
    refused(
      () => world.launch(meet, { ready: world.flags() }, { grid: 2 }),
      /^meet: 2 programs do not fit: 1 run at once on rank 0, and a program that waits for a program that has not started waits forever \(it may wait at .*backends\.test\.ts:\d+:\d+\)\. Launch at most 1, or grid: 'resident'$/,
    )
  })

  it('rejects allocations that do not fit the heap', () => {
    refused(
      () => world.zeros(i32, [1 << 15], { name: 'w' }),
      'w: 128 KiB do not fit the heap of 64 KiB: 0 bytes are used, 64 KiB free, 64 KiB in one piece. Free tensors, or open the world with more heap',
    )
  })

  it('rejects arguments that do not match the kernel, even after a valid launch', async () => {
    const [x, y] = [world.zeros(i32, [1]), world.zeros(i32, [1])]
    world.launch(put, { x, value: 1 }, { grid: 1 })
    refused(() => world.launch(put, { x } as never, { grid: 1 }), 'put: argument value is missing')
    refused(() => world.launch(put, { x, value: x } as never, { grid: 1 }), 'argument value must be a number')
    refused(
      () => world.launch(put, { x, value: 1, more: 2 } as never, { grid: 1 }),
      'put has no argument more',
    )
    refused(() => world.launch(move, { x, y: x }, { grid: 1 }), 'x and y are the same tensor')
    refused(() => world.launch(put, { x, value: 1 }, { grid: -1 }), 'a grid of -1 programs on rank 0')
    refused(
      () => world.launch(put, { x, value: 1 }, { grid: 1, ranks: [2] }),
      'there is no rank 2 in a world of 2',
    )
    refused(() => world.launch(put, { x, value: 1 }, { grid: 1, stream: -1 }), 'there is no stream -1')
    const packed = await world.pack(world.zeros('f32', [16, 16]))
    const mixed = (rank: number) => (rank === 0 ? packed : packed.source)
    const read = kernel('read', { w: tensor('f32', 2), x: tensor(i32, 1) }, (t, { x }) =>
      t.store(x.at([0]), 1),
    )
    refused(() => world.launch(read, { w: mixed, x } as never, { grid: 1 }), 'w is packed on some ranks only')
    world.free(x)
    refused(() => world.launch(put, { x, value: 1 }, { grid: 1 }), 'put: argument x was freed')
    const other = open()
    refused(() => other.launch(put, { x: y, value: 1 }, { grid: 1 }), 'x was not allocated on this world')
    await other.close()
  })

  it('rejects co-launched kernels on the same stream', () => {
    const x = world.zeros(i32, [1])
    const one = launchOf(put, { x, value: 1 }, { grid: 1 })
    refused(() => world.launchTogether([one, one]), 'put and put are launched together on stream 0 of rank 0')
  })

  it('throws if it does not record, and for an event of another world', async () => {
    refused(() => world.timeline(), 'the world does not record: open it with record: true')
    const other = open()
    const event = other.stream().record()
    refused(() => world.stream().wait(event), 'the event was not recorded on this world')
    await other.close()
  })

  it('orders the default stream and others with events', async () => {
    const [x, y] = [world.zeros(i32, [1]), world.zeros(i32, [1])]
    const other = world.stream()
    world.launch(put, { x, value: 7 }, { grid: 1 })
    const begun = world.defaultStream.record()
    other.wait(begun)
    world.launch(move, { x, y }, { grid: 1, stream: other })
    const ended = other.record()
    world.defaultStream.wait(ended)
    await world.defaultStream.synchronize()
    expect(ended.elapsed(begun)).toBeGreaterThanOrEqual(0)
    expect(other.id).not.toBe(world.defaultStream.id)
    expect(world.group([1]).defaultStream.id).toBe(world.defaultStream.id)
  })

  it('cannot be used once it is closed, and rejects an invalid timeout', async () => {
    await world.close()
    refused(() => world.zeros(i32, [1]), 'the world is closed')
    await expect(world.synchronize()).rejects.toThrow('the world is closed')
    refused(() => open(0), 'a timeout of 0 ms')
  })
})

it('a world that is still stopping reports the reason', async () => {
  let isOver = false
  const stuck = { params: 0, run: () => isOver }
  const devices = [new Device(fakeDriver({ kernels: { meet: stuck } }).driver, 0)]
  const world = new CudaWorld({ devices, compile: () => new Uint8Array() }, { ranks: 1, heap, timeout: 20 })
  const x = world.zeros(i32, [1])
  world.launch(meet, { ready: world.flags() }, { grid: 1 })
  const end = world.synchronize().catch((error: unknown) => error)
  let said: unknown
  while (said === undefined) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    try {
      world.write(x, 0, [1])
    } catch (error) {
      said = error
    }
  }
  const reason = 'no launch has ended for 20 ms while launches were pending'
  expect(said).toBeInstanceOf(WorldStopped)
  expect((said as WorldStopped).reason).toBe(
    `${reason}; the ranks of the world are stopping: synchronize throws an error that says what each rank was doing`,
  )
  isOver = true
  expect(await end).toMatchObject({ name: 'WorldStopped', reason })
  await world.close()
})
