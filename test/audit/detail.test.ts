/** Leaving out nested operators to save memory does not change the result of the audit. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { demoTraces } from '../../src/audit/demo/demo.ts'
import { readTraces } from '../../src/audit/open.ts'
import { toDocument } from '../../src/report/toDocument.ts'
import { audit } from '../../src/taxes/audit.ts'
import type { HostDetail } from '../../src/audit/traceFile.ts'
import { Kind } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'
import { itForSome } from '../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-detail-'))
beforeAll(() => {
  for (const { name, text } of demoTraces()) writeFileSync(join(folder, name), text)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function audited(paths: string[], detail: HostDetail) {
  const { timeline, sources, warnings } = await readTraces(paths, { detail })
  const found = new Warnings()
  const document = toDocument({
    timeline,
    audit: audit(timeline, found),
    options: {},
    sources,
    warnings: [...warnings, ...found.list()],
    version: '0',
  })
  const operators = timeline.ranks.reduce(
    (sum, { events }) => sum + events.kind.filter((kind) => kind === Kind.operator).length,
    0,
  )
  return { document: { ...document, collectives: [...document.collectives] }, operators }
}

const real = join(root, '../shared/traces/kineto')
const here = existsSync(real)
if (!here) console.log('skipped: the real traces are not beside this checkout')
const files = here ? readdirSync(real).filter((name) => name.endsWith('.json.gz')) : []

describe('leaving out operators inside operators', () => {
  it('changes nothing in the demo', async () => {
    const all = await audited([folder], 'all')
    const needed = await audited([folder], 'needed')
    expect(needed.document).toEqual(all.document)
  })

  itForSome(files, (name) => name.startsWith('a100'))('changes nothing in %s', async (name) => {
    const all = await audited([join(real, name)], 'all')
    const needed = await audited([join(real, name)], 'needed')
    expect(needed.document).toEqual(all.document)
    expect(needed.operators).toBeLessThan(all.operators)
  })
})
