/** The result of lowering a kernel: its code, and the facts that the host needs to launch it. */
import type { Site } from '../../ir/site.ts'
import type { CodeModule, Machine } from './code.ts'

export interface Lowered {
  readonly module: CodeModule
  /** The number of workers per program: 1, or the number of the kernel's roles. */
  readonly roles: number
  /** The size in bytes of one program's memory: header, shared tiles and fragments. A multiple of 64. */
  readonly frameBytes: number
  /** The number of counter words per rank. These words are zero between launches. */
  readonly counterWords: number
  /** The author's source lines, indexed by the site number in slots and events. */
  readonly sites: readonly (Site | undefined)[]
  /** The messages of the assertions, by the same number. */
  readonly messages: readonly (string | undefined)[]
  readonly params: readonly string[]
  /** A source line that makes programs depend on concurrently running programs, or undefined if the kernel has none. */
  readonly needsResidency: { readonly site: Site | undefined } | undefined
  /** For a recording kernel: how it differs from the unrecorded kernel, apart from the log. */
  readonly unlike: readonly string[]
}

/** The host's side of a CPU target: it compiles Code into bytes that a worker can load. */
export interface Engine {
  readonly machine: Machine
  /** Compiles a module. Results are cached in memory and on disk, so callers may compile the same module again. */
  compile(module: CodeModule): Uint8Array
  /**
   * Compiles without blocking this thread, for targets whose compiler is slow. A later `compile` then returns at once.
   */
  prepare?(module: CodeModule): Promise<void>
  /** Wakes kernels that sleep on the word at this offset. If absent, `Atomics.notify` wakes them. */
  readonly wake?: (memory: WebAssembly.Memory, offset: number) => void
}
