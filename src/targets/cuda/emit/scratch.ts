/**
 * Computes the scratch memory of a node: private shared memory through which the threads of its group exchange
 * elements. Scratch memory holds partial results of reductions, values that change their layout, operands that a
 * product reads from shared memory, and indices of gathered rows.
 *
 * If a program has too little shared memory, the nodes of a group use one region of scratch memory in turn. The stage
 * `order` then inserts thread barriers between the accesses of these nodes (`hazards.ts`).
 */
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, opsWith, type OpName } from '../../../ir/ops/index.ts'
import type { ValueType } from '../../../ir/type.ts'
import { isFragment, isIndexed, isOneOfMany, isSplat, shapeOf, type Layouts } from './assign.ts'
import type { Group } from './groups.ts'
import { matrixLayout } from './layout.ts'
import { productOf } from './products.ts'
import { spanOf, type Region, type SharedSpace, type Tile } from './tiles.ts'

export interface ScratchNeed {
  readonly bytes: number
  readonly alignment: number
}

/** The scratch memory of a node. */
export interface Scratch extends Region {
  /** The node that identifies the region of scratch memory. Nodes that use one region in turn have the same owner. */
  readonly owner: Node
}

/**
 * Allocates scratch memory for the nodes of each group. With `inTurn`, all nodes of a group share one region, except
 * nodes whose scratch memory is read after the code of the node.
 */
export function planScratch(
  groupOf: ReadonlyMap<Node, Group>,
  layouts: Layouts,
  space: SharedSpace,
  inTurn: boolean,
): ReadonlyMap<Node, Scratch> {
  const needed = [...groupOf].flatMap(([node, group]) => {
    const needs = scratchOf(node, group, layouts)
    return needs ? [{ node, needs, users: inTurn && !outlivesNode(node) ? group : node }] : []
  })
  const planned = new Map<Group | Node, Scratch>()
  for (const { node, users } of needed) {
    if (planned.has(users)) continue
    const own = needed.filter((one) => one.users === users).map(({ needs }) => needs)
    const bytes = Math.max(...own.map((one) => one.bytes))
    const alignment = Math.max(...own.map((one) => one.alignment))
    planned.set(users, { ...space.take(bytes, alignment), owner: node })
  }
  return new Map(needed.map(({ node, users }) => [node, planned.get(users)!]))
}

/** True if the users of the node, and not the node itself, read the scratch memory of the node. */
export const outlivesNode = (node: Node): boolean => node.type.kind === 'ref'

/**
 * The shared tiles for operands of a `dot` that are in registers, although the matrix instruction reads them from
 * shared memory.
 */
export interface Staged {
  readonly left: Tile | undefined
  readonly right: Tile | undefined
}

export function stagedOf(dot: Node, group: Group, layouts: Layouts): Staged {
  const [a, b] = dot.inputs
  const product = productOf(dot, group)
  const isReady = (): boolean =>
    product === 'wgmma' ||
    (product === 'mma' && layouts.of(a).key === matrixLayout('left', shapeOf(a), group).key)
  return {
    left: isFragment(a) && !isReady() ? stagingTile(a) : undefined,
    right: isFragment(b) ? stagingTile(b) : undefined,
  }
}

export function scratchOf(node: Node, group: Group, layouts: Layouts): ScratchNeed | undefined {
  return entryOf(needs, node)(node, group, layouts)
}

type Need = (node: Node, group: Group, layouts: Layouts) => ScratchNeed | undefined

const none: Need = () => undefined

const need = (count: number, type: ValueType): ScratchNeed => ({
  bytes: count * elementBytes(type),
  alignment: 16,
})

const moved = (node: Node): ScratchNeed => need(elementsOf(node), node.type as ValueType)

/** For each op, the size of the memory through which threads exchange elements. */
const needs: Readonly<Record<OpName, Need>> = {
  ...opsWith({ effect: 'control' }, none),
  ...opsWith({ effect: 'declare' }, none),
  ...opsWith({ effect: 'sync' }, none),
  ...opsWith({ effect: 'report' }, none),
  ...opsWith({ effect: 'write' }, none),
  ...opsWith({ isView: true }, none),
  ...opsWith({ elements: 'same' }, none),
  ...opsWith({ elements: 'indices' }, none),
  // A reduction needs no scratch memory: if several warps share a row or column, a `combine` follows the reduction.
  ...opsWith({ elements: 'reduced' }, none),
  // The scratch memory of an exchange such as `cumsum` holds all elements of the inputs, one input after another.
  ...opsWith({ elements: 'gathered' }, ({ inputs }: Node) =>
    need(inputs.length * elementsOf(inputs[0]), inputs[0].type as ValueType),
  ),
  combine: (node, _, layouts) => need(partialsOf(node.inputs[0], layouts), node.type as ValueType),
  convert: (node) => (isIndexed(node) ? undefined : moved(node)),
  transpose: (node) => (isFragment(node) ? moved(node) : undefined),
  expand: none,
  broadcast: (node) => (isOneOfMany(node) ? need(1, node.type as ValueType) : undefined),
  rows: ({ inputs: [, indices] }) =>
    isIndexed(indices) || isSplat(indices) ? undefined : need(shapeOf(indices)[0], indexType),
  dot(node, group, layouts) {
    const { left, right } = stagedOf(node, group, layouts)
    if (!left && !right) return undefined
    return { bytes: (left?.stageBytes ?? 0) + (right?.stageBytes ?? 0), alignment: 1024 }
  },
  load: none,
  'words.take': none,
  rank: none,
  program: none,
  programs: none,
  dim: none,
  epoch: none,
  param: none,
  result: none,
}

/**
 * Returns the number of partial results of a reduction whose rows or columns are shared by several warps, or 0 if each
 * warp holds complete rows or columns.
 */
export function partialsOf(reduction: Node, layouts: Layouts): number {
  const [source] = reduction.inputs
  if (!isFragment(reduction) || isSplat(source)) return 0
  const { spread } = layouts.of(source)
  if (!spread) return 0
  const [rows, columns] = shapeOf(source)
  const isAlongRow = attribute<number>(reduction, 'axis') === 1
  const [kept, warps] = isAlongRow ? [rows, spread.columnWarps] : [columns, spread.rowWarps]
  return warps > 1 ? kept * warps : 0
}

/** Returns a shared tile in which a fragment can be an operand of a matrix product. */
function stagingTile(node: Node): Tile {
  const { dtype, shape } = node.type as ValueType
  const [rows, columns] = shape
  const { bytes } = dtypes[dtype]
  const span = bytes === 2 ? spanOf(columns * bytes) : 0
  const stageBytes = Math.ceil((rows * columns * bytes) / 1024) * 1024
  return { node, dtype, rows, columns, stages: 1, span, stageBytes }
}

/** Returns a shared tile for a fragment, with consecutive rows and without swizzle. */
export function plainTile(node: Node, [rows, columns]: readonly number[]): Tile {
  const { dtype } = node.type as ValueType
  const stageBytes = rows * columns * elementBytes(node.type as ValueType)
  return { node, dtype, rows, columns, stages: 1, span: 0, stageBytes }
}

const indexType: ValueType = { kind: 'value', dtype: 'i32', shape: [1] }
const elementsOf = (node: Node): number => shapeOf(node).reduce((product, extent) => product * extent, 1)
const elementBytes = ({ dtype }: ValueType): number => dtypes[dtype].bytes
