/**
 * What the author of a kernel should know about its text: products that do not use the matrix unit, and fragments that registers
 * cannot hold. Notes follow from the plans that the text is written from, so the two cannot disagree. They change nothing.
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

/** In program order; what several nodes of one place have to say is said once. */
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
 * Registers that a thread needs beside a fragment, for addresses and loop counters. Measured with ptxas 13.0 on a kernel that does
 * little else: with 255 registers a thread holds 224 values, and spills with 232.
 */
const BESIDE = 24

/** Fragments that leave a thread fewer registers than it needs beside them. Of those of one shape and dtype, the first. */
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
      `a thread has ${limit}. The rest spills to local memory. Use a smaller tile, or more warps in t.roles`
    if (registers <= limit - BESIDE || seen.has(message)) continue
    seen.add(message)
    yield { message, node }
  }
}

/** Whether a node's elements get registers of their own: not what is one scalar, follows from indices, or shows another node's. */
function isHeld(node: Node): boolean {
  return isFragment(node) && !isSplat(node) && !isIndexed(node) && !hasNoRegisters(node)
}
