/**
 * Tests that the code which a CPU world generates from a kernel is the code that `arke emit` prints, byte by byte and in both
 * directions: C++ for native, and for wasm the intermediate language that becomes WebAssembly. The engines of the
 * tested worlds store the generated texts and compile none.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { openWorld, type Meta } from 'arke'
import { emitOperation } from '../../../src/cli/emit.ts'
import { load } from '../../../src/cli/load.ts'
import * as collectives from '../../../src/ops/collectives/index.ts'
import { operations } from '../../../src/ops/operations.ts'
import { specialisationOf } from '../../../src/targets/cpu/backend.ts'
import type { CodeModule } from '../../../src/targets/cpu/code.ts'
import { compile } from '../../../src/targets/cpu/executables.ts'
import { lowerKernel } from '../../../src/targets/cpu/lower/lower.ts'
import { printCode } from '../../../src/targets/cpu/print.ts'
import { descriptions } from '../../../src/targets/descriptions.ts'
import { defaultCaches, machineOf } from '../../../src/targets/native/build.ts'
import { sourceOf } from '../../../src/targets/native/render.ts'
import { wasmMachine } from '../../../src/targets/wasm/engine.ts'
import { argumentOf } from '../../../src/world/arguments.ts'
import { describedWorld } from '../../../src/world/described.ts'
import { intercepted } from '../../../src/world/intercept.ts'
import type { Launch, World } from '../../../src/world/world.ts'
import { itForSome } from '../../long.ts'
import { cellName, cellsOf, drawing, everyLayout, launchesOf, launchPrinting, printed } from '../printed.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

const textOfCode = (module: CodeModule): string =>
  [...(module.header ?? []).map((line) => `// ${line}\n`), printCode(module)].join('')

/** The machine and the generated code of each target's worlds. */
const worlds = {
  native: { machine: machineOf('#define __AVX2__ 1\n#define __FMA__ 1', defaultCaches), textOf: sourceOf },
  wasm: { machine: wasmMachine, textOf: textOfCode },
} as const
type CpuTarget = keyof typeof worlds
const targets = Object.keys(worlds) as CpuTarget[]

/** The generated code that the executables of a world compile for a launch. */
function compiled(
  { kernel, args, options }: Launch,
  target: CpuTarget,
  ranks: number,
  record: boolean,
): string {
  const { machine, textOf } = worlds[target]
  const texts: string[] = []
  const engine = {
    machine,
    compile(module: CodeModule) {
      texts.push(textOf(module))
      return new Uint8Array()
    },
  }
  const members = options.group?.members
  const ir = kernel.record({ world: members?.length ?? ranks, meta: options.meta as Meta | undefined })
  const given = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, argumentOf(value, 0)]))
  const wanted = { given, members } as Parameters<typeof specialisationOf>[0]
  compile({ ir, engine, lower: lowerKernel, record, ...specialisationOf(wanted) })
  return texts[0]
}

function expectSame(
  launches: readonly Launch[],
  target: CpuTarget,
  ranks: number,
  records = [false, true],
): void {
  expect(launches.length).toBeGreaterThan(0)
  for (const launch of launches)
    for (const record of records)
      expect(printed(launch, { target, ranks, record })).toBe(compiled(launch, target, ranks, record))
}

/** The launches that `run` makes on a world of the checker; with `isDry`, no kernel is executed. */
async function launched(ranks: number, run: (world: World) => unknown, isDry = false): Promise<Launch[]> {
  const launches: Launch[] = []
  await using world = await openWorld({ target: 'check', ranks })
  await run(
    intercepted(world, (some, go) => {
      launches.push(...some)
      if (!isDry) go()
    }),
  )
  return launches
}

function useCollectives(world: World, dtype: 'f32' | 'bf16'): void {
  const { ranks } = world
  const options = { dtype, elements: 64 }
  const one = () => world.empty(dtype, [options.elements])
  const each = () => world.empty(dtype, [ranks, options.elements])
  collectives.barrier(world).launch()
  collectives.allGather(world, options).launch(one(), each())
  collectives.allToAll(world, options).launch(each(), each())
  collectives.broadcast(world, options).launch(one(), 0)
  collectives.reduceScatter(world, options).launch(each(), one())
  for (const variant of ['oneShot', 'twoShot', 'ring'] as const)
    collectives.allReduce(world, { ...options, variant }).launch(one())
}

describe.each(targets)('what is printed is what is compiled: %s', (target) => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => /^\d.*\.ts$/.test(name))
  // The example with the largest kernels takes half a second per target.
  const isShort = (name: string): boolean => target === 'native' || name !== '16-sampling.ts'
  itForSome(examples, isShort)('examples/%s', async (name) => {
    const { scenarios } = await load(join(root, 'examples', name))
    for (const { ranks, run } of scenarios)
      for (const size of ranks) expectSame(await launched(size, run), target, size)
  })

  it('a kernel that prints', async () => {
    const launches = await launched(2, launchPrinting, true)
    expectSame(launches, target, 2)
    expect(compiled(launches[0], target, 2, false)).toMatch(/atomic/i)
  })

  it.each([
    ['the whole world', undefined, false],
    ['evenly spaced ranks', [3, 1], false],
    ['unevenly spaced ranks', [0, 1, 3], true],
  ] as const)('collectives on %s', async (_, members, isScattered) => {
    for (const dtype of ['f32', 'bf16'] as const) {
      const launches = await launched(
        4,
        (world) => useCollectives(members ? world.group(members) : world, dtype),
        true,
      )
      expect(launches).toHaveLength(8)
      expectSame(launches, target, 4)
      for (const launch of launches)
        expect(compiled(launch, target, 4, false).includes('found in a table')).toBe(isScattered)
    }
  })

  const cells = cellsOf(operations)
  const machines = (ranks: number) => descriptions[target].machine(ranks, false)

  itForSome(cells, ({ dtype, ranks }) => target === 'native' && dtype === 'bf16' && ranks === 8)(
    `operations with tiles drawn by seed: ${cellName}`,
    async (cell) => {
      const { definition, ranks } = cell
      const draw = drawing(ranks + cells.indexOf(cell))
      for (const isPacked of definition.packs ? [false, true] : [false]) {
        const launches = await launchesOf(cell, machines(ranks), isPacked, (all) => [all[draw(all.length)]])
        expectSame(launches, target, ranks, [draw(2) === 1])
      }
    },
  )

  itForSome(cells, () => false)(`operations with many candidate tiles: ${cellName}`, async (cell) => {
    const { definition, ranks } = cell
    const draw = drawing(1000 + ranks + cells.indexOf(cell))
    for (const isPacked of definition.packs ? [false, true] : [false])
      expectSame(
        await launchesOf(cell, machines(ranks), isPacked, (all) => all.filter(() => draw(2) === 0)),
        target,
        ranks,
      )
  })

  it.each(operations)('operations by name, $name', async (definition) => {
    const [ranks, dtype] = [2, 'f32'] as const
    for (const [options, layout] of everyLayout(definition))
      for (const variant of definition.variants)
        for (const packed of definition.packs ? [false, true] : [false]) {
          const { world, launches } = describedWorld(machines(ranks))
          const operation = definition.make(world, { ...options, dtype, variant })
          if (packed) await operation.pack()
          operation.launch()
          const texts = launches.map((launch) => compiled(launch, target, ranks, false))
          const { text } = await emitOperation(definition, { target, ranks, dtype, variant, layout, packed })
          expect(text).toBe([...new Set(texts)].join('\n'))
        }
  })
})
