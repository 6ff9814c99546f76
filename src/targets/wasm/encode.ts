/**
 * Writes WebAssembly's binary format: bytes, LEB128 numbers, instructions and module sections. The encoder knows
 * nothing about kernels. The encoder does not check its input; WebAssembly.validate does.
 */
import { opcode, valueType } from './opcodes.ts'
import type { Opcode, ValueType } from './opcodes.ts'

const utf8 = new TextEncoder()

/** A byte buffer that grows as bytes are appended. */
export class Bytes {
  private buffer = new Uint8Array(256)
  length = 0

  private grow(more: number): void {
    if (this.length + more <= this.buffer.length) return
    const larger = new Uint8Array(Math.max(this.buffer.length * 2, this.length + more))
    larger.set(this.buffer)
    this.buffer = larger
  }
  byte(value: number): this {
    this.grow(1)
    this.buffer[this.length++] = value
    return this
  }
  append(bytes: Uint8Array | readonly number[]): this {
    this.grow(bytes.length)
    this.buffer.set(bytes, this.length)
    this.length += bytes.length
    return this
  }
  /** Writes an integer from 0 to 2^53 - 1 in LEB128 encoding. */
  unsigned(value: number): this {
    while (value >= 0x80) {
      this.byte((value % 0x80) | 0x80)
      value = Math.floor(value / 0x80)
    }
    return this.byte(value)
  }
  /** Writes a safe integer in signed LEB128 encoding. */
  signed(value: number): this {
    for (;;) {
      const low = ((value % 0x80) + 0x80) % 0x80
      value = Math.floor(value / 0x80)
      if ((value === 0 && low < 0x40) || (value === -1 && low >= 0x40)) return this.byte(low)
      this.byte(low | 0x80)
    }
  }
  f32(value: number): this {
    return this.append(new Uint8Array(Float32Array.of(value).buffer))
  }
  f64(value: number): this {
    return this.append(new Uint8Array(Float64Array.of(value).buffer))
  }
  text(value: string): this {
    const bytes = utf8.encode(value)
    return this.unsigned(bytes.length).append(bytes)
  }
  /** Appends the length of `bytes`, then its contents. */
  sized(bytes: Bytes): this {
    return this.unsigned(bytes.length).append(bytes.view())
  }
  truncate(length: number): void {
    this.length = length
  }
  view(): Uint8Array {
    return this.buffer.subarray(0, this.length)
  }
}

/**
 * The instructions of one function body. A `local.set` followed by a `local.get` of the same local becomes a
 * `local.tee`.
 */
export class Instructions extends Bytes {
  /**
   * The position of the last instruction if this instruction is a `local.set` (otherwise -1), and the local that is
   * set.
   */
  private lastSet = -1
  private lastLocal = -1

  op(name: Opcode): this {
    const code: number = opcode[name]
    this.lastSet = -1
    return code < 0x100 ? this.byte(code) : this.byte(code >>> 16).unsigned(code & 0xffff)
  }
  get(local: number): this {
    if (this.lastSet < 0 || this.lastLocal !== local) return this.op('local_get').unsigned(local)
    this.truncate(this.lastSet)
    return this.op('local_tee').unsigned(local)
  }
  set(local: number): this {
    const start = this.length
    this.op('local_set').unsigned(local)
    this.lastSet = start
    this.lastLocal = local
    return this
  }
  /** A load or store instruction. The field `align` is the log2 of the instruction's natural alignment in bytes. */
  memory(name: Opcode, align: number, offset: number): this {
    return this.op(name).unsigned(align).unsigned(offset)
  }
}

