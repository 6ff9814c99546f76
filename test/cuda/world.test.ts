/** Tests the CUDA world on a fake driver: its driver calls, the requests that it rejects, aborts and resets. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { flags, i32, kernel, launchOf, scalar, tensor, WorldStopped } from '../../src/index.ts'
import type { GpuWorldOptions } from '../../src/targets/gpu/machine.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver, words, type FakeDriver, type FakeKernel } from './fakeDriver.ts'
import { itForSome } from '../long.ts'

const heap = 1 << 16

function open(
  options: Partial<GpuWorldOptions> = {},
  kernels: Readonly<Record<string, FakeKernel>> = {},
): { world: CudaWorld; fake: FakeDriver } {
  const fake = fakeDriver({ kernels })
  const platform = { devices: [new Device(fake.driver, 0)], compile: () => new Uint8Array() }
  return { world: new CudaWorld(platform, { ranks: 2, heap, ...options }), fake }
}

const put = kernel('put', { x: tensor(i32, 1), value: scalar(i32) }, (t, { x, value }) =>
  t.store(x.at([t.program]), value),
)
const waiting = kernel('waiting', { ready: flags(), x: tensor(i32, 1) }, (t, { ready, x }) => {
  t.wait(ready.on(0))
  t.store(x.at([0]), 1)
})
/** A fake `put` kernel with the parameters x and value. */
const putting: FakeKernel = {
  params: 2,
  run: (launch) => {
    words(launch.pointer(0), launch.grid).fill(launch.word(1))
    return true
  },
}

describe('tensors', () => {
  it('store the written values, on each rank and for every dtype', async () => {
    const { world } = open()
    for (const dtype of ['f32', 'bf16', 'i64', 'u8'] as const) {
      const x = world.from(dtype, [5], (rank) => [0, 1, 2, 3, rank])
      for (const rank of [0, 1]) expect([...(await world.read(x, rank))]).toEqual([0, 1, 2, 3, rank])
    }
    const y = world.full('f16', [3], 1.5)
    expect([...(await world.read(y, 1))]).toEqual([1.5, 1.5, 1.5])
    await world.close()
  })

  it('are copied within a rank, from rank to rank and from one to all', async () => {
    const { world } = open({ ranks: 3 })
    const [x, y] = [world.from(i32, [2], (rank) => [rank, 7]), world.zeros(i32, [2])]
    await world.copy(x, y)
    expect([...(await world.read(y, 2))]).toEqual([2, 7])
    await world.copy(x, y, { from: 1, to: 0 })
    expect([...(await world.read(y, 0))]).toEqual([1, 7])
    await world.broadcast(x, 2)
    expect([...(await world.read(x, 0))]).toEqual([2, 7])
    await world.close()
  })

  it('may be larger than the memory they are staged in', async () => {
    const { world } = open({ ranks: 1, heap: 24 << 20 })
    const count = (9 << 20) / 4
    const x = world.from(
      'f32',
      [count],
      Float32Array.from({ length: count }, (_, i) => i % 1000),
    )
    const got = await world.read(x, 0)
    expect([got[0], got[1 << 21], got[count - 1]]).toEqual([0, 2 ** 21 % 1000, (count - 1) % 1000])
    await world.close()
  })

  it('that do not fit are rejected', async () => {
    const { world } = open()
    expect(() => world.zeros('f32', [1 << 20])).toThrow(/4 MiB do not fit the heap of 64 KiB/)
    await world.close()
  })
})

describe('a heap', () => {
  // The counters of kernels are stored after the heap.
  it('of any number of bytes ends at an aligned address', async () => {
    const { world } = open({ heap: 65_537 })
    expect(() => world.zeros('f32', [1 << 20])).toThrow(/do not fit the heap of 128 KiB/)
    await world.close()
  })

  it.each([0, -1, NaN, Infinity])('of %d bytes is rejected', (heap) => {
    expect(() => open({ heap })).toThrow(`a heap of ${heap} bytes`)
  })
})

