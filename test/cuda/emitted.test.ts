/**
 * The texts that a world on one or several GPUs hands to the compiler are those that `arke emit --target cuda` prints,
 * byte by byte and in both directions: all examples at each scenario's world sizes, the collectives, operations by
 * name, and every operation with all its variants and options (its forms). The driver is a fake without a GPU. The
 * forms of operations (variants and options) are specialised as by a world, without allocating memory.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, kernel, tensor, type Meta, type Program } from 'arke'
import { emitOperation } from '../../src/cli/emit.ts'
import { load } from '../../src/cli/load.ts'
import * as collectives from '../../src/ops/collectives/index.ts'
import { operandDTypes } from '../../src/operation/definition.ts'
import { operations } from '../../src/ops/operations.ts'
import { factsOf, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { unlikeUnrecorded } from '../../src/targets/cuda/emit/recorded.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { emittedFor } from '../../src/targets/cuda/executables.ts'
import { describedGpu } from '../../src/targets/cuda/description.ts'
import { shapesOf, specialise, usualWorld } from '../../src/targets/cuda/facts.ts'
import { argumentOf } from '../../src/world/arguments.ts'
import { describedWorld } from '../../src/world/described.ts'
import { intercepted } from '../../src/world/intercept.ts'
import { limitsOf, oneEach, sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import type { Launch, World } from '../../src/world/world.ts'
import { itForSome } from '../long.ts'
import {
  cellName,
  cellsOf,
  drawing,
  everyLayout,
  launchesOf,
  launchPrinting,
  printed,
  type Cell,
} from '../targets/printed.ts'
import { fakeDriver } from './fakeDriver.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A fake kernel that does nothing; results are not checked. */
const kernels = new Proxy({}, { get: () => ({ params: 0, run: () => true }), has: () => true })

/** The facts of a world on one GPU, or on one GPU per rank. */
interface Where {
  readonly ranks: number
  readonly record: boolean
  readonly severalDevices: boolean
}

/** The texts that a world without a GPU compiles, in order, and the launches. */
async function launchedOn(
  { ranks, record, severalDevices }: Where,
  use: (world: World) => unknown,
  heap = 1 << 22,
): Promise<{ readonly texts: readonly string[]; readonly launches: readonly Launch[] }> {
  const texts: string[] = []
  const launches: Launch[] = []
  const compile = ({ source }: EmittedKernel): Uint8Array => {
    if (!source.includes('read_clock')) texts.push(source)
    return new Uint8Array()
  }
  const { driver } = fakeDriver({ name: h200.name, kernels })
  const devices = Array.from({ length: severalDevices ? ranks : 1 }, (_, index) => new Device(driver, index))
  const world = new CudaWorld({ devices, compile }, { ranks, heap, record })
  const seen = intercepted(world, (some, go) => {
    launches.push(...some)
    go()
  })
  try {
    await use(seen)
  } finally {
    await world.close()
  }
  return { texts, launches }
}

/**
 * Launches kernels on a world without a GPU, and compares the texts that the world compiles with those of the command.
 * Returns the number of texts.
 */
async function compare(where: Where, use: (world: World) => unknown): Promise<number> {
  const { texts, launches } = await launchedOn(where, use)
  const launched = new Set(texts)
  const wanted = new Set(launches.map((launch) => printed(launch, { ...where, target: 'cuda' })))
  expect([...launched].sort()).toEqual([...wanted].sort())
  const devices = where.severalDevices && where.ranks > 1 ? 'may be on several devices' : 'all on one device'
  for (const text of launched)
    expect(text).toContain(`ranks: ${devices}; recording: ${where.record ? 'on' : 'off'}`)
  return launched.size
}

/** The text that the backend of a world loads for a launch. */
function loaded({ kernel, args, options }: Launch, { ranks, record, severalDevices }: Where): string {
  const ir = kernel.record({ world: ranks, meta: options.meta as Meta | undefined })
  const given = Object.entries(args).map(([name, value]) => [name, argumentOf(value, 0)] as const)
  const values = Object.fromEntries(given) as Parameters<typeof emittedFor>[1]
  return emittedFor(ir, values, { ...usualWorld, record, oneDevice: !severalDevices }).kernel.source
}

/**
 * A scenario that compares its results fails, because nothing was computed; an error of any other kind fails the test.
 * A host cannot poll.
 */
async function runBlind(run: (world: World) => unknown, world: World): Promise<void> {
  world.peek = () => Promise.reject(new Error('no kernel runs'))
  try {
    await run(world)
  } catch (error) {
    expect(String(error)).toMatch(/^(Error|AssertionError)/)
    expect((error as Error).name).not.toMatch(/WorldError|KernelError|TypeError|RangeError/)
  }
}

const worlds = [false, true].flatMap((record) =>
  [false, true].map((severalDevices) => ({ record, severalDevices })),
)
/** Selects test cases for the short tests such that each kind of world occurs. */
const isDrawn = (index: number): boolean => index % (2 * worlds.length + 1) === 0
const worldName = 'recording: $record, several devices: $severalDevices'

