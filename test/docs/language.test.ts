/**
 * Tests that the snippets of docs/language.md compile and run. Every snippet must compile, and snippets that are whole
 * files must run. Kernel bodies are recorded, lowered and run under the checker without a finding. Snippets marked
 * `error` must be rejected at the stated line, for the stated reason.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bf16, explore, f32, formatFinding, i32, scenario, type Kernel, type Scenario } from 'arke'
import { afterAll, describe, expect, it } from 'vitest'
import { clusterOf, sizeOf } from '../../src/ir/clusters.ts'
import { compile, fences, root } from './snippets.ts'

const page = 'docs/language.md'
const snippets = fences(page, 'ts')
const params = snippets.find(({ kind }) => kind === 'params')!.text
const names =
  'bf16 bool ceilDiv f16 f32 f8e4m3 f8e5m2 flags i32 i64 i8 kernel scalar tensor u32 u8'.replaceAll(' ', ', ')

mkdirSync(join(root, '.arke-cache'), { recursive: true })
const folder = mkdtempSync(join(root, '.arke-cache/language-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const opening = `import { ${names} } from 'arke'
${params}
export const snippet = kernel('snippet', params, (t, { x, y, a, b, c, counts, n, ready, done }) => {
  void [x, y, a, b, c, counts, n, ready, done]
`
const closing = `
})
export default [${names}]
`
const files = snippets
  .filter(({ kind }) => kind !== 'params')
  .map(({ line, kind, text }) => {
    const isModule = text.startsWith('import ')
    const path = join(folder, `line${line}.ts`)
    writeFileSync(path, isModule ? text : opening + text + closing)
    return { name: `${page}:${line}`, kind: isModule ? 'module' : kind || 'body', path, text }
  })
const ofKind = (kind: string) => files.filter((file) => file.kind === kind)

it('has snippets of every kind', () => {
  for (const kind of ['module', 'body', 'types', 'error']) expect(ofKind(kind)).not.toEqual([])
})

it('compiles', () => {
  expect(compile(files.map(({ path }) => path))).toEqual([])
})

const run = (kernel: Kernel): Scenario =>
  scenario('snippet', {}, async (world) => {
    const sixteen = Array.from({ length: 16 }, (_, i) => i)
    const matrix = Array.from({ length: 64 }, (_, i) => (i % 5) - 2)
    const args = {
      x: world.from(f32, [16], sixteen, { name: 'x' }),
      y: world.zeros(f32, [16], { name: 'y' }),
      a: world.from(bf16, [8, 8], matrix, { name: 'a' }),
      b: world.from(bf16, [8, 8], matrix, { name: 'b' }),
      c: world.zeros(f32, [8, 8], { name: 'c' }),
      counts: world.zeros(i32, [16], { name: 'counts' }),
      n: 5,
      ready: world.flags([], { name: 'ready' }),
      done: world.flags([world.ranks], { name: 'done' }),
    }
    const grid = sizeOf(clusterOf(kernel.record({ world: world.ranks })) ?? [])
    world.launch(kernel, args as never, { grid })
    await world.synchronize()
  })

async function expectClean(scenario: Scenario, ranks: number): Promise<void> {
  for (const stage of ['recorded', 'lowered'] as const)
    for (const how of [{ schedules: 50 }, { preemptions: 2, limit: 2000 }]) {
      const { findings } = await explore(scenario, { ranks, stage, ...how })
      expect(findings.map(formatFinding)).toEqual([])
    }
}

describe('whole files run, and their scenarios are clean', () => {
  it.each(ofKind('module'))('$name', async ({ path }) => {
    const exported = (await import(/* @vite-ignore */ path)) as Record<string, Partial<Scenario>>
    for (const thing of Object.values(exported))
      if (thing.kind === 'scenario')
        for (const ranks of thing.ranks!) await expectClean(thing as Scenario, ranks)
  })
})

describe('bodies run without a finding', () => {
  it.each(ofKind('body'))('$name', async ({ path }) => {
    const { snippet } = (await import(/* @vite-ignore */ path)) as { snippet: Kernel }
    await expectClean(run(snippet), 2)
  })
})

describe('what recording refuses', () => {
  it.each(ofKind('error'))('$name', async ({ path, text }) => {
    const { snippet } = (await import(/* @vite-ignore */ path)) as { snippet: Kernel }
    const lines = (opening + text).split('\n')
    const at = lines.findIndex((line) => line.includes('// KernelError: '))
    const reason = lines[at].split('// KernelError: ')[1]
    let refusal = ''
    try {
      snippet.record({ world: 2 })
    } catch (error) {
      refusal = String(error)
    }
    expect(refusal).toContain(reason)
    expect(refusal).toMatch(new RegExp(`^KernelError: .*line\\d+\\.ts:${at + 1}:\\d+: `))
  })
})
