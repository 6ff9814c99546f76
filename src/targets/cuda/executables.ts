/**
 * Turns recorded IR and facts about the arguments into an emitted kernel and what a world has to know to launch it. Contract: the same IR
 * and facts are emitted once.
 */
import { walk, type KernelIR } from '../../ir/node.ts'
import { isLoop, isRemote, mayWait, origin, paramName, writtenRefs } from '../../ir/ops/index.ts'
import type { LaunchArguments } from '../gpu/arguments.ts'
import type { Executable, OpaqueParam, Param, WorldFacts } from '../gpu/platform.ts'
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

const paramOf = (recipe: ParamRecipe): Param | MapParam =>
  recipe.kind === 'map' ? { kind: 'opaque', tensor: recipe.tensor, map: recipe } : recipe

/** An executable of this target. */
export interface CudaExecutable extends Executable {
  readonly emitted: EmittedKernel
}

const known = new WeakMap<KernelIR, Map<string, CudaExecutable>>()

/**
 * Returns the kernel specialised for the shapes of these arguments. All tensors are assumed to be aligned, as every
 * allocation is.
 */
export function executableOf(ir: KernelIR, args: LaunchArguments, world: WorldFacts): CudaExecutable {
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

function make(ir: KernelIR, facts: EmitFacts): CudaExecutable {
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
    params: emitted.params.map(paramOf),
    carriesEpochs: mayCarryEpochs(facts) ? Object.keys(ir.carried ?? {}) : [],
    waiting: waiting && { site: waiting.site },
  }
}
