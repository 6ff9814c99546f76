/**
 * Renders expressions of Code as instructions that leave one value on the stack. The address of a memory access becomes
 * a stack value and an offset.
 */
import { control } from '../cpu/abi.ts'
import type { Expression, Local } from '../cpu/code.ts'
import { Arithmetic } from './arithmetic.ts'
import type { Instructions } from './encode.ts'
import { wasmType } from './locals.ts'
import { conversion } from './names.ts'
import type { ValueType } from './opcodes.ts'

export interface Scope {
  readonly code: Instructions
  readonly relaxed: boolean
  slotOf(local: Local): number
  /** Reserves a temporary local variable for the renderer, until `giveBack` is called. */
  take(type: ValueType): number
  giveBack(type: ValueType, slot: number): void
  /** True if the local variable is never negative, because it is the index of a loop that starts at 0 or above. */
  neverNegative(local: Local): boolean
  nowFunction(): number
}

/**
 * The byte indices of a shuffle that interleaves the lanes of two vectors. Each lane of the two vectors has four bytes.
 */
const byTurns = (from: number): number[] =>
  [from, from + 4, from + 1, from + 5].flatMap((lane) => [0, 1, 2, 3].map((byte) => 4 * lane + byte))
const [firstHalves, secondHalves] = [byTurns(0), byTurns(2)]

const isVector = (expression: Expression): boolean => wasmType(expression.type) === 'v128'

/**
 * The size in bytes of the control page, the first page of a world's memory. Valid indexed addresses are above this
 * control page.
 */
const foldable = control.bytes

export class ExpressionRenderer {
  private readonly arithmetic: Arithmetic

  constructor(private readonly scope: Scope) {
    this.arithmetic = new Arithmetic(this, scope.code, scope.relaxed)
  }

  emit(expression: Expression): void {
    const { code } = this.scope
    switch (expression.kind) {
      case 'local':
        code.get(this.scope.slotOf(expression.local))
        return
      case 'const':
        return this.constant(expression.type, expression.value)
      case 'lanes':
        code.op('v128_const').append(new Uint8Array(Int32Array.of(0, 1, 2, 3).buffer))
        return
      case 'unary':
        return this.arithmetic.unary(expression.name, expression.a)
      case 'binary':
        return this.arithmetic.binary(expression)
      case 'compare':
        return this.arithmetic.compare(expression.name, expression.a, expression.b)
      case 'fma':
        return this.arithmetic.fma(expression)
      case 'select':
        this.emit(expression.a)
        this.emit(expression.b)
        this.emit(expression.condition)
        if (isVector(expression.condition))
          code.op(this.scope.relaxed ? 'i32x4_relaxed_laneselect' : 'v128_bitselect')
        else code.op('select')
        return
      case 'convert': {
        this.emit(expression.a)
        const op = conversion(expression.name, expression.a.type, expression.type)
        if (op) code.op(op)
        return
      }
      case 'splat':
        this.emit(expression.a)
        code.op(expression.type === 'vf32' ? 'f32x4_splat' : 'i32x4_splat')
        return
      case 'extract':
        this.emit(expression.a)
        code.op(expression.type === 'f32' ? 'f32x4_extract_lane' : 'i32x4_extract_lane').byte(expression.lane)
        return
      case 'zip':
        this.emit(expression.a)
        this.emit(expression.b)
        code.op('i8x16_shuffle').append(expression.half === 'first' ? firstHalves : secondHalves)
        return
      case 'address': {
        const offset = this.place(expression, 0, false)
        if (offset !== 0) this.plus(offset)
        return
      }
      case 'step':
        this.emit(expression.base)
        this.emit(expression.index)
        this.emit(expression.stride)
        code.op('i32_mul').op('i32_add')
        return
      case 'stride':
        return this.scaled(expression.a, expression.scale)
      case 'now':
        code.op('call').unsigned(this.scope.nowFunction())
        return
      default:
        throw new Error(`unknown expression: ${JSON.stringify(expression satisfies never)}`)
    }
  }

