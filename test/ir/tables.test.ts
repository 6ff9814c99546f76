/**
 * The types of op tables require an entry for every op. If an op is added to the records, every table for its kind
 * fails to compile, and the error names the op. Facts that follow from the op's record need no entry.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

interface Added {
  readonly op: string
  /** The file in src/ir/ops, its table, and the record that is added to the table. */
  readonly to: readonly [file: string, table: string]
  readonly record: string
  /** The tables in which the new op needs an entry. */
  readonly tables: readonly string[]
}

const [values, views, memory, sync, control] = [
  ['values.ts', 'valueOps'],
  ['views.ts', 'viewOps'],
  ['memory.ts', 'memoryOps'],
  ['sync.ts', 'syncOps'],
  ['control.ts', 'controlOps'],
] as const

const [checker, cpu, traffic, gpu, layouts] = [
  'src/targets/check/ops.ts',
  'src/targets/cpu/lower/nodes.ts',
  'src/ir/traffic/execute.ts',
  'src/targets/cuda/emit/render/index.ts',
  'src/targets/cuda/emit/assign.ts',
]

const added: readonly Added[] = [
  {
    op: 'cube',
    to: values,
    record: `unary('x * x * x', floats, float((x) => x * x * x))`,
    tables: ['src/targets/cpu/lower/elements.ts', gpu],
  },
  {
    op: 'reduce.product',
    to: values,
    record: `reduction('product along an axis', 1, (a, b) => a * b)`,
    tables: ['src/targets/cpu/lower/fragments.ts', gpu],
  },
  {
    op: 'cluster',
    to: values,
    record: `{ ...id, varies: 'by program', summary: 'the number of its cluster' }`,
    tables: [checker, cpu, traffic, 'src/targets/cpu/lower/scalars.ts', gpu, layouts],
  },
  {
    op: 'repeat',
    to: values,
    record: `{ ...free, elements: 'stretched', numbers: [0], summary: 'twice', infer: ({ inputs }) => inputs[0].type }`,
    tables: ['src/targets/cpu/lower/nest.ts', gpu, layouts],
  },
  {
    op: 'reverse',
    to: values,
    record: `{ ...free, elements: 'moved', numbers: [0], summary: 'backwards', infer: ({ inputs }) => inputs[0].type }`,
    tables: [checker, cpu, traffic, 'src/targets/cpu/lower/nest.ts', gpu, layouts],
  },
  {
    op: 'scan',
    to: values,
    record: `{ ...computed, elements: 'other', operations: 1, summary: 'sums so far', infer: ({ inputs }) => inputs[0].type }`,
    tables: [checker, cpu, traffic, gpu, layouts],
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
    op: 'ping',
    to: sync,
    record: `{ ...synchronises, order: 'both', summary: 'tells everybody', infer: () => voidType }`,
    tables: [checker, cpu, gpu],
  },
  {
    op: 'forever',
    to: control,
    record: `{ ...control, flow: 'repeats', state: 'carried', summary: 'without end', infer: () => voidType }`,
    tables: [cpu, traffic, 'src/ir/print.ts', 'src/targets/check/code.ts', gpu],
  },
]

const files = [...new Set(added.flatMap(({ tables }) => tables))]
const { config } = ts.readConfigFile(resolve(root, 'tsconfig.json'), ts.sys.readFile)
const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, root)
const parsed = new Map<string, ts.SourceFile | undefined>()

/** The compiler errors in these files if the file at `path` has another text than on disk. */
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

describe('a table of ops does not compile without', () => {
  it.each(added)('$op', { timeout: 60_000 }, ({ op, to: [file, table], record, tables }) => {
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
  })
})
