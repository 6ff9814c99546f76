/**
 * Node-specific setup of the wasm target: V8 flags for the whole process. Call these functions before anything is
 * compiled.
 */
import process from 'node:process'
import { setFlagsFromString } from 'node:v8'
import { wasmFeatures } from './engine.ts'

/**
 * Returns whether relaxed SIMD is available. Node 20 hides it behind a flag, which this function sets. Later versions
 * ignore the flag.
 */
export function enableRelaxedSimd(): boolean {
  if (wasmFeatures().relaxedSimd) return true
  setFlagsFromString('--experimental-wasm-relaxed-simd')
  return wasmFeatures().relaxedSimd
}

/**
 * Makes V8 optimise kernels when they are loaded. By default, V8 starts with baseline code that is about ten times
 * slower and optimises functions that are called often. A long-running call would keep the slow code, because V8 does
 * not replace running code.
 */
export function optimiseWhenLoaded(): void {
  setFlagsFromString('--no-liftoff')
  setFlagsFromString('--no-wasm-lazy-compilation')
  // Deoptimisable code queries the baseline compiler's feedback. In V8 14.6 (Node 26), missing feedback crashes the
  // process.
  if (Number.parseInt(process.versions.v8) >= 13) setFlagsFromString('--no-wasm-deopt')
}
