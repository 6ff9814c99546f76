/**
 * Code of a kernel before it is written: a tree of parts, the declarations of the device library that it uses, and its
 * form. Renderers compose code with the tag `code` and with the functions of this file. The text of a tree is made only
 * when the kernel is written (`emit.ts`), so no decision can depend on it: whether code is one word, a number or in
 * parentheses is known from the form in which it was made, and its number of columns from its leaves.
 */

/** What is known of an expression besides its text. */
type Form =
  /** One word: a name, or a literal without a point or sign. `value` is that of a decimal integer. */
  | { readonly kind: 'word'; readonly name: string; readonly value: number | undefined }
  /** An expression in parentheses. */
  | { readonly kind: 'group'; readonly inner: Code }
  | { readonly kind: 'cast'; readonly of: Code }
  /** `left + …` or `left * …`, without parentheses. */
  | { readonly kind: 'sum' | 'product'; readonly left: Code; readonly right: Code }
  /** A literal with a minus sign. */
  | { readonly kind: 'negative' }
  | { readonly kind: 'other' }

export class Code {
  readonly #parts: readonly (string | Code)[]
  /** The number of columns that the code takes in a line. */
  readonly columns: number
  /** The names of the declarations that the code mentions. */
  readonly uses: ReadonlySet<string>
  readonly form: Form
  #text: string | undefined

  constructor(parts: readonly Part[], form: Form = { kind: 'other' }, uses = usesOf(parts)) {
    this.#parts = parts.map((part) => (part instanceof Code ? part : String(part)))
    this.columns = this.#parts.reduce<number>((sum, part) => sum + columnsOf(part), 0)
    this.uses = uses
    this.form = form
  }

  /** The text of the code. Only the writer of the kernel, and tests, may ask for it. */
  get asText(): string {
    return (this.#text ??= this.#parts.map((part) => (part instanceof Code ? part.asText : part)).join(''))
  }

  /** Code in an ordinary template literal would lose what it uses. */
  toString(): never {
    throw new Error(`compose code with the tag \`code\`: ${this.asText}`)
  }
}

const columnsOf = (part: string | Code): number => (part instanceof Code ? part.columns : part.length)

/** A variable or a register array of a thread. Two are the same only if they are one object. */
export class Variable extends Code {
  constructor(name: string) {
    super([name], { kind: 'word', name, value: undefined })
  }
}

const none: ReadonlySet<string> = new Set()

/** A part of code: code, or the text of a name, a number or an operator that uses nothing of the library. */
export type Part = Code | string | number

function usesOf(parts: readonly Part[]): ReadonlySet<string> {
  const using = parts.filter((part) => part instanceof Code && part.uses.size > 0) as readonly Code[]
  if (using.length === 0) return none
  return using.length === 1 ? using[0].uses : new Set(using.flatMap(({ uses }) => [...uses]))
}

export const code = (strings: TemplateStringsArray, ...parts: readonly Part[]): Code =>
  new Code(strings.flatMap((text, i) => [...(i > 0 ? [parts[i - 1]] : []), ...(text ? [text] : [])]))

/** The code of a text that uses nothing of the library. */
export const plain = (part: Part): Code => (part instanceof Code ? part : new Code([part]))

export const joined = (parts: readonly Part[], separator: string): Code =>
  new Code(parts.flatMap((part, i) => (i === 0 ? [part] : [separator, part])))

/** A name, or a literal without a point or sign. `uses` names the declaration if it is one of the library. */
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

/** `a + b`, or the other one if one is zero. */
export function sum(a: Code, b: Code): Code {
  if (isZero(a)) return b
  return isZero(b) ? a : plus(a, b)
}

export const plus = (left: Code, right: Code): Code =>
  new Code([left, ' + ', right], { kind: 'sum', left, right })

/** `a * by`, computed if `a` is a number. */
export function scaled(a: Code, by: number): Code {
  if (by === 1) return a
  const value = valueOf(a)
  return value === undefined ? product(a, by) : integer(value * by)
}

export const isWord = ({ form }: Code): boolean => form.kind === 'word'
/** The name that the code is, if it is one word. */
export const nameOf = ({ form }: Code): string | undefined => (form.kind === 'word' ? form.name : undefined)
export const isNegative = ({ form }: Code): boolean => form.kind === 'negative'

/** The value of a decimal integer without a sign; undefined for other code. */
export const valueOf = ({ form }: Code): number | undefined => (form.kind === 'word' ? form.value : undefined)

const isZero = (one: Code): boolean =>
  valueOf(one) === 0 || (one.form.kind === 'cast' && valueOf(one.form.of) === 0)

/** True if an addition is part of the expression itself, and not of an operand of a call or an index. */
export function hasSum({ form }: Code): boolean {
  if (form.kind === 'group') return hasSum(form.inner)
  return form.kind === 'sum' || (form.kind === 'product' && (hasSum(form.left) || hasSum(form.right)))
}

/** True if the first operand is in parentheses or is a cast. */
export function opensWithGroup({ form }: Code): boolean {
  if (form.kind === 'sum' || form.kind === 'product') return opensWithGroup(form.left)
  return form.kind === 'group' || form.kind === 'cast'
}

/** The code without parentheses around all of it. */
export const bare = (one: Code): Code => (one.form.kind === 'group' ? one.form.inner : one)

/** The code as an operand: a word, or in parentheses. */
export const operand = (one: Code): Code => (isWord(one) || one.form.kind === 'group' ? one : group(one))

/** The conjunction of the conditions that are defined, or undefined if there is none. */
export function all(conditions: readonly (Code | undefined)[]): Code | undefined {
  const defined = conditions.filter((one) => one !== undefined)
  return defined.length > 0 ? joined(defined, ' && ') : undefined
}

/** The register index of an unrolled loop, and the indices of the two elements of pair `p`. */
export const REGISTER = word('i')
export const EVEN = group(product(2, word('p')))
export const ODD = group(plus(product(2, word('p')), integer(1)))
