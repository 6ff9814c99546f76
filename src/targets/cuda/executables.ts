/**
 * Specialises recorded kernels for the arguments of a launch and for a world, and emits them as CUDA C++. Contract: for
 * the same IR and the same facts, the CUDA text is emitted only once.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { LaunchArguments } from '../gpu/arguments.ts'
import type { Emitted, OpaqueParam, Param, WorldFacts } from '../gpu/platform.ts'
import { renderCuda } from './emit/emit.ts'
import {
  mayCarryEpochs,
  type EmitFacts,
  type EmittedKernel,
  type MapRecipe,
  type ParamRecipe,
} from './emit/recipe.ts'
import { unlikeUnrecorded } from './emit/recorded.ts'
import { atStage, LAST_STAGE, specialise } from './facts.ts'

/** A parameter that is a tensor map. */
export interface MapParam extends OpaqueParam {
  readonly map: MapRecipe
}

/** An emitted kernel: the fields that a world uses, and the CUDA C++ text. */
export interface CudaEmitted extends Emitted {
  readonly kernel: EmittedKernel
}

const paramOf = (recipe: ParamRecipe): Param | MapParam =>
  recipe.kind === 'map' ? { kind: 'opaque', tensor: recipe.tensor, map: recipe } : recipe

export function asEmitted(
  kernel: EmittedKernel,
  { carriesEpochs, unlike }: Pick<Emitted, 'carriesEpochs' | 'unlike'> = { carriesEpochs: [], unlike: [] },
): CudaEmitted {
  const { name, block, sharedBytes, writes, waitSites, assertions, recordedSites } = kernel
  const params = kernel.params.map(paramOf)
  return {
    ...{ kernel, name, block, sharedBytes, params, writes, waitSites, assertions, recordedSites },
    ...{ carriesEpochs, unlike },
  }
}

const known = new WeakMap<KernelIR, Map<string, CudaEmitted>>()

/** Emits a recorded kernel, specialised for the shapes of the given arguments. */
export function emittedFor(ir: KernelIR, args: LaunchArguments, world: WorldFacts): CudaEmitted {
  const shapes: Record<string, readonly number[]> = {}
  for (const [name, argument] of Object.entries(args))
    if (typeof argument === 'object' && argument.kind === 'tensor') shapes[name] = argument.shape
  const facts = specialise(world, shapes)
  const key = JSON.stringify(facts)
  let ofKernel = known.get(ir)
  if (!ofKernel) known.set(ir, (ofKernel = new Map()))
  let emitted = ofKernel.get(key)
  if (!emitted) ofKernel.set(key, (emitted = make(ir, facts)))
  return emitted
}

const make = (ir: KernelIR, facts: EmitFacts): CudaEmitted =>
  asEmitted(renderCuda(atStage(ir, LAST_STAGE, facts), facts), {
    carriesEpochs: mayCarryEpochs(facts) ? Object.keys(ir.carried ?? {}) : [],
    unlike: facts.record ? unlikeUnrecorded(ir, facts) : [],
  })
