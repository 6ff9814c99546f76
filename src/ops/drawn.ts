/**
 * Inputs that a benchmark generates on the device, because the host would take too long, and samples of the results
 * that are compared with float64.
 */
import type { OperationOptions } from '../operation/definition.ts'
import type { GpuCell } from './points.ts'

/** The elements of a tensor on a rank, as a function of the row-major index. */
export type Elements = (index: number) => number

/** The random contents of a rank's copy of an input. The random contents consist of rows of 128 elements, which repeat. */
export interface Drawn {
  readonly element: Elements
  /** The block of all distinct rows, and the offset in the block at which a row of the tensor starts. */
  readonly values: Float64Array
  place(row: number): number
  /** The number of rows after which rows repeat. */
  readonly period: number
}

/** Some elements of a rank's result, seen as a matrix whose rows run along the last axis. */
export interface Sample {
  readonly rows: readonly number[]
  readonly columns: readonly number[]
  /** The samples are ordered by row and then by column. */
  readonly expected: Float64Array
}

export interface Drawing<Options extends OperationOptions = OperationOptions> {
  /**
   * The inputs with random contents: `isEqual` if all ranks have equal contents, `isShared` if all input sets share a
   * tensor.
   */
  readonly inputs: Readonly<Record<string, { readonly isEqual?: boolean; readonly isShared?: boolean }>>
  /** For each input without random contents, the number to which all its elements are set. */
  constants?(shape: Options['shape']): Readonly<Record<string, number>>
  /** The number of input sets. By default, the input sets together exceed the caches. */
  readonly sets?: number
  /** Samples of the expected result of each rank, given the generated inputs. */
  samples(
    cell: Omit<GpuCell<Options>, 'key'>,
    drawn: (input: string, rank: number) => Drawn,
  ): readonly Sample[]
}

/** Computes some elements of A x B in float64. The elements lie in the first and last rows and columns, and between them. */
export function sampleProduct(
  { M, N, K }: { readonly M: number; readonly N: number; readonly K: number },
  a: (row: number, k: number) => number,
  b: Elements,
): Sample {
  const spread = (extent: number, count: number): number[] => [
    ...new Set(Array.from({ length: count }, (_, n) => Math.round((n * (extent - 1)) / (count - 1)))),
  ]
  const [rows, columns] = [spread(M, 4), spread(N, 37)]
  const expected = new Float64Array(rows.length * columns.length)
  const row = new Float64Array(K)
  rows.forEach((i, atRow) => {
    for (let k = 0; k < K; k++) row[k] = a(i, k)
    columns.forEach((j, atColumn) => {
      let sum = 0
      for (let k = 0; k < K; k++) sum += row[k] * b(k * N + j)
      expected[atRow * columns.length + atColumn] = sum
    })
  })
  return { rows, columns, expected }
}
