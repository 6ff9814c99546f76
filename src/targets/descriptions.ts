/**
 * The descriptions of all targets that have stages. descriptions.ts loads neither the code generator nor the runtime of
 * any target.
 */
import { cudaDescription } from './cuda/description.ts'
import type { TargetDescription } from './description.ts'
import { nativeDescription } from './native/description.ts'
import type { StagedTarget } from './stages.ts'
import { wasmDescription } from './wasm/description.ts'

export const descriptions: Readonly<Record<StagedTarget, TargetDescription>> = {
  cuda: cudaDescription,
  native: nativeDescription,
  wasm: wasmDescription,
}
