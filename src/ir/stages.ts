/**
 * Stages: the named steps of a kernel between its author and its text. Each target has one list of them (targets/stages.ts). The
 * IR after every pass of a stage is verified. `arke emit --stage` prints it and `arke check --stage` explores it.
 */
import type { KernelIR } from './node.ts'
import type { OpName } from './ops/table.ts'
import { removeDead } from './passes/dead.ts'
import { fold } from './passes/fold.ts'
import { lowerPipelines } from './passes/pipeline.ts'
import { verify } from './verify.ts'

/** A step of a target's list. `Facts` is the record by which the target specialises a kernel. */
export interface Stage<Facts = unknown> {
  readonly name: string
  readonly passes: readonly ((ir: KernelIR, facts: Facts) => KernelIR)[]
  /** Ops that no kernel contains after this stage. */
  readonly removes?: readonly OpName[]
}

/** The name of the kernel as written: every list begins with it. */
export const RECORDED = 'recorded'

/** Constants are folded, and dead code is removed. */
export const simplified: Stage = { name: 'simplified', passes: [fold, removeDead] }

/** Pipelines become roles with rings of buffers, asynchronous copies and barriers. */
export const pipelined: Stage = {
  name: 'lowered',
  passes: [lowerPipelines, fold, removeDead],
  removes: ['pipeline'],
}

/** Stages that know no target, in order. */
export const commonStages: readonly Stage[] = [simplified, pipelined]

/** The kernel after the given stages, which follow its own. */
export function through<Facts>(given: KernelIR, stages: readonly Stage<Facts>[], facts: Facts): KernelIR {
  let ir = given
  for (const { name, passes, removes = [] } of stages) {
    const removed = [...(ir.removed ?? []), ...removes]
    for (const pass of passes) expectSound((ir = { ...pass(ir, facts), stage: name, removed }))
  }
  return ir
}

function expectSound(ir: KernelIR): void {
  try {
    verify(ir)
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw new Error(`the stage ${ir.stage} broke ${ir.name}: ${problem}`, { cause: error })
  }
}

const lowered = new WeakMap<KernelIR, KernelIR>()

/** The lowered form of a recorded kernel: explicit roles, asynchronous copies and barriers, nothing superfluous. */
export function lower(ir: KernelIR): KernelIR {
  let known = lowered.get(ir)
  if (!known) lowered.set(ir, (known = through(ir, commonStages, undefined)))
  return known
}
