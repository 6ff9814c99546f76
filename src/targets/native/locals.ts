/**
 * Where the locals of a function are declared: at the statement that first sets them, if all their uses lie behind it in the same
 * block or deeper; otherwise at the head of the function, as 0 (a loop may carry them from turn to turn).
 */
import type { CodeFunction, Expression, Local, Statement } from '../cpu/code.ts'

/** Statements and `for` loops that declare the local they set, and the locals that the head of the function declares. */
export interface Declarations {
  readonly declaring: ReadonlySet<Statement>
  readonly head: readonly Local[]
}

/** A block in the tree of blocks, and which statement of its outer block it belongs to. */
interface Block {
  readonly outer?: Block
  readonly depth: number
}

/** What a statement sets, if that is a local. */
export function setBy(statement: Statement): Local | undefined {
  switch (statement.kind) {
    case 'set':
    case 'load':
    case 'loadSplat':
    case 'loadPointer':
    case 'atomicLoad':
    case 'atomic':
    case 'compareExchange':
    case 'call':
      return statement.local
    case 'for':
      return statement.index
    default:
      return undefined
  }
}

/** The expressions that a statement itself evaluates, without those of its bodies. */
export function expressionsOf(statement: Statement): readonly Expression[] {
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
    case 'call':
      return statement.arguments
    case 'return':
      return statement.value ? [statement.value] : []
    case 'fence':
    case 'pause':
    case 'loop':
    case 'break':
      return []
    default:
      throw new Error(`native: no statement ${String(statement satisfies never)}`)
  }
}

export function bodiesOf(statement: Statement): readonly (readonly Statement[])[] {
  switch (statement.kind) {
    case 'if':
      return [statement.then, statement.otherwise]
    case 'for':
    case 'loop':
      return [statement.body]
    default:
      return []
  }
}

function operandsOf(expression: Expression): readonly Expression[] {
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
      throw new Error(`native: no expression ${String(expression satisfies never)}`)
  }
}

export function eachLocal(expression: Expression, visit: (local: Local) => void): void {
  if (expression.kind === 'local') visit(expression.local)
  else operandsOf(expression).forEach((operand) => eachLocal(operand, visit))
}

/** Every statement of a body, outer ones first. */
export function eachStatement(body: readonly Statement[], visit: (statement: Statement) => void): void {
  for (const statement of body) {
    visit(statement)
    bodiesOf(statement).forEach((inner) => eachStatement(inner, visit))
  }
}

export function declarationsOf(code: CodeFunction): Declarations {
  const parameters = new Set(code.parameters)
  /** For each local: the statement that mentions it first, if that sets it, and the block in which it may be declared. */
  const first = new Map<Local, { statement: Statement | undefined; block: Block; visible: boolean }>()

  const mention = (local: Local, block: Block, setter?: Statement): void => {
    if (parameters.has(local)) return
    const seen = first.get(local)
    if (!seen) first.set(local, { statement: setter, block, visible: true })
    // A statement that stands twice in a body would declare twice.
    else if ((setter && setter === seen.statement) || !isWithin(block, seen.block)) seen.visible = false
  }
  const walk = (body: readonly Statement[], block: Block): void => {
    for (const statement of body) {
      for (const expression of expressionsOf(statement))
        eachLocal(expression, (local) => mention(local, block))
      const inner = (): Block => ({ outer: block, depth: block.depth + 1 })
      const local = setBy(statement)
      if (statement.kind === 'for') {
        // The index belongs to the loop, not to the block that the loop stands in.
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
