/**
 * Layout assignment: every fragment of the kernel gets the layout its uses force on it.
 *
 * Values that meet elementwise, and those that a loop or branch carries, have one layout: they form a class. A `dot` forces
 * the accumulator layout on its accumulator, and its own on a left operand in registers; reductions, expand and broadcast
 * relate a class of matrices to classes of its rows and columns, in both directions. What nothing forces is blocked, unless
 * its rows or columns are needed. A product of few rows may swap its operands, if nothing else has a say in its accumulator's
 * layout. Where two demands meet, a `Conflict` names the value to be had in another layout and where; the stage `layouts`
 * (`conversions.ts`) inserts a `convert` there.
 */
import { analysis } from '../../../ir/analysis.ts'
import { entryOf, isElementwise, opOf, opsWith, type OpName } from '../../../ir/ops/index.ts'
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { sameShape, type Shape, type ValueType } from '../../../ir/type.ts'
import type { Group, RolesPlan } from './groups.ts'
import {
  blockedLayout,
  columnsLayout,
  matrixLayout,
  rowsLayout,
  spreadOf,
  swappedLayout,
  type Layout,
} from './layout.ts'
import { maySwap, productOf } from './products.ts'
import { is16Bit } from './spell.ts'

/** Columns are those of a matrix of that many rows. */
type Kind = 'accumulator' | 'left' | 'swapped' | 'rows' | `columns of ${number}`

export interface Layouts {
  of(node: Node): Layout
}

/** A value is needed in two layouts: `user` is the node, or the block that yields it, that wants another; undefined: all do. */
export interface Conflict {
  readonly value: Node
  readonly user: Node | Block | undefined
}

/** What was found: the layouts of all fragments, or the first conflict among them. */
export type Assignment =
  | { readonly layouts: Layouts; readonly conflict?: undefined }
  | { readonly conflict: Conflict; readonly layouts?: undefined }

interface Class {
  parent: Class | undefined
  kind: Kind | undefined
  /** The narrowest element among its values: it decides how many a vector holds. */
  bytes: number
  /** A value of one axis is among them: it has no rows and columns. */
  flat: boolean
}

const isMatrix = (kind: Kind | undefined): boolean =>
  kind === 'accumulator' || kind === 'left' || kind === 'swapped'

export const isFragment = (node: Node): boolean => node.type.kind === 'value' && node.type.shape.length > 0
export const shapeOf = (node: Node): Shape => (node.type as ValueType).shape

/** Whether all elements are one scalar: nothing is held, whatever the layout. */
export function isSplat(node: Node): boolean {
  if (node.op === 'broadcast') return shapeOf(node.inputs[0]).length === 0 || isSplat(node.inputs[0])
  if (node.op === 'expand' || node.op === 'transpose') return isSplat(node.inputs[0])
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
  // Halves are packed in pairs, by the thread that has both.
  if (is16Bit((node.type as ValueType).dtype)) return false
  const derived = isElementwise(node) || node.op === 'expand' || node.op === 'broadcast'
  return derived && node.inputs.every((input) => isIndexed(input) || isSplat(input))
}

/** Whether one element of two axes is stretched to several rows: neither a row's nor a column's, any thread may have it. */
export const isOneOfMany = (node: Node): boolean =>
  node.op === 'broadcast' &&
  !isSplat(node) &&
  !isIndexed(node) &&
  shapeOf(node)[0] > 1 &&
  shapeOf(node.inputs[0]).length === 2 &&
  shapeOf(node.inputs[0]).every((extent) => extent === 1)

/** True if a fragment is the registers of another node. A stretched fragment shows an element of its source in several places. */
export const hasNoRegisters = (node: Node): boolean =>
  node.op === 'result' || node.op === 'combine' || opOf(node).elements === 'stretched'

/** Of a copy: its mask and the indices of single elements, which go by registers as a load and a store would. */
export function lanesOf(copy: Node): readonly Node[] {
  const indices = copy.inputs.slice(0, 2).flatMap((ref) => (ref.op === 'at' ? ref.inputs.slice(1) : []))
  return [...copy.inputs.slice(2), ...indices].filter((node) => isFragment(node) && !isSplat(node))
}

export const assignLayouts = analysis('layouts of a GPU', layoutsIn)

