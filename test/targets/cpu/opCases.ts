/**
 * Defines every operation of the intermediate language Code with its semantics in plain JavaScript. The renderers of
 * all CPU targets are tested against this table. Values are numbers, or bigints for i64. A vector operation applies the
 * scalar semantics to each lane.
 *
 * `programOf` returns an entry that applies one operation to many operands in memory, with the addresses given by
 * `layout`.
 */
import {
  binary,
  codeFunction,
  compare,
  constant,
  convert,
  fma,
  select,
  unary,
  use,
  address,
} from '../../../src/targets/cpu/build.ts'
import type {
  BinaryName,
  CodeFunction,
  CodeType,
  CompareName,
  ConvertName,
  Expression,
  Local,
  UnaryName,
} from '../../../src/targets/cpu/code.ts'

export type Value = number | bigint
export type ScalarType = 'i32' | 'i64' | 'f32' | 'f64'

export interface OpCase {
  readonly name: string
  /**
   * The operand types of the scalar semantics. In a vector case, every operand is a vector of these types, except the
   * operand with the index `shared`.
   */
  readonly operands: readonly ScalarType[]
  readonly result: ScalarType
  readonly vector: boolean
  /** The index of an operand that is scalar even in a vector case: a shift amount, which is read from lane 0. */
  readonly shared?: number
  /** For each operand, a function that restricts the values with which the operation is tested. */
  readonly samples?: readonly (((value: Value) => Value) | undefined)[]
  readonly build: (...operands: Expression[]) => Expression
  /** All results that are correct for this case. */
  readonly expected: (...operands: Value[]) => readonly Value[]
}

const number = (value: Value): number => value as number
const signed = (bits: number, value: bigint): Value =>
  bits === 32 ? Number(BigInt.asIntN(32, value)) : BigInt.asIntN(64, value)
const unsignedOf = (bits: number, value: Value): bigint => BigInt.asUintN(bits, BigInt(value))
const vectorOf = (type: ScalarType): CodeType => (type === 'f32' ? 'vf32' : 'vi32')

/** Numbers at which operations change their behaviour. */
export const edges: Record<ScalarType, readonly Value[]> = {
  i32: [0, 1, -1, 2, -2, 3, 7, -7, 31, 255, 65536, 0x7fffffff, -0x80000000, -0x7fffffff, 0x40000000],
  i64: [
    0n,
    1n,
    -1n,
    2n,
    -7n,
    63n,
    2n ** 31n,
    -(2n ** 31n),
    2n ** 32n,
    2n ** 53n + 1n,
    2n ** 63n - 1n,
    -(2n ** 63n),
  ],
  f32: [
    0,
    -0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.25,
    NaN,
    Infinity,
    -Infinity,
    2 ** 31,
    -(2 ** 31),
    2 ** 32,
    2 ** 63,
    -(2 ** 63),
    2 ** 64,
    2147483520,
    4294967040,
    8388607.5,
    16777216,
    -0.99999994,
    1e-45,
    -1e-45,
    3.4028234663852886e38,
    1.17549435e-38,
  ].map(Math.fround),
  f64: [
    0,
    -0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    NaN,
    Infinity,
    -Infinity,
    2147483647,
    2147483647.5,
    2147483648,
    -2147483648,
    -2147483648.5,
    -2147483649,
    4294967295,
    4294967295.5,
    4294967296,
    2 ** 63,
    -(2 ** 63),
    2 ** 63 - 1024,
    2 ** 64,
    2 ** 64 - 2048,
    4503599627370495.5,
    5e-324,
    1.7976931348623157e308,
    1e39,
    16777217,
    1 + 2 ** -24 + 2 ** -50,
  ],
}

/** Rounds a result to the precision of its type. */
const rounded = (type: ScalarType, value: number): number => (type === 'f32' ? Math.fround(value) : value)