describe('the printed source equals the launched source', () => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => /^\d.*\.ts$/.test(name))
  const cases = examples.flatMap((name) => worlds.map((world) => ({ name, ...world })))
  // The short tests run each example in one kind of world.
  itForSome(cases, (_, index) => index % worlds.length === Math.floor(index / worlds.length) % worlds.length)(
    `examples/$name, ${worldName}`,
    async ({ name, ...facts }) => {
      const { scenarios } = await load(join(root, 'examples', name))
      expect(scenarios.length).toBeGreaterThan(0)
      for (const { ranks, run } of scenarios)
        for (const size of ranks) {
          // With only one rank there is only one device.
          const where = { ranks: size, ...facts, severalDevices: facts.severalDevices && size > 1 }
          expect(await compare(where, (world) => runBlind(run, world))).toBeGreaterThan(0)
        }
    },
  )

  it.each(worlds)(`a kernel that prints, ${worldName}`, async (facts) => {
    expect(await compare({ ranks: 2, ...facts }, launchPrinting)).toBe(1)
    const { texts } = await launchedOn({ ranks: 2, ...facts }, launchPrinting)
    expect(texts[0]).toContain('print_buffer_f32: starts at a multiple of 16 bytes; extents are multiples of')
  })

  const answer = kernel('answer', { x: tensor(f32, 1), go: flags() }, (t, { x, go }) => {
    t.wait(go)
    t.store(x.at([0]), 1)
  })
  it.each(
    worlds.flatMap((world) => [undefined, 'host' as const].map((signaller) => ({ signaller, ...world }))),
  )(`flags with the signaller $signaller, ${worldName}`, async ({ signaller, ...facts }) => {
    const use = (world: World) =>
      world.launch(answer, { x: world.empty(f32, [8]), go: world.flags([], { signaller }) }, { grid: 1 })
    expect(await compare({ ranks: 2, ...facts }, use)).toBe(1)
    const { texts } = await launchedOn({ ranks: 2, ...facts }, use)
    expect(texts[0].includes('; the host signals flags')).toBe(signaller === 'host')
    expect(texts[0].includes('ld.acquire.gpu')).toBe(signaller === undefined && !facts.severalDevices)
    const { world, launches } = describedWorld(sharedOut(h200, 2))
    void use(world)
    expect(printed(launches[0], { ranks: 2, ...facts, target: 'cuda' })).toBe(texts[0])
  })

  const sets = [2, 8].flatMap((ranks) =>
    operandDTypes.flatMap((dtype) => worlds.map((world) => ({ ranks, dtype, ...world }))),
  )
  itForSome(sets, (_, index) => isDrawn(index))(
    `collectives in $dtype on $ranks ranks, ${worldName}`,
    async ({ dtype, ...where }) => {
      const { ranks } = where
      const options = { dtype, elements: 4096 }
      const count = await compare(where, (world) => {
        const one = () => world.empty(dtype, [options.elements])
        const each = () => world.empty(dtype, [ranks, options.elements])
        collectives.barrier(world).launch()
        collectives.allGather(world, options).launch(one(), each())
        collectives.allToAll(world, options).launch(each(), each())
        collectives.broadcast(world, options).launch(one(), 0)
        collectives.reduceScatter(world, options).launch(each(), one())
        for (const variant of ['oneShot', 'twoShot', 'ring'] as const)
          collectives.allReduce(world, { ...options, variant }).launch(one())
      })
      expect(count).toBeGreaterThan(6)
    },
  )

  const groups = [
    [1, 3, 5],
    [5, 0, 3],
    [3, 2],
  ]
  itForSome(
    groups.flatMap((list) => worlds.map((world) => ({ list, name: list.join(), ...world }))),
    (_, index) => isDrawn(index),
  )(`collectives on the group $name, ${worldName}`, async ({ list, ...facts }) => {
    const options = { dtype: f32, elements: 4096 } as const
    const use = (world: World): void => {
      const group = world.group(list)
      const one = () => world.empty(f32, [options.elements])
      collectives.allGather(group, options).launch(one(), world.empty(f32, [list.length, options.elements]))
      collectives.allReduce(group, { ...options, variant: 'twoShot' }).launch(one())
    }
    expect(await compare({ ranks: 6, ...facts }, use)).toBeGreaterThan(1)
    const { texts } = await launchedOn({ ranks: 6, ...facts }, use)
    const isScattered = list.join() !== '1,3,5'
    for (const text of texts) expect(text.includes('; a table has the heaps of the group')).toBe(isScattered)
  })
})

/**
 * Every operation with all its variants and options, at every usual shape, as `CudaBackend.load` specialises its
 * kernels.
 */
