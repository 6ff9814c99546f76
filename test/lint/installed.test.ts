/**
 * Tests docs/eslint.md in an empty project, with the packed package, ESLint, typescript-eslint and the files that the
 * page shows.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { unpack } from '../cli/installed.ts'
import { fences, root } from '../docs/snippets.ts'

const page = 'docs/eslint.md'
const [[config], [tsconfig], [wrong, right], [shown]] = ['js', 'json', 'ts', 'text'].map((language) =>
  fences(page, language).map(({ text }) => text),
)

const folder = mkdtempSync(join(tmpdir(), 'arke-eslint-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const modules = join(folder, 'node_modules')
await unpack(modules)
for (const name of ['eslint', 'typescript-eslint', 'typescript'])
  symlinkSync(join(root, 'node_modules', name), join(modules, name))
writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
writeFileSync(join(folder, 'eslint.config.mjs'), config)

interface Report {
  readonly filePath: string
  readonly messages: readonly { line: number; column: number; message: string; ruleId: string | null }[]
}

const names = ['kernel.ts', 'kernel.js'] as const

/**
 * Lints a source text as TypeScript and as JavaScript, as a user does. Returns the reports by file name, and the exit
 * code.
 */
async function lint(what: string, text: string): Promise<{ code: number; reports: Map<string, Report> }> {
  const places = names.map((name) => join(folder, what, name.replace('.', '-'), name))
  for (const place of places) {
    mkdirSync(dirname(place), { recursive: true })
    writeFileSync(join(dirname(place), 'tsconfig.json'), tsconfig)
    writeFileSync(place, text)
  }
  const eslint = join(folder, 'node_modules/eslint/bin/eslint.js')
  const args = [eslint, '--format', 'json', ...places]
  const { code, stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: { code: number; stdout: string }) => error,
  )
  const reports = JSON.parse(stdout) as readonly Report[]
  expect(reports).toHaveLength(names.length)
  return { code, reports: new Map(reports.map((report) => [basename(report.filePath), report])) }
}
const [onWrong, onRight] = await Promise.all([lint('wrong', wrong), lint('right', right)])

describe.each(names)('the plugin, on %s', (name) => {
  it('reports each mistake as the page shows it', () => {
    const { code, reports } = onWrong
    const report = reports.get(name)!
    const reported = report.messages.map(({ line, column, message }) => [`${line}:${column}`, message])
    expect(reported).toEqual(shown.split('\n').map((line) => [line.slice(0, 6).trim(), `${line.slice(6)}.`]))
    expect(new Set(report.messages.map(({ ruleId }) => ruleId))).toEqual(new Set(['arke/no-symbol-coercion']))
    expect(code).toBe(1)
  })

  it('reports nothing on a correct kernel', () => {
    const { code, reports } = onRight
    expect(reports.get(name)!.messages).toEqual([])
    expect(code).toBe(0)
  })
})
