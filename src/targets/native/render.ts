/**
 * Renders Code as C++17 with explicit vector types. A module becomes one file: the definitions of the prelude that it
 * uses, the functions (callees first), and for each entry an exported function
 * `int32_t entryN(char* memory, int64_t launch, int64_t frame, int64_t slot)`, where N is the number of the entry. The
 * parameters `launch`, `frame` (private memory of a program) and `slot` (state of a worker) are offsets into the world's
 * memory. The variable `arke_entries` holds the number of entries. The base address of the memory is passed only to
 * functions that convert offsets to pointers, so no thread-local variable is needed.
 *
 * The semantics of the generated C++ depend on the compiler flags in build.ts: integers wrap (`-fwrapv`), and
 * multiplications and additions are not fused.
 */
import type { CodeFunction, CodeModule, CodeType } from '../cpu/code.ts'
import { inComment } from '../cpu/facts.ts'
import { calleesFirst, eachStatement } from '../cpu/walk.ts'
import { Names } from './names.ts'
import { prelude, type PieceName } from './prelude.ts'
import { FunctionRenderer } from './statement.ts'
import { Text } from './text.ts'

/**
 * The C++ file that is compiled: a comment with the facts for which the kernel was specialised, and the generated code.
 */
export const sourceOf = (module: CodeModule): string =>
  [...(module.header ?? []).map((line) => `// ${line}`), renderCpp(module)].join('\n')

export function renderCpp(module: CodeModule): string {
  module.entries.forEach(checkEntry)
  const functions = calleesFirst(module.entries)
  const needsMemory = new Set<CodeFunction>()
  for (const code of functions) {
    eachStatement(code.body, (statement) => {
      if (statement.kind === 'loadPointer') needsMemory.add(code)
      if (statement.kind === 'call' && needsMemory.has(statement.function)) needsMemory.add(code)
    })
  }

  const used = new Set<PieceName>(['i32', 'i64', 'ptr'])
  const names = new Names()
  const nameOf = new Map(functions.map((code) => [code, names.take(code.name)]))
  const surroundings = {
    use: (piece: PieceName) => void used.add(piece),
    functionName: (code: CodeFunction) => nameOf.get(code)!,
    needsMemory: (code: CodeFunction) => needsMemory.has(code),
    names,
  }

  const text = new Text()
  text.line('namespace kernel {')
  for (const code of functions) {
    text.line('')
    new FunctionRenderer(code, surroundings, text).render()
  }
  text.line('')
  text.line('}  // namespace kernel')
  text.line('')
  text.line(`extern "C" const i32 arke_entries = ${module.entries.length};`)
  module.entries.forEach((entry, index) => {
    const memory = needsMemory.has(entry) ? ['memory'] : []
    const all = [...memory, 'memory + launch', 'memory + frame', 'memory + slot'].join(', ')
    text.block(`extern "C" i32 entry${index}(char* memory, i64 launch, i64 frame, i64 slot)`, () => {
      text.line(`return kernel::${nameOf.get(entry)!}(${all});`)
    })
  })
  return `// ${inComment(module.name)}, for vectors of ${module.machine.lanes} lanes.\n\n${prelude(used, module.machine.lanes)}\n\n${text.toString()}\n`
}

/** Checks the signature that abi.ts requires of entries: three pointers and an i32 result. */
function checkEntry(entry: CodeFunction): void {
  const types: CodeType[] = entry.parameters.map((parameter) => parameter.type)
  if (types.length === 3 && types.every((type) => type === 'ptr') && entry.result === 'i32') return
  throw new Error(
    `native: entry ${entry.name} is (${types.join(', ')}) to ${entry.result ?? 'nothing'}; an entry takes the pointers launch, frame and slot and returns an i32`,
  )
}
