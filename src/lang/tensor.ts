/**
 * Defines memory in the language: tensors on the symmetric heap, references to their elements, shared tiles, flags and
 * barriers.
 */
import type { DType, StorageDType } from '../ir/dtype.ts'
import { KernelError, Site } from '../ir/site.ts'
import type { RefType, Shape, Space, TensorType } from '../ir/type.ts'
import type { Recorder } from './recorder.ts'
import {
  index,
  stretch,
  Symbolic,
  Value,
  type Fragment,
  type Index,
  type Only,
  type Rank,
  type Refused,
  type Scalar,
} from './value.ts'
import { broadcastShapes } from '../ir/type.ts'

export type TensorRank = 1 | 2 | 3 | 4
export type Tuple<T, R extends number> = R extends 0
  ? readonly []
  : R extends 1
    ? readonly [T]
    : R extends 2
      ? readonly [T, T]
      : R extends 3
        ? readonly [T, T, T]
        : R extends 4
          ? readonly [T, T, T, T]
          : never
type Less<R extends number> = R extends 4 ? 3 : R extends 3 ? 2 : R extends 2 ? 1 : 0
type Vector = Fragment<'i32', 1>
type Matrix = Fragment<'i32', 2>
/**
 * The number of axes, as a type, of the elements that a list `I` of indices selects: the number of axes of that index
 * which has the most axes.
 */
type RankAt<
  I extends readonly unknown[],
  W = Extract<I[number], { readonly rank: Rank }>['rank'],
> = 2 extends W ? 2 : 1 extends W ? 1 : 0
type Untiled<R> = `a tensor of ${R & number} axes has no tiles: take its first axis away, x.pick(i)`

/** A reference to elements in memory: a tile, single elements, or a shared tile. */
export class Ref<
  D extends DType = DType,
  R extends number = number,
  S extends Space = Space,
> extends Symbolic {
  get dtype(): D {
    return (this.node.type as RefType).dtype as D
  }
  get shape(): Shape {
    return (this.node.type as RefType).shape
  }
  declare readonly rank: R
  declare readonly space: S
}

/** A tile in the program's shared memory. If the tile has a leading axis of stages, `pick(i)` selects stage i. */
export class Shared<D extends DType = DType, R extends 1 | 2 | 3 = 1 | 2 | 3> extends Ref<D, R, 'shared'> {
  pick(
    this: Only<R, 2 | 3, Shared<D, R>, 'a tile of one axis has no stages to pick from'>,
    i: Index,
  ): Only<R, 2 | 3, Shared<D, Less<R> & (1 | 2 | 3)>, Refused> {
    const { recorder, node } = this as Shared<D, R>
    return new Shared<D, Less<R> & (1 | 2 | 3)>(recorder, recorder.emit('pick', [node, index(recorder, i)]))
  }
  /** A view of the same elements with rows and columns exchanged. A transposed view moves no data. */
  transpose(
    this: Only<R, 2, Shared<D, R>, 'only a tile of two axes can be transposed'>,
  ): Only<R, 2, Shared<D, 2>, Refused> {
    const { recorder, node } = this as Shared<D, R>
    return new Shared<D, 2>(recorder, recorder.emit('transpose', [node]))
  }
  at<const I extends Tuple<Index | Vector | Matrix, R>>(indices: I): Ref<D, RankAt<I>, 'shared'> {
    return places(this, indices)
  }
}

export class Tensor<
  D extends StorageDType = StorageDType,
  R extends TensorRank = TensorRank,
> extends Symbolic {
  get dtype(): D {
    return (this.node.type as TensorType).dtype as D
  }
  declare readonly rank: R

  #view<E extends TensorRank>(...args: Parameters<Recorder['emit']>): Tensor<D, E> {
    return new Tensor<D, E>(this.recorder, this.recorder.emit(...args))
  }

  /** The copy of this tensor on rank `rank`. */
  on(rank: Index): Tensor<D, R> {
    return this.#view('on', [this.node, index(this.recorder, rank)])
  }
  dim(axis: number): Scalar<'i32'> {
    return new Value(this.recorder, this.recorder.emit('dim', [this.node], { axis }))
  }
  /** The slice [start, start + size) of an axis. */
  slice(axis: number, start: Index, size: Index): Tensor<D, R> {
    const { recorder, node } = this
    return this.#view('slice', [node, index(recorder, start), index(recorder, size)], { axis })
  }
  /** The subtensor at index `i` of the first axis, without that axis. */
  pick(
    this: Only<
      R,
      2 | 3 | 4,
      Tensor<D, R>,
      'pick needs a tensor of at least two axes: x.at([i]) is one element of a vector'
    >,
    i: Index,
  ): Only<R, 2 | 3 | 4, Tensor<D, Less<R> & TensorRank>, Refused> {
    const tensor = this as Tensor<D, R>
    return tensor.#view<Less<R> & TensorRank>('pick', [tensor.node, index(tensor.recorder, i)])
  }
  /**
   * The tile of `shape` at a tile index. A tile at the edge of the tensor is masked: elements outside the tensor read
   * as 0 and are not written.
   */
  tile(
    this: Only<R, 1 | 2, Tensor<D, R>, Untiled<R>>,
    at: Tuple<Index, R>,
    shape: Tuple<number, R>,
  ): Only<R, 1 | 2, Ref<D, R, 'global'>, Refused> {
    const { recorder, node } = this as Tensor<D, R>
    const indices = (at as readonly Index[]).map((i) => index(recorder, i))
    return new Ref<D, R, 'global'>(
      recorder,
      recorder.emit('tile', [node, ...indices], { shape: shape as readonly number[] }),
    )
  }
  /** All tiles of size `shape` of this tensor. `t.persistent` accepts these tiles as its space. */
  tiles(
    this: Only<R, 1 | 2, Tensor<D, R>, Untiled<R>>,
    shape: Tuple<number, R>,
  ): Only<R, 1 | 2, TileSpace<D, R>, Refused> {
    return new TileSpace(this as Tensor<D, R>, shape)
  }
  /** Selects rows by their indices, for example from a page table or for the tokens of an expert. */
  rows(
    this: Only<R, 2, Tensor<D, R>, 'rows can be selected only from a tensor of two axes'>,
    indices: Vector,
  ): Only<R, 2, Rows<D>, Refused> {
    return new Rows(this as unknown as Tensor<D, 2>, indices)
  }
  at<const I extends Tuple<Index | Vector | Matrix, R>>(indices: I): Ref<D, RankAt<I>, 'global'> {
    return places(this, indices)
  }
}

