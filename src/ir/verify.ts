/**
 * The specification of the IR, which is verified after recording and after every pass.
 *
 * 1. A node's inputs are defined before the node, in its block or in an enclosing block.
 *
 * 2. A node's type is the type that its op infers from the inputs, attributes and blocks.
 *
 * 3. A `result` belongs to a control node, and each `param` belongs to exactly one block.
 *
 * 4. A role uses no fragment from outside the role, because registers belong to the warps that computed the fragment.
 *    Scalars are allowed, because all threads hold the same value.
 *
 * 5. An op `roles` is not nested in another op `roles`.
 *
 * 6. Shared tiles and barriers are declared at the top of the kernel, because they exist for the whole program.
 *
 * 7. A lowered kernel contains no `pipeline`.
 *
 * 8. `last` without an index is not in a loop, a branch or another `last`, because it counts one arrival per program.
 *
 * 9. An op that a compiler stage inserts occurs only after that stage.
 *
 * 10. `words.take` is inside `until`, and `once` is inside a loop, because each of these two ops is meant for repeated
 *     code.
 *
 * 11. If an op must be accompanied by another node (`Companion`), the kernel contains that node. For example, a `drain`
 *    needs an asynchronous store or copy in the same role.
 *
 * 12. All loops with clusters have clusters of the same shape.
 *
 * 13. In a loop whose iterations are divided among threads (`apart`), threads do not synchronise or exchange elements.
 *
 * 14. Threads that exchange elements (`exchange`) synchronise between the steps of the exchange.
 *
 * 15. The ops of the start of a program precede all others except declarations, and `start.ts` states which of them a
 *    kernel needs.
 */
import { analysis } from './analysis.ts'
import { clusterOf } from './clusters.ts'
import { expectExchange, isExchanged } from './exchange.ts'
import type { Block, KernelIR, Node } from './node.ts'
import { inferType, isLoop, isOfStart, isOfThreads, opOf, SpecError } from './ops/index.ts'
import { KernelError } from './site.ts'
import { expectStart } from './start.ts'
import { sameType, typeName } from './type.ts'

interface Place {
  readonly inRole: Block | undefined
  readonly inLoop: boolean
  /** True inside a branch and inside the block of `last`, which only some programs execute. */
  readonly isChosen: boolean
  readonly inUntil: boolean
  /** True inside a loop whose iterations are divided among the threads of a role. */
  readonly isApart: boolean
  readonly depth: number
}

/** The name of the stage of a kernel that has been recorded and has passed no other compiler stage. */
const RECORDED = 'recorded'

/** True if all threads of a role must execute the node together. */
const areTogether = (node: Node): boolean =>
  opOf(node).meets !== 'never' || isOfThreads(node) || isExchanged(node)

export const verify = analysis('verifier', expectValid)

