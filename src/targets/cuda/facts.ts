/**
 * What a kernel is specialised by for a GPU, in one record: facts about the world and about the tensors that it is launched with.
 * `arke emit` prints, `arke check` explores and a world launches the kernel that these facts give.
 */
import type { KernelIR } from '../../ir/node.ts'
import { paramName } from '../../ir/ops/index.ts'
import { commonStages, lower, RECORDED, through } from '../../ir/stages.ts'
import { factsOf, type EmitFacts } from './emit/recipe.ts'
import { irStageNames, lastStage } from '../stages.ts'
import { gpuStages } from './stages.ts'

/** What kernels are told of the world that they are for. */
export type WorldFacts = Required<Pick<EmitFacts, 'record' | 'oneDevice'>>

/** A world that records nothing, with all its ranks on one GPU. */
export const usualWorld: WorldFacts = { record: false, oneDevice: true }

/** Extents by the name of a tensor. */
export type Shapes = Readonly<Record<string, readonly number[]>>

/** Every allocation is aligned. */
export function specialise(world: WorldFacts, shapes: Shapes): EmitFacts {
  const tensors = Object.entries(shapes).map(([name, shape]) => [name, factsOf(shape)] as const)
  return { tensors: Object.fromEntries(tensors), ...world }
}

/** An extent that suits the copy engine. */
const usualExtent = 1024

/** The shapes of all tensors of a kernel; those that nobody gives have extents that suit the copy engine. */
export function shapesOf(ir: KernelIR, given: Shapes = {}): Shapes {
  return Object.fromEntries(
    ir.body.params.flatMap((param) => {
      if (param.type.kind !== 'tensor') return []
      const name = paramName(param)
      return [[name, given[name] ?? new Array<number>(param.type.rank).fill(usualExtent)] as const]
    }),
  )
}

/** The stage from which text is written. */
export const LAST_STAGE = lastStage('cuda')

const known = new WeakMap<KernelIR, Map<string, KernelIR>>()

/** A recorded kernel after a stage, for these facts; the same for the same. */
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
  const common = upTo(commonStages)
  if (common > 0) return through(recorded, commonStages.slice(0, common), undefined)
  const own = upTo(gpuStages)
  if (own === 0)
    throw new RangeError(`there is no stage ${stage}; there is ${irStageNames('cuda').join(', ')}`)
  return through(lower(recorded), gpuStages.slice(0, own), facts)
}
