/**
 * Tests control flow, calls, and locals that share slots: hand-written programs, and random programs compared with an
 * interpreter.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { CodeFunction, Expression, Local, Statement } from '../../../src/targets/cpu/code.ts'
import * as build from '../../../src/targets/cpu/build.ts'
import type { Writer } from '../../../src/targets/cpu/build.ts'
import { assignSlots } from '../../../src/targets/wasm/locals.ts'
import { compile } from './harness.ts'
import type { Run } from './harness.ts'
import { itForRuns } from '../../long.ts'

const of = (parameters: string[], write: (writer: Writer, ...locals: Local[]) => void): CodeFunction =>
  build.codeFunction(
    'program',
    parameters.map((name) => [name, 'i32']),
    write,
    { result: 'i32' },
  )
const program = (parameters: string[], write: (writer: Writer, ...locals: Local[]) => void): Run =>
  compile(of(parameters, write))

describe('if', () => {
  test('runs one of its branches', () => {
    const run = program(['x'], (writer, x) => {
      const y = writer.let('y', build.i32(0))
      writer.if(
        build.compare('lt', x, build.i32(5)),
        () => writer.set(y, build.i32(1)),
        () => writer.set(y, build.i32(2)),
      )
      writer.return(y)
    })
    expect([run(4), run(5)]).toEqual([1, 2])
  })

  test('may have an empty first branch, or two empty branches', () => {
    const run = program(['x'], (writer, x) => {
      const y = writer.let('y', build.i32(0))
      writer.if(
        build.unary('eqz', x),
        () => undefined,
        () => writer.set(y, build.i32(2)),
      )
      writer.if(
        build.compare('gt', x, build.i32(5)),
        () => undefined,
        () => writer.set(y, build.add(y, build.i32(10))),
      )
      writer.if(x, () => undefined)
      writer.return(y)
    })
    expect([run(0), run(1), run(6)]).toEqual([10, 12, 2])
  })
})

describe('for', () => {
  const visited = (from: number, to: number, step: number): number => {
    let sum = 0
    for (let i = from; i < to; i += step) sum = (Math.imul(sum, 31) + i + 1) | 0
    return sum
  }
  const body = (writer: Writer, sum: Local, i: Local): void =>
    writer.set(sum, build.add(build.add(build.mul(sum, build.i32(31)), i), build.i32(1)))

  test('counts from `from` up to `to` by `step`, possibly without any iteration', () => {
    for (const step of [1, 2, 7]) {
      const run = program(['from', 'to'], (writer, from, to) => {
        const sum = writer.let('sum', build.i32(0))
        writer.for('i', from, to, step, (i) => body(writer, sum, i))
        writer.return(sum)
      })
      for (const [from, to] of [
        [0, 10],
        [0, 0],
        [3, 3],
        [5, 2],
        [-5, 9],
        [0, 1],
      ])
        expect(run(from, to)).toBe(visited(from, to, step))
    }
  })

  test.each([
    [0, 10],
    [4, 4],
    [6, 2],
  ])('constants from %i to %i', (from, to) => {
    const run = program([], (writer) => {
      const sum = writer.let('sum', build.i32(0))
      writer.for('i', from, to, 3, (i) => body(writer, sum, i))
      writer.return(sum)
    })
    expect(run()).toBe(visited(from, to, 3))
  })

  test('evaluates its bound once, even if the body changes it', () => {
    const run = program(['n'], (writer, n) => {
      const count = writer.let('count', build.i32(0))
      writer.for('i', 0, n, 1, () => {
        writer.set(n, build.i32(0))
        writer.set(count, build.add(count, build.i32(1)))
      })
      writer.for('i', 0, build.add(count, build.i32(2)), 1, () =>
        writer.set(count, build.add(count, build.i32(1))),
      )
      writer.return(count)
    })
    expect(run(5)).toBe(12)
  })
})

describe('leaving loops', () => {
  test('break leaves the innermost loop, from any depth of nested ifs', () => {
    const run = program(['n'], (writer, n) => {
      const count = writer.let('count', build.i32(0))
      writer.for('i', 0, 10, 1, (i) => {
        writer.for('j', 0, n, 1, (j) => {
          writer.if(build.compare('ge', j, i), () => {
            writer.if(build.compare('ge', j, build.i32(2)), () => writer.break())
          })
          writer.set(count, build.add(count, build.i32(1)))
        })
        writer.if(build.compare('eq', i, build.i32(7)), () => writer.break())
      })
      writer.return(count)
    })
    let expected = 0
    for (let i = 0; i <= 7; i++) {
      for (let j = 0; j < 6; j++) {
        if (j >= i && j >= 2) break
        expected++
      }
    }
    expect(run(6)).toBe(expected)
  })

  test('loop runs until it is left, by break or by return', () => {
    const run = program(['x'], (writer, x) => {
      const n = writer.let('n', build.i32(0))
      writer.loop(() => {
        writer.loop(() => {
          writer.if(build.compare('gt', n, build.i32(100)), () => writer.return(build.i32(-1)))
          writer.set(n, build.add(n, x))
          writer.if(build.compare('gt', n, build.i32(50)), () => writer.break())
        })
        writer.if(build.and(n, build.i32(1)), () => writer.return(n))
      })
    })
    expect([run(3), run(4), run(7)]).toEqual([51, -1, 63])
  })

  test('a break outside loops is rejected', () => {
    expect(() => program([], (writer) => writer.break())).toThrow('break outside')
  })
})

describe('calls', () => {
  test('pass arguments and results, and may ignore a result', () => {
    const scale = build.codeFunction(
      'scale',
      [
        ['x', 'i32'],
        ['by', 'f32'],
      ],
      (writer, x, by) =>
        writer.return(build.convert('truncate', 'i32', build.mul(build.convert('float', 'f32', x), by))),
      { result: 'i32', hot: true },
    )
    const nothing = build.codeFunction('nothing', [], () => undefined)
    const run = program(['x'], (writer, x) => {
      const y = writer.call(scale, x, build.f32(2.5)) as Local
      writer.call(nothing)
      writer.emit({ kind: 'call', function: scale, arguments: [build.use(x), build.f32(1)] })
      writer.return(build.add(y, writer.call(scale, y, build.f32(10)) as Local))
    })
    expect(run(4)).toBe(110)
  })

  test('now reads the clock that the worker provides', () => {
    const code = build.codeFunction(
      'time',
      [],
      (writer) => writer.return(build.convert('truncate', 'i32', { kind: 'now', type: 'f64' })),
      { result: 'i32' },
    )
    expect(compile(code, undefined, () => 1234.5)()).toBe(1234)
  })
})

describe('locals', () => {
  const slotsOf = (code: CodeFunction): string[] => assignSlots(code).names

  test('share a slot if their live ranges do not overlap', () => {
    const code = of(['x'], (writer, x) => {
      const a = writer.let('a', build.add(x, build.i32(1)))
      const b = writer.let('b', build.add(a, build.i32(1)))
      const c = writer.let('c', build.add(b, build.i32(1)))
      writer.return(c)
    })
    expect(slotsOf(code)).toEqual(['x', 'a|c', 'b'])
  })

  test('keep their slot through a loop that reads them', () => {
    const code = of(['x'], (writer, x) => {
      const a = writer.let('a', build.add(x, build.i32(1)))
      writer.for('i', 0, x, 1, () => {
        const b = writer.let('b', build.add(a, build.i32(1)))
        writer.let('c', build.add(b, build.i32(1)))
      })
      writer.return(x)
    })
    expect(slotsOf(code)).toEqual(['x', 'a', 'i', 'b', 'c'])
  })

  test('whose value comes from an earlier iteration do not share a slot', () => {
    const code = of(['x'], (writer, x) => {
      const before: Local = { type: 'i32', name: 'before' }
      writer.for('i', 0, x, 1, (i) => {
        writer.if(i, () => writer.let('seen', before))
        writer.let('other', build.i32(5))
        writer.set(before, i)
      })
      writer.return(before)
    })
    const { slot, names } = assignSlots(code)
    expect(names.filter((name) => name.includes('before'))).toEqual(['before'])
    expect([...slot.values()].filter((index) => names[index] === 'before')).toHaveLength(1)
  })

  test('whose value comes from an earlier iteration keep it while other locals are used', () => {
    const run = program(['n'], (writer, n) => {
      const kept: Local = { type: 'i32', name: 'kept' }
      const sum = writer.let('sum', build.i32(0))
      writer.for('i', 0, n, 1, (i) => {
        const own = writer.let('own', build.mul(i, build.i32(100)))
        writer.set(sum, build.add(sum, own))
        writer.if(build.unary('eqz', i), () => writer.set(kept, build.i32(7)))
        writer.set(sum, build.add(sum, kept))
      })
      writer.return(sum)
    })
    expect(run(4)).toBe(600 + 4 * 7)
  })

  test('a local that is never set is rejected by name', () => {
    const stray: Local = { type: 'i32', name: 'stray' }
    expect(() => program([], (writer) => writer.return(stray))).toThrow(
      'program: local stray is read, but nothing sets it',
    )
  })
})

/**
 * Random statements over a few locals, with an interpreter written here. Each program first sets every local variable.
 */
