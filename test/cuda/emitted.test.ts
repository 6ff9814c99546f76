/**
 * The texts that a world on one GPU hands to the compiler are those that `arke emit --target cuda` prints, byte by byte and in both
 * directions: the example ladder at each scenario's world sizes, the collectives, and every form of every operation. The driver has
 * no GPU behind it. Operations are compared as the world's backend specialises them, without memory.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, kernel, tensor, type Meta, type Program } from 'arke'
import { emit } from '../../src/cli/emit.ts'
import { load } from '../../src/cli/load.ts'
import * as collectives from '../../src/ops/collectives/index.ts'
import { operandDTypes } from '../../src/operation/definition.ts'
import { operations } from '../../src/ops/operations.ts'
import { factsOf, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { unlikeUnrecorded } from '../../src/targets/cuda/emit/recorded.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { emittedFor } from '../../src/targets/cuda/executables.ts'
import { argumentOf } from '../../src/world/arguments.ts'
import { describedWorld, launchFacts } from '../../src/world/described.ts'
import { intercepted } from '../../src/world/intercept.ts'
import { sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/world/machines.ts'
import type { Launch, World } from '../../src/world/world.ts'
import { itForSome } from '../long.ts'
import { fakeDriver } from './fakeDriver.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A fake kernel that does nothing; results are not checked. */
const kernels = new Proxy({}, { get: () => ({ params: 0, run: () => true }), has: () => true })

/** Launches on a world without a GPU, and compares what it compiles with what the command prints. Returns the number of texts. */
async function compare(ranks: number, record: boolean, use: (world: World) => unknown): Promise<number> {
  const launched = new Set<string>()
  const printed = new Set<string>()
  const compile = ({ source }: EmittedKernel): Uint8Array => {
    if (!source.includes('read_clock')) launched.add(source)
    return new Uint8Array()
  }
  const platform = { devices: [new Device(fakeDriver({ kernels }).driver, 0)], compile }
  const world = new CudaWorld(platform, { ranks, heap: 1 << 22, record })
  const seen = intercepted(world, (launches, go) => {
    for (const launch of launches) printed.add(print(launch, launch.options.group?.ranks ?? ranks, record))
    go()
  })
  try {
    await use(seen)
  } finally {
    await world.close()
  }
  expect([...launched].sort()).toEqual([...printed].sort())
  return launched.size
}

/** As a person would: names and numbers on the command line. */
function print(launch: Launch, ranks: number, record: boolean): string {
  const { kernel, options } = launch
  const { shapes } = launchFacts(launch)
  const meta = Object.entries((options.meta ?? {}) as Record<string, unknown>)
    .filter(([name]) => name in kernel.meta)
    .map(([name, value]) => `${name}=${String(value)}`)
  const extents = Object.entries(shapes).map(([name, shape]) => `${name}=${shape.join('x')}`)
  const source = { file: 'kernel.ts', kernels: [kernel], scenarios: [], operations: [] }
  return emit(source, { target: 'cuda', ranks, extents, meta, record }).text
}

/** The text that the backend of a world loads for a launch. */
function loaded({ kernel, args, options }: Launch, ranks: number, record: boolean): string {
  const ir = kernel.record({ world: ranks, meta: options.meta as Meta | undefined })
  const given = Object.entries(args).map(([name, value]) => [name, argumentOf(value, 0)] as const)
  const values = Object.fromEntries(given) as Parameters<typeof emittedFor>[1]
  return emittedFor(ir, values, { record, oneDevice: true }).kernel.source
}

/** A scenario that looks at its results finds that nothing was computed; any other error is one. */
async function runBlind(run: (world: World) => unknown, world: World): Promise<void> {
  try {
    await run(world)
  } catch (error) {
    expect(String(error)).toMatch(/^(Error|AssertionError)/)
    expect((error as Error).name).not.toMatch(/WorldError|KernelError|TypeError|RangeError/)
  }
}

describe.each([false, true])('the printed source equals the launched source, recording: %s', (record) => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => /^\d.*\.ts$/.test(name))
  // The short tests alternate: one example is recorded, the next is not.
  itForSome(examples, (_, place) => (place % 2 === 0) === record)('examples/%s', async (name) => {
    const { scenarios } = await load(join(root, 'examples', name))
    expect(scenarios.length).toBeGreaterThan(0)
    for (const { ranks, run } of scenarios)
      for (const size of ranks)
        expect(await compare(size, record, (world) => runBlind(run, world))).toBeGreaterThan(0)
  })

  itForSome([2, 8], (ranks) => (ranks === 8) === record)('collectives on %i ranks', async (ranks) => {
    const options = { dtype: 'bf16' as const, elements: 4096 }
    const count = await compare(ranks, record, (world) => {
      const one = () => world.empty('bf16', [options.elements])
      const each = () => world.empty('bf16', [ranks, options.elements])
      collectives.barrier(world).launch()
      collectives.allGather(world, options).launch(one(), each())
      collectives.allToAll(world, options).launch(each(), each())
      collectives.broadcast(world, options).launch(one(), 0)
      collectives.reduceScatter(world, options).launch(each(), one())
      for (const variant of ['oneShot', 'twoShot', 'ring'] as const)
        collectives.allReduce(world, { ...options, variant }).launch(one())
    })
    expect(count).toBeGreaterThan(6)
  })
})

const cells = operations.flatMap((definition) =>
  operandDTypes.flatMap((dtype) =>
    [2, 8].map((ranks) => [definition.name, dtype, ranks, definition] as const),
  ),
)

/** Every form at every usual shape, as `CudaBackend.load` specialises its kernels; no memory is allocated. */
describe('what is printed is what is launched', () => {
  const isShort = ([, dtype, ranks]: (typeof cells)[number]): boolean => dtype === 'bf16' && ranks === 8
  itForSome(cells, isShort)('%s, %s, %i ranks', ([, dtype, ranks, { points, make, tiling }]) => {
    const machine = sharedOut(h200, ranks)
    for (const shape of Object.values(points.usual)) {
      const forms = Object.values(points.forms({ machine, ranks, dtype, shape }))
      expect(forms.length).toBeGreaterThan(0)
      for (const form of forms) {
        const { world, launches } = describedWorld(machine)
        const options = { ...form, shape, dtype }
        const [tiles] = tiling(world, options).candidates()
        make(world, { ...options, tiles } as typeof options).launch()
        expect(launches.length).toBeGreaterThan(0)
        for (const launch of launches)
          for (const record of dtype === 'bf16' && ranks === 2 ? [false, true] : [false])
            expect(print(launch, ranks, record)).toBe(loaded(launch, ranks, record))
      }
    }
  })
})

describe('a kernel that records', () => {
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

  it('reports that its waits differ, and that it copies later', () => {
    const told = kernel('told', params, (t, { told }) => t.for(t.world, (rank) => t.wait(told.at([rank]))))
    expect(unlikeUnrecorded(told.record({ world: 2 }), facts)).toContainEqual(
      'told has 0 loops of waits that threads divide among themselves (1 when nothing is recorded)',
    )
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
      'product has 0 roles that copy before the previous kernel has ended (1 when nothing is recorded)',
    ])
  })
})
