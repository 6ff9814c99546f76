/**
 * Computes the traffic of a kernel: the bytes that one program of a launch reads from and writes to each tensor, on its
 * own rank and on other ranks, and the flags that the program signals and waits for. The computed traffic is exact if
 * control flow, tile indices and owners follow from ids, extents and arguments. An access that depends on loaded data
 * is listed in `unknown`, and the byte counts of its parameters are then lower bounds.
 *
 * Elements outside a tensor do not count as traffic. If the value of a mask can be computed, only the elements for
 * which the mask is true count as traffic. An atomic counts as both a read and a write. The body of `last` counts for
 * the program with the highest index. A load or wait that both roles of a lowered pipeline execute counts once, so a
 * kernel and its lowered form have the same traffic. The traffic analysis assumes that every poll of a flag succeeds.
 */
import type { KernelIR, Node } from './node.ts'
import { opOf, origin, paramName } from './ops/index.ts'
import type { Site } from './site.ts'
import { Execution, TooLong, type ByOwner, type Counts } from './traffic/execute.ts'
import { accessParts, plan, type Plan } from './traffic/plan.ts'

/** The arguments of a launch, as seen by one program. */
export interface Binding {
  /** The extents of each tensor, and of each flag set that has axes. */
  readonly extents: Readonly<Record<string, readonly number[]>>
  readonly scalars?: Readonly<Record<string, number>>
  /** The epochs of flag sets, for kernels whose traffic depends on them. */
  readonly epochs?: Readonly<Record<string, number>>
  readonly rank: number
  readonly program: number
  readonly programs: number
}

/** The arguments of a whole launch: every program of every rank. */
export interface LaunchBinding extends Pick<Binding, 'extents' | 'epochs'> {
  readonly scalars?: Readonly<Record<string, number | ((rank: number) => number)>>
  readonly programs: number | ((rank: number) => number)
}

/** The traffic of one tensor, in bytes. */
export interface TensorTraffic {
  readLocal: number
  readRemote: number
  writtenLocal: number
  writtenRemote: number
}
/** The number of signals and waits of one flag set. */
export interface FlagTraffic {
  signalledLocal: number
  signalledRemote: number
  waitedLocal: number
  waitedRemote: number
}
/** An access, or a loop or branch that contains accesses, whose traffic depends on loaded data. */
export interface UnknownTraffic {
  readonly parameters: readonly string[]
  readonly site: Site | undefined
  readonly reason: string
}
export interface Traffic {
  /** The traffic of every tensor parameter, in the order of the parameters. */
  readonly tensors: ReadonlyMap<string, Readonly<TensorTraffic>>
  /** The traffic of every flag set, in the order of the parameters. */
  readonly flags: ReadonlyMap<string, Readonly<FlagTraffic>>
  readonly unknown: readonly UnknownTraffic[]
}

/** The traffic of one rank's copy of a tensor, in bytes. */
export interface CopyTraffic {
  /** The bytes written by programs of all ranks. */
  written: number
  /** The bytes read by programs of the rank itself. */
  readLocal: number
}

/** The traffic of one program. */
export function traffic(ir: KernelIR, binding: Binding): Traffic {
  return new Analysis(plan(ir)).sum([binding])
}

/** The total traffic of all programs of all ranks. */
export function totalTraffic(ir: KernelIR, launch: LaunchBinding): Traffic {
  return new Analysis(plan(ir)).sum(bindingsOf(ir, launch))
}

/**
 * The traffic of all programs of all ranks to each rank's copy of every tensor parameter, by parameter name and rank.
 * The analysis of an access ends after `limit` executions of blocks. When the limit is reached, the access counts only
 * for the programs that have already been analysed.
 */
export function trafficOfCopies(
  ir: KernelIR,
  launch: LaunchBinding,
  limit = Infinity,
): ReadonlyMap<string, readonly Readonly<CopyTraffic>[]> {
  const analysis = new Analysis(plan(ir), limit)
  analysis.sum(bindingsOf(ir, launch))
  return analysis.copies
}

