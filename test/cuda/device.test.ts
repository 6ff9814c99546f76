/**
 * Tests of the CUDA world on a GPU: aborts, reset, graphs, streams, residency. On a machine without a GPU these tests
 * are skipped, and the reason is printed.
 */
import { describe, expect, it } from 'vitest'
import { flags, i32, kernel, launchOf, openWorld, scalar, tensor, WorldStopped } from '../../src/index.ts'
import type { World } from '../../src/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import { pictureOf } from '../../src/runs/ledger.ts'
import { measure } from '../../src/runs/measure.ts'
import { runPartNames, type RunLedger } from '../../src/runs/results.ts'
import { compileCuda } from '../../src/targets/cuda/nvrtc.ts'
import { cudaStatus } from '../../src/targets/cuda/open.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import { eventsOf, Kind } from '../../src/timeline/timeline.ts'
import { programsPerProcessor } from '../../src/world/machine.ts'

const status = cudaStatus()
if (!status.usable) console.warn(`the cuda world is not tested here: ${status.about}`)
const onGpu = describe.skipIf(!status.usable)
const sizes = [1, 2, 4, 8]

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)
const open = async (ranks: number, timeout = 5000): Promise<CudaWorld> =>
  (await openWorld({ target: 'cuda', ranks, heap: 1 << 22, timeout })) as CudaWorld

/** Waits for a flag that no kernel signals. */
const waiting = kernel('waiting', { ready: flags() }, (t, { ready }) => t.wait(ready.on(0)))

/** Rank 1 signals once, but rank 0 waits for two arrivals. */
const oneShort = kernel('oneShort', { ready: flags(0, { arrivals: 2 }) }, (t, { ready }) => {
  t.if(t.rank.eq(t.world - 1), () => t.signal(ready.on(0)))
  t.if(t.rank.eq(0), () => t.wait(ready))
})

/** Polls a word in the memory of its own rank, which no kernel writes. */
const polling = kernel('polling', { x: tensor(i32, 1) }, (t, { x }) => {
  t.while(
    t.load(x.at([0]), { order: 'acquire' }),
    (seen) => seen.eq(0),
    () => t.load(x.at([0]), { order: 'acquire' }),
  )
})

/** Increases a number in memory repeatedly; each iteration takes about 1 us. */
const counting = kernel('counting', { x: tensor(i32, 1), turns: scalar(i32) }, (t, { x, turns }) =>
  t.for(turns, (i) =>
    t.store(x.at([0]), t.load(x.at([0]), { order: 'acquire' }).add(i), { order: 'release' }),
  ),
)

/** A kernel with two roles that exchange no data. One role waits for a barrier phase that never completes. */
const halted = kernel('halted', { x: tensor('f32', 1) }, (t, { x }) => {
  const buffer = t.shared('f32', [4])
  const full = t.barriers(1)
  t.roles({
    one: () => t.copy(x.tile([0], [4]), buffer),
    other: () => {
      t.wait(full.at(0), 0)
      t.store(x.tile([0], [4]), 1)
    },
  })
})

/** All ranks synchronise, then each increments its counter. */
const meeting = kernel('meeting', { arrived: flags(1), x: tensor(i32, 1) }, (t, { arrived, x }) => {
  t.signalAll(arrived.at([t.rank]))
  t.for(t.world, (source) => t.wait(arrived.at([source])))
  t.store(x.at([0]), t.load(x.at([0])).add(t.rank.add(1)))
})

/**
 * After a rank barrier, each rank adds the old value of its word to the word of the next rank. The result is wrong if a
 * replay of the graph is lost or runs too early.
 */
const add = kernel('add', { x: tensor(i32, 1), by: scalar(i32) }, (t, { x, by }) => {
  t.store(x.at([1]), t.load(x.at([1])).add(by))
})

/** Sets all elements of a matrix: `setTo` on the own rank, and `setNext` on the next rank, which waits for the flag. */
const setTo = kernel('setTo', { a: tensor('bf16', 2), value: scalar('f32') }, (t, { a, value }) =>
  t.store(a.tile([0, 0], [16, 64]), t.zeros('f32', [16, 64]).add(value).to('bf16')),
)
const setNext = kernel(
  'setNext',
  { a: tensor('bf16', 2), value: scalar('f32'), set: flags() },
  (t, { a, value, set }) => {
    const next = t.rank.add(1).mod(t.world)
    t.store(a.on(next).tile([0, 0], [16, 64]), t.zeros('f32', [16, 64]).add(value).to('bf16'))
    t.signal(set.on(next))
    t.wait(set)
  },
)
const addFirst = kernel('addFirst', { c: tensor('bf16', 2), sum: tensor('f32', 1) }, (t, { c, sum }) =>
  t.store(sum.at([0]), t.load(sum.at([0])).add(t.load(c.at([0, 0])).to('f32'))),
)

