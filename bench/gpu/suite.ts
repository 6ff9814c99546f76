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
 * Formats the title of a test case. `%s` and similar placeholders take the values of a row in order, and `$name` takes
 * that property of the first value.
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
 * The arguments after the name of a test: the body, and either options before it or a timeout after it. Options and
 * timeouts have no effect here.
 */
type Given = readonly unknown[]
const bodyOf = (given: Given): Body => given.find((one) => typeof one === 'function') as Body

/** `it.each` passes the entries of a row to the body one by one, and `it.for` passes the whole row. */
const rowsWith =
  (add: Add, argumentsOf: (entry: unknown) => Rows) =>
  (rows: Rows) =>
  (pattern: string, ...given: Given): void => {
    // The checker needs no GPU.
    for (const entry of rows)
      if (entry !== 'check')
        add(title(pattern, rowOf(entry)), () => bodyOf(given)(...(argumentsOf(entry) as never[])))
  }
const eachOf = (add: Add) => rowsWith(add, rowOf)

const collected = { each: eachOf(within) }
export const describe = Object.assign(within, {
  ...collected,
  skipIf: (skipped: boolean) => (skipped ? { each: () => () => {} } : collected),
})

/** Results are stored by the name of the test case, so a second case with the same name would never run. */
function add(last: string, ...given: Given): void {
  const run = bodyOf(given) as () => unknown
  const name = [...path, last].join(' > ')
  if (cases.some((one) => one.name === name)) throw new Error(`two cases have the same name: ${name}`)
  cases.push({ name, run })
}
const all = { each: eachOf(add), for: rowsWith(add, (entry) => [entry]) }
export const it = Object.assign(add, {
  ...all,
  runIf: (runs: boolean) => (runs ? all : { each: () => () => {} }),
})

interface Matchers {
  toEqual(expected: unknown): void
  toBe(expected: unknown): void
  toBeLessThanOrEqual(most: number): void
}

let lenient = false
/** Disables all later expectations. */
export const expectNothing = (): void => void (lenient = true)

export function expect(actual: unknown, about = ''): Matchers {
  const check = (right: () => void): void => {
    if (lenient) return
    try {
      right()
    } catch (error) {
      throw new Error(`${about}${about ? ': ' : ''}${(error as Error).message}`, { cause: error })
    }
  }
  return {
    toEqual: (expected) => check(() => deepStrictEqual(actual, expected)),
    toBe: (expected) => check(() => deepStrictEqual(actual, expected)),
    toBeLessThanOrEqual: (most) =>
      check(() => {
        if (!((actual as number) <= most)) throw new Error(`${String(actual)} is not at most ${most}`)
      }),
  }
}

export interface Result {
  readonly name: string
  readonly outcome: Outcome
  readonly milliseconds: number
  readonly why?: string
}

export async function runCase({ name, run }: Case): Promise<Result> {
  const begun = performance.now()
  const end = (outcome: Outcome, error?: Error): Result => ({
    name,
    outcome,
    milliseconds: Math.round(performance.now() - begun),
    ...(error && { why: error.message.split('\n').slice(0, 12).join('\n') }),
  })
  try {
    await run()
    return end('passed')
  } catch (error) {
    return end(error instanceof KernelError ? 'refused' : 'failed', error as Error)
  }
}
