/** The table of maximum errors in docs/language.md is the table that the records of the ops state. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { functionOps } from '../../src/ir/ops/functions.ts'
import type { Op, TargetName } from '../../src/ir/ops/index.ts'

const page = new URL('../../docs/language.md', import.meta.url)
const targets: readonly TargetName[] = ['check', 'wasm', 'native', 'cuda']

function table(): string {
  const rows = Object.entries(functionOps).map(([name, op]: [string, Op]) => {
    const error = op.maximumError?.f32
    return [`\`${name}\``, ...targets.map((target) => (error ? String(error[target] ?? 'not bounded') : '0'))]
  })
  const all = [['f32', ...targets], ...rows]
  const widths = all[0].map((_, i) => Math.max(...all.map((row) => row[i].length)))
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i])).join(' | ')} |`
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`
  return [line(all[0]), rule, ...rows.map(line)].join('\n')
}

it('docs/language.md lists the maximum errors of the records (ARKE_DOCS=update writes them)', () => {
  const text = readFileSync(page, 'utf8')
  const pattern = /<!-- maximum errors -->\n(?:\n\|[^\n]*|\n(?=\|)|\|[^\n]*\n?)*/
  const wanted = `<!-- maximum errors -->\n\n${table()}\n`
  if (process.env.ARKE_DOCS === 'update') writeFileSync(page, text.replace(pattern, wanted))
  else expect(text).toContain(wanted)
})
