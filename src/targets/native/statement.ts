/** Renders a function of Code as a C++ function, one statement after the other. */
import type {
  AtomicName,
  CodeFunction,
  CodeType,
  Expression,
  Local,
  MemoryKind,
  MemoryOrder,
  Statement,
} from '../cpu/code.ts'
import { plus, spellExpression, spellOperand, typeName, type Spelling } from './expression.ts'
import { eachStatement, resultOf } from '../cpu/walk.ts'
import { declarationsOf, type Declarations } from './locals.ts'
import { Names } from './names.ts'
import type { PieceName } from './prelude.ts'
import type { Text } from './text.ts'

/** The context that the functions of a module share. */
export interface Surroundings {
  use(piece: PieceName): void
  functionName(code: CodeFunction): string
  /** True if the function takes the memory's base address as an additional first parameter. */
  needsMemory(code: CodeFunction): boolean
  /** The names of the module's functions. */
  readonly names: Names
}

const orders: Record<MemoryOrder, string> = {
  relaxed: '__ATOMIC_RELAXED',
  acquire: '__ATOMIC_ACQUIRE',
  release: '__ATOMIC_RELEASE',
  acqRel: '__ATOMIC_ACQ_REL',
  seqCst: '__ATOMIC_SEQ_CST',
}
/** The memory order that applies to the read of an atomic, and the order that applies to its write. */
const readOrder = (order: MemoryOrder): MemoryOrder =>
  order === 'acqRel' ? 'acquire' : order === 'release' ? 'relaxed' : order
const writeOrder = (order: MemoryOrder): MemoryOrder =>
  order === 'acqRel' ? 'release' : order === 'acquire' ? 'relaxed' : order

const atomics: Record<AtomicName, string> = {
  add: '__atomic_fetch_add',
  sub: '__atomic_fetch_sub',
  and: '__atomic_fetch_and',
  or: '__atomic_fetch_or',
  xor: '__atomic_fetch_xor',
  exchange: '__atomic_exchange_n',
}

const bytesOf: Record<MemoryKind, number> = { u8: 1, i8: 1, u16: 2, i32: 4, i64: 8, f32: 4 }
const widthOf: Record<CodeType, number> = { i32: 4, i64: 8, f32: 4, f64: 8, ptr: 8, vf32: 4, vi32: 4 }

export class FunctionRenderer implements Spelling {
  readonly #code: CodeFunction
  readonly #surroundings: Surroundings
  readonly #text: Text
  readonly #names: Names
  readonly #nameOf = new Map<Local, string>()
  readonly #declarations: Declarations

  constructor(code: CodeFunction, surroundings: Surroundings, text: Text) {
    this.#code = code
    this.#surroundings = surroundings
    this.#text = text
    this.#names = new Names(surroundings.names)
    this.#declarations = declarationsOf(code)
  }

  use(piece: PieceName): void {
    this.#surroundings.use(piece)
  }

  nameOf(local: Local): string {
    let name = this.#nameOf.get(local)
    if (name === undefined) {
      name = this.#names.take(local.name)
      this.#nameOf.set(local, name)
    }
    return name
  }

  render(): void {
    const code = this.#code
    const parameters = code.parameters.map((local) => `${this.#type(local.type)} ${this.nameOf(local)}`)
    if (this.#surroundings.needsMemory(code)) parameters.unshift('char* memory')
    const alone = code.hot ? '__attribute__((noinline)) ' : ''
    const result = code.result ? this.#type(code.result) : 'void'
    const name = this.#surroundings.functionName(code)
    this.#text.block(`static ${alone}${result} ${name}(${parameters.join(', ')})`, () => {
      for (const local of this.#declarations.head)
        this.#text.line(`${this.#type(local.type)} ${this.nameOf(local)} = {};`)
      this.#body(code.body)
    })
  }

