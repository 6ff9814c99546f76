/**
 * Helpers for constructing the intermediate language Code: functions that build expressions, and a `Writer` that
 * collects statements. The helper functions fold simple constants.
 */
import type {
  AtomicName,
  BinaryName,
  CodeFunction,
  CodeType,
  CompareName,
  ConvertName,
  Expression,
  Local,
  MemoryKind,
  MemoryOrder,
  Statement,
  UnaryName,
} from './code.ts'

export type Operand = Expression | Local

const isLocal = (operand: Operand): operand is Local => !('kind' in operand)

export const use = (operand: Operand): Expression =>
  isLocal(operand) ? { kind: 'local', type: operand.type, local: operand } : operand

export const constant = (type: Exclude<CodeType, 'ptr'>, value: number): Expression => ({
  kind: 'const',
  type,
  value,
})
export const i32 = (value: number): Expression => constant('i32', value)
export const f32 = (value: number): Expression => constant('f32', value)
export const lanes: Expression = { kind: 'lanes', type: 'vi32' }

export function unary(name: UnaryName, a: Operand): Expression {
  const operand = use(a)
  return { kind: 'unary', type: name === 'eqz' ? 'i32' : operand.type, name, a: operand }
}

const constantOf = (expression: Expression): number | undefined =>
  expression.kind === 'const' ? expression.value : undefined

export function binary(name: BinaryName, a: Operand, b: Operand): Expression {
  const [left, right] = [use(a), use(b)]
  const [x, y] = [constantOf(left), constantOf(right)]
  if (left.type === 'i32' && right.type === 'i32') {
    if (x !== undefined && y !== undefined) {
      if (name === 'add') return i32((x + y) | 0)
      if (name === 'sub') return i32((x - y) | 0)
      if (name === 'mul') return i32(Math.imul(x, y))
    }
    if (y === 0 && (name === 'add' || name === 'sub' || name === 'or' || name === 'shl')) return left
    if (x === 0 && name === 'add') return right
    if (y === 1 && (name === 'mul' || name === 'div' || name === 'divU')) return left
    if (x === 1 && name === 'mul') return right
    if ((x === 0 || y === 0) && name === 'mul') return i32(0)
  }
  return { kind: 'binary', type: left.type, name, a: left, b: right }
}
export const add = (a: Operand, b: Operand): Expression => binary('add', a, b)
export const sub = (a: Operand, b: Operand): Expression => binary('sub', a, b)
export const mul = (a: Operand, b: Operand): Expression => binary('mul', a, b)
export const min = (a: Operand, b: Operand): Expression => binary('min', a, b)
export const max = (a: Operand, b: Operand): Expression => binary('max', a, b)
export const and = (a: Operand, b: Operand): Expression => binary('and', a, b)

export function compare(name: CompareName, a: Operand, b: Operand): Expression {
  const left = use(a)
  const vector = left.type === 'vf32' || left.type === 'vi32'
  return { kind: 'compare', type: vector ? 'vi32' : 'i32', name, a: left, b: use(b) }
}

export function fma(a: Operand, b: Operand, c: Operand): Expression {
  const left = use(a)
  return { kind: 'fma', type: left.type === 'vf32' ? 'vf32' : 'f32', a: left, b: use(b), c: use(c) }
}

export function select(condition: Operand, a: Operand, b: Operand): Expression {
  const left = use(a)
  return { kind: 'select', type: left.type, condition: use(condition), a: left, b: use(b) }
}

export const convert = (name: ConvertName, type: CodeType, a: Operand): Expression => ({
  kind: 'convert',
  type,
  name,
  a: use(a),
})

export function splat(a: Operand): Expression {
  const operand = use(a)
  return operand.kind === 'const'
    ? constant(operand.type === 'f32' ? 'vf32' : 'vi32', operand.value)
    : { kind: 'splat', type: operand.type === 'f32' ? 'vf32' : 'vi32', a: operand }
}

export function extract(a: Operand, lane: number): Expression {
  const operand = use(a)
  return { kind: 'extract', type: operand.type === 'vf32' ? 'f32' : 'i32', a: operand, lane }
}

export function zip(a: Operand, b: Operand, half: 'first' | 'second'): Expression {
  const operand = use(a)
  return { kind: 'zip', type: operand.type as 'vf32' | 'vi32', a: operand, b: use(b), half }
}

/** The address base + index * scale + offset, in bytes. */
export function address(base: Operand, index: Operand | number = 0, scale = 1, offset = 0): Expression {
  const from = use(base)
  const at = typeof index === 'number' ? index : constantOf(use(index))
  if (at === undefined)
    return { kind: 'address', type: 'ptr', base: from, index: use(index as Operand), scale, offset }
  const bytes = at * scale + offset
  return bytes === 0 ? from : { kind: 'address', type: 'ptr', base: from, scale: 1, offset: bytes }
}
/** The address base + index * stride, for a stride in bytes that is known only at launch. */
export const step = (base: Operand, index: Operand, stride: Operand): Expression => ({
  kind: 'step',
  type: 'ptr',
  base: use(base),
  index: use(index),
  stride: use(stride),
})
export const stride = (a: Operand, scale: number): Expression => ({
  kind: 'stride',
  type: 'ptr',
  a: use(a),
  scale,
})

