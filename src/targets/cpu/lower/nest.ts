/**
 * Generates loop nests over the elements of a fragment. A loop nest has two loops and three code positions: before both
 * loops, in the outer loop, and in the inner loop. Every value is computed at the outermost position at which its
 * indices are known, so that inner loops recompute nothing. In a vector nest, the column index advances by the number
 * of lanes of a vector.
 */
import type { StorageDType } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, opsWith, type ElementwiseName, type OpName, type OpWith } from '../../../ir/ops/index.ts'
import {
  add,
  address,
  binary,
  compare,
  constant,
  i32,
  lanes,
  select,
  splat,
  step,
  unary,
  use,
} from '../build.ts'
import type { CodeType, Expression, Local, Statement } from '../code.ts'
import { valueOf, type Lowering } from './context.ts'
import { isVector, memoryKind, rawCodeType, valueCodeType, widen } from './convert.ts'
import { element, hasVectorForm, uniform } from './elements.ts'
import { extentsOf, storedBytes, type Buffer } from './frame.ts'
import { isFragment } from './plan.ts'
import { scalar } from './scalars.ts'
import { refView, type PlacesView, type TileView } from './views.ts'

/** The index with which a loop nest reads an axis of a fragment: 0, the row index or the column index of the nest. */
export type Axis = 'zero' | 'row' | 'column'
export type Level = 0 | 1 | 2

export interface NestIndices {
  readonly row: Expression
  readonly column: Expression
  readonly outer: 'row' | 'column'
  readonly vector: boolean
  /** The statement lists before the loops, in the outer loop and in the inner loop. */
  readonly places: readonly [Statement[], Statement[], Statement[]]
}

/**
 * Rows that are read instead of a load's own rows: a zero-padded copy of a tile that extends past its tensor's edge.
 */
export interface Rows {
  readonly base: Expression
  readonly stride: Expression
}

export class Nest {
  readonly l: Lowering
  readonly vector: boolean
  readonly #indices: NestIndices
  readonly #loads: ReadonlyMap<Node, Rows>
  readonly #known = new Map<string, Expression>()
  readonly #numbers = new Map<Node, number>()

  constructor(l: Lowering, indices: NestIndices, loads: ReadonlyMap<Node, Rows>) {
    this.l = l
    this.vector = indices.vector
    this.#indices = indices
    this.#loads = loads
  }

