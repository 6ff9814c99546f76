/** Views, memory and synchronisation as instructions of the checking machine. */
import type { DType } from '../../ir/dtype.ts'
import { attribute, type Node } from '../../ir/node.ts'
import { ops, type Datum, type Order, type Scope } from '../../ir/ops/index.ts'
import { elements, type RefType, type Shape } from '../../ir/type.ts'
import { accessOf, atomicChange, MASKED, OUTSIDE, type FlagSet, type Places } from './access.ts'
import type { Agent } from './agent.ts'
import { always, type Instruction } from './code.ts'
import type { BarrierState, Machine } from './machine.ts'
import { Buffer, type Accessor, type Allocation } from './memory.ts'

export interface TensorView {
  readonly allocation: Allocation
  readonly rank: number
  readonly offset: number
  readonly shape: readonly number[]
  readonly strides: readonly number[]
}
export interface FlagView {
  readonly flags: FlagSet
  readonly rank: number
  readonly index: number
}

const optional = (agent: Agent, register: number | undefined): unknown =>
  register === undefined ? undefined : agent.registers[register]
const number = (agent: Agent, register: number): number => agent.registers[register] as number

export function viewInstruction(node: Node, out: number, inputs: readonly number[]): Instruction | undefined {
  const plain = (run: (agent: Agent, machine: Machine) => unknown): Instruction => ({
    node,
    sync: false,
    run: (agent, machine) => void (agent.registers[out] = run(agent, machine)),
  })
  const [from] = inputs
  const kind = node.inputs[0]?.type.kind
  switch (node.op) {
    case 'on':
      return plain((agent, machine) => {
        const rank = number(agent, inputs[1])
        if (rank < 0 || rank >= machine.ranks)
          machine.stop(
            agent,
            node,
            'out-of-bounds',
            `there is no rank ${rank} in a world of ${machine.ranks}`,
          )
        return { ...(agent.registers[from] as TensorView | FlagView), rank }
      })
    case 'dim': {
      const axis = attribute<number>(node, 'axis')
      return plain((agent) =>
        kind === 'tensor'
          ? (agent.registers[from] as TensorView).shape[axis]
          : (agent.registers[from] as FlagView).flags.shape[axis],
      )
    }
    case 'epoch': {
      const side = attribute<string>(node, 'side')
      return plain((agent) => {
        const { flags } = agent.registers[from] as FlagView
        return (side === 'signal' ? flags.signalled : flags.waited)[agent.rank] + 1
      })
    }
    case 'slice': {
      const axis = attribute<number>(node, 'axis')
      return plain((agent, machine) => {
        const view = agent.registers[from] as TensorView
        const start = number(agent, inputs[1])
        const size = number(agent, inputs[2])
        if (start < 0 || size < 0 || start + size > view.shape[axis])
          machine.stop(
            agent,
            node,
            'out-of-bounds',
            `the slice [${start}, ${start + size}) of axis ${axis} of ${view.allocation.name} leaves its extent ${view.shape[axis]}`,
          )
        const shape = view.shape.map((extent, i) => (i === axis ? size : extent))
        return { ...view, shape, offset: view.offset + start * view.strides[axis] } satisfies TensorView
      })
    }
    case 'pick':
      return plain((agent, machine) => {
        const i = number(agent, inputs[1])
        const check = (extent: number, name: string): void => {
          if (i < 0 || i >= extent)
            machine.stop(agent, node, 'out-of-bounds', `index ${i} is outside the ${extent} of ${name}`)
        }
        if (kind === 'tensor') {
          const view = agent.registers[from] as TensorView
          check(view.shape[0], view.allocation.name)
          return {
            ...view,
            shape: view.shape.slice(1),
            strides: view.strides.slice(1),
            offset: view.offset + i * view.strides[0],
          } satisfies TensorView
        }
        if (kind === 'barriers') {
          const barriers = agent.registers[from] as BarrierState[]
          check(barriers.length, 'the barriers')
          return barriers[i]
        }
        const places = agent.registers[from] as Places
        const { shape } = node.inputs[0].type as RefType
        check(shape[0], places.buffer.name)
        const size = elements(shape) / shape[0]
        return {
          buffer: places.buffer,
          index: places.index.subarray(i * size, (i + 1) * size),
        } satisfies Places
      })
    case 'tile':
      return plain((agent, machine) => tilePlaces(agent, machine, node, inputs))
    case 'rows': {
      const width = attribute<number>(node, 'width')
      return plain((agent) => {
        const view = agent.registers[from] as TensorView
        const rows = agent.registers[inputs[1]] as Float64Array
        const start = number(agent, inputs[2]) * width
        const index = new Int32Array(rows.length * width)
        for (let i = 0; i < rows.length; i++)
          for (let j = 0; j < width; j++)
            index[i * width + j] =
              rows[i] < 0 || rows[i] >= view.shape[0]
                ? OUTSIDE
                : start + j >= view.shape[1]
                  ? MASKED
                  : view.offset + rows[i] * view.strides[0] + (start + j) * view.strides[1]
        return { buffer: view.allocation.buffers[view.rank], index } satisfies Places
      })
    }
    case 'at':
      return plain((agent, machine) => {
        if (kind === 'flags') return flagAt(agent, machine, node, inputs)
        return kind === 'tensor' ? elementPlaces(agent, inputs) : sharedPlaces(agent, node, inputs)
      })
    case 'transpose':
      return kind === 'ref'
        ? plain((agent) => {
            const places = agent.registers[from] as Places
            const [rows, columns] = (node.type as RefType).shape
            const index = new Int32Array(rows * columns)
            for (let i = 0; i < rows; i++)
              for (let j = 0; j < columns; j++) index[i * columns + j] = places.index[j * rows + i]
            return { buffer: places.buffer, index } satisfies Places
          })
        : undefined
    default:
      return undefined
  }
}