describe('what is printed is what is launched', () => {
  const cells = cellsOf(operations)
  const machineOf = (ranks: number, severalDevices: boolean) =>
    severalDevices ? oneEach(h200, ranks) : sharedOut(h200, ranks)
  async function expectSame(
    cell: Cell,
    where: Where,
    choose: (candidates: readonly object[]) => readonly object[],
  ): Promise<void> {
    const launches = await launchesOf(cell, machineOf(where.ranks, where.severalDevices), false, choose)
    expect(launches.length).toBeGreaterThan(0)
    for (const launch of launches)
      expect(printed(launch, { ...where, target: 'cuda' })).toBe(loaded(launch, where))
  }

  itForSome(cells, ({ dtype, ranks }) => dtype === 'bf16' && ranks === 8)(
    `with tiles drawn by seed: ${cellName}`,
    async (cell) => {
      const draw = drawing(1 + cells.indexOf(cell))
      const facts = worlds[draw(worlds.length)]
      await expectSame(cell, { ranks: cell.ranks, ...facts }, (all) =>
        draw(3) === 0 ? [all[draw(all.length)]] : [],
      )
    },
  )

  // Only some candidate tiles are compared, because a kernel keeps all its recordings and their stages in memory.
  itForSome(cells, () => false)(`with many candidate tiles: ${cellName}`, async (cell) => {
    const draw = drawing(1000 + cells.indexOf(cell))
    await expectSame(cell, { ranks: cell.ranks, record: false, severalDevices: false }, (all) =>
      all.filter(() => draw(Math.ceil(all.length / 4)) === 0),
    )
  })

  const named = operations.flatMap((definition) => worlds.map((world) => ({ definition, ...world })))
  itForSome(named, (_, index) => isDrawn(index))(
    `operations by name: $definition.name, ${worldName}`,
    async ({ definition, ...facts }) => {
      const dtype = 'bf16'
      const where = { ranks: 2, ...facts }
      for (const [options, layout] of everyLayout(definition))
        for (const variant of definition.variants) {
          const use = (world: World) => definition.make(world, { ...options, dtype, variant }).launch()
          const { texts } = await launchedOn(where, use, 1 << 25)
          const asked = { target: 'cuda', ranks: 2, dtype, variant, layout, ...facts } as const
          const { text } = await emitOperation(definition, asked)
          expect(text).toBe([...new Set(texts)].join('\n'))
        }
    },
  )
})

describe('a kernel that records events', () => {
  const form = (world: number, body: (t: Program) => void) => kernel('form', {}, body).record({ world })
  const facts = { tensors: {}, record: true, oneDevice: true }
  const params = { x: tensor(bf16, 2), y: tensor(f32, 2), told: flags(1) }

  it('reports no difference if recording does not change it', () => {
    expect(
      unlikeUnrecorded(
        form(2, () => undefined),
        facts,
      ),
    ).toEqual([])
  })

  it('reports a store that TMA does not make, because the log needs shared memory', async () => {
    const { kernels } = await load(join(root, 'examples/07-all-gather-gemm.ts'))
    const recorded = kernels.find(({ name }) => name === 'allGatherGemm')!.record({ world: 2 })
    const within = (sharedBytes: number): readonly string[] => {
      const device = limitsOf(describedGpu({ sharedBytes }))
      const all = specialise({ ...usualWorld, record: true, device }, shapesOf(recorded))
      return unlikeUnrecorded(recorded, all).map((one) => one.replace(/ at \S+:\d+:\d+/, ''))
    }
    expect(within(100_800)).toEqual([])
    expect(within(100_500)).toEqual([
      expect.stringMatching(
        /^allGatherGemm has these ops only when nothing is recorded: staging, boxes, .*drain \(2 times\), .*store\.box/,
      ),
      'allGatherGemm has these ops only when it records: store',
    ])
  })

  it('reports that its waits differ, and that it copies later', () => {
    const told = kernel('told', params, (t, { told }) => t.for(t.world, (rank) => t.wait(told.at([rank]))))
    const here = /emitted\.test\.ts:\d+:\d+|\S*test\/cuda\//g
    const plain = (all: readonly string[]): string[] => all.map((one) => one.replace(here, ''))
    expect(plain(unlikeUnrecorded(told.record({ world: 2 }), facts))).toEqual([
      'told has these ops only when it records: once at ',
      'told has these ops at another place when nothing is recorded: wait at , meet at ',
      'told, for at : apart: no (true when nothing is recorded)',
    ])
    const product = kernel('product', params, (t, { x, y }) => {
      const tile = t.shared(bf16, [64, 64])
      const sum = t.pipeline([4], t.zeros(f32, [64, 64]), ([k], acc) => {
        t.copy(x.tile([0, k], [64, 64]), tile)
        return t.dot(tile, tile, acc)
      })
      t.store(y.tile([0, 0], [64, 64]), sum)
    })
    const shaped = { ...facts, tensors: { x: factsOf([64, 256]), y: factsOf([64, 64]) } }
    expect(unlikeUnrecorded(product.record({ world: 1 }), shaped)).toEqual([
      'product: nothing is copied before the previous kernel has ended (producer may copy x before the previous kernel has ended when nothing is recorded)',
    ])
  })
})
