/** Tests docs/your-operations.md: its excerpts are the example's, its program runs, and its table names every field. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { start } from '../cli/arke.ts'
import { compile, fences, root } from './snippets.ts'

const page = 'docs/your-operations.md'
const snippets = fences(page, 'ts')
const ofKind = (kind: string) => snippets.filter((snippet) => snippet.kind === kind)

mkdirSync(join(root, '.arke-cache'), { recursive: true })
const folder = mkdtempSync(join(root, '.arke-cache/your-operations-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe(page, () => {
  it('has snippets of three kinds only', () => {
    expect(ofKind('example')).toHaveLength(3)
    expect(ofKind('program')).toHaveLength(1)
    expect(ofKind('tuned')).toHaveLength(1)
    expect(snippets).toHaveLength(5)
  })

  it.each([
    ['example', '14-your-operation.ts'],
    ['tuned', '23-fetch-ahead.ts'],
  ])('shows the %s, word for word', (kind, file) => {
    const example = readFileSync(join(root, 'examples', file), 'utf8')
    for (const { text } of ofKind(kind)) expect(example).toContain(text)
  })

  it('shows a program that compiles, runs, prints the ledger, and writes the page and the trace', async () => {
    const path = join(folder, 'program.ts')
    writeFileSync(path, ofKind('program')[0].text)
    expect(compile([path])).toEqual([])
    const { code, stdout, stderr } = await start([path], ['--import', 'tsx'], folder).ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /rank +wall +useful +launch +wait +transfer +other +locality\n +0 .*\n +1 .*\n +mean /,
    )
    expect(existsSync(join(folder, 'page.html'))).toBe(true)
    const { traceEvents } = JSON.parse(readFileSync(join(folder, 'trace.json'), 'utf8')) as {
      traceEvents: { name: string }[]
    }
    expect(traceEvents.filter(({ name }) => name === 'oneShotAllReduce')).toHaveLength(2 * 11)
  })

  it('names every field of the record', () => {
    const source = readFileSync(join(root, 'src/operation/define.ts'), 'utf8')
    const [record] = /export interface OperationRecipe<[\s\S]*?\n}\n/.exec(source)!
    const fields = [...record.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(]/gm)].map(([, name]) => name)
    expect(fields).toContain('reference')
    const table = readFileSync(join(root, page), 'utf8')
    for (const field of fields) expect(table).toMatch(new RegExp(`^\\|.*\`${field}\`.*\\|.*\\|$`, 'm'))
  })
})
