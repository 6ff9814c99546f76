/**
 * What `arke emit --target cuda` prints is what a world launches, byte by byte: the texts that a world on one GPU, of a driver without
 * one, hands to the compiler are compared with those that the command prints for the same kernels, ranks, meta-parameters and extents.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { emit } from '../../src/cli/emit.ts'
import { load } from '../../src/cli/load.ts'
import { bf16, f32, flags, kernel, tensor, type Program } from 'arke'
import { factsOf, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { unlikeUnrecorded } from '../../src/targets/cuda/emit/recorded.ts'
import { operations } from '../../src/ops/operations.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { argumentOf } from '../../src/world/arguments.ts'
import { intercepted } from '../../src/world/intercept.ts'
import type { Launch, World } from '../../src/world/world.ts'
import { fakeDriver } from './fakeDriver.ts'
import { itForSome, long } from '../long.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Any kernel, which does nothing: results are not looked at. */
const kernels = new Proxy({}, { get: () => ({ params: 0, run: () => true }), has: () => true })

interface Texts {
  readonly launched: ReadonlySet<string>
  readonly printed: ReadonlySet<string>
}

async function texts(
  ranks: number,
  record: boolean,
  heap: number,
  use: (world: World) => unknown,
): Promise<Texts> {
  const launched = new Set<string>()
  const printed = new Set<string>()
  const compile = ({ source }: EmittedKernel): Uint8Array => {
    launched.add(source)
    return new Uint8Array()
  }
  const platform = { devices: [new Device(fakeDriver({ kernels }).driver, 0)], compile }
  const world = new CudaWorld(platform, { ranks, heap, record })
  const seen = intercepted(world, (launches, go) => {
    for (const launch of launches) printed.add(print(launch, ranks, record))
    go()
  })
  await use(seen)
  await world.close().catch(() => undefined)
  launched.forEach((source) => source.includes('read_clock') && launched.delete(source))
  return { launched, printed }
}

/** As a person would: names and numbers on the command line. */
function print({ kernel, args, options }: Launch, ranks: number, record: boolean): string {
  const shapes = Object.entries(args).flatMap(([name, value]) => {
    const { kind, shape } = argumentOf(value, 0) as { kind?: string; shape?: readonly number[] }
    return kind === 'tensor' ? [`${name}=${shape!.join('x')}`] : []
  })
  const given = Object.entries((options.meta ?? {}) as Record<string, unknown>)
  const meta = given
    .filter(([name]) => name in kernel.meta)
    .map(([name, value]) => `${name}=${String(value)}`)
  const source = { file: 'kernel.ts', kernels: [kernel], scenarios: [] }
  return emit(source, { target: 'cuda', ranks, shapes, meta, record }).text
}

describe.each([false, true])('what is printed is what is launched, recording: %s', (record) => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => /^\d.*\.ts$/.test(name))
  itForSome(examples, (name) => !record || name === '06-message-passing.ts')('examples/%s', async (name) => {
    const { scenarios } = await load(join(root, 'examples', name))
    for (const { ranks, run } of scenarios) {
      const { launched, printed } = await texts(ranks[0], record, 1 << 22, async (world) => {
        try {
          await run(world)
        } catch {
          // A scenario that looks at its results finds that nothing was computed.
        }
      })
      expect(launched.size).toBeGreaterThan(0)
      for (const source of launched) expect(printed).toContain(source)
    }
  })

  it.each(operations.map((definition) => [definition.name, definition] as const))(
    '%s, in every form',
    record ? long : {},
    async (_, { points, make, tiling }) => {
      const [ranks, dtype, [shape]] = [2, 'bf16' as const, Object.values(points.usual)]
      const { launched, printed } = await texts(ranks, record, 1 << 28, (world) => {
        const forms = Object.values(points.forms({ machine: world.machine, ranks, dtype, shape }))
        expect(forms.length).toBeGreaterThan(0)
        for (const form of forms) {
          const options = { ...form, shape, dtype }
          const [tiles] = tiling(world, options).candidates()
          make(world, { ...options, tiles } as typeof options).launch()
        }
      })
      expect(launched.size).toBeGreaterThan(0)
      for (const source of launched) expect(printed).toContain(source)
    },
  )
})

describe('a kernel that records', () => {
  const form = (world: number, body: (t: Program) => void) => kernel('form', {}, body).record({ world })
  const facts = { tensors: {}, record: true, oneDevice: true, words: false }
  const params = { x: tensor(bf16, 2), y: tensor(f32, 2), told: flags(1) }

  it('is the same program where nothing differs', () => {
    expect(
      unlikeUnrecorded(
        form(2, () => undefined),
        facts,
      ),
    ).toEqual([])
  })

  it('says where it waits otherwise, and copies later', () => {
    const told = kernel('told', params, (t, { told }) => t.for(t.world, (rank) => t.wait(told.at([rank]))))
    expect(unlikeUnrecorded(told.record({ world: 2 }), facts)).toEqual([
      expect.stringContaining('told waits for one flag after the other'),
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
      expect.stringContaining('product copies nothing before the kernel ahead of it has ended'),
    ])
  })
})