function nearest(value: number): number {
  if (!Number.isFinite(value) || Math.abs(value) >= 2 ** 52) return value
  const below = Math.floor(value)
  const part = value - below
  const whole = part < 0.5 || (part === 0.5 && below % 2 === 0) ? below : below + 1
  return whole === 0 && (value < 0 || Object.is(value, -0)) ? -0 : whole
}

function lowest(a: number, b: number): number {
  if (Number.isNaN(a)) return b
  if (Number.isNaN(b)) return a
  return Math.min(a, b)
}

/**
 * Computes a * b + c, rounded once to f32. An inexact sum is made odd, so that the second rounding gives the correct
 * result.
 */
function fusedOnce(a: number, b: number, c: number): number {
  const product = a * b
  const sum = product + c
  if (!Number.isFinite(sum) || !Number.isFinite(product) || sum === 0) return Math.fround(sum)
  const other = sum - product
  const error = product - (sum - other) + (c - other)
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, sum)
  const bits = view.getBigInt64(0)
  if (error !== 0 && (bits & 1n) === 0n) view.setBigInt64(0, error > 0 === sum > 0 ? bits + 1n : bits - 1n)
  return Math.fround(view.getFloat64(0))
}

const floatUnary: Partial<Record<UnaryName, (a: number) => number>> = {
  neg: (a) => -a,
  abs: Math.abs,
  sqrt: Math.sqrt,
  floor: Math.floor,
  nearest,
}
const floatBinary: Partial<Record<BinaryName, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  min: lowest,
  max: (a, b) => -lowest(-a, -b),
}
const integerUnary: Partial<Record<UnaryName, (a: bigint) => bigint>> = {
  neg: (a) => -a,
  abs: (a) => (a < 0n ? -a : a),
  not: (a) => ~a,
}
/** The semantics of integer operations. `u` interprets an integer as unsigned. */
const integerBinary = (bits: number): Record<BinaryName, (a: bigint, b: bigint) => bigint> => {
  const u = (value: bigint): bigint => BigInt.asUintN(bits, value)
  return {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    mul: (a, b) => a * b,
    div: (a, b) => (b === 0n ? 0n : a / b),
    rem: (a, b) => (b === 0n ? 0n : a % b),
    divU: (a, b) => (b === 0n ? 0n : u(a) / u(b)),
    remU: (a, b) => (b === 0n ? 0n : u(a) % u(b)),
    min: (a, b) => (a < b ? a : b),
    max: (a, b) => (a > b ? a : b),
    minU: (a, b) => (u(a) < u(b) ? a : b),
    maxU: (a, b) => (u(a) > u(b) ? a : b),
    mulHighU: (a, b) => (u(a) * u(b)) >> BigInt(bits),
    and: (a, b) => a & b,
    or: (a, b) => a | b,
    xor: (a, b) => a ^ b,
    shl: (a, b) => a << b,
    shr: (a, b) => a >> b,
    shrU: (a, b) => u(a) >> b,
  }
}
const comparisons: Partial<Record<CompareName, (a: Value, b: Value) => boolean>> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
}
const unsignedComparisons = { ltU: 'lt', leU: 'le', gtU: 'gt', geU: 'ge' } as const

/** Converts a float to an integer: rounds towards zero and saturates. The conversion of NaN is 0. */
function truncated(value: number, bits: number, isUnsigned: boolean): Value {
  if (Number.isNaN(value)) return bits === 32 ? 0 : 0n
  const [least, most] = isUnsigned
    ? [0n, 2n ** BigInt(bits) - 1n]
    : [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]
  if (value === Infinity) return signed(bits, most)
  if (value === -Infinity) return signed(bits, least)
  const whole = BigInt(Math.trunc(value))
  return signed(bits, whole < least ? least : whole > most ? most : whole)
}

/**
 * Converts an integer to the nearest float, ties to even. `Number` does so for f64; a conversion to f32 must not round
 * twice.
 */