function bindingsOf(ir: KernelIR, launch: LaunchBinding): Binding[] {
  const bindings = Array.from({ length: ir.world }, (_, rank) => {
    const programs = typeof launch.programs === 'number' ? launch.programs : launch.programs(rank)
    const scalars = Object.fromEntries(
      Object.entries(launch.scalars ?? {}).map(([name, x]) => [name, typeof x === 'number' ? x : x(rank)]),
    )
    return Array.from({ length: programs }, (_, program) => ({ ...launch, scalars, rank, program, programs }))
  })
  return bindings.flat()
}

/** Sums the traffic of several programs. The analysis processes one memory access of the kernel after another. */
class Analysis {
  readonly #plan: Plan
  readonly #limit: number
  readonly #tensors = new Map<string, TensorTraffic>()
  readonly copies = new Map<string, CopyTraffic[]>()
  readonly #flags = new Map<string, FlagTraffic>()
  readonly #unknown: (UnknownTraffic & { readonly key: Site | Node; readonly parameters: string[] })[] = []

  constructor(plan: Plan, limit = Infinity) {
    this.#plan = plan
    this.#limit = limit
    for (const param of plan.ir.body.params) {
      if (param.type.kind === 'tensor') {
        const none = { readLocal: 0, readRemote: 0, writtenLocal: 0, writtenRemote: 0 }
        this.#tensors.set(paramName(param), none)
        const copies = Array.from({ length: plan.ir.world }, () => ({ written: 0, readLocal: 0 }))
        this.copies.set(paramName(param), copies)
      }
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
      const giveUp = (node: Node, reason: string): void => this.#giveUp(node, reason, [source, target])
      const execution = new Execution(slice, giveUp, this.#limit)
      try {
        for (const binding of bindings)
          this.#add(slice.counted, source, target, binding.rank, execution.run(ir.body, binding))
      } catch (error) {
        if (!(error instanceof TooLong)) throw error
        giveUp(slice.counted, 'the analysis of this access takes too many steps')
      }
    }
    const unknown = this.#unknown.map(({ parameters, site, reason }) => ({
      parameters: parameters.sort(),
      site,
      reason,
    }))
    return { tensors: this.#tensors, flags: this.#flags, unknown }
  }

  #add(
    counted: Node,
    source: string | undefined,
    target: string | undefined,
    rank: number,
    counts: Counts,
  ): void {
    const [fromSource, toTarget] = [sides(counts.source, rank), sides(counts.target, rank)]
    const flags = this.#flags.get(source ?? '')
    if (flags && opOf(counted).advances === 'signal') {
      flags.signalledLocal += fromSource.local
      flags.signalledRemote += fromSource.remote
    } else if (flags) {
      flags.waitedLocal += fromSource.local
      flags.waitedRemote += fromSource.remote
    }
    const read = this.#tensors.get(source ?? '')
    if (read) {
      read.readLocal += fromSource.local
      read.readRemote += fromSource.remote
      this.copies.get(source!)![rank].readLocal += fromSource.local
    }
    const written = this.#tensors.get(target ?? '')
    if (written) {
      written.writtenLocal += toTarget.local
      written.writtenRemote += toTarget.remote
      for (const [owner, bytes] of counts.target) {
        const copies = this.copies.get(target!)!
        if (owner in copies) copies[owner].written += bytes
      }
    }
  }

  #giveUp(node: Node, reason: string, parameters: readonly (string | undefined)[]): void {
    const key = node.site ?? node
    let entry = this.#unknown.find((one) => one.key === key && one.reason === reason)
    if (!entry) this.#unknown.push((entry = { key, parameters: [], site: node.site, reason }))
    for (const name of parameters) if (name && !entry.parameters.includes(name)) entry.parameters.push(name)
  }
}

/** The sums of the traffic on the program's own rank and on other ranks. */
function sides(counts: ByOwner, rank: number): { readonly local: number; readonly remote: number } {
  let [local, remote] = [0, 0]
  for (const [owner, amount] of counts)
    if (owner === rank) local += amount
    else remote += amount
  return { local, remote }
}

/**
 * The parameters whose memory (or flags) an access reads, and those whose memory it writes. An undefined parameter
 * stands for the program's own memory.
 */
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
