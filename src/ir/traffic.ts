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
import { dtypes } from './dtype.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from './node.ts'
import { ops, origin, paramName, type Datum } from './ops/index.ts'
import type { Site } from './site.ts'
import { accessParts, plan, type Plan } from './traffic/plan.ts'
import * as views from './traffic/views.ts'
import type { Places, TensorView, View } from './traffic/views.ts'
import type { RefType } from './type.ts'

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
  return new Execution(plan(ir), binding).run()
}

/** What all programs of all ranks do together. */
export function totalTraffic(ir: KernelIR, launch: LaunchBinding): Traffic {
  const parts: Traffic[] = []
  for (let rank = 0; rank < ir.world; rank++) {
    const programs = typeof launch.programs === 'number' ? launch.programs : launch.programs(rank)
    const scalars = Object.fromEntries(
      Object.entries(launch.scalars ?? {}).map(([name, x]) => [name, typeof x === 'number' ? x : x(rank)]),
    )
    for (let program = 0; program < programs; program++)
      parts.push(traffic(ir, { ...launch, scalars, rank, program, programs }))
  }
  return sumTraffic(parts)
}

/** The sum over programs of one kernel. */
export function sumTraffic(parts: readonly Traffic[]): Traffic {
  return {
    tensors: sumBy(parts.map((part) => part.tensors)),
    flags: sumBy(parts.map((part) => part.flags)),
    unknown: distinct(parts.flatMap((part) => part.unknown)),
  }
}

function sumBy<T extends { [K in keyof T]: number }>(
  parts: readonly ReadonlyMap<string, T>[],
): Map<string, T> {
  const sums = new Map<string, T>()
  for (const [name, counts] of parts.flatMap((part) => [...part])) {
    const sum = sums.get(name) ?? (Object.fromEntries(Object.keys(counts).map((key) => [key, 0])) as T)
    for (const key of Object.keys(counts) as (keyof T)[]) sum[key] = (sum[key] + counts[key]) as T[keyof T]
    sums.set(name, sum)
  }
  return sums
}

function distinct(list: readonly UnknownTraffic[]): UnknownTraffic[] {
  const key = ({ site, reason, parameters }: UnknownTraffic): string =>
    `${site} ${reason} ${parameters.join()}`
  return [...new Map(list.map((one) => [key(one), one])).values()]
}

/** Undefined is what cannot be known. */
type Known = Datum | View | undefined

/** A `while` that goes on for longer than this is not followed. */
const longestLoop = 2 ** 22

/** One program, executed as far as its traffic needs it. */
class Execution {
  readonly #plan: Plan
  readonly #binding: Binding
  readonly #values = new Map<Node, Known>()
  /** What control nodes left. */
  readonly #results = new Map<Node, readonly Known[]>()
  readonly #tensors = new Map<string, TensorTraffic>()
  readonly #flags = new Map<string, FlagTraffic>()
  readonly #unknown = new Map<Node, UnknownTraffic>()

  constructor(plan: Plan, binding: Binding) {
    this.#plan = plan
    this.#binding = binding
  }

  run(): Traffic {
    const { body } = this.#plan.ir
    for (const param of body.params) this.#values.set(param, this.#argument(param))
    this.#block(body, [])
    return { tensors: this.#tensors, flags: this.#flags, unknown: distinct([...this.#unknown.values()]) }
  }

  #argument(param: Node): Known {
    const name = attribute<string>(param, 'name')
    const { extents, scalars, rank } = this.#binding
    const { type } = param
    if (type.kind === 'tensor' || type.kind === 'flags') {
      if (type.kind === 'tensor')
        this.#tensors.set(name, { readLocal: 0, readRemote: 0, writtenLocal: 0, writtenRemote: 0 })
      else this.#flags.set(name, { signalledLocal: 0, signalledRemote: 0, waitedLocal: 0, waitedRemote: 0 })
      const given = extents[name] ?? []
      if (given.length !== type.rank)
        throw new Error(`traffic: ${name} has ${type.rank} axes; the binding gives ${given.length} extents`)
      return views.whole(type.kind, name, rank, given)
    }
    if (scalars?.[name] === undefined) throw new Error(`traffic: the binding has no value for ${name}`)
    return scalars[name]
  }

