/**
 * Renders statements of Code as WebAssembly instructions. Every atomic is sequentially consistent, because WebAssembly
 * has no weaker atomics.
 */
import type { CodeFunction, Expression, Local, MemoryKind, Statement } from '../cpu/code.ts'
import type { Instructions } from './encode.ts'
import { emptyBlock } from './opcodes.ts'
import type { Opcode } from './opcodes.ts'
import { ExpressionRenderer } from './expressions.ts'
import type { Scope } from './expressions.ts'
import { assignedIn, wasmType } from './locals.ts'

/** A memory instruction, and the log2 of its width in bytes. */
type Access = readonly [Opcode, number]

const scalarLoad: Record<MemoryKind, Access> = {
  u8: ['i32_load8_u', 0],
  i8: ['i32_load8_s', 0],
  u16: ['i32_load16_u', 1],
  i32: ['i32_load', 2],
  i64: ['i64_load', 3],
  f32: ['f32_load', 2],
}
const scalarStore: Record<MemoryKind, Access> = {
  u8: ['i32_store8', 0],
  i8: ['i32_store8', 0],
  u16: ['i32_store16', 1],
  i32: ['i32_store', 2],
  i64: ['i64_store', 3],
  f32: ['f32_store', 2],
}

/**
 * Shuffle indices that gather the low one or two bytes of each 4-byte lane. A store of 1 or 2 bytes per lane stores
 * only the gathered bytes.
 */
const lowBytes = [0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12]
const lowHalves = [0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13]

/** Copies of a constant size up to this many bytes are inlined, because memory.copy is a call. */
const inlineBytes = 64

const atomicNames = {
  add: 'add',
  sub: 'sub',
  and: 'and',
  or: 'or',
  xor: 'xor',
  exchange: 'xchg',
} as const

const leavesLoop = (statements: readonly Statement[]): boolean =>
  statements.some(
    (statement) =>
      statement.kind === 'break' ||
      (statement.kind === 'if' && (leavesLoop(statement.then) || leavesLoop(statement.otherwise))),
  )

export class StatementRenderer {
  private readonly code: Instructions
  private readonly expressions: ExpressionRenderer
  /** The number of enclosing labels, and the label to which a `break` jumps. */
  private depth = 0
  private exit = -1

  constructor(
    private readonly scope: Scope,
    private readonly functionIndex: (code: CodeFunction) => number,
  ) {
    this.code = scope.code
    this.expressions = new ExpressionRenderer(scope)
  }

  /** Renders a whole function body, which leaves the result on the stack. */
  body({ body, result }: CodeFunction): void {
    const last = body.at(-1)
    if (last?.kind === 'return') {
      this.list(body.slice(0, -1))
      if (last.value) this.expressions.emit(last.value)
    } else {
      this.list(body)
      if (result) this.code.op('unreachable')
    }
  }

  private list(statements: readonly Statement[]): void {
    for (const statement of statements) this.statement(statement)
  }

