/**
 * Defines the compiler stages through which a kernel passes between the author's code and the generated code. Each
 * target has one list of compiler stages, which begins with the stages of this file. Every compiler stage has a name.
 * The result of every stage is verified, and can be printed (`arke emit --stage`) and checked (`arke check --stage`).
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

/** A compiler stage of a target. `Facts` describes the world and the arguments for which a kernel is compiled. */
export interface Stage<Facts = unknown> {
  readonly name: string
  readonly passes: readonly ((ir: KernelIR, facts: Facts) => KernelIR)[]
  /** Ops that no kernel contains after this compiler stage. */
  readonly removes?: readonly OpName[]
}

/**
 * The name of the first compiler stage, in which the kernel is as its author wrote it. Every list of stages begins with
 * this stage.
 */
export const RECORDED = 'recorded'

/**
 * In the stage `prints`, programs store the values that they print in a buffer. The stage `prints` is the first,
 * because a world finds the source line of a printed number by the order in which the author wrote the ops `print`.
 */
export const prints: Stage = { name: 'prints', passes: [storePrints], removes: ['print'] }

/**
 * The second stage folds constants, removes dead code, and replaces a put with a signal by two ops. On every target
 * that Arke has, a rank can address the memory of other ranks.
 */
export const simplified: Stage = {
  name: 'simplified',
  passes: [separatePuts, fold, removeDead],
  removes: ['put.signal'],
}

/** The name of the stage after which pipelines have become roles. */
export const LOWERED = 'lowered'

/**
 * Lowers pipelines to roles with the given numbers of warps, with rings of buffers, asynchronous copies and barriers.
 */
const pipelined = (shape: RoleShape): Stage => ({
  name: LOWERED,
  passes: [(ir) => lowerPipelines(ir, shape), fold, removeDead],
  removes: ['pipeline'],
})

/** The compiler stages that all targets with roles share, in order. */
export const roleStages = (shape: RoleShape): readonly Stage[] => [prints, simplified, pipelined(shape)]

/** Applies the given stages, which follow the kernel's own last stage, and returns the resulting kernel. */
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
 * The lowered form of a recorded kernel: explicit roles with the given numbers of warps, asynchronous copies and
 * barriers, and no dead code.
 */
export function lowerFor(ir: KernelIR, shape: RoleShape): KernelIR {
  const known = lowered.get(shape) ?? new WeakMap<KernelIR, KernelIR>()
  lowered.set(shape, known)
  let made = known.get(ir)
  if (!made) known.set(ir, (made = through(ir, roleStages(shape), undefined)))
  return made
}
