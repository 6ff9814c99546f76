/**
 * Renders memory references as text: the addresses of elements in tiles, in shared tiles and of single elements,
 * and the conditions under which those elements are inside their tensor.
 */
import { dtypes, type DType } from '../../../../ir/dtype.ts'
import { attribute, type Node } from '../../../../ir/node.ts'
import { entryOf, type ViewName } from '../../../../ir/ops/index.ts'
import type { RefType } from '../../../../ir/type.ts'
import { isIndexed, isSplat } from '../assign.ts'
import {
  all,
  bare,
  cast,
  code,
  group,
  integer,
  isWord,
  opensWithGroup,
  scaled,
  sum,
  word,
  type Code,
} from '../code.ts'
import type { Emission } from '../emission.ts'
import { lib } from '../library.ts'
import type { Tile } from '../tiles.ts'
import { isFirstOfFilled, isWhole, tileOf, viewOf, type TensorView, type ViewAxis } from '../views.ts'

export interface Place {
  readonly space: 'global' | 'shared'
  readonly dtype: DType
  /**
   * Returns the address of the element at index `at` of the tile: a pointer in global memory, a number in shared
   * memory. References to single elements (`at` nodes) take their indices from register `i` of the index fragments.
   */
  address(at: readonly Code[], i: Code): Code
  /**
   * Returns the condition under which the element is inside the tensor, or undefined if the element is always inside.
   */
  inside(at: readonly Code[]): Code | undefined
}

export function placeOf(ref: Node, emission: Emission): Place {
  const { dtype, space } = ref.type as RefType
  if (space === 'shared') return sharedPlace(ref, emission)
  const { address, inside } = entryOf(globalPlaces, ref, 'is not a reference to global memory')(ref, emission)
  return { space, dtype, address, inside }
}

type Addressing = Pick<Place, 'address' | 'inside'>

const globalPlaces: Readonly<Partial<Record<ViewName, (ref: Node, emission: Emission) => Addressing>>> = {
  tile(ref, emission) {
    const view = tileOf(ref)
    const coordinates = (at: readonly Code[]): Code[] =>
      view.shape.map((extent, i) =>
        sum(scaled(emission.scalar(view.indices[i]), extent), cast(lib.i32, at[i])),
      )
    return {
      address: (at) => addressText(view, coordinates(at), emission),
      inside: (at) =>
        all(
          coordinates(at).map((coordinate, i) => {
            if (isFirstOfFilled(view, i, emission.plans.ranges)) return undefined
            // If the tiles fill the axis, each tile is entirely inside or entirely outside the tensor. A test of the
            // start of the tile is then sufficient, and the condition is the same in all threads.
            const place = isWhole(view, i, emission.plans.ranges)
              ? scaled(emission.scalar(view.indices[i]), view.shape[i])
              : coordinate
            return code`${place} < ${extentText(view, view.axes[i], emission)}`
          }),
        ),
    }
  },
  at(ref, emission) {
    const view = viewOf(ref.inputs[0])
    const indices = ref.inputs.slice(1)
    return {
      address: (at, i) =>
        addressText(
          view,
          indices.map((index) => emission.element(index, i, at).text),
          emission,
        ),
      inside: () => undefined,
    }
  },
  rows(ref, emission) {
    const view = viewOf(ref.inputs[0])
    const column = (at: readonly Code[]): Code =>
      sum(scaled(emission.scalar(ref.inputs[2]), attribute<number>(ref, 'width')), cast(lib.i32, at[1]))
    return {
      address: (at) => addressText(view, [gatheredRow(ref, at[0], emission), column(at)], emission),
      inside: (at) => code`${column(at)} < ${extentText(view, view.axes[1], emission)}`,
    }
  },
}

/** Returns the C++ expression for the index of the tensor row that a gathered row refers to. */
function gatheredRow(ref: Node, row: Code, emission: Emission): Code {
  const indices = ref.inputs[1]
  if (isSplat(indices)) return emission.scalar(indices)
  if (isIndexed(indices)) return emission.fragment(indices).at!([row])
  return code`${lib.shared_load}<${lib.i32}>(${emission.scratch(ref)} + ${row} * 4)`
}

/** A shared tile or a view of it. */
export interface SharedView {
  readonly tile: Tile
  /** The start address of the view in shared memory. */
  readonly base: Code
  readonly transposed: boolean
  /** The row index if the view is one row of a two-dimensional tile, otherwise undefined. */
  readonly row: Code | undefined
}

export function sharedView(ref: Node, emission: Emission): SharedView {
  return entryOf(sharedViews, ref, 'is not a shared tile')(ref, emission)
}

const sharedViews: Readonly<
  Partial<Record<ViewName | 'shared', (ref: Node, emission: Emission) => SharedView>>
