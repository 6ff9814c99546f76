/** Compiles loops to jumps: an instruction at the head of the loop tests whether the loop continues. */
import { ArithmeticError } from '../../ir/dtype.ts'
import { attribute, type Node } from '../../ir/node.ts'
import type { Compiler } from './compiler.ts'
import { canIterate, iterate } from './spins.ts'

export function compileFor(compiler: Compiler, node: Node): void {
  const [low, high, step, ...init] = node.inputs.map((input) => compiler.register(input))
  countTo(compiler, node, [low, high, step], init)
}

export function compileBoxes(compiler: Compiler, node: Node): void {
  const bounds = [0, attribute<number>(node, 'count'), 1].map((bound) => {
    const register = compiler.newRegister()
    compiler.push({ node, sync: false, run: (agent) => void (agent.registers[register] = bound) })
    return register
  })
  countTo(compiler, node, bounds, [])
}

/** Executes the block for each number from the lower to the upper bound. */
function countTo(
  compiler: Compiler,
  node: Node,
  [low, high, step]: readonly number[],
  init: readonly number[],
): void {
  const [body] = node.blocks
  const state = compiler.carry(node, 1, [body])
  const i = compiler.register(body.params[0])
  compiler.assign(node, [i, ...state], [low, ...init])
  const head = compiler.push({ node, sync: false, run: () => undefined })
  compiler.block(body)
  compiler.assign(
    node,
    state,
    body.results.map((result) => compiler.register(result)),
  )
  compiler.push({
    node,
    sync: false,
    run(agent) {
      const { registers } = agent
      registers[i] = (registers[i] as number) + (registers[step] as number)
      agent.pc = head
    },
  })
  const end = compiler.end
  compiler.patch(head, {
    node,
    sync: false,
    run(agent) {
      const { registers } = agent
      if ((registers[step] as number) <= 0)
        throw new ArithmeticError('the step of this loop is not positive, but a loop can only count up')
      if ((registers[i] as number) >= (registers[high] as number)) agent.pc = end
    },
  })
}

/**
 * Compiles a loop over an iteration space. One counter enumerates the iterations, and division yields the indices. If
 * `leading` is 2, the first two inputs of the node are the start and the step of the counter.
 */
export function compileSpace(compiler: Compiler, node: Node, leading: 0 | 2): void {
  const [body] = node.blocks
  const axes = attribute<number>(node, 'axes')
  const inputs = node.inputs.map((input) => compiler.register(input))
  const extents = inputs.slice(leading, leading + axes)
  const state = compiler.carry(node, axes, [body])
  const indices = body.params.slice(0, axes).map((param) => compiler.register(param))
  const counter = compiler.newRegister()
  compiler.assign(node, state, inputs.slice(leading + axes))
  const first = leading ? inputs[0] : undefined
  const stride = leading ? inputs[1] : undefined
  compiler.push({
    node,
    sync: false,
    run: (agent) => void (agent.registers[counter] = first === undefined ? 0 : agent.registers[first]),
  })
  const head = compiler.push({ node, sync: false, run: () => undefined })
  compiler.block(body)
  compiler.assign(
    node,
    state,
    body.results.map((result) => compiler.register(result)),
  )
  compiler.push({
    node,
    sync: false,
    run(agent) {
      const { registers } = agent
      registers[counter] =
        (registers[counter] as number) + (stride === undefined ? 1 : (registers[stride] as number))
      agent.pc = head
    },
  })
  const end = compiler.end
  compiler.patch(head, {
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

export function compileWhile(compiler: Compiler, node: Node): void {
  const [condition, body] = node.blocks
  const state = compiler.carry(node, 0, [condition, body])
  compiler.assign(
    node,
    state,
    node.inputs.map((input) => compiler.register(input)),
  )
  const loop = compiler.end
  compiler.push({ node, sync: false, run: (agent) => void agent.spins.delete(loop) })
  const head = compiler.push({
    node,
    sync: true,
    ready: (agent) => canIterate(agent, loop, state),
    run: (agent) => iterate(agent, loop, state),
    waiting(agent) {
      const places = [...(agent.spins.get(loop)?.spin.reads.keys() ?? [])].map((place) => place.describe())
      return `spins in a loop that no other agent can end${places.length > 0 ? `, on ${places.join(' and ')}` : ''}`
    },
  })
  compiler.block(condition)
  const test = compiler.push({ node, sync: false, run: () => undefined })
  compiler.block(body)
  compiler.assign(
    node,
    state,
    body.results.map((result) => compiler.register(result)),
  )
  compiler.jump(node, head)
  const end = compiler.end
  const holds = compiler.register(condition.results[0])
  compiler.patch(test, {
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
 * Repeats the block until every flag-in-data word that the block reads has arrived.
 */
export function compileUntil(compiler: Compiler, node: Node): void {
  const [body] = node.blocks
  const state = body.results.map(() => compiler.newRegister())
  compiler.setState(node, state)
  const missing = compiler.newRegister()
  const loop = compiler.end
  compiler.push({ node, sync: false, run: (agent) => void agent.spins.delete(loop) })
  const head = compiler.push({
    node,
    sync: true,
    ready: (agent) => canIterate(agent, loop, []),
    run(agent) {
      iterate(agent, loop, [])
      agent.registers[missing] = 0
    },
    waiting(agent) {
      const [place] = agent.spins.get(loop)?.spin.reads.keys() ?? []
      return `waits for flag-in-data words of this launch${place ? `, at ${place.describe()}` : ''}`
    },
  })
  compiler.blockThatTakes(body, missing)
  compiler.push({
    node,
    sync: false,
    run(agent) {
      if (agent.registers[missing]) return void (agent.pc = head)
      agent.spins.delete(loop)
      agent.stale.clear()
    },
  })
  compiler.assign(
    node,
    state,
    body.results.map((result) => compiler.register(result)),
  )
}