function expectValid(ir: KernelIR): void {
  /** The nodes in scope, each with the context (such as the role) in which it is defined. */
  const home = new Map<Node, Place>()
  const placed = new Set<Node>()
  const removed = new Set(ir.removed)
  /** True once an op that is neither a declaration nor an op of the start has been visited. */
  let hasStarted = false
  /** All nodes, each with the role that executes it. */
  const roles = new Map<Node, Block | undefined>()
  const fail = (node: Node, problem: string): never => {
    throw new KernelError(`${ir.name}: ${node.op}: ${problem}`, node.site)
  }

  const visit = (block: Block, place: Place): void => {
    const defined: Node[] = []
    const define = (node: Node): void => {
      if (placed.has(node)) fail(node, 'is defined twice')
      placed.add(node)
      home.set(node, place)
      defined.push(node)
    }
    for (const param of block.params) {
      if (param.op !== 'param') fail(param, 'only a param can be in the parameter list of a block')
      define(param)
    }
    const expectOwn = (input: Node, user: Node | undefined): void => {
      const from = home.get(input)
      const uses = user ? 'uses' : 'yields'
      if (!from)
        return fail(user ?? input, `the op ${uses} ${input.op}, which is not defined before it in its scope`)
      const isFragment = input.type.kind === 'value' && input.type.shape.length > 0
      if (place.inRole && from.inRole !== place.inRole && isFragment)
        fail(
          user ?? input,
          `a role ${uses} the fragment made at ${input.site} outside it: pass it through shared memory, or compute it in the role`,
        )
    }
    for (const node of block.nodes) {
      for (const input of node.inputs) expectOwn(input, node)
      if (node.op === 'param') fail(node, 'a param must be in the parameter list of a block')
      if (node.op === 'result' && (!node.inputs[0] || opOf(node.inputs[0]).state === 'none'))
        fail(node, 'a result must refer to a node that yields values')
      roles.set(node, place.inRole)
      expectPlace(node, place)
      expectType(node)
      expectExchange(node)
      node.blocks.forEach((inner) =>
        visit(inner, {
          inRole: opOf(node).flow === 'warps' ? inner : place.inRole,
          inLoop: place.inLoop || isLoop(node),
          isChosen: place.isChosen || opOf(node).flow === 'branches' || opOf(node).place === 'on every path',
          inUntil: place.inUntil || node.op === 'until',
          isApart: place.isApart || node.attributes.apart === true,
          depth: place.depth + 1,
        }),
      )
      define(node)
    }
    for (const result of block.results) expectOwn(result, undefined)
    if (place.depth > 0) for (const node of defined) home.delete(node)
  }
  const expectPlace = (node: Node, place: Place): void => {
    const allowed = opOf(node).place
    if (allowed === 'outside roles' && place.inRole)
      fail(
        node,
        'this op must not be inside a role: roles cannot be nested, but one call of t.roles can define several roles',
      )
    if (allowed === 'on every path' && node.attributes.of === undefined && (place.inLoop || place.isChosen))
      fail(
        node,
        `the op counts one arrival per program, so it must not be in ${place.inLoop ? 'a loop' : 'a branch or another last'}: put it outside, or count arrivals per index with { at, of, arrivals }`,
      )
    if (allowed === 'inside loops' && !place.inLoop)
      fail(node, 'this op must be inside a loop, because it is meant for repeated code')
    if (allowed === 'inside until' && !place.inUntil)
      fail(
        node,
        'this op must be inside `until`, because otherwise a word that has not arrived would not be loaded again',
      )
    if (allowed === 'start' && (place.depth > 0 || hasStarted))
      fail(node, 'this op must be at the start of the kernel, where only declarations precede it')
    hasStarted ||= !isOfStart(node) && opOf(node).effect !== 'declare'
    if (place.isApart && areTogether(node))
      fail(
        node,
        'all threads of a role must execute this op together, but the loop around the op divides its iterations among threads',
      )
    if (allowed === 'top' && place.depth > 0)
      fail(node, 'this declaration must be at the top of the kernel, outside loops, branches and roles')
    if (removed.has(node.op)) fail(node, `is left in ${ir.stage} IR`)
    const { inserted } = opOf(node)
    if (inserted !== RECORDED && inserted !== ir.stage && !ir.passed?.includes(inserted))
      fail(
        node,
        `only the stage ${inserted} inserts this op, but the IR after the stage ${ir.stage} has not passed that stage`,
      )
  }

  const expectCompanion = (node: Node, others: readonly Node[], role: Block | undefined): void => {
    const { needs } = opOf(node)
    if (needs === 'nothing') return
    const found = others.some(
      (other) => needs.is(node, other) && (needs.where === 'kernel' || roles.get(other) === role),
    )
    if (!found) fail(node, `needs ${needs.what} in ${needs.where === 'role' ? 'its role' : 'the kernel'}`)
  }

  const expectType = (node: Node): void => {
    try {
      const type = inferType(node.op, node)
      if (!sameType(type, node.type))
        fail(node, `has type ${typeName(node.type)}, which should be ${typeName(type)}`)
    } catch (error) {
      if (error instanceof SpecError) fail(node, error.message)
      throw error
    }
  }

  visit(ir.body, {
    inRole: undefined,
    inLoop: false,
    isChosen: false,
    inUntil: false,
    isApart: false,
    depth: 0,
  })
  clusterOf(ir)
  const nodes = [...roles.keys()]
  for (const [node, role] of roles) expectCompanion(node, nodes, role)
  expectStart(ir, fail)
}