/** Fills a matrix with numbers of few bits, so that sums are exact. */
const someNumber = (i: number, j: number): number => (((31 * i + 17 * j) % 23) - 11) / 16
const fill = kernel('fill', { x: tensor('bf16', 2) }, (t, { x }) => {
  const [rows, columns] = [16, 128]
  t.persistent(x.tiles([rows, columns]), (xi, [i, j]) => {
    const row = t.arange(rows).add(i.mul(rows)).expand(1).broadcast([rows, columns])
    const column = t.arange(columns).add(j.mul(columns)).expand(0).broadcast([rows, columns])
    const number = row.mul(31).add(column.mul(17)).mod(23).sub(11)
    t.store(
      xi,
      number
        .to('f32')
        .mul(1 / 16)
        .to('bf16'),
    )
  })
})

/** The product of two matrices of numbers with few bits. Every sum is exact. */
function productOfNumbers(M: number, N: number, K: number): Float64Array {
  const sums = new Float64Array(M * N)
  for (let i = 0; i < M; i++)
    for (let k = 0; k < K; k++) {
      const left = someNumber(i, k)
      for (let j = 0; j < N; j++) sums[i * N + j] += left * someNumber(k, j)
    }
  return sums
}

async function stopOf(promise: Promise<unknown>): Promise<WorldStopped> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error instanceof WorldStopped, String(error)).toBe(true)
  return error as WorldStopped
}

/** Checks that after a reset all ranks can run and synchronise repeatedly. */
async function expectUsable(world: World): Promise<void> {
  await world.reset()
  const [x, arrived] = [world.zeros(i32, [1]), world.flags([world.ranks])]
  for (let n = 0; n < 20; n++) world.launch(meeting, { arrived, x }, { grid: 1 })
  for (const rank of world.localRanks) expect([...(await world.read(x, rank))]).toEqual([20 * (rank + 1)])
  await world.close()
}

onGpu.each(['cuda'])('a stop on %s', () => {
  it.each(sizes)(
    'reports the programs that wait for a flag that is never signalled: %i ranks',
    async (ranks) => {
      const world = await open(ranks, 200)
      const ready = world.flags([], { name: 'ready' })
      world.launch(waiting, { ready }, { grid: 2 })
      const { reason, workers } = await stopOf(world.synchronize())
      expect(reason).toBe('no launch has ended for 200 ms while launches were pending')
      expect(workers.map(({ rank, program, flag }) => ({ rank, program, flag }))).toEqual(
        range(2 * ranks).map((n) => ({
          rank: n >> 1,
          program: n % 2,
          flag: { name: 'ready', rank: 0, value: 0, wanted: 1 },
        })),
      )
      await expectUsable(world)
    },
  )

  it('reports the value of a flag that has too few arrivals', async () => {
    const world = await open(2, 200)
    const ready = world.flags([], { name: 'ready', arrivals: 2 })
    for (let launch = 0; launch < 30; launch++) world.launch(oneShort, { ready }, { grid: 1 })
    const { workers } = await stopOf(world.synchronize())
    // Two arrivals satisfy one launch, so the sixteenth launch is the first that waits in vain.
    expect(workers.map(({ rank, flag }) => ({ rank, flag }))).toEqual([
      { rank: 0, flag: { name: 'ready', rank: 0, value: 30, wanted: 32 } },
    ])
    await expectUsable(world)
  })

  it('aborts loops that run too long, and launches that have not started', async () => {
    const world = await open(1, 200)
    const x = world.zeros(i32, [1])
    const ready = world.flags([], { name: 'ready' })
    await world.prepare(waiting, { args: { ready } })
    world.launch(counting, { x, turns: 2 ** 31 - 1 }, { grid: 1 })
    for (let n = 0; n < 100; n++) world.launch(waiting, { ready }, { grid: 2 })
    const { workers } = await stopOf(world.synchronize())
    expect(workers.map(({ rank, kernel: name }) => ({ rank, kernel: name }))).toEqual([
      { rank: 0, kernel: 'counting' },
    ])
    await expectUsable(world)
  })

  it('aborts a polling loop, and a wait at a barrier without arrivals', async () => {
    const stuck = {
      'is in a loop that has not ended': (world: World) =>
        world.launch(polling, { x: world.zeros(i32, [1]) }, { grid: 1 }),
      'waits at a barrier of its program': (world: World) =>
        world.launch(halted, { x: world.zeros('f32', [4]) }, { grid: 1 }),
    }
    for (const [told, start] of Object.entries(stuck)) {
      const world = await open(2, 200)
      start(world)
      const { workers } = await stopOf(world.synchronize())
      expect(workers.map(({ rank, what }) => ({ rank, what }))).toEqual(
        [0, 1].map((rank) => ({ rank, what: told })),
      )
      await expectUsable(world)
    }
  })
})

