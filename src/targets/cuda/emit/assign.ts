/**
 * Layout assignment: every fragment of the kernel gets the layout its uses force on it.
 *
 * Values that meet elementwise, and those that a loop or branch carries, have one layout: they form a class. A `dot` forces
 * the accumulator layout on its accumulator and on a left operand in registers; reductions, expand and broadcast relate a
 * class of matrices to classes of its rows and columns, in both directions. What nothing forces is blocked, unless its rows
 * or columns are needed. Two different demands on one class would need a conversion through shared memory, which is
 * refused at the author's line.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { KernelError } from '../../../ir/site.ts'
import { sameShape, type Shape, type ValueType } from '../../../ir/type.ts'
import type { Group, RolesPlan } from './groups.ts'
import {
  accumulatorLayout,
  blockedLayout,
  columnsLayout,
  rowsLayout,
  rowTiles,
  type Layout,
} from './layout.ts'

type Kind = Layout['kind']

export interface Layouts {
  of(node: Node): Layout
}

interface Class {
  parent: Class | undefined
  kind: Kind | undefined
  /** What asked for the kind. */
  reason: Node | undefined
  /** The narrowest element among its values: it decides how many a vector holds. */
  bytes: number
}

const elementwise = new Set<Node['op']>([
  ...([
    'neg',
    'abs',
    'not',
    'exp2',
    'log2',
    'sqrt',
    'rsqrt',
    'tanh',
    'sigmoid',
    'add',
    'sub',
    'mul',
    'div',
  ] as const),
  ...([
    'mod',
    'min',
    'max',
    'and',
    'or',
    'xor',
    'shl',
    'shr',
    'eq',
    'ne',
    'lt',
    'le',
    'gt',
    'ge',
    'select',
    'cast',
  ] as const),
])
export const isElementwise = (node: Node): boolean => elementwise.has(node.op)

export const isFragment = (node: Node): boolean => node.type.kind === 'value' && node.type.shape.length > 0
export const shapeOf = (node: Node): Shape => (node.type as ValueType).shape

/** Whether all elements are one scalar: nothing is held, whatever the layout. */
export function isSplat(node: Node): boolean {
  if (node.op === 'broadcast') return shapeOf(node.inputs[0]).length === 0 || isSplat(node.inputs[0])
  if (node.op === 'expand') return isSplat(node.inputs[0])
  return (
    isFragment(node) &&
    isElementwise(node) &&
    node.inputs.every((input) => !isFragment(input) || isSplat(input))
  )
}

/** Whether elements follow from their indices alone: they can be had in any thread, in any layout. */
export function isIndexed(node: Node): boolean {
  if (node.op === 'iota') return true
  if (!isFragment(node) || isSplat(node)) return false
  const derived = isElementwise(node) || node.op === 'expand' || node.op === 'broadcast'
  return derived && node.inputs.every((input) => isIndexed(input) || isSplat(input))
}