describe('launches', () => {
  it('run on every rank with their scalar arguments', async () => {
    const { world, fake } = open({}, { put: putting })
    const x = world.zeros(i32, [4])
    for (const value of [3, 4, 5]) world.launch(put, { x, value }, { grid: 4 })
    expect([...(await world.read(x, 0))]).toEqual([5, 5, 5, 5])
    world.launch(put, { x, value: (rank: number) => 10 + rank }, { grid: 2 })
    expect([...(await world.read(x, 1))]).toEqual([11, 11, 5, 5])
    expect(fake.launches).toHaveLength(8)
    await world.close()
  })

  itForSome([15, 60], (runs) => runs === 15)(
    'use their own arguments, whichever arguments the previous launch shared: %i histories',
    async (runs) => {
      const ranks = [0, 1, 2]
      const some = fc.record({
        tensor: fc.nat(1),
        value: fc.nat(2),
        grid: fc.nat(2),
        how: fc.constantFrom(
          'plain',
          'value by rank',
          'grid by rank',
          'tensor by rank',
          'one rank',
          'freed before',
        ),
        rank: fc.nat(2),
      })
      await fc.assert(
        fc.asyncProperty(fc.array(some, { minLength: 2, maxLength: 40 }), async (launches) => {
          const { world } = open({ ranks: 3 }, { put: putting })
          const tensors = [0, 1, 2, 3].map(() => world.zeros(i32, [4]))
          const expected = tensors.map(() => ranks.map(() => [0, 0, 0, 0]))
          for (const { tensor, value, grid, how, rank } of launches) {
            if (how === 'freed before') world.free(world.zeros(i32, [1]))
            const numberOf = (own: number): number => value + (how === 'value by rank' ? own : 0)
            const gridOf = (own: number): number => grid + (how === 'grid by rank' ? own : 0)
            const placeOf = (own: number): number => tensor + (how === 'tensor by rank' ? own % 3 : 0)
            world.launch(
              put,
              {
                x: how === 'tensor by rank' ? (own) => tensors[placeOf(own)] : tensors[tensor],
                value: how === 'value by rank' ? numberOf : value,
              },
              { grid: how === 'grid by rank' ? gridOf : grid, ...(how === 'one rank' && { ranks: [rank] }) },
            )
            for (const own of how === 'one rank' ? [rank] : ranks)
              expected[placeOf(own)][own].fill(numberOf(own), 0, gridOf(own))
          }
          await world.synchronize()
          for (const [n, tensor] of tensors.entries())
            for (const rank of ranks) expect([...(await world.read(tensor, rank))]).toEqual(expected[n][rank])
          await world.close()
        }),
        { numRuns: runs },
      )
    },
  )

  it('use kernels of their own context, even if a destroyed context had the same address', async () => {
    const fake = fakeDriver()
    // In this test a function handle is the number of its context. Addresses of destroyed contexts are reused.
    const contexts = new Map<bigint, number>()
    let [current, made] = [0n, 0]
    const launched: [found: number, current: number][] = []
    const calls: Partial<Record<string, (...args: never[]) => void>> = {
      cuGreenCtxCreate: (to: BigUint64Array) => {
        to[0] = 0x1000n
        while (contexts.has(to[0])) to[0] += 0x1000n
        contexts.set(to[0], ++made)
      },
      cuCtxFromGreenCtx: (to: BigUint64Array, green: bigint) => void (to[0] = green),
      cuGreenCtxDestroy: (green: bigint) => void contexts.delete(green),
      cuCtxSetCurrent: (context: bigint) => void (current = context),
      cuKernelGetFunction: (to: BigUint64Array) => void (to[0] = BigInt(contexts.get(current)!)),
      cuLaunchKernelEx: (_: number, found: number) => void launched.push([found, contexts.get(current)!]),
    }
    const driver = new Proxy(fake.driver, {
      get: (all, name: string) => calls[name] ?? (all as unknown as typeof calls)[name],
    })
    const platform = { devices: [new Device(driver, 0)], compile: () => new Uint8Array() }
    for (let n = 0; n < 2; n++) {
      const world = new CudaWorld(platform, { ranks: 2, heap })
      world.launch(put, { x: world.zeros(i32, [1]), value: 1 }, { grid: 1 })
      await world.close()
    }
    expect(launched).toEqual([1, 2, 3, 4].map((context) => [context, context]))
  })

  it('are enqueued on all ranks without blocking', async () => {
    const { world, fake } = open({ ranks: 4 })
    const x = world.zeros(i32, [4])
    const before = fake.calls.length
    world.launch(put, { x, value: 1 }, { grid: 1 })
    world.launch(put, { x, value: 2 }, { grid: 1 })
    const made = fake.calls.slice(before)
    expect(made.filter((call) => call === 'cuLaunchKernelEx')).toHaveLength(8)
    expect(made.filter((call) => /Synchronize|Query/.test(call))).toEqual([])
    await world.close()
  })

  it('of programs that wait must be resident as a whole', async () => {
    const { world, fake } = open()
    const [ready, x] = [world.flags(), world.zeros(i32, [1])]
    world.launch(waiting, { ready, x }, { grid: 'resident' })
    // Each rank has 64 multiprocessors, with two programs each.
    expect(fake.launches.map(({ grid }) => grid)).toEqual([128, 128])
    expect(() => world.launch(waiting, { ready, x }, { grid: 129 })).toThrow(
      /129 programs do not fit: 128 run at once on rank 0.*it may wait at .*world\.test\.ts.*Launch at most 128/,
    )
    await world.close()
  })

  it('of programs that do not wait may be of any size', async () => {
    const { world, fake } = open()
    const x = world.zeros(i32, [1000])
    world.launch(put, { x, value: 1 }, { grid: 1000 })
    expect(fake.launches.map(({ grid, cooperative }) => [grid, cooperative])).toEqual([
      [1000, false],
      [1000, false],
    ])
    await world.close()
  })

  it('may start before the previous launch has ended, until a second stream is used', async () => {
    const { world, fake } = open()
    const [ready, x, y] = [world.flags(), world.zeros(i32, [1]), world.zeros(i32, [64])]
    const stream = world.stream()
    const modes = (launch: () => void) => {
      const from = fake.launches.length
      launch()
      return fake.launches.slice(from).map(({ cooperative, early }) => ({ cooperative, early }))
    }
    const both = (mode: { cooperative: boolean; early: boolean }) => [mode, mode]
    const wait = () => world.launch(waiting, { ready, x }, { grid: 2 })
    expect(modes(wait)).toEqual(both({ cooperative: false, early: true }))
    const elsewhere = () => world.launch(put, { x: y, value: 1 }, { grid: 1, stream })
    expect(modes(elsewhere)).toEqual(both({ cooperative: false, early: false }))
    expect(modes(wait)).toEqual(both({ cooperative: true, early: false }))
    await world.close()
  })

  it('of a co-launch set never start early', async () => {
    const { world, fake } = open()
    const [ready, x, y] = [world.flags(), world.zeros(i32, [1]), world.zeros(i32, [64])]
    world.launchTogether([
      launchOf(waiting, { ready, x }, { grid: 2 }),
      launchOf(put, { x: y, value: 1 }, { grid: 2, stream: world.stream() }),
    ])
    expect(fake.launches.some(({ early }) => early)).toBe(false)
    await world.close()
  })

  it('of a co-launch set must fit their rank together', async () => {
    const { world } = open()
    const [ready, x, y] = [world.flags(), world.zeros(i32, [1]), world.zeros(i32, [64])]
    const together = (grid: number): void =>
      world.launchTogether([
        launchOf(waiting, { ready, x }, { grid }),
        launchOf(put, { x: y, value: 1 }, { grid: 64, stream: world.stream() }),
      ])
    expect(() => together(65)).toThrow(/65 of waiting and 64 of put on the 64 processors of rank 0/)
    expect(() => together(64)).not.toThrow()
    await world.close()
  })

  it('may be thousands, and no more are enqueued than the driver accepts without blocking', async () => {
    const { world, fake } = open({ ranks: 1 }, { put: putting })
    const x = world.zeros(i32, [1])
    for (let value = 0; value < 3000; value++) world.launch(put, { x, value }, { grid: 1 })
    expect([...(await world.read(x, 0))]).toEqual([2999])
    expect(fake.launches).toHaveLength(3000)
    await world.close()
  })
})

