/**
 * Tests launches that read a tensor early (before the previous kernel has ended), on a fake driver. A launch that
 * writes the tensor runs after the launches that read it early, and the host does not block.
 */
import { expect, it } from 'vitest'
import { flags, i32, kernel, scalar, tensor, WorldStopped } from '../../src/index.ts'
import { gatherKernel } from '../../src/ops/gathered/gather.ts'
import { flashDecode } from '../../src/ops/flashDecode/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver, words, type FakeDriver, type FakeKernel } from './fakeDriver.ts'

const hold = kernel('hold', { open: tensor(i32, 1), wanted: scalar(i32) }, (t, { open, wanted }) => {
  const look = () => t.load(open.at([0]), { order: 'acquire', scope: 'system' })
  t.while(
    look(),
    (seen) => seen.lt(wanted),
    () => look(),
  )
})
const pass = kernel('pass', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
const ask = kernel('ask', { ready: flags() }, (t, { ready }) => t.wait(ready.at([])))
const tell = kernel('tell', { ready: flags() }, (t, { ready }) => t.signal(ready.on(0).at([])))

/**
 * Opens a world with a product whose input an all-gather writes. `ran` lists the kernels in the order in which they
 * end.
 */
async function open({ programsPerSm = 2 } = {}) {
  const ran: string[] = []
  const noting = (name: string): FakeKernel => ({ params: 0, run: () => ran.push(name) > 0 })
  const holding: FakeKernel = {
    params: 3,
    run: (launch) => words(launch.pointer(0), 1)[0] >= launch.word(1) || words(launch.pointer(2), 1)[0] !== 0,
  }
  /** A kernel that ends when the kernel `tell` has run, or when its control block requests an abort. */
  const asking: FakeKernel = {
    params: 5,
    run: (launch) => ran.includes('tell') || words(launch.pointer(4), 1)[0] !== 0,
  }
  const names = ['gemm', 'allGatherK', 'tell']
  const kernels = Object.fromEntries(names.map((name) => [name, noting(name)]))
  const passing: FakeKernel = { params: 0, run: () => true }
  const fake = fakeDriver({
    programsPerSm,
    kernels: { ...kernels, hold: holding, pass: passing, ask: asking },
  })
  const platform = { devices: [new Device(fake.driver, 0)], compile: () => new Uint8Array() }
  const world = new CudaWorld(platform, { ranks: 2, heap: 1 << 20, timeout: 50 })
  const [a, gathered] = [world.zeros('bf16', [64, 64]), world.zeros('bf16', [64, 128])]
  const [b, c] = [world.zeros('bf16', [128, 64]), world.zeros('bf16', [64, 64])]
  const [entered, left, ready] = [world.flags([2]), world.flags([2]), world.flags()]
  const [word, x] = [world.zeros(i32, [1]), world.zeros(i32, [1])]
  const meta = { BM: 64, BN: 64, BK: 64, stages: 2 }
  const product = { a: gathered, b, c }
  const gather = { a, gathered, entered, left }
  const gatherK = gatherKernel({ dtype: 'bf16', shard: 'K' })
  await world.prepare(gemmKernel('bf16'), { args: product, meta })
  await world.prepare(gatherK, { args: gather })
  await world.prepare(hold, { args: { open: word, wanted: 1 } })
  await world.prepare(pass, { args: { x } })
  await world.prepare(ask, { args: { ready } })
  await world.prepare(tell, { args: { ready } })
  return {
    ...{ world, fake, ran, ready, b },
    hold: () => world.launch(hold, { open: word, wanted: 1 }, { grid: 1 }),
    pass: () => world.launch(pass, { x }, { grid: 1 }),
    release: () => [0, 1].forEach((rank) => world.write(word, rank, [1])),
    multiply: (ranks = [0, 1], grid = 1) => world.launch(gemmKernel('bf16'), product, { grid, meta, ranks }),
    gather: (ranks = [0, 1]) => world.launch(gatherK, gather, { grid: 1, ranks }),
  }
}

it('enqueues an all-gather behind a product that reads its output early, while both wait for the host', async () => {
  const { world, ran, ...launch } = await open()
  launch.hold()
  launch.pass()
  for (let round = 0; round < 2; round++) {
    launch.multiply()
    launch.gather()
    launch.multiply()
  }
  expect(ran).toEqual([])
  launch.release()
  await world.synchronize()
  const [product, both] = ['gemm', ['allGatherK', 'allGatherK']]
  expect(ran.slice(0, 2)).toEqual([product, product])
  expect(ran.filter((name) => name === 'allGatherK')).toEqual([...both, ...both])
  await world.close()
})

it('makes the all-gather wait for the product on the device only once', async () => {
  const { world, fake, ...launch } = await open()
  launch.hold()
  launch.pass()
  const callsOf = (start: () => void): string[] => {
    const before = fake.calls.length
    start()
    return fake.calls.slice(before).filter((call) => /Event(?!Create)|Launch/.test(call))
  }
  const launches = ['cuLaunchKernelEx', 'cuLaunchKernelEx']
  expect(callsOf(launch.multiply)).toEqual(launches)
  const held = callsOf(launch.gather)
  expect(held.filter((call) => call === 'cuStreamWaitEvent')).toHaveLength(2)
  expect(held.slice(-2)).toEqual(launches)
  for (let again = 0; again < 3; again++) expect(callsOf(launch.gather)).toEqual(launches)
  launch.release()
  await world.close()
})

it('aborts the world if a launch before the product waits for a launch after the all-gather', async () => {
  const { world, ran, ready, ...launch } = await open()
  world.launch(ask, { ready }, { grid: 1, ranks: [0] })
  launch.pass()
  launch.multiply([0])
  launch.gather([1])
  world.launch(tell, { ready }, { grid: 1, ranks: [1] })
  const stop: unknown = await world.synchronize().catch((thrown: unknown) => thrown)
  expect(stop).toBeInstanceOf(WorldStopped)
  expect((stop as WorldStopped).reason).toMatch(
    /allGatherK writes, on another rank or stream, a tensor that gemm reads early, so allGatherK starts after gemm has ended: .*launch allGatherK before gemm/,
  )
  // After an abort, the remaining launches still run to their end, in order.
  expect(ran).toEqual(['gemm', 'allGatherK', 'tell'])
  await world.reset()
  ran.length = 0
  launch.gather([1])
  world.launch(tell, { ready }, { grid: 1, ranks: [1] })
  world.launch(ask, { ready }, { grid: 1, ranks: [0] })
  launch.multiply([0])
  await world.synchronize()
  expect(ran).toEqual(['allGatherK', 'tell', 'gemm'])
  await world.close()
})

it('rejects a write of the host to a tensor that a launch reads early', async () => {
  const { world, b, ...launch } = await open()
  const zeros = new Float32Array(128 * 64)
  launch.multiply()
  world.write(b, 0, zeros)
  launch.hold()
  launch.pass()
  launch.multiply([0])
  world.write(b, 1, zeros)
  expect(() => world.write(b, 0, zeros)).toThrow(/the host writes x\d+, .*: write x\d+ before that launch/)
  await expect(world.close()).rejects.toThrow(/the host writes/)
})

it('allows no early reads directly behind a kernel that polls, since it may wait for a write of the host', async () => {
  const { world, ran, b, ...launch } = await open()
  const zeros = new Float32Array(128 * 64)
  launch.hold()
  launch.multiply()
  world.write(b, 0, zeros)
  launch.release()
  await world.synchronize()
  expect(ran).toEqual(['gemm', 'gemm'])
  await world.close()
})

it('allows no early reads directly behind a graph that contains a kernel that polls', async () => {
  const { world, ran, b, ...launch } = await open()
  const graph = world.graph(launch.hold)
  graph.launch()
  launch.multiply()
  world.write(b, 0, new Float32Array(128 * 64))
  launch.release()
  await world.synchronize()
  expect(ran).toEqual(['gemm', 'gemm'])
  await world.close()
})

it('starts the product early behind a kernel that has only flags, but without early reads', async () => {
  const { world, fake, ran, ready, ...launch } = await open()
  world.launch(ask, { ready }, { grid: 1, ranks: [0] })
  launch.multiply([0])
  expect(fake.launches.at(-1)).toMatchObject({ kernel: 'gemm', early: true })
  // The all-gather need not wait for the matrix product, which reads the data that the all-gather writes.
  launch.gather([1])
  world.launch(tell, { ready }, { grid: 1, ranks: [1] })
  await world.synchronize()
  expect(ran).toEqual(['allGatherK', 'tell', 'gemm'])
  await world.close()
})

/** True if the launches may start early (programmatic dependent launch). All ranks must agree. */
function isEarly({ launches }: FakeDriver, start: () => void): boolean {
  const from = launches.length
  start()
  const [first, ...others] = launches.slice(from).map(({ early }) => early)
  for (const other of others) expect(other).toBe(first)
  return first
}

it.each([1, 2])('starts the next launch early with %d programs per multiprocessor', async (programsPerSm) => {
  const { world, fake, ...launch } = await open({ programsPerSm })
  const many = world.machine.processors[0] + 1
  for (const grid of [1, many, many]) expect(isEarly(fake, () => launch.multiply([0, 1], grid))).toBe(true)
  const graph = world.graph(() => {
    launch.multiply([0, 1], many)
    launch.multiply([0, 1], many)
  })
  expect(fake.launches.slice(-4).map(({ early }) => early)).toEqual([true, true, true, true])
  graph.close()
  await world.close()
})

it('starts kernels with waits early behind any kernel, and any kernel early behind them', async () => {
  const { world, fake, ...launch } = await open()
  const many = world.machine.processors[0] + 1
  const [ranks, dtype, tokens] = [2, 'bf16', 512] as const
  const shape = { batch: 1, queryHeads: 4, kvHeads: 1, D: 128, tokens }
  const fused = flashDecode(world, {
    shape,
    dtype,
    variant: 'fused',
    tiles: { BN: 64, stages: 2, splits: 4 },
    grid: many,
  })
  fused.launch()
  expect(fake.launches.at(-1)).toMatchObject({ cooperative: false, early: true, grid: many })
  expect(fake.launches.length).toBeGreaterThanOrEqual(ranks)
  expect(isEarly(fake, () => launch.multiply([0, 1], many))).toBe(true)
  expect(isEarly(fake, () => fused.launch())).toBe(true)
  await world.close()
})