  private statement(statement: Statement): void {
    const { code, expressions } = this
    switch (statement.kind) {
      case 'set':
        expressions.emit(statement.value)
        return this.assign(statement.local)
      case 'load':
        return this.load(statement)
      case 'loadSplat': {
        const offset = expressions.place(statement.from, statement.offset)
        code.memory('v128_load32_splat', 2, offset)
        return this.assign(statement.local)
      }
      case 'loadPointer': {
        const offset = expressions.place(statement.from, statement.offset)
        code.memory('i32_load', 2, offset)
        return this.assign(statement.local)
      }
      case 'store':
        return this.store(statement)
      case 'copyBytes':
        return this.copyBytes(statement)
      case 'zeroBytes':
        expressions.emit(statement.to)
        code.op('i32_const').signed(0)
        expressions.emit(statement.bytes)
        code.op('memory_fill').byte(0)
        return
      case 'atomicLoad': {
        const [type, align] = this.word(statement.local)
        code.memory(`${type}_atomic_load`, align, expressions.place(statement.from, 0))
        return this.assign(statement.local)
      }
      case 'atomicStore': {
        const [type, align] = this.word(statement.value)
        const offset = expressions.place(statement.to, 0)
        expressions.emit(statement.value)
        code.memory(`${type}_atomic_store`, align, offset)
        return
      }
      case 'atomic': {
        const [type, align] = this.word(statement.value)
        const offset = expressions.place(statement.at, 0)
        expressions.emit(statement.value)
        code.memory(`${type}_atomic_rmw_${atomicNames[statement.name]}`, align, offset)
        return this.assign(statement.local)
      }
      case 'compareExchange': {
        const [type, align] = this.word(statement.expected)
        const offset = expressions.place(statement.at, 0)
        expressions.emit(statement.expected)
        expressions.emit(statement.desired)
        code.memory(`${type}_atomic_rmw_cmpxchg`, align, offset)
        return this.assign(statement.local)
      }
      case 'fence':
        if (statement.order !== 'relaxed') code.op('atomic_fence').byte(0)
        return
      case 'pause':
      case 'prefetch':
        return
      case 'sleep': {
        const [type, align] = this.word(statement.expected)
        const offset = expressions.place(statement.at, 0)
        expressions.emit(statement.expected)
        expressions.emit(statement.nanoseconds)
        // The timeout is converted as an unsigned number, because a negative timeout would mean an infinite wait.
        code.op('i64_trunc_sat_f64_u')
        code
          .memory(type === 'i64' ? 'memory_atomic_wait64' : 'memory_atomic_wait32', align, offset)
          .op('drop')
        return
      }
      case 'wake': {
        const offset = expressions.place(statement.at, 0)
        code.op('i32_const').signed(-1).memory('memory_atomic_notify', 2, offset).op('drop')
        return
      }
      case 'if':
        return this.branch(statement)
      case 'for':
        return this.counted(statement)
      case 'loop':
        return this.forever(statement.body)
      case 'break':
        this.leave('br')
        return
      case 'return':
        if (statement.value) expressions.emit(statement.value)
        code.op('return')
        return
      case 'call':
        statement.arguments.forEach((argument) => expressions.emit(argument))
        code.op('call').unsigned(this.functionIndex(statement.function))
        if (statement.function.result) this.assign(statement.local)
        return
      default:
        throw new Error(`unknown statement: ${JSON.stringify(statement satisfies never)}`)
    }
  }

  private assign(local: Local | undefined): void {
    if (local) this.code.set(this.scope.slotOf(local))
    else this.code.op('drop')
  }

  private word({ type }: Local | Expression): readonly ['i32' | 'i64', number] {
    if (type === 'i64') return ['i64', 3]
    if (type === 'i32' || type === 'ptr') return ['i32', 2]
    throw new Error(`the wasm target has no atomic of ${type}: atomics need words of 4 or 8 bytes`)
  }

  private load({ local, memory, from, offset }: Extract<Statement, { kind: 'load' }>): void {
    const { code } = this
    const at = this.expressions.place(from, offset)
    if (wasmType(local.type) !== 'v128') {
      const [op, align] = memory === 'i32' && local.type === 'f32' ? scalarLoad.f32 : scalarLoad[memory]
      code.memory(op, align, at)
      return this.assign(local)
    }
    switch (memory) {
      case 'f32':
      case 'i32':
        code.memory('v128_load', 4, at)
        break
      case 'u16':
        code.memory('v128_load16x4_u', 3, at)
        break
      case 'u8':
        code.memory('v128_load32_zero', 2, at).op('i16x8_extend_low_i8x16_u').op('i32x4_extend_low_i16x8_u')
        break
      case 'i8':
        code.memory('v128_load32_zero', 2, at).op('i16x8_extend_low_i8x16_s').op('i32x4_extend_low_i16x8_s')
        break
      case 'i64':
        throw new Error('the wasm target has no vector load of i64: a vector has lanes of 32 bits')
      default:
        throw new Error(`unknown memory: ${String(memory satisfies never)}`)
    }
    this.assign(local)
  }

  private store({ memory, to, offset, value }: Extract<Statement, { kind: 'store' }>): void {
    const { code, expressions, scope } = this
    const at = expressions.place(to, offset)
    expressions.emit(value)
    if (wasmType(value.type) !== 'v128') {
      const [op, align] = memory === 'i32' && value.type === 'f32' ? scalarStore.f32 : scalarStore[memory]
      code.memory(op, align, at)
      return
    }
    if (memory === 'f32' || memory === 'i32') {
      code.memory('v128_store', 4, at)
      return
    }
    if (memory === 'i64')
      throw new Error('the wasm target has no vector store of i64: a vector has lanes of 32 bits')
    const slot = scope.take('v128')
    code.set(slot).get(slot).get(slot)
    code.op('i8x16_shuffle').append(memory === 'u16' ? lowHalves : lowBytes)
    if (memory === 'u16') code.memory('v128_store64_lane', 3, at).byte(0)
    else code.memory('v128_store32_lane', 2, at).byte(0)
    scope.giveBack('v128', slot)
  }

