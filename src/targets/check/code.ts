/**
 * Compiles IR into executable instructions. Blocks become one list of instructions with jumps, and values are stored
 * in numbered registers. An instruction with `sync` is a scheduling point: the machine runs an agent from one
 * scheduling point to the next.
 */
import { analysis } from '../../ir/analysis.ts'
import { ArithmeticError } from '../../ir/dtype.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../ir/node.ts'
import { arrivesAt, entryOf, mayWait, opOf, type ControlName, type OpName } from '../../ir/ops/index.ts'
import { usesOf, type Uses } from '../../world/uses.ts'
import type { Agent } from './agent.ts'
import type { FlagSet, FlagView } from './flags.ts'
import type { Machine } from './machine.ts'
import { makers } from './ops.ts'

export interface Instruction {
  readonly node: Node
  /** True for a scheduling point: other agents may run before this instruction. */
  readonly sync: boolean
  /** True if the instruction can run now. A scheduling point without `ready` can always run. */
  readonly ready?: (agent: Agent, machine: Machine) => boolean
  readonly run: (agent: Agent, machine: Machine) => void
  /**
   * True if the instruction commutes with everything that other agents do. A search then need not try both orders.
   */
  readonly commutes?: (agent: Agent, machine: Machine) => boolean
  /** Describes what a blocked agent is waiting for. */
  readonly waiting?: (agent: Agent, machine: Machine) => string
  /** The flag set that it waits for, if it does. */
  readonly awaited?: (agent: Agent) => FlagSet
}

/** Facts about a node that follow from the rest of the kernel. */
export interface Surroundings {
  /** True if another node uses the node's result. */
  readonly isUsed: boolean
  /** For an arrival: true if several roles arrive at the same barriers. */
  readonly isContended: boolean
  /**
   * For `words.take`: the register that the surrounding `until` tests. The take sets this register to 1 if a word of
   * the current epoch has not arrived.
   */
  readonly missing: number | undefined
}

/** Makes the instruction for a node, given the register of its result and the registers of its inputs. */
export type Maker = (node: Node, out: number, inputs: readonly number[], around: Surroundings) => Instruction

/** Ops that do not become an instruction of their own: control flow, parameters, and results of control flow. */
export type Structural = ControlName | 'param' | 'result'

export interface Code extends Uses {
  readonly ir: KernelIR
  readonly instructions: readonly Instruction[]
  readonly registers: number
  readonly params: readonly { readonly register: number; readonly name: string }[]
  /** A node that requires other programs to run at the same time, if there is one. */
  readonly needsResidency: Node | undefined
}

export const always = (): boolean => true

const cache = new WeakMap<KernelIR, Code>()

export const compile = analysis('code of the checker', compiled)

function compiled(ir: KernelIR): Code {
  let code = cache.get(ir)
  if (!code) cache.set(ir, (code = new Compiler(ir).code()))
  return code
}

export class Compiler {
  readonly #ir: KernelIR
  readonly #instructions: Instruction[] = []
  readonly #registers = new Map<Node, number>()
  /** The registers that hold the loop-carried state of a control node. */
  readonly #state = new Map<Node, readonly number[]>()
  readonly #used: ReadonlySet<Node>
  /** For each declaration of barriers, the roles that arrive at them. */
  readonly #arrivers = new Map<Node, Set<Block>>()
  #next = 0
  #missing: number | undefined

