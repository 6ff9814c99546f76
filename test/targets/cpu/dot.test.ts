/** Tests `dot` on tiles of every dtype, extent and layout, compared with the sum of exact products in float64. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dtypes, round, type DotDType } from '../../../src/ir/dtype.ts'
import { address, i32, stride, use, zip } from '../../../src/targets/cpu/build.ts'
import type { Machine } from '../../../src/targets/cpu/code.ts'
import {
  dotScratchBytes,
  emitDot,
  emitPackedDot,
  packedDotScratchBytes,
} from '../../../src/targets/cpu/lower/dot.ts'
import {
  panelBytes,
  rowsLayout,
  type TileLayout,
  type TileOperand,
} from '../../../src/targets/cpu/lower/dot.ts'
import { emitPanelCopy, packedTile, packTensor, readsPacked } from '../../../src/targets/cpu/lower/panels.ts'
import { isInner } from '../../../src/targets/cpu/lower/dot/inner.ts'
import { panelColumns } from '../../../src/targets/cpu/lower/dot/tiles.ts'
import { refType } from '../../../src/ir/type.ts'
import { capacity, frame, memory, random, testMachines, type Piece } from './machines.ts'
import { itForSome, long } from '../../long.ts'

const dotDtypes = ['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8'] as const
const view = new DataView(memory.buffer)
const bytes = new Uint8Array(memory.buffer)

/** The bits of small floats, found by a search that is slow but independent of the code under test. */
const tables = new Map<DotDType, Map<number, number>>()
function encode(dtype: DotDType, value: number): number {
  let table = tables.get(dtype)
  if (!table) {
    tables.set(dtype, (table = new Map()))
    const [mantissa, exponentBits] = { f16: [10, 5], bf16: [7, 8], f8e5m2: [2, 5], f8e4m3: [3, 4] }[
      dtype as 'f16'
    ] as [number, number]
    const bias = (1 << (exponentBits - 1)) - 1
    for (let exponent = 0; exponent < (1 << exponentBits) - 1; exponent++)
      for (let fraction = 0; fraction < 1 << mantissa; fraction++) {
        const scale = 2 ** (Math.max(exponent, 1) - bias - mantissa)
        const size = (fraction + (exponent > 0 ? 1 << mantissa : 0)) * scale
        const raw = (exponent << mantissa) | fraction
        table.set(size, raw)
        table.set(-size, raw | (1 << (mantissa + exponentBits)))
      }
  }
  const raw = table.get(value)
  if (raw === undefined) throw new Error(`${value} is not a ${dtype}`)
  return raw
}
function put(dtype: DotDType, at: number, value: number): void {
  if (dtype === 'f32') view.setFloat32(at, value, true)
  else if (dtype === 'i8') view.setInt8(at, value)
  else if (dtypes[dtype].bytes === 2) view.setUint16(at, encode(dtype, value), true)
  else view.setUint8(at, encode(dtype, value))
}

interface Case {
  readonly dtype: DotDType
  readonly rows: number
  readonly columns: number
  readonly depth: number
  readonly transposedA: boolean
  readonly transposedB: boolean
  /** The form in which the matrix product receives the right operand. */
  readonly right: 'rows' | 'panels' | 'packed' | 'widened'
  readonly left: 'rows' | 'widened'
  /** The number of columns by which each row of the accumulator is longer than the result. */
  readonly slack: number
  /** The numbers of steps and columns of the right operand that are inside its tensor, if it is copied. */
  readonly inside: readonly [number, number]
  readonly seed: number
}

/** The addresses of all operands. The source tiles are tensors in row order, as in global memory. */
function places(machine: Machine, one: Case) {
  const { dtype, rows, columns, depth } = one
  let next = frame
  const take = (size: number): number => {
    const at = next
    // After each operand there is a gap that no kernel may write.
    next += Math.ceil(size / 64) * 64 + 64
    if (next > frame + capacity) throw new Error('the case is too large')
    return at
  }
  const size = dtypes[dtype].bytes
  const width = panelColumns(machine)
  const room = panelBytes(
    refType('shared', dtype, one.transposedB ? [columns, depth] : [depth, columns]),
    { kind: 'panels', axis: one.transposedB ? 0 : 1, width },
    machine,
  )
  return {
    sourceA: take(rows * depth * size),
    sourceB: take(Math.ceil(columns / width) * width * depth * size),
    a: take(rows * depth * 4),
    b: take(room),
    sums: take(rows * (columns + one.slack) * 4),
    scratch: take(4 << 20),
    end: next,
  }
}

