/**
 * Compiles IR to the code of the checker: assigns registers, appends instructions, and passes each control node to its
 * function in loops.ts or branches.ts.
 */
import { analysis } from '../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../ir/node.ts'
import { arrivesAt, entryOf, mayWait, opOf, type OpName } from '../../ir/ops/index.ts'
import { hasStart } from '../../ir/start.ts'
import { usesOf } from '../../world/uses.ts'
import { compileIf, compileLast, compileOnce, compileRoles, compileTeams } from './branches.ts'
import type { Code, Instruction, Structural, Surroundings } from './code.ts'
import { compileBoxes, compileFor, compileSpace, compileUntil, compileWhile } from './loops.ts'
import { makers } from './ops.ts'

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
  /** The registers that hold the loop-carried state of a control node in the compiled code. */
  readonly #state = new Map<Node, readonly number[]>()
  readonly #used: ReadonlySet<Node>
  /** The roles that arrive at the barriers of each barrier declaration. */
  readonly #arrivers = new Map<Node, Set<Block>>()
  /** True if the kernel has been through the compiler stage that inserts the ops at the start of a program. */
  readonly #startsExplicitly: boolean
  #next = 0
  #missing: number | undefined

  constructor(ir: KernelIR) {
    this.#ir = ir
    this.#startsExplicitly = hasStart(ir)
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
    this.block(body)
    const end = body.nodes[body.nodes.length - 1] ?? body.params[0]
    this.push({ node: end, sync: false, run: (agent, machine) => machine.endProgram(agent) })
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
    const startsExplicitly = this.#startsExplicitly
    return { isUsed: this.#used.has(node), isContended, startsExplicitly, missing: this.#missing }
  }

  /** The number of the instruction that is compiled next. */
  get end(): number {
    return this.#instructions.length
  }

  newRegister(): number {
    return this.#next++
  }

  /** The register of the node's result. */
  register(node: Node): number {
    let register = this.#registers.get(node)
    if (register === undefined) this.#registers.set(node, (register = this.newRegister()))
    return register
  }

  /** Appends an instruction and returns its number. */
  push(instruction: Instruction): number {
    return this.#instructions.push(instruction) - 1
  }

  /** Replaces an instruction, once the code after it is compiled and its jump target is known. */
  patch(at: number, instruction: Instruction): void {
    this.#instructions[at] = instruction
  }

  jump(node: Node, to: number): void {
    this.push({ node, sync: false, run: (agent) => void (agent.pc = to) })
  }

  block(block: Block): void {
    for (const node of block.nodes) this.#node(node)
  }

  /** Compiles the block of an `until` loop, whose `words.take` ops set the register `missing`. */
  blockThatTakes(block: Block, missing: number): void {
    this.#missing = missing
    this.block(block)
    this.#missing = undefined
  }

  #node(node: Node): void {
    const structure = (this.#structure as Partial<Record<OpName, (node: Node) => void>>)[node.op]
    if (structure) return structure(node)
    const out = this.register(node)
    const inputs = node.inputs.map((input) => this.register(input))
    this.push(entryOf(makers, node)(node, out, inputs, this.#around(node)))
  }

  readonly #structure: Readonly<Record<Structural, (node: Node) => void>> = {
    for: (node) => compileFor(this, node),
    persistent: (node) => compileSpace(this, node, 2),
    pipeline: (node) => compileSpace(this, node, 0),
    while: (node) => compileWhile(this, node),
    if: (node) => compileIf(this, node),
    roles: (node) => compileRoles(this, node),
    teams: (node) => compileTeams(this, node),
    last: (node) => compileLast(this, node),
    until: (node) => compileUntil(this, node),
    once: (node) => compileOnce(this, node),
    boxes: (node) => compileBoxes(this, node),
    param: (node) => {
      throw new Error(`${node.op} is only allowed in a block's list of params`)
    },
    result: (node) => {
      const from = this.#state.get(node.inputs[0])![attribute<number>(node, 'index')]
      const to = this.register(node)
      this.push({ node, sync: false, run: (agent) => void (agent.registers[to] = agent.registers[from]) })
    },
  }

  /**
   * Allocates registers for the carried state of a control node. The parameters of each block, from index `leading` on,
   * are stored in the registers of the carried state.
   */
  carry(node: Node, leading: number, blocks: readonly Block[]): readonly number[] {
    const count = blocks[0].params.length - leading
    const state = Array.from({ length: count }, () => this.newRegister())
    for (const block of blocks)
      block.params.slice(leading).forEach((param, i) => this.#registers.set(param, state[i]))
    this.setState(node, state)
    return state
  }

  /** Sets the registers that hold the results of a control node. */
  setState(node: Node, state: readonly number[]): void {
    this.#state.set(node, state)
  }

  /** Assigns values to several registers at once. */
  assign(node: Node, to: readonly number[], from: readonly number[]): void {
    if (to.length === 0) return
    if (to.length === 1)
      this.push({
        node,
        sync: false,
        run: (agent) => void (agent.registers[to[0]] = agent.registers[from[0]]),
      })
    else
      this.push({
        node,
        sync: false,
        run(agent) {
          const values = from.map((register) => agent.registers[register])
          to.forEach((register, i) => (agent.registers[register] = values[i]))
        },
      })
  }
}
