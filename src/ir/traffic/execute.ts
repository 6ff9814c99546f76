/**
 * Executes a slice of a kernel: one access and the nodes that it depends on. If a loop is executed again and the values
 * that it uses from outside are unchanged, its traffic is unchanged, so the analysis caches the counts. In a matrix
 * product A x B, for example, the counts for a row of tiles of A are reused for all columns of output tiles.
 */
import { attribute, walk, type Block, type Node } from '../node.ts'
import {
  bytesOf,
  entryOf,
  isLoop,
  opOf,
  opsWith,
  origin,
  paramName,
  type ControlName,
  type Datum,
  type OpName,
} from '../ops/index.ts'
import type { Binding } from '../traffic.ts'
import type { RefType, Shape } from '../type.ts'
import { accessParts, type Slice } from './plan.ts'
import * as views from './views.ts'
import type { Places, TensorView, View } from './views.ts'

/**
 * The traffic of an access, for each rank that owns the accessed memory: the bytes that the access reads (`source`) and
 * writes (`target`). For a signal or wait, `source` is the number of uses of the flag.
 */
export interface Counts {
  readonly source: ByOwner
  readonly target: ByOwner
}
export type ByOwner = Map<number, number>
/** A callback that is called if a node's traffic depends on loaded data. */
export type GiveUp = (node: Node, reason: string) => void

/** The value of a node during the traffic analysis. An undefined value is unknown. */
type Known = Datum | View | undefined

interface Remembered {
  readonly results: readonly Known[]
  readonly counts: Counts
}

/** The values that a loop uses from outside the loop, and whether the loop depends on the program id. */
interface Captured {
  readonly nodes: readonly Node[]
  readonly ids: boolean
}

/** Functions that look up the value of a node, and the results of a control node that has been executed. */
interface Lookup {
  value(node: Node): Known
  left(control: Node): readonly Known[] | undefined
}

/** Computes the value of a node. */
type Find = (node: Node, binding: Binding, known: Lookup) => Known

function unknown(): Known {
  return undefined
}

function evaluated(node: Node, _: Binding, { value }: Lookup): Known {
  const { evaluate } = opOf(node)
  const inputs = node.inputs.map(value)
  if (!evaluate || !inputs.every(isDatum)) return undefined
  try {
    return evaluate(node, inputs)
  } catch {
    return undefined // A division by zero is reported when the kernel runs, not by the traffic analysis.
  }
}

/**
 * Applies the function `make` to a view of a kernel parameter. Views of shared tiles and barriers have no traffic, so
 * their value is undefined.
 */
function viewed(
  make: (view: TensorView, node: Node, numbers: readonly (number | undefined)[]) => Known,
): Find {
  return (node, _, { value }) => {
    const [view, ...rest] = node.inputs.map(value)
    if (typeof view !== 'object' || !('kind' in view)) return undefined
    return make(
      view as TensorView,
      node,
      rest.map((one) => (typeof one === 'number' ? one : undefined)),
    )
  }
}

const shapeOf = (node: Node): Shape => (node.type as RefType).shape

