/** Tests feature detection, the engine's cache, and loading in a worker. */
import { describe, expect, test } from 'vitest'
import * as build from '../../../src/targets/cpu/build.ts'
import type { CodeModule } from '../../../src/targets/cpu/code.ts'
import { loadWasm, wasmEngine, wasmFeatures, wasmMachine } from '../../../src/targets/wasm/engine.ts'
import { enableRelaxedSimd, optimiseWhenLoaded } from '../../../src/targets/wasm/node.ts'

/** A module whose entry point number e returns the sum of 10 * e and its three arguments. */
const sums = (entries: number): CodeModule => ({
  name: 'sums',
  machine: wasmMachine,
  entries: Array.from({ length: entries }, (_, entry) =>
    build.codeFunction(
      'sum',
      [
        ['launch', 'ptr'],
        ['frame', 'ptr'],
        ['slot', 'ptr'],
      ],
      (writer, launch, frame, slot) => {
        const all = build.add(build.add(launch, frame), slot)
        writer.return(build.add(build.convert('bits', 'i32', all), build.i32(entry * 10)))
      },
      { result: 'i32' },
    ),
  ),
})

describe('features', () => {
  test('Node has SIMD and threads, and relaxed SIMD once its flag is set', () => {
    expect(wasmFeatures()).toMatchObject({ simd: true, threads: true })
    const relaxedSimd = enableRelaxedSimd()
    expect(wasmFeatures().relaxedSimd).toBe(relaxedSimd)
    expect(enableRelaxedSimd()).toBe(relaxedSimd)
  })

  test('an engine throws if a required feature is missing', () => {
    const none = { simd: true, threads: true, relaxedSimd: false }
    expect(() => wasmEngine({ ...none, simd: false })).toThrow('no SIMD')
    expect(() => wasmEngine({ ...none, threads: false })).toThrow('no threads')
  })
})

describe('an engine', () => {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })

  test('returns the same array for equal modules and another one for a different module', () => {
    const engine = wasmEngine()
    const module = sums(2)
    const bytes = engine.compile(module)
    expect(engine.compile(module)).toBe(bytes)
    expect(engine.compile(sums(2))).toBe(bytes)
    expect(engine.compile(sums(3))).not.toBe(bytes)
  })

  test('compiles bytes that a worker loads, also from shared memory, optimised or not', () => {
    const bytes = wasmEngine().compile(sums(12))
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length))
    shared.set(bytes)
    for (const prepare of [(): void => undefined, optimiseWhenLoaded]) {
      prepare()
      const entries = loadWasm(shared, memory, () => 0)
      expect(entries.map((entry) => entry(1, 2, 3))).toEqual(Array.from({ length: 12 }, (_, e) => 6 + e * 10))
    }
  })
})
