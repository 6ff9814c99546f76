/**
 * Tests reading documents of earlier audits. A document of an earlier audit is recognised by its contents, and rejected
 * with a message of one line if a value that the report shows is missing.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { isDocument, readDocument } from '../../src/report/readDocument.ts'
import { makeSample } from './sample.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-document-'))
afterAll(() => rmSync(folder, { recursive: true }))
function put(text: string): string {
  const path = join(folder, 'some.name')
  writeFileSync(path, text)
  return path
}
const { document } = makeSample()

describe('a document', () => {
  it.each([
    ['as it was printed', JSON.stringify(document), true],
    ['indented, after a byte order mark', `\uFEFF\n${JSON.stringify(document, undefined, 2)}`, true],
    ['that is a trace of Arke', '{"arke":{"version":1}}', false],
    ['that is a trace of another', '{"traceEvents":[]}', false],
    ['that is no JSON', 'arke', false],
  ])('%s', (_what, text, is) => {
    const path = put(text)
    expect(isDocument(path)).toBe(is)
    if (is) expect(readDocument(path)).toEqual(JSON.parse(JSON.stringify(document)))
  })

  it('is no folder, and nothing that is not there', () => {
    expect(isDocument(folder)).toBe(false)
    expect(isDocument(join(folder, 'absent'))).toBe(false)
  })

  const [rank] = document.ranks
  it.each([
    ['no ranks', { ...document, ranks: undefined }, 'there is no ranks'],
    ['ranks that are none', { ...document, ranks: [7] }, 'ranks[0] is no object'],
    ['no wall', { ...document, ranks: [{ ...rank, wallUs: null }] }, 'ranks[0].wallUs is no number'],
    ['no taxes', { ...document, ranks: [{ ...rank, taxes: {} }] }, 'there is no ranks[0].taxes.launchUs'],
    ['steps that are no list', { ...document, steps: {} }, 'steps is no list'],
    ['a summary of numbers', { ...document, summary: [1] }, 'summary[0] is no text'],
  ])('with %s is refused', (_what, wrong, why) => {
    const path = put(JSON.stringify(wrong))
    expect(() => readDocument(path)).toThrow(`${path}: `)
    expect(() => readDocument(path)).toThrow(why)
  })

  it('that is cut off is refused', () => {
    const path = put(JSON.stringify(document).slice(0, 200))
    expect(() => readDocument(path)).toThrow('damaged or cut off')
  })
})