/** The functions that compute the value of a node, one for each op. */
const finders: Readonly<Record<Exclude<OpName, ControlName>, Find>> = {
  ...opsWith({ elements: 'same' }, evaluated),
  ...opsWith({ elements: 'stretched' }, evaluated),
  ...opsWith({ elements: 'reduced' }, evaluated),
  ...opsWith({ elements: 'gathered' }, evaluated),
  const: evaluated,
  iota: evaluated,
  transpose: evaluated,

  // Loaded data is unknown before the launch, and so are concurrent actions of other programs.
  ...opsWith({ effect: 'read' }, unknown),
  ...opsWith({ effect: 'write' }, unknown),
  ...opsWith({ effect: 'declare' }, unknown),
  ...opsWith({ effect: 'sync' }, unknown),
  ...opsWith({ effect: 'report' }, unknown),
  param: unknown,
  // The traffic analysis assumes that every signal has arrived.
  reached: () => 1,

  rank: (_, { rank }) => rank,
  program: (_, { program }) => program,
  programs: (_, { programs }) => programs,
  epoch: (node, { epochs }) => epochs?.[paramName(origin(node.inputs[0]).base)],

  dim: viewed((view, node) => view.axes[attribute<number>(node, 'axis')].extent),
  on: viewed((view, _, [rank]) => views.on(view, rank)),
  slice: viewed((view, node, [start, size]) =>
    views.slice(view, attribute<number>(node, 'axis'), start, size),
  ),
  pick: viewed((view) => views.pick(view)),
  'staging.place': unknown,
  held: unknown,
  tile: viewed((view, node, indices) => views.tile(view, indices, shapeOf(node))),
  rows: viewed((view, node, [, column]) => views.rows(view, column, shapeOf(node))),
  at: viewed((view, node) => (view.kind === 'flags' ? view : views.at(view, shapeOf(node)))),

  result: (node, _, { left }) => left(node.inputs[0])?.[attribute<number>(node, 'index')],
}

/** The maximum number of iterations of a `while` loop that the traffic analysis follows. */
const longestLoop = 2 ** 22

/** The error that is thrown if the analysis of a kernel takes more steps than the limit allows. */
export class TooLong extends Error {}

export class Execution {
  readonly #slice: Slice
  readonly #giveUp: GiveUp
  /** The number of blocks that the analysis may still execute. */
  #left: number
  #binding!: Binding
  readonly #values = new Map<Node, Known>()
  /** The results of control nodes that have been executed. */
  readonly #results = new Map<Node, readonly Known[]>()
  #counts: Counts = noCounts()
  readonly #captured = new Map<Node, Captured>()
  readonly #remembered = new Map<Node, Map<string, Remembered>>()

  constructor(slice: Slice, giveUp: GiveUp, limit = Infinity) {
    this.#slice = slice
    this.#giveUp = giveUp
    this.#left = limit
  }

  /**
   * The traffic counts of one program. Traffic counts are cached between programs, so their bindings (arguments) may
   * differ only in rank, program and scalars.
   */
  run(body: Block, binding: Binding): Counts {
    this.#binding = binding
    this.#counts = noCounts()
    for (const param of body.params) this.#values.set(param, this.#argument(param))
    this.#block(body, [])
    return this.#counts
  }