onGpu.each(['cuda'])('copies that start early on %s', () => {
  it.each(sizes)('see what launches before them wrote, on any rank: %i ranks', async (ranks) => {
    const world = await open(ranks)
    const [a, b] = [world.zeros('bf16', [16, 64]), world.full('bf16', [64, 64], 1)]
    const [c, sum, set] = [world.zeros('bf16', [16, 64]), world.zeros('f32', [1]), world.flags([])]
    const tiles = { BM: 16, BN: 64, BK: 64, stages: 2 }
    const multiply = (): void => {
      world.launch(gemmKernel('bf16'), { a, b, c }, { grid: 1, meta: tiles })
      world.launch(addFirst, { c, sum }, { grid: 1 })
    }
    let expected = 0
    for (let n = 1; n <= 100; n++) {
      const value = n % 8
      if (n % 3 === 0) world.launch(setTo, { a, value }, { grid: 1 })
      else world.launch(setNext, { a, value, set }, { grid: 1 })
      // The second kernel sometimes reads a tensor early, when no launch has written the tensor since the world was
      // idle.
      for (let again = 0; again < 2; again++) {
        multiply()
        if (n % 5 === 0) await world.synchronize()
        expected += 64 * value
      }
    }
    for (const rank of world.localRanks) expect([...(await world.read(sum, rank))]).toEqual([expected])
    await world.close()
  })
})

/** Matrix products by single warps, and by warpgroups that read panels of 32 columns. */
onGpu.each(['cuda'])('products on %s', () => {
  it.each([
    [64, 224, 5],
    [64, 112, 9],
    [16, 224, 7],
    [128, 224, 5],
  ])('have read tiles of %i x %i before they are filled again', async (BM, BN, stages) => {
    const [M, N, K, ranks] = [BM === 128 ? 200 : 64, 3584, 2048, 8]
    const world = await openWorld({ target: 'cuda', ranks, heap: 1 << 26, timeout: 5000 })
    const [a, b] = [world.empty('bf16', [M, K]), world.empty('bf16', [K, N])]
    for (const x of [a, b]) world.launch(fill, { x }, { grid: 'resident' })
    const c = world.empty('bf16', [M, N])
    const wanted = productOfNumbers(M, N, K)
    const meta = { BM, BN, BK: 64, stages }
    for (let n = 0; n < 6; n++) {
      world.launch(gemmKernel('bf16'), { a, b, c }, { grid: 'resident', meta })
      for (const rank of world.localRanks) {
        const found = await world.read(c, rank)
        const wrong = range(M * N).filter(
          (at) => Math.abs(found[at] - wanted[at]) > Math.abs(wanted[at]) / 128,
        )
        expect(wrong.length, `launch ${n}, rank ${rank}`).toBe(0)
      }
    }
    await world.close()
  })
})

onGpu.each(['cuda'])('graphs on %s', () => {
  it.each(sizes)('are replayed 10,000 times with correct results: %i ranks', async (ranks) => {
    const world = await open(ranks)
    const [x, arrived] = [world.zeros(i32, [2]), world.flags([ranks])]
    const graph = world.graph(() => {
      world.launch(meeting, { arrived, x }, { grid: 1 })
      world.launch(add, { x, by: (rank: number) => rank + 2 }, { grid: 1 })
    })
    for (let replay = 0; replay < 10_000; replay++) graph.launch()
    world.launch(add, { x, by: 1 }, { grid: 1 })
    for (const rank of range(ranks))
      expect([...(await world.read(x, rank))]).toEqual([10_000 * (rank + 1), 10_000 * (rank + 2) + 1])
    await world.close()
  })

  it('that wait do not block writes of the host', async () => {
    const world = await open(8)
    const [x, y] = [world.zeros(i32, [1]), world.zeros(i32, [2])]
    const stream = world.stream()
    const count = (): void => world.launch(add, { x: y, by: 1 }, { grid: 1, stream })
    const graphs = range(8).map(() => world.graph(count))
    const replay = (): void => {
      for (const graph of graphs) {
        count()
        stream.record()
        graph.launch()
      }
    }
    replay()
    await world.synchronize()
    world.launch(polling, { x }, { grid: 1, stream })
    replay()
    for (const rank of range(8)) world.write(x, rank, [1])
    await world.synchronize()
    for (const rank of range(8)) expect((await world.read(y, rank))[1]).toBe(32)
    await world.close()
  })

  it('that hang are aborted', async () => {
    const world = await open(2, 200)
    const ready = world.flags([], { name: 'ready' })
    const graph = world.graph(() => world.launch(waiting, { ready }, { grid: 1 }))
    graph.launch()
    const { workers } = await stopOf(world.synchronize())
    expect(workers.map(({ rank, flag }) => [rank, flag?.name])).toEqual([
      [0, 'ready'],
      [1, 'ready'],
    ])
    await expectUsable(world)
  })
})

