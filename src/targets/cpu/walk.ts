/** Lists the components of a statement or an expression of Code, for passes that traverse Code. */
import type { CodeFunction, Expression, Local, Statement } from './code.ts'

/** The expressions of the statement itself, without those of nested statements. */
export function operandsOf(statement: Statement): Expression[] {
  switch (statement.kind) {
    case 'set':
      return [statement.value]
    case 'load':
    case 'loadSplat':
    case 'loadPointer':
    case 'atomicLoad':
      return [statement.from]
    case 'store':
    case 'atomicStore':
      return [statement.to, statement.value]
    case 'copyBytes':
      return [statement.to, statement.from, statement.bytes]
    case 'zeroBytes':
      return [statement.to, statement.bytes]
    case 'atomic':
      return [statement.at, statement.value]
    case 'compareExchange':
      return [statement.at, statement.expected, statement.desired]
    case 'sleep':
      return [statement.at, statement.expected, statement.nanoseconds]
    case 'wake':
    case 'prefetch':
      return [statement.at]
    case 'if':
      return [statement.condition]
    case 'for':
      return [statement.from, statement.to]
    case 'return':
      return statement.value ? [statement.value] : []
    case 'call':
      return [...statement.arguments]
    case 'fence':
    case 'pause':
    case 'loop':
    case 'break':
      return []
    default:
      throw new Error(`unknown statement: ${JSON.stringify(statement satisfies never)}`)
  }
}

/** The local variable that a statement sets, or undefined if it sets none. */
export function resultOf(statement: Statement): Local | undefined {
  if (statement.kind === 'for') return statement.index
  return 'local' in statement ? statement.local : undefined
}

/** The statement lists that are nested in a statement. */
export function bodiesOf(statement: Statement): (readonly Statement[])[] {
  if (statement.kind === 'if') return [statement.then, statement.otherwise]
  return 'body' in statement ? [statement.body] : []
}

export function childrenOf(expression: Expression): Expression[] {
  switch (expression.kind) {
    case 'local':
    case 'const':
    case 'lanes':
    case 'now':
      return []
    case 'unary':
    case 'convert':
    case 'splat':
    case 'extract':
    case 'stride':
      return [expression.a]
    case 'binary':
    case 'compare':
    case 'zip':
      return [expression.a, expression.b]
    case 'fma':
      return [expression.a, expression.b, expression.c]
    case 'select':
      return [expression.condition, expression.a, expression.b]
    case 'address':
      return expression.index ? [expression.base, expression.index] : [expression.base]
    case 'step':
      return [expression.base, expression.index, expression.stride]
    default:
      throw new Error(`unknown expression: ${JSON.stringify(expression satisfies never)}`)
  }
}

/** Every statement of a body; an outer statement comes before its nested statements. */
export function eachStatement(body: readonly Statement[], visit: (statement: Statement) => void): void {
  for (const statement of body) {
    visit(statement)
    bodiesOf(statement).forEach((inner) => eachStatement(inner, visit))
  }
}

/** The functions that the entry points call, directly or indirectly; callees come before callers. */
export function calleesFirst(entries: readonly CodeFunction[]): CodeFunction[] {
  const ordered = new Set<CodeFunction>()
  const open = new Set<CodeFunction>()
  const visit = (code: CodeFunction): void => {
    if (ordered.has(code)) return
    if (open.has(code)) throw new Error(`${code.name} calls itself; Code has no recursion`)
    open.add(code)
    eachStatement(code.body, (statement) => {
      if (statement.kind === 'call') visit(statement.function)
    })
    ordered.add(code)
  }
  entries.forEach(visit)
  return [...ordered]
}
