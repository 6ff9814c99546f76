/**
 * Tests that the compiler makes one instruction of every operation on a vector, whatever the processor. Operations that have
 * no vector form in C++ are loops over lanes in the source. The generated code is compiled for each processor and never run.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, type TestContext } from 'vitest'
import { f32, kernel, tensor } from '../../../src/index.ts'
import { lowerKernel } from '../../../src/targets/cpu/lower/lower.ts'
import {
  compileArguments,
  defaultCaches,
  machineOf,
  macroArguments,
} from '../../../src/targets/native/build.ts'
import { renderCpp } from '../../../src/targets/native/render.ts'
import { long } from '../../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-vectors-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const [M, N, K] = [48, 64, 128]
const product = kernel(
  'product',
  { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2) },
  (t, { a, b, c }) => {
    const [left, right] = [t.shared(f32, [M, K]), t.shared(f32, [K, N])]
    t.copy(a.tile([0, 0], [M, K]), left)
    t.copy(b.tile([0, 0], [K, N]), right)
    const sum = t.dot(left, right, t.zeros(f32, [M, N]))
    t.copy(sum.abs().sqrt().floor().mul(sum), c.tile([0, 0], [M, N]))
  },
)

const processors = ['x86-64-v3', 'haswell', 'znver3', 'skylake-avx512', 'icelake-server', 'sapphirerapids']

/** The assembly of the kernel for one processor, or the reason why the compiler cannot make it. */
function assembly(processor: string): { text: string } | { unavailable: string } {
  const run = (given: readonly string[]): { status: number | null; output: string } => {
    const forProcessor = given.map((flag) => (flag === '-march=native' ? `-march=${processor}` : flag))
    const { error, status, stdout, stderr } = spawnSync('g++', forProcessor, { encoding: 'utf8' })
    return { status: error ? null : status, output: status === 0 ? stdout : (error?.message ?? stderr) }
  }
  const macros = run(macroArguments())
  if (macros.status !== 0 || !macros.output.includes('__x86_64__'))
    return { unavailable: macros.output.split('\n', 1)[0] || `g++ does not compile for ${processor}` }
  const { module } = lowerKernel(product.record({ world: 1 }), {
    machine: machineOf(macros.output, defaultCaches),
  })
  const [source, written] = [join(folder, `${processor}.cpp`), join(folder, `${processor}.s`)]
  writeFileSync(source, renderCpp(module))
  const compiled = run(['-S', ...compileArguments(source, written, macros.output)])
  expect(compiled.status, compiled.output).toBe(0)
  return { text: readFileSync(written, 'utf8') }
}

const check = (processor: string, { skip }: TestContext): void => {
  const made = assembly(processor)
  if ('unavailable' in made) return skip(made.unavailable)
  const instructions =
    made.text.match(/^\t(v?(fmadd|sqrt|round|rndscale)\w*)/gm)?.map((found) => found.trim()) ?? []
  expect(instructions.some((name) => name.startsWith('vfmadd'))).toBe(true)
  expect(instructions.filter((name) => name.endsWith('ss'))).toEqual([])
}
/** The processors of the short tests: one with vectors of 8 lanes, and one with vectors of 16 lanes. */
const shortOnes = ['haswell', 'skylake-avx512']
const isShort = (processor: string): boolean => shortOnes.includes(processor)
test.for(processors.filter(isShort))('uses whole vectors on %s', check)
test.for(processors.filter((one) => !isShort(one)))('uses whole vectors on %s', long, check)