function floated(value: bigint, type: ScalarType): number {
  if (type === 'f64') return Number(value)
  const size = value < 0n ? -value : value
  const extra = Math.max(0, size.toString(2).length - 40)
  // Drops low bits but keeps one sticky bit: 40 bits and the sticky bit determine the rounding.
  const kept = size >> BigInt(extra)
  const sticky = extra > 0 && kept << BigInt(extra) !== size ? 1n : 0n
  const single = Math.fround(Number(kept | sticky)) * 2 ** extra
  return value < 0n ? -single : single
}

const scratch = new DataView(new ArrayBuffer(8))
function reinterpreted(from: ScalarType, to: ScalarType, value: Value): Value {
  write(scratch, 0, from, value)
  return read(scratch, 0, to)
}
export function write(view: DataView, at: number, type: ScalarType, value: Value): void {
  if (type === 'i32') view.setInt32(at, Number(value), true)
  else if (type === 'i64') view.setBigInt64(at, BigInt(value), true)
  else if (type === 'f32') view.setFloat32(at, Number(value), true)
  else view.setFloat64(at, Number(value), true)
}
export function read(view: DataView, at: number, type: ScalarType): Value {
  if (type === 'i32') return view.getInt32(at, true)
  if (type === 'i64') return view.getBigInt64(at, true)
  return type === 'f32' ? view.getFloat32(at, true) : view.getFloat64(at, true)
}
export const sizeOf = (type: ScalarType): number => (type === 'i64' || type === 'f64' ? 8 : 4)

function keysOf<Name extends string>(record: Partial<Record<Name, unknown>>): Name[] {
  return Object.keys(record) as Name[]
}

