/**
 * Tests that the emitted code of all targets matches the hashes in hashes.txt. Refactorings must not change the hashes
 * in hashes.txt. Review an intended change with scripts/emitted.ts and accept it with ARKE_GOLDEN=update.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { walk } from '../../src/ir/node.ts'
import { ops } from '../../src/ir/ops/index.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { allEmitted, hashOf, keyOf, renderedOps } from './emitted.ts'
import { long } from '../long.ts'
import type { Range } from './shippedLaunches.ts'

const path = fileURLToPath(new URL('hashes.txt', import.meta.url))
const isUpdate = process.env.ARKE_GOLDEN === 'update'

interface Emission {
  /** The hash of each emitted text, by the name of the text. */
  readonly hashes: ReadonlyMap<string, string>
  readonly usedOps: ReadonlySet<string>
}

async function emission(range?: Range): Promise<Emission> {
  const [hashes, usedOps] = [new Map<string, string>(), new Set<string>()]
  for await (const one of allEmitted(range)) {
    const key = keyOf(one)
    expect(hashes.has(key), `${key} is emitted twice`).toBe(false)
    hashes.set(key, hashOf(one))
    if (!one.ir) continue
    for (const ir of [one.ir, lower(one.ir)]) for (const { op } of walk(ir.body)) usedOps.add(op)
  }
  return { hashes, usedOps }
}

const header = [
  '# Hashes of what targets make of kernels: target, kernel, facts, hash. Made by ARKE_GOLDEN=update npx vitest run test/golden',
  '# plain-and-recorded is two texts: several devices, not recording; one device, odd extents, recording.',
  '# A line of native or wasm is two texts: not recording; recording.',
]

/** Reads the golden file as a map from the key of a line to its hash. */
function golden(): Map<string, string> {
  const lines = readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => !/^(#|$)/.test(line))
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), line.slice(line.lastIndexOf(' ') + 1)]),
  )
}

/** Returns a summary such as "3 changed, 1 new, 0 gone, of 90", followed by the lines that differ. */
function differences(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string[] {
  const changed = [...now]
    .filter(([key, hash]) => before.has(key) && before.get(key) !== hash)
    .map(([key]) => key)
  const fresh = [...now.keys()].filter((key) => !before.has(key))
  const gone = [...before.keys()].filter((key) => !now.has(key))
  if (changed.length + fresh.length + gone.length === 0) return []
  const list = (what: string, keys: readonly string[]): string[] => [
    ...keys.slice(0, mostListed).map((key) => `  ${what}: ${key}`),
    ...(keys.length > mostListed ? [`  ${what}: and ${keys.length - mostListed} more`] : []),
  ]
  const total = `${changed.length} changed, ${fresh.length} new, ${gone.length} gone, of ${now.size}`
  return [total, ...list('changed', changed), ...list('new', fresh), ...list('gone', gone)]
}
const mostListed = 40

const advice = `
To see what changed, write the texts of both commits and compare them:
  npx tsx scripts/emitted.ts /tmp/after
  git stash   # or: git checkout BASE
  npx tsx scripts/emitted.ts /tmp/before
  diff -r /tmp/before /tmp/after
To accept it: ARKE_GOLDEN=update npx vitest run test/golden`

describe('emitted text', () => {
  let whole: Promise<Emission> | undefined
  const all = (): Promise<Emission> => (whole ??= emission())

  it('is what it was', long, async () => {
    const { hashes: emitted } = await all()
    if (isUpdate) {
      const lines = [...emitted].map(([key, hash]) => `${key} ${hash}\n`).sort()
      const found = differences(golden(), emitted)
      writeFileSync(path, [...header.map((line) => `${line}\n`), ...lines].join(''))
      console.log(found.length > 0 ? found.join('\n') : 'nothing changed')
    }
    const found = differences(golden(), emitted)
    expect(found.length, [...found, advice].join('\n')).toBe(0)
  })

  const patient = { timeout: 300_000 }
  it.skipIf(isUpdate)(
    'of some examples, probes, and operations in bf16 on 8 ranks is what it was',
    patient,
    async () => {
      const { hashes } = await emission({ sizes: [8], dtypes: ['bf16'], isRotating: true })
      const all = golden()
      // A kernel that several dtypes share has the name of the first dtype, which may be outside the range under test.
      const shared = new Map([...hashes].filter(([key]) => all.has(key)))
      expect(shared.size).toBeGreaterThan(0.95 * hashes.size)
      const known = new Map([...all].filter(([key]) => shared.has(key)))
      const found = differences(known, shared)
      expect(found.length, [...found, advice].join('\n')).toBe(0)
    },
  )

  it('covers every op of the IR', long, async () => {
    const { usedOps } = await all()
    const missing = Object.keys(ops).filter(
      (op) => op !== 'param' && !usedOps.has(op) && !renderedOps.has(op),
    )
    expect(missing).toEqual([])
  })
})
