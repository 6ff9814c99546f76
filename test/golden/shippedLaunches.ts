/**
 * Lists every launch of a kernel that Arke ships: by operations, collectives, matrix products, measurements and
 * examples.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openWorld } from '../../src/index.ts'
import { load } from '../../src/cli/load.ts'
import type { Kernel, Meta } from '../../src/lang/kernel.ts'
import * as collectives from '../../src/ops/collectives/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { operandDTypes, type OperandDType } from '../../src/operation/definition.ts'
import { operations } from '../../src/ops/operations.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { Gate } from '../../src/runs/gate.ts'
import { readBandwidth } from '../../src/runs/bandwidth.ts'
import type { Numbers } from '../../src/tune/tables.ts'
import { intercepted } from '../../src/world/intercept.ts'
import { isCached, oneEach, type Machine } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../src/world/machines.ts'
import { describedWorld, launchFacts } from '../../src/world/described.ts'
import type { Launch, World } from '../../src/world/world.ts'

export type GoldenTarget = 'cuda' | 'native' | 'wasm'

/** A kernel and the arguments of its launch. */
export interface Launched {
  /** The name of a launch, which contains no blanks. */
  readonly name: string
  readonly kernel: Pick<Kernel, 'record'>
  readonly ranks: number
  readonly meta: Meta | undefined
  readonly shapes: Readonly<Record<string, readonly number[]>>
  /** The parameters that hold packed weights if the target is a CPU. */
  readonly packed: readonly string[]
  /** True if the host signals flags of the kernel. */
  readonly hostSignals: boolean
  /** True if the kernel is emitted for all combinations of facts (values for which code is specialised). */
  readonly isThorough: boolean
}

const worldSizes = [1, 2, 4, 8]

/**
 * A machine record whose name is in no table of tuned tiles. The ranks divide the multiprocessors of an H200, but share
 * no memory.
 */
export function paperMachine(target: GoldenTarget, ranks: number): Machine {
  if (target !== 'cuda') return cpuMachine(target, ranks, target === 'wasm' ? { panelSteps: 512 } : {})
  return oneEach({ ...h200, name: 'paper', processors: Math.floor(h200.processors / ranks) }, ranks)
}

/** The launches that `use` makes on a world of the target; `name` describes them. */
async function launched(
  name: string,
  target: GoldenTarget,
  ranks: number,
  isThorough: boolean,
  use: (world: World) => unknown,
): Promise<Launched[]> {
  const { world, launches } = describedWorld(paperMachine(target, ranks))
  await use(world)
  return launches.map((launch) => ({
    ...asLaunched(`${name}/${launch.kernel.name}`, ranks, launch),
    isThorough,
  }))
}

function asLaunched(name: string, ranks: number, launch: Launch): Launched {
  const { kernel, options } = launch
  return {
    name,
    kernel,
    ranks,
    meta: options.meta as Meta | undefined,
    ...launchFacts(launch),
    isThorough: false,
  }
}

/** The launches of every operation, with all its variants and options (`forms`). */
export async function ofOperations(
  target: GoldenTarget,
  ranks: number,
  dtype: OperandDType,
): Promise<Launched[]> {
  const machine = paperMachine(target, ranks)
  const isThorough = ranks === 2 && dtype === 'bf16'
  const all: Launched[] = []
  for (const definition of operations) {
    const { usual, forms, cuts = (tiles: Numbers) => ({ '': tiles }) } = definition.points
    for (const [place, [at, shape]] of Object.entries(usual).entries()) {
      if (place > 0 && !isThorough) continue
      for (const [form, options] of Object.entries(forms({ machine, ranks, dtype, shape }))) {
        const given = { ...options, shape, dtype }
        const [usualTiles] = definition.tiling({ ranks, machine }, given).candidates()
        for (const [cut, tiles] of Object.entries(cuts(usualTiles, machine))) {
          if (cut !== '' && !isThorough) continue
          // Only the CPU targets use packed weights. The packing does not depend on the number of ranks.
          for (const pack of definition.packs && isCached(machine) && ranks === 2 ? [false, true] : [false]) {
            const parts = [definition.name, form, dtype, at, cut, pack ? 'packed' : '']
            const name = parts.filter((part) => part !== '').join('/')
            const made = await launched(name, target, ranks, isThorough && place === 0, async (world) => {
              const operation = definition.make(world, { ...given, tiles })
              if (pack) await operation.pack()
              operation.launch()
            })
            all.push(...(pack ? made.filter(({ packed }) => packed.length > 0) : made))
          }
        }
      }
    }
  }
  return all
}

