/** Tests the lint rule on typed code: the expressions that it must report, and those that it must not report. */
import { fileURLToPath } from 'node:url'
import { Linter, RuleTester } from 'eslint'
import tseslint from 'typescript-eslint'
import { describe, expect, it } from 'vitest'
import plugin from 'arke/eslint'

const rule = plugin.rules['no-symbol-coercion']
const root = fileURLToPath(new URL('../..', import.meta.url))
const filename = fileURLToPath(new URL('./fixture.ts', import.meta.url))

RuleTester.describe = describe
RuleTester.it = it
const tester = new RuleTester({
  languageOptions: {
    parser: tseslint.parser,
    parserOptions: { projectService: true, tsconfigRootDir: root },
  },
})

/** Puts each statement on its own line of one kernel body, so that typed linting runs only once. */
const before = `
import { f32, flags, i32, kernel, scalar, tensor, type Index, type Scalar, type Value } from 'arke'
interface Options { readonly mask?: Value<'bool', 1>; readonly limit?: number }
class Own { readonly Symbolic = true }
export const k = kernel('k', { x: tensor(f32, 2), n: scalar(i32), ready: flags() }, (t, { x, n, ready }) => {
  const vector = t.arange(4)
  const shared = t.shared(f32, [4])
  const own = new Own()
  let count = 0
  let current: Scalar<'i32'> = n
  const use = (i: Index, j: number, options: Options): void => {
`
const after = `
  }
  use(count, 1, {})
  void [x, ready, vector, shared, own, current, count++, current = n]
})
`
const firstLine = before.split('\n').length
const codeOf = (statements: readonly string[]): string =>
  before + statements.map((one) => `void (() => { ${one} })`).join('\n') + after

const allowed = [
  't.if(n.gt(0), () => t.barrier())',
  'void n.gt(0).select(n, 1)',
  'if (options.mask) t.load(x.at([vector, 0]), { mask: options.mask })',
  'if (options.mask === undefined) t.barrier()',
  'if (options.mask != null) t.barrier()',
  'void (options.mask && t.load(x.at([vector, 0]), { mask: options.mask }))',
  'void (options.mask ?? vector.lt(2))',
  'if (!options.mask) t.barrier()',
  "if (typeof i === 'number' && i === 0) t.barrier()",
  'for (let step = 0; step < j; step++) t.barrier()',
  'while (count < 3) count += 1',
  'if (n.shape.length === 0) t.barrier()',
  "if (n.dtype === 'i32' || t.world > 1) t.barrier()",
  'const name = `${j}`; void (name + 1)',
  'switch (j) { case 1: t.barrier() }',
  'if (own) t.barrier(); void (own === own)',
]
const refused: readonly (readonly [statement: string, messageId: string])[] = [
  ['if (n) t.barrier()', 'condition'],
  ['if (n.gt(0)) t.barrier()', 'condition'],
  ['void (n.gt(0) ? 1 : 2)', 'condition'],
  ['void !n.gt(0)', 'condition'],
  ['void (n.gt(0) && count)', 'condition'],
  ['void (n.gt(0) || count)', 'condition'],
  ['while (vector) t.barrier()', 'condition'],
  ['do { t.barrier() } while (vector.lt(2))', 'condition'],
  ['for (; vector.lt(2); ) t.barrier()', 'condition'],
  ['if (i) t.barrier()', 'condition'],
  ['if (x) t.barrier()', 'condition'],
  ['if (ready) t.barrier()', 'condition'],
  ['if (shared) t.barrier()', 'condition'],
  ['void (n === current)', 'comparison'],
  ['void (n !== current)', 'comparison'],
  ['void ((n as unknown) == current)', 'comparison'],
  ['void (i === 0)', 'comparison'],
  ['void (n < current)', 'comparison'],
  ['void (n >= current)', 'comparison'],
  ['void (x.on(1) === x)', 'comparison'],
  ['switch (i) { case 1: t.barrier() }', 'comparison'],
  ["void (n + 'x')", 'arithmetic'],
  ['void ((n as any) + n)', 'arithmetic'],
  ['void (n - 1)', 'arithmetic'],
  ['current += 1', 'arithmetic'],
  ['void -n', 'arithmetic'],
  ['const generic = <V extends Value>(v: V) => { if (v) t.barrier() }; void generic', 'condition'],
  ['void (n.gt(0) && count > n.shape.length)', 'condition'],
]

tester.run('no-symbol-coercion', rule, {
  valid: [
    {
      name: 'values known when recording, and questions whether an option was given',
      code: codeOf(allowed),
      filename,
    },
  ],
  invalid: [
    {
      name: 'conditions, comparisons and arithmetic on symbols',
      code: codeOf(refused.map(([statement]) => statement)),
      filename,
      errors: refused.map(([, messageId], i) => ({ messageId, line: firstLine + i })),
    },
  ],
})

it('reports that it needs type information if there is none', () => {
  const linter = new Linter()
  const config: Linter.Config = {
    files: ['**/*.js'],
    plugins: { arke: plugin },
    rules: { 'arke/no-symbol-coercion': 'error' },
  }
  expect(() => linter.verify('if (x) y()', [config], 'a.js')).toThrow(
    /needs type information.*projectService/s,
  )
})
