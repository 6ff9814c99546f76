/**
 * The C++ that a native world compiles is what `arke emit --target native` prints, byte by byte and in both directions. The
 * engine of this world notes the texts and compiles none.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect } from 'vitest'
import { emit } from '../../../src/cli/emit.ts'
import { load } from '../../../src/cli/load.ts'
import { operations } from '../../../src/ops/operations.ts'
import { compile } from '../../../src/targets/cpu/executables.ts'
import { lowerKernel } from '../../../src/targets/cpu/lower/lower.ts'
import { defaultCaches, machineOf } from '../../../src/targets/native/build.ts'
import { sourceOf } from '../../../src/targets/native/render.ts'
import { describedWorld, launchFacts } from '../../../src/world/described.ts'
import { intercepted } from '../../../src/world/intercept.ts'
import { cpuMachine } from '../../../src/world/machines.ts'
import { itForSome } from '../../long.ts'
import { openWorld, type Meta } from 'arke'
import type { Launch, World } from '../../../src/world/world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const machine = machineOf('#define __AVX2__ 1\n#define __FMA__ 1', defaultCaches)

/** The text that the executables of a native world compile for a launch. */
function compiled(launch: Launch, ranks: number, record: boolean): string {
  const texts: string[] = []
  const engine = {
    machine,
    compile: (module: Parameters<typeof sourceOf>[0]) => {
      texts.push(sourceOf(module))
      return new Uint8Array()
    },
  }
  const ir = launch.kernel.record({ world: ranks, meta: launch.options.meta as Meta | undefined })
  compile({ ir, engine, lower: lowerKernel, record, packed: launchFacts(launch).packed })
  return texts[0]
}

/** As a person would: names and numbers on the command line. */
function printed(launch: Launch, ranks: number, record: boolean): string {
  const { kernel, options } = launch
  const meta = Object.entries((options.meta ?? {}) as Record<string, unknown>)
    .filter(([name]) => name in kernel.meta)
    .map(([name, value]) => `${name}=${String(value)}`)
  const { packed } = launchFacts(launch)
  const source = { file: 'kernel.ts', kernels: [kernel], scenarios: [], operations: [] }
  return emit(source, { target: 'native', ranks, meta, record, packed }).text
}

function expectSame(launches: readonly Launch[], ranks: number): void {
  expect(launches.length).toBeGreaterThan(0)
  for (const launch of launches)
    for (const record of [false, true])
      expect(printed(launch, ranks, record)).toBe(compiled(launch, ranks, record))
}

async function launchesOf(ranks: number, run: (world: World) => Promise<unknown>): Promise<Launch[]> {
  const launches: Launch[] = []
  await using world = await openWorld({ target: 'check', ranks })
  await run(
    intercepted(world, (some, go) => {
      launches.push(...some)
      go()
    }),
  )
  return launches
}

describe('what is printed is what is compiled', () => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => /^\d.*\.ts$/.test(name))
  itForSome(examples, (_, place) => place % 2 === 0)('examples/%s', async (name) => {
    const { scenarios } = await load(join(root, 'examples', name))
    for (const { ranks, run } of scenarios)
      for (const size of ranks) expectSame(await launchesOf(size, run), size)
  })

  itForSome(
    operations.flatMap((definition) => [2, 8].map((ranks) => [definition.name, ranks, definition] as const)),
    ([, ranks]) => ranks === 8,
  )('%s in every form, %i ranks', async ([, ranks, definition]) => {
    const { points, make, tiling, packs } = definition
    const described = cpuMachine('native', ranks)
    for (const shape of Object.values(points.usual))
      for (const form of Object.values(points.forms({ machine: described, ranks, dtype: 'f32', shape })))
        for (const isPacked of packs ? [false, true] : [false]) {
          const { world, launches } = describedWorld(described)
          const options = { ...form, shape, dtype: 'f32' as const }
          const [tiles] = tiling(world, options).candidates()
          const operation = make(world, { ...options, tiles } as typeof options)
          if (isPacked) await operation.pack()
          operation.launch()
          expectSame(launches, ranks)
        }
  })
})
