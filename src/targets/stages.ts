/**
 * The stages of each target, in order: their names, and what each makes of a kernel. The passes behind them are in ir/stages.ts,
 * cpu/stages.ts and cuda/stages.ts. This file loads no target, so that the command line can name stages at once.
 */
const recorded = 'the kernel as written'
const prints = 'programs store what they print in a buffer, which two more parameters refer to'
const simplified =
  'constants are folded, dead code is removed, and a put with a signal becomes a copy and a signal'

/** Stages that only the cuda target has, all of them IR. */
export const cudaOnly = {
  complete: 'copies in flight that TMA cannot make become copies that are complete at once',
  courier:
    'a courier role, on idle warps, sends what the consumer would send to other ranks before its first product',
  clusters:
    'the programs of a cluster fetch a tile once for all of them, where the extents and the copies allow it',
  layouts:
    'a value that is needed in two layouts is converted; partial results of several warps are combined',
  words: 'f32 words carry the epochs of flags (flag-in-data), where a tensor allows it',
  order:
    'threads of a role synchronise, accesses by TMA and the matrix unit are fenced, and TMA stores are awaited',
} as const

const complete = 'copies in flight become copies that are complete at once'
const cpu = { recorded, prints, simplified, complete } as const
const lowered = 'pipelines become roles with rings of buffers, asynchronous copies and barriers'

/** Stages that are IR: verified, printed by `arke emit --stage` and explored by `arke check --stage`. */
const irStages = {
  cuda: { recorded, prints, simplified, lowered, ...cudaOnly },
  native: cpu,
  wasm: cpu,
} as const

const code = 'typed statements over locals and vectors, which become C++ or WebAssembly'

/** What follows the IR and can be printed, too. Then comes the target's text. */
const printedStages = {
  cuda: { decide: 'the decisions by which the last stage becomes text' },
  native: { code },
  wasm: { code },
} as const

export type StagedTarget = keyof typeof irStages
/** The target of `arke check` and `arke emit` if none is given. */
export const usualTarget: StagedTarget = 'cuda'
export const stagedTargets = Object.keys(irStages) as StagedTarget[]

export const isStaged = (name: string): name is StagedTarget => Object.hasOwn(irStages, name)

/** The names of the IR stages of a target, from the kernel as written to the one that becomes text or code. */
export const irStageNames = (target: StagedTarget): string[] => Object.keys(irStages[target])

/** All that `arke emit --stage` prints for a target. */
export const stageNames = (target: StagedTarget): string[] => [
  ...irStageNames(target),
  ...Object.keys(printedStages[target]),
]

/** The IR from which a target's text or code is made. */
export const lastStage = (target: StagedTarget): string => irStageNames(target).at(-1)!
