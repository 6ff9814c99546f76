/** Generator steps with blocks: loops that carry values, branches that yield values, pipelines, and matrix products. */
import type { DotDType } from '../../../src/ir/dtype.ts'
import type { Fragment, Shared, Tensor, Value } from '../../../src/index.ts'
import { extents, isArithmetic, type Builder } from './builder.ts'
import { call, dotError, entry, isExact, type Entry } from './entries.ts'
import type { Step } from './expressions.ts'
import { dotDTypes, smallest } from './params.ts'

const alike = (a: Entry) => (b: Entry) =>
  isExact(b) && b.dtype === a.dtype && b.shape.join() === a.shape.join()

/** Generates some steps in a nested block and returns one of their values with the type and shape of `a`. */
function block(on: Builder, steps: (on: Builder, count: number) => void, a: Entry, given: Value): Value {
  return on.inner(() => {
    const carried = entry(given)
    on.add(carried)
    steps(on, on.choices.below(4))
    const result = on.exact(alike(a)) ?? carried
    // No value of this type and shape was computed in the block. A loop that carries the same value forever would test nothing, so 1
    // is added.
    const unchanged = result.value.node === given.node
    return isArithmetic(a.dtype) && unchanged ? call(given, 'add', 1) : result.value
  })
}

export const controlSteps = (steps: (on: Builder, count: number) => void): readonly Step[] => {
  const loop: Step = (on) => {
    const a = on.exact(({ dtype }) => dtype !== 'i64')
    if (!a || on.depth > 2) return
    const { t, choices } = on
    const range = choices.pick([
      3,
      on.item.mod(3),
      { from: 1, to: on.item.add(2), step: 2 },
      { from: on.item, to: 2 },
      0,
    ])
    on.add(
      t.for(range, a.value, (i, carried) =>
        on.inner(() => {
          on.add(i)
          return block(on, steps, a, carried)
        }),
      ),
    )
  }

  const repeat: Step = (on) => {
    const a = on.exact(({ dtype }) => isArithmetic(dtype) && dtype !== 'i64')
    if (!a || on.depth > 2) return
    // A `while` may wait for other programs, so its grid must be resident, and not every target has room for several
    // programs.
    if (on.shape.grid > 1 && !on.shape.communicates) return
    const most = on.choices.below(4)
    const { state } = on.t.while(
      { count: on.t.constant('i32', 0), state: a.value },
      ({ count }) => count.lt(most),
      ({ count, state }) => ({ count: count.add(1), state: block(on, steps, a, state) }),
    )
    on.add(state)
  }

  const branch: Step = (on) => {
    const a = on.exact(({ dtype }) => dtype !== 'i64')
    const scalar = on.exact(({ dtype, shape }) => dtype === 'bool' && shape.length === 0)
    if (!a || on.depth > 2) return
    const condition = (scalar?.value ?? call(on.item, 'lt', on.choices.below(4))) as Value<'bool', 0>
    if (on.choices.rarely(3)) return on.t.if(condition, () => on.inner(() => steps(on, 2)))
    on.add(
      on.t.if(
        condition,
        () => block(on, steps, a, a.value),
        () => block(on, steps, a, a.value),
      ),
    )
  }

  return [loop, branch, repeat]
}

/**
 * The tiles of a matrix product. The tiles are declared at the top of the kernel, so a kernel has one product configuration.
 */
export interface Product {
  readonly dtype: DotDType
  readonly m: number
  readonly n: number
  readonly k: number
  readonly left: Shared<DotDType, 2>
  /** The right operand is declared as [n, k] if it is read transposed. */
  readonly right: Shared<DotDType, 2>
  readonly transposed: boolean
  readonly fragments: boolean
  readonly steps: number
  readonly stages: number
}

export function declareProduct(on: Pick<Builder, 't' | 'choices'>): Product {
  const { t, choices } = on
  const dtype = choices.pick(dotDTypes)
  const [m, n, k] = [choices.pick(extents), choices.pick(extents), choices.pick(extents)]
  const transposed = choices.below(2) === 1
  return {
    dtype,
    m,
    n,
    k,
    left: t.shared(dtype, [m, k]),
    right: t.shared(dtype, transposed ? [n, k] : [k, n]),
    transposed,
    fragments: choices.rarely(3),
    steps: choices.between(1, 3),
    stages: choices.between(1, 3),
  }
}

/** A matrix product in a pipeline over k. The tiles extend past the edge of the tensors, where both operands are 0. */
export const product =
  (form: Product): Step =>
  (on) => {
    // If matrix products ran concurrently, they would use the same shared tiles. Matrix products inside blocks are
    // covered by other tests.
    if (on.depth > 0) return
    const { t, choices } = on
    const { dtype, m, n, k, left, right, transposed, fragments } = form
    const from = on.args[`small_${dtype}`] as unknown as Tensor<DotDType, 2>
    const steps = Math.min(form.steps, Math.ceil(Math.min(on.shape.rows, on.shape.columns) / k))
    const exact = dtype === 'i8'
    const start = t.zeros(exact ? 'i32' : 'f32', [m, n]) as Fragment<'f32', 2>
    const row = on.item.mod(Math.ceil(on.shape.rows / m))
    const column = choices.below(Math.ceil((transposed ? on.shape.rows : on.shape.columns) / n))
    const total = t.pipeline(
      [steps],
      start,
      ([step], acc) => {
        t.copy(from.tile([row, step], [m, k]), left)
        t.copy(transposed ? from.tile([column, step], [n, k]) : from.tile([step, column], [k, n]), right)
        const b = transposed ? right.transpose() : right
        if (!fragments) return t.dot(left, b, acc as never) as Fragment<'f32', 2>
        return t.dot(t.load(left), t.load(b), acc as never) as Fragment<'f32', 2>
      },
      { stages: form.stages },
    )
    if (exact) return on.add(total)
    let known = { magnitude: 0, error: 0 }
    for (let step = 0; step < steps; step++)
      known = dotError(entry(total, known.magnitude, known.error), k, smallest)
    on.add(entry(total, known.magnitude, known.error))
  }

/** A sum of integers over a pipeline that copies into a shared tile. */
export const exactPipeline =
  (tile: Shared<'i32', 2>): Step =>
  (on) => {
    if (on.depth > 0) return
    const { t } = on
    const [r, c] = [tile.shape[0], tile.shape[1]]
    const from = on.args.in_i32
    const [down, across] = [Math.ceil(on.shape.rows / r), Math.ceil(on.shape.columns / c)]
    const method = on.choices.pick(['add', 'max', 'xor'])
    on.add(
      t.pipeline(
        [down, across],
        t.zeros('i32', [r, c]),
        (at, acc) => {
          t.copy(from.tile(at, [r, c]), tile)
          return call(acc, method, t.load(tile)) as Fragment<'i32', 2>
        },
        { stages: on.choices.between(1, 3) },
      ),
    )
  }