export class Rows<D extends StorageDType> {
  readonly #tensor: Tensor<D, 2>
  readonly #indices: Vector
  constructor(tensor: Tensor<D, 2>, indices: Vector) {
    this.#tensor = tensor
    this.#indices = indices
  }
  /** Tile `j` of the selected rows, which has `width` columns and begins at column `j` x `width`. */
  tile(j: Index, width: number): Ref<D, 2, 'global'> {
    const { recorder, node } = this.#tensor
    return new Ref(recorder, recorder.emit('rows', [node, this.#indices.node, index(recorder, j)], { width }))
  }
}

/** The tiles that cover a tensor. Tiles at the edge of a tensor may extend beyond it. */
export class TileSpace<D extends StorageDType, R extends TensorRank> {
  readonly tensor: Tensor<D, R>
  readonly shape: Tuple<number, R>
  constructor(tensor: Tensor<D, R>, shape: Tuple<number, R>) {
    this.tensor = tensor
    this.shape = shape
  }
  /** The number of tiles along each axis. */
  extents(): Scalar<'i32'>[] {
    return (this.shape as readonly number[]).map((extent, axis) => ceilDiv(this.tensor.dim(axis), extent))
  }
}

type Countable = number | Scalar<'i32'>

/**
 * Divides `value` by `by` and rounds up; both must be non-negative. The rounded-up quotient is a number if both
 * arguments are numbers, and a symbol if one is a symbol.
 */
export function ceilDiv<V extends Countable, B extends Countable>(
  value: V,
  by: B,
): [V, B] extends [number, number] ? number : Scalar<'i32'>
export function ceilDiv(value: Countable, by: Countable): Countable {
  if (typeof value === 'number')
    return typeof by === 'number' ? Math.ceil(value / by) : by.add(value - 1).div(by)
  return (typeof by === 'number' ? value.add(by - 1) : value.add(by).sub(1)).div(by)
}

/** A flag set, or one of its flags, on one rank. */
export class Flags<R extends 0 | 1 | 2 | 3 = 0 | 1 | 2 | 3> extends Symbolic {
  declare readonly rank: R
  on(rank: Index): Flags<R> {
    return new Flags(this.recorder, this.recorder.emit('on', [this.node, index(this.recorder, rank)]))
  }
  at(indices: Tuple<Index, R>): Flag {
    const nodes = (indices as readonly Index[]).map((i) => index(this.recorder, i))
    return new Flags(this.recorder, this.recorder.emit('at', [this.node, ...nodes]))
  }
  dim(axis: number): Scalar<'i32'> {
    return new Value(this.recorder, this.recorder.emit('dim', [this.node], { axis }))
  }
}
export type Flag = Flags<0>

/** Arrival barriers between the roles of a program. */
export class Barriers extends Symbolic {
  at(i: Index): Barrier {
    return new Barrier(this.recorder, this.recorder.emit('pick', [this.node, index(this.recorder, i)]))
  }
}
export class Barrier extends Symbolic {
  declare readonly isBarrier: true
}

function places<D extends DType, R extends Rank, S extends Space>(
  of: Symbolic,
  indices: readonly (Index | Vector | Matrix)[],
): Ref<D, R, S> {
  const { recorder, node } = of
  const shape = indices.reduce<Shape | undefined>(
    (common, i) => (common && typeof i !== 'number' ? broadcastShapes(common, i.shape) : common),
    [],
  )
  if (!shape)
    throw new KernelError(
      'at: the shapes of the indices cannot be broadcast together; expand() adds an axis of extent 1',
      Site.here(),
    )
  const nodes = indices.map((i) => {
    const value: Value = typeof i === 'number' ? new Value(recorder, index(recorder, i)) : i
    return stretch(value, shape).node
  })
  return new Ref(recorder, recorder.emit('at', [node, ...nodes]))
}
