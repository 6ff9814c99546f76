/**
 * Lists the compiler stages of each target in order, with their names and a description of their effect. The passes of
 * these stages are in ir/stages.ts, cpu/stages.ts and cuda/stages.ts. stages.ts loads no target, so that the command
 * line can list stages quickly.
 */
const recorded = 'the kernel as written'
const prints = 'programs store printed numbers in a buffer, to which two additional parameters refer'
const simplified =
  'constants are folded, dead code is removed, and a put with a signal becomes a copy and a signal'

/** Compiler stages that only the cuda target has; the result of each is IR. */
export const cudaOnly = {
  complete:
    'asynchronous copies that neither the TMA nor cp.async can execute become ordinary copies, which are complete at once',
  courier:
    'an additional role (the courier) on idle warps takes over the data that the consumer sends to other ranks before its first matrix product',
  clusters:
    'a cluster of programs fetches a tile once for all its programs, if the extents and the copies allow it',
  layouts:
    'values that are needed in two layouts are converted, and partial results of several warps are combined',
  words:
    'flags are replaced by epochs in the low bits of f32 data (flag-in-data words), if a tensor allows it',
  order:
    'a program initialises its barriers at its start, threads of a role synchronise, accesses by TMA and the matrix unit are fenced, and copies in flight are awaited',
} as const

const complete = 'asynchronous copies become ordinary copies, which are complete at once'
const cpu = { recorded, prints, simplified, complete } as const
const lowered = 'pipelines become roles with rings of buffers, asynchronous copies and barriers'

/**
 * Compiler stages whose result is IR: verified, printed by `arke emit --stage` and explored by `arke check --stage`.
 */
const irStages = {
  cuda: { recorded, prints, simplified, lowered, ...cudaOnly },
  native: cpu,
  wasm: cpu,
} as const

const code = 'typed statements over local variables and vectors, which become C++ or WebAssembly'

/** The printable stage that follows the IR stages. The target's generated code follows the printable stage. */
const printedStages = {
  cuda: { decide: 'all decisions (layouts, memory, instructions) that turn the last IR into source code' },
  native: { code },
  wasm: { code },
} as const

export type StagedTarget = keyof typeof irStages
/** The default target of `arke check` and `arke emit`. */
export const usualTarget: StagedTarget = 'cuda'
export const stagedTargets = Object.keys(irStages) as StagedTarget[]

export const isStaged = (name: string): name is StagedTarget => Object.hasOwn(irStages, name)

/** The names of the IR stages of a target, from the kernel as written to the last IR before code generation. */
export const irStageNames = (target: StagedTarget): string[] => Object.keys(irStages[target])

/** The names of all stages that `arke emit --stage` prints for a target. */
export const stageNames = (target: StagedTarget): string[] => [
  ...irStageNames(target),
  ...Object.keys(printedStages[target]),
]

/** Returns the description of a stage of the target. */
export function stageDescription(target: StagedTarget, stage: string): string {
  const described: Readonly<Record<string, string>> = { ...irStages[target], ...printedStages[target] }
  return described[stage]
}

/** The last IR stage, from which the target's code is generated. */
export const lastStage = (target: StagedTarget): string => irStageNames(target).at(-1)!