async function ofCollectives(target: GoldenTarget, ranks: number, dtype: OperandDType): Promise<Launched[]> {
  const all: Launched[] = []
  for (const elements of ranks === 2 ? [1 << 20, 1001] : [1 << 20]) {
    const options = { dtype, elements }
    const one = (world: World) => world.empty(dtype, [elements])
    const each = (world: World) => world.empty(dtype, [ranks, elements])
    const uses: Record<string, (world: World) => void> = {
      allGather: (world) => collectives.allGather(world, options).launch(one(world), each(world)),
      allToAll: (world) => collectives.allToAll(world, options).launch(each(world), each(world)),
      broadcast: (world) => collectives.broadcast(world, options).launch(one(world), 0),
      reduceScatter: (world) => collectives.reduceScatter(world, options).launch(each(world), one(world)),
    }
    for (const variant of ['oneShot', 'twoShot', 'ring'] as const)
      uses[`allReduce-${variant}`] = (world) =>
        collectives.allReduce(world, { ...options, variant }).launch(one(world))
    for (const [collective, use] of Object.entries(uses)) {
      const name = `collectives/${collective}/${dtype}/elements=${elements}`
      all.push(...(await launched(name, target, ranks, ranks === 2 && elements !== 1001, use)))
    }
  }
  return all
}

/**
 * The launches of matrix products on one rank, of the rank barrier, and of the kernels with which Arke measures
 * (bandwidth, start gate).
 */
async function others(target: GoldenTarget, ranks: number): Promise<Launched[]> {
  const all: Launched[] = []
  const use = async (name: string, how: (world: World) => unknown): Promise<void> => {
    all.push(...(await launched(name, target, ranks, ranks === 2, how)))
  }
  for (const dtype of operandDTypes)
    for (const m of [8, 1024]) {
      const { BM, BN, BK, stages } = gemmTiles(paperMachine(target, 1), { m, n: 1024, k: 2048, dtype })
      const options = { grid: 16, meta: { BM, BN, BK, stages } }
      const matrices = (world: World) => ({
        a: world.empty(dtype, [m, 2048]),
        b: world.empty(dtype, [2048, 1024]),
        c: world.empty(dtype, [m, 1024]),
      })
      if (ranks > 2) continue
      await use(`gemm/${dtype}/M=${m}`, (world) => world.launch(gemmKernel(dtype), matrices(world), options))
    }
  await use('collectives/barrier', (world) => collectives.barrier(world).launch())
  await use('measuring', async (world) => {
    await readBandwidth(world, () => 0, true, 1 << 24)
    const gate = new Gate(world, world.stream(), () => 0, true)
    const delayed = await gate.delaying(0, 1000)
    delayed({ launches: 0, launch: () => {} }).launch()
  })
  return all
}

/** The worlds and dtypes of operations and collectives. */
export interface Range {
  readonly sizes: readonly number[]
  readonly dtypes: readonly OperandDType[]
  /** Emits each kernel for one target only. The operations use the targets in turn. Probes are always emitted for cuda. */
  readonly isRotating?: boolean
}
export const whole: Range = { sizes: worldSizes, dtypes: operandDTypes }

/** The launches of the shipped operations on a target. */
export async function shippedLaunches(target: GoldenTarget, { sizes, dtypes }: Range): Promise<Launched[]> {
  const all: Launched[] = []
  for (const ranks of sizes) {
    for (const dtype of dtypes)
      all.push(...(await ofOperations(target, ranks, dtype)), ...(await ofCollectives(target, ranks, dtype)))
    all.push(...(await others(target, ranks)))
  }
  return all
}

/** The kernels of the examples, as their scenarios launch them and with their own meta-parameters. */
export async function exampleLaunches(root: string): Promise<Launched[]> {
  const all: Launched[] = []
  const folder = join(root, 'examples')
  const files = readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name))
  for (const file of files.sort()) {
    const { kernels, scenarios } = await load(join(folder, file))
    const name = `examples/${file.replace(/\.ts$/, '')}`
    for (const kernel of kernels)
      for (const ranks of [2, 4])
        all.push({
          ...{ name: `${name}/${kernel.name}`, kernel, ranks, meta: undefined },
          ...{ shapes: {}, packed: [], hostSignals: false, isThorough: ranks === 2 },
        })
    for (const scenario of scenarios)
      for (const ranks of scenario.ranks) {
        const world = await openWorld({ target: 'check', ranks })
        const watched = intercepted(world, (launches, go) => {
          go()
          for (const one of launches) all.push(asLaunched(`${name}/${one.kernel.name}/launched`, ranks, one))
        })
        await scenario.run(watched)
        await world.close()
      }
  }
  return all
}