function operandsOf(machine: Machine, one: Case, at: ReturnType<typeof places>, base: Parameters<Piece>[2]) {
  const { dtype, rows, columns, depth } = one
  const size = dtypes[dtype].bytes
  const place = (offset: number) => use(address(base, 0, 1, offset - frame))
  const panels: TileLayout = { kind: 'panels', axis: one.transposedB ? 0 : 1, width: panelColumns(machine) }
  const declaredA = one.transposedA ? ([depth, rows] as const) : ([rows, depth] as const)
  const declaredB = one.transposedB ? ([columns, depth] as const) : ([depth, columns] as const)
  const widened = (columns: number): TileLayout => ({ kind: 'panels', axis: 1, width: columns })
  const tile = (
    source: number,
    copy: number,
    shape: readonly [number, number],
    transposed: boolean,
    layout: TileLayout,
  ): TileOperand => ({
    base: place(layout.kind === 'rows' ? source : copy),
    dtype,
    rows: shape[transposed ? 1 : 0],
    columns: shape[transposed ? 0 : 1],
    rowStride: transposed ? size : shape[1] * size,
    columnStride: transposed ? shape[1] * size : size,
    layout,
  })
  return {
    place,
    declaredA,
    declaredB,
    a: tile(
      at.sourceA,
      at.a,
      declaredA,
      one.transposedA,
      one.left === 'rows' ? rowsLayout : widened(declaredA[1]),
    ),
    b: tile(
      at.sourceB,
      at.b,
      declaredB,
      one.transposedB,
      one.right === 'rows' ? rowsLayout : one.right === 'widened' ? widened(declaredB[1]) : panels,
    ),
  }
}

const product =
  (one: Case): Piece =>
  (writer, machine, base) => {
    const at = places(machine, one)
    const { a, b, place, declaredA, declaredB } = operandsOf(machine, one, at, base)
    const size = dtypes[one.dtype].bytes
    const sums = {
      accumulator: place(at.sums),
      accumulatorStride: (one.columns + one.slack) * 4,
      scratch: place(at.scratch),
    }
    if (one.left === 'widened') {
      const [rows, columns] = declaredA
      const source = {
        base: place(at.sourceA),
        rowStride: stride(i32(columns * size), 1),
        dtype: one.dtype,
        rows: i32(rows),
        columns: i32(columns),
        shape: declaredA,
      }
      emitPanelCopy(writer, machine, source, { ...a, shape: declaredA })
    }
    if (one.right === 'packed') {
      const tensor = {
        base: place(at.sourceB),
        dtype: one.dtype,
        rows: i32(one.inside[0]),
        columns: i32(one.inside[1]),
      }
      const tile = packedTile(writer, machine, tensor, [i32(0), i32(0)], declaredB)
      expect(packedDotScratchBytes(machine, a, tile)).toBeLessThanOrEqual(4 << 20)
      emitPackedDot(writer, machine, { ...sums, a, b: tile })
      return
    }
    if (one.right === 'panels' || one.right === 'widened') {
      const [rows, columns] = one.transposedB ? [one.inside[1], one.inside[0]] : one.inside
      const source = {
        base: place(at.sourceB),
        rowStride: stride(i32(columns * size), 1),
        dtype: one.dtype,
        rows: i32(rows),
        columns: i32(columns),
        shape: declaredB,
      }
      emitPanelCopy(writer, machine, source, { ...b, shape: declaredB })
    }
    expect(dotScratchBytes(machine, a, b)).toBeLessThanOrEqual(4 << 20)
    emitDot(writer, machine, { ...sums, a, b })
  }