/** Collects the statements of a function. */
export class Writer {
  statements: Statement[] = []

  /** Declares a new local variable that holds `value`. */
  let(name: string, value: Operand): Local {
    const expression = use(value)
    const local: Local = { type: expression.type, name }
    this.set(local, expression)
    return local
  }
  set(local: Local, value: Operand): void {
    this.statements.push({ kind: 'set', local, value: use(value) })
  }
  load(name: string, type: CodeType, memory: MemoryKind, from: Operand, offset = 0): Local {
    const local: Local = { type, name }
    this.statements.push({ kind: 'load', local, memory, from: use(from), offset })
    return local
  }
  loadSplat(name: string, type: 'vf32' | 'vi32', from: Operand, offset = 0): Local {
    const local: Local = { type, name }
    this.statements.push({ kind: 'loadSplat', local, from: use(from), offset })
    return local
  }
  loadPointer(name: string, from: Operand, offset = 0): Local {
    const local: Local = { type: 'ptr', name }
    this.statements.push({ kind: 'loadPointer', local, from: use(from), offset })
    return local
  }
  store(memory: MemoryKind, to: Operand, value: Operand, offset = 0): void {
    this.statements.push({ kind: 'store', memory, to: use(to), offset, value: use(value) })
  }
  copyBytes(to: Operand, from: Operand, bytes: Operand): void {
    this.statements.push({ kind: 'copyBytes', to: use(to), from: use(from), bytes: use(bytes) })
  }
  zeroBytes(to: Operand, bytes: Operand): void {
    this.statements.push({ kind: 'zeroBytes', to: use(to), bytes: use(bytes) })
  }
  atomicLoad(name: string, type: 'i32' | 'i64', from: Operand, order: MemoryOrder): Local {
    const local: Local = { type, name }
    this.statements.push({ kind: 'atomicLoad', local, from: use(from), order })
    return local
  }
  atomicStore(to: Operand, value: Operand, order: MemoryOrder): void {
    this.statements.push({ kind: 'atomicStore', to: use(to), value: use(value), order })
  }
  atomic(name: AtomicName, at: Operand, value: Operand, order: MemoryOrder): Local {
    const amount = use(value)
    const local: Local = { type: amount.type, name: 'before' }
    this.statements.push({ kind: 'atomic', name, local, at: use(at), value: amount, order })
    return local
  }
  compareExchange(at: Operand, expected: Operand, desired: Operand, order: MemoryOrder): Local {
    const wanted = use(expected)
    const local: Local = { type: wanted.type, name: 'found' }
    this.statements.push({
      kind: 'compareExchange',
      local,
      at: use(at),
      expected: wanted,
      desired: use(desired),
      order,
    })
    return local
  }
  emit(statement: Statement): void {
    this.statements.push(statement)
  }
  call(callee: CodeFunction, ...args: Operand[]): Local | undefined {
    const local: Local | undefined = callee.result && { type: callee.result, name: callee.name }
    this.statements.push({ kind: 'call', function: callee, arguments: args.map(use), local })
    return local
  }

  /** Returns the statements that `write` emits as a separate list. */
  within(write: () => void): Statement[] {
    const outer = this.statements
    this.statements = []
    try {
      write()
      return this.statements
    } finally {
      this.statements = outer
    }
  }
  if(condition: Operand, then: () => void, otherwise?: () => void): void {
    this.statements.push({
      kind: 'if',
      condition: use(condition),
      then: this.within(then),
      otherwise: otherwise ? this.within(otherwise) : [],
    })
  }
  for(
    name: string,
    from: Operand | number,
    to: Operand | number,
    stepBy: number,
    body: (index: Local) => void,
  ): void {
    const index: Local = { type: 'i32', name }
    const bound = (value: Operand | number): Expression =>
      typeof value === 'number' ? i32(value) : use(value)
    this.statements.push({
      kind: 'for',
      index,
      from: bound(from),
      to: bound(to),
      step: stepBy,
      body: this.within(() => body(index)),
    })
  }
  loop(body: () => void): void {
    this.statements.push({ kind: 'loop', body: this.within(body) })
  }
  break(): void {
    this.statements.push({ kind: 'break' })
  }
  return(value?: Operand): void {
    this.statements.push({ kind: 'return', value: value === undefined ? undefined : use(value) })
  }
}

/** Builds a function from the names and types of its parameters. */
export function codeFunction(
  name: string,
  parameters: readonly (readonly [string, CodeType])[],
  write: (writer: Writer, ...parameters: Local[]) => void,
  options: { readonly result?: CodeType; readonly hot?: boolean } = {},
): CodeFunction {
  const locals = parameters.map(([local, type]): Local => ({ type, name: local }))
  const writer = new Writer()
  write(writer, ...locals)
  return { name, parameters: locals, body: writer.statements, ...options }
}