  private copyBytes({ to, from, bytes }: Extract<Statement, { kind: 'copyBytes' }>): void {
    const { code, expressions } = this
    const count = bytes.kind === 'const' ? bytes.value : -1
    if (count >= 0 && count <= inlineBytes && count % 16 === 0) {
      const target = expressions.reusable(to)
      const source = expressions.reusable(from)
      for (let at = 0; at < count; at += 16) {
        target.push()
        source.push()
        code.memory('v128_load', 4, at).memory('v128_store', 4, at)
      }
      source.release()
      target.release()
      return
    }
    expressions.emit(to)
    expressions.emit(from)
    expressions.emit(bytes)
    code.op('memory_copy').byte(0).byte(0)
  }

  private open(op: 'block' | 'loop' | 'if'): void {
    this.code.op(op).byte(emptyBlock)
    this.depth++
  }
  private close(): void {
    this.code.op('end')
    this.depth--
  }
  private leave(op: 'br' | 'br_if'): void {
    if (this.exit < 0) throw new Error('Code contains a break outside any loop')
    this.code.op(op).unsigned(this.depth - 1 - this.exit)
  }

  private branch({ condition, then, otherwise }: Extract<Statement, { kind: 'if' }>): void {
    if (then.length === 0 && otherwise.length === 0) return
    const inverted = then.length === 0
    const [first, second] = inverted ? [otherwise, []] : [then, otherwise]
    this.condition(condition, inverted)
    if (first.length === 1 && first[0].kind === 'break' && second.length === 0) return this.leave('br_if')
    this.open('if')
    this.list(first)
    if (second.length > 0) {
      this.code.op('else')
      this.list(second)
    }
    this.close()
  }

  /**
   * Pushes the condition of a branch onto the stack. If `inverted` is true, the negated condition is pushed; the
   * negation of an i32 test for zero is the tested value itself.
   */
  private condition(condition: Expression, inverted: boolean): void {
    const { kind } = condition
    if (inverted && kind === 'unary' && condition.name === 'eqz' && wasmType(condition.a.type) === 'i32')
      return this.expressions.emit(condition.a)
    this.expressions.emit(condition)
    if (inverted) this.code.op('i32_eqz')
  }

  /**
   * The generated loop tests its bound on entry and then at the end of each iteration. The loop index must stay at
   * least one step below 2^31.
   */
  private counted({ index, from, to, step, body }: Extract<Statement, { kind: 'for' }>): void {
    const { code, expressions, scope } = this
    const wide = index.type === 'i64'
    const type = wide ? 'i64' : 'i32'
    const slot = scope.slotOf(index)
    const stable = to.kind === 'const' || (to.kind === 'local' && !assignedIn(body).has(to.local))
    const limit = stable ? undefined : scope.take(type)
    if (limit !== undefined) {
      expressions.emit(to)
      code.set(limit)
    }
    const pushLimit = (): void => (limit === undefined ? expressions.emit(to) : void code.get(limit))
    const enters = from.kind === 'const' && to.kind === 'const' && from.value < to.value

    expressions.emit(from)
    code.set(slot)
    const outer = this.exit
    const guarded = !enters || leavesLoop(body)
    if (!enters) {
      code.get(slot)
      pushLimit()
      code.op(`${type}_lt_s`)
    }
    if (guarded) {
      this.exit = this.depth
      this.open(enters ? 'block' : 'if')
    }
    this.open('loop')
    this.list(body)
    code.get(slot).op(`${type}_const`).signed(step).op(`${type}_add`).set(slot).get(slot)
    pushLimit()
    code.op(`${type}_lt_s`).op('br_if').unsigned(0)
    this.close()
    if (guarded) this.close()
    this.exit = outer
    if (limit !== undefined) scope.giveBack(type, limit)
  }

  private forever(body: readonly Statement[]): void {
    const outer = this.exit
    const leaves = leavesLoop(body)
    if (leaves) {
      this.exit = this.depth
      this.open('block')
    }
    this.open('loop')
    this.list(body)
    const last = body.at(-1)
    if (last?.kind !== 'break' && last?.kind !== 'return') this.code.op('br').unsigned(0)
    this.close()
    if (leaves) this.close()
    this.exit = outer
  }
}
