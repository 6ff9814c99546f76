/**
 * Assigns a register layout to every fragment of the kernel, according to its uses.
 *
 * The operands and the result of an elementwise op have the same layout, and so do the values that a loop or branch
 * carries. Fragments that must have the same layout form a class. A `dot` requires the accumulator layout for its
 * accumulator, and the operand layout for a left operand in registers. Reductions, `expand` and `broadcast` relate the
 * layout of a matrix to the layouts of its rows and columns, in both directions. A class of fragments without layout
 * requirements gets the blocked layout. A class of matrices that no matrix product constrains, but whose rows or
 * columns other fragments use, gets the accumulator layout. A matrix product with few rows may swap its operands, if
 * nothing else constrains the layout of its accumulator.
 *
 * If two layout requirements contradict each other, a `Conflict` names the fragment and the node that needs the
 * fragment in another layout. The stage `layouts` (`conversions.ts`) resolves a conflict by a `convert` between the
 * fragment and the node that needs another layout.
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

/**
 * The layout that a class of fragments needs. A `columns` layout holds one element per column of a matrix with `of`
 * rows.
 */
type Kind =
  | { readonly kind: 'accumulator' | 'left' | 'swapped' | 'rows' }
  | { readonly kind: 'columns'; readonly of: number }

const ACCUMULATOR: Kind = { kind: 'accumulator' }
const LEFT: Kind = { kind: 'left' }

const isSame = (a: Kind | undefined, b: Kind | undefined): boolean =>
  a?.kind === b?.kind && (a?.kind !== 'columns' || b?.kind !== 'columns' || a.of === b.of)

export interface Layouts {
  of(node: Node): Layout
}

/**
 * A fragment that is needed in two layouts. `user` is the node that needs the second layout, or the block that yields
 * the fragment in the second layout. If `user` is undefined, all users of the fragment need the second layout.
 */
export interface Conflict {
  readonly value: Node
  readonly user: Node | Block | undefined
}

/** The layouts of all fragments, or the first conflict between two layout requirements. */
export type Assignment =
  | { readonly layouts: Layouts; readonly conflict?: undefined }
  | { readonly conflict: Conflict; readonly layouts?: undefined }

interface Class {
  parent: Class | undefined
  kind: Kind | undefined
  /**
   * The size, in bytes, of the narrowest element type in a class (fragments of one layout). The narrowest type
   * determines the number of elements per vector access.
   */
  bytes: number
  /** True if a class (fragments of one layout) contains a vector, which cannot have a matrix layout. */
  flat: boolean
}

const isMatrix = (its: Kind | undefined): boolean =>
  its?.kind === 'accumulator' || its?.kind === 'left' || its?.kind === 'swapped'

export const isFragment = (node: Node): boolean => node.type.kind === 'value' && node.type.shape.length > 0
export const shapeOf = (node: Node): Shape => (node.type as ValueType).shape

/**
 * True if all elements of a fragment are the same scalar. A fragment of equal elements needs no registers of its own
 * and fits any layout.
 */
export function isSplat(node: Node): boolean {
  if (node.op === 'broadcast') return shapeOf(node.inputs[0]).length === 0 || isSplat(node.inputs[0])
  if (node.op === 'expand' || node.op === 'transpose') return isSplat(node.inputs[0])
  return (
    isFragment(node) &&
    isElementwise(node) &&
    node.inputs.every((input) => !isFragment(input) || isSplat(input))
  )
}

/**
 * The maximum cost, as a number of additions, of an op whose result is recomputed at each use instead of being kept in
 * registers.
 */
const mostRepeated = 50

const isCheap = (node: Node): boolean => Number(opOf(node).operations) <= mostRepeated

/**
 * True if each element of a fragment is computed from its indices alone, so that any thread can compute it in any
 * layout. The function returns false for the result of an expensive op, which is kept in registers.
 */
export function isIndexed(node: Node): boolean {
  if (node.op === 'iota') return true
  if (!isFragment(node) || isSplat(node)) return false
  // Two 16-bit elements are packed into one register, which requires a thread that holds both.
  if (is16Bit((node.type as ValueType).dtype)) return false
  const derived = (isElementwise(node) && isCheap(node)) || node.op === 'expand' || node.op === 'broadcast'
  return derived && node.inputs.every((input) => isIndexed(input) || isSplat(input))
}

/**
 * True if a 1 x 1 matrix is broadcast to several rows. The element of a 1 x 1 matrix belongs to no particular row or
 * column of the result, so any thread may hold it.
 */
export const isOneOfMany = (node: Node): boolean =>
  node.op === 'broadcast' &&
  !isSplat(node) &&
  !isIndexed(node) &&
  shapeOf(node)[0] > 1 &&
  shapeOf(node.inputs[0]).length === 2 &&
  shapeOf(node.inputs[0]).every((extent) => extent === 1)

/**
 * True if a fragment has no registers of its own, because it uses the registers of another node. A broadcast fragment
 * repeats elements of its source.
 */
export const hasNoRegisters = (node: Node): boolean =>
  node.op === 'result' || node.op === 'combine' || opOf(node).elements === 'stretched'

