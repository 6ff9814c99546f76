/** Runs traces given as bytes through the whole audit, as the command line does: files, timeline, taxes, document. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readTraces } from '../../src/audit/open.ts'
import type { AuditDocument } from '../../src/report/document.ts'
import { toDocument } from '../../src/report/toDocument.ts'
import { type Audit, audit } from '../../src/taxes/audit.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'

export interface TraceBytes {
  readonly name: string
  readonly bytes: Uint8Array
}

export interface Audited {
  readonly timeline: Timeline
  readonly found: Audit
  readonly warnings: readonly Warning[]
  readonly document: AuditDocument
}

export async function auditFiles(files: readonly TraceBytes[]): Promise<Audited> {
  const folder = mkdtempSync(join(tmpdir(), 'arke-audit-'))
  try {
    const paths = files.map(({ name, bytes }) => {
      const path = join(folder, name)
      writeFileSync(path, bytes)
      return path
    })
    const { timeline, sources, warnings: read } = await readTraces(paths, { threads: 1 })
    const assumed = new Warnings()
    const found = audit(timeline, assumed)
    const warnings = [...read, ...assumed.list()]
    const document = toDocument({ timeline, audit: found, options: {}, sources, warnings, version: '0' })
    return { timeline, found, warnings, document }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
