/** A CPU target with hand-written executables, so that the world can be tested without lowering and rendering. */
import type { KernelIR } from '../../../src/ir/node.ts'
import type { CodeModule, Machine } from '../../../src/targets/cpu/code.ts'
import type { Engine, Lowered } from '../../../src/targets/cpu/executable.ts'
import type { CpuPlatform } from '../../../src/targets/cpu/host.ts'
import { nodeThreads } from '../../../src/targets/cpu/node.ts'
import { CpuWorld, type CpuWorldOptions } from '../../../src/targets/cpu/world.ts'
import { walk } from '../../../src/ir/node.ts'

export const handmadeMachine: Machine = {
  name: 'wasm',
  lanes: 4,
  rows: 4,
  columns: 2,
  prefetches: false,
  l1: 32768,
  l2: 262144,
}

/** The behaviour of each kernel's programs, by kernel name: the source of a function of `t` (see handmadeLoader.ts). */
const bodies = new Map<string, string>()

export function body(kernel: { readonly name: string }, text: string): void {
  bodies.set(kernel.name, text)
}

export let compilations = 0

const engine: Engine = {
  machine: handmadeMachine,
  compile(module: CodeModule) {
    compilations++
    return new TextEncoder().encode(bodies.get(module.name) ?? 'return 0')
  },
}

function lower(ir: KernelIR): Lowered {
  const nodes = [...walk(ir.body)]
  const waits = nodes.find(({ op }) => op === 'wait' || op === 'while')
  return {
    module: { name: ir.name, machine: handmadeMachine, entries: [] },
    roles: 1,
    frameBytes: 64,
    counterWords: 4,
    sites: nodes.map(({ site }) => site),
    messages: [],
    params: ir.body.params.map(({ attributes }) => attributes.name as string),
    needsResidency: waits && { site: waits.site },
    unlike: [],
  }
}

export const handmade: CpuPlatform = {
  target: 'handmade',
  threads: nodeThreads,
  engine,
  lower,
  loader: { module: new URL('./handmadeLoader.ts', import.meta.url).href, name: 'loadHandmade' },
  panelSteps: 256,
}

export const openHandmade = (options: CpuWorldOptions, platform: CpuPlatform = handmade): CpuWorld =>
  new CpuWorld(platform, { heap: 1 << 20, ...options })
