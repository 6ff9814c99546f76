/** Compares random programs, represented as data and executed here, with their IR before and after every pass. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { i32, kernel, scalar, tensor, type Arguments, type Program, type Scalar } from 'arke'
import type { KernelIR } from '../../src/ir/node.ts'
import { walk } from '../../src/ir/node.ts'
import { removeDead } from '../../src/ir/passes/dead.ts'
import { fold } from '../../src/ir/passes/fold.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { verify } from '../../src/ir/verify.ts'
import { interpret } from './interpret.ts'

const params = { out: tensor(i32, 1), x: tensor(i32, 1), n: scalar(i32) }
type Args = Arguments<typeof params>
const recorded = (body: (t: Program, args: Args) => void): KernelIR =>
  kernel('k', params, body).record({ world: 2 })
const storedValues = (ir: KernelIR): unknown[] =>
  [...walk(ir.body)].filter((node) => node.op === 'store').map((node) => node.inputs[1].attributes.value)

type Expression =
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'variable'; readonly index: number }
  | { readonly kind: 'load'; readonly at: Expression }
  | { readonly kind: 'binary'; readonly op: BinaryName; readonly a: Expression; readonly b: Expression }
  | { readonly kind: 'divide'; readonly op: 'div' | 'mod'; readonly a: Expression; readonly by: number }
  | { readonly kind: 'select'; readonly test: Test; readonly a: Expression; readonly b: Expression }
interface Test {
  readonly op: 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge'
  readonly a: Expression
  readonly b: Expression
}
type Statement =
  | { readonly kind: 'let'; readonly value: Expression }
  | { readonly kind: 'store'; readonly value: Expression }
  | {
      readonly kind: 'for'
      readonly count: Expression
      readonly init: Expression
      readonly body: Statement[]
      readonly next: Expression
    }
  | {
      readonly kind: 'if'
      readonly test: Test
      readonly yes: Statement[]
      readonly no: Statement[]
      readonly values: [Expression, Expression]
    }

const binaries = {
  add: (a: number, b: number) => (a + b) | 0,
  sub: (a: number, b: number) => (a - b) | 0,
  mul: (a: number, b: number) => Math.imul(a, b),
  min: (a: number, b: number) => Math.min(a, b),
  max: (a: number, b: number) => Math.max(a, b),
  and: (a: number, b: number) => a & b,
  or: (a: number, b: number) => a | b,
  xor: (a: number, b: number) => a ^ b,
} as const
type BinaryName = keyof typeof binaries
const tests = {
  eq: (a: number, b: number) => a === b,
  ne: (a: number, b: number) => a !== b,
  lt: (a: number, b: number) => a < b,
  le: (a: number, b: number) => a <= b,
  gt: (a: number, b: number) => a > b,
  ge: (a: number, b: number) => a >= b,
} as const

const small = fc.constantFrom(-3, -1, 0, 0, 1, 1, 2, 7, 2 ** 31 - 1, -(2 ** 31))
const { expression, statement } = fc.letrec<{ expression: Expression; test: Test; statement: Statement }>(
  (tie) => ({
    expression: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.record({ kind: fc.constant('constant' as const), value: small }),
      fc.record({ kind: fc.constant('variable' as const), index: fc.nat(20) }),
      fc.record({ kind: fc.constant('load' as const), at: tie('expression') }),
      fc.record({
        kind: fc.constant('binary' as const),
        op: fc.constantFrom(...(Object.keys(binaries) as BinaryName[])),
        a: tie('expression'),
        b: tie('expression'),
      }),
      fc.record({
        kind: fc.constant('divide' as const),
        op: fc.constantFrom('div' as const, 'mod' as const),
        a: tie('expression'),
        by: fc.constantFrom(1, -1, 2, 3, -7),
      }),
      fc.record({
        kind: fc.constant('select' as const),
        test: tie('test'),
        a: tie('expression'),
        b: tie('expression'),
      }),
    ),
    test: fc.record({
      op: fc.constantFrom(...(Object.keys(tests) as Test['op'][])),
      a: tie('expression'),
      b: tie('expression'),
    }),
    statement: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.record({ kind: fc.constant('store' as const), value: tie('expression') }),
      fc.record({ kind: fc.constant('let' as const), value: tie('expression') }),
      fc.record({
        kind: fc.constant('for' as const),
        count: tie('expression'),
        init: tie('expression'),
        body: fc.array(tie('statement'), { maxLength: 3 }),
        next: tie('expression'),
      }),
      fc.record({
        kind: fc.constant('if' as const),
        test: tie('test'),
        yes: fc.array(tie('statement'), { maxLength: 3 }),
        no: fc.array(tie('statement'), { maxLength: 3 }),
        values: fc.tuple(tie('expression'), tie('expression')),
      }),
    ),
  }),
)

const table = [5, -2, 0, 11, 2 ** 30, -9, 1, 3]

/** Executes a random program and returns the values that it stores, in order. */
function execute(program: readonly Statement[], n: number, rank: number): number[] {
  const stored: number[] = []
  const value = (e: Expression, env: readonly number[]): number => {
    switch (e.kind) {
      case 'constant':
        return e.value
      case 'variable':
        return env[e.index % env.length]
      case 'load':
        return table[value(e.at, env) & 7]
      case 'binary':
        return binaries[e.op](value(e.a, env), value(e.b, env))
      case 'divide': {
        const a = value(e.a, env)
        return (e.op === 'div' ? Math.trunc(a / e.by) : a % e.by) | 0
      }
      case 'select':
        return tests[e.test.op](value(e.test.a, env), value(e.test.b, env))
          ? value(e.a, env)
          : value(e.b, env)
    }
  }
  const run = (statements: readonly Statement[], outer: readonly number[]): number[] => {
    const env = [...outer]
    for (const s of statements)
      switch (s.kind) {
        case 'let':
          env.push(value(s.value, env))
          break
        case 'store':
          stored.push(value(s.value, env))
          break
        case 'for': {
          const count = value(s.count, env) & 3
          let state = value(s.init, env)
          for (let i = 0; i < count; i++) state = value(s.next, run(s.body, [...env, i, state]))
          env.push(state)
          break
        }
        case 'if': {
          const isTrue = tests[s.test.op](value(s.test.a, env), value(s.test.b, env))
          const inner = run(isTrue ? s.yes : s.no, env)
          env.push(value(s.values[isTrue ? 0 : 1], inner))
        }
      }
    return env
  }
  run(program, [n, rank])
  return stored
}

