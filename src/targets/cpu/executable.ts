/** What lowering makes of a kernel: code, and what the host must know to launch it. */
import type { Site } from '../../ir/site.ts'
import type { CodeModule, Machine } from './code.ts'

export interface Lowered {
  readonly module: CodeModule
  /** Workers that a program needs: 1, or as many as its roles. */
  readonly roles: number
  /** Memory of a program: header, shared tiles, fragments. A multiple of 64. */
  readonly frameBytes: number
  /** Words for each rank that are zero between launches. */
  readonly counterWords: number
  /** The author's lines, by the number that slots and events carry. */
  readonly sites: readonly (Site | undefined)[]
  readonly params: readonly string[]
  /** A line that makes programs depend on others that run at the same time, if there is one. */
  readonly needsResidency: { readonly site: Site | undefined } | undefined
  /** Of a kernel that records: how it differs from the one that is launched otherwise, besides its log. */
  readonly unlike: readonly string[]
}

/** The host's side of a CPU target: turns code into bytes that a worker can load. */
export interface Engine {
  readonly machine: Machine
  /** May be asked for the same module again: it keeps results, in memory and on disk. */
  compile(module: CodeModule): Uint8Array
  /** Where compiling takes long: does it without blocking this thread, so that `compile` then has the result at hand. */
  prepare?(module: CodeModule): Promise<void>
}
