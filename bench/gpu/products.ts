/** Checks samples of results, and runs the vendor's matrix product on all ranks of a benchmark's world. */
import { medianOf } from '../../src/runs/quantity.ts'
import type { Timed } from '../../src/runs/gate.ts'
import type { Sample } from '../../src/ops/drawn.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'
import { proposalsOf, type Operands, type Product, type Proposals } from './cublas.ts'
import { isWritten, poison, readSome } from './pattern.ts'
import { expectSimilar, mostVendorLaunches, Wrong, type ForeignWays, type Stage } from './stage.ts'

/** The time and the numbers of rounds for which the algorithms that cuBLASLt proposes are compared. */
const trying = { seconds: 0.2, leastRounds: 7, mostRounds: 25 }

/** The largest number of elements of a result that is read completely, to check that every element was written. */
const usualRead = 8 * 2 ** 20

/**
 * Fills a result with NaN, runs the kernels that write it, and compares it with the samples. The argument `samples` has
 * one entry per rank. A result with at most `mostRead` elements is read completely.
 */
export const productCheck =
  (
    { world, stream }: Stage,
    results: readonly SymmetricTensor[],
    samples: readonly Sample[],
    mostRead = usualRead,
  ) =>
  async (set: number, run: () => void): Promise<void> => {
    const c = results[set]
    const N = c.shape.at(-1)!
    const M = c.shape.reduce((product, extent) => product * extent, 1) / N
    for (const rank of world.localRanks) poison(world, c, rank)
    run()
    await world.synchronize()
    for (const rank of world.localRanks) {
      // Other libraries may have enqueued work on the stream, too, so the host waits for the whole stream.
      world.driverStream(rank, stream.id).synchronize()
      const { rows, columns, expected } = samples[rank]
      if (M * N <= mostRead && !isWritten(world, c, rank, M * N))
        throw new Wrong(`rank ${rank}: elements were not written`)
      const found = rows.flatMap((row) => {
        const elements = readSome(world, c, rank, row * N, N)
        return columns.map((column) => elements[column])
      })
      expectSimilar(`rank ${rank}`, found, expected)
    }
  }

/**
 * The vendor's matrix product on all ranks, for each set of operands (given by rank). The vendor's product uses the
 * fastest of eight proposed algorithms, measured while all ranks compute. The algorithm of cuBLASLt is chosen
 * separately for single executions and for loops. Algorithms that the device rejects are skipped.
 */
export async function vendorProducts(
  stage: Stage,
  product: Product,
  sets: readonly (readonly Operands[])[],
): Promise<ForeignWays> {
  const { world, stream } = stage
  const proposals = world.localRanks.map((rank): Proposals => {
    const made = proposalsOf(world.driverStream(rank, stream.id), product)
    stage.own(() => made.close())
    return made
  })
  const launches = (n: number): (() => void)[] =>
    sets.map((operands) => () => {
      for (const rank of world.localRanks) {
        // The call of `driverStream` makes the stream wait for graphs that were launched earlier.
        world.driverStream(rank, stream.id)
        proposals[rank].run(n, operands[rank])
      }
    })
  const usable: number[] = []
  for (let n = 0; n < Math.min(...proposals.map(({ count }) => count)); n++) {
    try {
      launches(n)[0]()
      usable.push(n)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('cublasLt')) throw error
    }
    for (const rank of world.localRanks) world.driverStream(rank, stream.id).synchronize()
  }
  if (usable.length === 0) throw new Wrong('cuBLASLt proposes no usable algorithm for this product')
  const candidates = usable.map((n) =>
    launches(n).map((launch): Timed => ({ launches: mostVendorLaunches, launch })),
  )
  const fastest = async (turns: readonly (readonly Timed[])[]): Promise<(() => void)[]> => {
    const medians = (await stage.samples(turns, trying)).map(medianOf)
    return launches(usable[medians.indexOf(Math.min(...medians))])
  }
  const once = await fastest(candidates)
  if (stage.repeats === 1) return { once, inLoop: once }
  return { once, inLoop: await fastest(candidates.map((executions) => stage.inLoop(executions))) }
}
