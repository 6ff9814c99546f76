/** Tests the behaviour of every world, whatever its target: allocation, reading and writing, streams. */
import {
  bf16,
  f32,
  flags,
  i32,
  kernel,
  launchOf,
  openWorld,
  scalar,
  tensor,
  WorldError,
  type World,
} from 'arke'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openHandmade } from '../targets/cpu/handmade.ts'

const worlds: readonly (readonly [string, () => Promise<World>])[] = [
  ['check', () => openWorld({ ranks: 3 })],
  ['cpu', () => Promise.resolve(openHandmade({ ranks: 3, workers: 1 }))],
]

describe.each(worlds)('on %s', (name, open) => {
  let world: World
  beforeAll(async () => {
    world = await open()
  })
  afterAll(() => world.close())

  it('all ranks are local', () => expect(world.localRanks).toEqual([0, 1, 2]))

  it('tensors hold their initial contents', async () => {
    const read = async (x: Parameters<World['read']>[0], rank = 0): Promise<number[]> => [
      ...(await world.read(x, rank)),
    ]
    expect(await read(world.zeros(f32, [2, 2]))).toEqual([0, 0, 0, 0])
    expect(await read(world.full(bf16, [3], 1 / 3))).toEqual([0.333984375, 0.333984375, 0.333984375])
    expect(await read(world.arange(i32, [2, 3]), 2)).toEqual([0, 1, 2, 3, 4, 5])
    expect(await read(world.from(f32, [2], Float32Array.of(1.5, 2.5)), 1)).toEqual([1.5, 2.5])
    expect(
      await read(
        world.from(f32, [1], (rank) => [rank * 10]),
        2,
      ),
    ).toEqual([20])
    expect(await read(world.zeros(f32, [0, 4]))).toEqual([])
  })

  it('random tensors depend only on seed and rank', async () => {
    const x = world.rand(f32, [1000], { seed: 7 })
    const again = world.rand(f32, [1000], { seed: 7 })
    const other = world.rand(f32, [1000])
    const values = await world.read(x, 1)
    expect(await world.read(again, 1)).toEqual(values)
    expect(await world.read(x, 0)).not.toEqual(values)
    expect(await world.read(other, 1)).not.toEqual(values)
    expect(values.every((value) => value >= 0 && value < 1)).toBe(true)
    expect(mean(values)).toBeCloseTo(0.5, 1)
    const normal = await world.read(world.randn(f32, [4000], { seed: 8 }), 0)
    expect(mean(normal)).toBeCloseTo(0, 1)
    expect(mean(normal.map((value) => value * value))).toBeCloseTo(1, 1)
    expect(() => world.rand(i32, [1])).toThrow('rand of i32: random tensors need a floating-point dtype')
  })

  it('tensors are written, copied and broadcast', async () => {
    const [x, y] = [world.zeros(f32, [2]), world.zeros(f32, [1, 2])]
    world.write(x, 1, [3, 4])
    await world.copy(x, y)
    expect([...(await world.read(y, 1)), ...(await world.read(y, 0))]).toEqual([3, 4, 0, 0])
    await world.copy(x, y, { from: 1, to: 2 })
    expect([...(await world.read(y, 2))]).toEqual([3, 4])
    await world.broadcast(x, 1)
    for (const rank of [0, 1, 2]) expect([...(await world.read(x, rank))]).toEqual([3, 4])
    await expect(world.copy(x, world.zeros(f32, [3]))).rejects.toThrow(
      'a copy keeps dtype and number of elements',
    )
    expect(() => world.write(x, 0, [1])).toThrow('2 elements, but 1 were given for rank 0')
    expect(() => world.write(x, 3, [1, 2])).toThrow('there is no rank 3 in a world of 3')
    await expect(world.read(x, -1)).rejects.toThrow(WorldError)
  })

  it('freed tensors cannot be used any more', async () => {
    const x = world.zeros(f32, [2], { name: 'x' })
    world.free(x)
    expect(() => world.free(x)).toThrow('x was freed')
    await expect(world.read(x, 0)).rejects.toThrow('x was freed')
  })

  it('kernels accept packed tensors', async () => {
    const packed = await world.pack(world.arange(f32, [2, 2], { name: 'w' }))
    expect({ ...packed, source: undefined }).toEqual({
      kind: 'packed',
      name: 'w',
      dtype: 'f32',
      shape: [2, 2],
    })
  })

  it('shapes, dtypes and alignments are checked', () => {
    expect(() => world.zeros(f32, [])).toThrow('one to four extents')
    expect(() => world.zeros(f32, [1.5])).toThrow('one to four extents')
    expect(() => world.zeros('bool' as never, [1])).toThrow('a tensor of bool')
    expect(() => world.zeros(f32, [1], { alignment: 100 })).toThrow('a power of two from 256 to 65536')
    expect(() => world.flags([1, 1, 1, 1])).toThrow('up to three extents')
  })

  it('numbers of arrivals, seeds and the ranks of a launch are checked at their line', () => {
    const refused = (call: () => unknown, message: string): void => {
      expect(call).toThrow(message)
      expect(call).toThrow(/^test\/world\/world\.test\.ts:\d+:\d+: /)
    }
    for (const arrivals of [0, -1, 1.5, NaN])
      refused(
        () => world.flags([], { arrivals }),
        `flags of ${arrivals} arrivals per epoch: it must be a whole number, 1 or more`,
      )
    for (const seed of [1.5, NaN, 2 ** 53])
      refused(() => world.rand(f32, [1], { seed }), `a seed of ${seed}: it must be a whole number below 2^53`)
    for (const signaller of ['me', true] as never[])
      refused(
        () => world.flags([], { signaller }),
        `a signaller of ${JSON.stringify(signaller)}: it must be 'host', or left out if kernels signal the flags`,
      )
    const one = kernel('one', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
    const x = world.zeros(f32, [1])
    const launch = (ranks: readonly number[]) => () => world.launch(one, { x }, { grid: 1, ranks })
    refused(launch([3]), 'there is no rank 3 in a world of 3')
    // The second pass of the loop repeats launches whose argument layout the world already knows.
    for (let i = 0; i < 2; i++) {
      refused(launch([1, 0, 1]), 'a launch on ranks [1, 0, 1]: rank 1 occurs more than once')
      launch([1])()
      launch([0])()
    }
  })

  it('a rank that does not exist is reported at the line that reads it', async () => {
    const x = world.zeros(f32, [1])
    for (const read of [() => world.peek(x, 4), () => world.read(x, 4), () => world.group([1]).peek(x, 4)])
      await expect((async () => read())()).rejects.toThrow(
        /^test\/world\/world\.test\.ts:\d+:\d+: there is no rank 4 in /,
      )
  })

  it('a shape that is a number is rejected at its line', () => {
    const three = 3 as never
    for (const allocate of [
      () => world.zeros(f32, three),
      () => world.arange(f32, three),
      () => world.flags(three),
    ])
      expect(allocate).toThrow(
        /^test\/world\/world\.test\.ts:\d+:\d+: (a tensor|flags) of shape 3: it must have/,
      )
  })

  it('a launch without a grid, or with a tensor of another rank and dtype, is rejected at its line', () => {
    const one = kernel('one', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
    const x = world.zeros(f32, [1])
    expect(() => world.launch(one, { x }, {} as never)).toThrow(
      /^test\/world\/world\.test\.ts:\d+:\d+: the grid is missing/,
    )
    const wide = world.zeros(bf16, [1, 1]) as never
    expect(() => world.launch(one, { x: wide }, { grid: 1 })).toThrow(
      /world\.test\.ts:\d+:\d+: one: argument x has 2 axes, the kernel wants 1; it holds bf16, the kernel wants f32/,
    )
  })

  it('every rank must make the same allocations', async () => {
    const other = await open()
    other.on(0).zeros(f32, [4])
    expect(() => other.on(2).zeros(f32, [8])).toThrow(
      /allocation 0 differs between ranks: rank 0 allocates f32\[4\]; rank 2 allocates f32\[8\]/,
    )
    await other.close().catch(() => undefined)
    const uneven = await open()
    uneven.on(0).zeros(f32, [4])
    uneven.on(1).zeros(f32, [4])
    await expect(uneven.synchronize()).rejects.toThrow('ranks 0, 1 allocate f32[4]; rank 2 allocates nothing')
    await uneven.close().catch(() => undefined)
  })

  it('co-launched kernels need their own streams', () => {
    const nothing = kernel('nothing', { ready: flags() }, (t, { ready }) => t.signal(ready))
    const launch = launchOf(nothing, { ready: world.flags() }, { grid: 1 })
    expect(() => world.launchTogether([launch, launch])).toThrow('give each its own stream')
    expect(() => world.launch(nothing, { ready: world.flags() }, { grid: 1, stream: -1 })).toThrow(
      'no stream -1',
    )
  })
  void name
})

describe('events on the checker', () => {
  const write = kernel('write', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
  const read = kernel('read', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) =>
    t.store(y.at([0]), t.load(x.at([0]))),
  )
  const run = async (ordered: boolean): Promise<number> => {
    const world = await openWorld({ ranks: 1, seed: 3 })
    const [first, second] = [world.stream(), world.stream()]
    const [x, y] = [world.zeros(f32, [1]), world.zeros(f32, [1])]
    world.launch(write, { x }, { grid: 1, stream: first })
    if (ordered) second.wait(first.record())
    world.launch(read, { x, y }, { grid: 1, stream: second })
    return (await world.read(y, 0))[0]
  }
  it('order streams', async () => expect(await run(true)).toBe(1))
  it('without them there is a race', async () => {
    await expect(run(false)).rejects.toThrow('race')
  })
})

describe('a heap that is full', () => {
  it('reports the requested, used and free sizes', async () => {
    const world = openHandmade({ ranks: 2, heap: 1 << 20 })
    world.zeros(f32, [100_000])
    expect(() => world.zeros(f32, [200_000], { name: 'w' })).toThrow(
      'w: 781.3 KiB do not fit the heap of 1 MiB: 390.8 KiB are used, 633.3 KiB free, 633.3 KiB in one piece. Free tensors, or open the world with more heap',
    )
    await world.close()
  })
  it('cannot exceed the address space', () => {
    expect(() => openHandmade({ ranks: 8, heap: 2 ** 30 })).toThrow(
      '8 heaps of 1 GiB do not fit 32-bit addresses',
    )
  })
})

const mean = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((sum, value) => sum + value, 0) / values.length

it('openWorld without options is rejected at its line', async () => {
  await expect(openWorld(undefined as never)).rejects.toThrow(
    /^test\/world\/world\.test\.ts:\d+:\d+: openWorld needs options/,
  )
})

describe.each(['check', 'wasm'])('a scalar argument on %s', (target) => {
  const unfit = {
    i32: [1.5, 2 ** 31, -(2 ** 31) - 1, NaN, Infinity],
    u32: [0.5, -1, 2 ** 32, NaN],
    i64: [0.5, 2 ** 53, NaN, -Infinity],
    f32: [1e39, -1e39],
  } as const
  const fit = {
    i32: [-(2 ** 31), 2 ** 31 - 1],
    u32: [0, 2 ** 32 - 1],
    i64: [-(2 ** 53) + 1, 2 ** 53 - 1],
    f32: [0.1, 1e38, -Infinity, NaN],
  } as const
  it.each(['i32', 'u32', 'i64', 'f32'] as const)('must be a number that %s holds', async (dtype) => {
    await using world = await openWorld({ target, ranks: 1 })
    const put = kernel('put', { x: tensor(dtype, 1), n: scalar(dtype) }, (t, { x, n }) =>
      t.store(x.at([0]), n as never),
    )
    const x = world.zeros(dtype, [1])
    const launch = (n: number): void => world.launch(put, { x, n } as never, { grid: 1 })
    const refused = (): void => {
      for (const n of unfit[dtype])
        expect(() => launch(n), String(n)).toThrow(/world\.test\.ts:\d+:\d+: put: argument n is /)
    }
    refused()
    for (const n of fit[dtype]) {
      launch(n)
      expect((await world.read(x, 0))[0]).toBe(dtype === 'f32' ? Math.fround(n) : n)
    }
    // A later launch reuses the argument layout of an earlier one, but the later launch's arguments are validated, too.
    refused()
  })
})

it('an allocation that a stopped world refuses leaves no trace', async () => {
  const wait = kernel('wait', { ready: flags() }, (t, { ready }) => t.wait(ready))
  await using world = await openWorld({ target: 'wasm', ranks: 2, timeout: 50 })
  world.launch(wait, { ready: world.flags() }, { grid: 1 })
  await expect(world.synchronize()).rejects.toThrow('the world has stopped')
  expect(() => world.zeros(f32, [4])).toThrow('the world has stopped')
  await world.reset()
  expect([...(await world.read(world.full(f32, [1], 3), 1))]).toEqual([3])
})
