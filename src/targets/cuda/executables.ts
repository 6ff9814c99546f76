/**
 * Turns kernels into machine code. Recorded IR and facts about the arguments become an emitted kernel, which is
 * compiled and loaded. Contract: the same IR and facts are emitted once. The same text is compiled once per machine
 * (`keptOnDisk`) and loaded once per device, even if several worlds use it.
 */
import { walk, type KernelIR } from '../../ir/node.ts'
import { isRemote, mayWait, origin, paramName, writtenRefs } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import { decide } from './emit/decide.ts'
import { renderDecided } from './emit/emit.ts'
import type { EmitFacts, EmittedKernel } from './emit/recipe.ts'
import { unlikeUnrecorded } from './emit/recorded.ts'
import { atStage, LAST_STAGE, specialise, type WorldFacts } from './facts.ts'
import type { LaunchArguments } from './arguments.ts'
import type { Device, Kernel } from './device.ts'

export interface Executable {
  /** The recorded IR, before any stage. */
  readonly ir: KernelIR
  readonly emitted: EmittedKernel
  /** The number of counter words of the kernel. Every launch resets these words to zero. */
  readonly counterWords: number
  /** The names of the tensors that the kernel writes on other ranks. */
  readonly writesElsewhere: readonly string[]
  /** The source location of the first op at which programs may wait. Undefined if programs never wait. */
  readonly waiting: { readonly site: Site | undefined } | undefined
  /** True if the next launch on the stream must not read memory before this kernel has ended (emit/decide.ts). */
  readonly barsEarlyReads: boolean
  /** The differences from the kernel without recording. Empty if the kernel does not record events. */
  readonly unlike: readonly string[]
}

const known = new WeakMap<KernelIR, Map<string, Executable>>()

/**
 * Returns the kernel specialised for the shapes of these arguments. All tensors are assumed to be aligned, as every
 * allocation is.
 */
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
  const decisions = decide(atStage(ir, LAST_STAGE, facts), facts)
  const emitted = renderDecided(decisions)
  const waiting = [...walk(ir.body)].find(mayWait)
  const counterWords = emitted.params.reduce(
    (sum, param) => sum + (param.kind === 'counters' ? param.words : 0),
    0,
  )
  const elsewhere = [...walk(ir.body)].flatMap(writtenRefs).filter(isRemote)
  const writesElsewhere = [...new Set(elsewhere.map((ref) => paramName(origin(ref).base)))]
  const unlike = facts.record ? unlikeUnrecorded(ir, facts) : []
  return {
    ...{ ir, emitted, counterWords, writesElsewhere, unlike },
    barsEarlyReads: decisions.barsEarlyReads,
    waiting: waiting && { site: waiting.site },
  }
}

/** Compiles an emitted kernel to machine code for a device. */
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