describe('an abort', () => {
  /**
   * A kernel that ends when its control block, the last parameter, requests an abort, and then records that it waited
   * at the first wait of the kernel.
   */
  const stuck: FakeKernel = {
    params: 7,
    run: (launch) => {
      const control = words(launch.pointer(6), 8)
      if (control[0] === 0) return false
      control.set([1, 0, 6, 7], 4)
      return true
    },
  }

  it('happens when no launch ends, reports each wait, and allows a reset', async () => {
    const { world } = open({ timeout: 50 }, { waiting: stuck, put: putting })
    const [ready, x] = [world.flags([], { name: 'ready' }), world.zeros(i32, [1])]
    world.launch(put, { x, value: 9 }, { grid: 1 })
    world.launch(waiting, { ready, x }, { grid: 1 })
    world.launch(waiting, { ready, x }, { grid: 1 })
    const error: unknown = await world.synchronize().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(WorldStopped)
    const stop = error as WorldStopped
    expect(stop.reason).toBe('no launch has ended for 50 ms while launches were pending')
    expect(stop.workers.map(({ rank, program, kernel: name }) => [rank, program, name])).toEqual([
      [0, 0, 'waiting'],
      [1, 0, 'waiting'],
    ])
    expect(stop.workers[1].flag).toEqual({ name: 'ready', rank: 0, value: 6, wanted: 7 })
    expect(stop.message).toMatch(
      /world\.test\.ts:\d+:\d+ {2}rank 1, program 0 of waiting waits for ready on rank 0: it is 6, 7 is wanted/,
    )
    expect(stop.message).toMatch(/\n {2}no launched kernel signals ready$/)
    expect(() => world.launch(put, { x, value: 1 }, { grid: 1 })).toThrow(WorldStopped)
    await world.reset()
    world.launch(put, { x, value: 4 }, { grid: 1 })
    expect([...(await world.read(x, 1))]).toEqual([4])
    await world.close()
  })

  it('says who could have signalled, and what became of them', async () => {
    const signal = kernel('signal', { ready: flags() }, (t, { ready }) =>
      t.if(t.rank.eq(9), () => t.signal(ready)),
    )
    const { world } = open({ timeout: 50 }, { waiting: stuck, signal: { params: 0, run: () => true } })
    const [ready, x] = [world.flags([], { name: 'ready' }), world.zeros(i32, [1])]
    world.launch(signal, { ready }, { grid: 1, ranks: [0] })
    world.launch(waiting, { ready, x }, { grid: 1 })
    world.launch(signal, { ready }, { grid: 1, ranks: [1] })
    const stop = (await world.synchronize().catch((thrown: unknown) => thrown)) as WorldStopped
    expect(
      stop.signals.map(({ flag, signals }) => [flag, signals.map(({ ranks, what }) => [ranks, what])]),
    ).toEqual([
      [
        'ready',
        [
          [[0], 'has ended'],
          [[1], 'has not started, because it follows waiting on its stream'],
        ],
      ],
    ])
    expect(String(stop.signals[0].signals[0].site)).toMatch(/world\.test\.ts:\d+:\d+/)
    await world.close()
  })

  it('takes back what words carry of epochs', async () => {
    const params = { ready: flags(), x: tensor('f32', 1, { carries: 'ready' }) }
    const carrying = kernel('carrying', params, (t, { ready, x }) => {
      t.wait(ready.on(0))
      t.store(x.at([0]), 1)
    })
    const { world } = open({ timeout: 50 }, { carrying: stuck })
    const [x, y] = [world.full('f32', [4], 5), world.full('f32', [4], 5)]
    world.launch(carrying, { x, ready: world.flags() }, { grid: 1 })
    await expect(world.synchronize()).rejects.toThrow(WorldStopped)
    await world.reset()
    expect([...(await world.read(x, 1)), ...(await world.read(y, 1))]).toEqual([0, 0, 0, 0, 5, 5, 5, 5])
    await world.close()
  })

  it('that no call has thrown yet is thrown by close', async () => {
    const { world } = open({ timeout: 50 }, { waiting: stuck })
    world.launch(waiting, { ready: world.flags(), x: world.zeros(i32, [1]) }, { grid: 1 })
    await expect(world.close()).rejects.toThrow(/no launch has ended for 50 ms/)
  })
})