describe('random programs', () => {
  const locals = ['p', 'q', 'r', 's', 't'].map((name): Local => ({ type: 'i32', name }))
  const local = fc.constantFrom(...locals)
  const { statement } = fc.letrec<{ expression: Expression; statement: Statement[] }>((tie) => ({
    expression: fc.oneof(
      { depthSize: 'small' },
      local.map(build.use),
      fc.integer({ min: -3, max: 5 }).map(build.i32),
      fc
        .tuple(
          fc.constantFrom('add', 'sub', 'mul', 'min', 'div', 'rem', 'xor'),
          tie('expression'),
          tie('expression'),
        )
        .map(([name, a, b]): Expression => ({ kind: 'binary', type: 'i32', name: name as 'add', a, b })),
      fc.tuple(tie('expression'), tie('expression')).map(([a, b]) => build.compare('lt', a, b)),
      fc
        .tuple(tie('expression'), tie('expression'), tie('expression'))
        .map(([c, a, b]) => build.select(c, a, b)),
    ),
    statement: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc
        .tuple(local, tie('expression'))
        .map(([to, value]): Statement[] => [{ kind: 'set', local: to, value }]),
      // A new local variable that is read once. Local variables that are not used at the same time share a slot.
      fc.tuple(tie('expression'), local, tie('expression')).map(([value, to, more]): Statement[] => {
        const own: Local = { type: 'i32', name: 'own' }
        return [
          { kind: 'set', local: own, value },
          { kind: 'set', local: to, value: build.add(own, more) },
        ]
      }),
      fc
        .tuple(tie('expression'), tie('statement'), tie('statement'))
        .map(([condition, then, otherwise]): Statement[] => [{ kind: 'if', condition, then, otherwise }]),
      fc
        .tuple(
          fc.integer({ min: -1, max: 2 }),
          fc.integer({ min: 0, max: 4 }),
          tie('statement'),
          tie('expression'),
          local,
        )
        .map(([from, to, body, last, into]): Statement[] => {
          const index: Local = { type: 'i32', name: 'index' }
          const end: Statement = { kind: 'set', local: into, value: build.add(index, last) }
          return [
            { kind: 'for', index, from: build.i32(from), to: build.i32(to), step: 1, body: [...body, end] },
          ]
        }),
      fc.tuple(tie('expression'), tie('statement')).map(([condition, body]): Statement[] => {
        const leave: Statement = { kind: 'if', condition, then: [{ kind: 'break' }], otherwise: [] }
        return [{ kind: 'loop', body: [leave, ...body, { kind: 'break' }] }]
      }),
      fc.tuple(tie('statement'), tie('statement')).map(([a, b]) => [...a, ...b]),
    ) as fc.Arbitrary<Statement[]>,
  }))

  function evaluate(value: Expression, values: Map<Local, number>): number {
    switch (value.kind) {
      case 'local':
        return values.get(value.local) as number
      case 'const':
        return value.value
      case 'compare':
        return evaluate(value.a, values) < evaluate(value.b, values) ? 1 : 0
      case 'select':
        return evaluate(evaluate(value.condition, values) ? value.a : value.b, values)
      case 'binary': {
        const [a, b] = [evaluate(value.a, values), evaluate(value.b, values)]
        if (value.name === 'add') return (a + b) | 0
        if (value.name === 'sub') return (a - b) | 0
        if (value.name === 'mul') return Math.imul(a, b)
        if (value.name === 'min') return Math.min(a, b)
        if (value.name === 'xor') return a ^ b
        if (b === 0) return 0
        return value.name === 'div' ? (a / b) | 0 : (a % b) | 0
      }
      default:
        throw new Error(value.kind)
    }
  }

  /** Returns true if a break is pending. */
  function interpret(statements: readonly Statement[], values: Map<Local, number>): boolean {
    for (const one of statements) {
      if (one.kind === 'break') return true
      if (one.kind === 'set') values.set(one.local, evaluate(one.value, values))
      if (one.kind === 'if' && interpret(evaluate(one.condition, values) ? one.then : one.otherwise, values))
        return true
      if (one.kind === 'for')
        for (let i = evaluate(one.from, values), to = evaluate(one.to, values); i < to; i++) {
          values.set(one.index, i)
          if (interpret(one.body, values)) break
        }
      if (one.kind === 'loop') while (!interpret(one.body, values));
    }
    return false
  }

  itForRuns('return the same as the interpreter', 1500, (numRuns) => {
    fc.assert(
      fc.property(fc.array(statement, { minLength: 1, maxLength: 6 }), (parts) => {
        const start = locals.map((to, i): Statement => ({ kind: 'set', local: to, value: build.i32(i + 1) }))
        const body = [...start, ...parts.flat()]
        const values = new Map<Local, number>()
        interpret(body, values)
        const hash = locals.reduce<Expression>(
          (sum, one) => build.add(build.mul(sum, build.i32(31)), one),
          build.i32(7),
        )
        const run = compile({
          name: 'random',
          parameters: [],
          result: 'i32',
          body: [...body, { kind: 'return', value: hash }],
        })
        expect(run()).toBe(
          locals.reduce((sum, one) => (Math.imul(sum, 31) + (values.get(one) as number)) | 0, 7),
        )
      }),
      { seed: 8, numRuns },
    )
  })
})