  #argument(param: Node): Known {
    const name = attribute<string>(param, 'name')
    const { extents, scalars, rank } = this.#binding
    if (param.type.kind === 'tensor' || param.type.kind === 'flags')
      return views.whole(param.type.kind, name, rank, extents[name] ?? [])
    return scalars?.[name]
  }

  /** Executes a block with given parameter values and returns the block's results. */
  #block(block: Block, values: readonly Known[]): readonly Known[] {
    if (this.#left-- <= 0) throw new TooLong()
    values.forEach((value, i) => this.#values.set(block.params[i], value))
    for (const node of block.nodes) if (this.#slice.needed.has(node)) this.#node(node)
    return block.results.map((result) => this.#values.get(result))
  }

  #node(node: Node): void {
    if (node === this.#slice.counted) this.#count(node)
    else if (opOf(node).effect === 'control')
      this.#results.set(node, isLoop(node) ? this.#remember(node) : this.#control(node))
    else this.#values.set(node, this.#evaluate(node))
  }

  #number(node: Node): number | undefined {
    const value = this.#values.get(node)
    return typeof value === 'number' ? value : undefined
  }

  #evaluate(node: Node): Known {
    return entryOf(finders, node)(node, this.#binding, this.#known)
  }

  readonly #known: Lookup = {
    value: (node) => this.#values.get(node),
    left: (control) => this.#results.get(control),
  }

  #count(node: Node): void {
    const parts = accessParts(node)
    if (!parts) {
      const { owner } = this.#values.get(node.inputs[0]) as TensorView
      if (owner === undefined) this.#giveUp(node, 'the rank of the flag depends on loaded data')
      else this.#add('source', owner, 1)
      return
    }
    const source = parts.source && (this.#values.get(parts.source) as Places | undefined)
    const target = parts.target && (this.#values.get(parts.target) as Places | undefined)
    const global = [source, target].filter((places) => places !== undefined)
    const mask = parts.mask && this.#values.get(parts.mask)
    const count = views.lanes(global, isDatum(mask) ? mask : undefined)
    if (count === undefined) return this.#giveUp(node, 'the address depends on loaded data')
    if (count > 0 && global.some((places) => places.owner === undefined))
      return this.#giveUp(node, 'the owner rank depends on loaded data')
    const bytes = bytesOf((parts.source ?? parts.target)!.type as RefType, count)
    if (source) this.#add('source', source.owner, bytes)
    if (target) this.#add('target', target.owner, bytes)
  }

  #add(side: keyof Counts, owner: number | undefined, amount: number): void {
    // The rank that owns the accessed memory is unknown only if all accessed elements are outside the tensor.
    if (owner !== undefined) addTo(this.#counts[side], owner, amount)
  }

  /** Executes a loop, unless the traffic counts of the loop for these values are cached. */
  #remember(node: Node): readonly Known[] {
    const key = this.#key(node)
    if (key === undefined) return this.#control(node)
    const known = this.#remembered.get(node) ?? new Map<string, Remembered>()
    this.#remembered.set(node, known)
    let entry = known.get(key)
    if (!entry) {
      const outer = this.#counts
      this.#counts = noCounts()
      const results = this.#control(node)
      known.set(key, (entry = { results, counts: this.#counts }))
      this.#counts = outer
    }
    addCounts(this.#counts, entry.counts)
    return entry.results
  }

  /**
   * A text key of the values that a loop uses from outside the loop. The key is undefined if the loop uses a fragment
   * from outside.
   */
  #key(node: Node): string | undefined {
    let captured = this.#captured.get(node)
    if (!captured) this.#captured.set(node, (captured = this.#capturedBy(node)))
    const { rank, program, programs } = this.#binding
    const parts: unknown[] = captured.ids ? [rank, program, programs] : [rank]
    for (const node of captured.nodes) {
      const value = this.#values.get(node)
      if (value instanceof Float64Array) return undefined
      parts.push(typeof value === 'object' ? views.key(value) : value)
    }
    return parts.join()
  }

  #capturedBy(node: Node): Captured {
    const inside = new Set(node.blocks.flatMap((block) => [...walk(block)]))
    const params = new Set([...inside, node].flatMap((one) => one.blocks.flatMap((block) => block.params)))
    const used = [node, ...inside].filter((one) => one === node || this.#slice.needed.has(one))
    const inputs = used.flatMap((one) => [...one.inputs, ...one.blocks.flatMap((block) => block.results)])
    const outside = inputs.filter(
      (input) => !inside.has(input) && !params.has(input) && input.type.kind !== 'void',
    )
    const ids = used.some((one) => opOf(one).varies === 'by program')
    return { nodes: [...new Set(outside)], ids }
  }

  /** Executes a control node and returns its results. */
  #control(node: Node): readonly Known[] {
    const numbers = node.inputs.map((input) => this.#number(input))
    return entryOf(Execution.#flow, node, 'is not control flow')(this, node, numbers)
  }

  static readonly #flow: Readonly<
    Record<
      ControlName,
      (self: Execution, node: Node, numbers: readonly (number | undefined)[]) => readonly Known[]
    >
  > = {
    for(self, node, [low, high, step]) {
      if (low === undefined || high === undefined || !step || step < 1) return self.#endless(node)
      let current = self.#state(node, 3)
      for (let i = low; i < high; i += step) current = self.#block(node.blocks[0], [i, ...current])
      return current
    },
    persistent: (self, node, numbers) => self.#spaceLoop(node, numbers, 2),
    pipeline: (self, node, numbers) => self.#spaceLoop(node, numbers, 0),
    while(self, node) {
      const [condition, body] = node.blocks
      let current = self.#state(node, 0)
      for (let turn = 0; turn < longestLoop; turn++) {
        const [goesOn] = self.#block(condition, current)
        if (goesOn === undefined) return self.#endless(node)
        if (!goesOn) return current
        current = self.#block(body, current)
      }
      return self.#endless(node)
    },
    if(self, node, [condition]) {
      if (condition !== undefined) return self.#block(node.blocks[condition ? 0 : 1], [])
      if (self.#contains(node)) self.#giveUp(node, 'the condition depends on loaded data')
      return []
    },
    roles(self, node) {
      node.blocks.forEach((role) => self.#block(role, []))
      return []
    },
    teams: (self, node, numbers) => self.#teams(node, numbers),
    // The traffic analysis assumes that every signal has arrived.
    until: (self, node) => self.#block(node.blocks[0], []),
    once: (self, node) => self.#block(node.blocks[0], []),
    boxes(self, node) {
      const count = attribute<number>(node, 'count')
      for (let box = 0; box < count; box++) self.#block(node.blocks[0], [box])
      return []
    },
    last(self, node) {
      if (node.attributes.of !== undefined) {
        if (self.#contains(node))
          self.#giveUp(node, 'which program arrives last is known only when the kernel runs')
        return []
      }
      const { program, programs } = self.#binding
      if (program === programs - 1) self.#block(node.blocks[0], [])
      return []
    },
  }

  /** The initial state values of a loop, which follow its first `leading` inputs. */
  #state(node: Node, leading: number): readonly Known[] {
    return node.inputs.slice(leading).map((input) => this.#values.get(input))
  }

  /**
   * Executes a loop over a space of indices. If `leading` is 2, the first two inputs of the loop are the start and the
   * step.
   */
  #spaceLoop(node: Node, numbers: readonly (number | undefined)[], leading: 0 | 2): readonly Known[] {
    const axes = attribute<number>(node, 'axes')
    const bounds = numbers.slice(0, leading + axes)
    const extents = bounds.slice(leading)
    const empty = extents.findIndex((extent) => extent !== undefined && extent <= 0)
    if (empty >= 0 && !extents.slice(0, empty).includes(undefined)) return this.#state(node, leading + axes)
    if (!bounds.every((bound) => bound !== undefined)) return this.#endless(node)
    const [start, stride] = leading === 2 ? bounds : [0, 1]
    return this.#space(
      node.blocks[0],
      bounds.slice(leading),
      start,
      stride,
      this.#state(node, leading + axes),
    )
  }

  #contains(node: Node): boolean {
    return node.blocks.some((block) => [...walk(block)].includes(this.#slice.counted))
  }

  #endless(node: Node): readonly Known[] {
    if (this.#contains(node)) this.#giveUp(node, 'the number of iterations depends on loaded data')
    return []
  }

  /**
   * Executes the body for every `stride`-th point of a space from `start` on. The last axis of the space varies
   * fastest.
   */
  #space(body: Block, extents: readonly number[], start: number, stride: number, init: readonly Known[]) {
    const points = extents.reduce((product, extent) => product * Math.max(0, extent), 1)
    let current = init
    for (let point = start; point < points; point += stride) {
      const index: Known[] = []
      let rest = point
      for (let axis = extents.length - 1; axis >= 0; axis--) {
        index[axis] = rest % extents[axis]
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
        if (this.#contains(node)) this.#giveUp(node, 'the size of a team depends on loaded data')
        return []
      }
      if (program >= before && program < before + size) this.#block(block, [program - before, size])
      before += size
    }
    return []
  }
}

const noCounts = (): Counts => ({ source: new Map(), target: new Map() })

const addTo = (counts: ByOwner, owner: number, amount: number): void =>
  void counts.set(owner, (counts.get(owner) ?? 0) + amount)

function addCounts(to: Counts, counts: Counts): void {
  for (const side of ['source', 'target'] as const)
    for (const [owner, amount] of counts[side]) addTo(to[side], owner, amount)
}

function isDatum(value: Known): value is Datum {
  return typeof value === 'number' || value instanceof Float64Array
}
