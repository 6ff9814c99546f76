/**
 * The records of the ops that pass fragments to an engine through shared memory.
 *
 * The matrix unit reads some operands from shared memory only. If an operand for the matrix unit is in registers, two
 * ops write it to shared memory:
 *
 *   staging   ()                   one place for all operands of the product
 *   operands  (staging, …values)   the threads write them there; the staging is an input of the `dot`
 *
 * The copy engine stores a fragment in several rectangles, called boxes. A role has two buffers in shared memory for
 * boxes. The stores of a role use the two buffers in turn, so that one box can be filled while the other box is stored:
 *
 *   staging        ()                           two places; each holds one box of every warpgroup of a role
 *   boxes          (value)                      block (box); executed once per box
 *   staging.place  (staging, box)               the place that the box takes: the places are taken in turn
 *   stage          (place, value, box)          the threads write their part of the box to the place
 *   store.box      (target, value, place, box)  the copy engine stores the box from the place; in flight until a `drain`
 *
 * The synchronisation between the ops for staging is explicit: `fence.async`, `meet`, and inside the block of `boxes` a
 * `drain` that leaves one box in flight. The verifier requires the barriers inside the block of `boxes`, because the
 * checker treats all threads of a role as one agent. A box has 64 rows for each warpgroup. The number of columns of a
 * box is that of the fragment, divided by the number of boxes side by side.
 */
import type { Node } from '../node.ts'
import { refType, typeName, valueType, voidType, type ValueType } from '../type.ts'
import { fullDrain } from './companions.ts'
import {
  expectInputs,
  expectRef,
  expectScalar,
  expectValue,
  fail,
  noMemory,
  straight,
  yieldsNothing,
  type Op,
  type Unplaced,
} from './op.ts'

const facts = { ...yieldsNothing, ...straight, inserted: 'order' } as const

/** The number of buffers in shared memory that the boxes of a stored fragment use in turn. */
export const STAGING_PLACES = 2

function expectStaging(node: Node | undefined, places: number): void {
  if (node?.op !== 'staging' || node.attributes.places !== places) fail(`needs staging with ${places} places`)
}

function expectPlace(node: Node | undefined): void {
  const { space, shape } = expectRef(node, 'the place')
  if (space !== 'shared' || shape.length > 0) fail(`needs a place of staging, not ${typeName(node!.type)}`)
}

function expectFragment(node: Node | undefined): ValueType {
  const type = expectValue(node, 'the value')
  if (type.shape.length !== 2) fail(`stores a matrix in boxes, not ${typeName(type)}`)
  return type
}

function expectBoxes(node: Unplaced): void {
  const { count, perRow } = node.attributes as { count?: number; perRow?: number }
  const isCount = (n: unknown): n is number => Number.isInteger(n) && (n as number) > 0
  if (!isCount(count) || !isCount(perRow) || count % perRow !== 0)
    fail(`${String(count)} boxes, ${String(perRow)} per row: every row must have the same number of boxes`)
}

/** True if the threads of a warpgroup synchronise between two ops of a block. */
function isMeetingBetween(nodes: readonly Node[], from: string, to: string): boolean {
  const [start, end] = [from, to].map((op) => nodes.findIndex((one) => one.op === op))
  return nodes
    .slice(start + 1, end)
    .some(({ op, attributes }) => op === 'meet' && attributes.of === 'warpgroup')
}