  /**
   * Pushes an address and returns the immediate offset for the load or store. WebAssembly adds the address and the
   * offset without wrapping, so an offset may become an immediate only if the stack value cannot be negative. Base
   * pointers are always inside the memory. An offset up to the size of the control page may always become an immediate:
   * a valid indexed address is above the control page, so subtracting the offset leaves a stack value that is not
   * negative.
   */
  place(at: Expression, offset: number, immediate = true): number {
    const indices: { index: Expression; scale: number }[] = []
    let base = at
    while (base.kind === 'address') {
      offset += base.offset
      let { index } = base
      const { scale } = base
      while (index?.kind === 'binary' && index.b.kind === 'const' && ['add', 'sub'].includes(index.name)) {
        offset += (index.name === 'add' ? index.b.value : -index.b.value) * scale
        index = index.a
      }
      if (index?.kind === 'const') offset += index.value * scale
      else if (index) indices.push({ index, scale })
      base = base.base
    }
    this.emit(base)
    for (const { index, scale } of indices) {
      this.scaled(index, scale)
      this.scope.code.op('i32_add')
    }
    const never = indices.every(({ index, scale }) => scale >= 0 && this.neverNegative(index))
    if (offset >= 0 && (!immediate || never || offset <= foldable)) return offset
    this.plus(offset)
    return 0
  }

  /** Makes a value available several times: each call of `push` pushes it onto the stack. */
  reusable(expression: Expression): { push: () => void; release: () => void } {
    if (expression.kind === 'local' || expression.kind === 'const')
      return { push: () => this.emit(expression), release: () => undefined }
    const type = wasmType(expression.type)
    this.emit(expression)
    const slot = this.scope.take(type)
    this.scope.code.set(slot)
    return { push: () => void this.scope.code.get(slot), release: () => this.scope.giveBack(type, slot) }
  }

  /** Makes two values available several times on the stack. */
  twice(a: Expression, b: Expression, write: (a: () => void, b: () => void) => void): void {
    const left = this.reusable(a)
    const right = this.reusable(b)
    write(left.push, right.push)
    right.release()
    left.release()
  }

  private neverNegative(index: Expression): boolean {
    if (index.kind === 'const') return index.value >= 0
    if (index.kind === 'local') return this.scope.neverNegative(index.local)
    if (index.kind !== 'binary') return false
    const [a, b] = [this.neverNegative(index.a), this.neverNegative(index.b)]
    if (index.name === 'and') return a || b
    return (
      ['add', 'mul', 'div', 'rem', 'divU', 'remU', 'shl', 'shr', 'min', 'max'].includes(index.name) && a && b
    )
  }

  private plus(bytes: number): void {
    this.scope.code
      .op('i32_const')
      .signed(bytes | 0)
      .op('i32_add')
  }

  private scaled(a: Expression, scale: number): void {
    const { code } = this.scope
    this.emit(a)
    const shift = Math.log2(scale)
    if (scale === 1) return
    if (scale > 0 && Number.isInteger(shift)) code.op('i32_const').signed(shift).op('i32_shl')
    else
      code
        .op('i32_const')
        .signed(scale | 0)
        .op('i32_mul')
  }

  private constant(type: Exclude<Expression['type'], 'ptr'>, value: number): void {
    const { code } = this.scope
    switch (type) {
      case 'i32':
        code.op('i32_const').signed(value | 0)
        return
      case 'i64':
        code.op('i64_const').signed(value)
        return
      case 'f32':
        code.op('f32_const').f32(value)
        return
      case 'f64':
        code.op('f64_const').f64(value)
        return
      case 'vf32':
        code.op('v128_const').append(new Uint8Array(new Float32Array(4).fill(value).buffer))
        return
      case 'vi32':
        code.op('v128_const').append(new Uint8Array(new Int32Array(4).fill(value | 0).buffer))
        return
      default:
        throw new Error(`unknown type: ${String(type satisfies never)}`)
    }
  }
}
