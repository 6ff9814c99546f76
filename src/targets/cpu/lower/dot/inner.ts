/**
 * The microkernel for a right operand whose columns are contiguous, such as a transposed tile (attention keys
 * multiplied by a few queries). Vectors run along the inner axis, with one sum vector per element of the result. At the
 * end, the lanes of each sum vector are added up, for several vectors at a time. The microkernel for transposed
 * operands does not rearrange the operand, because for few rows that would cost more than the matrix product itself.
 */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import type { Node } from '../../../../ir/node.ts'
import type { RefType, ValueType } from '../../../../ir/type.ts'
import {
  add,
  address,
  codeFunction,
  fma,
  i32,
  mul,
  use,
  zip,
  type Operand,
  type Writer,
} from '../../build.ts'
import type { CodeFunction, Local, Machine } from '../../code.ts'
import { memoryKind, rawCodeType, widen } from '../convert.ts'
import { leaveSums } from './microkernel.ts'
import { numbersOf, pointers, sharedFunction, wideBytes } from './tiles.ts'

export interface InnerKernel {
  readonly rows: number
  readonly depth: number
  /** The number of columns to prefetch. */
  readonly ahead: number
  /** The stored dtype of the right operand. The left operand is already widened. */
  readonly dtype: StorageDType
  /**
   * The strides in bytes of the rows of the left operand, the columns of the right operand, and the rows of the sums.
   */
  readonly leftRow: number
  readonly rightColumn: number
  readonly sumRow: number
}

/**
 * The largest number of rows for the microkernel for transposed operands. With more rows, rearranging the operand takes
 * a small fraction of the time of the matrix product, and several products may share the rearranged tile.
 */
const mostRows = 16

/**
 * True if the extents are multiples of the number of lanes, and the rows are so few that adding lanes is cheaper than
 * rearranging the operand.
 */
export const isInner = (
  { lanes }: Machine,
  { rows, columns, depth }: { readonly rows: number; readonly columns: number; readonly depth: number },
): boolean => columns % lanes === 0 && depth % lanes === 0 && rows <= mostRows && 4 * rows <= depth

/**
 * For a `dot` whose right operand is a transposed tile: true if the microkernel for transposed operands computes it.
 */
export function isInnerDot({ inputs: [left], type }: Node, machine: Machine): boolean {
  const [rows, columns] = (type as ValueType).shape
  const depth = (left.type as RefType | ValueType).shape[1]
  return left.op !== 'transpose' && isInner(machine, { rows, columns, depth })
}

/**
 * Splits the rows into groups of nearly equal size and returns the size of the largest. The microkernel holds, for each
 * row of a group, as many sum vectors as a vector has lanes.
 */
export function innerRows({ lanes }: Machine, rows: number): number {
  const most = lanes === 4 ? 3 : 1
  return Math.ceil(rows / Math.ceil(rows / most))
}

const lineBytes = 64

/**
 * Computes as many columns at a time as a vector has lanes. The arguments of the microkernel are: left, right, sums,
 * columns to prefetch, and whether to replace the sums.
 */
function innerKernel(machine: Machine, kernel: InnerKernel): CodeFunction {
  const { rows, depth, ahead, dtype, leftRow, rightColumn, sumRow } = kernel
  const { lanes } = machine
  const { vector, memory } = numbersOf(dtype)
  const name = `inner_${rows}x${lanes}x${depth}_${ahead}_${dtype}_${leftRow}_${rightColumn}_${sumRow}`
  const all = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index))
  return sharedFunction(machine, name, () =>
    codeFunction(
      name,
      [...pointers('left', 'right', 'sums', 'next'), ['fresh', 'i32']],
      (writer, left, right, sums, next, fresh) => {
        const totals = all(rows, () =>
          all(lanes, () => writer.let('sum', { kind: 'const', type: vector, value: 0 })),
        )
        const bytes = lanes * dtypes[dtype].bytes
        const step = (at: number): void => {
          const factors = all(rows, (row) =>
            writer.load('left', vector, memory, left, row * leftRow + at * lanes * wideBytes),
          )
          for (let column = 0; column < lanes; column++) {
            const offset = column * rightColumn + at * bytes
            const raw = writer.load('right', rawCodeType(dtype, true), memoryKind(dtype), right, offset)
            const other = widen(writer, machine, dtype, raw)
            factors.forEach((factor, row) => {
              const sum = totals[row][column]
              writer.set(sum, vector === 'vf32' ? fma(factor, other, sum) : add(mul(factor, other), sum))
            })
          }
        }
        // Each cache line is prefetched once per several steps. WebAssembly has no prefetch instruction, and with
        // unrolled steps V8 would load the operands of all steps first and run out of registers.
        const inLine = machine.prefetches ? Math.max(1, lineBytes / bytes) : 1
        const steps = depth % (inLine * lanes) === 0 ? inLine : 1
        writer.for('step', 0, depth, steps * lanes, () => {
          for (let column = 0; column < ahead; column++)
            writer.emit({ kind: 'prefetch', at: use(next), offset: column * rightColumn, to: 'read' })
          for (let at = 0; at < steps; at++) step(at)
          writer.set(left, address(left, 0, 1, steps * lanes * wideBytes))
          for (const pointer of [right, next]) writer.set(pointer, address(pointer, 0, 1, steps * bytes))
        })
        const found = totals.map((row) => sumOfLanes(writer, row))
        leaveSums(writer, fresh, sums, numbersOf(dtype), (leave) =>
          found.forEach((sum, row) => leave(row * sumRow, sum)),
        )
      },
      { hot: true },
    ),
  )
}

/** Adds the lanes of as many vectors as a vector has lanes. Lane n of the result is the sum of vector n. */
function sumOfLanes(writer: Writer, vectors: readonly Local[]): Local {
  let current = vectors
  while (current.length > 1) {
    const half = current.length / 2
    current = current
      .slice(0, half)
      .map((a, i) =>
        writer.let('lanes', add(zip(a, current[i + half], 'first'), zip(a, current[i + half], 'second'))),
      )
  }
  return current[0]
}

/**
 * Computes a whole matrix product, as many columns at a time as a vector has lanes, so that the columns stay in a cache
 * for all rows. Each group of rows prefetches some of the next columns. Without the prefetch, the first group of rows
 * would wait for memory, and memory would be idle during the other groups. During the last columns, the prefetch reads
 * the memory behind the operand, which usually holds the next tile.
 */
export function multiplyInner(
  writer: Writer,
  machine: Machine,
  kernel: Omit<InnerKernel, 'rows' | 'ahead'>,
  { rows, columns }: { readonly rows: number; readonly columns: number },
  at: { readonly left: Operand; readonly right: Operand; readonly sums: Operand; readonly fresh: Operand },
): void {
  const { lanes } = machine
  const together = innerRows(machine, rows)
  const parts = Math.floor(rows / together)
  const ahead = Math.ceil(lanes / Math.ceil(rows / together))
  writer.for('column', 0, columns, lanes, (column) => {
    const right = writer.let('right', address(at.right, column, kernel.rightColumn))
    const sums = writer.let('sums', address(at.sums, column, wideBytes))
    const part = (number: Operand, count: number): void =>
      void writer.call(
        innerKernel(machine, { ...kernel, rows: count, ahead }),
        address(at.left, number, together * kernel.leftRow),
        right,
        address(sums, number, together * kernel.sumRow),
        address(right, number, ahead * kernel.rightColumn, lanes * kernel.rightColumn),
        at.fresh,
      )
    writer.for('part', 0, parts, 1, (number) => part(number, together))
    if (parts * together < rows) part(i32(parts), rows - parts * together)
  })
}
