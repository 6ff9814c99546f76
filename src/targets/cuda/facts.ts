/**
 * Defines the facts for which a kernel is specialised on a GPU: facts about the world and about the tensors of a
 * launch. `arke emit` prints the specialised kernel, `arke check` explores it, and a world launches it.
 */
import type { KernelIR } from '../../ir/node.ts'
import { paramName } from '../../ir/ops/index.ts'
import { printParams, printShape, printsOf } from '../../ir/passes/prints.ts'
import { RECORDED, roleStages, through } from '../../ir/stages.ts'
import type { WorldFacts } from '../gpu/platform.ts'
import { irStageNames, lastStage } from '../stages.ts'
import { deviceOf, factsOf, type EmitFacts } from './emit/recipe.ts'
import { roleShape } from './roleShape.ts'
import { gpuStages, lower } from './stages.ts'

/** The facts of a world that does not record events and has all ranks on one device of the usual kind. */
export const usualWorld: WorldFacts = { record: false, oneDevice: true, device: deviceOf({}) }

/** The extents of each tensor, by the tensor's name. */
export type Shapes = Readonly<Record<string, readonly number[]>>

/** Returns the facts for a world and for tensors of the given shapes. */
export function specialise(world: WorldFacts, shapes: Shapes): EmitFacts {
  const tensors = Object.entries(shapes).map(([name, shape]) => [name, factsOf(shape)] as const)
  return { tensors: Object.fromEntries(tensors), ...world }
}

/** The default extent of each axis, in elements. TMA can copy tensors with the default extent. */
const usualExtent = 1024

/**
 * Returns the shapes of all tensors of a recorded kernel, including tensors that stages add. A tensor that is not in
 * `given` has the default extent along each axis.
 */
export function shapesOf(recorded: KernelIR, given: Shapes = {}): Shapes {
  const own = recorded.body.params.flatMap((param) => {
    if (param.type.kind !== 'tensor') return []
    const name = paramName(param)
    return [[name, given[name] ?? new Array<number>(param.type.rank).fill(usualExtent)] as const]
  })
  const added = printsOf(recorded).length > 0 ? printParams : []
  return Object.fromEntries([...own, ...added.map(({ name }) => [name, printShape] as const)])
}

/** The name of the stage whose IR is rendered as CUDA C++. */
export const LAST_STAGE = lastStage('cuda')

const known = new WeakMap<KernelIR, Map<string, KernelIR>>()

/**
 * Returns the IR of a recorded kernel after the given stage, for the given facts. Calls with equal arguments return the
 * same object.
 */
export function atStage(recorded: KernelIR, stage: string, facts: EmitFacts): KernelIR {
  const key = JSON.stringify([stage, facts])
  let ofKernel = known.get(recorded)
  if (!ofKernel) known.set(recorded, (ofKernel = new Map()))
  let made = ofKernel.get(key)
  if (!made) ofKernel.set(key, (made = make(recorded, stage, facts)))
  return made
}

function make(recorded: KernelIR, stage: string, facts: EmitFacts): KernelIR {
  const upTo = (names: readonly { readonly name: string }[]): number =>
    names.findIndex(({ name }) => name === stage) + 1
  if (stage === RECORDED) return recorded
  const common = roleStages(roleShape)
  const shared = upTo(common)
  if (shared === common.length) return lower(recorded)
  if (shared > 0) return through(recorded, common.slice(0, shared), undefined)
  const own = upTo(gpuStages)
  if (own === 0)
    throw new RangeError(`there is no stage ${stage}; there is ${irStageNames('cuda').join(', ')}`)
  return through(lower(recorded), gpuStages.slice(0, own), facts)
}
