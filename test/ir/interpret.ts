/**
 * A small interpreter of IR for one program on one rank, independent of the op records, so that passes can be compared
 * with it. The interpreter runs the roles of a program interleaved. An asynchronous copy poisons its target until the
 * phase of its barrier completes.
 */
import type { Block, KernelIR, Node } from '../../src/ir/node.ts'
import type { RefType, ValueType } from '../../src/ir/type.ts'

export interface Memory {
  readonly data: number[]
  readonly extents: readonly number[]
}
export interface Launch {
  readonly tensors: Readonly<Record<string, Memory>>
  readonly scalars?: Readonly<Record<string, number>>
  readonly program?: number
  readonly programs?: number
  /**
   * The role that runs if several roles can run: the first role as far as possible, the last role as far as possible,
   * or the roles in turn.
   */
  readonly schedule?: 'ahead' | 'behind' | 'turns'
}
/** The events that other programs could observe, in order: stores to tensors, signals and waits. */
export type Trace = string[]

interface View {
  readonly name: string
  readonly data: number[]
  readonly offset: number
  readonly extents: readonly number[]
  readonly strides: readonly number[]
}
interface Places {
  readonly name: string
  readonly data: number[]
  /** The offset of each element, or -1 if the element is outside the tensor. */
  readonly at: readonly number[]
}
interface BarrierState {
  readonly arrivals: number
  arrived: number
  phase: number
  readonly pending: (() => void)[]
}
type Slot = number | number[] | View | Places | BarrierState | BarrierState[]
type Steps = Generator<undefined, number[] | (number | number[])[], undefined>

const binary: Readonly<Record<string, (a: number, b: number, isFloat: boolean) => number>> = {
  add: (a, b, isFloat) => (isFloat ? a + b : (a + b) | 0),
  sub: (a, b, isFloat) => (isFloat ? a - b : (a - b) | 0),
  mul: (a, b, isFloat) => (isFloat ? a * b : Number(BigInt.asIntN(32, BigInt(a) * BigInt(b)))),
  div: (a, b, isFloat) => (isFloat ? a / b : Number(BigInt.asIntN(32, BigInt(a) / BigInt(b)))),
  mod: (a, b) => Number(BigInt(a) % BigInt(b)),
  min: (a, b) => (a < b ? a : b),
  max: (a, b) => (a > b ? a : b),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => a << b,
  shr: (a, b) => a >> b,
  eq: (a, b) => Number(a === b),
  ne: (a, b) => Number(a !== b),
  lt: (a, b) => Number(a < b),
  le: (a, b) => Number(a <= b),
  gt: (a, b) => Number(a > b),
  ge: (a, b) => Number(a >= b),
}