onGpu.each(['cuda'])('streams on %s', () => {
  it('run concurrently, wait for events, and measure the time between events', async () => {
    const send = kernel('send', { ready: flags() }, (t, { ready }) => t.signal(ready))
    const take = kernel('take', { ready: flags(), x: tensor(i32, 1) }, (t, { ready, x }) => {
      t.wait(ready)
      t.store(x.at([0]), 7)
    })
    const world = await open(2)
    const [ready, x] = [world.flags(), world.zeros(i32, [2])]
    const [first, second] = [world.stream(), world.stream()]
    const begin = second.record()
    world.launchTogether([
      launchOf(take, { ready, x }, { grid: 1, stream: first }),
      launchOf(send, { ready }, { grid: 1, stream: second }),
    ])
    const taken = first.record()
    second.wait(taken)
    world.launch(add, { x, by: 3 }, { grid: 1, stream: second })
    const end = second.record()
    await end.synchronize()
    for (const rank of [0, 1]) {
      expect([...(await world.read(x, rank))]).toEqual([7, 3])
      expect(end.elapsed(begin, rank) > 0).toBe(true)
    }
    expect(end.elapsed(begin) >= taken.elapsed(begin)).toBe(true)
    await world.close()
  })
})

onGpu.each(['cuda'])('residency on %s', () => {
  it.each(sizes)(
    'is the number of programs that run concurrently, and larger grids are rejected: %i ranks',
    async (ranks) => {
      const world = await open(ranks)
      const [x, arrived] = [world.zeros(i32, [1]), world.flags([ranks])]
      const wait = kernel('wait', { arrived: flags(1), x: tensor(i32, 1) }, (t, args) => {
        // Every program waits until the last program has started.
        t.last(() => t.signalAll(args.arrived.at([t.rank])))
        t.for(t.world, (source) => t.wait(args.arrived.at([source])))
        t.atomic.add(args.x.at([0]), 1)
      })
      world.launch(wait, { arrived, x }, { grid: 'resident' })
      const [programs] = await world.read(x, 0)
      expect(programs >= world.machine.processors[0], `${programs} programs`).toBe(true)
      let refusal = ''
      try {
        world.launch(wait, { arrived, x }, { grid: programs + 1 })
      } catch (error) {
        refusal = (error as Error).message
      }
      expect(refusal.includes(`Launch at most ${programs}`), refusal).toBe(true)
      await world.close()
    },
  )
})

/** Rank 1 computes for a number of iterations, then lets rank 0 copy from it. */
const late = kernel(
  'late',
  {
    x: tensor('f32', 2),
    y: tensor('f32', 2),
    result: tensor('f32', 1),
    ready: flags(),
    turns: scalar(i32),
  },
  (t, { x, y, result, ready, turns }) => {
    t.if(t.rank.eq(1), () => {
      const computed = t.for(turns, t.constant('f32', 1), (_, value) => value.mul(0.999).add(0.001))
      t.store(result.at([0]), computed)
      t.signal(ready.on(0))
    })
    t.if(t.rank.eq(0), () => {
      t.wait(ready)
      t.store(y.tile([0, 0], [64, 64]), t.load(x.on(1).tile([0, 0], [64, 64])))
    })
  },
)

