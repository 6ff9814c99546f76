/** Every operation of Code, compiled by the system's compiler, against its meaning in JavaScript. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  isSame,
  layout,
  opCases,
  programOf,
  read,
  rowsOf,
  sizeOf,
  write,
  type ScalarType,
  type Value,
} from '../cpu/opCases.ts'
import { engineForTests, load, moduleOf, sharedMemory } from './engine.ts'

const engine = engineForTests()

const sample = <T extends Value>(arbitrary: fc.Arbitrary<T>, seed: number): T[] =>
  fc.sample(arbitrary, { numRuns: 40, seed })
const random: Record<ScalarType, readonly Value[]> = {
  i32: sample(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), 1),
  i64: sample(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), 2),
  f32: [...sample(fc.float(), 3), ...sample(fc.float({ min: -1000, max: 1000, noNaN: true }), 4)],
  f64: [...sample(fc.double(), 5), ...sample(fc.double({ min: -1e10, max: 1e10, noNaN: true }), 6)],
}

const offsets = { slot: 1024, launch: 65536, frame: 65536 + 3 * layout.column }

describe.skipIf(!engine).each([4, 8, 16])('operations on vectors of %i lanes and scalars', (lanes) => {
  // Vectors wider than the processor's are several of its own.
  if (!engine) return
  const memory = sharedMemory()
  const view = new DataView(memory.buffer)
  const entries = load(engine, moduleOf(engine, `operations ${lanes}`, opCases.map(programOf), lanes), memory)

  test.each(opCases.map((op, index) => [op.name, op, entries[index]] as const))('%s', (_, op, entry) => {
    const rows = rowsOf(op, lanes, random)
    rows.forEach((row, number) => {
      row.forEach((values, operand) => {
        const type = op.operands[operand]
        const at = offsets.launch + operand * layout.column + number * layout.row
        values.forEach((value, lane) => write(view, at + lane * sizeOf(type), type, value))
      })
    })
    view.setInt32(offsets.slot, rows.length, true)
    expect(entry(offsets.launch, offsets.frame, offsets.slot)).toBe(0)

    const wrong: string[] = []
    rows.forEach((row, number) => {
      for (let lane = 0; lane < row[0].length; lane++) {
        const operands = row.map((values) => values[lane])
        const at = offsets.frame + number * layout.row + lane * sizeOf(op.result)
        const found = read(view, at, op.result)
        const right = op.expected(...operands)
        if (!right.some((value) => isSame(value, found)))
          wrong.push(`(${operands.join(', ')}) gave ${found}, not ${right.join(' or ')}`)
      }
    })
    expect(wrong).toEqual([])
  })
})
