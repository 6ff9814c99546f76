/**
 * Tests that the types of op tables require an entry for every op. If an op is added to the records, every table for
 * its kind fails to compile, and the error names the op. Facts that follow from the op's record need no entry.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { itForSome } from '../long.ts'

const root = resolve(import.meta.dirname, '../..')

interface Added {
  readonly op: string
  /** The file in src/ir/ops, its table, and the record that is added to the table. */
  readonly to: readonly [file: string, table: string]
  readonly record: string
  /** The tables in which the new op needs an entry. */
  readonly tables: readonly string[]
}

const [values, functions, axes, views, memory, sync, control] = [
  ['values.ts', 'valueOps'],
  ['functions.ts', 'functionOps'],
  ['axes.ts', 'axisOps'],
  ['views.ts', 'viewOps'],
  ['memory.ts', 'memoryOps'],
  ['sync.ts', 'syncOps'],
  ['control.ts', 'controlOps'],
] as const

const [checker, cpu, traffic, gpu, layouts, scratch, order, threads, courier] = [
  'src/targets/check/ops.ts',
  'src/targets/cpu/lower/nodes.ts',
  'src/ir/traffic/execute.ts',
  'src/targets/cuda/emit/render/index.ts',
  'src/targets/cuda/emit/assign.ts',
  'src/targets/cuda/emit/scratch.ts',
  'src/targets/cuda/emit/order.ts',
  'src/targets/cuda/emit/groups.ts',
  'src/ir/passes/courier.ts',
]

const added: readonly Added[] = [
  {
    op: 'cube',
    to: functions,
    record: `unary('x * x * x', floats, float((x) => x * x * x))`,
    tables: ['src/targets/cpu/lower/elements.ts', 'src/targets/cuda/emit/spell.ts'],
  },
  {
    op: 'sinh',
    to: functions,
    record: `approximate('hyperbolic sine', Math.sinh, 20)`,
    tables: [
      'src/targets/check/maximumErrors.ts',
      'src/targets/cpu/maximumErrors.ts',
      'src/targets/cuda/maximumErrors.ts',
      'src/targets/cpu/lower/elements.ts',
      'src/targets/cuda/emit/spell.ts',
    ],
  },
  {
    op: 'reduce.product',
    to: axes,
    record: `reduction('product along an axis', 1, (a, b) => a * b)`,
    tables: ['src/targets/cpu/lower/fragments.ts', gpu],
  },
  {
    op: 'rotate',
    to: axes,
    record: `{ ...gathered, operations: 0, summary: 'the first element last', infer: ({ inputs }) => inputs[0].type }`,
    tables: ['src/targets/cpu/lower/gathered.ts', 'src/targets/cuda/emit/render/gathered.ts'],
  },
  {
    op: 'cluster',
    to: values,
    record: `{ ...id, varies: 'by program', summary: 'the number of its cluster' }`,
    tables: [checker, cpu, traffic, 'src/targets/cpu/lower/scalars.ts', gpu, layouts, scratch],
  },
  {
    op: 'repeat',
    to: values,
    record: `{ ...free, elements: 'stretched', numbers: [0], summary: 'twice', infer: ({ inputs }) => inputs[0].type }`,
    tables: ['src/targets/cpu/lower/nest.ts', gpu, layouts, scratch],
  },
  {
    op: 'reverse',
    to: values,
    record: `{ ...free, elements: 'moved', numbers: [0], summary: 'backwards', infer: ({ inputs }) => inputs[0].type }`,
    tables: [checker, cpu, traffic, 'src/targets/cpu/lower/nest.ts', gpu, layouts, scratch],
  },
  {
    op: 'scan',
    to: values,
    record: `{ ...free, elements: 'other', summary: 'sums so far', infer: ({ inputs }) => inputs[0].type }`,
    tables: [checker, cpu, traffic, gpu, layouts, scratch],
  },
  {
    op: 'window',
    to: views,
    record: `{ ...view, summary: 'another part', infer: ({ inputs }) => inputs[0].type }`,
    tables: [checker, cpu, traffic, 'src/targets/cpu/lower/views.ts', gpu],
  },
  {
    op: 'atomic.nand',
    to: memory,
    record: `atomic('neither', bitwiseDtypes, { commutes: false, change: () => (_, value) => value })`,
    tables: ['src/targets/cpu/lower/atomics.ts', gpu],
  },
  {
    op: 'scratch',
    to: memory,
    record: `{ ...yieldsNothing, ...noMemory, ...straight, effect: 'declare', place: 'top', ahead: 'both',
      summary: 'memory of a cluster', infer: () => voidType }`,
    tables: [checker, cpu, 'src/targets/cpu/lower/lower.ts', 'src/targets/cpu/lower/views.ts', gpu],
  },
  {
    op: 'fetch',
    to: memory,
    record: `{ ...yieldsNothing, ...straight, effect: 'write', ahead: 'consumer', completes: 'at barrier',
      accesses: [{ at: 0, level: 'global', reads: true, writes: false }, { at: 1, level: 'shared', reads: false, writes: true }],
      order: 'none', scope: 'none', summary: 'another copy', infer: () => voidType }`,
    tables: [checker, cpu, gpu],
  },
  {
    op: 'ping',
    to: sync,
    record: `{ ...synchronises, order: 'both', scope: 'rank', summary: 'tells everybody', infer: () => voidType }`,
    tables: [checker, cpu, gpu, threads, courier],
  },
  {
    op: 'forever',
    to: control,
    record: `{ ...control, flow: 'repeats', state: 'carried', summary: 'without end', infer: () => voidType }`,
    tables: [
      cpu,
      traffic,
      'src/ir/print.ts',
      'src/targets/check/compiler.ts',
      gpu,
      order,
      courier,
      'src/targets/cuda/emit/ranges.ts',
    ],
  },
]

