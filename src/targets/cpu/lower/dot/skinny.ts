/**
 * Generates the microkernel for very few rows, which reads several panels of a packed right operand at the same time. A
 * matrix product with few rows reads every element only once, so memory bandwidth limits it. Reading several panels
 * concurrently keeps more memory requests in flight than reading one.
 */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import { add, address, binary, codeFunction, fma, i32, mul, step } from '../../build.ts'
import type { CodeFunction, Machine } from '../../code.ts'
import { memoryKind, rawCodeType, widen } from '../convert.ts'
import { leaveSums } from './microkernel.ts'
import { numbersOf, panelColumns, pointers, sharedFunction, wideBytes } from './tiles.ts'

export interface SkinnyKernel {
  readonly rows: number
  readonly panels: number
  readonly leftRow: number
  readonly leftStep: number
  readonly dtype: StorageDType
  readonly sumRow: number
}

const mostStreams = 4

/** The number of panels read concurrently. If the number of panels is 1, the normal microkernel is used. */
export const streamsFor = (machine: Machine, rows: number): number =>
  Math.min(mostStreams, Math.floor(machine.rows / rows))

/** Arguments: left, right, sums, depth, the distance between panels in bytes, and whether to replace the sums. */
export function skinnyKernel(machine: Machine, kernel: SkinnyKernel): CodeFunction {
  const { rows, panels, leftRow, leftStep, dtype, sumRow } = kernel
  const name = `skinny_${rows}x${panels}_${dtype}_${leftRow}_${leftStep}_${sumRow}`
  const { vector: type } = numbersOf(dtype)
  const bytes = dtypes[dtype].bytes
  const width = panelColumns(machine)
  const all = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index))
  return sharedFunction(machine, name, () =>
    codeFunction(
      name,
      [...pointers('left', 'right', 'sums'), ['depth', 'i32'], ['panelStride', 'ptr'], ['fresh', 'i32']],
      (writer, left, right, sums, depth, panelStride, fresh) => {
        const vectors = panels * machine.columns
        const streams = all(panels, (panel) => writer.let('stream', step(right, i32(panel), panelStride)))
        const totals = all(rows, () =>
          all(vectors, () => writer.let('sum', { kind: 'const', type, value: 0 })),
        )
        writer.for('step', 0, depth, 1, () => {
          const factors = all(rows, (row) => writer.loadSplat('left', type, left, row * leftRow))
          for (let vector = 0; vector < vectors; vector++) {
            const stream = streams[Math.floor(vector / machine.columns)]
            const offset = (vector % machine.columns) * machine.lanes * bytes
            const raw = writer.load('raw', rawCodeType(dtype, true), memoryKind(dtype), stream, offset)
            const column = widen(writer, machine, dtype, raw)
            factors.forEach((factor, row) => {
              const sum = totals[row][vector]
              writer.set(sum, type === 'vf32' ? fma(factor, column, sum) : add(mul(factor, column), sum))
            })
          }
          writer.set(left, address(left, 0, 1, leftStep))
          for (const stream of streams) writer.set(stream, address(stream, 0, 1, width * bytes))
        })
        leaveSums(writer, fresh, sums, numbersOf(dtype), (leave) =>
          totals.forEach((row, index) =>
            row.forEach((sum, vector) => leave(index * sumRow + vector * machine.lanes * wideBytes, sum)),
          ),
        )
      },
      { hot: true },
    ),
  )
}

const lineBytes = 64
export const touchedPanels = mostStreams

/**
 * Reads one word of every cache line of a few panels. After the read-ahead, the panels are in the L2 cache when a
 * matrix product reads them, row block by row block. Without the read-ahead, the first row block would wait for memory,
 * and memory would be idle during all other row blocks. The arguments are the first panel, the distance between panels
 * in bytes, the number of bytes per panel, and the address of an unused result, without which a compiler would remove
 * the reads.
 */
export function touchPanels(machine: Machine): CodeFunction {
  const name = 'touch_panels'
  return sharedFunction(machine, name, () =>
    codeFunction(
      name,
      [...pointers('right', 'panelStride'), ['bytes', 'i32'], ['sink', 'ptr']],
      (writer, right, panelStride, bytes, sink) => {
        const streams = Array.from({ length: touchedPanels }, (_, panel) => ({
          at: writer.let('stream', step(right, i32(panel), panelStride)),
          seen: writer.let('seen', i32(0)),
        }))
        writer.for('line', 0, bytes, lineBytes, () => {
          for (const { at, seen } of streams) {
            writer.set(seen, binary('xor', seen, writer.load('word', 'i32', 'i32', at)))
            writer.set(at, address(at, 0, 1, lineBytes))
          }
        })
        const word = streams.map(({ seen }) => seen).reduce((a, b) => writer.let('seen', binary('xor', a, b)))
        writer.store('i32', sink, word)
      },
      { hot: true },
    ),
  )
}
