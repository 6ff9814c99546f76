/**
 * Holds the state while one kernel is rendered: the decisions of `decide.ts`, the group whose code is being written,
 * and the C++ text of each IR node rendered so far. A renderer in `render/` uses only this state and the op that it
 * renders.
 */
import { exchangeOf, isExchanged, type ExchangeStep } from '../../../ir/exchange.ts'
import { attribute, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { isLoop, leadingInputs, opOf } from '../../../ir/ops/index.ts'
import { KernelError, type Site } from '../../../ir/site.ts'
import type { ValueType } from '../../../ir/type.ts'
import type { Declaration, MadeDeclaration } from '../declaration.ts'
import type { WgmmaShape } from '../prelude.ts'
import { isFragment, isSplat } from './assign.ts'
import { strongAccess, tensorCopy, type StrongAccess } from './accesses.ts'
import {
  bare,
  code,
  EVEN,
  integer,
  ODD,
  plus,
  REGISTER,
  Variable,
  word,
  type Code,
  type Part,
} from './code.ts'
import type { Group, RolesPlan } from './groups.ts'
import type { EarlyPlan } from './early.ts'
import type { Plans } from './hazards.ts'
import type { Layout } from './layout.ts'
import { lib } from './library.ts'
import type { LoopPlan } from './loops.ts'
import { Params } from './params.ts'
import type { Ranges } from './ranges.ts'
import type { EmittedAssertion } from '../../gpu/platform.ts'
import type { EmitFacts } from './recipe.ts'
import { Recorder, type RecordPlan } from './record.ts'
import { is16Bit, registerType, type Operand } from './spell.ts'
import type { Scratch } from './scratch.ts'
import { epochsAt, type Epoch, type StartPlan } from './start.ts'
import type { TileGroup } from './tileOrder.ts'
import type { Region, Tile } from './tiles.ts'
import type { Uses } from './uses.ts'
import { Names } from './names.ts'
import { Writer } from './writer.ts'

/** The C++ code with which a thread refers to the elements of a fragment. */
export interface FragmentText {
  readonly layout: Layout
  /** Returns the code of element `i` of the executing thread. A 16-bit element is rendered as its bits (u16). */
  element(i: Code): Code
  /**
   * The register array that holds the fragment, or undefined if no array does. Two 16-bit elements share one u32
   * register.
   */
  readonly array: Variable | undefined
  /**
   * Returns the code of the element at the given indices, one per axis. Only a fragment whose elements are computed
   * from their indices alone has this method.
   */
  at?(place: readonly Code[]): Code
}

/** The regions of shared memory, by the tile, barrier, group or node that uses each region. */
export interface SharedPlan {
  readonly tiles: ReadonlyMap<Node, Region>
  readonly barriers: ReadonlyMap<Node, Region>
  /** Staging buffers for TMA stores, with room for two boxes per warpgroup. */
  readonly staging: ReadonlyMap<Group, Region>
  /** Buffers in which the threads of a group exchange a value that one thread computed, or partial results. */
  readonly exchange: ReadonlyMap<Group, Region>
  readonly scratch: ReadonlyMap<Node, Scratch>
}

export interface EmissionPlans extends Plans {
  readonly ir: KernelIR
  readonly facts: EmitFacts
  readonly ranges: Ranges
  readonly uses: Uses
  readonly roles: RolesPlan
  readonly tiles: ReadonlyMap<Node, Tile>
  readonly shared: SharedPlan
  readonly loops: LoopPlan
  /** The plan for recording events, or undefined if the kernel does not record events. */
  readonly record: RecordPlan | undefined
  /** The role that need not wait for the previous kernel of the stream, or undefined if there is none. */
  readonly early: EarlyPlan | undefined
  /** The number of threads that arrive for one `barrier.arrive`: one per warp of the arriving group, or 1. */
  readonly arrivers: ReadonlyMap<Node, number>
  /** The id of the first of a group's warpgroup barriers. Each warpgroup of the group has its own thread barrier. */
  readonly warpgroupBarriers: ReadonlyMap<Group, number>
  /** For each `persistent` loop, the number of tile rows that its tile order groups together. */
  readonly tileGroup: TileGroup
  /** True if the program itself may have written the memory behind `ref` with ordinary stores. */
  readonly mayHaveWritten: (ref: Node) => boolean
  /** The number of the thread that advances the flag epochs for the next launch. */
  readonly clerk: number
  /** The epochs that programs read when they start, and the number that identifies each wait of the kernel. */
  readonly start: StartPlan
  /**
   * True if a loop of the kernel may poll memory for any length of time, so that the next launch must not start before
   * this launch has ended.
   */
  readonly isOpenEnded: boolean
  /** True if TMA executes at least one `copy.async`. */
  readonly usesCopyEngine: boolean
  /**
   * The shared tiles that threads load or store themselves, including the operands of matrix products that are not
   * computed with wgmma.
   */
  readonly touchedByThreads: ReadonlySet<Node>
}

/**
 * The maximum width, in columns, of an expression that is written inline. A wider expression becomes a variable, so
 * that lines stay readable.
 */
const WIDEST_OPERAND = 48

export class Emission {
  readonly plans: EmissionPlans
  readonly out = new Writer()
  readonly names = new Names()
  readonly params: Params
  readonly wgmma: WgmmaShape[] = []
  /** The device functions that were generated for this kernel. */
  readonly functions = new Map<string, Declaration>()
  readonly assertions: EmittedAssertion[] = []
  /** Writes the recording statements; undefined if the kernel does not record events. */
  readonly recorder: Recorder | undefined
  group: Group
  /** Declarations at the start of the group's code, for variables that keep their value between loop iterations. */
  remembered: Code[] = []
  /** The names of the variables that hold the addresses of shared tiles and mbarrier arrays. */
  readonly addresses = new Map<Node, string>()
  /** The variables that hold the results of control nodes. */
  readonly results = new Map<Node, readonly Variable[]>()
  /** The accumulators of matrix products that the matrix unit may still be writing. */
  readonly inFlight = new Set<Variable>()
  /** The accumulators that the compiler keeps in registers throughout a loop with products in flight. */
  readonly fenced = new Set<Variable>()
  /** The variables that hold the mbarrier addresses of held (postponed) arrivals. */
  readonly held = new Map<Node, string>()
  /** Inside an `until` block: the variable that is non-zero while flag-in-data words are missing. */
  missing: string | undefined
  /** Inside a `once` block, which skips repeated waits for a flag: the variable that holds the flag's address. */
  flagPointer: Code | undefined
  /** Inside a `boxes` block: the registers of the fragment that TMA stores. */
  stored: Variable | undefined
  /** The number of `goto` labels used so far. Labels must be unique within a C++ function. */
  labels = 0
  readonly #scalars = new Map<Node, Code>()
  readonly #variables = new Map<Node, Variable>()
  readonly #fragments = new Map<Node, FragmentText>()
  /** The epochs that the start of the program reads. */
  readonly #epochs: readonly Epoch[]
  readonly #renderBlock: (block: Block, emission: Emission) => void

  constructor(plans: EmissionPlans, renderBlock: (block: Block, emission: Emission) => void) {
    this.plans = plans
    this.params = new Params(plans.ir, this.names)
    this.group = plans.roles.whole
    this.recorder = plans.record && new Recorder(this, plans.record)
    this.#renderBlock = renderBlock
    this.#epochs = epochsAt(plans.ir.body.nodes.find(({ op }) => op === 'start.epochs'))
  }

  refuse(node: Node, problem: string): never {
    throw new KernelError(`${node.op}: ${problem}`, node.site)
  }

  // Code of blocks and groups

  block(block: Block): void {
    this.#renderBlock(block, this)
  }

  /**
   * Writes the code of a group of warps. The group gets a scope of names of its own, and a list of its variables that
   * keep their value between loop iterations.
   */
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

  /**
   * Declares a variable at the start of the group's code, so that it keeps its value between loop iterations. Returns
   * its name.
   */
  remember(base: string, declare: (name: string) => Code): string {
    // The name is not from `names`, because the variable outlives the current scope of names.
    const name = `${base}_${this.remembered.length + 1}`
    this.remembered.push(declare(name))
    return name
  }

  // Threads of the group

  get leader(): Code {
    return this.group.solo ? word('true') : code`thread == 0`
  }

  /** Writes a statement that one thread of the group executes. */
  byLeader(statement: Part, site?: Site): void {
    this.out.line(this.group.solo || this.isApart ? statement : code`if (thread == 0) ${statement}`, site)
  }

  /** Writes the body of a loop whose iterations are distributed over threads. The body contains no thread barriers. */
  apart(body: () => void): void {
    this.isApart = true
    body()
    this.isApart = false
  }
  isApart = false

  meet(site?: Site): void {
    const { barrier, threads } = this.group
    this.out.line(
      barrier === 0 ? '__syncthreads();' : code`${lib.group_barrier}(${barrier}, ${threads});`,
      site,
    )
  }

  /**
   * Writes the steps, stated in the IR, by which threads exchange the elements of a node. The step `meet` is a thread
   * barrier of the group; the functions in `steps` write the other steps.
   */
  exchange(node: Node, steps: Partial<Record<Exclude<ExchangeStep, 'meet'>, () => void>>): void {
    const stated = exchangeOf(node)
    if (stated.length === 0)
      throw new Error(`${node.op} at ${node.site} exchanges elements, and the IR has no exchange`)
    for (const step of stated) {
      if (step === 'meet') this.meet(node.site)
      else if (steps[step]) steps[step]()
      else throw new Error(`${node.op} at ${node.site}: its exchange has no step ${step}`)
    }
  }

  /** The text of the address of this group's exchange buffer in shared memory. */
  exchangeBuffer(): Code {
    return plus(word('shared'), integer(this.plans.shared.exchange.get(this.group)!.at))
  }

  /** The text of the address of a node's scratch region in shared memory. */
  scratch(node: Node): Code {
    return plus(word('shared'), integer(this.plans.scratch.get(node)!.at))
  }

  /**
   * Declares a variable in all threads of the group. One thread evaluates the expression and shares the value, unless the
   * group has only one thread.
   */
  fromLeader(node: Node, type: Part, name: Part, expression: Part): void {
    if (!isExchanged(node)) return this.out.line(code`const ${type} ${name} = ${expression};`, node.site)
    const at = this.exchangeBuffer()
    this.exchange(node, {
      write: () =>
        this.out.line(code`if (thread == 0) ${lib.shared_store}<${type}>(${at}, ${expression});`, node.site),
      read: () => this.out.line(code`const ${type} ${name} = ${lib.shared_load}<${type}>(${at});`),
    })
  }

  // Values

  scalar(node: Node): Code {
    const text = this.#scalars.get(node)
    if (text === undefined) throw new Error(`no code has been rendered for ${node.op} at ${node.site} yet`)
    return text
  }

  /**
   * Sets the C++ expression that stands for a scalar. The expression may mention variables that are assigned again
   * later.
   */
  setScalar(node: Node, text: Code): void {
    this.#scalars.set(node, text)
  }

  /** Makes a variable that holds nothing else stand for a scalar in the C++ text. */
  setVariable(node: Node, variable: Variable): void {
    this.#scalars.set(node, variable)
    this.#variables.set(node, variable)
  }

  /** Returns the variable that holds a value. A fragment without registers is first copied to a new register array. */
  variableOf(node: Node): Variable {
    const variable = isFragment(node) ? this.inArray(node) : this.#variables.get(node)
    if (!variable) throw new Error(`${node.op} at ${node.site} is not in a variable`)
    return variable
  }

  /** A new variable with a name that is not used yet. */
  variable(base: string): Variable {
    return new Variable(this.names.take(base))
  }

  /** True if the text of a scalar mentions one of the block parameters `params`. */
  mentions(node: Node, params: ReadonlySet<Node>): boolean {
    if (node.op === 'param' || this.#variables.has(node)) return params.has(node)
    return node.inputs.some((input) => this.mentions(input, params))
  }

  operand(node: Node): Operand {
    return { text: this.scalar(node), nonNegative: this.plans.ranges.isNonNegative(node) }
  }

  /**
   * Declares a variable for a scalar. An expression with a single use outside inner loops is written inline instead, if
   * the lines stay readable. Writing an expression inline only affects how the text looks.
   */
  defineScalar(node: Node, expression: Code, base: string): void {
    const { dtype } = node.type as ValueType
    const uses = this.plans.uses.count(node)
    if (uses === 0) return
    if (uses === 1 && expression.columns <= WIDEST_OPERAND && !this.#isUsedByLoop(node))
      return this.setScalar(node, expression)
    const name = this.variable(base)
    this.out.line(code`const ${registerType(dtype)} ${name} = ${bare(expression)};`, node.site)
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
    if (!known) throw new Error(`no code has been rendered for ${node.op} at ${node.site} yet`)
    return known
  }

  setFragment(node: Node, text: FragmentText): void {
    this.#fragments.set(node, text)
  }

  /**
   * Renders element `i` of a value of any shape. If the value is computed from indices alone, its element at the
   * indices `place` is rendered, so that the value need not have the layout of the other operands.
   */
  element(node: Node, i: Code, place?: readonly Code[]): Operand {
    if (!isFragment(node) || isSplat(node)) return this.operand(node)
    const isIndex = (node.type as ValueType).dtype === 'i32'
    const fragment = this.fragment(node)
    return {
      text: place && fragment.at ? fragment.at(place) : fragment.element(i),
      nonNegative: isIndex && this.plans.ranges.isNonNegative(node),
    }
  }

  /** Declares a register array for a fragment, uses it as the fragment's code, and returns it. */
  declareFragment(node: Node, base: string): Variable {
    const name = this.variable(base)
    const { dtype } = node.type as ValueType
    const layout = this.plans.layouts.of(node)
    const [type, count] = registers(dtype, layout.count)
    this.out.line(code`${type} ${name}[${count}];`, node.site)
    this.setFragment(node, arrayText(name, dtype, layout))
    return name
  }

  aliasFragment(node: Node, array: Variable): void {
    const { dtype } = node.type as ValueType
    this.setFragment(node, arrayText(array, dtype, this.plans.layouts.of(node)))
  }

  /**
   * Returns a register array with the fragment's elements. If no array holds the fragment, a new array is declared and
   * filled.
   */
  inArray(node: Node, base = 'fragment'): Variable {
    if (!isSplat(node)) {
      const { array } = this.fragment(node)
      if (array) return array
    }
    const name = this.variable(base)
    const { dtype } = node.type as ValueType
    const layout = this.plans.layouts.of(node)
    const [type, count] = registers(dtype, layout.count)
    this.out.line(code`${type} ${name}[${count}];`, node.site)
    this.fill(name, node)
    return name
  }

  /**
   * Copies the elements of a fragment to an array. A splat, or a value computed from indices alone, is written in the
   * layout of `like`. A fragment in registers keeps its own layout.
   */
  fill(array: Variable, node: Node, like = node): void {
    const { dtype } = node.type as ValueType
    const isAnywhere = isSplat(node) || this.fragment(node).at !== undefined
    const layout = this.plans.layouts.of(isAnywhere ? like : node)
    const { count } = layout
    const own = isSplat(node) ? undefined : this.fragment(node).array
    if (own === array) return
    const at = (i: Code): Code => this.element(node, i, layout.place(i)).text
    if (!is16Bit(dtype)) return this.out.unrolled(count, code`${array}[i] = ${at(REGISTER)};`, node.site)
    const pair = own ? code`${own}[p]` : code`${lib.pack_bits}(${at(EVEN)}, ${oddOf(count, at(ODD))})`
    this.out.unrolled(Math.ceil(count / 2), code`${array}[p] = ${pair};`, node.site, 'p')
  }

  // Device functions, epochs, barriers and wait sites

  strong(access: StrongAccess, node: Node): Code {
    const made = strongAccess(access)
    if (!made) return this.refuse(node, `CUDA has no access of ${access.dtype} elements with a memory order`)
    return this.#made(made)
  }

  tensorCopy(kind: 'load' | 'multicast' | 'store', axes: number): Code {
    return this.#made(tensorCopy(kind, axes))
  }

  #made(declaration: MadeDeclaration): Code {
    const { name } = declaration
    this.functions.set(name, declaration)
    return word(name, name)
  }

  /** The name of the variable with this launch's epoch of a flag set, which is declared at the start of the kernel. */
  epoch(flags: string, side: Epoch['side']): Code {
    if (!this.#epochs.some((one) => one.flags === flags && one.side === side))
      throw new Error(`${this.plans.ir.name} does not read the ${side} epoch of ${flags} at its start`)
    return word(`${flags}_${side}_epoch`)
  }

  /** The text of the thread barrier's id for the executing thread's warpgroup. */
  warpgroupBarrier(): Code {
    const first = this.plans.warpgroupBarriers.get(this.group)!
    return this.group.warps === 4 ? integer(first) : code`${first} + thread / 128`
  }

  /** Returns the number that a wait writes into its wait record if the launch is aborted. */
  waitSite(node: Node): number {
    const site = this.plans.start.waitSites.get(node)
    if (site === undefined) throw new Error(`${node.op} at ${node.site} has no number for its wait record`)
    return site
  }

  /** Returns the number of an assertion. Assertions are numbered from 1. */
  assertion(site: Site | undefined, message: string): number {
    return this.assertions.push({ site: site?.toString() ?? '(unknown line)', message })
  }

  paramName(node: Node): string {
    return attribute<string>(node, 'name')
  }
}

/**
 * The text of the second 16-bit element in register `p`, or 0 if the number of elements is odd and `p` is the last
 * register.
 */
export const oddOf = (count: number, text: Code): Code =>
  count % 2 === 0 ? text : code`2 * p + 1 < ${count} ? ${text} : 0`

export function registers(dtype: ValueType['dtype'], count: number): [type: Code, count: number] {
  return is16Bit(dtype) ? [word('u32'), Math.ceil(count / 2)] : [registerType(dtype), count]
}

function arrayText(array: Variable, dtype: ValueType['dtype'], layout: Layout): FragmentText {
  const element = (i: Code): Code =>
    is16Bit(dtype) ? code`${lib.half_at}(${array}, ${i})` : code`${array}[${i}]`
  return { layout, element, array }
}