function tilePlaces(agent: Agent, machine: Machine, node: Node, inputs: readonly number[]): Places {
  const view = agent.registers[inputs[0]] as TensorView
  const shape = attribute<Shape>(node, 'shape')
  const start = shape.map((extent, axis) => number(agent, inputs[1 + axis]) * extent)
  start.forEach((from, axis) => {
    if (from < 0 || from >= Math.max(view.shape[axis], 1)) {
      const at = start.map((one, i) => one / shape[i]).join(', ')
      machine.stop(
        agent,
        node,
        'out-of-bounds',
        `tile [${at}] of ${shape.join(' x ')} lies wholly outside ${view.allocation.name}, which is ${view.shape.join(' x ')}`,
      )
    }
  })
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
  return { buffer: view.allocation.buffers[view.rank], index }
}

function elementPlaces(agent: Agent, inputs: readonly number[]): Places {
  const view = agent.registers[inputs[0]] as TensorView
  const indices = inputs.slice(1).map((register) => agent.registers[register] as Datum)
  return {
    buffer: view.allocation.buffers[view.rank],
    index: flatten(indices, view.shape, view.strides, view.offset),
  }
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
  return { buffer: places.buffer, index: flat.map((i) => (i < 0 ? i : places.index[i])) }
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

function flagAt(agent: Agent, machine: Machine, node: Node, inputs: readonly number[]): FlagView {
  const view = agent.registers[inputs[0]] as FlagView
  const at = inputs.slice(1).map((register) => number(agent, register))
  let index = 0
  at.forEach((i, axis) => {
    if (i < 0 || i >= view.flags.shape[axis])
      machine.stop(
        agent,
        node,
        'out-of-bounds',
        `flag [${at.join(', ')}] is outside ${view.flags.name}, which is ${view.flags.shape.join(' x ')}`,
      )
    index = index * view.flags.shape[axis] + i
  })
  return { ...view, index }
}

/** Whether places are single: then data are numbers, not arrays. */
const isScalar = (node: Node): boolean => (node.type as RefType).shape.length === 0

const taking = (mask: unknown, i: number): boolean =>
  mask === undefined || (typeof mask === 'number' ? mask !== 0 : (mask as Float64Array)[i] !== 0)
const element = (data: unknown, i: number): number =>
  typeof data === 'number' ? data : (data as Float64Array)[i]

function readPlaces(
  by: Accessor,
  agent: Agent,
  machine: Machine,
  places: Places,
  mask: unknown,
  other: unknown,
): Float64Array {
  const { buffer, index } = places
  const out = new Float64Array(index.length)
  for (let i = 0; i < out.length; i++) {
    const at = index[i]
    if (mask !== undefined && !taking(mask, i)) out[i] = other === undefined ? 0 : element(other, i)
    else if (at >= 0)
      out[i] = buffer.readQuickly(at, by)
        ? buffer.data[at]
        : machine.memory.read(by, agent.launch.kernel, buffer, at)
    else if (at === OUTSIDE) machine.memory.outside(by, agent.launch.kernel, buffer, 'reads')
  }
  return out
}

function readAll(agent: Agent, machine: Machine, node: Node, register: number): Float64Array {
  return readPlaces(
    accessOf(agent, node),
    agent,
    machine,
    agent.registers[register] as Places,
    undefined,
    undefined,
  )
}

function writePlaces(
  by: Accessor,
  agent: Agent,
  machine: Machine,
  places: Places,
  data: unknown,
  mask: unknown,
): void {
  agent.noteEffect()
  for (let i = 0; i < places.index.length; i++) {
    const at = places.index[i]
    if (!taking(mask, i)) continue
    if (at >= 0) machine.memory.write(by, agent.launch.kernel, places.buffer, at, element(data, i))
    else if (at === OUTSIDE) machine.memory.outside(by, agent.launch.kernel, places.buffer, 'writes')
  }
}

export function memoryInstruction(node: Node, out: number, inputs: readonly number[]): Instruction {
  const [first, second, third] = inputs
  const order = node.attributes.order as Order | undefined
  const scope = node.attributes.scope as Scope | undefined
  const plain = (run: (agent: Agent, machine: Machine) => void): Instruction => ({ node, sync: false, run })
  /** Strong accesses of the places in the first input commute with all others while nobody shares the places. */
  const strong = (run: (agent: Agent, machine: Machine) => void): Instruction => ({
    node,
    sync: true,
    run,
    commutes: (agent, machine) => isPrivate(machine, agent.registers[first] as Places),
  })

  switch (node.op) {
    case 'shared': {
      const { shape } = node.type as RefType
      const name = `the shared tile of ${node.site}`
      const count = elements(shape)
      const index = Int32Array.from({ length: count }, (_, i) => i)
      return plain(
        (agent) =>
          void (agent.registers[out] = {
            buffer: new Buffer(name, `${agent.rank}.${agent.program}.${out}`, -1, shape, count),
            index,
          } satisfies Places),
      )
    }
    case 'barriers': {
      const count = attribute<number>(node, 'count')
      const arrivals = attribute<number>(node, 'arrivals')
      return plain(
        (agent, machine) =>
          void (agent.registers[out] = Array.from({ length: count }, () => machine.newBarrier(arrivals))),
      )
    }
    case 'load': {
      const scalar = isScalar(node.inputs[0])
      if (order === undefined)
        return plain((agent, machine) => {
          const data = readPlaces(
            accessOf(agent, node),
            agent,
            machine,
            agent.registers[first] as Places,
            optional(agent, second),
            optional(agent, third),
          )
          agent.registers[out] = scalar ? data[0] : data
        })
      return strong((agent, machine) => {
        const places = agent.registers[first] as Places
        const data = new Float64Array(places.index.length)
        forTaking(agent, machine, node, places, second, 'reads', (i, at) => {
          data[i] = machine.memory.load(agent, node, places.buffer, at, order, scope!)
        })
        if (second !== undefined && third !== undefined)
          data.forEach(
            (_, i) => taking(agent.registers[second], i) || (data[i] = element(agent.registers[third], i)),
          )
        agent.registers[out] = scalar ? data[0] : data
      })
    }
    case 'store':
      if (order === undefined)
        return plain((agent, machine) =>
          writePlaces(
            accessOf(agent, node),
            agent,
            machine,
            agent.registers[first] as Places,
            agent.registers[second],
            optional(agent, third),
          ),
        )
      return strong((agent, machine) => {
        const places = agent.registers[first] as Places
        forTaking(agent, machine, node, places, third, 'writes', (i, at) => {
          machine.memory.store(
            agent,
            node,
            places.buffer,
            at,
            element(agent.registers[second], i),
            order,
            scope!,
          )
        })
      })
    case 'copy':
      return plain((agent, machine) =>
        copyPlaces(
          accessOf(agent, node),
          agent,
          machine,
          agent.registers[first] as Places,
          agent.registers[second] as Places,
          optional(agent, third),
        ),
      )
    case 'copy.async':
      return plain((agent, machine) => {
        const by = machine.beginCopy(agent, node)
        copyPlaces(
          by,
          agent,
          machine,
          agent.registers[first] as Places,
          agent.registers[second] as Places,
          undefined,
        )
        machine.attachCopy(by, agent.registers[third] as BarrierState)
      })
    case 'dot': {
      const refs = node.inputs.slice(0, 2).map((input) => input.type.kind === 'ref')
      return plain((agent, machine) => {
        const a = refs[0] ? readAll(agent, machine, node, first) : (agent.registers[first] as Float64Array)
        const b = refs[1] ? readAll(agent, machine, node, second) : (agent.registers[second] as Float64Array)
        agent.registers[out] = ops.dot.evaluate!(node, [a, b, agent.registers[third] as Float64Array])
      })
    }
    case 'signal':
      return {
        node,
        sync: true,
        run(agent, machine) {
          const { flags, rank, index } = agent.registers[first] as FlagView
          machine.memory.signal(agent, node, flags, rank, index, flags.signalled[agent.rank] + 1)
        },
        commutes(agent, machine) {
          const { flags, rank, index } = agent.registers[first] as FlagView
          return !machine.memory.isShared(flags.buffers[rank], index)
        },
      }
    case 'wait': {
      const lag = attribute<number>(node, 'lag')
      const epoch = (agent: Agent, flags: FlagSet): number => Math.max(flags.waited[agent.rank] + 1 - lag, 0)
      return {
        node,
        sync: true,
        ready(agent, machine) {
          const { flags, rank, index } = agent.registers[first] as FlagView
          return machine.memory.canWait(agent, flags, rank, index, epoch(agent, flags))
        },
        run(agent, machine) {
          const { flags, rank, index } = agent.registers[first] as FlagView
          machine.memory.wait(agent, node, flags, rank, index, epoch(agent, flags))
        },
        commutes: always,
        waiting(agent) {
          const { flags, rank, index } = agent.registers[first] as FlagView
          const buffer = flags.buffers[rank]
          return `waits for flag ${buffer.describe(index)}: it is ${buffer.data[index]}, wanted ${epoch(agent, flags) * flags.arrivals}`
        },
      }
    }
    case 'fence':
      return {
        node,
        sync: true,
        run: (agent, machine) => machine.memory.fence(agent, order!, scope!),
        commutes: () => order !== 'seqCst',
      }
    case 'barrier':
      return {
        node,
        sync: true,
        ready: (agent, machine) => machine.canMeet(agent),
        run: (agent, machine) => machine.meet(agent),
        commutes: always,
        waiting: (agent, machine) => `waits at a barrier for ${machine.missing(agent).join(' and ')}`,
      }
    case 'barrier.arrive':
      return plain((agent, machine) => machine.arrive(agent, agent.registers[first] as BarrierState))
    case 'barrier.wait':
      return {
        node,
        sync: true,
        ready: (agent) => barrierReady(agent.registers[first] as BarrierState, number(agent, second)),
        run: (agent, machine) =>
          machine.awaitBarrier(agent, node, agent.registers[first] as BarrierState, number(agent, second)),
        commutes: always,
        waiting(agent) {
          const barrier = agent.registers[first] as BarrierState
          return `waits for phase ${number(agent, second)} of a barrier that has completed ${barrier.completed} phases and counts ${barrier.arrived} of ${barrier.arrivals} arrivals`
        },
      }
    default: {
      if (!node.op.startsWith('atomic.')) throw new Error(`${node.op} cannot be executed`)
      const { dtype } = node.type as { dtype: DType }
      const operands = node.op === 'atomic.cas' ? 2 : 1
      const scalar = isScalar(node.inputs[0])
      return strong((agent, machine) => {
        const places = agent.registers[first] as Places
        const data = new Float64Array(places.index.length)
        forTaking(agent, machine, node, places, inputs[1 + operands], 'updates', (i, at) => {
          const value = element(agent.registers[second], i)
          const desired = operands === 2 ? element(agent.registers[third], i) : 0
          data[i] = machine.memory.modify(
            agent,
            node,
            places.buffer,
            at,
            atomicChange(node, dtype, value, desired),
            order!,
            scope!,
          )
        })
        agent.registers[out] = scalar ? data[0] : data
      })
    }
  }
}

function isPrivate(machine: Machine, places: Places): boolean {
  return places.index.every((at) => at < 0 || !machine.memory.isShared(places.buffer, at))
}

export const barrierReady = (barrier: BarrierState, phase: number): boolean =>
  ((barrier.completed - (phase + 1)) & 1) === 0

function forTaking(
  agent: Agent,
  machine: Machine,
  node: Node,
  places: Places,
  mask: number | undefined,
  verb: string,
  act: (i: number, at: number) => void,
): void {
  const lanes = mask === undefined ? undefined : agent.registers[mask]
  for (let i = 0; i < places.index.length; i++) {
    if (!taking(lanes, i)) continue
    const at = places.index[i]
    if (at >= 0) act(i, at)
    else if (at === OUTSIDE)
      machine.memory.outside(accessOf(agent, node), agent.launch.kernel, places.buffer, verb)
  }
}

/** Shared memory takes zeros where the source is masked; global memory only what lies inside. */
function copyPlaces(
  by: Accessor,
  agent: Agent,
  machine: Machine,
  from: Places,
  to: Places,
  mask: unknown,
): void {
  agent.noteEffect()
  const { memory } = machine
  const { kernel } = agent.launch
  for (let i = 0; i < to.index.length; i++) {
    if (mask !== undefined && !taking(mask, i)) continue
    const source = from.index[i]
    const target = to.index[i]
    if (source === OUTSIDE) memory.outside(by, kernel, from.buffer, 'reads')
    else if (target === OUTSIDE) memory.outside(by, kernel, to.buffer, 'writes')
    else if (target >= 0 && source >= 0)
      memory.write(
        by,
        kernel,
        to.buffer,
        target,
        from.buffer.readQuickly(source, by)
          ? from.buffer.data[source]
          : memory.read(by, kernel, from.buffer, source),
      )
    else if (target >= 0 && to.buffer.rank < 0) memory.write(by, kernel, to.buffer, target, 0)
  }
}
