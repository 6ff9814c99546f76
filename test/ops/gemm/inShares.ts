/** Products in even shares, launches in a row with nothing in between: all of them through the same parts and flags. */
import type { World } from '../../../src/index.ts'
import { matrixProduct } from '../../../src/ops/allGatherGemm/reference.ts'
import { gemmInSharesKernel } from '../../../src/ops/gemmInShares.ts'
import { randomNumbers, type OperandDType } from '../../../src/ops/operation.ts'
import { expectClose } from '../../../src/world/world.ts'

export interface Shares {
  readonly M: number
  readonly N: number
  readonly K: number
  readonly programs: number
}
export interface ShareTiles {
  readonly BM: number
  readonly BN: number
  readonly BK: number
  readonly stages: number
}

/** As many pairs of factors as take turns: parts of another launch have other numbers. */
const pairs = 3

/** Every launch has a result of its own, poisoned, so that none hides another's. */
export async function multiplyInShares(
  world: World,
  dtype: OperandDType,
  { M, N, K, programs }: Shares,
  tiles: ShareTiles,
  { launches, tolerance }: { readonly launches: number; readonly tolerance: number },
): Promise<void> {
  const sums = world.empty('f32', [programs, tiles.BM, tiles.BN])
  const ready = world.flags([programs])
  const factors = Array.from({ length: Math.min(pairs, launches) }, (_, pair) => {
    const [left, right] = [
      randomNumbers(dtype, M * K, 10 * pair + 1),
      randomNumbers(dtype, K * N, 10 * pair + 2),
    ]
    const [a, b] = [world.empty(dtype, [M, K]), world.empty(dtype, [K, N])]
    world.write(a, 0, left)
    world.write(b, 0, right)
    return { a, b, product: matrixProduct(left, right, { M, N, K }) }
  })
  const results = Array.from({ length: launches }, () => {
    const c = world.empty(dtype, [M, N])
    world.write(c, 0, new Float32Array(M * N).fill(NaN))
    return c
  })
  for (const [n, c] of results.entries()) {
    const { a, b } = factors[n % factors.length]
    world.launch(gemmInSharesKernel(dtype), { a, b, c, sums, ready }, { grid: programs, meta: tiles })
  }
  for (const [n, c] of results.entries())
    expectClose(await world.read(c, 0), factors[n % factors.length].product, tolerance)
}
