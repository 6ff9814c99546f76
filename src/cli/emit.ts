/** `arke emit`: what becomes of a kernel, as text, stage by stage. */
import type { KernelIR } from '../ir/node.ts'
import { print, type PrintOptions } from '../ir/print.ts'
import { RECORDED } from '../ir/stages.ts'
import type { Kernel, Meta, MetaValue } from '../lang/kernel.ts'
import { renderCuda } from '../targets/cuda/emit/emit.ts'
import { noteText } from '../targets/cuda/emit/notes.ts'
import type { EmitFacts } from '../targets/cuda/emit/recipe.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, usualWorld } from '../targets/cuda/facts.ts'
import { lowerKernel } from '../targets/cpu/lower/lower.ts'
import { defaultCaches, machineOf } from '../targets/native/build.ts'
import { renderCpp } from '../targets/native/render.ts'
import { UsageError } from './errors.ts'
import type { Source } from './load.ts'

export type Target = 'cuda' | 'native'

/** A kernel as text, and what its author should know of it. The text says that too, as comments. */
interface Emitted {
  readonly text: string
  readonly notes: readonly string[]
}

type Form = (recorded: KernelIR, options: EmitOptions) => Emitted

const withNotes = (ir: KernelIR, options: PrintOptions): Emitted => ({
  text: print(ir, options) + (ir.notes ?? []).map((note) => `// note: ${note}\n`).join(''),
  notes: [],
})

/** The record by which a world specialises the kernel that it launches. */
function factsFor(
  recorded: KernelIR,
  { shapes, severalDevices = false, record = false }: EmitOptions,
): EmitFacts {
  const world = { ...usualWorld, record, oneDevice: !severalDevices, words: !record }
  return specialise(world, shapesOf(recorded, givenShapes(recorded, shapes)))
}

/** The kernel after one of its stages for a GPU; the first of them know no target. */
const staged: Form = (recorded, options) =>
  withNotes(atStage(recorded, options.stage ?? RECORDED, factsFor(recorded, options)), options)

/** The texts of targets. That of a GPU is what its last stage is; one thread of a CPU cannot run ahead of itself. */
const targets: Readonly<Record<Target, Form>> = {
  cuda: (recorded, options) => {
    const facts = factsFor(recorded, options)
    const { source, notes } = renderCuda(atStage(recorded, LAST_STAGE, facts), facts)
    return { text: source, notes: notes.map(noteText) }
  },
  native: (recorded) => ({
    text: renderCpp(lowerKernel(recorded, { machine: avx2 }).module),
    notes: [],
  }),
}

/** What is printed does not depend on the machine that prints it. */
const avx2 = machineOf('#define __AVX2__ 1\n#define __FMA__ 1', defaultCaches)

/** From --shape NAME=4096x4096. */
function givenShapes(ir: KernelIR, shapes: readonly string[]): Record<string, readonly number[]> {
  const given = new Map(
    shapes.map((one): [string, number[]] => {
      const [, name, extents] = /^(\w+)=(\d+(?:x\d+)*)$/.exec(one) ?? []
      if (name === undefined)
        throw new UsageError(`--shape ${one}: write NAME=4096x4096, and name the file before --shape`)
      return [name, extents.split('x').map(Number)]
    }),
  )
  const tensors = ir.body.params.flatMap((param) =>
    param.type.kind === 'tensor' ? [{ name: String(param.attributes.name), rank: param.type.rank }] : [],
  )
  for (const [name, shape] of given) {
    const tensor = tensors.find((one) => one.name === name)
    if (!tensor)
      throw new UsageError(
        `--shape ${name}: ${ir.name} has no tensor ${name}; it has ${tensors.map((one) => one.name).join(', ') || 'none'}`,
      )
    if (shape.length !== tensor.rank)
      throw new UsageError(`--shape ${name}: ${tensor.rank} extents are wanted, not ${shape.length}`)
  }
  return Object.fromEntries(given)
}

export interface EmitOptions extends PrintOptions {
  readonly kernel?: string
  /** One of the stages of a kernel for a GPU, `recorded` by default. */
  readonly stage?: string
  readonly target?: Target
  readonly ranks: number
  /** As KEY=VALUE. */
  readonly meta: readonly string[]
  /** As NAME=4096x4096. */
  readonly shapes: readonly string[]
  /** Ranks may be on several devices; else all are on one. */
  readonly severalDevices?: boolean
  /** For a world that records. */
  readonly record?: boolean
}

export function emit(source: Source, options: EmitOptions): Emitted {
  const { stage, target } = options
  if (target && stage !== undefined)
    throw new UsageError(
      `--target ${target} --stage ${stage}: choose the text of a target, or a stage before it`,
    )
  if (target === 'native' && options.shapes.length > 0)
    throw new UsageError(`--shape ${options.shapes[0]}: a CPU's text does not depend on extents`)
  const form = target ? targets[target] : staged
  const kernels = source.kernels.filter(({ name }) => options.kernel === undefined || name === options.kernel)
  const names = source.kernels.map(({ name }) => name).join(', ')
  if (kernels.length === 0)
    throw new UsageError(
      source.kernels.length === 0
        ? `${source.file}: exports no kernel; export what kernel(…) returns`
        : `${source.file}: has no kernel ${options.kernel}; it has ${names}`,
    )
  if (options.meta.length > 0 && kernels.length > 1)
    throw new UsageError(`${source.file}: has several kernels: choose one with --kernel, of ${names}`)
  const emitted = kernels.map((kernel) =>
    form(kernel.record({ world: options.ranks, meta: parseMeta(kernel, options.meta) }), options),
  )
  return {
    text: emitted.map(({ text }) => text).join('\n'),
    notes: emitted.flatMap(({ notes }) => notes),
  }
}

function parseMeta(kernel: Kernel, given: readonly string[]): Meta {
  const meta: Record<string, MetaValue> = {}
  const known = Object.keys(kernel.meta).join(', ') || 'none'
  for (const one of given) {
    const [, key, text] = /^([^=]+)=(.*)$/.exec(one) ?? []
    if (key === undefined)
      throw new UsageError(`--meta ${one}: write KEY=VALUE, and name the file before --meta`)
    if (!Object.hasOwn(kernel.meta, key))
      throw new UsageError(`--meta ${one}: ${kernel.name} has no meta-parameter ${key}; it has ${known}`)
    meta[key] = parseValue(one, text, kernel.meta[key])
  }
  return meta
}

function parseValue(given: string, text: string, like: MetaValue): MetaValue {
  if (typeof like === 'string') return text
  const value = typeof like === 'number' ? (text.trim() === '' ? NaN : Number(text)) : text === 'true'
  if (Number.isNaN(value)) throw new UsageError(`--meta ${given}: must be a number, as ${like} is`)
  if (typeof like === 'boolean' && !['true', 'false'].includes(text))
    throw new UsageError(`--meta ${given}: must be true or false`)
  return value
}