function casesOf(type: ScalarType, vector: boolean): OpCase[] {
  const float = type === 'f32' || type === 'f64'
  const bits = sizeOf(type) * 8
  const shown = vector ? vectorOf(type) : type
  const boolean = (truth: boolean): Value => (truth ? (vector ? -1 : 1) : 0)
  const base = { vector, result: type }
  const cases: OpCase[] = []
  const integers = integerBinary(bits)

  for (const name of float ? keysOf(floatUnary) : keysOf(integerUnary))
    cases.push({
      ...base,
      name: `${name} ${shown}`,
      operands: [type],
      build: (a) => unary(name, a),
      expected: (a) =>
        float
          ? [rounded(type, floatUnary[name]!(number(a)))]
          : [signed(bits, integerUnary[name]!(BigInt(a)))],
    })
  if (!float && !vector)
    cases.push({
      name: `eqz ${shown}`,
      operands: [type],
      result: 'i32',
      vector,
      build: (a) => unary('eqz', a),
      expected: (a) => [BigInt(a) === 0n ? 1 : 0],
    })

  const exists = (name: BinaryName): boolean =>
    name === 'mulHighU' ? bits === 32 : !vector || !/^(div|rem)/.test(name)
  for (const name of float ? keysOf(floatBinary) : keysOf(integers).filter(exists)) {
    const isShift = name.startsWith('sh')
    const below = (value: Value): Value => signed(bits, BigInt(value) & BigInt(bits - 1))
    cases.push({
      ...base,
      name: `${name} ${shown}`,
      operands: [type, type],
      shared: isShift && vector ? 1 : undefined,
      samples: isShift ? [undefined, below] : undefined,
      build: (a, b) => binary(name, a, b),
      expected: (a, b) =>
        float
          ? [rounded(type, floatBinary[name]!(number(a), number(b)))]
          : [signed(bits, integers[name](BigInt(a), BigInt(b)))],
    })
  }
  // Renderers often treat constants as special cases.
  for (const name of [
    'min',
    'max',
    ...(vector ? [] : ['div', 'rem', ...(float ? [] : ['divU', 'remU'])]),
  ] as BinaryName[])
    for (const value of float ? [0, -0, NaN, 1.5] : [0, -1, 7, -0x80000000]) {
      if (float && name === 'rem') continue
      const literal = constant(vector ? (vectorOf(type) as 'vi32') : type, value)
      const meaning = (a: Value): Value =>
        float
          ? rounded(type, floatBinary[name]!(number(a), value))
          : signed(bits, integers[name](BigInt(a), BigInt(value)))
      const said = Object.is(value, -0) ? '-0' : String(value)
      cases.push({
        ...base,
        name: `${name} ${shown} by ${said}`,
        operands: [type],
        build: (a) => binary(name, a, literal),
        expected: (a) => [meaning(a)],
      })
      if (name === 'min' || name === 'max')
        cases.push({
          ...base,
          name: `${name} ${shown} of ${said} by it`,
          operands: [type],
          build: (a) => binary(name, literal, a),
          expected: (a) => [meaning(a)],
        })
    }

  for (const name of keysOf(comparisons))
    cases.push({
      name: `${name} ${shown}`,
      operands: [type, type],
      result: 'i32',
      vector,
      build: (a, b) => compare(name, a, b),
      expected: (a, b) => [boolean(comparisons[name]!(a, b))],
    })
  if (type === 'i32')
    for (const name of [...keysOf(comparisons), ...keysOf(unsignedComparisons)]) {
      const isUnsigned = name in unsignedComparisons
      const meaning = comparisons[isUnsigned ? unsignedComparisons[name as 'ltU'] : name]!
      cases.push({
        name: `${name} ${shown} with 0`,
        operands: [type],
        result: 'i32',
        vector,
        build: (a) => compare(name, a, constant(vector ? 'vi32' : 'i32', 0)),
        expected: (a) => [boolean(meaning(isUnsigned ? unsignedOf(32, a) : BigInt(a), 0n))],
      })
    }
  for (const name of float ? [] : keysOf(unsignedComparisons))
    cases.push({
      name: `${name} ${shown}`,
      operands: [type, type],
      result: 'i32',
      vector,
      build: (a, b) => compare(name, a, b),
      expected: (a, b) => [
        boolean(comparisons[unsignedComparisons[name]]!(unsignedOf(bits, a), unsignedOf(bits, b))),
      ],
    })

  cases.push({
    ...base,
    name: `select ${shown} by comparison`,
    operands: [type, type, type],
    build: (a, b, c) => select(compare('lt', a, b), b, c),
    expected: (a, b, c) => [a < b ? b : c],
  })
  cases.push({
    ...base,
    name: `select ${shown} by value`,
    operands: ['i32', type, type],
    samples: [(value) => boolean(BigInt(value) % 2n !== 0n)],
    build: (condition, a, b) => select(condition, a, b),
    expected: (condition, a, b) => [condition ? a : b],
  })
  if (type === 'f32')
    cases.push({
      ...base,
      name: `fma ${shown}`,
      operands: [type, type, type],
      build: (a, b, c) => fma(a, b, c),
      expected: (a, b, c) => [
        Math.fround(Math.fround(number(a) * number(b)) + number(c)),
        fusedOnce(number(a), number(b), number(c)),
      ],
    })
  return cases
}

function conversion(name: ConvertName, from: ScalarType, to: ScalarType, vector: boolean): OpCase {
  const bits = { from: sizeOf(from) * 8, to: sizeOf(to) * 8 }
  const meaning: Record<ConvertName, (a: Value) => Value> = {
    bits: (a) => reinterpreted(from, to, a),
    extend: (a) => BigInt(a),
    extendU: (a) => unsignedOf(32, a),
    wrap: (a) => signed(32, BigInt(a)),
    float: (a) => floated(BigInt(a), to),
    floatU: (a) => floated(unsignedOf(bits.from, a), to),
    truncate: (a) => truncated(number(a), bits.to, false),
    truncateU: (a) => truncated(number(a), bits.to, true),
    promote: (a) => a,
    demote: (a) => Math.fround(number(a)),
  }
  const target = vector ? vectorOf(to) : to
  return {
    name: `${name} ${vector ? vectorOf(from) : from} to ${target}`,
    operands: [from],
    result: to,
    vector,
    build: (a) => convert(name, target, a),
    expected: (a) => [meaning[name](a)],
  }
}

