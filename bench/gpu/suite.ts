/**
 * The subset of vitest that the target tests use, for a machine that has a GPU and no packages. When the tests are
 * bundled, this file replaces vitest. Cases are collected when their file is imported and run one after the other. If
 * the emitter rejects a kernel, its test case is `refused`, which counts neither as passed nor as failed.
 */
import { deepStrictEqual } from 'node:assert'
import { format } from 'node:util'
import { KernelError } from '../../src/ir/site.ts'

export type Outcome = 'passed' | 'failed' | 'refused'
export interface Case {
  readonly name: string
  readonly run: () => unknown
}

export const cases: Case[] = []
const path: string[] = []

/** Collects test cases under a common name. */
function within(name: string, collect: () => unknown): void {
  path.push(name)
  collect()
  path.pop()
}

/** Sets the file name of the test cases that are collected next. */
export function file(name: string): void {
  path.splice(0, path.length, name)
}

type Rows = readonly unknown[]
type Body = (...row: never[]) => unknown
const rowOf = (entry: unknown): Rows => (Array.isArray(entry) ? (entry as Rows) : [entry])

/**
 * Formats the title of a test case. The placeholder `%s` and similar ones take the values of a row in order, and
 * `$name` takes the field `name` of the first value.
 */
const title = (pattern: string, row: Rows): string => {
  const [first] = row
  const isRecord = typeof first === 'object' && first !== null
  const named = pattern.replace(/\$(\w+)/g, (hole, name: string) =>
    isRecord && name in first ? String((first as Record<string, unknown>)[name]) : hole,
  )
  const holes = named.match(/%[sijdo]/g)?.length ?? 0
  return format(named, ...row.slice(0, holes))
}

type Add = (name: string, body: () => unknown) => void
/**
 * The arguments after the name of a test: the body, and either options before it or a timeout after it. In this
 * replacement of vitest, options and timeouts of tests have no effect.
 */
type Given = readonly unknown[]
const bodyOf = (given: Given): Body => given.find((one) => typeof one === 'function') as Body

/** `it.each` passes the entries of a row to the body one by one, and `it.for` passes the whole row. */
const rowsWith =
  (add: Add, argumentsOf: (entry: unknown) => Rows) =>
  (rows: Rows) =>
  (pattern: string, ...given: Given): void => {
    // The checker needs no GPU, so its test cases run on any machine.
    for (const entry of rows)
      if (entry !== 'check')
        add(title(pattern, rowOf(entry)), () => bodyOf(given)(...(argumentsOf(entry) as never[])))
  }
const eachOf = (add: Add) => rowsWith(add, rowOf)

const collected = { each: eachOf(within) }
const none = Object.assign(() => {}, { each: () => () => {} })
export const describe = Object.assign(within, {
  ...collected,
  skipIf: (skipped: unknown) => (skipped ? none : Object.assign(within, collected)),
})

/** Results are stored by the name of the test case, so a second case with the same name would never run. */
function add(last: string, ...given: Given): void {
  const run = bodyOf(given) as () => unknown
  const name = [...path, last].join(' > ')
  if (cases.some((one) => one.name === name)) throw new Error(`two cases have the same name: ${name}`)
  cases.push({ name, run })
}
const all = { each: eachOf(add), for: rowsWith(add, (entry) => [entry]) }
const tests = Object.assign(add, all)
export const it = Object.assign(tests, {
  runIf: (runs: unknown) => (runs ? tests : none),
  skipIf: (skipped: unknown) => (skipped ? none : tests),
})

let lenient = false
/** Disables all expectations that follow. */
export const expectNothing = (): void => void (lenient = true)

const demand = (holds: boolean, message: string): void => {
  if (!holds) throw new Error(message)
}
const shown = (value: unknown): string => (typeof value === 'string' ? value : format('%o', value))

/**
 * Throws an error unless all fields of `expected` are in `actual`. If `expected` contains an array, the actual array
 * must have the same length.
 */
function includes(actual: unknown, expected: unknown, path = 'it'): void {
  if (typeof expected !== 'object' || expected === null) {
    demand(Object.is(actual, expected), `${path} is ${shown(actual)}, not ${shown(expected)}`)
    return
  }
  demand(typeof actual === 'object' && actual !== null, `${path} is ${shown(actual)}`)
  if (Array.isArray(expected))
    demand((actual as Rows).length === expected.length, `${path} has ${(actual as Rows).length} elements`)
  for (const [name, value] of Object.entries(expected))
    includes((actual as Record<string, unknown>)[name], value, `${path}.${name}`)
}