function layoutsIn(ir: KernelIR, roles: RolesPlan): Assignment {
  const classes = new Map<Node, Class>()
  const groups = new Map<Node, Group>()
  const relations: { readonly matrix: Node; settle(): boolean; choose(): void }[] = []
  const swappable: Node[] = []
  const conflicts: Conflict[] = []
  const clash = (value: Node, user: Node | Block | undefined): void => void conflicts.push({ value, user })

  const find = (node: Node): Class => {
    let found = classes.get(node)
    if (!found) {
      const { dtype, shape } = node.type as ValueType
      const bytes = dtype === 'bool' ? 4 : dtypes[dtype].bytes
      const flat = shape.length === 1
      classes.set(node, (found = { parent: undefined, kind: undefined, bytes, flat }))
    }
    while (found.parent) found = found.parent
    return found
  }
  /** Whether that changed something. */
  const force = (node: Node, kind: Kind, user: Node | undefined): boolean => {
    const its = find(node)
    if (its.kind === kind) return false
    if (its.kind || (its.flat && isMatrix(kind))) {
      clash(node, user)
      return false
    }
    its.kind = kind
    return true
  }
  /** `b`, wanted by the user, has the layout of `a`. */
  const join = (a: Node, b: Node, user: Node | Block | undefined): void => {
    if (!isFragment(a) || !isFragment(b) || isSplat(a) || isSplat(b)) return
    const [x, y] = [find(a), find(b)]
    if (x === y) return
    const isFlatMatrix = (x.flat && isMatrix(y.kind)) || (y.flat && isMatrix(x.kind))
    if (isFlatMatrix || (x.kind && y.kind && x.kind !== y.kind)) return clash(b, user)
    y.parent = x
    x.kind ??= y.kind
    x.bytes = Math.min(x.bytes, y.bytes)
    x.flat ||= y.flat
  }
  /** If one end is of a matrix's kind, the other is of the slice's, and the other way round. */
  const relate = (matrix: Node, slice: Node, axis: 'rows' | 'columns', by: Node): void => {
    if (isSplat(slice) || isSplat(matrix) || isIndexed(slice)) return
    const kind = axis === 'rows' ? axis : (`columns of ${shapeOf(matrix)[0]}` as const)
    const user = (value: Node): Node | undefined => (value === by ? undefined : by)
    relations.push({
      matrix,
      settle() {
        const its = find(matrix).kind
        if (its === 'accumulator' || (its === 'left' && axis === 'rows'))
          return force(slice, kind, user(slice))
        return find(slice).kind === kind || its ? force(matrix, 'accumulator', user(matrix)) : false
      },
      choose: () => void force(matrix, 'accumulator', user(matrix)),
    })
  }

  const visit = (block: Block, group: Group): void => {
    for (const param of block.params) groups.set(param, group)
    for (const node of block.nodes) {
      groups.set(node, group)
      constrain(node, group)
      node.blocks.forEach((inner) => visit(inner, roles.groups.get(inner) ?? group))
      carry(node)
    }
  }
  const unconstrained = (): void => undefined
  const joinResult = (node: Node): void => {
    const [control] = node.inputs
    const inner = control.blocks[control.blocks.length - 1]
    const index = attribute<number>(node, 'index')
    if (opOf(control).state === 'yielded') {
      join(inner.results[index], node, undefined)
      join(control.blocks[0].results[index], node, undefined)
    } else join(inner.params[inner.params.length - inner.results.length + index], node, undefined)
  }
  /** What each op asks of the layouts of its operands and of what it yields. */
  const constraints: Readonly<Record<OpName, (node: Node, group: Group) => void>> = {
    ...opsWith({ effect: 'control' }, unconstrained),
    ...opsWith({ effect: 'declare' }, unconstrained),
    ...opsWith({ effect: 'sync' }, unconstrained),
    // What follows from places alone is had in any layout, and indices of gathered rows go through shared memory.
    ...opsWith({ isView: true }, unconstrained),
    ...opsWith({ elements: 'indices' }, unconstrained),
    ...opsWith({ elements: 'same' }, (node: Node) => {
      for (const input of node.inputs) join(node, input, node)
    }),
    convert: unconstrained,
    ...opsWith({ elements: 'reduced' }, (node: Node) => {
      if (isFragment(node))
        relate(node.inputs[0], node, attribute<number>(node, 'axis') === 1 ? 'rows' : 'columns', node)
    }),
    expand(node) {
      if (isFragment(node.inputs[0])) join(node, node.inputs[0], node)
    },
    broadcast(node) {
      const from = shapeOf(node.inputs[0])
      if (!isOneOfMany(node) && from.length === 2 && !sameShape(from, shapeOf(node)))
        relate(node, node.inputs[0], from[1] === 1 ? 'rows' : 'columns', node)
    },
    dot(node, group) {
      if (maySwap(node, group)) swappable.push(node)
      else force(node, 'accumulator', undefined)
      joinAccumulator(node, node.inputs[2])
      if (isFragment(node.inputs[0])) leftOperand(node, node.inputs[0], group)
    },
    load(node) {
      if (node.inputs[2]) join(node.inputs[1], node.inputs[2], node)
      if (node.inputs[1]) join(node, node.inputs[1], node)
      joinPlaces(node)
    },
    store(node) {
      if (node.inputs[2]) join(node.inputs[1], node.inputs[2], node)
      joinPlaces(node)
    },
    copy(node) {
      const [first, ...others] = lanesOf(node)
      for (const other of others) join(first, other, node)
    },
    'copy.async': unconstrained,
    ...opsWith({ effect: 'write', elements: 'other' }, (node: Node) => {
      for (const value of node.inputs.slice(1)) join(node, value, node)
      joinPlaces(node)
    }),
    'words.post': unconstrained,
    'words.take': unconstrained,
    rank: unconstrained,
    program: unconstrained,
    programs: unconstrained,
    dim: unconstrained,
    epoch: unconstrained,
    param: unconstrained,
    result(node) {
      if (isFragment(node)) joinResult(node)
    },
  }
  const constrain = (node: Node, group: Group): void => entryOf(constraints, node)(node, group)
  /** What is added to may be of another kind, as one number is that is a row's: then that is converted, and not the product. */
  const joinAccumulator = (dot: Node, added: Node): void => {
    if (isFragment(added) && !isSplat(added) && find(added).kind && !isMatrix(find(added).kind))
      clash(added, dot)
    else join(dot, added, dot)
  }
  /** What the matrix unit wants is forced only on a value that nothing else has a say in: `dot` can stage any other. */
  const leftOperand = (dot: Node, left: Node, group: Group): void => {
    const product = productOf(dot, group)
    if (product === 'elements') return
    const isAccumulator = product === 'wgmma' || spreadOf(shapeOf(left), group).columnWarps === 1
    if (isAccumulator) force(left, 'accumulator', dot)
    else if (!find(left).kind && !swappable.some((one) => find(one) === find(left))) force(left, 'left', dot)
  }
  /** Indices of single places meet the values loaded from them or stored there. */
  const joinPlaces = (node: Node): void => {
    const ref = node.inputs[0]
    const value = node.op === 'store' ? node.inputs[1] : node
    if (ref.op !== 'at') return
    for (const index of ref.inputs.slice(1)) {
      join(value, index, ref)
      join(ref.inputs[1], index, ref)
    }
  }
  const carry = (node: Node): void => {
    const { state } = opOf(node)
    if (state === 'none') return
    const body = node.blocks[node.blocks.length - 1]
    body.results.forEach((result, i) => {
      if (!isFragment(result)) return
      if (state === 'yielded') return join(node.blocks[0].results[i], result, body)
      const init = node.inputs[node.inputs.length - body.results.length + i]
      const [param, ...others] = node.blocks.map(
        (block) => block.params[block.params.length - body.results.length + i],
      )
      for (const other of others) join(param, other, undefined)
      join(param, init, node)
      join(param, result, body)
    })
  }
  visit(ir.body, roles.whole)
  const sliced = new Set(relations.map(({ matrix }) => find(matrix)))
  for (const dot of swappable) {
    const its = find(dot)
    // What is carried round a loop may have become a left operand before it was a product's.
    if (its.kind === 'left') clash(dot, undefined)
    its.kind ??= sliced.has(its) ? 'accumulator' : 'swapped'
  }
  while (conflicts.length === 0) {
    while (relations.map((relation) => relation.settle()).some((changed) => changed));
    // No product decides, but rows or columns do: of the layouts, an accumulator's is the one that has them.
    const open = relations.find(({ matrix }) => !find(matrix).kind)
    if (!open) break
    open.choose()
  }

  const [conflict] = conflicts as readonly (Conflict | undefined)[]
  if (conflict) return { conflict }
  const made = new Map<Node, Layout>()
  const layouts: Layouts = {
    of(node) {
      let layout = made.get(node)
      if (!layout) made.set(node, (layout = layoutOf(node, find(node), groups.get(node) ?? roles.whole)))
      return layout
    },
  }
  return { layouts }
}

function layoutOf(node: Node, { kind, bytes }: Class, group: Group): Layout {
  const { shape } = node.type as ValueType
  switch (kind) {
    case 'accumulator':
    case 'left':
      return matrixLayout(kind, shape, group)
    case 'swapped':
      return swappedLayout(shape, group)
    case 'rows':
      return rowsLayout(shape, group)
    case undefined:
      return blockedLayout(shape, bytes, group)
    default:
      return columnsLayout(shape, Number(kind.slice('columns of '.length)), group)
  }
}
