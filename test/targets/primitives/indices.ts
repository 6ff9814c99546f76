/** Computes indices of values of any shape within a 1-D tensor. */
import type { Value } from '../../../src/index.ts'

/** The indices from `from` on, as a value of the given shape. */
export function indices(
  t: { arange(extent: number): Value<'i32', 1> },
  shape: readonly number[],
  from: number,
): Value | number {
  if (shape.length === 0) return from
  const last = t.arange(shape[shape.length - 1])
  if (shape.length === 1) return last.add(from)
  return t.arange(shape[0]).mul(shape[1]).expand(1).add(last.expand(0)).add(from)
}