export const stagingOps = {
  staging: {
    ...facts,
    ...noMemory,
    effect: 'declare',
    place: 'top',
    ahead: 'both',
    summary:
      'buffers in shared memory from which an engine reads data that threads wrote: two for boxes, one for a matrix product',
    infer(node) {
      expectInputs(node, 0)
      const { places } = node.attributes
      if (places !== 1 && places !== STAGING_PLACES)
        fail(`has ${String(places)} places: 1 or ${STAGING_PLACES}`)
      return refType('shared', 'u32', [places])
    },
  },
  operands: {
    ...facts,
    effect: 'write',
    accesses: [{ at: 0, level: 'shared', reads: false, writes: true, values: [1] }],
    order: 'none',
    scope: 'none',
    ahead: 'consumer',
    summary:
      'the threads write operands of a matrix product to staging memory, from which the product reads them',
    infer(node) {
      expectInputs(node, 2, 3)
      expectStaging(node.inputs[0], 1)
      node.inputs.slice(1).forEach(expectFragment)
      return voidType
    },
  },
  boxes: {
    ...facts,
    ...noMemory,
    effect: 'control',
    flow: 'repeats',
    state: 'yielded',
    ahead: 'consumer',
    summary: 'executes its block once for each box of a fragment that the copy engine stores',
    infer(node) {
      expectInputs(node, 1)
      expectFragment(node.inputs[0])
      expectBoxes(node)
      if (node.blocks.length !== 1) fail(`owns 1 block, has ${node.blocks.length}`)
      const [{ params, nodes }] = node.blocks
      if (params.length !== 1) fail(`gives its block the number of a box, not ${params.length} values`)
      for (const op of ['staging.place', 'stage', 'store.box'] as const) {
        const found = nodes.filter((one) => one.op === op).length
        if (found !== 1) fail(`needs 1 ${op} in its block, has ${found}`)
      }
      for (const [from, to] of [
        ['drain', 'stage'],
        ['stage', 'store.box'],
      ])
        if (!isMeetingBetween(nodes, from, to)) fail(`needs a meet of a warpgroup between ${from} and ${to}`)
      return voidType
    },
  },
  'staging.place': {
    ...facts,
    ...noMemory,
    effect: 'pure',
    isView: true,
    ahead: 'both',
    summary: 'the staging buffer that a box uses',
    infer(node) {
      expectInputs(node, 2)
      expectStaging(node.inputs[0], STAGING_PLACES)
      expectScalar(node.inputs[1], 'the box')
      return refType('shared', 'u32', [])
    },
  },
  stage: {
    ...facts,
    effect: 'write',
    ahead: 'consumer',
    accesses: [{ at: 0, level: 'shared', reads: false, writes: true, values: [1] }],
    order: 'none',
    scope: 'none',
    summary: 'the threads write their elements of a box of a fragment to a staging buffer',
    infer(node) {
      expectInputs(node, 3)
      expectPlace(node.inputs[0])
      expectFragment(node.inputs[1])
      return voidType
    },
  },
  'store.box': {
    ...facts,
    effect: 'write',
    completes: 'at drain',
    needs: fullDrain,
    ahead: 'consumer',
    accesses: [
      { at: 0, level: 'global', reads: false, writes: true, values: [1] },
      { at: 2, level: 'shared', reads: true, writes: false },
    ],
    order: 'none',
    scope: 'none',
    summary:
      'the copy engine stores a box of a fragment from a staging buffer; its accesses are in flight until a `drain`',
    infer(node) {
      expectInputs(node, 4)
      const { dtype, shape, space } = expectRef(node.inputs[0], 'the target')
      const value = expectFragment(node.inputs[1])
      if (space !== 'global' || typeName(value) !== typeName(valueType(dtype, shape)))
        fail(`stores ${typeName(value)} to ${typeName(node.inputs[0].type)}`)
      expectPlace(node.inputs[2])
      expectBoxes(node)
      if (node.attributes.by !== 'engine') fail('is by an engine')
      return voidType
    },
  },
} as const satisfies Record<string, Op>

/** Returns true for the elements of a fragment that belong to a given box, in row order. */
export function isInBox(storeBox: Node, number: number): (element: number) => boolean {
  const { count, perRow } = storeBox.attributes as { count: number; perRow: number }
  const [, columns] = (storeBox.inputs[1].type as ValueType).shape
  const width = columns / perRow
  const rowTiles = count / perRow
  return (element) => {
    const [row, column] = [Math.floor(element / columns), element % columns]
    const own = (Math.floor(row / 64) % rowTiles) * perRow + Math.floor(column / width)
    return own === number
  }
}