/**
 * Returns the fragments that a copy reads from registers: its mask, and the indices if the copy gathers or scatters
 * single elements.
 */
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
  /** Requires a layout for a fragment. Returns true if the layout requirement of the fragment's class changed. */
  const force = (node: Node, kind: Kind, user: Node | undefined): boolean => {
    const its = find(node)
    if (isSame(its.kind, kind)) return false
    if (its.kind || (its.flat && isMatrix(kind))) {
      clash(node, user)
      return false
    }
    its.kind = kind
    return true
  }
  /** Requires that `b`, as used by `user`, has the same layout as `a`. */
  const join = (a: Node, b: Node, user: Node | Block | undefined): void => {
    if (!isFragment(a) || !isFragment(b) || isSplat(a) || isSplat(b)) return
    const [x, y] = [find(a), find(b)]
    if (x === y) return
    const isFlatMatrix = (x.flat && isMatrix(y.kind)) || (y.flat && isMatrix(x.kind))
    if (isFlatMatrix || (x.kind && y.kind && !isSame(x.kind, y.kind))) return clash(b, user)
    y.parent = x
    x.kind ??= y.kind
    x.bytes = Math.min(x.bytes, y.bytes)
    x.flat ||= y.flat
  }
  /**
   * Relates the layout of a matrix to that of a `slice`, which has one element per row or per column of the matrix. If
   * the matrix has a matrix layout, the slice must have the corresponding `rows` or `columns` layout, and vice versa.
   */
  const relate = (matrix: Node, slice: Node, axis: 'rows' | 'columns', by: Node): void => {
    if (isSplat(slice) || isSplat(matrix) || isIndexed(slice)) return
    const kind: Kind = axis === 'rows' ? { kind: axis } : { kind: axis, of: shapeOf(matrix)[0] }
    const user = (value: Node): Node | undefined => (value === by ? undefined : by)
    relations.push({
      matrix,
      settle() {
        const its = find(matrix).kind
        if (its?.kind === 'accumulator' || (its?.kind === 'left' && axis === 'rows'))
          return force(slice, kind, user(slice))
        return isSame(find(slice).kind, kind) || its ? force(matrix, ACCUMULATOR, user(matrix)) : false
      },
      choose: () => void force(matrix, ACCUMULATOR, user(matrix)),
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
  /** For each op, a function that adds the layout requirements of the op for its operands and results. */
  const constraints: Readonly<Record<OpName, (node: Node, group: Group) => void>> = {
    ...opsWith({ effect: 'control' }, unconstrained),
    ...opsWith({ effect: 'declare' }, unconstrained),
    ...opsWith({ effect: 'sync' }, unconstrained),
    ...opsWith({ effect: 'report' }, unconstrained),
    // Values computed from indices alone fit any layout, and the indices of gathered rows pass through shared memory.
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
    // Elements that move to another thread pass through shared memory, so the operand and the result may have any
    // layouts.
    ...opsWith({ elements: 'gathered' }, unconstrained),
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
      else force(node, ACCUMULATOR, undefined)
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
    ...opsWith({ completes: 'at barrier' }, unconstrained),
    ...opsWith({ completes: 'at quiet' }, unconstrained),
    'put.signal': unconstrained,
    ...opsWith({ effect: 'write', elements: 'other' }, (node: Node) => {
      for (const value of node.inputs.slice(1)) join(node, value, node)
      joinPlaces(node)
    }),
    'words.post': unconstrained,
    operands: unconstrained,
    stage: unconstrained,
    'store.box': unconstrained,
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
  /**
   * If the initial accumulator of a matrix product already has the layout of rows or columns, the initial accumulator
   * is converted, and not the result of the matrix product.
   */
  const joinAccumulator = (dot: Node, added: Node): void => {
    if (isFragment(added) && !isSplat(added) && find(added).kind && !isMatrix(find(added).kind))
      clash(added, dot)
    else join(dot, added, dot)
  }
  /**
   * Requires the `left` layout (of a left operand in registers) only for a value without other layout requirements. A
   * left operand with other layout requirements passes through shared memory.
   */
  const leftOperand = (dot: Node, left: Node, group: Group): void => {
    const product = productOf(dot, group)
    if (product === 'elements') return
    const isAccumulator = product === 'wgmma' || spreadOf(shapeOf(left), group).columnWarps === 1
    if (isAccumulator) force(left, ACCUMULATOR, dot)
    else if (!find(left).kind && !swappable.some((one) => find(one) === find(left))) force(left, LEFT, dot)
  }
  /** The indices of single elements have the same layout as the values loaded from or stored to these elements. */
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
    // A loop may carry the result of a matrix product whose layout is already the one of a left operand.
    if (its.kind?.kind === 'left') clash(dot, undefined)
    its.kind ??= sliced.has(its) ? ACCUMULATOR : { kind: 'swapped' }
  }
  while (conflicts.length === 0) {
    while (relations.map((relation) => relation.settle()).some((changed) => changed));
    // No matrix product determines the layout of this matrix, but its rows or columns are used. The accumulator layout
    // supports reductions over rows and over columns.
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
  switch (kind?.kind) {
    case 'accumulator':
    case 'left':
      return matrixLayout(kind.kind, shape, group)
    case 'swapped':
      return swappedLayout(shape, group)
    case 'rows':
      return rowsLayout(shape, group)
    case 'columns':
      return columnsLayout(shape, kind.of, group)
    case undefined:
      return blockedLayout(shape, bytes, group)
  }
}