/** The random program, written in the kernel language. */
function write(program: readonly Statement[], t: Program, { x, out, n }: Args): void {
  type S = Scalar<'i32'>
  const value = (e: Expression, env: readonly S[]): S => {
    switch (e.kind) {
      case 'constant':
        return t.constant(i32, e.value)
      case 'variable':
        return env[e.index % env.length]
      case 'load':
        return t.load(x.at([value(e.at, env).and(7)]))
      case 'binary':
        return value(e.a, env)[e.op](value(e.b, env))
      case 'divide':
        return value(e.a, env)[e.op](e.by)
      case 'select':
        return condition(e.test, env).select(value(e.a, env), value(e.b, env))
    }
  }
  const condition = (test: Test, env: readonly S[]): Scalar<'bool'> =>
    value(test.a, env)[test.op](value(test.b, env))
  const run = (statements: readonly Statement[], outer: readonly S[]): S[] => {
    const env = [...outer]
    for (const s of statements)
      switch (s.kind) {
        case 'let':
          env.push(value(s.value, env))
          break
        case 'store':
          t.store(out.at([0]), value(s.value, env))
          break
        case 'for':
          env.push(
            t.for(value(s.count, env).and(3), value(s.init, env), (i, state) =>
              value(s.next, run(s.body, [...env, i, state])),
            ),
          )
          break
        case 'if':
          env.push(
            t.if(
              condition(s.test, env),
              () => value(s.values[0], run(s.yes, env)),
              () => value(s.values[1], run(s.no, env)),
            ),
          )
      }
    return env
  }
  run(program, [n, t.rank])
}

describe('programs at random', () => {
  it('store the same before and after every pass', () => {
    fc.assert(
      fc.property(
        fc.array(statement, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: -4, max: 9 }),
        (program, n) => {
          const ir = recorded((t, args) => write(program, t, args))
          const expected = execute(program, n, 0).map((value) => `out[0] = ${value}`)
          const stages = {
            recorded: ir,
            folded: fold(ir),
            live: removeDead(ir),
            both: removeDead(fold(ir)),
            lowered: lower(ir),
          }
          for (const [stage, form] of Object.entries(stages)) {
            verify(form)
            const launch = { tensors: { x: memory(table), out: memory([0]) }, scalars: { n } }
            expect({ stage, stored: interpret(form, launch) }).toEqual({ stage, stored: expected })
          }
        },
      ),
      { numRuns: 100 },
    )
  })
  it('are folded completely when nothing varies', () => {
    const constants = (e: Expression): boolean =>
      e.kind === 'constant' ||
      (e.kind === 'binary' && constants(e.a) && constants(e.b)) ||
      (e.kind === 'divide' && constants(e.a)) ||
      (e.kind === 'select' && [e.a, e.b, e.test.a, e.test.b].every(constants))
    fc.assert(
      fc.property(expression.filter(constants), (value) => {
        const program: Statement[] = [{ kind: 'store', value }]
        const ir = removeDead(fold(recorded((t, args) => write(program, t, args))))
        expect(storedValues(ir)).toEqual(execute(program, 0, 0))
      }),
      { numRuns: 100 },
    )
  })
})

const memory = (data: readonly number[]) => ({ data: [...data], extents: [data.length] })
