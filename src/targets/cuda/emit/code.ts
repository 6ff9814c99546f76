/**
 * Represents the code of a kernel as a tree. A node of the tree is a `Code` object: it consists of strings and other
 * `Code` objects, and lists the declarations of the device library that its text uses. Renderers compose code with the
 * tag `code` and with the functions of this file. A tree is converted to text only when the kernel is written
 * (`emit.ts`), so no decision can depend on the text. The form of an expression says, for example, whether the
 * expression is a single name or a sum. The width of a piece of code, in columns of text, is the sum of the widths of
 * the strings in its tree.
 */

/** The outermost syntax of an expression, such as a sum or a cast, which determines where parentheses are necessary. */
type Form =
  /**
   * One word: a name, or a literal without a decimal point or sign. `value` is defined if the literal is a decimal
   * integer.
   */
  | { readonly kind: 'word'; readonly name: string; readonly value: number | undefined }
  /** An expression in parentheses. */
  | { readonly kind: 'group'; readonly inner: Code }
  | { readonly kind: 'cast'; readonly of: Code }
  /** A sum `left + …` or a product `left * …`, without parentheses around it. */
  | { readonly kind: 'sum' | 'product'; readonly left: Code; readonly right: Code }
  /** A literal with a minus sign. */
  | { readonly kind: 'negative' }
  | { readonly kind: 'other' }

export class Code {
  readonly #parts: readonly (string | Code)[]
  /** The width of the code, in columns of text. */
  readonly columns: number
  /** The names of the declarations of the device library that the code mentions. */
  readonly uses: ReadonlySet<string>
  readonly form: Form
  #text: string | undefined

  constructor(parts: readonly Part[], form: Form = { kind: 'other' }, uses = usesOf(parts)) {
    this.#parts = parts.map((part) => (part instanceof Code ? part : String(part)))
    this.columns = this.#parts.reduce<number>((sum, part) => sum + columnsOf(part), 0)
    this.uses = uses
    this.form = form
  }

  /** The text of the code. Only tests and the writer of the finished kernel may read the text. */
  get asText(): string {
    return (this.#text ??= this.#parts.map((part) => (part instanceof Code ? part.asText : part)).join(''))
  }

  /** Throws an error, because code in an ordinary template literal would lose the list of declarations that it uses. */
  toString(): never {
    throw new Error(`compose code with the tag \`code\`, not in a plain template literal: ${this.asText}`)
  }
}

const columnsOf = (part: string | Code): number => (part instanceof Code ? part.columns : part.length)

/** A variable or a register array of a thread. Two `Variable` objects with equal names are different variables. */
export class Variable extends Code {
  constructor(name: string) {
    super([name], { kind: 'word', name, value: undefined })
  }
}

const none: ReadonlySet<string> = new Set()

/**
 * An argument of the tag `code`: code, or the text of a name, number or operator that uses no declaration of the device
 * library.
 */
export type Part = Code | string | number

function usesOf(parts: readonly Part[]): ReadonlySet<string> {
  const using = parts.filter((part) => part instanceof Code && part.uses.size > 0) as readonly Code[]
  if (using.length === 0) return none
  return using.length === 1 ? using[0].uses : new Set(using.flatMap(({ uses }) => [...uses]))
}

export const code = (strings: TemplateStringsArray, ...parts: readonly Part[]): Code =>
  new Code(strings.flatMap((text, i) => [...(i > 0 ? [parts[i - 1]] : []), ...(text ? [text] : [])]))

/** Converts a text that uses no declaration of the device library to code. */
export const plain = (part: Part): Code => (part instanceof Code ? part : new Code([part]))

export const joined = (parts: readonly Part[], separator: string): Code =>
  new Code(parts.flatMap((part, i) => (i === 0 ? [part] : [separator, part])))

/**
 * Returns the code of a name, or of a literal without a decimal point or sign. `uses` names the declaration of the
 * device library, if the name belongs to one.
 */
export const word = (name: string, uses?: string): Code =>
  new Code([name], { kind: 'word', name, value: undefined }, uses === undefined ? none : new Set([uses]))

export const integer = (value: number): Code =>
  new Code([value], value < 0 ? { kind: 'negative' } : { kind: 'word', name: String(value), value })

/** A literal with a minus sign. */
export const negative = (text: string): Code => new Code([text], { kind: 'negative' })

export const group = (inner: Code): Code => new Code(['(', inner, ')'], { kind: 'group', inner })

export const cast = (type: Part, of: Code): Code => new Code(['(', type, ')', of], { kind: 'cast', of })

export const product = (left: Part, right: Part): Code =>
  new Code([left, ' * ', right], { kind: 'product', left: plain(left), right: plain(right) })

/** Returns `a + b`, or the other operand if one operand is zero. */
export function sum(a: Code, b: Code): Code {
  if (isZero(a)) return b
  return isZero(b) ? a : plus(a, b)
}

export const plus = (left: Code, right: Code): Code =>
  new Code([left, ' + ', right], { kind: 'sum', left, right })

/** Returns `a * by`, folded to a constant if `a` is a number. */
export function scaled(a: Code, by: number): Code {
  if (by === 1) return a
  const value = valueOf(a)
  return value === undefined ? product(a, by) : integer(value * by)
}

export const isWord = ({ form }: Code): boolean => form.kind === 'word'
/** If the code is a single name or unsigned integer, returns its text, otherwise undefined. */
export const nameOf = ({ form }: Code): string | undefined => (form.kind === 'word' ? form.name : undefined)
export const isNegative = ({ form }: Code): boolean => form.kind === 'negative'

/** Returns the value if the code is a decimal integer without a sign, otherwise undefined. */
export const valueOf = ({ form }: Code): number | undefined => (form.kind === 'word' ? form.value : undefined)

const isZero = (one: Code): boolean =>
  valueOf(one) === 0 || (one.form.kind === 'cast' && valueOf(one.form.of) === 0)

/** True if the expression contains an addition outside of call arguments and indices. */
export function hasSum({ form }: Code): boolean {
  if (form.kind === 'group') return hasSum(form.inner)
  return form.kind === 'sum' || (form.kind === 'product' && (hasSum(form.left) || hasSum(form.right)))
}

/** True if the text of an expression begins with an operand that is in parentheses or is a cast. */
export function opensWithGroup({ form }: Code): boolean {
  if (form.kind === 'sum' || form.kind === 'product') return opensWithGroup(form.left)
  return form.kind === 'group' || form.kind === 'cast'
}

/** Returns the code without its outermost parentheses. */
export const bare = (one: Code): Code => (one.form.kind === 'group' ? one.form.inner : one)

/** Returns the code as an operand, in parentheses unless the code is one word. */
export const operand = (one: Code): Code => (isWord(one) || one.form.kind === 'group' ? one : group(one))

/** Returns the conjunction of the defined conditions, or undefined if no condition is defined. */
export function all(conditions: readonly (Code | undefined)[]): Code | undefined {
  const defined = conditions.filter((one) => one !== undefined)
  return defined.length > 0 ? joined(defined, ' && ') : undefined
}

/**
 * The code of the register index `i` of an unrolled loop, and of the indices of the two elements in a pair with number
 * `p`.
 */
export const REGISTER = word('i')
export const EVEN = group(product(2, word('p')))
export const ODD = group(plus(product(2, word('p')), integer(1)))