  /** Execute a block with values for its params; its results. */
  #block(block: Block, values: readonly Known[]): readonly Known[] {
    block.params.forEach((param, i) => values.length > i && this.#values.set(param, values[i]))
    for (const node of block.nodes) if (this.#plan.needed.has(node)) this.#node(node)
    return block.results.map((result) => this.#values.get(result))
  }

  #node(node: Node): void {
    if (this.#plan.counted.has(node)) this.#count(node)
    else if (ops[node.op].effect === 'control') this.#results.set(node, this.#control(node))
    else this.#values.set(node, this.#evaluate(node))
  }

  #number(node: Node): number | undefined {
    const value = this.#values.get(node)
    return typeof value === 'number' ? value : undefined
  }

  #evaluate(node: Node): Known {
    const { rank, program, programs, epochs } = this.#binding
    const numbers = (): (number | undefined)[] => node.inputs.slice(1).map((input) => this.#number(input))
    const view = this.#values.get(node.inputs[0]) as TensorView
    switch (node.op) {
      case 'rank':
        return rank
      case 'program':
        return program
      case 'programs':
        return programs
      case 'epoch':
        return epochs?.[paramName(origin(node.inputs[0]).base)]
      case 'result':
        return this.#results.get(node.inputs[0])?.[attribute<number>(node, 'index')]
    }
    if (view !== undefined && typeof view === 'object' && 'kind' in view)
      switch (node.op) {
        case 'dim':
          return view.axes[attribute<number>(node, 'axis')].extent
        case 'on':
          return views.on(view, numbers()[0])
        case 'slice':
          return views.slice(view, attribute<number>(node, 'axis'), ...(numbers() as [number, number]))
        case 'pick':
          return views.pick(view)
        case 'tile':
          return views.tile(view, numbers(), (node.type as RefType).shape)
        case 'rows':
          return views.rows(view, numbers()[1], (node.type as RefType).shape)
        case 'at':
          return node.type.kind === 'flags' ? view : views.at(view, (node.type as RefType).shape)
      }
    const meaning = ops[node.op].evaluate
    const inputs = node.inputs.map((input) => this.#values.get(input))
    if (!meaning || node.op === 'dot' || !inputs.every((input) => isDatum(input))) return undefined
    try {
      return meaning(node, inputs)
    } catch {
      return undefined // a division by zero is the program's to meet
    }
  }

  #count(node: Node): void {
    if (node.op === 'signal' || node.op === 'wait') {
      const { name, owner } = this.#values.get(node.inputs[0]) as TensorView
      if (owner === undefined) return this.#giveUp(node, 'the rank of the flag depends on loaded data')
      const where = owner === this.#binding.rank ? 'Local' : 'Remote'
      this.#flags.get(name)![`${node.op === 'signal' ? 'signalled' : 'waited'}${where}`]++
      return
    }
    const parts = accessParts(node)!
    const source = parts.source && (this.#values.get(parts.source) as Places | undefined)
    const target = parts.target && (this.#values.get(parts.target) as Places | undefined)
    const global = [source, target].filter((places) => places !== undefined)
    const mask = parts.mask && this.#values.get(parts.mask)
    const count = views.lanes(global, isDatum(mask) ? mask : undefined)
    if (count === undefined) return this.#giveUp(node, 'the place depends on loaded data')
    if (count > 0 && global.some((places) => places.owner === undefined))
      return this.#giveUp(node, 'the rank it lies on depends on loaded data')
    const bytes = count * dtypes[((parts.source ?? parts.target)!.type as RefType).dtype].bytes
    if (source) this.#tensors.get(source.name)![this.#isLocal(source) ? 'readLocal' : 'readRemote'] += bytes
    if (target)
      this.#tensors.get(target.name)![this.#isLocal(target) ? 'writtenLocal' : 'writtenRemote'] += bytes
  }

  #isLocal(places: Places): boolean {
    return places.owner === this.#binding.rank
  }

  /** Name a node, or what is counted inside it, as unknown. */
  #giveUp(node: Node, reason: string): void {
    if (this.#unknown.has(node)) return
    const inside = [node, ...node.blocks.flatMap((block) => [...walk(block)])]
    const names = inside
      .filter((one) => this.#plan.counted.has(one))
      .flatMap((one) => one.inputs.slice(0, one.op.startsWith('copy') ? 2 : 1))
      .map((view) => origin(view).base)
      .filter((base) => base.op === 'param')
      .map(paramName)
    if (names.length > 0)
      this.#unknown.set(node, { parameters: [...new Set(names)].sort(), site: node.site, reason })
  }

  /** Execute a control node; what it leaves. */
  #control(node: Node): readonly Known[] {
    const numbers = node.inputs.map((input) => this.#number(input))
    const state = (leading: number): readonly Known[] =>
      node.inputs.slice(leading).map((input) => this.#values.get(input))
    const [body] = node.blocks
    switch (node.op) {
      case 'for': {
        const [low, high, step] = numbers
        if (low === undefined || high === undefined || !step || step < 1) return this.#endless(node)
        let current = state(3)
        for (let i = low; i < high; i += step) current = this.#block(body, [i, ...current])
        return current
      }
      case 'persistent':
      case 'pipeline': {
        const leading = node.op === 'persistent' ? 2 : 0
        const axes = attribute<number>(node, 'axes')
        const bounds = numbers.slice(0, leading + axes)
        if (!bounds.every((bound) => bound !== undefined)) return this.#endless(node)
        const [start, stride] = leading === 2 ? bounds : [0, 1]
        return this.#space(body, bounds.slice(leading), start, stride, state(leading + axes))
      }
      case 'while': {
        let current = state(0)
        for (let turn = 0; turn < longestLoop; turn++) {
          const [goesOn] = this.#block(body, current)
          if (goesOn === undefined) return this.#endless(node)
          if (!goesOn) return current
          current = this.#block(node.blocks[1], current)
        }
        return this.#endless(node)
      }
      case 'if': {
        const [condition] = numbers
        if (condition !== undefined) return this.#block(node.blocks[condition ? 0 : 1], [])
        this.#giveUp(node, 'the condition depends on loaded data')
        return []
      }
      case 'roles':
        node.blocks.forEach((role) => this.#block(role, []))
        return []
      case 'teams':
        return this.#teams(node, numbers)
      case 'last':
        if (this.#binding.program === this.#binding.programs - 1) this.#block(body, [])
        return []
      default:
        throw new Error(`traffic: ${node.op} is not control flow`)
    }
  }

  #endless(node: Node): readonly Known[] {
    this.#giveUp(node, 'the number of iterations depends on loaded data')
    return []
  }

  /** Every `stride`-th point of a space from `start` on, the last axis fastest. */
  #space(body: Block, extents: readonly number[], start: number, stride: number, init: readonly Known[]) {
    const points = extents.reduce((product, extent) => product * Math.max(0, extent), 1)
    let current = init
    for (let point = start; point < points; point += stride) {
      const index: number[] = []
      let rest = point
      for (let axis = extents.length - 1; axis >= 0; axis--) {
        index.unshift(rest % extents[axis])
        rest = Math.floor(rest / extents[axis])
      }
      current = this.#block(body, [...index, ...current])
    }
    return current
  }

  #teams(node: Node, [program, ...sizes]: readonly (number | undefined)[]): readonly Known[] {
    let before = 0
    for (const [i, block] of node.blocks.entries()) {
      const size = sizes[i]
      if (program === undefined || size === undefined) {
        this.#giveUp(node, 'the size of a team depends on loaded data')
        return []
      }
      if (program >= before && program < before + size) this.#block(block, [program - before, size])
      before += size
    }
    return []
  }
}

function isDatum(value: Known): value is Datum {
  return typeof value === 'number' || value instanceof Float64Array
}
