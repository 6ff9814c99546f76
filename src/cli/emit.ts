/**
 * Implements `arke emit`, which prints the kernels of a file or of an operation, either as IR after a stage or as the
 * source code that a target compiles. For the same facts, a world launches exactly the printed code
 * (test/cuda/emitted.test.ts, test/targets/cpu/emitted.test.ts).
 */
import type { KernelIR } from '../ir/node.ts'
import { print, type PrintOptions } from '../ir/print.ts'
import { RECORDED } from '../ir/stages.ts'
import type { Kernel, Meta, MetaValue } from '../lang/kernel.ts'
import type { AnyOperation } from '../operation/definition.ts'
import { forms, type Emitted, type Given } from '../targets/forms.ts'
import { nativeEngine } from '../targets/native/node.ts'
import { descriptions } from '../targets/descriptions.ts'
import { irStageNames, stageNames, usualTarget, type StagedTarget } from '../targets/stages.ts'
import { describedWorld, launchFacts } from '../world/described.ts'
import { dtypeOf, layoutOf, shapesOf, variantsOf } from './benchOptions.ts'
import { UsageError } from './errors.ts'
import type { Source } from './load.ts'
import { expectStage } from './options.ts'

export interface EmitOptions extends PrintOptions {
  readonly kernel?: string
  /**
   * The compiler stage to print, which must be a stage of the target. If no target is given, the stage must be a stage
   * of `usualTarget`.
   */
  readonly stage?: string
  readonly target?: StagedTarget
  readonly ranks: number
  /** The ranks of the group that launches the kernel, in place of `ranks`. */
  readonly group?: readonly number[]
  /** Meta-parameters in the form KEY=VALUE. */
  readonly meta?: readonly string[]
  /** Extents of tensors in the form NAME=4096x4096. */
  readonly extents?: readonly string[]
  /**
   * For kernels of a file, the names of the packed tensors. For an operation, true if the weights of the operation are
   * packed.
   */
  readonly packed?: readonly string[] | boolean
  /** True to generate code for the processor of this computer. */
  readonly thisCpu?: boolean
  readonly oneDevice?: boolean
  readonly severalDevices?: boolean
  /**
   * True if the host signals flags of the kernel. For an operation, the flags that it allocates determine whether the
   * host signals them.
   */
  readonly hostSignals?: boolean
  readonly record?: boolean
  /**
   * The limits of the GPU for which kernels are lowered, which need not be present; by default the limits of an H200.
   */
  readonly sharedBytes?: number
  readonly registers?: number
  /** The variant of an operation. */
  readonly variant?: string
  readonly shape?: string
  readonly dtype?: string
  readonly layout?: readonly string[]
  readonly shard?: string
}

/** Options that matter only for some forms of a kernel, with their spelling on the command line. */
const spelled = {
  extents: '--extents',
  packed: '--packed',
  group: '--group',
  thisCpu: '--this-cpu',
  oneDevice: '--one-device',
  severalDevices: '--several-devices',
  hostSignals: '--host-signals',
  record: '--record',
  sharedBytes: '--shared-bytes',
  registers: '--registers',
  meta: '--meta',
  variant: '--variant',
  shape: '--shape',
  dtype: '--dtype',
  layout: '--layout',
  shard: '--shard',
} as const
type Specific = keyof typeof spelled

const ofOperations: readonly Specific[] = ['variant', 'shape', 'dtype', 'layout', 'shard']
const ofFiles: readonly Specific[] = ['extents', 'meta', 'hostSignals']

function refuse(options: EmitOptions, unlike: readonly Specific[], why: string): void {
  for (const name of unlike)
    if (options[name] !== undefined && options[name] !== false)
      throw new UsageError(`${spelled[name]}: ${why}`)
}

/** Rejects options that have no effect on the output. */
function expectApplicable(options: EmitOptions): void {
  const { target = usualTarget, stage } = options
  if (stage !== undefined) expectStage(target, stage, stageNames(target))
  const facts = [...new Set(Object.values(descriptions).flatMap((one) => one.options))]
  if (options.target === undefined && (stage === undefined || stage === RECORDED))
    refuse(options, facts, 'the kernel as written does not depend on this option; add --target or --stage')
  const own = descriptions[target].options
  const unlike = facts.filter((name) => !own.includes(name))
  refuse(options, unlike, `${target} kernels do not depend on this option; leave it out`)
}

/** A kernel to print, with the properties (facts) of the launch for which it is specialised. */
interface Item extends Given {
  readonly recorded: KernelIR
}

function emitAll(items: readonly Item[], options: EmitOptions): Emitted {
  const { target = usualTarget, stage = options.target ? undefined : RECORDED } = options
  const of = forms[target]
  const emitted = items.map(({ recorded, ...given }): Emitted => {
    if (stage === undefined) return of.text(recorded, given)
    if (!irStageNames(target).includes(stage)) return { text: of.printed(recorded, given), notes: [] }
    const ir = of.ir(recorded, stage, given)
    const notes = (ir.notes ?? []).map((note) => `// note: ${note}\n`)
    return { text: print(ir, options) + notes.join(''), notes: [] }
  })
  return {
    text: [...new Set(emitted.map(({ text }) => text))].join('\n'),
    notes: [...new Set(emitted.flatMap(({ notes }) => notes))],
  }
}

