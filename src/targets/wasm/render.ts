/**
 * Renders Code as a WebAssembly module. The rendered module imports the shared memory `env.memory`, and `env.now` if it
 * reads the clock. The rendered module exports `entry0`, `entry1`, … Functions and locals have names, for profilers and
 * stack traces.
 */
import type { CodeFunction, CodeModule, Local } from '../cpu/code.ts'
import { Instructions, encodeModule } from './encode.ts'
import type { EncodedFunction } from './encode.ts'
import type { Scope } from './expressions.ts'
import type { ValueType } from './opcodes.ts'
import { calleesFirst, childrenOf, eachStatement, operandsOf, resultOf } from '../cpu/walk.ts'
import { assignSlots, wasmType } from './locals.ts'
import { StatementRenderer } from './statements.ts'

export interface RenderOptions {
  /** True to use relaxed SIMD, so that matrix products use fused multiply-add. */
  readonly relaxed?: boolean
  /** The limits of the imported memory, in pages of 64 KiB. By default the module accepts any shared memory. */
  readonly memory?: { readonly initial: number; readonly maximum: number }
}

const anyMemory = { initial: 1, maximum: 65536 }

function asksForTime(functions: readonly CodeFunction[]): boolean {
  let asks = false
  const look = (expression: Parameters<typeof childrenOf>[0]): void => {
    if (expression.kind === 'now') asks = true
    else childrenOf(expression).forEach(look)
  }
  for (const { body } of functions) eachStatement(body, (statement) => operandsOf(statement).forEach(look))
  return asks
}

/** The index variables of loops that start at zero or above and that no other statement sets. */
function countersOf(code: CodeFunction): Set<Local> {
  const times = new Map<Local, number>()
  const counters = new Set<Local>()
  eachStatement(code.body, (statement) => {
    const result = resultOf(statement)
    if (result) times.set(result, (times.get(result) ?? 0) + 1)
    if (statement.kind === 'for' && statement.from.kind === 'const' && statement.from.value >= 0)
      counters.add(statement.index)
  })
  for (const local of counters) if (times.get(local) !== 1) counters.delete(local)
  return counters
}

function renderFunction(
  code: CodeFunction,
  relaxed: boolean,
  functionIndex: (callee: CodeFunction) => number,
): EncodedFunction {
  const { slot, types, names } = assignSlots(code)
  const counters = countersOf(code)
  const free = new Map<ValueType, number[]>()
  const instructions = new Instructions()
  const scope: Scope = {
    code: instructions,
    relaxed,
    slotOf: (local) => slot.get(local) as number,
    take(type) {
      const returned = free.get(type)?.pop()
      if (returned !== undefined) return returned
      types.push(type)
      return names.push('scratch') - 1
    },
    giveBack(type, index) {
      const list = free.get(type) ?? []
      free.set(type, list)
      list.push(index)
    },
    neverNegative: (local) => counters.has(local),
    nowFunction: () => 0,
  }
  new StatementRenderer(scope, functionIndex).body(code)
  return {
    name: code.name,
    type: {
      parameters: code.parameters.map(({ type }) => wasmType(type)),
      results: code.result ? [wasmType(code.result)] : [],
    },
    locals: types,
    localNames: names,
    body: instructions,
  }
}

export function renderWasm(module: CodeModule, options: RenderOptions = {}): Uint8Array {
  if (module.machine.lanes !== 4)
    throw new Error(
      `${module.name} was lowered for vectors of ${module.machine.lanes} lanes, but wasm has 4: lower it for the wasm engine's machine`,
    )
  const functions = calleesFirst(module.entries)
  const imports = asksForTime(functions)
    ? [{ name: 'now', type: { parameters: [], results: ['f64' as const] } }]
    : []
  const index = new Map(functions.map((code, position) => [code, position + imports.length]))
  const functionIndex = (code: CodeFunction): number => index.get(code) as number
  return encodeModule({
    name: module.name,
    imports,
    memory: options.memory ?? anyMemory,
    functions: functions.map((code) => renderFunction(code, options.relaxed ?? false, functionIndex)),
    exports: module.entries.map((entry, position) => ({
      name: `entry${position}`,
      function: functionIndex(entry),
    })),
  })
}
