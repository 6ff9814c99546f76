/**
 * Compiles strong accesses, which have a memory order and a scope, to instructions of the checking machine: every lane
 * is one atomic access.
 */
import { round } from '../../ir/dtype.ts'
import type { Node } from '../../ir/node.ts'
import { atomicOf, opOf, type Order, type Scope } from '../../ir/ops/index.ts'
import type { RefType } from '../../ir/type.ts'
import { accessOf, OUTSIDE, type Places } from './access.ts'
import type { Agent } from './agent.ts'
import type { Instruction, Maker } from './code.ts'
import { checkWrites } from './lanes.ts'
import type { Machine } from './machine.ts'
import { element, optional, taking } from './places.ts'
import type { StrongAccess } from './strong.ts'

/** True if the node refers to a single element. The data of a single element is a number, not an array. */
export const isScalar = (node: Node): boolean => (node.type as RefType).shape.length === 0

/** The register with the mask of an op's first memory access; the op's record states which input is the mask. */
const maskOf = (node: Node, inputs: readonly number[]): number | undefined =>
  inputs[opOf(node).accesses[0].mask!]

/** The functions and registers that distinguish one op with strong accesses from another. */
interface StrongOp {
  /** Performs the access of one element and returns its result. */
  readonly act: (access: StrongAccess, agent: Agent, machine: Machine, i: number) => number
  readonly verb: 'reads' | 'writes'
  /** True if other agents can observe the order in which the lanes act. */
  readonly orderTells: boolean
  /** The register with the values to store. Two lanes that store to one element must store the same value. */
  readonly stored?: number
  /** The register with the result for masked-out elements, or undefined if their result is zero. */
  readonly other?: number
}

/**
 * Builds the instruction of a strong access. A strong access commutes with the steps of all other agents as long as no
 * other agent shares its elements.
 */
export function strongAccess(
  node: Node,
  out: number,
  inputs: readonly number[],
  { act, verb, orderTells, stored, other }: StrongOp,
): Instruction {
  const [first] = inputs
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  const scalar = isScalar(node.inputs[0])
  const mask = maskOf(node, inputs)
  return {
    node,
    sync: true,
    run(agent, machine) {
      const places = agent.registers[first] as Places
      const lanes = optional(agent, mask)
      const masked = optional(agent, other)
      const data = new Float64Array(places.index.length)
      if (orderTells && doLanesMeet(machine, places, lanes)) machine.cuts.add('lanes')
      if (stored !== undefined && places.mayRepeat)
        checkWrites(
          machine.memory,
          accessOf(agent, node),
          places,
          (i) => taking(lanes, i),
          (i) => element(agent.registers[stored], i),
        )
      const { buffer } = places
      places.index.forEach((at, i) => {
        if (!taking(lanes, i)) data[i] = masked === undefined ? 0 : element(masked, i)
        else if (at >= 0) data[i] = act({ agent, node, buffer, i: at, order, scope }, agent, machine, i)
        else if (at === OUTSIDE) machine.memory.outside(accessOf(agent, node), places, verb)
      })
      agent.registers[out] = scalar ? data[0] : data
    },
    commutes(agent, machine) {
      const { buffer, index } = agent.registers[first] as Places
      return index.every((at) => at < 0 || !machine.strong.isShared(buffer, at))
    },
  }
}

/**
 * Builds the instruction of an atomic read-modify-write. Additions commute unless the kernel uses their results. Atomic
 * exchanges do not commute, because the last exchange determines the value of the element.
 */
export const atomic: Maker = (node, out, inputs, { isUsed }) => {
  const { dtype } = node.inputs[0].type as RefType
  const { commutes, change } = atomicOf(node)
  const changed = change((x) => round(dtype, x))
  const [value, desired] = opOf(node).accesses[0].values!.map((at) => inputs[at])
  return strongAccess(node, out, inputs, {
    verb: 'writes',
    orderTells: isUsed || !commutes,
    act(access, { registers }, { strong }, i) {
      const x = element(registers[value], i)
      const y = desired === undefined ? 0 : element(registers[desired], i)
      return strong.modify(access, (old) => changed(old, x, y))
    },
  })
}

/**
 * True if the order of the lanes is observable: two lanes access the same element, or several lanes access elements
 * shared with other agents. The lanes act in any order, interleaved with the accesses of other agents.
 */
function doLanesMeet({ strong }: Machine, { buffer, index }: Places, mask: unknown): boolean {
  const taken = [...index].filter((at, i) => at >= 0 && taking(mask, i))
  if (new Set(taken).size < taken.length) return true
  return taken.filter((at) => strong.isShared(buffer, at)).length > 1
}
