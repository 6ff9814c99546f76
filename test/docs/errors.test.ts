/** Tests that the maximum errors in the table of docs/language.md are those that the targets state. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { functionOps } from '../../src/ir/ops/functions.ts'
import type { MaximumErrors, Op } from '../../src/ir/ops/index.ts'
import { maximumErrors as check } from '../../src/targets/check/maximumErrors.ts'
import { maximumErrors as cpu } from '../../src/targets/cpu/maximumErrors.ts'
import { maximumErrors as cuda } from '../../src/targets/cuda/maximumErrors.ts'

const page = new URL('../../docs/language.md', import.meta.url)
const targets: Readonly<Record<string, MaximumErrors>> = { check, wasm: cpu, native: cpu, cuda }

function table(): string {
  const rows = Object.entries(functionOps).map(([name, op]: [string, Op]) => {
    const errorOn = (errors: MaximumErrors): string =>
      op.isApproximate ? String(errors[name as keyof MaximumErrors] ?? 'not bounded') : '0'
    return [`\`${name}\``, ...Object.values(targets).map(errorOn)]
  })
  const all = [['f32', ...Object.keys(targets)], ...rows]
  const widths = all[0].map((_, i) => Math.max(...all.map((row) => row[i].length)))
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i])).join(' | ')} |`
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`
  return [line(all[0]), rule, ...rows.map(line)].join('\n')
}

it('docs/language.md lists the maximum errors of the targets (ARKE_DOCS=update writes them)', () => {
  const text = readFileSync(page, 'utf8')
  const pattern = /<!-- maximum errors -->\n(?:\n\|[^\n]*|\n(?=\|)|\|[^\n]*\n?)*/
  const wanted = `<!-- maximum errors -->\n\n${table()}\n`
  if (process.env.ARKE_DOCS === 'update') writeFileSync(page, text.replace(pattern, wanted))
  else expect(text).toContain(wanted)
})
