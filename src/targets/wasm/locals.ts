/**
 * Assigns WebAssembly locals to the local variables of a function. A local variable is live from its first mention to
 * its last. Two local variables of the same type share a WebAssembly local if their live ranges do not overlap. A live
 * range that enters a loop from outside is extended to the end of the loop. A local variable whose first mention does
 * not dominate its other mentions may carry a value from an earlier iteration, so it is live in the whole function.
 */
import type { CodeFunction, CodeType, Expression, Local, Statement } from '../cpu/code.ts'
import { bodiesOf, childrenOf, operandsOf, resultOf } from '../cpu/walk.ts'
import type { ValueType } from './opcodes.ts'

export function wasmType(type: CodeType): ValueType {
  switch (type) {
    case 'ptr':
      return 'i32'
    case 'vf32':
    case 'vi32':
      return 'v128'
    default:
      return type
  }
}

/** The local variables that the statements set, at any nesting depth. */
export function assignedIn(statements: readonly Statement[], found = new Set<Local>()): Set<Local> {
  for (const statement of statements) {
    const result = resultOf(statement)
    if (result) found.add(result)
    for (const body of bodiesOf(statement)) assignedIn(body, found)
  }
  return found
}

interface Life {
  readonly local: Local
  first: number
  last: number
  /** The statement list that contains the first mention of a local variable, if that mention sets the variable. */
  readonly list: Span | undefined
}
interface Span {
  readonly start: number
  end: number
}

/** The live ranges of a function's local variables, without parameters, ordered by first mention. */
function livesOf(code: CodeFunction): Life[] {
  const lives = new Map<Local, Life>()
  const loops: Span[] = []
  const parameters = new Set(code.parameters)
  let position = 0

  const mention = (local: Local, list: Span | undefined): void => {
    if (parameters.has(local)) return
    const life = lives.get(local)
    if (life) life.last = position
    else lives.set(local, { local, first: position, last: position, list })
  }
  const read = (expression: Expression): void => {
    if (expression.kind === 'local') mention(expression.local, undefined)
    childrenOf(expression).forEach(read)
  }
  const walk = (statements: readonly Statement[]): void => {
    const list: Span = { start: position, end: position }
    for (const statement of statements) {
      position++
      const start = position
      operandsOf(statement).forEach(read)
      const result = resultOf(statement)
      if (result) mention(result, list)
      for (const body of bodiesOf(statement)) walk(body)
      if (statement.kind === 'for') {
        position++
        mention(statement.index, undefined)
        if (statement.to.kind === 'local') mention(statement.to.local, undefined)
      }
      position++
      if (statement.kind === 'for' || statement.kind === 'loop') loops.push({ start, end: position })
    }
    list.end = position
  }
  walk(code.body)

  const assigned = assignedIn(code.body)
  for (const local of lives.keys())
    if (!assigned.has(local))
      throw new Error(`${code.name}: local ${local.name} is read, but nothing sets it`)
  for (const life of lives.values()) {
    if (!life.list || life.last > life.list.end) {
      life.first = 0
      life.last = position
      continue
    }
    // Inner loops are processed first, because a live range that an inner loop has extended may reach into an outer
    // loop.
    for (const loop of loops)
      if (life.first < loop.start && life.last >= loop.start && life.last < loop.end) life.last = loop.end
  }
  return [...lives.values()].sort((a, b) => a.first - b.first)
}

export interface Slots {
  /** The slot numbers of parameters and locals. */
  readonly slot: ReadonlyMap<Local, number>
  /** The types of the WebAssembly locals that follow the parameters. */
  readonly types: ValueType[]
  /** The names of parameters and local variables. */
  readonly names: string[]
}

export function assignSlots(code: CodeFunction): Slots {
  const pools = new Map<ValueType, { free: number; lives: Life[] }[]>()
  for (const life of livesOf(code)) {
    const type = wasmType(life.local.type)
    const pool = pools.get(type) ?? []
    pools.set(type, pool)
    const open = pool.find(({ free }) => free < life.first)
    if (open) {
      open.free = life.last
      open.lives.push(life)
    } else pool.push({ free: life.last, lives: [life] })
  }

  const slot = new Map(code.parameters.map((local, index) => [local, index]))
  const types: ValueType[] = []
  const names = code.parameters.map(({ name }) => name)
  for (const [type, pool] of pools)
    for (const { lives: sharing } of pool) {
      for (const { local } of sharing) slot.set(local, names.length)
      types.push(type)
      names.push([...new Set(sharing.map(({ local }) => local.name))].slice(0, 3).join('|'))
    }
  return { slot, types, names }
}
