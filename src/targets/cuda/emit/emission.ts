/**
 * The state of writing one kernel: the plans made before, the group whose code is being written, and the C++ text that
 * stands for each IR node so far. Renderers of ops (render/) know this and their own op, nothing else.
 */
import { attribute, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { isLoop, leadingInputs, opOf } from '../../../ir/ops/index.ts'
import { KernelError, type Site } from '../../../ir/site.ts'
import type { ValueType } from '../../../ir/type.ts'
import type { WgmmaShape } from '../prelude.ts'
import { isFragment, isSplat } from './assign.ts'
import type { StrongAccess } from './device.ts'
import { strongAccess, tensorCopy } from './device.ts'
import type { Group, RolesPlan } from './groups.ts'
import type { EarlyPlan } from './early.ts'
import type { Plans } from './hazards.ts'
import type { Layout } from './layout.ts'
import type { LoopPlan } from './loops.ts'
import type { Overlap } from './overlap.ts'
import { Params } from './params.ts'
import type { Ranges } from './ranges.ts'
import type { EmitFacts } from './recipe.ts'
import { Recorder, type RecordPlan } from './record.ts'
import { is16Bit, registerType, type Operand } from './spell.ts'
import type { TileGroup } from './tileOrder.ts'
import type { Region, Tile } from './tiles.ts'
import type { Uses } from './uses.ts'
import { lineOf, Names, Writer } from './writer.ts'

/** A fragment as text: its register for an index, and its array where it has one. */
export interface FragmentText {
  readonly layout: Layout
  /** The element in register `i`; of 16-bit elements, its bits. */
  element(i: string): string
  /** Elements, or for 16-bit elements pairs of them. */
  readonly array: string | undefined
  /** What is computed from indices alone can be had at any place, in any layout: one text an axis. */
  at?(place: readonly string[]): string
}

/** Where things lie in shared memory. */
export interface SharedPlan {
  readonly tiles: ReadonlyMap<Node, Region>
  readonly barriers: ReadonlyMap<Node, Region>
  /** Two boxes a warpgroup for stores by the copy engine. */
  readonly staging: ReadonlyMap<Group, Region>
  /** Where a group's threads exchange what one of them found, or partial results. */
  readonly exchange: ReadonlyMap<Group, Region>
  readonly scratch: ReadonlyMap<Node, Region>
}

export interface EmissionPlans extends Plans {
  readonly ir: KernelIR
  readonly facts: EmitFacts
  readonly ranges: Ranges
  readonly uses: Uses
  readonly roles: RolesPlan
  readonly tiles: ReadonlyMap<Node, Tile>
  readonly overlaps: readonly Overlap[]
  readonly shared: SharedPlan
  readonly loops: LoopPlan
  /** Of a kernel that records. */
  readonly record: RecordPlan | undefined
  /** What need not wait for the kernel before. */
  readonly early: EarlyPlan | undefined
  /** Threads that arrive for one `barrier.arrive`: one a warp of the arriving group, or 1. */
  readonly arrivers: ReadonlyMap<Node, number>
  /** The first of the barriers at which the warpgroups of a group meet, each by itself. */
  readonly warpgroupBarriers: ReadonlyMap<Group, number>
  /** Rows of tiles that a `persistent` walks together. */
  readonly tileGroup: TileGroup
  /** Whether a program may have written what it reads there with ordinary stores. */
  readonly mayHaveWritten: (ref: Node) => boolean
  /** The thread that advances the epochs of flags for the next launch. */
  readonly clerk: number
  /** The kernel polls memory in a `while`, for any length of time. The next launch then does not start before it has ended. */
  readonly polls: boolean
  /** Whether anything is copied by the copy engine. */
  readonly usesCopyEngine: boolean
  /** Shared tiles that threads load from or store to themselves, the operands of products by warps included. */
  readonly touchedByThreads: ReadonlySet<Node>
}

export class Emission {
  readonly plans: EmissionPlans
  readonly out = new Writer()
  readonly names = new Names()
  readonly params: Params
  readonly wgmma: WgmmaShape[] = []
  readonly functions = new Map<string, string>()
  readonly waitSites: string[] = []
  readonly signals = new Set<string>()
  readonly waits = new Set<string>()
  /** Of a kernel that records. */
  readonly recorder: Recorder | undefined
  group: Group
  /** Declared before the group's code: what its renderers remember from one iteration to the next. */
  remembered: string[] = []
  /** Declared at the start of the kernel. */
  readonly epochs = new Map<string, { readonly flags: string; readonly side: 'signal' | 'wait' }>()
  /** Names of shared tiles and of arrays of barriers: their addresses. */
  readonly addresses = new Map<Node, string>()
  /** Names of what control nodes leave. */
  readonly results = new Map<Node, readonly string[]>()
  /** Arrivals that a product in flight puts off, and the variables that hold their barriers until then. */
  readonly deferred = new Map<Node, string>()
  /** Of what is loaded until all words are there: the variable that tells of those that are not. */
  missing: string | undefined
  /** In a wait that is skipped the second time: the variable with the flag's address. */
  flagPointer: string | undefined
  /** Labels, which a function has each once. */
  labels = 0
  readonly #scalars = new Map<Node, string>()
  readonly #variables = new Set<Node>()
  readonly #fragments = new Map<Node, FragmentText>()
  readonly #renderBlock: (block: Block, emission: Emission) => void

  constructor(plans: EmissionPlans, renderBlock: (block: Block, emission: Emission) => void) {
    this.plans = plans
    this.params = new Params(plans.ir, this.names)
    this.group = plans.roles.whole
    this.recorder = plans.record && new Recorder(this, plans.record)
    this.#renderBlock = renderBlock
  }

  refuse(node: Node, problem: string): never {
    throw new KernelError(`${node.op}: ${problem}`, node.site)
  }

  // Code of blocks and groups

  block(block: Block): void {
    this.#renderBlock(block, this)
  }

  /** A role's code, in names and order of its own. */
  within(group: Group, body: () => void): void {
    const outer = { group: this.group, remembered: this.remembered }
    this.group = group
    this.remembered = []
    this.names.scope(() => {
      const lines = this.out.aside(body)
      for (const line of this.remembered) this.out.line(line)
      this.out.append(lines)
    })
    Object.assign(this, outer)
  }

  /** Something a group keeps from one iteration to the next: declared at its start. */
  remember(base: string, declare: (name: string) => string): string {
    const name = `${base}_${this.remembered.length + 1}` // of its own kind: it outlives the scope it is needed in
    this.remembered.push(declare(name))
    return name
  }

  // Threads of the group

  get leader(): string {
    return this.group.solo ? 'true' : 'thread == 0'
  }

  /** A statement that one thread executes. */
  byLeader(statement: string, site?: Site): void {
    this.out.line(this.group.solo || this.isApart ? statement : `if (thread == 0) ${statement}`, site)
  }

  /** Code of which every thread runs turns of its own: nothing in it is done together. */
  apart(body: () => void): void {
    this.isApart = true
    body()
    this.isApart = false
  }
  isApart = false

  meet(site?: Site): void {
    const { barrier, threads } = this.group
    this.out.line(barrier === 0 ? '__syncthreads();' : `group_barrier(${barrier}, ${threads});`, site)
  }

  /** Bytes of this group's own in shared memory, as an address. */
  exchange(): string {
    return `shared + ${this.plans.shared.exchange.get(this.group)!.at}`
  }

  /** A node's own shared memory, as an address. */
  scratch(node: Node): string {
    return `shared + ${this.plans.scratch.get(node)!.at}`
  }

  /** What one thread computes, in all of them. */
  fromLeader(type: string, name: string, expression: string, site?: Site): void {
    if (this.group.solo) return this.out.line(`const ${type} ${name} = ${expression};`, site)
    this.out.line(`if (thread == 0) shared_store<${type}>(${this.exchange()}, ${expression});`, site)
    this.meet()
    this.out.line(`const ${type} ${name} = shared_load<${type}>(${this.exchange()});`)
    this.meet()
  }

  // Values

  /** The text of a scalar. */
  scalar(node: Node): string {
    const text = this.#scalars.get(node)
    if (text === undefined) throw new Error(`${node.op} at ${node.site} has no text yet`)
    return text
  }

  /** Its text may mention variables that others change. */
  setScalar(node: Node, text: string): void {
    this.#scalars.set(node, text)
  }

  /** Its text is a variable of its own. */
  setVariable(node: Node, name: string): void {
    this.#scalars.set(node, name)
    this.#variables.add(node)
  }

  /** Whether the text of a scalar mentions one of these params. */
  mentions(node: Node, params: ReadonlySet<Node>): boolean {
    if (node.op === 'param' || this.#variables.has(node)) return params.has(node)
    return node.inputs.some((input) => this.mentions(input, params))
  }

  operand(node: Node): Operand {
    return { text: this.scalar(node), nonNegative: this.plans.ranges.isNonNegative(node) }
  }

  /** Gives a scalar a name, unless its one use can as well show the expression. */
  defineScalar(node: Node, expression: string, base: string, inline = true): void {
    const { dtype } = node.type as ValueType
    const uses = this.plans.uses.count(node)
    if (uses === 0) return
    if (inline && uses === 1 && expression.length <= 48 && !this.#isUsedByLoop(node))
      return this.setScalar(node, expression)
    const name = this.names.take(base)
    this.out.line(`const ${registerType(dtype)} ${name} = ${bare(expression)};`, node.site)
    this.setVariable(node, name)
  }

  #isUsedByLoop(node: Node): boolean {
    const [user] = this.plans.uses.users(node)
    if (!user) return false
    if (isLoop(user) && leadingInputs(user) > 0) return true
    const outer = new Set(this.plans.uses.around(node))
    return [...this.plans.uses.around(user)].some(
      (one) => opOf(one).flow !== 'branches' && one.op !== 'until' && !outer.has(one),
    )
  }

  fragment(node: Node): FragmentText {
    const known = this.#fragments.get(node)
    if (!known) throw new Error(`${node.op} at ${node.site} has no text yet`)
    return known
  }

  setFragment(node: Node, text: FragmentText): void {
    this.#fragments.set(node, text)
  }

  /**
   * A value of any shape as an element for register `i`, which is at a place of whoever asks: what follows from places need not have
   * the layout of what it meets.
   */
  element(node: Node, i: string, place?: readonly string[]): Operand {
    if (!isFragment(node) || isSplat(node)) return this.operand(node)
    const isIndex = (node.type as ValueType).dtype === 'i32'
    const fragment = this.fragment(node)
    return {
      text: place && fragment.at ? fragment.at(place) : fragment.element(i),
      nonNegative: isIndex && this.plans.ranges.isNonNegative(node),
    }
  }

  /** Declares registers for a fragment and makes them its text. */
  declareFragment(node: Node, base: string): string {
    const name = this.names.take(base)
    const { dtype } = node.type as ValueType
    const layout = this.plans.layouts.of(node)
    const [type, count] = registers(dtype, layout.count)
    this.out.line(`${type} ${name}[${count}];`, node.site)
    this.setFragment(node, arrayText(name, dtype, layout))
    return name
  }

  aliasFragment(node: Node, array: string): void {
    const { dtype } = node.type as ValueType
    this.setFragment(node, arrayText(array, dtype, this.plans.layouts.of(node)))
  }

  /** A fragment in an array of its own, whatever stood for it before. */
  inArray(node: Node, base = 'fragment'): string {
    if (!isSplat(node)) {
      const { array } = this.fragment(node)
      if (array) return array
    }
    const name = this.names.take(base)
    const { dtype } = node.type as ValueType
    const layout = this.plans.layouts.of(node)
    const [type, count] = registers(dtype, layout.count)
    this.out.line(`${type} ${name}[${count}];`, node.site)
    this.fill(name, node)
    return name
  }

  /** Copies a fragment's elements to an array in the layout of `like`: one scalar for all, or what follows from places, has any. */
  fill(array: string, node: Node, like = node): void {
    const { dtype } = node.type as ValueType
    const isAnywhere = isSplat(node) || this.fragment(node).at !== undefined
    const layout = this.plans.layouts.of(isAnywhere ? like : node)
    const { count } = layout
    const text = isSplat(node) ? undefined : this.fragment(node).array
    if (text === array) return
    const at = (i: string): string => this.element(node, i, layout.place(i)).text
    if (!is16Bit(dtype)) return this.out.unrolled(count, `${array}[i] = ${at('i')};`, node.site)
    const pair = text ? `${text}[p]` : `pack_bits(${at('(2 * p)')}, ${oddOf(count, at('(2 * p + 1)'))})`
    this.out.unrolled(Math.ceil(count / 2), `${array}[p] = ${pair};`, node.site, 'p')
  }

  // What the kernel is made of besides its own text

  strong(access: StrongAccess, node: Node): string {
    const made = strongAccess(access)
    if (!made) return this.refuse(node, `${access.dtype} has no access with an order in CUDA`)
    this.functions.set(made.name, made.text)
    return made.name
  }

  tensorCopy(kind: 'load' | 'store', axes: number): string {
    const { name, text } = tensorCopy(kind, axes)
    this.functions.set(name, text)
    return name
  }

  /** The name of this launch's epoch of a flag set. */
  epoch(flags: string, side: 'signal' | 'wait'): string {
    const name = `${flags}_${side}_epoch`
    this.epochs.set(name, { flags, side })
    return name
  }

  /** The barrier of the executing thread's warpgroup. */
  warpgroupBarrier(): string {
    const first = this.plans.warpgroupBarriers.get(this.group)!
    return this.group.warps === 4 ? String(first) : `${first} + thread / 128`
  }

  waitSite(site: Site | undefined): number {
    const where = lineOf(site) ?? '(unknown line)'
    const known = this.waitSites.indexOf(where)
    return known >= 0 ? known + 1 : this.waitSites.push(where)
  }

  paramName(node: Node): string {
    return attribute<string>(node, 'name')
  }
}

/** The second half of a pair: of the last pair of an odd number there is none. */
export const oddOf = (count: number, text: string): string =>
  count % 2 === 0 ? text : `2 * p + 1 < ${count} ? ${text} : 0`

export function registers(dtype: ValueType['dtype'], count: number): [type: string, count: number] {
  return is16Bit(dtype) ? ['u32', Math.ceil(count / 2)] : [registerType(dtype), count]
}

function arrayText(array: string, dtype: ValueType['dtype'], layout: Layout): FragmentText {
  const element = (i: string): string => (is16Bit(dtype) ? `half_at(${array}, ${i})` : `${array}[${i}]`)
  return { layout, element, array }
}

/** Without the parentheses around the whole. */
export function bare(text: string): string {
  if (!text.startsWith('(') || !text.endsWith(')')) return text
  let depth = 0
  for (let i = 0; i < text.length - 1; i++) {
    if (text[i] === '(') depth++
    if (text[i] === ')' && --depth === 0) return text
  }
  return text.slice(1, -1)
}