  #type(type: CodeType): string {
    return typeName(type, this)
  }
  #expression(expression: Expression): string {
    return spellExpression(expression, this)
  }
  /** The sum of an address and a constant offset. */
  #at(address: Expression, offset = 0): string {
    if (offset === 0) return this.#expression(address)
    if (address.kind === 'address') return this.#expression({ ...address, offset: address.offset + offset })
    return plus(spellOperand(address, this), offset)
  }
  /** The address of an aligned word, cast to the pointer type that atomic builtins take. */
  #word(address: Expression, type: CodeType): string {
    if (type !== 'i32' && type !== 'i64')
      throw new Error(`native: atomics need words of 4 or 8 bytes, not ${type}`)
    return `(${this.#type(type)}*)${spellOperand(address, this)}`
  }

  #body(body: readonly Statement[]): void {
    for (const statement of body) this.#statement(statement)
  }

  /** Assigns `value` to the statement's local variable, and declares the variable if this is its first mention. */
  #assign(statement: Statement, value: string): void {
    const local = resultOf(statement)
    if (!local) return this.#text.line(`${value};`)
    const declared = this.#declarations.declaring.has(statement) ? `${this.#type(local.type)} ` : ''
    this.#text.line(`${declared}${this.nameOf(local)} = ${value};`)
  }

  #statement(statement: Statement): void {
    const text = this.#text
    switch (statement.kind) {
      case 'set':
        return this.#assign(statement, this.#expression(statement.value))
      case 'load':
        return this.#assign(
          statement,
          this.#load(statement.local.type, statement.memory, this.#at(statement.from, statement.offset)),
        )
      case 'loadSplat': {
        const element = statement.local.type === 'vf32' ? 'f32' : 'i32'
        this.use('load')
        this.use(`splat_${element}`)
        return this.#assign(
          statement,
          `splat(load<${this.#type(element)}>(${this.#at(statement.from, statement.offset)}))`,
        )
      }
      case 'loadPointer':
        this.use('load')
        return this.#assign(
          statement,
          `memory + load<${this.#type('i64')}>(${this.#at(statement.from, statement.offset)})`,
        )
      case 'store':
        return this.#store(statement)
      case 'copyBytes': {
        this.use('u32')
        const bytes = `(u32)${spellOperand(statement.bytes, this)}`
        return text.line(
          `__builtin_memcpy(${this.#expression(statement.to)}, ${this.#expression(statement.from)}, ${bytes});`,
        )
      }
      case 'zeroBytes': {
        this.use('u32')
        const bytes = `(u32)${spellOperand(statement.bytes, this)}`
        return text.line(`__builtin_memset(${this.#expression(statement.to)}, 0, ${bytes});`)
      }
      case 'atomicLoad': {
        const word = this.#word(statement.from, statement.local.type)
        return this.#assign(statement, `__atomic_load_n(${word}, ${orders[readOrder(statement.order)]})`)
      }
      case 'atomicStore': {
        const word = this.#word(statement.to, statement.value.type)
        const value = this.#expression(statement.value)
        return text.line(`__atomic_store_n(${word}, ${value}, ${orders[writeOrder(statement.order)]});`)
      }
      case 'atomic': {
        const word = this.#word(statement.at, statement.value.type)
        const value = this.#expression(statement.value)
        return this.#assign(
          statement,
          `${atomics[statement.name]}(${word}, ${value}, ${orders[statement.order]})`,
        )
      }
      case 'compareExchange':
        return this.#compareExchange(statement)
      case 'fence':
        if (statement.order !== 'relaxed') text.line(`__atomic_thread_fence(${orders[statement.order]});`)
        return
      case 'prefetch':
        return text.line(
          `__builtin_prefetch(${this.#expression(statement.at)} + ${statement.offset}, ${statement.to === 'write' ? 1 : 0}, 3);`,
        )
      case 'pause':
        this.use('pause')
        return text.line('spin_pause();')
      case 'sleep': {
        this.use('sleep')
        const parts = [statement.at, statement.expected, statement.nanoseconds]
        return text.line(`sleep_on(${parts.map((part) => this.#expression(part)).join(', ')});`)
      }
      case 'wake':
        this.use('wake')
        return text.line(`wake_all(${this.#expression(statement.at)});`)
      case 'if':
        return this.#if(statement)
      case 'for':
        return this.#for(statement)
      case 'loop':
        return text.block('for (;;)', () => this.#body(statement.body))
      case 'break':
        return text.line('break;')
      case 'return':
        return text.line(statement.value ? `return ${this.#expression(statement.value)};` : 'return;')
      case 'call': {
        const callee = statement.function
        const memory = this.#surroundings.needsMemory(callee) ? ['memory'] : []
        const all = [...memory, ...statement.arguments.map((argument) => this.#expression(argument))]
        return this.#assign(statement, `${this.#surroundings.functionName(callee)}(${all.join(', ')})`)
      }
      default:
        throw new Error(`native: no statement ${String(statement satisfies never)}`)
    }
  }

  #load(type: CodeType, memory: MemoryKind, from: string): string {
    const narrow = memory === 'u8' || memory === 'i8' || memory === 'u16'
    if (narrow && type === 'vi32') {
      this.use(`widen_${memory}`)
      return `widen_${memory}(${from})`
    }
    this.use('load')
    if (narrow && type === 'i32') {
      this.use(memory)
      return `load<${memory}>(${from})`
    }
    if (bytesOf[memory] !== widthOf[type] || type === 'ptr')
      throw new Error(`native: no load of ${memory} into a local of type ${type}`)
    return `load<${this.#type(type)}>(${from})`
  }

  #store(statement: Statement & { kind: 'store' }): void {
    const { memory, value } = statement
    const to = this.#at(statement.to, statement.offset)
    const text = this.#expression(value)
    this.use('store')
    const narrow = memory === 'u8' || memory === 'i8' || memory === 'u16'
    if (narrow && value.type === 'vi32') {
      this.use(memory === 'u16' ? 'vu16' : 'vu8')
      this.use('vu16')
      const halves = `__builtin_convertvector(${text}, vu16)`
      this.#text.line(
        `store(${to}, ${memory === 'u16' ? halves : `__builtin_convertvector(${halves}, vu8)`});`,
      )
    } else if (bytesOf[memory] === widthOf[value.type] && value.type !== 'ptr') {
      this.#text.line(`store<${this.#type(value.type)}>(${to}, ${text});`)
    } else if (value.type === 'i64' || (value.type === 'i32' && narrow)) {
      this.use(memory)
      this.#text.line(`store<${memory}>(${to}, (${memory})${spellOperand(value, this)});`)
    } else throw new Error(`native: no store of ${value.type} as ${memory}`)
  }

  #compareExchange(statement: Statement & { kind: 'compareExchange' }): void {
    const { local, expected, order } = statement
    const word = this.#word(statement.at, local.type)
    const type = this.#type(local.type)
    const found = this.#names.take(`${local.name}_word`)
    // The compare-and-exchange builtin stores the value that it found in memory into its second argument.
    this.#text.line(`${type} ${found} = ${this.#expression(expected)};`)
    this.#text.line(
      `__atomic_compare_exchange_n(${word}, &${found}, ${this.#expression(statement.desired)}, false, ${orders[order]}, ${orders[readOrder(order)]});`,
    )
    this.#assign(statement, found)
  }

  #if(statement: Statement & { kind: 'if' }): void {
    const text = this.#text
    text.line(`if (${this.#expression(statement.condition)}) {`)
    text.indented(() => this.#body(statement.then))
    if (statement.otherwise.length > 0) {
      text.line('} else {')
      text.indented(() => this.#body(statement.otherwise))
    }
    text.line('}')
  }

  #for(statement: Statement & { kind: 'for' }): void {
    const { index, to, step } = statement
    let bound = spellOperand(to, this)
    if (!isSettled(to, statement)) {
      const end = this.#names.take(`${index.name}_end`)
      this.#text.line(`const i32 ${end} = ${this.#expression(to)};`)
      bound = end
    }
    const declared = this.#declarations.declaring.has(statement) ? `${this.#type(index.type)} ` : ''
    const from = this.#expression(statement.from)
    const name = this.nameOf(index)
    const advance = step === 1 ? `++${name}` : `${name} += ${step}`
    this.#text.block(`for (${declared}${name} = ${from}; ${name} < ${bound}; ${advance})`, () =>
      this.#body(statement.body),
    )
  }
}

/** True if an expression is short and does not change during the loop, so that it can be part of the loop's head. */
function isSettled(expression: Expression, loop: Statement & { kind: 'for' }): boolean {
  if (expression.kind === 'const') return true
  if (expression.kind !== 'local') return false
  let changes = false
  const isBound = (local: Local): void => {
    if (local === expression.local) changes = true
  }
  isBound(loop.index)
  eachStatement(loop.body, (inner) => {
    const local = resultOf(inner)
    if (local) isBound(local)
  })
  return !changes
}