/** Executes the kernel on the launch's tensors, in place. */
export function interpret(ir: KernelIR, launch: Launch): Trace {
  const trace: Trace = []
  const values = new Map<Node, Slot>()
  const left = new Map<Node, readonly (number | number[])[]>()
  for (const param of ir.body.params) {
    const name = String(param.attributes.name)
    const given = launch.tensors[name]
    if (param.type.kind === 'value') values.set(param, launch.scalars?.[name] ?? 0)
    else values.set(param, viewOf(name, given?.data ?? [], given?.extents ?? []))
  }
  const number = (node: Node): number => values.get(node) as number
  const elementsOf = (node: Node): number[] => {
    const value = values.get(node) as number | number[]
    return typeof value === 'number' ? [value] : value
  }
  const shapeOf = (node: Node): readonly number[] => (node.type as ValueType | RefType).shape
  const asSlot = (node: Node, list: number[]): Slot => (shapeOf(node).length === 0 ? list[0] : list)

  function* block(body: Block, args: readonly Slot[]): Steps {
    body.params.forEach((param, i) => values.set(param, args[i]))
    for (const node of body.nodes) {
      if (node.blocks.length > 0) left.set(node, yield* control(node))
      else yield* step(node)
    }
    return body.results.map((result) => values.get(result) as number | number[])
  }

  function* control(node: Node): Steps {
    const state = (leading: number) =>
      node.inputs.slice(leading).map((input) => values.get(input) as number | number[])
    const [body] = node.blocks
    switch (node.op) {
      case 'if':
        return yield* block(node.blocks[number(node.inputs[0]) ? 0 : 1], [])
      case 'for': {
        const [low, high, by] = node.inputs.map(number)
        let current: (number | number[])[] = state(3)
        for (let i = low; i < high; i += by) current = yield* block(body, [i, ...current])
        return current
      }
      case 'while': {
        let current: (number | number[])[] = state(0)
        while ((yield* block(body, current))[0]) current = yield* block(node.blocks[1], current)
        return current
      }
      case 'persistent':
      case 'pipeline': {
        const leading = node.op === 'persistent' ? 2 : 0
        const axes = node.attributes.axes as number
        const extents = node.inputs.slice(leading, leading + axes).map(number)
        const [start, stride] = leading ? node.inputs.map(number) : [0, 1]
        let current: (number | number[])[] = state(leading + axes)
        for (const [i, point] of points(extents).entries())
          if (i >= start && (i - start) % stride === 0) current = yield* block(body, [...point, ...current])
        return current
      }
      case 'roles':
        together(node.blocks.map((role) => block(role, [])))
        return []
      case 'teams': {
        let [program] = node.inputs.map(number)
        for (const [i, team] of node.blocks.entries()) {
          const size = number(node.inputs[1 + i])
          if (program >= 0 && program < size) yield* block(team, [program, size])
          program -= size
        }
        return []
      }
      case 'last':
        return yield* block(body, [])
      default:
        throw new Error(`interpret: ${node.op}`)
    }
  }

  /** Runs roles until all have ended. A role yields if it cannot continue. */
  function together(roles: Steps[]): void {
    let running = launch.schedule === 'behind' ? [...roles].reverse() : roles
    while (running.length > 0) {
      const before = progress
      const done = new Set<Steps>()
      for (const role of running) {
        const limit = launch.schedule === 'turns' ? 1 : Infinity
        for (let turns = 0; turns < limit; turns++) {
          const mark = progress
          if (role.next().done) {
            done.add(role)
            progress++
            break
          }
          if (progress === mark) break
        }
      }
      running = running.filter((role) => !done.has(role))
      if (progress === before) throw new Error('interpret: the roles wait for each other')
    }
  }
  let progress = 0

  function* step(node: Node): Generator<undefined, void, undefined> {
    const inputs = node.inputs
    switch (node.op) {
      case 'barrier.wait': {
        const barrier = values.get(inputs[0]) as BarrierState
        while (barrier.phase <= number(inputs[1])) yield
        progress++
        yield
        return
      }
      case 'barrier.arrive':
        arrive(values.get(inputs[0]) as BarrierState)
        progress++
        yield
        return
      case 'copy.async': {
        const [from, to] = inputs.slice(0, 2).map((input) => values.get(input) as Places)
        const read = from.at.map((at) => (at < 0 ? 0 : from.data[at]))
        to.at.forEach((at) => (to.data[at] = NaN))
        const barrier = values.get(inputs[2]) as BarrierState
        barrier.pending.push(() => to.at.forEach((at, i) => (to.data[at] = read[i])))
        return
      }
      case 'copy':
      case 'store': {
        const to = values.get(inputs[node.op === 'copy' ? 1 : 0]) as Places
        const mask = inputs[2] && elementsOf(inputs[2])
        const from = node.op === 'copy' ? (values.get(inputs[0]) as Places) : undefined
        const written = from ? from.at.map((at) => (at < 0 ? 0 : from.data[at])) : elementsOf(inputs[1])
        to.at.forEach((at, i) => {
          if (at < 0 || (mask && !mask[i])) return
          if (from && from.at[i] < 0 && to.name !== 'shared') return
          to.data[at] = written[i]
          if (to.name !== 'shared') trace.push(`${to.name}[${at}] = ${written[i]}`)
        })
        return
      }
      case 'atomic.add': {
        const to = values.get(inputs[0]) as Places
        const add = elementsOf(inputs[1])
        const before = to.at.map((at) => to.data[at])
        to.at.forEach((at, i) => (to.data[at] += add[i]))
        values.set(node, asSlot(node, before))
        trace.push(`${to.name} += ${add.join()}`)
        return
      }
      case 'signal':
      case 'wait':
        trace.push(`${node.op} ${(values.get(inputs[0]) as View).name}`)
        return
      case 'reached':
        values.set(node, 1)
        return
      case 'barrier':
      case 'fence':
        return
      default:
        values.set(node, value(node))
    }
  }

  function value(node: Node): Slot {
    const inputs = node.inputs
    const [first] = inputs
    switch (node.op) {
      case 'const':
        return node.attributes.value as number
      case 'iota':
        return Array.from({ length: node.attributes.extent as number }, (_, i) => i)
      case 'rank':
        return 0
      case 'program':
        return launch.program ?? 0
      case 'programs':
        return launch.programs ?? 1
      case 'epoch':
        return 1
      case 'result':
        return left.get(first)![node.attributes.index as number]
      case 'shared': {
        const shape = shapeOf(node)
        const data = new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(NaN)
        return { name: 'shared', data, at: data.map((_, i) => i) }
      }
      case 'barriers':
        return Array.from({ length: node.attributes.count as number }, () => ({
          arrivals: node.attributes.arrivals as number,
          arrived: 0,
          phase: 0,
          pending: [],
        }))
      case 'dim':
        return (values.get(first) as View).extents[node.attributes.axis as number]
      case 'on':
        return values.get(first)!
      case 'slice': {
        const view = values.get(first) as View
        const axis = node.attributes.axis as number
        const [start, size] = inputs.slice(1).map(number)
        return {
          ...view,
          offset: view.offset + start * view.strides[axis],
          extents: view.extents.map((extent, i) => (i === axis ? size : extent)),
        }
      }
      case 'pick':
        return pick(values.get(first)!, number(inputs[1]), node)
      case 'tile': {
        const view = values.get(first) as View
        const shape = shapeOf(node)
        const origin = shape.map((extent, axis) => extent * number(inputs[1 + axis]))
        return places(
          view,
          points(shape).map((point) => point.map((p, axis) => p + origin[axis])),
        )
      }
      case 'rows': {
        const [indices, width] = [elementsOf(inputs[1]), node.attributes.width as number]
        const column = number(inputs[2]) * width
        const view = values.get(first) as View
        return places(
          view,
          points(shapeOf(node)).map(([i, j]) => [indices[i], column + j]),
        )
      }
      case 'at': {
        const base = values.get(first) as View | Places
        if (first.type.kind === 'flags') return base
        const indices = inputs.slice(1).map(elementsOf)
        const all = indices[0].map((_, lane) => indices.map((index) => index[lane]))
        if ('offset' in base) return places(base, all)
        const view = viewOf(base.name, base.data, shapeOf(first))
        const within = places(view, all).at
        return { ...base, at: within.map((i) => base.at[i]) }
      }
      case 'transpose': {
        const [m, n] = shapeOf(first)
        const turn = <T>(list: readonly T[]): T[] => points([n, m]).map(([j, i]) => list[i * n + j])
        const input = values.get(first) as number[] | Places
        return Array.isArray(input) ? turn(input) : { ...input, at: turn(input.at) }
      }
      case 'load': {
        const from = values.get(first) as Places
        const mask = inputs[1] && elementsOf(inputs[1])
        const other = inputs[2] ? elementsOf(inputs[2]) : undefined
        const read = from.at.map((at, i) =>
          mask && !mask[i] ? (other?.[i] ?? 0) : at < 0 ? 0 : from.data[at],
        )
        return asSlot(node, read)
      }
      case 'broadcast': {
        const from = elementsOf(first)
        const shape = shapeOf(node)
        const source = [...shape.map(() => 1).slice(shapeOf(first).length), ...shapeOf(first)]
        const strides = stridesOf(source).map((stride, axis) => (source[axis] === 1 ? 0 : stride))
        return points(shape).map((point) => from[point.reduce((sum, p, axis) => sum + p * strides[axis], 0)])
      }
      case 'expand':
        return elementsOf(first)
      case 'reduce.sum': {
        const [list, shape, axis] = [elementsOf(first), shapeOf(first), node.attributes.axis as number]
        const sums = new Map<string, number>()
        points(shape).forEach((point, i) => {
          const key = point.filter((_, one) => one !== axis).join()
          sums.set(key, (sums.get(key) ?? 0) + list[i])
        })
        return asSlot(node, [...sums.values()])
      }
      case 'dot': {
        const read = (input: Node): number[] => {
          const operand = values.get(input) as number[] | Places
          return Array.isArray(operand) ? operand : operand.at.map((at) => operand.data[at])
        }
        const [a, b, c] = inputs.map(read)
        const [[m, k], [, n]] = inputs.map(shapeOf)
        return points([m, n]).map(([i, j]) =>
          points([k]).reduce((sum, [l]) => sum + a[i * k + l] * b[l * n + j], c[i * n + j]),
        )
      }
      case 'cast': {
        const isInt = (node.type as ValueType).dtype === 'i32'
        return asSlot(
          node,
          elementsOf(first).map((x) => (isInt ? Math.trunc(x) : x)),
        )
      }
      case 'neg':
        return asSlot(
          node,
          elementsOf(first).map((x) => (isFloat(first) ? -x : -x | 0)),
        )
      case 'not':
        return asSlot(
          node,
          elementsOf(first).map((x) => ((first.type as ValueType).dtype === 'bool' ? 1 - x : ~x)),
        )
      case 'select': {
        const [mask, yes, no] = inputs.map(elementsOf)
        return asSlot(
          node,
          mask.map((isOn, i) => (isOn ? yes[i] : no[i])),
        )
      }
      default: {
        const f = binary[node.op]
        if (!f) throw new Error(`interpret: ${node.op}`)
        const [a, b] = inputs.map(elementsOf)
        return asSlot(
          node,
          a.map((x, i) => f(x, b[i], isFloat(first))),
        )
      }
    }
  }

  const steps = block(
    ir.body,
    ir.body.params.map((param) => values.get(param)!),
  )
  while (!steps.next().done);
  return trace
}

