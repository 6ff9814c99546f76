/** Runs one expression or one function of Code as wasm, with JavaScript values as inputs and results. */
import type { CodeFunction, CodeType, Expression, Local } from '../../../src/targets/cpu/code.ts'
import { codeFunction, convert, i32 } from '../../../src/targets/cpu/build.ts'
import type { Operand, Writer } from '../../../src/targets/cpu/build.ts'
import { loadWasm, wasmMachine } from '../../../src/targets/wasm/engine.ts'
import { renderWasm } from '../../../src/targets/wasm/render.ts'
import type { RenderOptions } from '../../../src/targets/wasm/render.ts'

/** A number, a bigint for i64, or four numbers for a vector. */
export type Value = number | bigint | readonly number[]

export const memory = new WebAssembly.Memory({ initial: 4, maximum: 4, shared: true })
export const bytes = new Uint8Array(memory.buffer)
export const data = new DataView(memory.buffer)
/** The address of the tests' data, after the space of the control page. */
export const base = 8192
const resultAt = base + 256

function put(type: CodeType, at: number, value: Value): void {
  if (typeof value === 'bigint') data.setBigInt64(at, value, true)
  else if (typeof value !== 'number')
    value.forEach((lane, i) => put(type === 'vf32' ? 'f32' : 'i32', at + 4 * i, lane))
  else if (type === 'f64') data.setFloat64(at, value, true)
  else if (type === 'f32') data.setFloat32(at, value, true)
  else data.setInt32(at, value, true)
}

function take(type: CodeType, at: number): Value {
  const lanes = [0, 4, 8, 12]
  switch (type) {
    case 'i64':
      return data.getBigInt64(at, true)
    case 'f64':
      return data.getFloat64(at, true)
    case 'f32':
      return data.getFloat32(at, true)
    case 'vf32':
      return lanes.map((lane) => data.getFloat32(at + lane, true))
    case 'vi32':
      return lanes.map((lane) => data.getInt32(at + lane, true))
    default:
      return data.getInt32(at, true)
  }
}

/** Loads and stores values of any type. An f64 is moved as the bits of an i64. */
function load(writer: Writer, name: string, type: CodeType, from: Local, offset: number): Operand {
  if (type === 'f64') return convert('bits', 'f64', writer.load(name, 'i64', 'i64', from, offset))
  return writer.load(name, type, type === 'i64' ? 'i64' : type.endsWith('f32') ? 'f32' : 'i32', from, offset)
}
function store(writer: Writer, to: Local, value: Expression, offset: number): void {
  if (value.type === 'f64') writer.store('i64', to, convert('bits', 'i64', value), offset)
  else {
    const kind = value.type === 'i64' ? 'i64' : value.type.endsWith('f32') ? 'f32' : 'i32'
    writer.store(kind, to, value, offset)
  }
}

export type Run = (...values: number[]) => number

export function compile(code: CodeFunction, options?: RenderOptions, now: () => number = () => 0): Run {
  const rendered = renderWasm({ name: 'test', machine: wasmMachine, entries: [code] }, options)
  return loadWasm(rendered, memory, now)[0] as Run
}

/** Compiles the expression that `build` returns for its inputs into a JavaScript function. */
export function evaluator(
  inputs: readonly CodeType[],
  build: (...inputs: Operand[]) => Expression,
  options?: RenderOptions,
): (...values: Value[]) => Value {
  let type: CodeType = 'i32'
  const code = codeFunction(
    'evaluate',
    [['at', 'ptr']],
    (writer, at) => {
      const result = build(...inputs.map((input, i) => load(writer, `input${i}`, input, at, 16 * i)))
      type = result.type
      store(writer, at, result, resultAt - base)
      writer.return(i32(0))
    },
    { result: 'i32' },
  )
  const run = compile(code, options)
  return (...values) => {
    values.forEach((value, i) => put(inputs[i], base + 16 * i, value))
    run(base)
    return take(type, resultAt)
  }
}

const single = Math.fround
/** Values that are special cases of integer and float operations. */
export const edges = {
  i32: [0, 1, -1, 2, -2, 3, 7, -7, 31, 255, 65535, -65536, 0x12345678, 0x7fffffff, -0x80000000, -0x7fffffff],
  i64: [0n, 1n, -1n, 2n, -2n, 3n, -7n, 63n, 0xffffffffn, -0x80000000n, 1n << 53n, (1n << 53n) + 1n].concat([
    (1n << 62n) + (1n << 38n),
    (1n << 62n) + (1n << 38n) + 1n,
    (1n << 63n) - 1n,
    -(1n << 63n),
  ]),
  f32: [
    0,
    -0,
    1,
    -1,
    0.5,
    1.5,
    2.5,
    -2.5,
    -0.25,
    single(0.1),
    single(1e10),
    single(-3e9),
    2 ** 24,
    2 ** 31,
  ].concat([-(2 ** 31), 2 ** 32, 2 ** 63, single(3.4e38), 2 ** -149, -(2 ** -126), Infinity, -Infinity, NaN]),
  f64: [0, -0, 1, -1, 0.5, 1.5, 2.5, -2.5, -0.25, 0.1, 1e10, -3e9, 2 ** 31, -(2 ** 31) - 1, 2 ** 32].concat([
    2 ** 53,
    2 ** 63,
    -(2 ** 63),
    2 ** 64,
    1e300,
    2 ** -1074,
    Infinity,
    -Infinity,
    NaN,
  ]),
} as const

/** All pairs of the values. */
export const pairs = <T>(values: readonly T[]): (readonly [T, T])[] =>
  values.flatMap((a) => values.map((b) => [a, b] as const))
