/**
 * Generates the innermost loop of a matrix product: a few rows times a few vectors of columns over `depth` steps of the
 * inner axis, with the sums in local variables. Each shape of microkernel has its own function, marked `hot`, so that a
 * WebAssembly engine allocates registers for each microkernel separately. Sums start at zero and are added to memory at
 * the end, so that no step waits for the old values. If `fresh` is set, the sums replace the values in memory.
 *
 * In a microkernel with fewer rows than the machine's maximum, the free registers hold separate sums for several steps,
 * so that memory limits the speed, and not the latency of the additions.
 */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import {
  add,
  address,
  binary,
  codeFunction,
  compare,
  fma,
  i32,
  mul,
  sub,
  use,
  type Operand,
  type Writer,
} from '../../build.ts'
import type { CodeFunction, Local, Machine } from '../../code.ts'
import { memoryKind, rawCodeType, widen } from '../convert.ts'
import { numbersOf, pointers, sharedFunction, wideBytes } from './tiles.ts'

export interface Microkernel {
  readonly rows: number
  /** The number of columns of the microkernel, in vectors. */
  readonly vectors: number
  /** The strides of the widened left operand, in bytes: along rows and along steps. */
  readonly leftRow: number
  readonly leftStep: number
  /** The right operand in its stored dtype, as contiguous vectors. */
  readonly dtype: StorageDType
  readonly rightStep: number
  /** The distance between rows of the sums, in bytes. */
  readonly sumRow: number
}

const mostUnrolled = 4

export function microkernel(machine: Machine, shape: Microkernel): CodeFunction {
  const { rows, vectors, leftRow, leftStep, dtype, rightStep, sumRow } = shape
  const name = `product_${rows}x${vectors}_${dtype}_${leftRow}_${leftStep}_${rightStep}_${sumRow}`
  return sharedFunction(machine, name, () =>
    codeFunction(
      name,
      [...pointers('left', 'right', 'sums'), ['depth', 'i32'], ['fresh', 'i32']],
      (writer, left, right, sums, depth, fresh) => {
        for (let row = 0; row < rows; row++)
          writer.emit({ kind: 'prefetch', at: use(sums), offset: row * sumRow, to: 'write' })
        const room = Math.floor((machine.rows * machine.columns) / (rows * vectors))
        const unrolled = Math.max(1, Math.min(mostUnrolled, room))
        const apart = Array.from({ length: unrolled }, () => startSums(writer, shape))
        const operands = { left, right, depth }
        if (unrolled > 1) multiplyApart(writer, machine, shape, operands, apart)
        else multiplyInTurns(writer, machine, shape, operands, apart[0])
        leaveSums(writer, fresh, sums, numbersOf(dtype), (leave) => {
          for (let row = 0; row < rows; row++)
            for (let vector = 0; vector < vectors; vector++) {
              const total = apart.map((part): Operand => part[row][vector]).reduce(add)
              leave(row * sumRow + vector * machine.lanes * wideBytes, total)
            }
        })
      },
      { hot: true },
    ),
  )
}

/**
 * Stores the sums that the function `all` enumerates, with their offsets. If `fresh` is set, the sums replace the
 * values in memory; if not, the sums are added to the values in memory.
 */
export function leaveSums(
  writer: Writer,
  fresh: Local,
  sums: Local,
  { vector, memory }: ReturnType<typeof numbersOf>,
  all: (leave: (offset: number, sum: Operand) => void) => void,
): void {
  writer.if(
    fresh,
    () => all((offset, sum) => writer.store(memory, sums, sum, offset)),
    () =>
      all((offset, sum) => {
        const before = writer.load('before', vector, memory, sums, offset)
        writer.store(memory, sums, add(before, sum), offset)
      }),
  )
}

function startSums(writer: Writer, { rows, vectors, dtype }: Microkernel): Local[][] {
  const { vector: type } = numbersOf(dtype)
  return Array.from({ length: rows }, () =>
    Array.from({ length: vectors }, () => writer.let('sum', { kind: 'const', type, value: 0 })),
  )
}

interface Operands {
  readonly left: Local
  readonly right: Local
  readonly depth: Local
}

/** Computes several steps of the inner axis per iteration, each with separate sums. */
function multiplyApart(
  writer: Writer,
  machine: Machine,
  shape: Microkernel,
  { left, right, depth }: Operands,
  apart: readonly Local[][][],
): void {
  const steps = apart.length
  const advance = (by: number): void => {
    writer.set(left, address(left, 0, 1, shape.leftStep * by))
    writer.set(right, address(right, 0, 1, shape.rightStep * by))
  }
  const whole = writer.let('whole', sub(depth, binary('rem', depth, i32(steps))))
  writer.for('step', 0, whole, steps, () => {
    apart.forEach((into, step) =>
      multiplyStep(writer, machine, shape, { left, leftAt: step * shape.leftStep, right, step }, into),
    )
    advance(steps)
  })
  writer.for('step', whole, depth, 1, () => {
    multiplyStep(writer, machine, shape, { left, leftAt: 0, right, step: 0 }, apart[0])
    advance(1)
  })
}

/** The number of steps per loop iteration. */
const stepsInTurn = 4

/**
 * Adds consecutive steps to the same sums, a few per loop iteration, so that the loop overhead is small. A test between
 * two steps handles a depth that is not a multiple of the steps per iteration. The test between two steps also keeps V8
 * from moving all loads of an iteration to its start, which would exceed the registers. The pointer to the left operand
 * advances in every step, because V8 needs an extra instruction for each additional offset at which a value is loaded
 * and splatted.
 */
function multiplyInTurns(
  writer: Writer,
  machine: Machine,
  shape: Microkernel,
  { left, right, depth }: Operands,
  into: Local[][],
): void {
  writer.for('from', 0, depth, stepsInTurn, (from) => {
    const rest = writer.let('rest', sub(depth, from))
    for (let step = 0; step < stepsInTurn; step++) {
      if (step > 0) writer.if(compare('eq', rest, i32(step)), () => writer.break())
      multiplyStep(writer, machine, shape, { left, leftAt: 0, right, step }, into)
      writer.set(left, address(left, 0, 1, shape.leftStep))
    }
    writer.set(right, address(right, 0, 1, shape.rightStep * stepsInTurn))
  })
}

/** Computes one step, with the left operand at offset `leftAt` bytes and the right operand at step `step`. */
function multiplyStep(
  writer: Writer,
  machine: Machine,
  { rows, vectors, leftRow, dtype, rightStep }: Microkernel,
  at: { readonly left: Local; readonly leftAt: number; readonly right: Local; readonly step: number },
  into: Local[][],
): void {
  const { vector: type } = numbersOf(dtype)
  const bytes = dtypes[dtype].bytes
  const columns = Array.from({ length: vectors }, (_, vector) => {
    const offset = at.step * rightStep + vector * machine.lanes * bytes
    const raw = writer.load('right', rawCodeType(dtype, true), memoryKind(dtype), at.right, offset)
    return widen(writer, machine, dtype, raw)
  })
  for (let row = 0; row < rows; row++) {
    const factor = writer.loadSplat('left', type, at.left, at.leftAt + row * leftRow)
    columns.forEach((column, vector) => {
      const sum = into[row][vector]
      writer.set(sum, type === 'vf32' ? fma(factor, column, sum) : add(mul(factor, column), sum))
    })
  }
}
