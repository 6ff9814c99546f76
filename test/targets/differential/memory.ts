/** Generator steps that access memory: loads, stores and copies of tiles, rows and elements, shared tiles, atomics. */
import { dtypes, type StorageDType } from '../../../src/ir/dtype.ts'
import type { Ref, Scalar, Tensor, Value } from '../../../src/index.ts'
import { extents, type Builder } from './builder.ts'
import { entry, type Entry } from './entries.ts'
import type { Step } from './expressions.ts'
import { accumulated, accumulators, commutative, smallest, storage } from './params.ts'

type Source = Tensor<StorageDType, 2>
type Places = Ref<StorageDType, number, 'global'>

/** The index of a tile that is at least partly inside the tensor: a constant, or an index that depends on the item. */
function tileIndex(on: Builder, extent: number, size: number): number | Scalar {
  const count = Math.ceil(extent / size)
  return on.choices.below(2) === 0 ? on.choices.below(count) : on.item.mod(count)
}

export function tile(
  on: Builder,
  from: Source,
  shape: readonly [number, number],
): Ref<StorageDType, 2, 'global'> {
  const at = [tileIndex(on, on.shape.rows, shape[0]), tileIndex(on, on.shape.columns, shape[1])] as const
  return from.tile(at, shape)
}

/** References (views) to load from, of every kind that the language has. */
function places(on: Builder, from: Source): Places {
  const { t, choices } = on
  const { rows, columns } = on.shape
  const [r, c] = [choices.pick(extents), choices.pick(extents)]
  switch (choices.below(7)) {
    case 0:
      return tile(on, from, [r, c])
    case 1: {
      const start = choices.below(columns - 1)
      const window = from.pick(on.item.mod(rows)).slice(0, start, columns - start)
      return window.tile([tileIndex(on, columns - start, c)], [c])
    }
    case 2:
      return from.at([on.item.mod(rows), choices.below(columns)])
    case 3:
      return from.at([choices.below(rows), t.arange(c).mul(choices.between(1, 3)).mod(columns)])
    case 4: {
      const down = t.arange(r).mul(choices.between(1, 3)).mod(rows).expand(1)
      return from.at([down, t.arange(c).mod(columns).expand(0)])
    }
    case 5: {
      const [top, left] = [choices.below(rows - 1), choices.below(columns - 1)]
      const window = from.slice(0, top, rows - top).slice(1, left, columns - left)
      return window.tile([0, tileIndex(on, columns - left, c)], [r, c])
    }
    default:
      return from
        .rows(t.arange(r).mul(choices.between(1, 3)).add(on.item).mod(rows))
        .tile(tileIndex(on, columns, c), c)
  }
}

function load(on: Builder, from: Places): Value {
  if (!on.choices.rarely(3)) return on.t.load(from) as Value
  const mask = on.mask(from.shape) as Value<'bool', 0>
  if (on.choices.below(2) === 0) return on.t.load(from, { mask }) as Value
  return on.t.load(from, { mask, other: on.number(from.dtype) }) as Value
}

const loadAny: Step = (on) => {
  const loaded = load(on, places(on, on.input(on.choices.pick(storage))))
  on.add(loaded)
  // Most steps are arithmetic, which 8-bit and 16-bit dtypes do not support. A loaded 8-bit or 16-bit value is
  // therefore also added in a wider dtype.
  if (!['f32', 'i32', 'u32', 'i64'].includes(loaded.dtype))
    on.add(loaded.to(dtypes[loaded.dtype].kind === 'int' ? 'i32' : 'f32'))
}

/** Loads elements of bounded magnitude, which the error bounds start from. */
export const loadSmall: Step = (on) => {
  const from = on.args.small_f32 as unknown as Source
  const [r, c] = [on.choices.pick(extents), on.choices.pick(extents)]
  on.add(entry(on.t.load(tile(on, from, [r, c])) as Value, smallest))
}

const store: Step = (on) => {
  const a = on.find(({ dtype }) => dtype !== 'bool')
  if (a) storeEntry(on, a)
}

