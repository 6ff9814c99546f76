/**
 * Every mutant is found, both by the search and within 1,000 random schedules, in its recorded and its lowered form.
 * The first finding has the expected kind and names exactly the lines of the mistake.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { walk } from '../../src/ir/node.ts'
import { ops, type OpName } from '../../src/ir/ops/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding, type Finding } from '../../src/targets/check/findings.ts'
import { originals } from './originals.ts'
import { linesOf, markersOf, randomly, search, stages, type Original, type Symptom } from './suite.ts'

const rows: string[] = []
afterAll(() =>
  console.log(['mutant, stage, finding, schedules until found: search, random', ...rows].join('\n')),
)

const symptomOf = (finding: Finding, of: Original): Symptom => ({
  kind: finding.kind,
  lines: linesOf(finding, of),
})
const sorted = ({ kind, lines }: Symptom): Symptom => ({ kind, lines: [...lines].sort() })

describe.each(originals.map((of) => [of.name, of] as const))('%s', (name, of) => {
  it.each(Object.entries(of.mutants))('%s', async (mutation, expected) => {
    const mutant = of.scenario(mutation)
    for (const stage of stages) {
      const { says = [], also = [], ...symptom } = (stage === 'lowered' && expected.lowered) || expected
      const searched = await search(of, mutant, stage)
      expect(searched.findings.length, `${stage}: the search found nothing`).toBeGreaterThan(0)
      const [finding] = searched.findings
      const report = formatFinding(finding)
      expect(symptomOf(finding, of), `${stage}: ${report}`).toEqual(sorted(symptom))
      for (const words of says) expect(report).toContain(words)

      const drawn = await randomly(of, mutant, stage)
      expect(drawn.findings.length, `${stage}: 1,000 random schedules found nothing`).toBeGreaterThan(0)
      const known = [symptom, ...also].map(sorted)
      expect(known, formatFinding(drawn.findings[0])).toContainEqual(symptomOf(drawn.findings[0], of))

      const [{ kind, lines }] = [sorted(symptom)]
      rows.push(
        `  ${`${name}/${mutation}`.padEnd(52)}${stage.padEnd(9)} ${`${kind} ${lines.join(', ')}`.padEnd(64)}` +
          `${String(searched.schedules).padStart(4)} ${String(drawn.schedules).padStart(4)}`,
      )
    }
  })
})

describe('the suite', () => {
  it('has enough originals and mutants', () => {
    expect(originals.length).toBeGreaterThanOrEqual(12)
    expect(originals.flatMap((of) => Object.keys(of.mutants)).length).toBeGreaterThanOrEqual(36)
  })

  it('uses every op by which agents communicate or report', async () => {
    const used = new Set<string>()
    for (const of of originals)
      await explore(of.scenario(), {
        ranks: of.ranks,
        schedules: 1,
        onPrint: () => {},
        stage: (ir) => {
          for (const { op } of walk(ir.body)) used.add(op)
          return ir
        },
      })
    const effects: readonly string[] = ['read', 'write', 'sync', 'report']
    const wanted = (Object.keys(ops) as OpName[]).filter(
      (op) => ops[op].inserted === 'recorded' && effects.includes(ops[op].effect),
    )
    expect(wanted.filter((op) => !used.has(op))).toEqual([])
  })

  it('marks every line that a report is expected to name', () => {
    for (const of of originals) {
      const marked = new Set([...markersOf(of.file).values()])
      for (const { lines, also = [], lowered } of Object.values(of.mutants))
        for (const line of [lines, ...also.map((one) => one.lines), lowered?.lines ?? []].flat())
          if (line !== 'host') expect(marked, `${of.name} has no line ${line}`).toContain(line)
    }
  })
})