type Message = string | RegExp | (new (...given: never[]) => Error)

function isThrown(error: unknown, wanted?: Message): void {
  demand(error !== undefined, 'nothing was thrown')
  if (wanted === undefined) return
  if (typeof wanted === 'function')
    return demand(error instanceof wanted, `${String(error)} is not a ${wanted.name}`)
  const { message } = error as Error
  const fits = typeof wanted === 'string' ? message.includes(wanted) : wanted.test(message)
  demand(fits, `the error is ${message}, not ${String(wanted)}`)
}

/** Each matcher throws an error unless the expectation holds. */
const matchers = {
  toEqual: (actual: unknown, expected: unknown) => deepStrictEqual(actual, expected),
  toBe: (actual: unknown, expected: unknown) => deepStrictEqual(actual, expected),
  toBeLessThanOrEqual: (actual: unknown, most: number) =>
    demand((actual as number) <= most, `${shown(actual)} is not at most ${most}`),
  toBeGreaterThan: (actual: unknown, least: number) =>
    demand((actual as number) > least, `${shown(actual)} is not above ${least}`),
  toContain: (actual: unknown, part: unknown) =>
    demand((actual as string).includes(part as string), `${shown(actual)} does not contain ${shown(part)}`),
  toMatch: (actual: unknown, pattern: RegExp) =>
    demand(pattern.test(actual as string), `${shown(actual)} does not match ${String(pattern)}`),
  toMatchObject: (actual: unknown, expected: object) => includes(actual, expected),
  toBeInstanceOf: (actual: unknown, type: new (...given: never[]) => object) =>
    demand(actual instanceof type, `${shown(actual)} is not a ${type.name}`),
  toThrow: (actual: unknown, wanted?: Message) => {
    try {
      ;(actual as () => unknown)()
    } catch (error) {
      return isThrown(error, wanted)
    }
    isThrown(undefined)
  },
} satisfies Record<string, (actual: unknown, ...expected: never[]) => void>

type Name = keyof typeof matchers
type Rest<F> = F extends (actual: unknown, ...expected: infer Expected) => void ? Expected : never
type Matchers = { readonly [N in Name]: (...expected: Rest<(typeof matchers)[N]>) => void }
interface Expectation extends Matchers {
  readonly not: Matchers
  readonly rejects: { toThrow(wanted?: Message): Promise<void> }
}

export function expect(actual: unknown, about = ''): Expectation {
  const failed = (message: string, cause?: unknown): Error =>
    new Error(`${about}${about ? ': ' : ''}${message}`, { cause })
  const all = (negated: boolean): Matchers =>
    Object.fromEntries(
      Object.entries(matchers).map(([name, matcher]) => {
        const check = (...expected: never[]): void => {
          if (lenient) return
          let failure: Error | undefined
          try {
            ;(matcher as (actual: unknown, ...expected: never[]) => void)(actual, ...expected)
          } catch (error) {
            failure = error as Error
          }
          if (negated && !failure) throw failed(`not ${name} was expected of ${shown(actual)}`)
          if (!negated && failure) throw failed(failure.message, failure)
        }
        return [name, check]
      }),
    ) as Matchers
  const toThrow = async (wanted?: Message): Promise<void> => {
    const error = await (actual as Promise<unknown>).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    if (!lenient) isThrown(error, wanted)
  }
  return { ...all(false), not: all(true), rejects: { toThrow } }
}

export interface Result {
  readonly name: string
  readonly outcome: Outcome
  readonly milliseconds: number
  readonly why?: string
}

/**
 * The first lines of an error and of its causes. Errors of property tests name the error of a counterexample as their
 * cause.
 */
function reasonOf(error: Error): string {
  const told: string[] = []
  for (let one: unknown = error; one instanceof Error; one = one.cause) {
    const lines = one.message.split('\n').slice(0, 12)
    const text = lines.map((line) => (line.length > 400 ? `${line.slice(0, 400)}…` : line)).join('\n')
    if (!told.some((known) => known.includes(text))) told.push(text)
  }
  return told.join('\n')
}

export async function runCase({ name, run }: Case): Promise<Result> {
  const begun = performance.now()
  const end = (outcome: Outcome, error?: Error): Result => ({
    name,
    outcome,
    milliseconds: Math.round(performance.now() - begun),
    ...(error && { why: reasonOf(error) }),
  })
  try {
    await run()
    return end('passed')
  } catch (error) {
    return end(error instanceof KernelError ? 'refused' : 'failed', error as Error)
  }
}
