/**
 * Compiles views to instructions, each of which selects a rank's copy of a tensor and some of its elements. A view that
 * exceeds its tensor is reported when the kernel uses it.
 */
import { attribute, type Node } from '../../ir/node.ts'
import type { Datum } from '../../ir/ops/index.ts'
import { elements, type RefType, type Shape } from '../../ir/type.ts'
import { groupName, inWorld } from '../../world/members.ts'
import { MASKED, OUTSIDE, type Places, type WrongView } from './access.ts'
import type { Agent } from './agent.ts'
import type { ArrivalBarrier } from './barrier.ts'
import type { Instruction, Maker } from './code.ts'
import type { FlagView } from './flags.ts'
import type { Machine } from './machine.ts'
import type { Allocation } from './memory.ts'

export interface TensorView {
  readonly allocation: Allocation
  readonly rank: number
  readonly offset: number
  readonly shape: readonly number[]
  readonly strides: readonly number[]
  readonly wrong?: WrongView
}

const number = (agent: Agent, register: number): number => agent.registers[register] as number

/**
 * The elements of a tensor that a view selects. If the view exceeds its bounds, every index is OUTSIDE, so any access
 * is an error.
 */
const placesOf = (
  { allocation, rank, wrong }: TensorView,
  index: Int32Array,
  rest: Pick<Places, 'mayRepeat'> = {},
): Places => ({
  buffer: allocation.buffers[rank],
  index: wrong ? index.fill(OUTSIDE) : index,
  ...rest,
  wrong,
})

const leaves = (node: Node, i: number, extent: number, name: string): WrongView | undefined =>
  i >= 0 && i < extent
    ? undefined
    : { node, message: `index ${i} is outside ${name}, which has extent ${extent}` }

/** An instruction that stores the result of the function `make` in the register `out`. */
const plain = (node: Node, out: number, make: (agent: Agent, machine: Machine) => unknown): Instruction => ({
  node,
  sync: false,
  run: (agent, machine) => void (agent.registers[out] = make(agent, machine)),
})

export const on: Maker = (node, out, [from, owner]) =>
  plain(node, out, (agent, machine) => {
    const rank = number(agent, owner)
    const view = agent.registers[from] as TensorView | FlagView
    const { members } = agent.launch
    if (rank >= 0 && rank < (members?.length ?? machine.ranks))
      return { ...view, rank: inWorld(members, rank) }
    const message = `there is no rank ${rank} in ${members ? groupName(members) : `a world of ${machine.ranks}`}`
    return { ...view, wrong: view.wrong ?? { node, message } }
  })

export const dim: Maker = (node, out, [from]) => {
  const axis = attribute<number>(node, 'axis')
  const isTensor = node.inputs[0].type.kind === 'tensor'
  return plain(node, out, (agent) =>
    isTensor
      ? (agent.registers[from] as TensorView).shape[axis]
      : (agent.registers[from] as FlagView).flags.shape[axis],
  )
}

export const epoch: Maker = (node, out, [from]) => {
  const side = attribute<string>(node, 'side')
  return plain(node, out, (agent) => {
    const { flags } = agent.registers[from] as FlagView
    return agent.launch.epochs.get(flags)![side as 'signal' | 'wait']
  })
}

export const slice: Maker = (node, out, [from, low, extent]) => {
  const axis = attribute<number>(node, 'axis')
  return plain(node, out, (agent) => {
    const view = agent.registers[from] as TensorView
    const start = number(agent, low)
    const size = number(agent, extent)
    const shape = view.shape.map((all, i) => (i === axis ? size : all))
    const sliced: TensorView = { ...view, shape, offset: view.offset + start * view.strides[axis] }
    if (start >= 0 && size >= 0 && start + size <= view.shape[axis]) return sliced
    const message = `the slice [${start}, ${start + size}) of axis ${axis} of ${view.allocation.name} exceeds its extent ${view.shape[axis]}`
    return { ...sliced, wrong: view.wrong ?? { node, message } } satisfies TensorView
  })
}

export const pick: Maker = (node, out, [from, at]) => {
  const { kind } = node.inputs[0].type
  return plain(node, out, (agent) => {
    const i = number(agent, at)
    if (kind === 'tensor') {
      const view = agent.registers[from] as TensorView
      return {
        ...view,
        shape: view.shape.slice(1),
        strides: view.strides.slice(1),
        offset: view.offset + i * view.strides[0],
        wrong: view.wrong ?? leaves(node, i, view.shape[0], view.allocation.name),
      } satisfies TensorView
    }
    if (kind === 'barriers') {
      const barriers = agent.registers[from] as ArrivalBarrier[]
      return leaves(node, i, barriers.length, 'the barriers') ?? barriers[i]
    }
    const places = agent.registers[from] as Places
    const { shape } = node.inputs[0].type as RefType
    const wrong = places.wrong ?? leaves(node, i, shape[0], places.buffer.name)
    const size = elements(shape) / shape[0]
    const index = wrong ? new Int32Array(size).fill(OUTSIDE) : places.index.subarray(i * size, (i + 1) * size)
    return { ...places, index, wrong } satisfies Places
  })
}

export const tile: Maker = (node, out, inputs) => plain(node, out, (agent) => tilePlaces(agent, node, inputs))

