/**
 * Compares every operation of the intermediate language Code with its semantics in JavaScript, on every available
 * machine, with native and wider vectors.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Entry } from '../../../src/targets/cpu/abi.ts'
import type { CodeFunction } from '../../../src/targets/cpu/code.ts'
import { loadNative, nativeEngine } from '../../../src/targets/native/node.ts'
import { loadWasm, wasmMachine } from '../../../src/targets/wasm/engine.ts'
import { enableRelaxedSimd } from '../../../src/targets/wasm/node.ts'
import { renderWasm } from '../../../src/targets/wasm/render.ts'
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
} from './opCases.ts'

const memory = new WebAssembly.Memory({ initial: 80, maximum: 80, shared: true })
const view = new DataView(memory.buffer)

interface Renderer {
  readonly name: string
  readonly lanes: number
  load(entries: readonly CodeFunction[]): Entry[]
}

const onWasm = (relaxed: boolean): Renderer => ({
  name: relaxed ? 'wasm with relaxed SIMD' : 'wasm',
  lanes: 4,
  load: (entries) =>
    loadWasm(renderWasm({ name: 'operations', machine: wasmMachine, entries }, { relaxed }), memory, () => 0),
})

/**
 * Vectors wider than the processor's are split into several registers. ARKE_STRESS=1 tests all widths; compiling each
 * takes a while.
 */
function onNative(): Renderer[] {
  const engine = nativeEngine()
  if ('unavailable' in engine) {
    console.warn(`skipped on native: ${engine.unavailable}`)
    return []
  }
  const widths = process.env.ARKE_STRESS === '1' ? [4, 8, 16] : new Set([engine.machine.lanes, 16])
  return [...widths].map((lanes) => ({
    name: `native with ${lanes} lanes`,
    lanes,
    load: (entries) =>
      loadNative(
        engine.compile({ name: `operations ${lanes}`, machine: { ...engine.machine, lanes }, entries }),
        memory,
      ),
  }))
}

const renderers = [onWasm(false), ...(enableRelaxedSimd() ? [onWasm(true)] : []), ...onNative()]

const sample = <T extends Value>(arbitrary: fc.Arbitrary<T>, seed: number): T[] =>
  fc.sample(arbitrary, { numRuns: 40, seed })
const random: Record<ScalarType, readonly Value[]> = {
  i32: sample(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), 1),
  i64: sample(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), 2),
  f32: [...sample(fc.float(), 3), ...sample(fc.float({ min: -1000, max: 1000, noNaN: true }), 4)],
  f64: [...sample(fc.double(), 5), ...sample(fc.double({ min: -1e10, max: 1e10, noNaN: true }), 6)],
}

const offsets = { slot: 1024, launch: 65536, frame: 65536 + 3 * layout.column }

describe.each(renderers)('operations on $name', ({ lanes, load }) => {
  const entries = load(opCases.map(programOf))

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
