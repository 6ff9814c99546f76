/** Tests the docs pages without their own test: code and output in the README, links, and the list of folders. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { arke, arkeFromSource, start } from '../cli/arke.ts'
import { fences, root } from './snippets.ts'

const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const documents = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
const pages = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...documents.map((name) => `docs/${name}`),
]

describe('README', () => {
  it('shows a kernel that is an example, word for word', () => {
    const [kernel] = fences('README.md', 'ts')
    expect(read('examples/07-all-gather-gemm.ts')).toContain(kernel.text)
  })

  it('shows a program that runs', async () => {
    const [, program, ...others] = fences('README.md', 'ts')
    expect(others).toEqual([])
    mkdirSync(join(root, 'scratch'), { recursive: true })
    const folder = mkdtempSync(join(root, 'scratch', 'readme-'))
    try {
      const path = join(folder, 'program.ts')
      writeFileSync(path, program.text)
      const { code, stdout } = await start([path], ['--import', 'tsx'], root).ended
      expect(code).toBe(0)
      expect(stdout).toContain('Float64Array(1000)')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('shows what the command prints', async () => {
    const shown = fences('README.md', 'console')
    expect(shown).toHaveLength(2)
    for (const { text } of shown) {
      const [command, ...lines] = text.split('\n')
      const args = command.replace('$ npx arke ', '').split(' ')
      const { stdout } = await arkeFromSource(...args)
      expect(stdout).toContain(lines.join('\n'))
    }
  })

  it('names every command', async () => {
    const { stdout } = await arke('--help')
    const commands = [...stdout.matchAll(/^ {2}(\w+) .*/gm)].map(([, name]) => name)
    expect(commands).toContain('check')
    for (const name of commands.filter((one) => one !== 'help'))
      expect(read('README.md')).toContain(`\`arke ${name}`)
  })
})

describe('links', () => {
  const anchor = (heading: string): string =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-')
  /** The link anchors of headings. Repeated headings get a numeric suffix. */
  const anchors = (headings: readonly string[]): string[] => {
    const seen = new Map<string, number>()
    return headings.map(anchor).map((name) => {
      const times = seen.get(name) ?? 0
      seen.set(name, times + 1)
      return times === 0 ? name : `${name}-${times}`
    })
  }

  it.each(pages)('%s', (page) => {
    for (const [, target] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue
      const [file, fragment] = target.split('#')
      const path = file ? join(dirname(page), file) : page
      expect(existsSync(join(root, path)), `${page} links to ${target}`).toBe(true)
      const headings = () => anchors([...read(path).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading))
      if (fragment) expect(headings(), `${page} links to ${target}`).toContain(fragment)
    }
  })
})

it('every page of docs is linked from another one', () => {
  for (const name of documents) {
    const others = pages.filter((page) => page !== `docs/${name}`)
    expect(
      others.some((page) => new RegExp(`\\]\\((docs/)?${name}[#)]`).test(read(page))),
      name,
    ).toBe(true)
  }
})

describe('docs/architecture.md', () => {
  const [here] = read('docs/architecture.md').split('\nPlanned')
  it('names every folder', () => {
    const folders = (path: string): string[] =>
      readdirSync(join(root, path), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => `${path}/${name}`)
    for (const folder of [...folders('src'), ...folders('src/targets')]) expect(here).toContain(folder)
  })
})

// The changelog also names files that have been removed. Paths with a word in capitals are patterns.
it.each(pages.filter((page) => page !== 'CHANGELOG.md'))('%s names no file that is not there', (page) => {
  for (const [, path] of read(page).matchAll(
    /(?<![\w/.-])((?:src|test|bench|examples|scripts)\/[\w/.-]*\w)/g,
  ))
    if (!/[A-Z]{3}/.test(path)) expect(existsSync(join(root, path)), path).toBe(true)
})

describe('.ci/run', () => {
  /** Expands `a/{b,c}.ts` to `a/b.ts` and `a/c.ts`. */
  const expanded = (pattern: string): string[] => {
    const [whole, list] = /\{([^}]*)\}/.exec(pattern) ?? []
    return whole === undefined
      ? [pattern]
      : list.split(',').flatMap((one) => expanded(pattern.replace(whole, one)))
  }
  const [, list] = /same_on_every_node=\(([^)]*)\)/.exec(read('.ci/run'))!
  const patterns = [...list.matchAll(/'([^']+)'/g)].flatMap(([, pattern]) => expanded(pattern))

  it('leaves out tests that are there', () => {
    expect(patterns).not.toHaveLength(0)
    for (const pattern of patterns)
      expect(existsSync(join(root, pattern.replace(/\/\*\*$/, ''))), pattern).toBe(true)
  })
})
