/**
 * Tests that docs/operations.md shows correct kernels, programs and pictures. The page's kernels must equal the source,
 * and its programs must compile and run. Every variant must have a section and a picture. The pictures of the page must
 * equal those drawn here (`vitest -u` draws them again).
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { operations } from 'arke/ops'
import { afterAll, describe, expect, it } from 'vitest'
import { commandName } from '../../src/ops/operations.ts'
import { draw } from './drawing.ts'
import { pictures } from './pictures.ts'
import { compile, fences, root } from './snippets.ts'

const page = 'docs/operations.md'
const text = readFileSync(join(root, page), 'utf8')
const snippets = fences(page, 'ts')
const isProgram = (code: string): boolean => code.startsWith('import ')

describe('the kernels', () => {
  const lines = text.split('\n')
  /** The source file of the last link before a line. */
  const sourceOf = (line: number): string => {
    const links = [
      ...lines
        .slice(0, line)
        .join('\n')
        .matchAll(/\]\((\.\.\/src\/ops\/[\w/]+\.ts)\)/g),
    ]
    return join(dirname(page), links.at(-1)![1])
  }
  const quoted = snippets.filter((snippet) => !isProgram(snippet.text))

  it('are many', () => expect(quoted.length).toBeGreaterThan(20))

  it.each(quoted.map(({ line, text: code }) => ({ line, code, source: sourceOf(line) })))(
    'line $line is from $source',
    ({ code, source }) => {
      const file = readFileSync(join(root, source), 'utf8')
      expect(file.includes(`\n${code}\n`), `not in ${source} as it is now:\n${code}`).toBe(true)
    },
  )
})

describe('the programs', () => {
  mkdirSync(join(root, '.arke-cache'), { recursive: true })
  const folder = mkdtempSync(join(root, '.arke-cache/operations-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const programs = snippets
    .filter((snippet) => isProgram(snippet.text))
    .map(({ line, text: code }) => {
      const path = join(folder, `line${line}.ts`)
      writeFileSync(path, code)
      return { line, path }
    })

  it('compile', () => expect(compile(programs.map(({ path }) => path))).toEqual([]), 120_000)

  it('run', () => {
    expect(programs.length).toBeGreaterThan(operations.length)
    // One process runs all programs of the page, because it takes a second to load Arke.
    const every = programs.map(({ line, path }) => `console.log('line ${line}'); await import('${path}')`)
    const all = join(folder, 'all.ts')
    writeFileSync(all, `${every.join('\n')}\nexport {}\n`)
    const ended = spawnSync(process.execPath, ['--import', 'tsx', all], { cwd: root, encoding: 'utf8' })
    const lines = [...ended.stdout.matchAll(/^line (\d+)$/gm)].map(([, line]) => Number(line))
    expect(ended, `the program at line ${lines.at(-1)}`).toMatchObject({ status: 0, stderr: '' })
    expect(lines).toEqual(programs.map(({ line }) => line))
  })
})

describe('the pictures', () => {
  it.each(Object.entries(pictures))('%s.svg', async (name, drawing) => {
    await expect(draw(drawing)).toMatchFileSnapshot(join(root, 'docs/images', `${name}.svg`))
    expect(text).toContain(`](images/${name}.svg)`)
  })

  it('are all there are', () => {
    const files = Object.keys(pictures).map((name) => `${name}.svg`)
    const drawn = readdirSync(join(root, 'docs/images')).filter((name) => name.endsWith('.svg'))
    expect(drawn.sort()).toEqual(files.sort())
  })

  it.each(operations.map((definition) => [commandName(definition), definition] as const))(
    'of %s, if it has any, one a variant, under its heading',
    (operation, { variants }) => {
      if (!Object.keys(pictures).some((name) => name.startsWith(`${operation}-`))) return
      const headings = text.split(/^### /m)
      for (const variant of variants) {
        const shown = headings.filter((section) => section.startsWith(`${variant}\n`))
        expect(shown.join()).toContain(`](images/${operation}-${variant}.svg)`)
      }
    },
  )
})

describe.each(operations)('the section about $title', ({ title, name, variants }) => {
  const section = text.split(/^## /m).find((one) => one.startsWith(`${title}\n`)) ?? ''

  it('has a table of its variants, in their order', () => {
    const rows = [...section.matchAll(/^\| `([\w-]+)` +\|/gm)].map(([, variant]) => variant)
    expect(rows.slice(0, variants.length)).toEqual(variants)
  })

  it('has a heading for each, and a program that makes it', () => {
    for (const variant of variants) expect(section).toMatch(new RegExp(`^### ${variant}( |$)`, 'm'))
    expect(section).toContain(`${name}(world, {`)
  })
})
