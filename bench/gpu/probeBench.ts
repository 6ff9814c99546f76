// What probes on a device have in common: a world with tensors in it, written and read as numbers, and how results are judged.

import { dtypes, round, type DotDType, type StorageDType } from '../../src/ir/dtype.ts'
import type { KernelIR } from '../../src/ir/node.ts'
import { lower } from '../../src/ir/stages.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf } from '../../src/targets/cuda/emit/recipe.ts'
import {
  LaunchWorld,
  type HeapTensor,
  type LaunchArgument,
  type LoadedKernel,
} from '../../src/targets/cuda/launch.ts'
import type { OperandDType } from '../../src/ops/operation.ts'
import type { Device } from '../../src/targets/cuda/runtime.ts'
import { readElements, writeElements } from '../../src/world/elements.ts'

export type Judge = (what: string, right: boolean, figures: object) => void
export type Check = () => void
type Arguments = Readonly<Record<string, LaunchArgument>>

/** What rounding once to the dtype costs, with room for sums in another order. */
export const bounds: Record<DotDType, number> = {
  f32: 1e-5,
  f16: 1e-3,
  bf16: 6e-3,
  f8e4m3: 1e-5,
  f8e5m2: 1e-5,
  i8: 0,
}

/** All cases of all checks; one that throws is a wrong one. */
export function runAll(
  checks: readonly ((device: Device, judge: Judge) => readonly Check[])[],
  device: Device,
  judge: Judge,
): void {
  for (const check of checks)
    for (const one of check(device, judge))
      try {
        one()
      } catch (error) {
        judge(check.name, false, { error: String(error) })
      }
}

export const product = (shape: readonly number[]): number =>
  shape.reduce((total, extent) => total * extent, 1)

export function relative(out: ArrayLike<number>, reference: ArrayLike<number>): number {
  let error = 0
  let norm = 0
  for (let i = 0; i < reference.length; i++) {
    error += (out[i] - reference[i]) ** 2
    norm += reference[i] ** 2
  }
  return Math.sqrt(error / (norm || 1))
}

/** Numbers between -1 and 1, of i8 between -100 and 100, that the dtype represents. */
export function randomNumbers(dtype: DotDType, count: number, seed: number): Float64Array {
  let state = (seed * 2654435761) >>> 0 || 1
  return Float64Array.from({ length: count }, () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    const number = (state | 0) / 2 ** 31
    return dtype === 'i8' ? Math.trunc(100 * number) : round(dtype, number)
  })
}

/** A world with tensors in it, written and read as numbers. */
export class Bench {
  readonly world: LaunchWorld
  readonly args: Record<string, LaunchArgument> = {}

  constructor(device: Device, ranks: number, heapBytes = 64 << 20) {
    this.world = new LaunchWorld(device, { ranks, heapBytes })
  }

  tensor(name: string, dtype: StorageDType, shape: readonly number[]): this {
    this.args[name] = this.world.tensor(dtype, shape)
    for (let rank = 0; rank < this.world.ranks.length; rank++) this.poison(name, rank)
    return this
  }
  flags(name: string, shape: readonly number[]): this {
    this.args[name] = this.world.flags(shape)
    return this
  }
  poison(name: string, rank = 0): void {
    this.world.poison(this.args[name] as HeapTensor, rank)
  }
  write(name: string, contents: ArrayLike<number>, rank = 0): void {
    const { dtype } = this.args[name] as HeapTensor
    const bytes = new Uint8Array(contents.length * dtypes[dtype].bytes)
    writeElements(bytes.buffer, 0, dtype, contents)
    this.world.write(this.args[name] as HeapTensor, rank, bytes)
  }
  read(name: string, rank = 0): Float64Array {
    const { dtype, shape } = this.args[name] as HeapTensor
    const bytes = new Uint8Array(product(shape) * dtypes[dtype].bytes)
    this.world.read(this.args[name] as HeapTensor, rank, bytes)
    return Float64Array.from(readElements(bytes.buffer, 0, dtype, product(shape)))
  }
  /** A kernel for the arguments it will be given. */
  load(ir: KernelIR, args: Arguments = this.args): LoadedKernel {
    const tensors = Object.fromEntries(
      Object.entries(args).flatMap(([name, argument]) =>
        typeof argument === 'object' && argument.kind === 'tensor' ? [[name, factsOf(argument.shape)]] : [],
      ),
    )
    return this.world.load(emitCuda(lower(ir), { tensors }))
  }
  /** One launch on every rank of each kernel, in order, with all arguments there are. */
  run(loaded: readonly LoadedKernel[], grid?: number): void {
    this.start(
      loaded.map((one) => ({ loaded: one, given: this.args })),
      grid,
    )
  }
  start(steps: readonly { readonly loaded: LoadedKernel; readonly given: Arguments }[], grid?: number): void {
    this.world.ranks.forEach(({ stream }, rank) => {
      for (const { loaded, given } of steps) this.world.prepare(loaded, given, rank, grid).on(stream)
    })
    this.world.synchronize()
  }
  close(): void {
    this.world.close()
  }
}

export interface CacheShape {
  readonly batch: number
  readonly heads: number
  readonly G: number
  readonly D: number
  readonly capacity: number
}
export interface CacheShard {
  readonly k: Float64Array
  readonly v: Float64Array
  readonly lengths: readonly number[]
}

/** A shard of a cache; beyond each batch entry's length it holds NaN. */
export function randomShard(
  dtype: OperandDType,
  lengths: readonly number[],
  { batch, heads, D, capacity }: CacheShape,
  seed: number,
): CacheShard {
  const [k, v] = [0, 1].map((side) => {
    const all = randomNumbers(dtype, batch * heads * capacity * D, 2 * seed + side)
    for (let tile = 0; tile < batch * heads; tile++)
      all.fill(NaN, (tile * capacity + lengths[Math.floor(tile / heads)]) * D, (tile + 1) * capacity * D)
    return all
  })
  return { k, v, lengths }
}

/** Attention over all shards, from the definition; zeros where there is no token. */
export function attentionOf(
  q: Float64Array,
  shards: readonly CacheShard[],
  { batch, heads, G, D, capacity }: CacheShape,
): Float64Array {
  const out = new Float64Array(batch * heads * G * D)
  for (let tile = 0; tile < batch * heads; tile++)
    for (let g = 0; g < G; g++) {
      const row = (tile * G + g) * D
      let total = 0
      for (const { k, v, lengths } of shards)
        for (let token = 0; token < lengths[Math.floor(tile / heads)]; token++) {
          const at = (tile * capacity + token) * D
          let score = 0
          for (let d = 0; d < D; d++) score += q[row + d] * k[at + d]
          const weight = Math.exp(score / Math.sqrt(D))
          total += weight
          for (let d = 0; d < D; d++) out[row + d] += weight * v[at + d]
        }
      for (let d = 0; d < D; d++) out[row + d] /= total || 1
    }
  return out
}