export interface FunctionType {
  readonly parameters: readonly ValueType[]
  readonly results: readonly ValueType[]
}
export interface EncodedFunction {
  readonly name: string
  readonly type: FunctionType
  /** The types of the local variables that follow the parameters. */
  readonly locals: readonly ValueType[]
  /** The names of parameters and local variables, for the name section. */
  readonly localNames: readonly string[]
  /** The function's instructions without the closing `end`. */
  readonly body: Bytes
}
export interface EncodedModule {
  readonly name: string
  /**
   * Imported functions of module `env`. The indices of imported functions precede those of the module's own functions.
   */
  readonly imports: readonly { readonly name: string; readonly type: FunctionType }[]
  /** The limits of the imported shared memory `env.memory`, in pages of 64 KiB. */
  readonly memory?: { readonly initial: number; readonly maximum: number }
  readonly functions: readonly EncodedFunction[]
  readonly exports: readonly { readonly name: string; readonly function: number }[]
}

const section = { custom: 0, type: 1, import: 2, function: 3, export: 7, code: 10 } as const

function vector<T>(items: readonly T[], write: (bytes: Bytes, item: T, index: number) => void): Bytes {
  const bytes = new Bytes().unsigned(items.length)
  items.forEach((item, index) => write(bytes, item, index))
  return bytes
}

const typeKey = (type: FunctionType): string => `${type.parameters.join()}>${type.results.join()}`

/** Groups local variables into runs of one type, as the binary format requires. */
function runs(types: readonly ValueType[]): { type: ValueType; count: number }[] {
  const found: { type: ValueType; count: number }[] = []
  for (const type of types) {
    const last = found.at(-1)
    if (last?.type === type) last.count++
    else found.push({ type, count: 1 })
  }
  return found
}

function nameSection(module: EncodedModule): Bytes {
  const functions = [...module.imports.map(({ name }) => name), ...module.functions.map(({ name }) => name)]
  const named = (bytes: Bytes, name: string, index: number): void => void bytes.unsigned(index).text(name)
  const locals = vector(module.functions, (bytes, { localNames }, index) =>
    bytes.unsigned(index + module.imports.length).append(vector(localNames, named).view()),
  )
  return new Bytes()
    .text('name')
    .byte(0)
    .sized(new Bytes().text(module.name))
    .byte(1)
    .sized(vector(functions, named))
    .byte(2)
    .sized(locals)
}

export function encodeModule(module: EncodedModule): Uint8Array {
  const types = new Map<string, { index: number; type: FunctionType }>()
  const typeIndex = (type: FunctionType): number => {
    const key = typeKey(type)
    const known = types.get(key) ?? { index: types.size, type }
    types.set(key, known)
    return known.index
  }
  const imported = module.imports.map(({ type }) => typeIndex(type))
  const declared = module.functions.map(({ type }) => typeIndex(type))

  const valueTypes = (bytes: Bytes, list: readonly ValueType[]): void =>
    void bytes.append(vector(list, (inner, type) => inner.byte(valueType[type])).view())
  const typeSection = vector([...types.values()], (bytes, { type }) => {
    bytes.byte(0x60)
    valueTypes(bytes, type.parameters)
    valueTypes(bytes, type.results)
  })
  const { memory } = module
  const importSection = new Bytes().unsigned((memory ? 1 : 0) + module.imports.length)
  if (memory) {
    importSection.text('env').text('memory').byte(2).byte(3)
    importSection.unsigned(memory.initial).unsigned(memory.maximum)
  }
  module.imports.forEach(({ name }, index) =>
    importSection.text('env').text(name).byte(0).unsigned(imported[index]),
  )
  const exportSection = vector(module.exports, (bytes, item) =>
    bytes.text(item.name).byte(0).unsigned(item.function),
  )
  const codeSection = vector(module.functions, (bytes, { locals, body }) => {
    const code = vector(runs(locals), (inner, { count, type }) => inner.unsigned(count).byte(valueType[type]))
    bytes.sized(code.append(body.view()).byte(opcode.end))
  })

  const functionSection = vector(declared, (bytes, index) => bytes.unsigned(index))
  return new Bytes()
    .append([0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0])
    .byte(section.type)
    .sized(typeSection)
    .byte(section.import)
    .sized(importSection)
    .byte(section.function)
    .sized(functionSection)
    .byte(section.export)
    .sized(exportSection)
    .byte(section.code)
    .sized(codeSection)
    .byte(section.custom)
    .sized(nameSection(module))
    .view()
    .slice()
}
