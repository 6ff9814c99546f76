/** The elements of a fragment that `t.print` shows, as scalars. */
import { dtypes } from '../ir/dtype.ts'
import { KernelError, Site } from '../ir/site.ts'
import { elements } from '../ir/type.ts'
import { constant, stretch, Value } from './value.ts'

/** The maximum number of elements of a fragment that `t.print` shows. */
const most = 8

/**
 * The first elements of a fragment in row-major order, each as a scalar. Each scalar is computed as a sum in which all
 * other terms are zero, so its value is exact.
 */
export function firstElements(value: unknown): Value[] {
  if (!(value instanceof Value))
    throw new KernelError(
      'print: expected a value; a number known when recording belongs in the label',
      Site.here(),
    )
  const given = value as Value
  const { shape, recorder } = given
  const { kind } = dtypes[given.dtype]
  const isSmall = !dtypes[given.dtype].arithmetic && given.dtype !== 'bool'
  const own = isSmall ? given.to(kind === 'float' ? 'f32' : 'i32') : given
  if (shape.length === 0) return [own]
  const numbers = (own.dtype === 'bool' ? own.to('i32') : own) as Value<'i32', 2>
  const lanes = (extent: number): Value<'i32', 1> =>
    new Value(recorder, recorder.emit('iota', [], { extent }))
  const [rows, columns] = shape.length === 2 ? shape : [1, shape[0]]
  const places =
    shape.length === 2 ? lanes(rows).mul(columns).expand(1).add(lanes(columns).expand(0)) : lanes(columns)
  const zeros = stretch(constant(recorder, numbers.dtype, 0), shape) as Value<'i32', 2>
  return Array.from({ length: Math.min(most, elements(shape)) }, (_, k) => {
    const only = (places as Value<'i32', 2>).eq(k).select(numbers, zeros)
    const line = shape.length === 2 ? only.sum(1) : (only as Value as Value<'i32', 1>)
    const sum = line.sum()
    return own.dtype === 'bool' ? sum.ne(0) : sum
  })
}
