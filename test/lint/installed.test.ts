/** docs/eslint.md is true in an empty project: the packed package, ESLint and typescript-eslint, and the files that the page shows. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
  readonly messages: readonly { line: number; column: number; message: string; ruleId: string | null }[]
}

/** Lints one file as a user does, and returns what ESLint reports on it and its exit code. */
async function lint(
  name: string,
  text: string,
  settings = tsconfig,
): Promise<{ code: number; report: Report }> {
  const place = join(folder, name.replace('.', '-'))
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'tsconfig.json'), settings)
  writeFileSync(join(place, name), text)
  const eslint = join(folder, 'node_modules/eslint/bin/eslint.js')
  const args = [eslint, '--format', 'json', join(place, name)]
  const { code, stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: { code: number; stdout: string }) => error,
  )
  return { code, report: (JSON.parse(stdout) as Report[])[0] }
}

describe.each(['kernel.ts', 'kernel.js'])('the plugin, on %s', (name) => {
  it('reports each mistake as the page shows it', async () => {
    const { code, report } = await lint(name, wrong)
    const reported = report.messages.map(({ line, column, message }) => [`${line}:${column}`, message])
    expect(reported).toEqual(shown.split('\n').map((line) => [line.slice(0, 6).trim(), `${line.slice(6)}.`]))
    expect(new Set(report.messages.map(({ ruleId }) => ruleId))).toEqual(new Set(['arke/no-symbol-coercion']))
    expect(code).toBe(1)
  })

  it('reports nothing on a correct kernel', async () => {
    const { code, report } = await lint(`right-${name}`, right)
    expect(report.messages).toEqual([])
    expect(code).toBe(0)
  })
})
