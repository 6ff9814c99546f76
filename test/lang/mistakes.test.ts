/**
 * Tests how TypeScript reports typical mistakes of kernel authors: each mistake gives one error, whose words say what
 * to do. The file types.ts lists what the types accept and refuse; this file lists the words of the errors.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { compile, root } from '../docs/snippets.ts'

/** Each statement is on a line of its own, in a kernel with these names in scope. */
const before = `
import { bf16, ceilDiv, f16, f32, f8e4m3, flags, i32, i8, kernel, openWorld, scalar, tensor } from 'arke'
export const names = [ceilDiv, i8, openWorld]
const params = {
  x: tensor(f32, 1), a: tensor(bf16, 2), h: tensor(f16, 2), q: tensor(f8e4m3, 1), bytes: tensor(i8, 1), c: tensor(f32, 2), cube: tensor(bf16, 3),
  n: scalar(i32), ready: flags(), done: flags(1), grid: flags(2),
}
const world = await openWorld({ ranks: 2 })
const X = world.empty(f32, [4]), ready = world.flags(), done = world.flags([2])
const launched = kernel('launched', { x: tensor(f32, 1), n: scalar(i32), ready: flags() }, { BM: 4 }, (t) => t.barrier())
export const all = kernel('all', params, { BM: 4 }, (t, { x, a, h, q, bytes, c, cube, n, ready: one, done: set, grid }, meta) => {
const half = t.load(a.tile([0, 0], [4, 4]))
const row = t.load(x.tile([0], [4]))
const matrix = t.load(c.tile([0, 0], [4, 4]))
const mask = row.gt(0)
void [h, q, bytes, cube, n, one, set, grid, meta, half, matrix, mask, X, ready, done, launched]
`
const firstLine = before.split('\n').length
const after = `
})
`