export function storeEntry(on: Builder, a: Entry): void {
  if (a.dtype === 'bool') return storeEntry(on, entry(a.value.to('i32')))
  const out = on.slot(a.dtype, a.error)
  if (!out) return
  const { t, choices } = on
  const { height, width } = on.shape
  const value = a.value as Value<StorageDType, 0>
  const mask = choices.rarely(3) ? { mask: on.mask(a.shape) as Value<'bool', 0> } : {}
  if (a.shape.length === 0) return t.store(out.at([choices.below(height), choices.below(width)]), value, mask)
  if (a.shape.length === 2) {
    const to = out.tile([0, 0], [a.shape[0], a.shape[1]])
    return choices.below(3) === 2 ? t.copy(value as never, to, mask) : t.store(to, value, mask)
  }
  const row = choices.below(height)
  // Stores a row by elements if it fits, otherwise as a tile that extends past the edge.
  const to: Places =
    a.shape[0] <= width && choices.below(2) === 1
      ? out.at([row, t.arange(a.shape[0])])
      : out.pick(row).tile([0], [a.shape[0]])
  t.store(to, value, mask)
}

/** Copies from global to global memory, local or remote, without loading the data into fragments. */
const copy: Step = (on) => {
  const dtype = on.choices.pick(storage)
  const out = on.slot(dtype)
  if (!out) return
  const shape = [on.choices.pick(extents), on.choices.pick(extents)] as const
  const from = tile(on, on.input(dtype), shape)
  const mask = on.choices.rarely(3) ? { mask: on.mask(shape) as Value<'bool', 0> } : {}
  on.t.copy(from, out.tile([0, 0], shape), mask)
}

/** Passes data through a shared tile, which is written as a whole and read as a whole, by element or transposed. */
const share: Step = (on) => {
  const { t, choices } = on
  const to = choices.pick(on.shared)
  const [r, c] = [to.shape[0], to.shape[1]]
  const known = on.exact((one) => one.dtype === to.dtype && one.shape.join() === to.shape.join())
  if (known && choices.below(2) === 1) t.store(to, known.value as Value<StorageDType, 0>)
  else t.copy(tile(on, on.input(to.dtype), [r, c]), to)
  switch (choices.below(4)) {
    case 0:
      return on.add(t.load(to) as Value)
    case 1:
      return on.add(t.load(to.transpose()) as Value)
    case 2:
      return on.add(t.load(to.at([choices.below(r), t.arange(c)])) as Value)
    default: {
      const out = on.slot(to.dtype)
      if (out) t.copy(to, out.tile([0, 0], [r, c]))
    }
  }
}

/**
 * Atomics from many agents whose order does not change the final contents. The values that the atomics return depend on
 * the order and are ignored.
 */
const accumulate: Step = (on) => {
  const { t, choices } = on
  const dtype = choices.pick(accumulated)
  const a = on.exact((one) => one.dtype === dtype && one.shape.length < 2)
  const value = a?.value ?? on.item.to(dtype)
  const row = choices.below(commutative.length)
  const mine = on.args[`accumulate_${dtype}`] as unknown as Tensor<'i32', 2>
  const target = on.shape.last ? mine : mine.on(on.peer())
  const count = value.shape[0] as number | undefined
  const at: Ref<'i32', number> =
    count === undefined
      ? target.at([row, on.item.mod(accumulators)])
      : target.at([row, t.arange(count).mul(choices.between(1, 2)).mod(accumulators)])
  const options = {
    order: choices.pick(['relaxed', 'acquire', 'release', 'acqRel'] as const),
    ...(choices.rarely(3) ? { mask: on.mask(value.shape) as Value<'bool', 0> } : {}),
  }
  const act = t.atomic[commutative[row]] as (at: Ref<'i32', number>, value: Value, options: object) => unknown
  act.call(t.atomic, at, value, options)
}

export const memorySteps: readonly Step[] = [loadAny, store, share, copy, accumulate, loadAny]
