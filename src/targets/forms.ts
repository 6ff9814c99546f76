/**
 * Each target's forms of a kernel: its IR after a stage, what follows the IR, and the text that a world of the target compiles.
 * `arke emit` prints these forms and `arke check` explores the IR. A world launches what the same facts give.
 */
import type { KernelIR } from '../ir/node.ts'
import { limitsOf } from '../world/machine.ts'
import type { Machine } from './cpu/code.ts'
import { cpuHeader, isScattered, type CpuFacts } from './cpu/facts.ts'
import { lowerKernel } from './cpu/lower/lower.ts'
import { printCode } from './cpu/print.ts'
import { atCpuStage } from './cpu/stages.ts'
import { describedGpu } from './cuda/description.ts'
import { decide } from './cuda/emit/decide.ts'
import { describeDecisions } from './cuda/emit/describe.ts'
import { renderCuda } from './cuda/emit/emit.ts'
import { limitsText } from './cuda/emit/header.ts'
import { noteText } from './cuda/emit/notes.ts'
import type { EmitFacts } from './cuda/emit/recipe.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, type Shapes } from './cuda/facts.ts'
import type { GivenDevice } from './description.ts'
import { defaultCaches, machineOf } from './native/build.ts'
import { sourceOf } from './native/render.ts'
import type { StagedTarget } from './stages.ts'
import { wasmMachine } from './wasm/engine.ts'

/** Facts about the world and the arguments of a launch. A target uses those that specialise its kernels. */
export interface Given {
  /** Extents by the name of a tensor; others are 1024. */
  readonly shapes?: Shapes
  /** Parameters whose tensors are packed. */
  readonly packed?: readonly string[]
  /** The world records. */
  readonly record?: boolean
  /** The ranks of the group that launches the kernel; by default the whole world. */
  readonly group?: readonly number[]
  /** Ranks may be on several devices; otherwise all are on one. */
  readonly severalDevices?: boolean
  /** The host signals flags of the kernel. */
  readonly hostSignals?: boolean
  /** What differs from the target's usual device, which is an H200 for cuda. */
  readonly device?: GivenDevice
  /** The processor of a native world; by default one with AVX2, whatever the computer. */
  readonly processor?: Machine
}

/** A kernel as text, and the notes for its author, which the text states as comments. */
export interface Emitted {
  readonly text: string
  readonly notes: readonly string[]
}

export interface Forms {
  /** The kernel after one of the target's IR stages. */
  ir(recorded: KernelIR, stage: string, given: Given): KernelIR
  /** The printed stage that follows the IR: `decide` or `code`. */
  printed(recorded: KernelIR, given: Given): string
  text(recorded: KernelIR, given: Given): Emitted
  /** The notes of `text`, without the text. */
  notes(recorded: KernelIR, given: Given): readonly string[]
  /** The facts in short, for a line of results. */
  summary(given: Given): string
}

function cudaFacts(recorded: KernelIR, given: Given): EmitFacts {
  const { shapes, record = false, severalDevices = false, hostSignals, device } = given
  const world = { record, oneDevice: !severalDevices, device: limitsOf(describedGpu(device)) }
  return specialise({ ...world, ...(hostSignals && { hostSignals }) }, shapesOf(recorded, shapes))
}

const cuda: Forms = {
  ir: (recorded, stage, given) => atStage(recorded, stage, cudaFacts(recorded, given)),
  printed(recorded, given) {
    const facts = cudaFacts(recorded, given)
    return describeDecisions(decide(atStage(recorded, LAST_STAGE, facts), facts))
  },
  text(recorded, given) {
    const facts = cudaFacts(recorded, given)
    const { source, notes } = renderCuda(atStage(recorded, LAST_STAGE, facts), facts)
    return { text: source, notes: notes.map(noteText) }
  },
  notes(recorded, given) {
    const facts = cudaFacts(recorded, given)
    return decide(atStage(recorded, LAST_STAGE, facts), facts).notes.map(noteText)
  },
  summary: ({ severalDevices = false, record = false, device }) =>
    `cuda, ${['H200', ...limitsText(limitsOf(describedGpu(device)))].join(' with ')}, ${severalDevices ? 'several devices' : 'one device'}${record ? ', recording' : ''}`,
}

/** The printed text does not depend on the computer that prints it, unless its processor is asked for. */
const avx2 = machineOf('#define __AVX2__ 1\n#define __FMA__ 1', defaultCaches)

function codeText(recorded: KernelIR, facts: CpuFacts): string {
  const header = cpuHeader(recorded, facts).map((line) => `// ${line}\n`)
  return `${header.join('')}${printCode(lowerKernel(recorded, facts).module)}`
}

/** The forms of a CPU target with this machine, whose text is `textOf`. */
function cpu(
  name: string,
  machineOf: (given: Given) => Machine,
  textOf: (recorded: KernelIR, facts: CpuFacts) => string,
): Forms {
  const factsOf = (given: Given): CpuFacts => ({
    machine: machineOf(given),
    record: given.record ?? false,
    packed: new Set(given.packed),
    scattered: isScattered(given.group),
  })
  return {
    ir: (recorded, stage) => atCpuStage(recorded, stage),
    printed: (recorded, given) => codeText(recorded, factsOf(given)),
    text: (recorded, given) => ({ text: textOf(recorded, factsOf(given)), notes: [] }),
    notes: () => [],
    summary: ({ record = false }) => `${name}${record ? ', recording' : ''}`,
  }
}

const native = cpu(
  'native',
  ({ processor = avx2 }) => processor,
  (recorded, facts) => sourceOf(lowerKernel(recorded, facts).module),
)

/** WebAssembly is bytes: Code is its text. */
const wasm = cpu('wasm', () => wasmMachine, codeText)

export const forms: Readonly<Record<StagedTarget, Forms>> = { cuda, native, wasm }