function check(machine: Machine, one: Case, run: () => void): void {
  const { dtype, rows, columns, depth } = one
  const size = dtypes[dtype].bytes
  const at = places(machine, one)
  const next = random(one.seed)
  const integer = dtype === 'i8'
  const number = (): number => round(dtype, integer ? Math.floor(next() * 256) - 128 : (next() - 0.5) * 8)
  // Uninitialised memory must not affect the result.
  bytes.fill(0xff, frame, at.end)

  const a = Float64Array.from({ length: rows * depth }, number)
  const [deep, wide] = one.right === 'rows' ? [depth, columns] : one.inside
  const b = new Float64Array(depth * columns)
  for (let k = 0; k < deep; k++) for (let n = 0; n < wide; n++) b[k * columns + n] = number()

  for (let i = 0; i < rows; i++)
    for (let k = 0; k < depth; k++)
      put(dtype, at.sourceA + (one.transposedA ? k * rows + i : i * depth + k) * size, a[i * depth + k])
  for (let k = 0; k < deep; k++)
    for (let n = 0; n < wide; n++)
      put(dtype, at.sourceB + (one.transposedB ? n * deep + k : k * wide + n) * size, b[k * columns + n])
  if (one.right === 'packed') {
    const source = { 1: Uint8Array, 2: Uint16Array, 4: Float32Array }[size as 1 | 2 | 4]
    const elements = new source(bytes.slice(at.sourceB, at.sourceB + deep * wide * size).buffer)
    const packed = packTensor(elements, dtype, deep, wide, machine)
    bytes.fill(0xff, at.sourceB, at.a)
    bytes.set(new Uint8Array(packed.buffer), at.sourceB)
  }
  const sumRow = columns + one.slack
  const start = (i: number, n: number): number => ((i * 7 + n * 3) % 11) - 5
  for (let i = 0; i < rows; i++)
    for (let n = 0; n < columns; n++) {
      const place = at.sums + (i * sumRow + n) * 4
      if (integer) view.setInt32(place, start(i, n), true)
      else view.setFloat32(place, start(i, n), true)
    }
  run()
  for (let i = 0; i < rows; i++) {
    for (let n = 0; n < columns; n++) {
      let want = start(i, n)
      let total = Math.abs(want)
      for (let k = 0; k < depth; k++) {
        const term = a[i * depth + k] * b[k * columns + n]
        want += term
        total += Math.abs(term)
      }
      const place = at.sums + (i * sumRow + n) * 4
      const got = integer ? view.getInt32(place, true) : view.getFloat32(place, true)
      // Each of the `depth` additions and products has a rounding error of at most half a unit of f32.
      const bound = integer ? 0 : total * (depth + 2) * 2 ** -24
      if (!(Math.abs(got - want) <= bound)) expect({ ...one, i, n, got }).toEqual({ ...one, i, n, got: want })
    }
    for (let n = columns; n < sumRow; n++)
      if (view.getUint32(at.sums + (i * sumRow + n) * 4, true) !== 0xffffffff)
        expect({ ...one, i, n }).toBe('memory beside the sums is not written')
  }
}

const plain: Case = {
  dtype: 'f32',
  rows: 1,
  columns: 1,
  depth: 1,
  transposedA: false,
  transposedB: false,
  right: 'rows',
  left: 'rows',
  slack: 0,
  inside: [0, 0],
  seed: 1,
}