  constructor(ir: KernelIR) {
    this.#ir = ir
    for (const roles of walk(ir.body))
      if (opOf(roles).flow === 'warps')
        for (const role of roles.blocks)
          for (const node of walk(role)) {
            const base = arrivesAt(node)
            if (!base) continue
            this.#arrivers.set(base, (this.#arrivers.get(base) ?? new Set<Block>()).add(role))
          }
    this.#used = new Set(
      [...walk(ir.body)].flatMap(({ inputs, blocks }) => [
        ...inputs,
        ...blocks.flatMap(({ results }) => results),
      ]),
    )
  }

  code(): Code {
    const { body } = this.#ir
    const params = body.params.map((param) => ({
      register: this.register(param),
      name: attribute<string>(param, 'name'),
    }))
    this.#block(body)
    const end = body.nodes[body.nodes.length - 1] ?? body.params[0]
    this.#push({ node: end, sync: false, run: (agent, machine) => machine.endProgram(agent) })
    return {
      ir: this.#ir,
      instructions: this.#instructions,
      registers: this.#next,
      params,
      ...usesOf(this.#ir),
      needsResidency: [...walk(body)].find(mayWait),
    }
  }

  #around(node: Node): Surroundings {
    const isContended = (this.#arrivers.get(arrivesAt(node) ?? node)?.size ?? 0) > 1
    return { isUsed: this.#used.has(node), isContended, missing: this.#missing }
  }

  register(node: Node): number {
    let register = this.#registers.get(node)
    if (register === undefined) this.#registers.set(node, (register = this.#next++))
    return register
  }

  #push(instruction: Instruction): number {
    return this.#instructions.push(instruction) - 1
  }

  #patch(at: number, instruction: Instruction): void {
    this.#instructions[at] = instruction
  }

  #jump(node: Node, to: number): void {
    this.#push({ node, sync: false, run: (agent) => void (agent.pc = to) })
  }

  #block(block: Block): void {
    for (const node of block.nodes) this.#node(node)
  }

  #node(node: Node): void {
    const structure = (this.#structure as Partial<Record<OpName, (node: Node) => void>>)[node.op]
    if (structure) return structure(node)
    const out = this.register(node)
    const inputs = node.inputs.map((input) => this.register(input))
    this.#push(entryOf(makers, node)(node, out, inputs, this.#around(node)))
  }

  readonly #structure: Readonly<Record<Structural, (node: Node) => void>> = {
    for: (node) => this.#for(node),
    persistent: (node) => this.#space(node, 2),
    pipeline: (node) => this.#space(node, 0),
    while: (node) => this.#while(node),
    if: (node) => this.#if(node),
    roles: (node) => this.#roles(node),
    teams: (node) => this.#teams(node),
    last: (node) => this.#last(node),
    until: (node) => this.#until(node),
    once: (node) => this.#once(node),
    boxes: (node) => this.#boxes(node),
    param: (node) => {
      throw new Error(`${node.op} is only allowed in a block's list of params`)
    },
    result: (node) => {
      const from = this.#state.get(node.inputs[0])![attribute<number>(node, 'index')]
      const to = this.register(node)
      this.#push({ node, sync: false, run: (agent) => void (agent.registers[to] = agent.registers[from]) })
    },
  }

  /**
   * Allocates registers for the carried state of a control node. The params of each block from `leading` on are these
   * registers.
   */
  #carry(node: Node, leading: number, blocks: readonly Block[]): readonly number[] {
    const count = blocks[0].params.length - leading
    const state = Array.from({ length: count }, () => this.#next++)
    for (const block of blocks)
      block.params.slice(leading).forEach((param, i) => this.#registers.set(param, state[i]))
    this.#state.set(node, state)
    return state
  }

  /** Assigns several registers at once. */
  #assign(node: Node, to: readonly number[], from: readonly number[]): void {
    if (to.length === 0) return
    if (to.length === 1)
      this.#push({
        node,
        sync: false,
        run: (agent) => void (agent.registers[to[0]] = agent.registers[from[0]]),
      })
    else
      this.#push({
        node,
        sync: false,
        run(agent) {
          const values = from.map((register) => agent.registers[register])
          to.forEach((register, i) => (agent.registers[register] = values[i]))
        },
      })
  }

  #for(node: Node): void {
    const [low, high, step, ...init] = node.inputs.map((input) => this.register(input))
    this.#count(node, [low, high, step], init)
  }

  #boxes(node: Node): void {
    const bounds = [0, attribute<number>(node, 'count'), 1].map((bound) => {
      const register = this.#next++
      this.#push({ node, sync: false, run: (agent) => void (agent.registers[register] = bound) })
      return register
    })
    this.#count(node, bounds, [])
  }

  /** Executes the block for each number from low to high. */
  #count(node: Node, [low, high, step]: readonly number[], init: readonly number[]): void {
    const [body] = node.blocks
    const state = this.#carry(node, 1, [body])
    const i = this.register(body.params[0])
    this.#assign(node, [i, ...state], [low, ...init])
    const head = this.#push({ node, sync: false, run: () => undefined })
    this.#block(body)
    this.#assign(
      node,
      state,
      body.results.map((result) => this.register(result)),
    )
    this.#push({
      node,
      sync: false,
      run(agent) {
        const { registers } = agent
        registers[i] = (registers[i] as number) + (registers[step] as number)
        agent.pc = head
      },
    })
    const end = this.#instructions.length
    this.#patch(head, {
      node,
      sync: false,
      run(agent) {
        const { registers } = agent
        if ((registers[step] as number) <= 0)
          throw new ArithmeticError('a loop must step up: its step is not positive')
        if ((registers[i] as number) >= (registers[high] as number)) agent.pc = end
      },
    })
  }

  /**
   * Loops over an iteration space with one flat counter and computes the indices by division. With `leading` 2, the
   * first two inputs are the start and the step of the counter.
   */
  #space(node: Node, leading: 0 | 2): void {
    const [body] = node.blocks
    const axes = attribute<number>(node, 'axes')
    const inputs = node.inputs.map((input) => this.register(input))
    const extents = inputs.slice(leading, leading + axes)
    const state = this.#carry(node, axes, [body])
    const indices = body.params.slice(0, axes).map((param) => this.register(param))
    const counter = this.#next++
    this.#assign(node, state, inputs.slice(leading + axes))
    const first = leading ? inputs[0] : undefined
    const stride = leading ? inputs[1] : undefined
    this.#push({
      node,
      sync: false,
      run: (agent) => void (agent.registers[counter] = first === undefined ? 0 : agent.registers[first]),
    })
    const head = this.#push({ node, sync: false, run: () => undefined })
    this.#block(body)
    this.#assign(
      node,
      state,
      body.results.map((result) => this.register(result)),
    )
    this.#push({
      node,
      sync: false,
      run(agent) {
        const { registers } = agent
        registers[counter] =
          (registers[counter] as number) + (stride === undefined ? 1 : (registers[stride] as number))
        agent.pc = head
      },
    })
    const end = this.#instructions.length
    this.#patch(head, {
      node,
      sync: false,
      run(agent) {
        const { registers } = agent
        let rest = registers[counter] as number
        let total = 1
        for (const extent of extents) total *= Math.max(registers[extent] as number, 0)
        if (rest >= total) {
          agent.pc = end
          return
        }
        for (let axis = axes - 1; axis >= 0; axis--) {
          const extent = registers[extents[axis]] as number
          registers[indices[axis]] = rest % extent
          rest = Math.floor(rest / extent)
        }
      },
    })
  }

  #while(node: Node): void {
    const [condition, body] = node.blocks
    const state = this.#carry(node, 0, [condition, body])
    this.#assign(
      node,
      state,
      node.inputs.map((input) => this.register(input)),
    )
    const loop = this.#instructions.length
    this.#push({ node, sync: false, run: (agent) => void agent.spins.delete(loop) })
    const head = this.#push({
      node,
      sync: true,
      ready: (agent, machine) => machine.canIterate(agent, loop, state),
      run: (agent, machine) => machine.iterate(agent, loop, state),
      waiting(agent) {
        const places = [...(agent.spins.get(loop)?.spin.reads.keys() ?? [])].map((place) => place.describe())
        return `spins in a loop that no other agent can end${places.length > 0 ? `, on ${places.join(' and ')}` : ''}`
      },
    })
    this.#block(condition)
    const test = this.#push({ node, sync: false, run: () => undefined })
    this.#block(body)
    this.#assign(
      node,
      state,
      body.results.map((result) => this.register(result)),
    )
    this.#jump(node, head)
    const end = this.#instructions.length
    const holds = this.register(condition.results[0])
    this.#patch(test, {
      node,
      sync: false,
      run(agent) {
        if (agent.registers[holds]) return
        agent.spins.delete(loop)
        agent.stale.clear()
        agent.pc = end
      },
    })
  }

  /**
   * Repeats the block while any flag-in-data word that it takes is missing, like a loop that polls a word until it
   * changes.
   */
  #until(node: Node): void {
    const [body] = node.blocks
    const state = body.results.map(() => this.#next++)
    this.#state.set(node, state)
    const missing = this.#next++
    const loop = this.#instructions.length
    this.#push({ node, sync: false, run: (agent) => void agent.spins.delete(loop) })
    const head = this.#push({
      node,
      sync: true,
      ready: (agent, machine) => machine.canIterate(agent, loop, []),
      run(agent, machine) {
        machine.iterate(agent, loop, [])
        agent.registers[missing] = 0
      },
      waiting(agent) {
        const [place] = agent.spins.get(loop)?.spin.reads.keys() ?? []
        return `waits for flag-in-data words of this launch${place ? `, at ${place.describe()}` : ''}`
      },
    })
    this.#missing = missing
    this.#block(body)
    this.#missing = undefined
    this.#push({
      node,
      sync: false,
      run(agent) {
        if (agent.registers[missing]) return void (agent.pc = head)
        agent.spins.delete(loop)
        agent.stale.clear()
      },
    })
    this.#assign(
      node,
      state,
      body.results.map((result) => this.register(result)),
    )
  }

  /** Skips the block if this agent has already waited for the block's flag. */
  #once(node: Node): void {
    const [body] = node.blocks
    const flag = this.register(body.nodes.find(({ op }) => op === 'wait')!.inputs[0])
    const isSet = attribute<string>(node, 'remembers') === 'set'
    const test = this.#push({ node, sync: false, run: () => undefined })
    this.#block(body)
    const end = this.#instructions.length
    this.#patch(test, {
      node,
      sync: false,
      run(agent) {
        const { rank, index, wrong } = agent.registers[flag] as FlagView
        if (wrong || (isSet && index >= 32)) return
        let awaited = agent.awaited.get(node)
        if (!awaited) agent.awaited.set(node, (awaited = new Set()))
        const key = `${rank}.${index}`
        if (awaited.has(key)) return void (agent.pc = end)
        if (!isSet) awaited.clear()
        awaited.add(key)
      },
    })
  }

  #if(node: Node): void {
    const [yes, no] = node.blocks
    const state = yes.results.map(() => this.#next++)
    this.#state.set(node, state)
    const condition = this.register(node.inputs[0])
    const test = this.#push({ node, sync: false, run: () => undefined })
    this.#block(yes)
    this.#assign(
      node,
      state,
      yes.results.map((result) => this.register(result)),
    )
    const skip = this.#push({ node, sync: false, run: () => undefined })
    const otherwise = this.#instructions.length
    this.#block(no)
    this.#assign(
      node,
      state,
      no.results.map((result) => this.register(result)),
    )
    const end = this.#instructions.length
    this.#patch(test, {
      node,
      sync: false,
      run: (agent) => void (agent.registers[condition] || (agent.pc = otherwise)),
    })
    this.#patch(skip, { node, sync: false, run: (agent) => void (agent.pc = end) })
  }

  #roles(node: Node): void {
    const names = attribute<readonly string[]>(node, 'names')
    const fork = this.#push({ node, sync: false, run: () => undefined })
    const starts = node.blocks.map((block) => {
      const start = this.#instructions.length
      this.#block(block)
      this.#push({ node, sync: false, run: (agent, machine) => machine.endRole(agent) })
      return start
    })
    const join = this.#push({
      node,
      sync: true,
      ready: (agent) => agent.children === 0,
      run: (agent, machine) => machine.joinRoles(agent),
      commutes: always,
      waiting: () => 'waits for its roles to end',
    })
    this.#patch(fork, {
      node,
      sync: false,
      run(agent, machine) {
        agent.pc = join
        machine.startRoles(agent, names, starts)
      },
    })
  }

  #teams(node: Node): void {
    const names = attribute<readonly string[]>(node, 'names')
    const inputs = node.inputs.map((input) => this.register(input))
    const choose = this.#push({ node, sync: false, run: () => undefined })
    const starts: number[] = []
    const exits: number[] = []
    for (const block of node.blocks) {
      starts.push(this.#instructions.length)
      this.#block(block)
      exits.push(this.#push({ node, sync: false, run: () => undefined }))
    }
    const end = this.#instructions.length
    for (const exit of exits) this.#patch(exit, { node, sync: false, run: (agent) => void (agent.pc = end) })
    const params = node.blocks.map((block) => block.params.map((param) => this.register(param)))
    this.#patch(choose, {
      node,
      sync: false,
      run(agent) {
        const { registers } = agent
        let number = registers[inputs[0]] as number
        for (let team = 0; team < starts.length; team++) {
          const size = registers[inputs[team + 1]] as number
          if (number < size) {
            registers[params[team][0]] = number
            registers[params[team][1]] = size
            agent.record.team = names[team]
            agent.pc = starts[team]
            return
          }
          number -= size
        }
        agent.pc = end
      },
    })
  }

  #last(node: Node): void {
    const gate = this.#push({ node, sync: true, run: () => undefined })
    this.#block(node.blocks[0])
    const end = this.#instructions.length
    const [arrivals, index] = node.inputs.map((input) => this.register(input)) as [number, number?]
    this.#patch(gate, {
      node,
      sync: true,
      run(agent, machine) {
        const { registers } = agent
        const at = index === undefined ? 0 : (registers[index] as number)
        if (!machine.arriveLast(agent, node, registers[arrivals] as number, at)) agent.pc = end
      },
    })
  }
}
