/**
 * Computes the forms of a kernel on each target: the IR of the kernel after a stage, and the text that a world of the
 * target compiles. `arke emit` prints the forms of a kernel, and `arke check` explores its IR. For the same facts, a
 * world launches the form of a kernel that `arke emit` prints.
 */
import type { KernelIR } from '../ir/node.ts'
import { limitsOf } from '../world/machine.ts'
import { isEvenlyAscending } from '../world/members.ts'
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

/**
 * Facts about the world and the arguments of a launch. A target ignores the facts for which it does not specialise its
 * kernels.
 */
export interface Given {
  /** The extents of each tensor, by the name of the tensor. An extent that is not given is 1024. */
  readonly shapes?: Shapes
  /** The names of the tensor parameters whose tensors are packed (stored in a layout that the target chooses). */
  readonly packed?: readonly string[]
  /** True if the world records events. */
  readonly record?: boolean
  /** The ranks of the group that launches the kernel; by default the whole world. */
  readonly group?: readonly number[]
  /** True if ranks may be on several devices; by default, all ranks are on one device. */
  readonly severalDevices?: boolean
  /** True if the host signals flags of the kernel. */
  readonly hostSignals?: boolean
  /** The facts in which the device differs from the target's usual device, which is an H200 for cuda. */
  readonly device?: GivenDevice
  /**
   * The processor of a native world. By default, code is generated for a processor with AVX2, whatever processor the
   * computer has.
   */
  readonly processor?: Machine
}

/** The generated code of a kernel, and the notes for the kernel's author, which the code contains as comments. */
export interface Emitted {
  readonly text: string
  readonly notes: readonly string[]
}

export interface Forms {
  /** Returns the IR of the kernel after one of the IR stages of the target. */
  ir(recorded: KernelIR, stage: string, given: Given): KernelIR
  /** Returns the text of the printed stage after the last IR stage: `decide` or `code`. */
  printed(recorded: KernelIR, given: Given): string
  text(recorded: KernelIR, given: Given): Emitted
  /** Returns the performance notes of the kernel, without its generated code. */
  notes(recorded: KernelIR, given: Given): readonly string[]
  /** Returns a short description of the facts, for one line of the results of a check. */
  summary(given: Given): string
}

function cudaFacts(recorded: KernelIR, given: Given): EmitFacts {
  const { shapes, record = false, severalDevices = false, hostSignals, device, group } = given
  const world = { record, oneDevice: !severalDevices, device: limitsOf(describedGpu(device)) }
  const facts = {
    ...world,
    ...(hostSignals && { hostSignals }),
    ...(!isEvenlyAscending(group) && { scattered: true }),
  }
  return specialise(facts, shapesOf(recorded, shapes))
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

/**
 * By default, the printed code does not depend on the computer on which `arke emit` runs: the code is for a processor
 * with AVX2.
 */
const avx2 = machineOf('#define __AVX2__ 1\n#define __FMA__ 1', defaultCaches)

function codeText(recorded: KernelIR, facts: CpuFacts): string {
  const header = cpuHeader(recorded, facts).map((line) => `// ${line}\n`)
  return `${header.join('')}${printCode(lowerKernel(recorded, facts).module)}`
}

/**
 * Returns the forms of kernels on a CPU target with the given machine. The function `textOf` renders the generated
 * code.
 */
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

/**
 * The generated WebAssembly is binary, so the readable form of a kernel for wasm is its intermediate language, Code.
 */
const wasm = cpu('wasm', () => wasmMachine, codeText)

export const forms: Readonly<Record<StagedTarget, Forms>> = { cuda, native, wasm }