describe.each(testMachines)('on $name', ({ name, machine, compile }) => {
  /**
   * Compiling C++ takes most of the time. The short tests that compile C++ have only one dtype, in every layout and
   * with tiles at the edge of a tensor.
   */
  const longOnNative = name === 'native' ? long : {}
  const isShort = (dtype: DotDType): boolean => name !== 'native' || dtype === 'bf16'

  function checkAll(cases: readonly Case[]): void {
    const run = compile(Object.fromEntries(cases.map((one, n) => [String(n), product(one)])))
    cases.forEach((one, n) => check(machine, one, () => run(String(n))))
  }

  it('multiplies any number of rows and columns up to more than the microkernel has', longOnNative, () => {
    const width = panelColumns(machine)
    const rows = Array.from({ length: machine.rows + 2 }, (_, n) => n + 1)
    const columns = [
      1,
      2,
      machine.lanes - 1,
      machine.lanes,
      machine.lanes + 1,
      width - 1,
      width,
      width + 1,
      2 * width + machine.lanes,
    ]
    checkAll(
      rows.map((m, n) => ({
        ...plain,
        rows: m,
        columns: columns[n % columns.length],
        depth: 5 + n,
        seed: n,
      })),
    )
    checkAll(
      columns.map((n, m) => ({
        ...plain,
        rows: 1 + (m % 3),
        columns: n,
        depth: 9,
        right: 'panels',
        inside: [9, n],
        seed: m,
      })),
    )
  })

  itForSome(dotDtypes, isShort)('multiplies %s in every layout', (dtype) => {
    const shape = { ...plain, dtype, rows: 13, columns: 37, depth: 19, inside: [19, 37] as const }
    const [some, many] = [
      [false, true],
      [false, true],
    ]
    checkAll(
      some.flatMap((transposedA) =>
        many.flatMap((transposedB) =>
          (['rows', 'panels'] as const).map((form, n) => ({
            ...shape,
            transposedA,
            transposedB,
            right: form,
            left: n === 1 ? 'widened' : 'rows',
            slack: n * 3,
          })),
        ),
      ),
    )
  })

  it.each(dotDtypes)(
    'reads a transposed tile of %s along its rows if few rows multiply it',
    longOnNative,
    (dtype) => {
      const { lanes } = machine
      const shape = { ...plain, dtype, columns: 3 * lanes, transposedB: true }
      const cases = [1, 2, 3, 4, 5, 7, 8].flatMap((rows, n) =>
        (['rows', 'widened'] as const).map((right): Case => {
          const depth = Math.ceil((4 * rows) / lanes) * lanes + n * lanes
          return { ...shape, rows, depth, right, slack: n, inside: [depth, shape.columns], seed: n }
        }),
      )
      for (const one of cases) expect(isInner(machine, one)).toBe(true)
      checkAll(cases)
      // With one more row or column, an operand in its declared layout is multiplied by another microkernel.
      const [last] = cases.filter(({ right }) => right === 'rows').slice(-1)
      const others: Case[] = [
        { ...last, rows: last.depth },
        { ...last, columns: last.columns + 1 },
        { ...last, depth: last.depth + 1 },
      ]
      for (const one of others) expect(isInner(machine, one)).toBe(false)
      checkAll([...others, { ...last, transposedA: true }])
    },
  )

  it('interleaves the lanes of two vectors', () => {
    const { lanes } = machine
    const at = (vector: number): number => frame + vector * lanes * 4
    const run = compile({
      zips: (writer, _, base) => {
        const [a, b] = [0, 1].map((n) => writer.load('v', 'vi32', 'i32', base, n * lanes * 4))
        writer.store('i32', base, zip(a, b, 'first'), 2 * lanes * 4)
        writer.store('i32', base, zip(a, b, 'second'), 3 * lanes * 4)
      },
    })
    const words = (vector: number): Int32Array => new Int32Array(memory.buffer, at(vector), lanes)
    words(0).set(Array.from({ length: lanes }, (_, lane) => lane))
    words(1).set(Array.from({ length: lanes }, (_, lane) => 100 + lane))
    run('zips')
    const all = Array.from({ length: lanes }, (_, lane) => [lane, 100 + lane]).flat()
    expect([...words(2)]).toEqual(all.slice(0, lanes))
    expect([...words(3)]).toEqual(all.slice(lanes))
  })

  itForSome(dotDtypes, isShort)(
    'reads %s from a packed tensor whose edge may be inside the tile',
    (dtype) => {
      const columns = 4 * panelColumns(machine)
      expect(readsPacked(machine, [40, columns])).toBe(true)
      const shape = { ...plain, dtype, columns, depth: 40, right: 'packed' as const }
      checkAll([
        { ...shape, rows: 1, inside: [40, columns] },
        { ...shape, rows: 3, inside: [37, columns - 5] },
        { ...shape, rows: 7, inside: [1, 1] },
        { ...shape, rows: 16, inside: [40, columns - panelColumns(machine)], left: 'widened' },
      ])
    },
  )

  it('blocks a product that is larger than the caches', longOnNative, () => {
    checkAll([
      { ...plain, rows: 301, columns: 70, depth: 530, right: 'panels', inside: [530, 70] },
      { ...plain, rows: 301, columns: 70, depth: 530, transposedB: true, dtype: 'bf16' },
      { ...plain, rows: 600, columns: 33, depth: 300 },
      { ...plain, rows: 1, columns: 64, depth: 700, dtype: 'bf16', right: 'packed', inside: [700, 64] },
    ])
  })

  it('treats elements outside the tensor as zeros', () => {
    const shape = { ...plain, rows: 5, columns: 29, depth: 12, right: 'panels' as const }
    const outside = [
      [12, 0],
      [0, 29],
      [11, 28],
      [3, 17],
    ] as const
    checkAll(
      outside.flatMap((inside) =>
        [false, true].map((transposedB) => ({ ...shape, inside, transposedB, dtype: 'bf16' as const })),
      ),
    )
  })

  it('multiplies tiles of any shape', longOnNative, () => {
    const anyCase = fc
      .record({
        dtype: fc.constantFrom(...dotDtypes),
        rows: fc.integer({ min: 1, max: 40 }),
        columns: fc.integer({ min: 1, max: 50 }),
        depth: fc.integer({ min: 1, max: 40 }),
        transposedA: fc.boolean(),
        transposedB: fc.boolean(),
        right: fc.constantFrom('rows' as const, 'panels' as const),
        left: fc.constantFrom('rows' as const, 'widened' as const),
        slack: fc.integer({ min: 0, max: 5 }),
        seed: fc.integer({ min: 1, max: 1000 }),
      })
      .map((one): Case => ({ ...one, inside: [one.depth, one.columns] }))
    checkAll(fc.sample(anyCase, { numRuns: 40, seed: 20 }))
  })
})
