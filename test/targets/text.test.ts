/**
 * Tests that no file which generates code searches a text: all decisions come from data, and text is written last. The
 * test applies the linter's rules to every file of the folders that generate code, and no comment switches the rules
 * off.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ESLint, Linter } from 'eslint'
import tseslint from 'typescript-eslint'
import { describe, expect, it } from 'vitest'
import { long } from '../long.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The file that makes C++ names from names that authors chose, which are not emitted text. */
const makesNames = 'src/targets/cuda/emit/names.ts'

const filesOf = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile() && one.name.endsWith('.ts') && !one.name.endsWith('.test.ts'))
    .map((one) => relative(root, join(one.parentPath, one.name)))

const files = readdirSync(join(root, 'src/targets'))
  .flatMap((target) => ['emit', 'lower'].map((name) => `src/targets/${target}/${name}`))
  .flatMap((folder) => {
    try {
      return filesOf(folder)
    } catch {
      return [] // the target has no folder of this name
    }
  })
  .concat([
    'src/targets/native/expression.ts',
    'src/targets/wasm/arithmetic.ts',
    'src/targets/cuda/prelude.ts',
  ])
  .filter((file) => file !== makesNames)

const searches = [
  "text.includes('__syncthreads')",
  "text.indexOf('bar.sync') >= 0",
  "text.startsWith('if')",
  'text.match(pattern)',
  'pattern.test(text)',
  '/^[a-z]+$/.test(text)',
  'new RegExp(text)',
  "text.split('\\n')",
  "one.text === 'true'",
  'text === array',
  'array === names[i]',
  'names.includes(array)',
  'text.length <= 48',
  'expression.text.length',
  "kind.slice('columns of '.length)",
  'undefined as `columns of ${number}` | undefined',
]

/** Only the files that generate a kernel's code may ask other code for its text. */
const writers = ['src/targets/cuda/emit/code.ts', 'src/targets/cuda/emit/emit.ts']
const askedForText = ['expression.asText', '(({ asText }) => asText)(expression)']

const linter = new Linter({ configType: 'flat' })
const lint = (text: string, rule: Linter.RuleEntry): Linter.LintMessage[] =>
  linter.verify(
    text,
    {
      files: ['**/*.ts'],
      languageOptions: { parser: tseslint.parser },
      linterOptions: { noInlineConfig: true },
      rules: { 'no-restricted-syntax': rule },
    },
    { filename: 'one.ts' },
  )

describe('files that make code', async () => {
  const eslint = new ESLint({ cwd: root })
  const ruleOf = async (file: string): Promise<Linter.RuleEntry> => {
    const config = (await eslint.calculateConfigForFile(join(root, file))) as Linter.Config
    return config.rules!['no-restricted-syntax'] as Linter.RuleEntry
  }
  const rules = new Map<string, Linter.RuleEntry>()
  for (const file of files) rules.set(file, await ruleOf(file))

  it('are in the folders that the test reads', () => {
    expect(files.length).toBeGreaterThan(80)
    for (const folder of ['src/targets/cuda/emit/render/', 'src/targets/cpu/lower/dot/'])
      expect(files.some((file) => file.startsWith(folder))).toBe(true)
  })

  it.each(searches)('may not contain %s', (search) => {
    const different = new Set([...rules.values()].map((rule) => JSON.stringify(rule)))
    for (const rule of different)
      expect(lint(`export const found = ${search}\n`, JSON.parse(rule))).not.toEqual([])
  })

  it.each(askedForText)('may not contain %s, unless they write the kernel', (search) => {
    for (const [file, rule] of rules)
      if (!writers.includes(file)) expect(lint(`export const found = ${search}\n`, rule)).not.toEqual([])
  })

  // `npm run lint` has the same rules, but comments can switch them off.
  it('do not search texts', long, () => {
    const found = files.flatMap((file) =>
      lint(readFileSync(join(root, file), 'utf8'), rules.get(file)!).map(
        ({ line, message }) => `${file}:${line}: ${message}`,
      ),
    )
    expect(found).toEqual([])
  })
})
