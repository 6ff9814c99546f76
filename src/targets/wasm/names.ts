/** Maps Code types and conversions to the names of wasm instructions. */
import type { CodeType, ConvertName } from '../cpu/code.ts'
import { wasmType } from './locals.ts'
import type { Opcode, ValueType } from './opcodes.ts'

/** The prefix of instruction names: the scalar's type or the vector's lane type. */
export function prefix(type: CodeType): Exclude<ValueType, 'v128'> | 'i32x4' | 'f32x4' {
  if (type === 'vf32') return 'f32x4'
  if (type === 'vi32') return 'i32x4'
  return type === 'ptr' ? 'i32' : type
}

export function unsupported(what: string, type: string): Error {
  return new Error(
    `the wasm target has no ${what} of ${type}: code.ts lists the types of each operation, and the lowering must not use others`,
  )
}

/**
 * The name of an instruction that converts a value, without its sign. Some conversions always need an instruction,
 * others only between values of different wasm types.
 */
interface Conversion {
  readonly verb: 'bits' | 'extend' | 'wrap' | 'float' | 'truncate' | 'promote' | 'demote'
  readonly sign?: 's' | 'u'
  readonly isAlways?: true
}

const conversions: Record<ConvertName, Conversion> = {
  bits: { verb: 'bits' },
  extend: { verb: 'extend' },
  extendU: { verb: 'extend', sign: 'u' },
  wrap: { verb: 'wrap' },
  float: { verb: 'float', isAlways: true },
  floatU: { verb: 'float', sign: 'u', isAlways: true },
  truncate: { verb: 'truncate', isAlways: true },
  truncateU: { verb: 'truncate', sign: 'u', isAlways: true },
  promote: { verb: 'promote' },
  demote: { verb: 'demote' },
}

/** The instruction of a conversion, or undefined if the value needs no instruction. */
export function conversion(name: ConvertName, from: CodeType, to: CodeType): Opcode | undefined {
  const { verb, sign = 's', isAlways } = conversions[name]
  const instructions: Partial<Record<string, Opcode>> = {
    'bits i32 f32': 'f32_reinterpret_i32',
    'bits f32 i32': 'i32_reinterpret_f32',
    'bits i64 f64': 'f64_reinterpret_i64',
    'bits f64 i64': 'i64_reinterpret_f64',
    'extend i32 i64': `i64_extend_i32_${sign}`,
    'wrap i64 i32': 'i32_wrap_i64',
    'float i32 f32': `f32_convert_i32_${sign}`,
    'float i32 f64': `f64_convert_i32_${sign}`,
    'float i64 f32': `f32_convert_i64_${sign}`,
    'float i64 f64': `f64_convert_i64_${sign}`,
    'float i32x4 f32x4': `f32x4_convert_i32x4_${sign}`,
    'truncate f32 i32': `i32_trunc_sat_f32_${sign}`,
    'truncate f64 i32': `i32_trunc_sat_f64_${sign}`,
    'truncate f32 i64': `i64_trunc_sat_f32_${sign}`,
    'truncate f64 i64': `i64_trunc_sat_f64_${sign}`,
    'truncate f32x4 i32x4': `i32x4_trunc_sat_f32x4_${sign}`,
    'promote f32 f64': 'f64_promote_f32',
    'demote f64 f32': 'f32_demote_f64',
  }
  const found = instructions[`${verb} ${prefix(from)} ${prefix(to)}`]
  if (!found && (isAlways || wasmType(from) !== wasmType(to))) throw unsupported(`${name} to ${to}`, from)
  return found
}