  index(axis: Axis): Expression {
    return axis === 'zero' ? i32(0) : this.#indices[axis]
  }
  level(...axes: readonly Axis[]): Level {
    return axes.some((axis) => axis !== 'zero' && axis !== this.#indices.outer)
      ? 2
      : axes.some((axis) => axis !== 'zero')
        ? 1
        : 0
  }
  isVectorAt(row: Axis, column: Axis): boolean {
    return this.vector && (row === 'column' || column === 'column')
  }

  /** Emits code at one of the three positions of the nest. */
  within<T>(level: Level, write: () => T): T {
    const { writer } = this.l
    const outer = writer.statements
    writer.statements = this.#indices.places[level]
    try {
      return write()
    } finally {
      writer.statements = outer
    }
  }

  #once(key: string, level: Level, make: () => Expression | Local): Expression {
    let value = this.#known.get(key)
    if (!value) {
      value = this.within(level, () => {
        const made = use(make())
        return made.kind === 'local' || made.kind === 'const' ? made : use(this.l.writer.let('element', made))
      })
      this.#known.set(key, value)
    }
    return value
  }
  #number(node: Node): number {
    let number = this.#numbers.get(node)
    if (number === undefined) this.#numbers.set(node, (number = this.#numbers.size))
    return number
  }

  /**
   * The value of an element of a fragment, or of a scalar. If the column axis uses the nest's column index, the value
   * is a vector of elements.
   */
  value(node: Node, row: Axis, column: Axis): Expression {
    if (!isFragment(node)) return scalar(this.l, node)
    const buffer = this.l.buffers.get(node)
    if (buffer) return this.#fromBuffer(buffer, row, column)
    return this.compute(node, row, column)
  }

  /** Computes an element of a fragment from the inputs of the fragment's node. */
  compute(node: Node, row: Axis, column: Axis): Expression {
    const key = `${this.#number(node)} ${row} ${column}`
    return this.#once(key, this.level(row, column), () => this.#make(node, row, column))
  }

  /** Converts a scalar to a vector if a vector is needed. */
  shaped(value: Expression, vector: boolean, isBool = false): Expression {
    if (!vector || isVector(value.type)) return value
    // A true mask is 1 in a scalar but -1 in a vector lane.
    if (isBool)
      return value.kind === 'const'
        ? constant('vi32', value.value ? -1 : 0)
        : splat(binary('sub', i32(0), value))
    return splat(value)
  }

  input(node: Node, row: Axis, column: Axis, vector: boolean): Expression {
    const value = this.value(node, row, column)
    if (!vector || isVector(value.type)) return value
    // A scalar from an outer position of the loop nest is broadcast to a vector at that outer position.
    const from = uniform(node)
    const level = from ? 0 : this.level(row, column)
    return this.#once(`splat ${this.#number(node)} ${row} ${column}`, level, () =>
      this.shaped(value, true, valueOf(node).dtype === 'bool'),
    )
  }

  #make(node: Node, row: Axis, column: Axis): Expression {
    return entryOf(byElements, node, 'is not computed by elements').make(this, node, row, column)
  }

  // Memory accesses in a loop nest

  /** The address of an element, given the base address and the row stride. */
  place(
    key: string,
    base: Expression,
    stride: number | Expression,
    bytes: number,
    row: Axis,
    column: Axis,
  ): Expression {
    const line = this.#once(`row ${key} ${row}`, this.level(row), () =>
      row === 'zero'
        ? base
        : typeof stride === 'number'
          ? address(base, this.index(row), stride)
          : step(base, this.index(row), stride),
    )
    return this.#once(`place ${key} ${row} ${column}`, this.level(row, column), () =>
      column === 'zero' ? line : address(line, this.index(column), bytes),
    )
  }

  /**
   * Buffers with the same stride share address computations. The load or store instruction itself adds the buffer's
   * offset.
   */
  bufferPlace(buffer: Buffer, row: Axis, column: Axis): Expression {
    const key = `frame ${buffer.stride} ${buffer.element}`
    return this.place(key, use(this.l.ambient.frame), buffer.stride, buffer.element, row, column)
  }

  #fromBuffer(buffer: Buffer, row: Axis, column: Axis): Expression {
    const vector = this.isVectorAt(row, column)
    const key = `buffer ${buffer.offset} ${row} ${column}`
    return this.#once(key, this.level(row, column), () => {
      const at = this.bufferPlace(buffer, row, column)
      const type = valueCodeType(buffer.dtype, vector)
      const kind = type === 'i64' ? 'i64' : type === 'f32' || type === 'vf32' ? 'f32' : 'i32'
      const loaded = this.l.writer.load('kept', type, kind, at, buffer.offset)
      return buffer.dtype === 'bool' && !vector ? compare('ne', loaded, i32(0)) : loaded
    })
  }

  /** Stores an element of a fragment in the frame, the private memory of the program. */
  keep(buffer: Buffer, value: Expression, row: Axis, column: Axis): void {
    const at = this.bufferPlace(buffer, row, column)
    const vector = this.isVectorAt(row, column)
    const shaped = this.shaped(value, vector, buffer.dtype === 'bool')
    const mask = buffer.dtype === 'bool' && !vector
    const kind =
      buffer.dtype === 'i64' ? 'i64' : shaped.type === 'f32' || shaped.type === 'vf32' ? 'f32' : 'i32'
    this.within(this.level(row, column), () =>
      this.l.writer.store(kind, at, mask ? binary('sub', i32(0), shaped) : shaped, buffer.offset),
    )
  }

  load(node: Node, row: Axis, column: Axis): Expression {
    const [ref, mask, other] = node.inputs
    const from = refView(this.l, ref)
    const vector = this.isVectorAt(row, column)
    const { dtype } = valueOf(node)
    if (from.kind === 'places') return this.#gather(node, from, row, column)
    const rows = this.#loads.get(node)
    const tile = from as TileView
    const value = rows
      ? this.read(
          `load ${this.#number(node)}`,
          rows.base,
          rows.stride,
          storedBytes(dtype),
          dtype as StorageDType,
          row,
          column,
        )
      : this.read(
          `load ${this.#number(node)}`,
          tile.base,
          tile.rowStride,
          tile.columnStride,
          dtype as StorageDType,
          row,
          column,
        )
    if (!mask) return value
    const otherwise = other
      ? this.input(other, row, column, vector)
      : constant(value.type as Exclude<CodeType, 'ptr'>, 0)
    return select(this.input(mask, row, column, vector), value, otherwise)
  }

  /** Loads one element, or a vector of consecutive elements. */
  read(
    key: string,
    base: Expression,
    stride: number | Expression,
    bytes: number,
    dtype: StorageDType,
    row: Axis,
    column: Axis,
  ): Expression {
    const vector = this.isVectorAt(row, column)
    const at = this.place(key, base, stride, bytes, row, column)
    const { writer, machine } = this.l
    const raw = writer.load('raw', rawCodeType(dtype, vector), memoryKind(dtype), at)
    return use(widen(writer, machine, dtype, raw))
  }

  /**
   * Loads an element that is selected by indices. When an element is selected by indices, elements outside the tensor
   * are read as 0.
   */
  #gather(node: Node, from: PlacesView, row: Axis, column: Axis): Expression {
    const { writer, machine } = this.l
    const [, mask, other] = node.inputs
    const { dtype } = valueOf(node)
    const type = valueCodeType(dtype, false)
    const start = other ? this.value(other, row, column) : constant(type as Exclude<CodeType, 'ptr'>, 0)
    const chosen = mask && this.value(mask, row, column)
    const result = writer.let('gathered', start)
    const body = (): void => {
      const place = this.gatherPlace(from, row, column)
      writer.if(
        place.inside,
        () => {
          const raw = writer.load(
            'raw',
            rawCodeType(from.dtype, false),
            memoryKind(from.dtype),
            place.address,
          )
          writer.set(result, widen(writer, machine, from.dtype, raw))
        },
        other ? () => writer.set(result, constant(type as Exclude<CodeType, 'ptr'>, 0)) : undefined,
      )
    }
    if (chosen) writer.if(chosen, body)
    else body()
    return use(result)
  }

  /**
   * The address of an element selected by indices, and whether that element is inside the tensor. The indices of the
   * element are values that this nest has computed.
   */
  gatherPlace(
    from: PlacesView,
    row: Axis,
    column: Axis,
  ): { readonly address: Expression; readonly inside: Expression } {
    return placeOf(
      this.l,
      from,
      from.indices.map((index) => this.value(index, row, column)),
    )
  }
}

