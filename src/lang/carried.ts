/**
 * Handles loop-carried state, which is a value, or an array or record of values. The carried state is flattened for the
 * IR and restored to its original form for the kernel's author.
 */
import type { Node } from '../ir/node.ts'
import { KernelError, Site } from '../ir/site.ts'
import { expectSynchronous, type Recorder } from './recorder.ts'
import { Value, type Rank } from './value.ts'
import type { DType } from '../ir/dtype.ts'

export interface AnyValue {
  readonly node: Node
  readonly dtype: DType
  readonly rank: Rank
  /** Distinguishes values from memory references: only values can be converted with `to`. */
  readonly to: unknown
}
export type Carried = AnyValue | readonly Carried[] | { readonly [name: string]: Carried }

export function flatten(state: unknown, what: string): Node[] {
  expectSynchronous(state, what)
  if (state instanceof Value) return [state.node]
  if (Array.isArray(state)) return state.flatMap((part) => flatten(part, what))
  if (typeof state === 'object' && state !== null && Object.getPrototypeOf(state) === Object.prototype)
    return Object.keys(state)
      .sort()
      .flatMap((key) => flatten((state as Record<string, unknown>)[key], what))
  throw new KernelError(
    `${what}: ${state === undefined ? 'the body returned nothing; return the carried state' : `${describe(state)} is not a value`}` +
      ' (the state must be a value, or an array or record of values; t.constant(dtype, x) converts a number to a value)',
    Site.here(),
  )
}

/** The names of the flattened state values: the key in a record, or the position in an array. */
export function namesOf(state: unknown): string[] {
  const names = (part: unknown, name: string): string[] => {
    if (part instanceof Value) return [name]
    const entries = Array.isArray(part)
      ? part.map((inner, i): [string, unknown] => [`${name}${i}`, inner])
      : Object.keys(part as object)
          .sort()
          .map((key): [string, unknown] => [key, (part as Record<string, unknown>)[key]])
    return entries.flatMap(([key, inner]) => names(inner, key))
  }
  return state instanceof Value ? ['state0'] : names(state, 'state')
}

/** Builds a structure with the same form as `like` from the flattened nodes. */
export function unflatten<C>(recorder: Recorder, like: C, nodes: readonly Node[]): C {
  let next = 0
  const build = (part: unknown): unknown => {
    if (part instanceof Value) return new Value(recorder, nodes[next++])
    if (Array.isArray(part)) return part.map(build)
    const record = part as Record<string, unknown>
    return Object.fromEntries(
      Object.keys(record)
        .sort()
        .map((key) => [key, build(record[key])]),
    )
  }
  return build(like) as C
}

function describe(thing: unknown): string {
  return typeof thing === 'object' ? (thing?.constructor.name ?? 'null') : `${typeof thing} ${String(thing)}`
}
