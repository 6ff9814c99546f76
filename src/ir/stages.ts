/**
 * The stages through which a kernel passes between the author's code and the generated text. Each target has one list
 * of stages, which begins with the stages of this file. Every stage has a name. Its result is verified, and can be
 * printed (`arke emit --stage`) and checked (`arke check --stage`).
 */
import type { KernelIR } from './node.ts'
import type { OpName } from './ops/table.ts'
import { removeDead } from './passes/dead.ts'
import { fold } from './passes/fold.ts'
import { lowerPipelines } from './passes/pipeline.ts'
import { storePrints } from './passes/prints.ts'
import { separatePuts } from './passes/puts.ts'
import type { RoleShape } from './roles.ts'
import { verify } from './verify.ts'

/** A stage. `Facts` holds what a target knows about the world and the arguments for which a kernel is compiled. */
export interface Stage<Facts = unknown> {
  readonly name: string
  readonly passes: readonly ((ir: KernelIR, facts: Facts) => KernelIR)[]
  /** Ops that no kernel contains after this stage. */
  readonly removes?: readonly OpName[]
}

/** The name of the kernel as written: every list begins with it. */
export const RECORDED = 'recorded'

/**
 * Programs store what they print in a buffer. This stage is the first, because a world finds the printed line of a number by
 * the order in which the author wrote the ops `print`.
 */
export const prints: Stage = { name: 'prints', passes: [storePrints], removes: ['print'] }

/**
 * Constants are folded, dead code is removed, and a put with a signal becomes two ops. The peers of all present targets
 * have addresses.
 */
export const simplified: Stage = {
  name: 'simplified',
  passes: [separatePuts, fold, removeDead],
  removes: ['put.signal'],
}

/** The name of the stage after which pipelines are roles. */
export const LOWERED = 'lowered'

/** Pipelines become roles of these sizes, with rings of buffers, asynchronous copies and barriers. */
const pipelined = (shape: RoleShape): Stage => ({
  name: LOWERED,
  passes: [(ir) => lowerPipelines(ir, shape), fold, removeDead],
  removes: ['pipeline'],
})

/** The stages of all targets whose programs have roles, in order. */
export const roleStages = (shape: RoleShape): readonly Stage[] => [prints, simplified, pipelined(shape)]

/** Applies the given stages, which follow the kernel's own stage, and returns the result. */
export function through<Facts>(given: KernelIR, stages: readonly Stage<Facts>[], facts: Facts): KernelIR {
  let ir = given
  for (const { name, passes, removes = [] } of stages) {
    const removed = [...(ir.removed ?? []), ...removes]
    const passed = [...(ir.passed ?? []), name]
    for (const pass of passes) expectSound((ir = { ...pass(ir, facts), stage: name, passed, removed }))
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

const lowered = new WeakMap<RoleShape, WeakMap<KernelIR, KernelIR>>()

/**
 * The lowered form of a recorded kernel, with explicit roles of these sizes, asynchronous copies and barriers, and
 * without dead code.
 */
export function lowerFor(ir: KernelIR, shape: RoleShape): KernelIR {
  const known = lowered.get(shape) ?? new WeakMap<KernelIR, KernelIR>()
  lowered.set(shape, known)
  let made = known.get(ir)
  if (!made) known.set(ir, (made = through(ir, roleStages(shape), undefined)))
  return made
}
