/**
 * Defines the compiler stages of a kernel for a CPU. The lowering (lower/lower.ts) translates the IR of the last stage
 * into Code, an intermediate language from which C++ or WebAssembly is generated.
 */
import type { KernelIR } from '../../ir/node.ts'
import { completeAtOnce } from '../../ir/passes/complete.ts'
import { prints, RECORDED, simplified, through, type Stage } from '../../ir/stages.ts'
import { irStageNames } from '../stages.ts'

/** The threads of a CPU make all copies themselves, so no copy is asynchronous. */
const complete: Stage = {
  name: 'complete',
  passes: [(ir) => completeAtOnce(ir, () => false)],
  removes: ['copy.nbi', 'quiet'],
}

export const cpuStages: readonly Stage[] = [prints, simplified, complete]

/**
 * Compiles a recorded kernel to a stage of `native` and `wasm`. The IR at these stages depends on no facts of a launch.
 */
export function atCpuStage(recorded: KernelIR, stage: string): KernelIR {
  if (stage === RECORDED) return recorded
  const last = cpuStages.findIndex(({ name }) => name === stage)
  if (last < 0)
    throw new RangeError(`there is no stage ${stage} on a CPU; there is ${irStageNames('native').join(', ')}`)
  return through(recorded, cpuStages.slice(0, last + 1), undefined)
}