export function assignLayouts(ir: KernelIR, roles: RolesPlan): Layouts {
  const classes = new Map<Node, Class>()
  const groups = new Map<Node, Group>()
  const relations: { readonly matrix: Node; readonly by: Node; settle(): boolean }[] = []

  const find = (node: Node): Class => {
    let found = classes.get(node)
    if (!found) {
      const { dtype } = node.type as ValueType
      const bytes = dtype === 'bool' ? 4 : dtypes[dtype].bytes
      classes.set(node, (found = { parent: undefined, kind: undefined, reason: undefined, bytes }))
    }
    while (found.parent) found = found.parent
    return found
  }
  const force = (node: Node, kind: Kind, reason: Node): boolean => {
    const its = find(node)
    if (its.kind === kind) return false
    if (its.kind) refuse(node, its, kind, reason)
    its.kind = kind
    its.reason = reason
    return true
  }
  const join = (a: Node, b: Node): void => {
    if (!isFragment(a) || !isFragment(b) || isSplat(a) || isSplat(b)) return
    const [x, y] = [find(a), find(b)]
    if (x === y) return
    if (x.kind && y.kind && x.kind !== y.kind) refuse(a, x, y.kind, y.reason ?? b)
    y.parent = x
    x.kind ??= y.kind
    x.reason ??= y.reason
    x.bytes = Math.min(x.bytes, y.bytes)
  }
  /** If one end is of a matrix's kind, the other is of the slice's, and the other way round. */
  const relate = (matrix: Node, slice: Node, kind: 'rows' | 'columns', by: Node): void => {
    if (isSplat(slice) || isSplat(matrix) || isIndexed(slice)) return
    relations.push({
      matrix,
      by,
      settle() {
        if (find(matrix).kind === 'accumulator') return force(slice, kind, by)
        return find(slice).kind === kind ? force(matrix, 'accumulator', by) : false
      },
    })
  }

  const visit = (block: Block, group: Group): void => {
    for (const param of block.params) groups.set(param, group)
    for (const node of block.nodes) {
      groups.set(node, group)
      constrain(node)
      node.blocks.forEach((inner) => visit(inner, roles.groups.get(inner) ?? group))
      carry(node)
    }
  }
  const constrain = (node: Node): void => {
    if (isElementwise(node)) for (const input of node.inputs) join(node, input)
    switch (node.op) {
      case 'dot':
        join(node, node.inputs[2])
        force(node, 'accumulator', node)
        if (isFragment(node.inputs[0])) force(node.inputs[0], 'accumulator', node)
        break
      case 'load':
      case 'store':
        join(node.inputs[1] ?? node, node.inputs[2] ?? node)
        if (node.op === 'load' && node.inputs[1]) join(node, node.inputs[1])
        joinPlaces(node)
        break
      case 'reduce.sum':
      case 'reduce.max':
      case 'reduce.min':
        if (isFragment(node))
          relate(node.inputs[0], node, attribute<number>(node, 'axis') === 1 ? 'rows' : 'columns', node)
        break
      case 'expand':
        if (isFragment(node.inputs[0])) join(node, node.inputs[0])
        break
      case 'broadcast': {
        const from = shapeOf(node.inputs[0])
        if (from.length === 2 && !sameShape(from, shapeOf(node)))
          relate(node, node.inputs[0], from[1] === 1 ? 'rows' : 'columns', node)
        break
      }
      default:
        if (node.op.startsWith('atomic.')) {
          for (const value of node.inputs.slice(1)) join(node, value)
          joinPlaces(node)
        }
    }
  }
  /** Indices of single places meet the values loaded from them or stored there. */
  const joinPlaces = (node: Node): void => {
    const ref = node.inputs[0]
    const value = node.op === 'store' ? node.inputs[1] : node
    if (ref.op !== 'at') return
    for (const index of ref.inputs.slice(1)) {
      join(value, index)
      join(ref.inputs[1], index)
    }
  }
  const carry = (node: Node): void => {
    if (!['for', 'while', 'if', 'persistent'].includes(node.op)) return
    const body = node.blocks[node.blocks.length - 1]
    body.results.forEach((result, i) => {
      if (!isFragment(result)) return
      if (node.op === 'if') return joinCarried([node.blocks[0].results[i], result])
      const init = node.inputs[node.inputs.length - body.results.length + i]
      const params = node.blocks.map((block) => block.params[block.params.length - body.results.length + i])
      joinCarried([...params, init, result])
    })
  }
  const joinCarried = (nodes: readonly Node[]): void => {
    for (const node of nodes) join(nodes[0], node)
  }
  const joinResults = (block: Block): void => {
    for (const node of block.nodes) {
      if (node.op === 'result' && isFragment(node)) {
        const [control] = node.inputs
        const inner = control.blocks[control.blocks.length - 1]
        const index = attribute<number>(node, 'index')
        join(
          control.op === 'if'
            ? inner.results[index]
            : inner.params[inner.params.length - inner.results.length + index],
          node,
        )
        if (control.op === 'if') join(control.blocks[0].results[index], node)
      }
      node.blocks.forEach(joinResults)
    }
  }
  visit(ir.body, roles.whole)
  joinResults(ir.body)
  for (;;) {
    while (relations.map((relation) => relation.settle()).some((changed) => changed));
    // No product decides, but rows or columns do: of the layouts, an accumulator's is the one that has them.
    const open = relations.find(
      ({ matrix }) => !find(matrix).kind && fits(shapeOf(matrix), groups.get(matrix)!),
    )
    if (!open) break
    force(open.matrix, 'accumulator', open.by)
  }

  const made = new Map<Node, Layout>()
  return {
    of(node) {
      let layout = made.get(node)
      if (!layout) made.set(node, (layout = layoutOf(node, find(node), groups.get(node) ?? roles.whole)))
      return layout
    },
  }
}

function layoutOf(node: Node, its: Class, group: Group): Layout {
  const { shape } = node.type as ValueType
  switch (its.kind) {
    case 'accumulator':
      expectAccumulator(node, shape, group, its.reason)
      return accumulatorLayout(shape, group)
    case 'rows':
      expectAccumulator(node, [Math.max(...shape), 8], group, its.reason)
      return rowsLayout(shape, group)
    case 'columns':
      return columnsLayout(shape)
    default:
      return blockedLayout(shape, its.bytes, group)
  }
}

const fits = ([rows, columns]: Shape, group: Group): boolean => rowTiles(rows, group) > 0 && columns % 8 === 0

function expectAccumulator(node: Node, [rows, columns]: Shape, group: Group, reason: Node | undefined): void {
  const at = reason ?? node
  if (rowTiles(rows, group) === 0)
    throw new KernelError(
      `${at.op}: a matrix of ${rows} rows is shared out to ${group.warps} warps in steps of 64 rows a 4 warps; other ` +
        `heights are not lowered to CUDA yet: use a multiple of ${16 * group.warps} rows`,
      at.site,
    )
  if (columns % 8 !== 0)
    throw new KernelError(
      `${at.op}: a matrix of ${columns} columns: the matrix unit wants a multiple of 8`,
      at.site,
    )
}

function refuse(node: Node, its: Class, kind: Kind, reason: Node): never {
  const names: Record<Kind, string> = {
    accumulator: 'a matrix as the matrix unit leaves it',
    rows: 'one number a row of a matrix',
    columns: 'one number a column of a matrix',
    blocked: 'elements in memory order',
  }
  throw new KernelError(
    `${node.op}: its elements are needed as ${names[its.kind!]} (${its.reason?.op} at ${its.reason?.site}) and as ` +
      `${names[kind]} (${reason.op} at ${reason.site}); moving them between threads is not lowered to CUDA yet: ` +
      'store the fragment to a shared tile and load it again',
    node.site,
  )
}
