/** What the wasm target asks of Node alone: flags of V8, for the whole process. Call these before anything is compiled. */
import process from 'node:process'
import { setFlagsFromString } from 'node:v8'
import { wasmFeatures } from './engine.ts'

/** Whether relaxed SIMD is there, switched on if Node (20) keeps it behind a flag. Later versions do not know the flag. */
export function enableRelaxedSimd(): boolean {
  if (wasmFeatures().relaxedSimd) return true
  setFlagsFromString('--experimental-wasm-relaxed-simd')
  return wasmFeatures().relaxedSimd
}

/**
 * Has kernels optimised when they are loaded. Otherwise V8 starts with code that is about ten times slower, optimises what is
 * called often, and a call that runs for long never gets the better code, since it is not replaced while it runs.
 */
export function optimiseWhenLoaded(): void {
  setFlagsFromString('--no-liftoff')
  setFlagsFromString('--no-wasm-lazy-compilation')
  // Code that may go back to Liftoff's asks what that one has seen; in V8 14.6 (Node 26) a missing answer ends the process.
  if (Number.parseInt(process.versions.v8) >= 13) setFlagsFromString('--no-wasm-deopt')
}