/** Emits the kernels of a file. */
export function emit(source: Source, options: EmitOptions): Emitted {
  refuse(
    options,
    ofOperations,
    `this option describes an operation, but ${source.file} has kernels; give the extents of their tensors by --extents`,
  )
  expectApplicable(options)
  const { extents = [], meta = [], packed = [] } = options
  if (packed === true) throw new UsageError('--packed: name the tensors of the file that are packed')
  const kernels = chosen(source.kernels, options, source.file)
  if (meta.length > 0 && kernels.length > 1)
    throw new UsageError(
      `${source.file}: has several kernels: choose one with --kernel, of ${kernels.map(({ name }) => name).join(', ')}`,
    )
  const waits = ({ params }: Kernel): boolean => Object.values(params).some(({ kind }) => kind === 'flags')
  if (options.hostSignals && !kernels.some(waits))
    throw new UsageError(`--host-signals: ${kernels.map(({ name }) => name).join(', ')}: no kernel has flags`)
  const items = kernels.map((kernel): Item => {
    const recorded = kernel.record({ world: ranksOf(options), meta: parseMeta(kernel, meta) })
    const names = packed === false ? [] : packed
    for (const name of names) expectTensor(recorded, '--packed', name)
    const hostSignals = options.hostSignals && waits(kernel)
    const shapes = givenExtents(recorded, extents)
    return { ...givenBy(options), recorded, shapes, packed: names, hostSignals }
  })
  return emitAll(items, options)
}

/** Emits the kernels that the variants of an operation launch, on a machine that is not present. */
export async function emitOperation(definition: AnyOperation, options: EmitOptions): Promise<Emitted> {
  refuse(
    options,
    ofFiles,
    `this option describes a kernel of a file, but ${definition.name} is an operation, which has --shape, its own tiles and its own flags`,
  )
  expectApplicable(options)
  const { target = usualTarget, packed = false } = options
  const ranks = ranksOf(options)
  const dtype = dtypeOf(definition, options.dtype)
  const [shape] = shapesOf(definition, options.shape, undefined)
  const layout = layoutOf(definition, options)
  const isPacked = Array.isArray(packed) ? packed.length > 0 : packed
  if (Array.isArray(packed) && packed.length > 0)
    throw new UsageError(
      `--packed ${packed.join(' ')}: ${definition.name} packs its weights; leave the names out`,
    )
  const all: Item[] = []
  for (const variant of variantsOf(definition, options.variant ?? 'all')) {
    const { world, launches } = describedWorld(
      descriptions[target].machine(ranks, options.severalDevices ?? false, options),
    )
    const operation = definition.make(world, { ...definition.defaults, ...layout, shape, dtype, variant })
    if (isPacked) await operation.pack()
    operation.launch()
    for (const launch of launches) {
      const { kernel } = launch
      if (options.kernel !== undefined && kernel.name !== options.kernel) continue
      const recorded = kernel.record({ world: ranks, meta: launch.options.meta as Meta | undefined })
      all.push({ ...givenBy(options), recorded, ...launchFacts(launch) })
    }
  }
  if (all.length === 0)
    throw new UsageError(
      `--kernel ${options.kernel}: ${definition.name} launches no kernel of that name with these options`,
    )
  return emitAll(all, options)
}

/** The number of ranks that launch the kernel. */
const ranksOf = ({ group, ranks }: EmitOptions): number => group?.length ?? ranks

function givenBy({ record, severalDevices, group, sharedBytes, registers, thisCpu }: EmitOptions): Given {
  const device = { sharedBytes, registers }
  return { record, severalDevices, group, device, ...(thisCpu && { processor: processorHere() }) }
}

function processorHere() {
  const engine = nativeEngine()
  if ('unavailable' in engine) throw new UsageError(`--this-cpu: ${engine.unavailable}`)
  return engine.machine
}

function chosen(kernels: readonly Kernel[], { kernel }: EmitOptions, file: string): readonly Kernel[] {
  const found = kernels.filter(({ name }) => kernel === undefined || name === kernel)
  if (found.length > 0) return found
  throw new UsageError(
    kernels.length === 0
      ? `${file}: exports no kernel; export what kernel(…) returns`
      : `${file}: has no kernel ${kernel}; it has ${kernels.map(({ name }) => name).join(', ')}`,
  )
}

function expectTensor(ir: KernelIR, option: string, name: string): number {
  const tensors = ir.body.params.flatMap((param) =>
    param.type.kind === 'tensor' ? [{ name: String(param.attributes.name), rank: param.type.rank }] : [],
  )
  const tensor = tensors.find((one) => one.name === name)
  if (tensor) return tensor.rank
  throw new UsageError(
    `${option} ${name}: ${ir.name} has no tensor ${name}; it has ${tensors.map((one) => one.name).join(', ') || 'none'}`,
  )
}

/** Parses `--extents NAME=4096x4096`. */
function givenExtents(ir: KernelIR, extents: readonly string[]): Record<string, readonly number[]> {
  const given = extents.map((one): [string, number[]] => {
    const [, name, sizes] = /^(\w+)=(\d+(?:x\d+)*)$/.exec(one) ?? []
    if (name === undefined)
      throw new UsageError(`--extents ${one}: write NAME=4096x4096, and name the file before --extents`)
    return [name, sizes.split('x').map(Number)]
  })
  for (const [name, shape] of given) {
    const rank = expectTensor(ir, '--extents', name)
    if (shape.length !== rank)
      throw new UsageError(`--extents ${name}: ${rank} extents are wanted, not ${shape.length}`)
  }
  return Object.fromEntries(given)
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
