/**
 * Reports symbolic values that are used as numbers or booleans where JavaScript raises no error. A symbolic value is an
 * object, so a condition on it is always true, and === compares object identity. Recording a kernel already rejects
 * arithmetic and < on symbolic values; the ESLint rule reports them before the kernel runs.
 *
 * The rule ignores tests for whether an optional value was given (`if (options.mask)`, `x === undefined`).
 */
import type { Rule } from 'eslint'
import type { Type, TypeChecker } from 'typescript'

/**
 * The services that typescript-eslint's parser offers to typed rules. The types are declared here so that this file
 * imports neither TypeScript nor typescript-eslint at run time.
 */
interface ParserServices {
  readonly program?: { getTypeChecker(): TypeChecker } | null
  getTypeAtLocation?(node: unknown): Type
}
type Expression = Rule.Node | { readonly type: string }

const comparisons = new Set(['===', '!==', '==', '!=', '<', '<=', '>', '>='])
const equalities = new Set(['===', '!==', '==', '!='])
const arithmetic = new Set(['+', '-', '*', '/', '%', '**', '&', '|', '^', '<<', '>>', '>>>'])

export const noSymbolCoercion: Rule.RuleModule = {
  meta: {
    type: 'problem',
    docs: {
      description: 'disallow JavaScript operators and conditions on symbolic values of a kernel',
    },
    messages: {
      condition:
        'This condition does not depend on the symbolic value, because every object is truthy: use t.if(…), t.while(…) or x.select(…).',
      comparison:
        "JavaScript's {{operator}} does not compare the numbers of symbolic values: use x.eq(…), x.ne(…), x.lt(…), x.le(…), x.gt(…) or x.ge(…).",
      arithmetic:
        "JavaScript's {{operator}} does not compute with symbolic values: use methods such as x.add(…) and x.mul(…).",
    },
    schema: [],
  },

  create(context) {
    const services = context.sourceCode.parserServices as ParserServices
    if (!services.program || !services.getTypeAtLocation)
      throw new Error(
        "arke/no-symbol-coercion needs type information: use typescript-eslint's parser with parserOptions.projectService, as in docs/eslint.md",
      )
    const checker = services.program.getTypeChecker()
    const typeOf = (node: Expression): Type => services.getTypeAtLocation!(node)
    const isSymbol = (node: Expression): boolean =>
      parts(typeOf(node), checker).some((type) => isSymbolic(type, checker))
    const isNullish = (node: Expression): boolean =>
      parts(typeOf(node), checker).some((type) => isMissing(type, checker))
    const report = (node: Expression, messageId: string, operator = ''): void =>
      context.report({ node: node as Rule.Node, messageId, data: { operator } })

    const condition = (test: Expression | null | undefined): void => {
      if (test && isSymbol(test) && !isNullish(test)) report(test, 'condition')
    }
    const onlyMissing = (node: Expression): boolean =>
      parts(typeOf(node), checker).every((type) => isMissing(type, checker))
    const operation = (node: Expression, operator: string, left: Expression, right: Expression): void => {
      const isComparison = comparisons.has(operator)
      if (!isComparison && !arithmetic.has(operator)) return
      if (!isSymbol(left) && !isSymbol(right)) return
      if (equalities.has(operator) && (onlyMissing(left) || onlyMissing(right))) return
      report(node, isComparison ? 'comparison' : 'arithmetic', operator)
    }

    return {
      IfStatement: ({ test }) => condition(test),
      ConditionalExpression: ({ test }) => condition(test),
      WhileStatement: ({ test }) => condition(test),
      DoWhileStatement: ({ test }) => condition(test),
      ForStatement: ({ test }) => condition(test),
      LogicalExpression: ({ left, operator }) => operator !== '??' && condition(left),
      UnaryExpression(node) {
        if (node.operator === '!') condition(node.argument)
        else if (['+', '-', '~'].includes(node.operator) && isSymbol(node.argument))
          report(node, 'arithmetic', node.operator)
      },
      BinaryExpression: (node) => operation(node, node.operator, node.left, node.right),
      AssignmentExpression(node) {
        const { operator, left, right } = node
        if (operator === '&&=' || operator === '||=') condition(left)
        else operation(node, operator.slice(0, -1), left, right)
      },
      UpdateExpression(node) {
        if (isSymbol(node.argument)) report(node, 'arithmetic', node.operator)
      },
      SwitchStatement({ discriminant }) {
        if (isSymbol(discriminant)) report(discriminant, 'comparison', '===')
      },
    }
  },
}

/** The members of a union type, with type parameters replaced by their constraints. */
function parts(type: Type, checker: TypeChecker): readonly Type[] {
  const constraint = type.isTypeParameter() ? checker.getBaseConstraintOfType(type) : undefined
  if (constraint) return parts(constraint, checker)
  return type.isUnionOrIntersection() ? type.types.flatMap((one) => parts(one, checker)) : [type]
}

/**
 * True for undefined, null and void. Types are compared by name, because the numeric type flags change between
 * compiler versions.
 */
function isMissing(type: Type, checker: TypeChecker): boolean {
  return ['undefined', 'null', 'void'].includes(checker.typeToString(type))
}

/** True if a type is the language's class Symbolic or derives from it. */
function isSymbolic(type: Type, checker: TypeChecker): boolean {
  const symbol = type.getSymbol()
  if (symbol?.name === 'Symbolic') {
    const files = symbol.getDeclarations()?.map((declaration) => declaration.getSourceFile().fileName) ?? []
    return files.some((file) => /[/\\]lang[/\\]value\.(d\.)?ts$/.test(file))
  }
  if (!type.isClassOrInterface() && !isReference(type)) return false
  const declared = isReference(type) ? type.target : type
  return (checker.getBaseTypes(declared as never) ?? []).some((base) => isSymbolic(base, checker))
}

function isReference(type: Type): type is Type & { readonly target: Type } {
  return 'target' in type
}
