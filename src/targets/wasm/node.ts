/**
 * Sets V8 flags for the wasm target, which apply to the whole process. The functions of this file must be called before
 * any WebAssembly is compiled.
 */
import process from 'node:process'
import { setFlagsFromString } from 'node:v8'
import { wasmFeatures } from './engine.ts'

/**
 * Returns whether relaxed SIMD is available. Node 20 hides relaxed SIMD behind a flag, which this function sets.
 * Versions of Node later than 20 ignore the flag for relaxed SIMD.
 */
export function enableRelaxedSimd(): boolean {
  if (wasmFeatures().relaxedSimd) return true
  setFlagsFromString('--experimental-wasm-relaxed-simd')
  return wasmFeatures().relaxedSimd
}

/**
 * Makes V8 optimise WebAssembly functions when they are loaded. By default, V8 starts with baseline code that is about
 * ten times slower and optimises functions that are called often. A long-running call would remain slow, because V8
 * does not replace code that is running.
 */
export function optimiseWhenLoaded(): void {
  setFlagsFromString('--no-liftoff')
  setFlagsFromString('--no-wasm-lazy-compilation')
  // Optimised code that can be deoptimised queries the baseline compiler's feedback. In V8 14.6 (Node 26), missing
  // feedback crashes the process.
  if (Number.parseInt(process.versions.v8) >= 13) setFlagsFromString('--no-wasm-deopt')
}