/** The address of an element, and whether that element is inside the tensor. */
export function placeOf(
  l: Lowering,
  from: PlacesView,
  indices: readonly Expression[],
): { readonly address: Expression; readonly inside: Expression } {
  let at = from.base
  let inside: Expression | undefined
  indices.forEach((given, axis) => {
    const index =
      given.type === 'i64'
        ? use(l.writer.let('index', { kind: 'convert', type: 'i32', name: 'wrap', a: given }))
        : given
    const fits = compare('ltU', index, from.extents[axis])
    inside = inside ? binary('and', inside, fits) : fits
    const stride = from.strides[axis]
    at = typeof stride === 'number' ? address(at, index, stride) : step(at, index, stride)
  })
  return { address: at, inside: inside ?? unary('eqz', i32(0)) }
}

/**
 * True if a vector nest can compute the fragment: every operation has a vector form and every load reads consecutive
 * elements.
 */
export function vectorises(l: Lowering, node: Node, row: Axis, column: Axis): boolean {
  if (!isFragment(node)) return true
  if (row !== 'column' && column !== 'column') return true
  if (valueOf(node).dtype === 'i64' || row === 'column') return false
  if (l.buffers.has(node)) return true
  return computesByVectors(l, node, row, column)
}

export function computesByVectors(l: Lowering, node: Node, row: Axis, column: Axis): boolean {
  const { isVectorised } = (byElements as Partial<Record<OpName, ByElements>>)[node.op] ?? {}
  return isVectorised !== undefined && isVectorised(l, node, row, column)
}

