/**
 * Folds constants in a kernel. Scalar arithmetic on known numbers is evaluated, neutral operations are removed, and
 * equal pure nodes of one scope are merged. A branch with a known condition is replaced by the branch that is taken.
 */
import { analysis } from '../analysis.ts'
import { attribute, type Attributes, type Block, type KernelIR, type Node } from '../node.ts'
import { opOf } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { ValueType } from '../type.ts'

const isScalar = (node: Node): boolean => node.type.kind === 'value' && node.type.shape.length === 0
/**
 * True if a value is a fragment. A role cannot use a fragment that was computed outside the role, so each role computes
 * the fragment itself.
 */
const isFragment = (node: Node): boolean => node.type.kind === 'value' && node.type.shape.length > 0
/**
 * Computes a text key for the attributes of a node. JSON cannot represent infinities, NaN and -0, so the attribute key
 * contains numbers as strings.
 */
const keyOf = (attributes: Attributes): string =>
  JSON.stringify(attributes, (_, value: unknown) =>
    typeof value === 'number' ? (Object.is(value, -0) ? '-0' : String(value)) : value,
  )
const known = (node: Node): number | undefined =>
  node.op === 'const' ? attribute<number>(node, 'value') : undefined

export const fold = analysis('folding', folded)

function folded(ir: KernelIR): KernelIR {
  /**
   * A table of pure nodes, indexed by the expression that they compute. An entry of the expression table is valid in
   * its own block and in the blocks inside it.
   */
  let available = new Map<string, Node>()
  const ids = new Map<Node, number>()
  const id = (node: Node): number => {
    let number = ids.get(node)
    if (number === undefined) ids.set(node, (number = ids.size))
    return number
  }

  const copier: Copier = new Copier((node) => {
    if (node.op === 'if') return foldIf(node, copier)
    if (node.op === 'result' && spliced.has(node.inputs[0]))
      return spliced.get(node.inputs[0])![attribute<number>(node, 'index')]
    if (node.blocks.length > 0) return copyControl(node)
    if (opOf(node).effect !== 'pure' || node.op === 'result') return undefined
    const inputs = node.inputs.map((input) => copier.get(input))
    if (isScalar(node)) {
      const simpler = simplify(node, inputs, copier)
      if (simpler) return simpler
    }
    const key = `${node.op}(${inputs.map(id).join()})${keyOf(node.attributes)}`
    const same = available.get(key)
    if (same) return same
    const made = copier.emit(node.op, inputs, node.attributes, [], node.site)
    available.set(key, made)
    return made
  })
  const spliced = new Map<Node, readonly Node[]>()

  function copyControl(node: Node): Node {
    const outer = available
    const blocks = node.blocks.map((block) => {
      available = new Map([...outer].filter(([, made]) => opOf(node).flow !== 'warps' || !isFragment(made)))
      return copier.copyBlock(block)
    })
    available = outer
    return copier.emit(
      node.op,
      node.inputs.map((input) => copier.get(input)),
      node.attributes,
      blocks,
      node.site,
    )
  }

  function foldIf(node: Node, into: Copier): Node | 'drop' {
    const condition = known(into.get(node.inputs[0]))
    if (condition === undefined) return copyControl(node)
    const taken: Block = node.blocks[condition ? 0 : 1]
    into.copyNodes(taken)
    spliced.set(
      node,
      taken.results.map((result) => into.get(result)),
    )
    return 'drop'
  }

  const body = copier.copyBlock(ir.body)
  return { ...ir, body }
}

/**
 * Returns a constant, or one of the inputs, that is equal to the node. The result is undefined if neither a constant
 * nor an input is equal to the node.
 */
function simplify(node: Node, inputs: readonly Node[], copier: Copier): Node | undefined {
  const record = opOf(node)
  const { dtype } = node.type as ValueType
  const values = inputs.map(known)
  if (inputs.length > 0 && record.evaluate && values.every((value) => value !== undefined)) {
    try {
      return copier.emit(
        'const',
        [],
        { dtype, value: record.evaluate(node, values) as number },
        [],
        node.site,
      )
    } catch {
      return undefined // A division by zero stays in the kernel, so that it is reported at the author's line.
    }
  }
  const simpler = record.simplify?.(dtype, values)
  if (!simpler) return undefined
  return 'input' in simpler
    ? inputs[simpler.input]
    : copier.emit('const', [], { dtype, value: simpler.value }, [], node.site)
}