const files = [...new Set(added.flatMap(({ tables }) => tables))]
const { config } = ts.readConfigFile(resolve(root, 'tsconfig.json'), ts.sys.readFile)
const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, root)
const parsed = new Map<string, ts.SourceFile | undefined>()

/** The compiler errors in these files if the file at `path` has another content than on disk. */
function errorsIn(asked: readonly string[], path: string, text: string): Map<string, string[]> {
  const host = ts.createCompilerHost(options)
  const parse = host.getSourceFile.bind(host)
  host.getSourceFile = (name, version) => {
    if (resolve(name) === path) return ts.createSourceFile(name, text, version)
    if (!parsed.has(name)) parsed.set(name, parse(name, version))
    return parsed.get(name)
  }
  const program = ts.createProgram(
    files.map((file) => resolve(root, file)),
    options,
    host,
  )
  return new Map(
    asked.map((file) => [
      file,
      program
        .getSemanticDiagnostics(program.getSourceFile(resolve(root, file)))
        .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    ]),
  )
}

/** The keys of `Facts`, from its declaration. */
function factNames(): string[] {
  const path = resolve(root, 'src/ir/ops/op.ts')
  const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest)
  const facts = file.statements.find((one) => ts.isInterfaceDeclaration(one) && one.name.text === 'Facts')
  return (facts as ts.InterfaceDeclaration).members.map((one) => (one.name as ts.Identifier).text)
}

it(
  'a record without one of the facts does not compile, and the error names the fact',
  { timeout: 60_000 },
  () => {
    const path = 'src/ir/ops/sync.ts'
    const facts = factNames()
    expect(facts).toContain('order')
    const without = facts.map(
      (fact) =>
        `{ const { ${fact}: _, ...others } = syncOps.signal; others satisfies Op; others satisfies Omit<Op, '${fact}'> }`,
    )
    const text = `${readFileSync(resolve(root, path), 'utf8')}\n${without.join('\n')}\n`
    const errors = errorsIn([path], resolve(root, path), text).get(path)!
    // Each missing fact gives one compile error, for `satisfies Op`; all other facts are complete.
    expect(errors.map((error) => /Property '(\w+)' is missing/.exec(error)?.[1])).toEqual(facts)
  },
)

describe('a table of ops does not compile without', () => {
  // Each op is compiled separately, which takes a second or more.
  itForSome(added, ({ op }) => op === 'reduce.product')(
    '$op',
    ({ op, to: [file, table], record, tables }) => {
      const path = `src/ir/ops/${file}`
      const text = readFileSync(resolve(root, path), 'utf8')
      const opening = `export const ${table} = {\n`
      expect(text).toContain(opening)
      const errors = errorsIn(
        [path, ...files],
        resolve(root, path),
        text.replace(opening, `${opening}'${op}': ${record},\n`),
      )
      expect(errors.get(path)).toEqual([])
      const refused = files.filter((one) => errors.get(one)!.some((error) => error.includes(op)))
      expect(refused.sort()).toEqual([...tables].sort())
    },
  )
})
