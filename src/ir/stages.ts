/**
 * Stages: what a kernel passes through between its author and its text. A target has one list of them, which begins with those
 * of this file. Each has a name, and what it makes is verified and can be printed (`arke emit --stage`) and checked
 * (`arke check --stage`).
 */
import type { KernelIR } from './node.ts'
import { removeDead } from './passes/dead.ts'
import { fold } from './passes/fold.ts'
import { lowerPipelines } from './passes/pipeline.ts'
import { verify } from './verify.ts'

/** `Facts` is what a target knows of the world and the arguments that a kernel is for. */
export interface Stage<Facts = unknown> {
  readonly name: string
  readonly summary: string
  readonly passes: readonly ((ir: KernelIR, facts: Facts) => KernelIR)[]
}

/** What the author wrote: every list begins with it. */
export const RECORDED = 'recorded'

/** Stages that know no target, in order. */
export const commonStages: readonly Stage[] = [
  {
    name: 'simplified',
    summary: 'constants are folded, and what nobody needs is removed',
    passes: [fold, removeDead],
  },
  {
    name: 'lowered',
    summary: 'pipelines are roles with rings of buffers, asynchronous copies and barriers',
    passes: [lowerPipelines, fold, removeDead],
  },
]

/** What the given stages, which follow the kernel's own, make of it. */
export function through<Facts>(given: KernelIR, stages: readonly Stage<Facts>[], facts: Facts): KernelIR {
  let ir = given
  for (const { name, passes } of stages)
    for (const pass of passes) expectSound((ir = { ...pass(ir, facts), stage: name }))
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
