/** Prints Code for a reader: one statement per line, callees before callers, local variables by their names. */
import type { CodeFunction, CodeModule, Expression, Local, Statement } from './code.ts'
import { bodiesOf, calleesFirst, childrenOf, operandsOf, resultOf } from './walk.ts'

export function printCode({ entries }: CodeModule): string {
  const blocks = calleesFirst(entries).map((code) => {
    const entry = entries.indexOf(code)
    return printFunction(code, entry < 0 ? '' : `  // entry ${entry}`)
  })
  return `${blocks.join('\n\n')}\n`
}

/**
 * A local variable's name is not unique in Code. If two variables of a function have the same name, a number is
 * appended to the name.
 */
function namesOf(): (local: Local) => string {
  const names = new Map<Local, string>()
  const counts = new Map<string, number>()
  return (local) => {
    let name = names.get(local)
    if (name === undefined) {
      const count = (counts.get(local.name) ?? 0) + 1
      counts.set(local.name, count)
      names.set(local, (name = count === 1 ? local.name : `${local.name}.${count}`))
    }
    return name
  }
}

function printFunction(code: CodeFunction, comment: string): string {
  const nameOf = namesOf()
  const declared = (local: Local): string => `${nameOf(local)}: ${local.type}`
  const result = code.result ? `: ${code.result}` : ''
  const lines = [`${code.name}(${code.parameters.map(declared).join(', ')})${result}${comment}`]
  const value = (expression: Expression): string => {
    if (expression.kind === 'local') return nameOf(expression.local)
    if (expression.kind === 'const') return `${expression.value}:${expression.type}`
    const parts = [...childrenOf(expression).map(value), ...plain(expression, ['type', 'name'])]
    return `${'name' in expression ? expression.name : expression.kind}.${expression.type}(${parts.join(', ')})`
  }
  const visit = (body: readonly Statement[], indent: string): void => {
    for (const statement of body) {
      const local = resultOf(statement)
      const what = statement.kind === 'call' ? `call ${statement.function.name}` : statement.kind
      const operands = [...operandsOf(statement).map(value), ...plain(statement, [])]
      const right = statement.kind === 'set' ? operands[0] : `${what}(${operands.join(', ')})`
      lines.push(`${indent}${local ? `${declared(local)} = ` : ''}${right}`)
      const [first, otherwise = []] = bodiesOf(statement)
      if (first) visit(first, `${indent}  `)
      if (otherwise.length > 0) {
        lines.push(`${indent}else`)
        visit(otherwise, `${indent}  `)
      }
    }
  }
  visit(code.body, '  ')
  return lines.join('\n')
}

/**
 * The fields of a statement or an expression that contain strings or numbers, except its kind and the fields whose
 * names are in `apart`.
 */
const plain = (of: Statement | Expression, apart: readonly string[]): string[] =>
  Object.entries(of).flatMap(([name, value]) =>
    name !== 'kind' && !apart.includes(name) && ['string', 'number'].includes(typeof value)
      ? [`${name}=${String(value)}`]
      : [],
  )
