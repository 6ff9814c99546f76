/** Import rules among worlds and targets: only the file that opens worlds by name may import a target. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const src = fileURLToPath(new URL('../../src', import.meta.url))

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))

/**
 * The files of this package that a file imports: after `from`, in `import '…'` or in `import('…')`, including types.
 */
function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), 'utf8')
  const named = text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'/g)
  return [...named].map(([, path]) => relative(src, join(src, dirname(file), path)).replaceAll('\\', '/'))
}

const imports = files.flatMap((from) => importsOf(from).map((to) => [from, to] as const))
const inside = (folder: string, file: string): boolean => file.startsWith(`${folder}/`)
const targetOf = (file: string): string | undefined => /^targets\/([^/]+)\//.exec(file)?.[1]
const texts = (found: readonly (readonly [string, string])[]): string[] =>
  found.map(([from, to]) => `${from} imports ${to}`)

describe('imports', () => {
  it('are found for values, for types and at run time', () => {
    const has = (from: string, to: string): boolean =>
      imports.some(([one, other]) => one === from && other === to)
    expect(has('world/open.ts', 'targets/check/world.ts')).toBe(true)
    expect(has('world/open.ts', 'targets/cuda/open.ts')).toBe(true)
    expect(has('targets/gpu/machine.ts', 'targets/gpu/device.ts')).toBe(true)
    expect(has('targets/wasm/world.ts', 'targets/cpu/host.ts')).toBe(true)
    for (const [, to] of imports.filter(([, one]) => one.endsWith('.ts'))) expect(files).toContain(to)
  })

  it('of targets within src/world occur only in open.ts', () => {
    const found = imports.filter(
      ([from, to]) => inside('world', from) && inside('targets', to) && from !== 'world/open.ts',
    )
    expect(texts(found)).toEqual([])
  })

  it('of one target by another are only those of its base: cpu for wasm and native, gpu for cuda', () => {
    const bases: Readonly<Record<string, string>> = { wasm: 'cpu', native: 'cpu', cuda: 'gpu' }
    const found = imports.filter(([from, to]) => {
      const [one, other] = [targetOf(from), targetOf(to)]
      return one !== undefined && other !== undefined && one !== other && bases[one] !== other
    })
    expect(texts(found)).toEqual([])
  })

  it("of NVIDIA's driver occur only in its implementation of the device interface", () => {
    const driver = ['driver', 'runtime', 'stream', 'kernel', 'heaps', 'ranks', 'nvrtc'].map(
      (name) => `targets/cuda/${name}.ts`,
    )
    // The function `openCudaWorld` finds devices. `driverStream` passes the streams of CUDA devices to other libraries.
    const users = [
      ...driver,
      ...['tensormap', 'platform', 'open', 'world'].map((name) => `targets/cuda/${name}.ts`),
    ]
    const found = imports.filter(([from, to]) => driver.includes(to) && !users.includes(from))
    expect(texts(found)).toEqual([])
  })
})