export const rows: Maker = (node, out, [from, indices, column]) => {
  const width = attribute<number>(node, 'width')
  return plain(node, out, (agent) => {
    const view = agent.registers[from] as TensorView
    const gathered = agent.registers[indices] as Float64Array
    const start = number(agent, column) * width
    const index = new Int32Array(gathered.length * width)
    if (start < 0 || start >= Math.max(view.shape[1], 1)) {
      const message = `columns ${start} to ${start + width - 1} are wholly outside ${view.allocation.name}, which has ${view.shape[1]} columns`
      return placesOf({ ...view, wrong: view.wrong ?? { node, message } }, index)
    }
    for (let i = 0; i < gathered.length; i++)
      for (let j = 0; j < width; j++)
        index[i * width + j] =
          gathered[i] < 0 || gathered[i] >= view.shape[0]
            ? OUTSIDE
            : start + j >= view.shape[1]
              ? MASKED
              : view.offset + gathered[i] * view.strides[0] + (start + j) * view.strides[1]
    return placesOf(view, index, { mayRepeat: true })
  })
}

export const at: Maker = (node, out, inputs) => {
  const { kind } = node.inputs[0].type
  return plain(node, out, (agent) => {
    if (kind === 'flags') return flagAt(agent, node, inputs)
    return kind === 'tensor' ? elementPlaces(agent, inputs) : sharedPlaces(agent, node, inputs)
  })
}

/** Transposes a view of a shared tile. */
export const transpose: Maker = (node, out, [from]) =>
  plain(node, out, (agent) => {
    const places = agent.registers[from] as Places
    const [rows, columns] = (node.type as RefType).shape
    const index = new Int32Array(rows * columns)
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) index[i * columns + j] = places.index[j * rows + i]
    return { ...places, index } satisfies Places
  })

function tilePlaces(agent: Agent, node: Node, inputs: readonly number[]): Places {
  const view = agent.registers[inputs[0]] as TensorView
  const shape = attribute<Shape>(node, 'shape')
  const start = shape.map((extent, axis) => number(agent, inputs[1 + axis]) * extent)
  const isOutside = start.some((from, axis) => from < 0 || from >= Math.max(view.shape[axis], 1))
  if (view.wrong || isOutside) {
    const at = start.map((one, i) => one / shape[i]).join(', ')
    const message = `tile [${at}] of ${shape.join(' x ')} is wholly outside ${view.allocation.name}, which is ${view.shape.join(' x ')}`
    return placesOf({ ...view, wrong: view.wrong ?? { node, message } }, new Int32Array(elements(shape)))
  }
  const [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape
  const [top, left] = shape.length === 1 ? [0, start[0]] : start
  const [height, width] = shape.length === 1 ? [1, view.shape[0]] : view.shape
  const [down, right] = shape.length === 1 ? [0, view.strides[0]] : view.strides
  const index = new Int32Array(rows * columns)
  for (let i = 0; i < rows; i++) {
    const row = view.offset + (top + i) * down
    for (let j = 0; j < columns; j++)
      index[i * columns + j] = top + i < height && left + j < width ? row + (left + j) * right : MASKED
  }
  return placesOf(view, index)
}

function elementPlaces(agent: Agent, inputs: readonly number[]): Places {
  const view = agent.registers[inputs[0]] as TensorView
  const indices = inputs.slice(1).map((register) => agent.registers[register] as Datum)
  return placesOf(view, flatten(indices, view.shape, view.strides, view.offset), { mayRepeat: true })
}

function sharedPlaces(agent: Agent, node: Node, inputs: readonly number[]): Places {
  const places = agent.registers[inputs[0]] as Places
  const { shape } = node.inputs[0].type as RefType
  const strides = shape.map((_, axis) => elements(shape.slice(axis + 1)))
  const flat = flatten(
    inputs.slice(1).map((register) => agent.registers[register] as Datum),
    shape,
    strides,
    0,
  )
  return { ...places, index: flat.map((i) => (i < 0 ? i : places.index[i])), mayRepeat: true }
}

function flatten(
  indices: readonly Datum[],
  shape: readonly number[],
  strides: readonly number[],
  offset: number,
): Int32Array {
  const count = typeof indices[0] === 'number' ? 1 : indices[0].length
  const out = new Int32Array(count)
  for (let i = 0; i < count; i++) {
    let flat = offset
    for (let axis = 0; axis < indices.length; axis++) {
      const all = indices[axis]
      const at = typeof all === 'number' ? all : all[i]
      if (at < 0 || at >= shape[axis]) {
        flat = OUTSIDE
        break
      }
      flat += at * strides[axis]
    }
    out[i] = flat
  }
  return out
}

function flagAt(agent: Agent, node: Node, inputs: readonly number[]): FlagView {
  const view = agent.registers[inputs[0]] as FlagView
  const { name, shape } = view.flags
  const at = inputs.slice(1).map((register) => number(agent, register))
  if (at.every((i, axis) => i >= 0 && i < shape[axis]))
    return { ...view, index: at.reduce((flat, i, axis) => flat * shape[axis] + i, 0) }
  const message = `flag [${at.join(', ')}] is outside ${name}, which is ${shape.join(' x ')}`
  return { ...view, wrong: view.wrong ?? { node, message } }
}
