/**
 * Produces performance notes for the author of a kernel: matrix products that do not use the matrix unit, and fragments
 * that do not fit in registers. The notes and the emitted text are computed from the same decisions, so they agree. The
 * notes do not affect the code.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { walk, type KernelIR, type Node } from '../../../ir/node.ts'
import type { ValueType } from '../../../ir/type.ts'
import { hasNoRegisters, isFragment, isIndexed, isSplat, type Layouts } from './assign.ts'
import { registersOf, type Group, type RolesPlan } from './groups.ts'
import { obstacleOf, type Product } from './products.ts'
import { ARCHITECTURE, type EmitNote } from './recipe.ts'
import { is16Bit } from './spell.ts'

interface NotePlans {
  readonly ir: KernelIR
  readonly roles: RolesPlan
  readonly layouts: Layouts
  readonly products: ReadonlyMap<Node, Product>
  readonly groupOf: ReadonlyMap<Node, Group>
}

/** Returns the performance notes of a kernel in program order. Equal notes for the same source position appear once. */
export function notesOf(plans: NotePlans): readonly EmitNote[] {
  const notes = new Map<string, EmitNote>()
  for (const { message, node } of [...scalarProducts(plans), ...spilling(plans)]) {
    const note = { message, at: node.site?.position && String(node.site) }
    notes.set(JSON.stringify(note), note)
  }
  return [...notes.values()]
}

export const noteText = ({ at, message }: EmitNote): string => (at ? `${at}: ${message}` : message)

interface Noted {
  readonly message: string
  readonly node: Node
}

function* scalarProducts({ products }: NotePlans): Generator<Noted> {
  for (const [node, product] of products) {
    const obstacle = product === 'elements' && obstacleOf(node)
    if (!obstacle) continue
    const { dtype, shape } = node.inputs[0].type as ValueType
    const [rows, columns] = (node.type as ValueType).shape
    const extents = obstacle.isDType ? '' : `${rows}x${columns}x${shape[1]} `
    const message =
      `this ${extents}product of ${dtype} values does not use the matrix unit on ${ARCHITECTURE}, ${obstacle.why}; ` +
      `it becomes scalar multiply-adds. ${obstacle.advice}`
    yield { message, node }
  }
}

/**
 * The number of registers that a thread needs for addresses and loop counters, in addition to a fragment. The value 24
 * was measured with ptxas 13.0 on a minimal kernel in which a thread has 255 registers: a fragment of 224 values per
 * thread fits, and a fragment of 232 values, which leaves 23 registers, spills.
 */
const BESIDE = 24

/**
 * Yields a note for each fragment that leaves a thread fewer than `BESIDE` registers for addresses and loop counters.
 * Equal messages appear once.
 */
function* spilling({ ir, roles, layouts, groupOf }: NotePlans): Generator<Noted> {
  const seen = new Set<string>()
  for (const node of walk(ir.body)) {
    if (!isHeld(node)) continue
    const { dtype, shape } = node.type as ValueType
    const { count } = layouts.of(node)
    const registers = is16Bit(dtype) ? Math.ceil(count / 2) : count * Math.ceil(dtypes[dtype].bytes / 4)
    const limit = registersOf(groupOf.get(node)!, roles)
    const message =
      `this ${shape.join('x')} ${dtype} fragment has ${count} values per thread, which take ${registers} registers; ` +
      `a thread has ${limit}. The remaining values spill to local memory. Use a smaller tile, or more warps in t.roles`
    if (registers <= limit - BESIDE || seen.has(message)) continue
    seen.add(message)
    yield { message, node }
  }
}

/**
 * True if the elements of a node occupy registers. Fragments with one repeated scalar, values computed from indices,
 * and views of other nodes occupy no registers.
 */
function isHeld(node: Node): boolean {
  return isFragment(node) && !isSplat(node) && !isIndexed(node) && !hasNoRegisters(node)
}