/** How to compute a fragment element by element from other fragments or from memory. */
interface ByElements {
  make(nest: Nest, node: Node, row: Axis, column: Axis): Expression
  isVectorised(l: Lowering, node: Node, row: Axis, column: Axis): boolean
}

const elementwise: ByElements = {
  make(nest, node, row, column) {
    const vector = nest.isVectorAt(row, column)
    return element(
      nest.l,
      node,
      node.inputs.map((input) => nest.input(input, row, column, vector)),
    )
  },
  isVectorised: (l, node, row, column) =>
    hasVectorForm(node) && node.inputs.every((input) => vectorises(l, input, row, column)),
}

/** A vector shift uses one scalar amount for all lanes. */
const shift: ByElements = {
  ...elementwise,
  make(nest, node, row, column) {
    const [value, by] = node.inputs
    const vector = nest.isVectorAt(row, column)
    const amount = vector ? scalar(nest.l, uniform(by)!) : nest.value(by, row, column)
    return element(nest.l, node, [nest.input(value, row, column, vector), amount])
  },
}

/**
 * Each element of the result is a copy of one input element. The function `at` returns the row index and the column
 * index at which the input element is read.
 */
const stretched = (
  at: (node: Node, row: Axis, column: Axis) => readonly [row: Axis, column: Axis],
): ByElements => ({
  make: (nest, node, row, column) => nest.value(node.inputs[0], ...at(node, row, column)),
  isVectorised: (l, node, row, column) => vectorises(l, node.inputs[0], ...at(node, row, column)),
})

const byElements: Readonly<
  Record<ElementwiseName | OpWith<{ elements: 'stretched' | 'moved' }> | 'iota' | 'load', ByElements>
> = {
  ...opsWith({ elements: 'same' }, elementwise),
  shl: shift,
  shr: shift,
  iota: {
    make(nest, _, row, column) {
      const index = nest.index(column)
      return nest.isVectorAt(row, column) && column === 'column' ? add(splat(index), lanes) : index
    },
    isVectorised: () => true,
  },
  expand: stretched((node, row, column) => ['zero', attribute<number>(node, 'axis') === 1 ? row : column]),
  broadcast: stretched(({ inputs: [from] }, row, column) => {
    const [rows, columns] = isFragment(from) ? extentsOf(valueOf(from).shape) : [1, 1]
    return [rows === 1 ? 'zero' : row, columns === 1 ? 'zero' : column]
  }),
  transpose: {
    make: (nest, node, row, column) => nest.value(node.inputs[0], column, row),
    isVectorised: () => false,
  },
  load: {
    make: (nest, node, row, column) => nest.load(node, row, column),
    isVectorised(l, node, row, column) {
      const [ref, ...others] = node.inputs
      const from = refView(l, ref)
      if (from.kind === 'places' || valueOf(node).dtype === 'i64') return false
      if (from.kind === 'tile' && from.columnStride !== storedBytes(from.dtype)) return false
      return others.every((input) => vectorises(l, input, row, column))
    },
  },
}