> = {
  shared: (ref, { plans, addresses }) => ({
    tile: plans.tiles.get(ref)!,
    base: word(addresses.get(ref)!),
    transposed: false,
    row: undefined,
  }),
  transpose(ref, emission) {
    const view = sharedView(ref.inputs[0], emission)
    return { ...view, transposed: !view.transposed }
  },
  pick(ref, emission) {
    const view = sharedView(ref.inputs[0], emission)
    const index = emission.scalar(ref.inputs[1])
    if ((ref.type as RefType).shape.length === 1) return { ...view, row: index }
    return { ...view, base: sum(view.base, scaled(index, view.tile.stageBytes)) }
  },
}

function sharedPlace(ref: Node, emission: Emission): Place {
  const { dtype } = ref.type as RefType
  const isElements = ref.op === 'at'
  const view = sharedView(isElements ? ref.inputs[0] : ref, emission)
  const indices = isElements ? ref.inputs.slice(1) : []
  return {
    space: 'shared',
    dtype,
    address(at, i) {
      const places = isElements ? indices.map((index) => emission.element(index, i, at).text) : at
      return sharedAddress(view, places)
    },
    inside: () => undefined,
  }
}

export function sharedAddress(view: SharedView, at: readonly Code[]): Code {
  const { tile } = view
  const { bytes } = dtypes[tile.dtype]
  const stage = at.length === 3 ? [at[0]] : []
  const [first, second] = at.slice(stage.length)
  const [row, column] =
    second === undefined
      ? [view.row ?? integer(0), first]
      : view.transposed
        ? [second, first]
        : [first, second]
  const base = stage.length > 0 ? sum(view.base, scaled(stage[0], tile.stageBytes)) : view.base
  if (tile.span > 0)
    return code`${base} + ${lib.swizzled}<${tile.span}, ${tile.rows}>(${row}, ${scaled(column, bytes)})`
  return code`${base} + ${scaled(group(sum(scaled(row, tile.columns), column)), bytes)}`
}

export function extentText(view: TensorView, axis: ViewAxis, emission: Emission): Code {
  return axis.size
    ? emission.scalar(axis.size)
    : emission.params.dim(attribute<string>(view.base, 'name'), axis.axis)
}

/** Returns a pointer to the owner's copy of the tensor, or to this rank's copy if the view has no owner. */
function pointerText(view: TensorView, emission: Emission): Code {
  const pointer = emission.params.pointer(attribute<string>(view.base, 'name'))
  return view.owner ? onRank(pointer, view.owner, emission) : pointer
}

export function onRank(pointer: Code, owner: Node, emission: Emission): Code {
  const { rank, heapStride } = emission.params
  const further = code`${heapOf(emission.scalar(owner), emission)} - ${heapOf(rank, emission)}`
  return code`${lib.on_rank}(${pointer}, ${further}, ${heapStride})`
}

/**
 * Returns the position of a rank's heap among the heaps of the world: the number of the rank, or an entry of a table.
 */
const heapOf = (rank: Code, { params, plans }: Emission): Code =>
  plans.facts.scattered ? code`${params.places}.of[${bare(rank)}]` : rank

/**
 * Converts coordinates in a view to coordinates in the whole tensor, by adding the starts of windows and the picked
 * indices.
 */
function tensorCoordinates(view: TensorView, at: readonly Code[], emission: Emission): Code[] {
  const rank = view.axes.length + view.picks.length
  const coordinates = new Array<Code>(rank)
  const add = (starts: readonly Node[], text: Code): Code =>
    starts.reduce((total, start) => sum(emission.scalar(start), total), text)
  for (const { axis, index, starts } of view.picks) coordinates[axis] = add(starts, emission.scalar(index))
  view.axes.forEach(({ axis, starts }, i) => (coordinates[axis] = add(starts, at[i])))
  return coordinates
}

function addressText(view: TensorView, at: readonly Code[], emission: Emission): Code {
  const coordinates = tensorCoordinates(view, at, emission)
  const name = attribute<string>(view.base, 'name')
  const isSmall = emission.plans.ranges.factsOf(view.base)?.small
  const [first, ...others] = coordinates
  const offset = others.reduce((total, coordinate, i) => {
    // From the second multiplication on, the code `total` is already in parentheses.
    const inner = isSmall && (i > 0 || isWord(total)) ? total : group(total)
    const outer = isSmall ? inner : cast(lib.i64, inner)
    return group(code`${outer} * ${emission.params.dim(name, i + 1)} + ${coordinate}`)
  }, first)
  return code`${pointerText(view, emission)} + ${opensWithGroup(offset) ? offset : group(offset)}`
}

/**
 * Returns the coordinates of a TMA box: innermost axis first, and the owner's rank last if the tensor map has a
 * rank axis.
 */
export function engineCoordinates(
  view: TensorView & { readonly indices: readonly Node[]; readonly shape: readonly number[] },
  box: readonly Code[],
  ranked: boolean,
  emission: Emission,
): Code[] {
  const at = view.shape.map((extent, i) => sum(scaled(emission.scalar(view.indices[i]), extent), box[i]))
  const coordinates = tensorCoordinates(view, at, emission).reverse()
  if (!ranked) return coordinates
  const rank = view.owner ? emission.scalar(view.owner) : emission.params.rank
  return [...coordinates, heapOf(rank, emission)]
}
