/**
 * Traffic: the bytes that one program of a launch reads from and writes to each tensor, on its own rank and on others, and
 * the flags it signals and waits for. Exact where control flow, tile indices and owners follow from ids, extents and
 * arguments; a site for which they follow from loaded data is named in `unknown`, and the sums of its parameters are then
 * lower bounds.
 *
 * Places outside a tensor are not touched, and of a mask that can be computed only the lanes that are on. An atomic both
 * reads and writes. What `last` does is counted for the program with the highest number. A load or wait that both roles of a
 * lowered pipeline make counts once, so that a kernel and its lowered form have the same traffic.
 */
import type { KernelIR, Node } from './node.ts'
import { origin, paramName } from './ops/index.ts'
import type { Site } from './site.ts'
import { Execution, type Counts } from './traffic/execute.ts'
import { accessParts, plan, type Plan } from './traffic/plan.ts'

/** What a launch gives a kernel, as seen by one program. */
export interface Binding {
  /** Extents of each tensor, and of each flag set that has axes. */
  readonly extents: Readonly<Record<string, readonly number[]>>
  readonly scalars?: Readonly<Record<string, number>>
  /** Epochs of flag sets, for kernels that ask for them. */
  readonly epochs?: Readonly<Record<string, number>>
  readonly rank: number
  readonly program: number
  readonly programs: number
}

/** A whole launch: every program of every rank. */
export interface LaunchBinding extends Pick<Binding, 'extents' | 'epochs'> {
  readonly scalars?: Readonly<Record<string, number | ((rank: number) => number)>>
  readonly programs: number | ((rank: number) => number)
}

/** Bytes. */
export interface TensorTraffic {
  readLocal: number
  readRemote: number
  writtenLocal: number
  writtenRemote: number
}
/** How many times. */
export interface FlagTraffic {
  signalledLocal: number
  signalledRemote: number
  waitedLocal: number
  waitedRemote: number
}
/** An access, or a loop or branch with accesses inside, whose traffic depends on data. */
export interface UnknownTraffic {
  readonly parameters: readonly string[]
  readonly site: Site | undefined
  readonly reason: string
}
export interface Traffic {
  /** Every tensor parameter, in order. */
  readonly tensors: ReadonlyMap<string, Readonly<TensorTraffic>>
  /** Every flag set, in order. */
  readonly flags: ReadonlyMap<string, Readonly<FlagTraffic>>
  readonly unknown: readonly UnknownTraffic[]
}

/** What one program does. */
export function traffic(ir: KernelIR, binding: Binding): Traffic {
  return new Analysis(plan(ir)).sum([binding])
}

/** What all programs of all ranks do together. */
export function totalTraffic(ir: KernelIR, launch: LaunchBinding): Traffic {
  const bindings = Array.from({ length: ir.world }, (_, rank) => {
    const programs = typeof launch.programs === 'number' ? launch.programs : launch.programs(rank)
    const scalars = Object.fromEntries(
      Object.entries(launch.scalars ?? {}).map(([name, x]) => [name, typeof x === 'number' ? x : x(rank)]),
    )
    return Array.from({ length: programs }, (_, program) => ({ ...launch, scalars, rank, program, programs }))
  })
  return new Analysis(plan(ir)).sum(bindings.flat())
}

/** The traffic of some programs, one access of the kernel after the other. */
class Analysis {
  readonly #plan: Plan
  readonly #tensors = new Map<string, TensorTraffic>()
  readonly #flags = new Map<string, FlagTraffic>()
  readonly #unknown: (UnknownTraffic & { readonly key: Site | Node; readonly parameters: string[] })[] = []

  constructor(plan: Plan) {
    this.#plan = plan
    for (const param of plan.ir.body.params) {
      if (param.type.kind === 'tensor')
        this.#tensors.set(paramName(param), {
          readLocal: 0,
          readRemote: 0,
          writtenLocal: 0,
          writtenRemote: 0,
        })
      if (param.type.kind === 'flags')
        this.#flags.set(paramName(param), {
          signalledLocal: 0,
          signalledRemote: 0,
          waitedLocal: 0,
          waitedRemote: 0,
        })
    }
  }

  sum(bindings: readonly Binding[]): Traffic {
    const { ir, slices } = this.#plan
    for (const binding of bindings) expectComplete(ir, binding)
    for (const slice of slices) {
      const [source, target] = parametersOf(slice.counted)
      const execution = new Execution(slice, (node, reason) => this.#giveUp(node, reason, [source, target]))
      for (const binding of bindings)
        this.#add(slice.counted, source, target, execution.run(ir.body, binding))
    }
    const unknown = this.#unknown.map(({ parameters, site, reason }) => ({
      parameters: parameters.sort(),
      site,
      reason,
    }))
    return { tensors: this.#tensors, flags: this.#flags, unknown }
  }

  #add(counted: Node, source: string | undefined, target: string | undefined, counts: Counts): void {
    const flags = this.#flags.get(source ?? '')
    if (flags && counted.op === 'signal') {
      flags.signalledLocal += counts.source.local
      flags.signalledRemote += counts.source.remote
    } else if (flags) {
      flags.waitedLocal += counts.source.local
      flags.waitedRemote += counts.source.remote
    }
    const read = this.#tensors.get(source ?? '')
    if (read) {
      read.readLocal += counts.source.local
      read.readRemote += counts.source.remote
    }
    const written = this.#tensors.get(target ?? '')
    if (written) {
      written.writtenLocal += counts.target.local
      written.writtenRemote += counts.target.remote
    }
  }

  #giveUp(node: Node, reason: string, parameters: readonly (string | undefined)[]): void {
    const key = node.site ?? node
    let entry = this.#unknown.find((one) => one.key === key && one.reason === reason)
    if (!entry) this.#unknown.push((entry = { key, parameters: [], site: node.site, reason }))
    for (const name of parameters) if (name && !entry.parameters.includes(name)) entry.parameters.push(name)
  }
}

/** The parameters that an access reads (or that hold its flag) and writes; undefined is the program's own memory. */
function parametersOf(counted: Node): readonly (string | undefined)[] {
  const { source, target } = accessParts(counted) ?? { source: counted.inputs[0] }
  return [source, target].map((view) => {
    const base = view && origin(view).base
    return base?.op === 'param' ? paramName(base) : undefined
  })
}

function expectComplete(ir: KernelIR, { extents, scalars }: Binding): void {
  for (const param of ir.body.params) {
    const name = paramName(param)
    const { type } = param
    if (type.kind === 'tensor' || type.kind === 'flags') {
      const given = extents[name]?.length ?? 0
      if (given !== type.rank)
        throw new Error(`traffic: ${name} has ${type.rank} axes; the binding gives ${given} extents`)
    } else if (scalars?.[name] === undefined) throw new Error(`traffic: the binding has no value for ${name}`)
  }
}