const integerTypes = ['i32', 'i64'] as const
const floatTypes = ['f32', 'f64'] as const

export const opCases: readonly OpCase[] = [
  ...casesOf('i32', false),
  ...casesOf('i64', false),
  ...casesOf('f32', false),
  ...casesOf('f64', false),
  ...casesOf('i32', true),
  ...casesOf('f32', true),
  ...integerTypes.flatMap((integer) =>
    floatTypes.flatMap((float) => [
      conversion('float', integer, float, false),
      conversion('floatU', integer, float, false),
      conversion('truncate', float, integer, false),
      conversion('truncateU', float, integer, false),
    ]),
  ),
  conversion('bits', 'i32', 'f32', false),
  conversion('bits', 'f32', 'i32', false),
  conversion('bits', 'i64', 'f64', false),
  conversion('bits', 'f64', 'i64', false),
  conversion('extend', 'i32', 'i64', false),
  conversion('extendU', 'i32', 'i64', false),
  conversion('wrap', 'i64', 'i32', false),
  conversion('promote', 'f32', 'f64', false),
  conversion('demote', 'f64', 'f32', false),
  conversion('bits', 'i32', 'f32', true),
  conversion('bits', 'f32', 'i32', true),
  conversion('float', 'i32', 'f32', true),
  conversion('floatU', 'i32', 'f32', true),
  conversion('truncate', 'f32', 'i32', true),
  conversion('truncateU', 'f32', 'i32', true),
]

/**
 * The distances in bytes between the operands' columns and between rows. A row is one value or a vector of up to 16
 * lanes.
 */
export const layout = { column: 1 << 20, row: 64 } as const
export const mostRows = layout.column / layout.row

/**
 * An entry that applies the operation to rows 0 to n - 1: operands at `launch`, results at `frame`, n (i32) at `slot`.
 */
export function programOf(op: OpCase): CodeFunction {
  return codeFunction(
    op.name,
    [
      ['launch', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
    ],
    (w, launch, frame, slot) => {
      const rows = w.load('rows', 'i32', 'i32', slot)
      w.for('row', 0, rows, 1, (row) => {
        const operands = op.operands.map((type, index): Local => {
          const isVector = op.vector && index !== op.shared
          const from = address(launch, row, layout.row, index * layout.column)
          const word = type === 'f64' ? 'i64' : type
          const local = w.load('operand', isVector ? vectorOf(type) : word, word, from)
          return type === 'f64' ? w.let('operand', convert('bits', 'f64', local)) : local
        })
        const result = op.build(...operands.map(use))
        const stored = result.type === 'f64' ? convert('bits', 'i64', result) : result
        w.store(op.result === 'f64' ? 'i64' : op.result, address(frame, row, layout.row), stored)
      })
      w.return(constant('i32', 0))
    },
    { result: 'i32' },
  )
}

/** Operands for many rows, with `lanes` values each: all pairs (or triples) of edge cases, and the given values. */
export function rowsOf(op: OpCase, lanes: number, more: Record<ScalarType, readonly Value[]>): Value[][][] {
  const pools = op.operands.map((type) => [...edges[type], ...more[type]])
  const restrict = (index: number, value: Value): Value => op.samples?.[index]?.(value) ?? value
  const tuples: Value[][] = []
  const [first, second = [0], third = [0]] = pools
  // Triples combine all pairs with a running third value, instead of all combinations.
  for (const a of first) for (const b of second) tuples.push([a, b, third[tuples.length % third.length]])
  const width = op.vector ? lanes : 1
  const rows: Value[][][] = []
  for (let at = 0; at + width <= tuples.length && rows.length < mostRows; at += width)
    rows.push(
      op.operands.map((_, index) =>
        tuples
          .slice(at, at + width)
          .map((tuple, lane, all) => restrict(index, (index === op.shared ? all[0] : tuple)[index])),
      ),
    )
  return rows
}

/** True if two results have the same bits, where all NaNs count as equal. */
export const isSame = (a: Value, b: Value): boolean => Object.is(a, b)
