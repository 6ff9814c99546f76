/**
 * Kernels as machine code: recorded IR and what is known of the arguments to an emitted kernel, and that to a loaded one.
 * Contract: the same IR and facts are emitted once; the same text is compiled once a machine (`keptOnDisk`) and loaded once
 * a device, whichever world asks.
 */
import { walk, type KernelIR } from '../../ir/node.ts'
import { isLoop, isRemote, mayWait, origin, paramName, writtenRefs } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import { renderCuda } from './emit/emit.ts'
import type { EmitFacts, EmittedKernel } from './emit/recipe.ts'
import { unlikeUnrecorded } from './emit/recorded.ts'
import { atStage, LAST_STAGE, specialise, type WorldFacts } from './facts.ts'
import type { LaunchArguments } from './arguments.ts'
import type { Device, Kernel } from './device.ts'

export interface Executable {
  /** As recorded. */
  readonly ir: KernelIR
  readonly emitted: EmittedKernel
  /** Words of its own that every launch leaves at zero. */
  readonly counterWords: number
  /** Tensors that it writes on other ranks. */
  readonly writesElsewhere: readonly string[]
  /** Where its programs may wait for each other; undefined if they never do. */
  readonly waiting: { readonly site: Site | undefined } | undefined
  /** Nothing behind it is read early: it looks at a word until that changes, by whatever, or has only flags, as a barrier has. */
  readonly polls: boolean
  /** Of one that records: how it differs from one that does not. */
  readonly unlike: readonly string[]
}

const known = new WeakMap<KernelIR, Map<string, Executable>>()

/** The kernel for arguments of these shapes; every allocation is aligned. */
export function executableOf(ir: KernelIR, args: LaunchArguments, world: WorldFacts): Executable {
  const shapes: Record<string, readonly number[]> = {}
  for (const [name, argument] of Object.entries(args))
    if (typeof argument === 'object' && argument.kind === 'tensor') shapes[name] = argument.shape
  const facts = specialise(world, shapes)
  const key = JSON.stringify(facts)
  let ofKernel = known.get(ir)
  if (!ofKernel) known.set(ir, (ofKernel = new Map()))
  let executable = ofKernel.get(key)
  if (!executable) ofKernel.set(key, (executable = make(ir, facts)))
  return executable
}

function make(ir: KernelIR, facts: EmitFacts): Executable {
  const emitted = renderCuda(atStage(ir, LAST_STAGE, facts), facts)
  const waiting = [...walk(ir.body)].find(mayWait)
  const counterWords = emitted.params.reduce(
    (sum, param) => sum + (param.kind === 'counters' ? param.words : 0),
    0,
  )
  const elsewhere = [...walk(ir.body)].flatMap(writtenRefs).filter(isRemote)
  const writesElsewhere = [...new Set(elsewhere.map((ref) => paramName(origin(ref).base)))]
  const hasOnlyFlags = waiting !== undefined && !ir.body.params.some(({ type }) => type.kind === 'tensor')
  const polls = hasOnlyFlags || [...walk(ir.body)].some((node) => isLoop(node) && mayWait(node))
  const unlike = facts.record ? unlikeUnrecorded(ir, facts) : []
  return {
    ...{ ir, emitted, counterWords, writesElsewhere, polls, unlike },
    waiting: waiting && { site: waiting.site },
  }
}

/** Machine code for a device. */
export type Compile = (emitted: EmittedKernel, device: Device) => Uint8Array

const loaded = new WeakMap<Device, Map<EmittedKernel, Kernel>>()

export function kernelOn(
  device: Device,
  { emitted }: Pick<Executable, 'emitted'>,
  compile: Compile,
  beforeLoading: () => void,
): Kernel {
  let ofDevice = loaded.get(device)
  if (!ofDevice) loaded.set(device, (ofDevice = new Map()))
  let kernel = ofDevice.get(emitted)
  if (!kernel) {
    const code = compile(emitted, device)
    beforeLoading()
    ofDevice.set(emitted, (kernel = device.loadKernel(code, emitted.name)))
  }
  return kernel
}
