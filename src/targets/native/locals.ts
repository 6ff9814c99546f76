/**
 * Decides where the local variables of a C++ function are declared. A local variable is declared at the statement that
 * first sets it, if all its uses follow in the same block or in nested blocks. All other local variables are declared
 * at the head of the function with the initial value 0, because a loop may carry their value from one iteration to the
 * next.
 */
import type { CodeFunction, Expression, Local, Statement } from '../cpu/code.ts'
import { bodiesOf, childrenOf, operandsOf, resultOf } from '../cpu/walk.ts'

/**
 * The statements and `for` loops that declare the variable they set, and the variables declared at the head of the
 * function.
 */
export interface Declarations {
  readonly declaring: ReadonlySet<Statement>
  readonly head: readonly Local[]
}

/** A block in the tree of nested blocks. */
interface Block {
  readonly outer?: Block
  readonly depth: number
}

function eachLocal(expression: Expression, visit: (local: Local) => void): void {
  if (expression.kind === 'local') visit(expression.local)
  else childrenOf(expression).forEach((operand) => eachLocal(operand, visit))
}

export function declarationsOf(code: CodeFunction): Declarations {
  const parameters = new Set(code.parameters)
  /**
   * The statement that mentions a local variable first, if that statement sets the variable, and the block in which the
   * variable may be declared.
   */
  const first = new Map<Local, { statement: Statement | undefined; block: Block; visible: boolean }>()

  const mention = (local: Local, block: Block, setter?: Statement): void => {
    if (parameters.has(local)) return
    const seen = first.get(local)
    if (!seen) first.set(local, { statement: setter, block, visible: true })
    // A statement object that occurs twice in a body would declare its local variable twice.
    else if ((setter && setter === seen.statement) || !isWithin(block, seen.block)) seen.visible = false
  }
  const walk = (body: readonly Statement[], block: Block): void => {
    for (const statement of body) {
      for (const expression of operandsOf(statement)) eachLocal(expression, (local) => mention(local, block))
      const inner = (): Block => ({ outer: block, depth: block.depth + 1 })
      const local = resultOf(statement)
      if (statement.kind === 'for') {
        // The index variable belongs to the loop, not to the block that contains the loop.
        const own = inner()
        mention(statement.index, own, statement)
        walk(statement.body, own)
        continue
      }
      if (local) mention(local, block, statement)
      bodiesOf(statement).forEach((list) => walk(list, inner()))
    }
  }
  walk(code.body, { depth: 0 })

  const declaring = new Set<Statement>()
  const head: Local[] = []
  for (const [local, { statement, visible }] of first) {
    if (statement && visible) declaring.add(statement)
    else head.push(local)
  }
  return { declaring, head }
}

function isWithin(block: Block, outer: Block): boolean {
  let at: Block | undefined = block
  while (at && at.depth > outer.depth) at = at.outer
  return at === outer
}