const isFloat = (node: Node): boolean => (node.type as ValueType).dtype === 'f32'

function arrive(barrier: BarrierState): void {
  if (++barrier.arrived < barrier.arrivals) return
  barrier.arrived = 0
  barrier.phase++
  barrier.pending.splice(0).forEach((land) => land())
}

function stridesOf(extents: readonly number[]): number[] {
  return extents.map((_, axis) => extents.slice(axis + 1).reduce((a, b) => a * b, 1))
}

function viewOf(name: string, data: number[], extents: readonly number[]): View {
  return { name, data, offset: 0, extents, strides: stridesOf(extents) }
}

/** All index tuples of a shape, in order. The last axis varies fastest. */
function points(shape: readonly number[]): number[][] {
  return shape.reduce<number[][]>(
    (prefixes, extent) =>
      prefixes.flatMap((prefix) => Array.from({ length: Math.max(0, extent) }, (_, i) => [...prefix, i])),
    [[]],
  )
}

function places(view: View, all: readonly (readonly number[])[]): Places {
  const at = all.map((point) =>
    point.every((p, axis) => p >= 0 && p < view.extents[axis])
      ? point.reduce((sum, p, axis) => sum + p * view.strides[axis], view.offset)
      : -1,
  )
  return { name: view.name, data: view.data, at }
}

function pick(of: Slot, i: number, node: Node): Slot {
  if (Array.isArray(of)) return (of as BarrierState[])[i]
  if (typeof of === 'object' && 'offset' in of)
    return {
      ...of,
      offset: of.offset + i * of.strides[0],
      extents: of.extents.slice(1),
      strides: of.strides.slice(1),
    }
  const { at, ...rest } = of as Places
  const count = (node.type as RefType).shape.reduce((a, b) => a * b, 1)
  return { ...rest, at: at.slice(i * count, (i + 1) * count) }
}
