/**
 * Tests that no code outside a target's folder branches on the name of the target. Code must branch on the machine
 * record (src/world/machine.ts) or on the target's description (src/targets/description.ts).
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const src = fileURLToPath(new URL('../../src', import.meta.url))
const names = ['cuda', 'wasm', 'native']

/** Comparisons with the name of a target, `case` labels, and lists that a name is looked up in. */
const branch = new RegExp(
  [
    String.raw`[!=]==?\s*(['"\`])(?<right>${names.join('|')})\1`,
    String.raw`(['"\`])(?<left>${names.join('|')})\3\s*[!=]==?`,
    String.raw`\bcase\s*(['"\`])(?<label>${names.join('|')})\5`,
    String.raw`\[[^\]]*(['"\`])(?<listed>${names.join('|')})\7[^\]]*\]\s*\.\s*(?:includes|indexOf)\(`,
  ].join('|'),
  'g',
)

function branchesIn(text: string): string[] {
  return [...text.matchAll(branch)].map(({ groups = {} }) => Object.values(groups).find(Boolean)!)
}

/**
 * Files that may branch on names, each with the reason; today there are none (`world/open.ts` looks names up in a
 * table).
 */
const allowed: Readonly<Record<string, string>> = {}

const found = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !(path in allowed))
  .flatMap((path) =>
    branchesIn(readFileSync(join(src, path), 'utf8'))
      .filter((name) => !path.startsWith(`targets/${name}/`))
      .map((name) => `${path} branches on '${name}'`),
  )

describe('names of targets', () => {
  it('are recognised in branches', () => {
    expect(branchesIn("if (target === 'cuda') go()")).toEqual(['cuda'])
    expect(branchesIn('"wasm" !== target')).toEqual(['wasm'])
    expect(branchesIn("switch (name) { case 'native': }")).toEqual(['native'])
    expect(branchesIn("['wasm', 'native'].includes(target)")).toHaveLength(1)
    expect(branchesIn("const order = ['native', 'wasm']; const usual = 'cuda'")).toEqual([])
  })

  it('are not branched on outside the folder of the target', () => {
    expect(found).toEqual([])
  })
})