onGpu.each(['cuda'])('a recording on %s', () => {
  const about = (actual: number, expected: number, part: number, what: string): void =>
    expect(Math.abs(actual - expected) <= part * expected, `${what}: ${actual}, not ${expected}`).toBe(true)
  const sumOf = ({ parts }: RunLedger): number => runPartNames.reduce((total, part) => total + parts[part], 0)

  it('contains launches, programs, the wait for a late rank and the copies from that rank', async () => {
    const world = (await openWorld({ target: 'cuda', ranks: 2, heap: 1 << 22, record: true })) as CudaWorld
    const [x, y] = [world.full('f32', [64, 64], 3), world.zeros('f32', [64, 64])]
    const args = { x, y, result: world.zeros('f32', [1]), ready: world.flags([], { name: 'ready' }) }
    await world.prepare(late, { args: { ...args, turns: 1 } })
    for (let n = 0; n < 3; n++) world.launch(late, { ...args, turns: 200_000 }, { grid: 1 })
    expect([...(await world.read(y, 0))].every((value) => value === 3)).toBe(true)
    const timeline = world.timeline()
    const { names, ranks } = timeline
    const found = ranks.map(({ events, tracks }) => {
      const of = (role: string, kind: Kind) =>
        tracks
          .filter((track) => track.role === role)
          .flatMap((track) => [...eventsOf(track)].filter((event) => events.kind[event] === kind))
          .map((event) => ({
            name: names[events.name[event]],
            length: events.duration[event],
            bytes: events.bytes.get(event),
          }))
      return {
        kernels: of('stream', Kind.kernel),
        programs: of('worker', Kind.annotation),
        waits: of('worker', Kind.wait),
        copies: of('worker', Kind.transfer),
      }
    })
    for (const { kernels, programs } of found) {
      expect(kernels.map(({ name }) => name)).toEqual(['late', 'late', 'late'])
      expect(programs.map(({ name }) => name)).toEqual(['late 0', 'late 0', 'late 0'])
    }
    const [prompt, delayed] = found
    expect(delayed.waits.length).toBe(0)
    expect(prompt.copies.map(({ bytes }) => bytes)).toEqual([16384, 16384, 16384])
    expect(prompt.waits.length).toBe(3)
    prompt.waits.forEach(({ name, length }, n) => {
      expect(name.startsWith('wait for ready of rank 0 at '), name).toBe(true)
      // The first launch of one rank may be enqueued some time before the first launch of the other rank.
      if (n > 0) about(length, delayed.programs[n].length, 0.1, 'the wait')
    })
    const to = Math.max(...ranks.map(({ deviceSpan }) => deviceSpan![1]))
    const { wall, ranks: drawn } = pictureOf(timeline, { from: 0, to }, { bandwidth: 1e12 })
    for (const { ledger } of drawn) about(sumOf(ledger), wall, 0.02, 'the parts of the ledger')
    await world.close()
  })

  it.each([2, 8])('yields the ledger of an operation on %i ranks', async (ranks) => {
    const [point] = await measure(allGatherGemmOperation, {
      options: { ...allGatherGemmOperation.defaults, shape: { M: 64, N: 512, K: 2048 }, dtype: 'bf16' },
      variants: allGatherGemmOperation.variants,
      open: (record) => openWorld({ target: 'cuda', ranks, record, heap: 1 << 26 }),
      now: () => performance.now() * 1e6,
      spin: true,
      seconds: 0.1,
      rotate: 1,
      recorded: 15,
      bandwidth: 4e12,
    })
    for (const { variant, ledger } of point.variants) {
      about(sumOf(ledger), ledger.wall, 0.02, `the parts of ${variant}`)
      expect(ledger.parts.useful > 0, `${variant} is useful`).toBe(true)
    }
  })
})

/** A kernel whose threads hold `values` floats at the same time. */
const holding = (threads: number, values: number): string => `
extern "C" __global__ void __launch_bounds__(${threads}, 1) holding(float* x) {
  float held[${values}];
  #pragma unroll
  for (int i = 0; i < ${values}; ++i) held[i] = x[i * ${threads} + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < ${values}; ++i) x[threadIdx.x * ${values} + i] = held[i];
}`

onGpu.each(['cuda'])('residency on %s', () => {
  it.each([32, 96, 128, 256, 384, 512, 1024])(
    'of programs of %i threads is the same by the machine record as by the driver',
    async (threads) => {
      const world = await open(1)
      const { machine } = world
      await world.close()
      const device = Device.open(0)
      for (const values of [4, 24, 60, 100]) {
        const { bytes } = compileCuda(holding(threads, values), { architecture: 'sm_90a' })
        const kernel = device.loadKernel(bytes, 'holding')
        const { registersPerThread } = kernel
        for (const sharedBytes of [0, 40_000, 100_000, 232_448]) {
          const what = `${registersPerThread} registers, ${sharedBytes} bytes`
          const byRecord = programsPerProcessor(machine, { threads, registersPerThread, sharedBytes })
          expect(byRecord, what).toBe(kernel.programsPerProcessor({ block: threads, sharedBytes }))
        }
      }
    },
  )
})
