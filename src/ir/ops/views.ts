/**
 * Defines the view ops. A view selects a rank's copy of memory, or some of its elements. Views do not access memory.
 */
import type { Node } from '../node.ts'
import {
  barriersType,
  flagsType,
  refType,
  sameShape,
  tensorType,
  typeName,
  valueType,
  type Shape,
  type TensorType,
} from '../type.ts'
import {
  expectAxis,
  expectInputs,
  expectScalar,
  expectShape,
  expectValue,
  fail,
  noMemory,
  straight,
  yieldsNothing,
  type Op,
} from './op.ts'
import { expectIndex } from './values.ts'

function expectTensor(node: Node | undefined): TensorType {
  if (node?.type.kind !== 'tensor') fail(`needs a tensor, not ${node ? typeName(node.type) : 'nothing'}`)
  return node.type
}

/** The record fields that are equal for all ops that refer to memory without accessing it. */
const view = {
  ...yieldsNothing,
  ...noMemory,
  ...straight,
  effect: 'pure',
  isView: true,
  ahead: 'both',
} as const

export const viewOps = {
  on: {
    ...view,
    owner: 1,
    summary: "another rank's copy of a symmetric tensor or flag set",
    infer(node) {
      expectInputs(node, 2)
      const type = node.inputs[0].type
      if (type.kind !== 'tensor' && type.kind !== 'flags')
        fail(`needs a tensor or flags, not ${typeName(type)}`)
      expectScalar(node.inputs[1], 'the rank')
      return type
    },
  },
  dim: {
    ...view,
    isView: false,
    elements: 'other',
    numbers: 'other',
    summary: 'the extent of a tensor or flag set along an axis',
    infer(node) {
      expectInputs(node, 1)
      const type = node.inputs[0].type
      if (type.kind !== 'tensor' && type.kind !== 'flags')
        fail(`needs a tensor or flags, not ${typeName(type)}`)
      expectAxis(node.attributes.axis, type.rank, type)
      return valueType('i32')
    },
  },
  slice: {
    ...view,
    summary: 'the elements of a tensor whose indices on one axis are in [start, start + size)',
    infer(node) {
      expectInputs(node, 3)
      const type = expectTensor(node.inputs[0])
      expectScalar(node.inputs[1], 'the start')
      expectScalar(node.inputs[2], 'the size')
      expectAxis(node.attributes.axis, type.rank, type)
      return type
    },
  },
  pick: {
    ...view,
    summary:
      'the elements at one index of the first axis of a tensor or of a shared tile with stages, or one barrier of an array',
    infer(node) {
      expectInputs(node, 2)
      expectScalar(node.inputs[1], 'the index')
      const type = node.inputs[0].type
      if (type.kind === 'tensor' && type.rank > 1) return tensorType(type.dtype, type.rank - 1)
      if (type.kind === 'ref' && type.space === 'shared' && type.shape.length > 1)
        return refType('shared', type.dtype, type.shape.slice(1))
      if (type.kind === 'barriers' && type.count > 0) return barriersType(0, type.arrivals)
      return fail(`${typeName(type)} has no first axis from which an index could be picked`)
    },
  },
  tile: {
    ...view,
    summary:
      'the tile of a tensor at a tile index; the shape is static, and elements outside the tensor read as 0 and are not written',
    infer(node) {
      const type = expectTensor(node.inputs[0])
      const shape = node.attributes.shape as Shape
      if (type.rank > 2)
        fail(`tiles are cut from one or two axes: pick() the first ones of ${typeName(type)}`)
      if (shape.length !== type.rank) fail(`the tile has ${shape.length} axes, the tensor ${type.rank}`)
      expectShape(shape, 'a tile')
      expectInputs(node, 1 + type.rank)
      for (const index of node.inputs.slice(1)) expectScalar(index, 'a tile index')
      return refType('global', type.dtype, shape)
    },
  },
  rows: {
    ...view,
    summary:
      'one tile of columns of the rows that a vector of row indices selects; a row index outside the tensor is an error',
    infer(node) {
      expectInputs(node, 3)
      const type = expectTensor(node.inputs[0])
      if (type.rank !== 2) fail(`rows are gathered from a tensor of two axes, not ${typeName(type)}`)
      const indices = expectValue(node.inputs[1], 'the row indices')
      if (indices.dtype !== 'i32' || indices.shape.length !== 1)
        fail(`the row indices must be i32[n], not ${typeName(indices)}`)
      expectScalar(node.inputs[2], 'the column tile')
      const shape = [indices.shape[0], node.attributes.width as number]
      return refType('global', type.dtype, expectShape(shape, 'rows'))
    },
  },
  at: {
    ...view,
    summary:
      'single elements of a tensor or shared tile, or one flag of a set, selected by an index or a fragment of indices for each axis',
    infer(node) {
      const type = node.inputs[0].type
      const indices = node.inputs.slice(1)
      if (type.kind === 'flags') {
        if (indices.length !== type.rank) fail(`takes ${type.rank} indices, has ${indices.length}`)
        for (const index of indices) expectScalar(index, 'a flag index')
        return flagsType(0, type.arrivals)
      }
      if (type.kind !== 'tensor' && !(type.kind === 'ref' && type.space === 'shared'))
        fail(`needs a tensor, a shared tile or flags, not ${typeName(type)}`)
      const rank = type.kind === 'tensor' ? type.rank : type.shape.length
      if (indices.length !== rank) fail(`takes ${rank} indices, has ${indices.length}`)
      const shapes = indices.map((index) => expectIndex(index, 'an index').shape)
      if (shapes.some((shape) => !sameShape(shape, shapes[0]))) fail('the indices have different shapes')
      return refType(type.kind === 'tensor' ? 'global' : 'shared', type.dtype, shapes[0])
    },
  },
} as const satisfies Record<string, Op>
