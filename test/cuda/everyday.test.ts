/** The everyday operations of the language compile for sm_90a: functions, indices of the best element, running sums, reshaping, random numbers, diagnostics. */
import { describe, expect, it } from 'vitest'
import { opProbes } from '../golden/opProbes.ts'
import { long } from '../long.ts'
import { compileTogether, noCompiler } from './compile.ts'
import { emit } from './emitting.ts'

const names = /^ops\/(exp|log|sin|cos|erf|pow|floor|ceil|round|gathered|random|diagnostics)(\/|$)/

describe.skipIf(noCompiler)('compiled for sm_90a', () => {
  it('every probe of these ops, with the functions of the accurate library', long, () => {
    const probes = opProbes().filter(({ name }) => names.test(name))
    expect(probes).toHaveLength(15)
    const emitted = probes.map(({ kernel, ranks }) => emit(kernel.record({ world: ranks })))
    const compiled = compileTogether(emitted)
    for (const [i, { ptx }] of compiled.entries()) {
      expect(ptx, probes[i].name).not.toBe('')
      // The approximate PTX instructions for sine, cosine and logarithm have larger errors than Arke allows.
      expect(ptx, probes[i].name).not.toMatch(/\b(sin|cos|lg2)\.approx\.ftz/)
    }
  })
})