describe('graphs', () => {
  it('replay their launches on all ranks, by one call', async () => {
    const counts = [0, 0]
    const streams: number[] = []
    const counting: FakeKernel = {
      params: 2,
      run: ({ stream, grid }) => {
        if (!streams.includes(stream)) streams.push(stream)
        counts[streams.indexOf(stream)] += grid
        return true
      },
    }
    const { world, fake } = open({}, { put: counting })
    const x = world.zeros(i32, [1])
    const graph = world.graph(() => {
      world.launch(put, { x, value: 1 }, { grid: 1 })
      world.launch(put, { x, value: 2 }, { grid: 1 })
    })
    expect(graph.nodes).toBe(4)
    await world.synchronize()
    expect(counts).toEqual([0, 0])
    const before = fake.calls.length
    for (let replay = 0; replay < 1000; replay++) graph.launch()
    expect(fake.calls.slice(before).filter((call) => call === 'cuLaunchKernelEx')).toEqual([])
    await world.synchronize()
    expect(counts).toEqual([2000, 2000])
    world.launch(put, { x, value: 3 }, { grid: 1 })
    await world.synchronize()
    expect(counts).toEqual([2001, 2001])
    graph.close()
    await world.close()
  })

  it('whose body throws leave no capture behind', async () => {
    const { world } = open()
    expect(() =>
      world.graph(() => {
        throw new Error('mine')
      }),
    ).toThrow('mine')
    expect(world.graph(() => {}).nodes).toBe(0)
    await world.close()
  })
})
