/**
 * Device functions that are made for one kernel: TMA copies of a tensor with a number of axes, and element accesses
 * with a memory order and scope.
 */
import { dtypes, type DType } from '../../../ir/dtype.ts'
import type { Order, Scope } from '../../../ir/ops/index.ts'
import { inline, type MadeDeclaration } from '../declaration.ts'
import { registerTypeName } from './spell.ts'

/**
 * Returns a device function for a TMA copy of a tensor with the given number of axes. The device function takes
 * coordinates in elements, innermost axis first. TMA reads out of bounds return zeros, and their bytes still count
 * towards the mbarrier. TMA writes out of bounds are dropped. A multicast copy writes to the same shared address in
 * each program of the cluster whose bit is set in `places`, and the copied bytes count towards the mbarrier of each of
 * these programs.
 */
export function tensorCopy(kind: 'load' | 'multicast' | 'store', axes: number): MadeDeclaration {
  const name = `tma_${kind}_${axes}d`
  const coordinates = ['x', 'y', 'z', 'v', 'w'].slice(0, axes)
  const params = coordinates.map((c) => `i32 ${c}`).join(', ')
  const operands = coordinates.map((c) => `"r"(${c})`).join(', ')
  const holes = (from: number): string => coordinates.map((_, i) => `%${from + i}`).join(', ')
  if (kind === 'load')
    return {
      name,
      uses: ['u32', 'i32', 'TensorMap'],
      text: `${inline} void ${name}(u32 to, const TensorMap& map, u32 barrier, ${params}) {
  asm volatile("cp.async.bulk.tensor.${axes}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {${holes(3)}}], [%2];"
               :: "r"(to), "l"(&map), "r"(barrier), ${operands} : "memory");
}`,
    }
  if (kind === 'multicast')
    return {
      name,
      uses: ['u16', 'u32', 'i32', 'TensorMap'],
      text: `${inline} void ${name}(u32 to, const TensorMap& map, u32 barrier, u16 places, ${params}) {
  asm volatile("cp.async.bulk.tensor.${axes}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {${holes(4)}}], [%2], %3;"
               :: "r"(to), "l"(&map), "r"(barrier), "h"(places), ${operands} : "memory");
}`,
    }
  return {
    name,
    uses: ['u32', 'i32', 'TensorMap'],
    text: `${inline} void ${name}(const TensorMap& map, u32 from, ${params}) {
  asm volatile("cp.async.bulk.tensor.${axes}d.global.shared::cta.bulk_group [%0, {${holes(2)}}], [%1];"
               :: "l"(&map), "r"(from), ${operands} : "memory");
}`,
  }
}

const scopeNames: Record<Scope, string> = { block: 'cta', device: 'gpu', system: 'sys' }
const orderNames: Record<Order, string> = {
  relaxed: 'relaxed',
  acquire: 'acquire',
  release: 'release',
  acqRel: 'acq_rel',
  seqCst: 'sc',
}
/** The C++ type and the asm constraint of the register that holds an element. 8-bit elements use 32-bit registers. */
const carriers: Record<string, readonly [type: string, constraint: string]> = {
  float: ['float', 'f'],
  u8: ['u32', 'r'],
  i8: ['u32', 'r'],
  u16: ['u16', 'h'],
  i32: ['i32', 'r'],
  u32: ['u32', 'r'],
  i64: ['i64', 'l'],
}

export interface StrongAccess {
  readonly op: 'load' | 'store' | 'add' | 'xchg' | 'cas' | 'and' | 'or' | 'xor' | 'min' | 'max'
  readonly dtype: DType
  readonly order: Order
  readonly scope: Scope
  readonly space: 'global' | 'shared'
}

/**
 * Returns a device function for one kind of strong access (an access with a memory order), or undefined if CUDA has no
 * such access. The first parameter of the device function is a pointer to global memory, or an address in shared
 * memory.
 */
export function strongAccess(access: StrongAccess): MadeDeclaration | undefined {
  const { op, dtype, order, scope, space } = access
  const type = registerTypeName(dtype)
  if (!(type in carriers) || (dtypes[dtype].bytes === 1 && op !== 'load' && op !== 'store')) return undefined
  const name = `${op}_${orderNames[order]}_${scopeNames[scope]}${space === 'shared' ? '_shared' : ''}_${dtype}`
  const bits = dtypes[dtype].bytes * 8
  const how = `${orderNames[order]}.${scopeNames[scope]}.${space}`
  const place = space === 'global' ? `${type}* at` : 'u32 at'
  const input = space === 'global' ? '"l"(at)' : '"r"(at)'
  const [carrier, c] = carriers[type]
  const uses = ['u32', 'u64', ...[type, carrier].filter((one) => one !== 'float')]
  if (op === 'load')
    return {
      name,
      uses,
      text: `${inline} ${type} ${name}(${space === 'global' ? `const ${type}* at` : 'u32 at'}) { ${carrier} v; asm volatile("ld.${how}.b${bits} %0, [%1];" : "=${c}"(v) : ${input} : "memory"); return (${type})v; }`,
    }
  if (op === 'store')
    return {
      name,
      uses,
      text: `${inline} void ${name}(${place}, ${type} v) { asm volatile("st.${how}.b${bits} [%0], %1;" :: ${input}, "${c}"((${carrier})v) : "memory"); }`,
    }
  if (op === 'cas')
    return {
      name,
      uses,
      text: `${inline} ${type} ${name}(${place}, ${type} expected, ${type} desired) { ${type} old; asm volatile("atom.${how}.cas.b${bits} %0, [%1], %2, %3;" : "=${c}"(old) : ${input}, "${c}"(expected), "${c}"(desired) : "memory"); return old; }`,
    }
  if ((op === 'min' || op === 'max') && dtype === 'f32')
    return {
      name,
      uses,
      text: `${inline} float ${name}(${place}, float v) {
  u32 old, seen;
  asm volatile("ld.relaxed.${scopeNames[scope]}.${space}.b32 %0, [%1];" : "=r"(old) : ${input} : "memory");
  do {
    seen = old;
    asm volatile("atom.${how}.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : ${input}, "r"(seen), "r"(__float_as_uint(f${op}f(__uint_as_float(seen), v))) : "memory");
  } while (old != seen);
  return __uint_as_float(old);
}`,
    }
  const suffix: Record<string, string> = {
    add: dtype === 'f32' ? 'f32' : `u${bits}`,
    xchg: `b${bits}`,
    and: `b${bits}`,
    or: `b${bits}`,
    xor: `b${bits}`,
    min: `${dtype === 'u32' ? 'u' : 's'}${bits}`,
    max: `${dtype === 'u32' ? 'u' : 's'}${bits}`,
  }
  const verb = op === 'xchg' ? 'exch' : op
  return {
    name,
    uses,
    text: `${inline} ${type} ${name}(${place}, ${type} v) { ${type} old; asm volatile("atom.${how}.${verb}.${suffix[op]} %0, [%1], %2;" : "=${c}"(old) : ${input}, "${c}"(v) : "memory"); return old; }`,
  }
}

export const fenceText = (order: Order, scope: Scope): string =>
  `asm volatile("fence.${order === 'seqCst' ? 'sc' : 'acq_rel'}.${scopeNames[scope]};" ::: "memory");`