const mistakes: readonly (readonly [what: string, statement: string, words: string])[] = [
  // Mistakes with arithmetic on dtypes without arithmetic.
  ['bf16 added', 'half.add(half)', 'bf16 has no arithmetic: cast first, x.to(f32)'],
  ['bf16 times a number', 'half.mul(2)', 'bf16 has no arithmetic: cast first, x.to(f32)'],
  ['bf16 in an exponential', 'half.exp2()', 'bf16 has no arithmetic: cast first, x.to(f32)'],
  ['bf16 reduced', 'half.sum(1)', 'bf16 has no arithmetic: cast first, x.to(f32)'],
  ['f16 compared', 't.load(h.at([0, 0])).lt(0)', 'f16 has no arithmetic: cast first, x.to(f32)'],
  ['a chain on fp8', 't.load(q.at([0])).mul(2).add(1)', 'f8e4m3 has no arithmetic: cast first, x.to(f32)'],
  ['i8 added', 't.load(bytes.at([0])).add(1)', 'i8 has no arithmetic: cast first, x.to(i32)'],
  ['a mask added', 'mask.add(1)', 'bool has no arithmetic: cast first, x.to(i32)'],
  ['a remainder of f32', 'row.mod(2)', 'f32 has no integer arithmetic: cast first, x.to(i32)'],
  ['bits of f32', 'row.and(1)', 'f32 has no bitwise operations: cast first, x.to(i32)'],
  ['an exponential of i32', 'n.exp2()', 'i32 has no float arithmetic: cast first, x.to(f32)'],
  [
    'bf16 computed, then stored',
    't.store(a.tile([0, 0], [4, 4]), half.add(1))',
    'bf16 has no arithmetic: cast first, x.to(f32)',
  ],
  // Mistakes with operands that do not match.
  ['bf16 added to f32', 'matrix.add(half)', 'bf16 does not match f32: cast first, y.to(f32)'],
  ['f32 added to i32', 'n.add(t.load(x.at([0])))', 'f32 does not match i32: cast first, y.to(i32)'],
  ['a vector added to a matrix', 'matrix.add(row)', 'rank 1 does not match rank 2: y.expand(0) makes a row'],
  [
    'f32 stored as bf16',
    't.store(a.tile([0, 0], [4, 4]), matrix)',
    'f32 does not match bf16: cast first, y.to(bf16)',
  ],
  ['a vector stored as a matrix', 't.store(c.tile([0, 0], [4, 4]), row)', 'rank 1 does not match rank 2'],
  ['choices of two dtypes', 'mask.select(row, half)', 'bf16 does not match f32: cast first, y.to(f32)'],
  ['a choice by a number', 'row.select(row, 0)', 'select needs a mask: compare first, x.gt(0)'],
  ['a tensor as an operand', 'row.add(x)', 'parameter of type \'number | Value<"f32", 0 | 1>\''],
  // Mistakes with JavaScript's operators
  ['n + 1', 'void (n + 1)', "Operator '+' cannot be applied to types 'Scalar<\"i32\">' and 'number'"],
  ['n < 1', 'void (n < 1)', "Operator '<' cannot be applied to types 'Scalar<\"i32\">' and 'number'"],
  // Mistakes with ranks and indices
  ['a tile of three axes', 'cube.tile([0, 0, 0], [1, 4, 4])', 'a tensor of 3 axes has no tiles'],
  ['too few indices', 'c.tile([0], [4, 4])', 'Source has 1 element(s) but target requires 2'],
  ['too few extents', 'c.tile([0, 0], [4])', 'Source has 1 element(s) but target requires 2'],
  ['a float as an index', 'x.at([row])', "is not assignable to type 'Index | Vector | Matrix'"],
  ['a symbol as an extent', 'x.tile([0], [n])', "Type 'Scalar<\"i32\">' is not assignable to type 'number'"],
  ['an index of a vector taken away', 'x.pick(0)', 'pick needs a tensor of at least two axes: x.at([i])'],
  ['a scalar expanded', 'n.expand(0)', 'only a vector can be expanded'],
  // Mistakes with memory and flags
  ['a tensor loaded', 't.load(x)', "is not assignable to parameter of type 'Ref<DType, number, Space>'"],
  ['a set of flags signalled', 't.signal(set)', "'Flags<1>' is not assignable to parameter of type 'Flag'"],
  ['too few indices of a flag', 't.wait(grid.at([0]))', 'Source has 1 element(s) but target requires 2'],
  ['a misspelt option', 't.wait(one, { lags: 1 })', "Did you mean to write 'lag'?"],
  ['a barrier without a phase', 't.wait(t.barriers(1).at(0))', 'Expected 2 arguments, but got 1'],
  // Mistakes with control flow
  [
    'a number carried',
    't.for(4, 0, (i, sum) => sum.add(i))',
    'only values can be carried; t.constant(dtype, x)',
  ],
  [
    'a record with a number',
    't.for(4, { n, sum: 0 }, (_, s) => ({ n: s.n, sum: s.sum.add(1) }))',
    'only values can be carried',
  ],
  [
    'another state returned',
    't.for(4, matrix, (_, s) => s.sum(1))',
    '\'Value<"f32", 1>\' is not assignable to type \'Value<"f32", 2>\'',
  ],
  ['a condition that is no mask', 't.if(n, () => t.barrier())', 'to parameter of type \'Scalar<"bool">\''],
  [
    'branches that differ',
    't.if(n.gt(0), () => row, () => matrix)',
    '\'Value<"f32", 2>\' is not assignable to type \'Value<"f32", 1>\'',
  ],
  // Mistakes with names
  ['a misspelt method', 'row.mull(2)', "Did you mean 'mul'?"],
  ['an unknown meta-parameter', 'void meta.BK', "Property 'BK' does not exist on type"],
  [
    'meta-parameters that are not declared',
    "void kernel('k', { x: tensor(f32, 1) }, (t, { x }, { BM }) => t.store(x.at([BM]), 1))",
    "Property 'BM' does not exist on type 'NoMetaParameters'",
  ],
  [
    'an unknown argument',
    "void kernel('k', params, (t, { xx }) => t.store(xx.at([0]), 1))",
    "Property 'xx' does not exist on type",
  ],
  [
    'a dtype for a parameter',
    "void kernel('k', { x: f32 }, (t, { x }) => t.store(x.at([0]), 1))",
    "Type 'string' is not assignable to type 'Param'",
  ],
  // Mistakes with launches
  [
    'a missing argument',
    'world.launch(launched, { x: X, n: 1 }, { grid: 1 })',
    "Property 'ready' is missing",
  ],
  [
    'a misspelt argument',
    'world.launch(launched, { x: X, n: 1, raedy: ready }, { grid: 1 })',
    "'raedy' does not exist",
  ],
  [
    'a tensor of another dtype',
    'world.launch(launched, { x: world.empty(bf16, [4]), n: 1, ready }, { grid: 1 })',
    '\'"bf16"\' is not assignable to type \'"f32"\'',
  ],
  ['no grid', 'world.launch(launched, { x: X, n: 1, ready }, {})', "Property 'grid' is missing"],
  [
    'an unknown meta-parameter at launch',
    'world.launch(launched, { x: X, n: 1, ready }, { grid: 1, meta: { BK: 1 } })',
    "'BK' does not exist",
  ],
]

mkdirSync(join(root, '.arke-cache'), { recursive: true })
const folder = mkdtempSync(join(root, '.arke-cache/mistakes-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('one mistake gives one error, which says what to do', () => {
  const path = join(folder, 'mistakes.ts')
  writeFileSync(path, before + mistakes.map(([, statement]) => statement).join('\n') + after)
  const errors = compile([path]).map((line) => /:(\d+): (.*)$/s.exec(line)!)
  const errorsAt = (line: number): string[] =>
    errors.filter(([, at]) => Number(at) === line).map(([, , text]) => text)

  it('and nothing else is wrong', () => {
    const lines = errors.map(([, line]) => Number(line) - firstLine)
    expect(lines.filter((i) => !(i in mistakes))).toEqual([])
  })
  it.each(mistakes.map(([what, , words], i) => ({ what, words, line: firstLine + i })))(
    '$what',
    ({ words, line }) => {
      expect(errorsAt(line)).toEqual([expect.stringContaining(words)])
    },
  )
})
