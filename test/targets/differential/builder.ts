/**
 * Holds the state of a random kernel under construction: the program, the decisions, the available values and the
 * unused output slots. Values created inside a block are dropped at the end of the block.
 */
import type { DType, StorageDType } from '../../../src/ir/dtype.ts'
import { dtypes } from '../../../src/ir/dtype.ts'
import type { Program, Scalar, Shared, Tensor, Value } from '../../../src/index.ts'
import type { Choices } from './choices.ts'
import { call, entry, isExact, type Entry } from './entries.ts'
import type { Args } from './params.ts'

export interface Shape {
  readonly ranks: number
  readonly grid: number
  readonly items: number
  readonly rows: number
  readonly columns: number
  /** The extents of one output slot (the elements that one store writes). */
  readonly height: number
  readonly width: number
  /**
   * True if programs wait for each other, or if any program may process any work item. If true, the results must not
   * depend on which program processes an item.
   */
  readonly communicates: boolean
  /**
   * True if the last program of a rank reads the rank's accumulators. If true, other ranks must not add to these
   * accumulators.
   */
  readonly last: boolean
  /** True if the host signals a flag for each item, and polls until the kernel has answered. */
  readonly host: boolean
  readonly launches: number
}

/** For each dtype, the difference between targets that is allowed at each store of a generated kernel. */
export type Sites = Map<StorageDType, number[]>

export const mostSites = 7
export const extents = [4, 1, 2, 3, 5, 7, 8]
const arithmetic: readonly DType[] = ['f32', 'i32', 'u32', 'i64']
export const isArithmetic = (dtype: DType): boolean => arithmetic.includes(dtype)
export const isInteger = (dtype: DType): boolean => isArithmetic(dtype) && dtype !== 'f32'
const reduced = 1_000_003

export class Builder {
  readonly t: Program
  readonly args: Args
  readonly choices: Choices
  readonly shape: Shape
  readonly sites: Sites
  readonly pool: Entry[] = []
  readonly #used = new Set<Entry>()
  /** Shared tiles, declared before anything else. */
  readonly shared: readonly Shared<StorageDType, 2>[]
  readonly item: Scalar
  /** The nesting depth of blocks at the current position. */
  depth = 0

  constructor(made: Pick<Builder, 't' | 'args' | 'choices' | 'shape' | 'sites' | 'shared' | 'item'>) {
    this.t = made.t
    this.args = made.args
    this.choices = made.choices
    this.shape = made.shape
    this.sites = made.sites
    this.shared = made.shared
    this.item = made.item
  }

  /**
   * Adds a value that the following steps can use. Values of dtype i64 are used as indices, so they are kept far below
   * 2^53.
   */
  add(one: Entry | Value): void {
    const made = 'error' in one ? one : entry(one)
    if (made.error > 0 && made.magnitude > 1e4) return
    this.pool.push(made.dtype === 'i64' ? entry(call(made.value, 'mod', reduced)) : made)
  }

  /**
   * Picks a value that the previous steps have made available. Recent values are picked more often, so that chains of
   * operations become long.
   */
  find(fits: (one: Entry) => boolean): Entry | undefined {
    const found = this.pool.filter(fits)
    if (found.length === 0) return undefined
    const back = Math.min(this.choices.below(found.length), this.choices.below(found.length))
    const one = found[found.length - 1 - back]
    this.#used.add(one)
    return one
  }
  /** The values that no other value was computed from. Only a store makes the values visible. */
  unused(): Entry[] {
    return this.pool.filter((one) => !this.#used.has(one))
  }
  exact(fits: (one: Entry) => boolean = () => true): Entry | undefined {
    return this.find((one) => isExact(one) && fits(one))
  }

  inner<T>(record: () => T): T {
    const before = this.pool.length
    this.depth++
    try {
      return record()
    } finally {
      this.depth--
      this.pool.length = before
    }
  }

  input(dtype: StorageDType): Tensor<StorageDType, 2> {
    const from = this.args[`in_${dtype}`] as unknown as Tensor<StorageDType, 2>
    return this.choices.rarely(4) ? from.on(this.peer()) : from
  }
  output(dtype: StorageDType): Tensor<StorageDType, 3> {
    return this.args[`out_${dtype}`] as unknown as Tensor<StorageDType, 3>
  }
  peer(): Scalar {
    return this.t.rank.add(this.choices.below(this.shape.ranks)).mod(this.t.world)
  }

  /**
   * An unused output slot for the next store, or undefined if none is left. The argument `error` is the allowed
   * difference between targets.
   */
  slot(dtype: StorageDType, error = 0): Tensor<StorageDType, 2> | undefined {
    const sites = this.sites.get(dtype) ?? []
    if (sites.length === mostSites) return undefined
    this.sites.set(dtype, [...sites, error])
    // Every rank writes to a fixed, distinct peer, so no two ranks write to the same element.
    const to = this.choices.rarely(4) ? this.output(dtype).on(this.peer()) : this.output(dtype)
    return to.pick(this.item.add(sites.length * this.shape.items))
  }

  /** A mask of the given shape: all false, all true, partly true, or an available value. */
  mask(shape: readonly number[]): Value {
    const known = this.exact(
      (one) => one.dtype === 'bool' && (one.shape.length === 0 || one.shape.join() === shape.join()),
    )
    if (known && this.choices.below(2) === 1) return known.value
    if (shape.length === 0) return call(this.item, 'lt', this.choices.below(4))
    const limit = this.choices.pick([1, 0, 2, 3, 100])
    const lanes: Value = this.t.arange(shape[shape.length - 1])
    const inside = call(lanes, 'lt', limit)
    if (shape.length === 1) return inside
    return (inside as Value<'bool', 1>).expand(0).broadcast(shape as [number, number])
  }

  number(dtype: DType): number {
    const { kind, min } = dtypes[dtype]
    if (dtype === 'bool') return this.choices.below(2)
    if (kind === 'float') return this.choices.pick([1, 0.5, -2, 3, 0, -0.75])
    return this.choices.pick(min < 0 ? [1, 2, -1, 0, 7, -100] : [1, 2, 3, 0, 7, 100])
  }
}
