/** Defines the result of lowering a kernel: its code, and the facts that the host needs to launch it. */
import type { Site } from '../../ir/site.ts'
import type { CodeModule, Machine } from './code.ts'

export interface Lowered {
  readonly module: CodeModule
  /** The number of workers per program: 1, or the number of roles of the kernel. */
  readonly roles: number
  /**
   * The size in bytes of one program's memory: header, shared tiles and fragments. The size of a program's memory is a
   * multiple of 64.
   */
  readonly frameBytes: number
  /**
   * The number of 32-bit arrival counters per rank that the kernel's `last` ops need. The counters are zero between
   * launches.
   */
  readonly counterWords: number
  /** The author's source lines, indexed by the numbers (sites) by which worker slots and events refer to them. */
  readonly sites: readonly (Site | undefined)[]
  /** The messages of the assertions, indexed by the number (site) of the assertion's source line. */
  readonly messages: readonly (string | undefined)[]
  readonly params: readonly string[]
  /** A source line that makes programs depend on concurrently running programs, or undefined if the kernel has none. */
  readonly needsResidency: { readonly site: Site | undefined } | undefined
  /**
   * The differences between the kernel that records events and the same kernel without recording, apart from the code
   * that writes the log of events.
   */
  readonly unlike: readonly string[]
}

/** The host's side of a CPU target: it compiles Code into bytes that a worker can load. */
export interface Engine {
  readonly machine: Machine
  /**
   * Compiles a module of Code. Compiled modules are cached in memory and on disk, so callers may compile the same
   * module again.
   */
  compile(module: CodeModule): Uint8Array
  /**
   * Compiles a module without blocking this thread, for targets whose compiler is slow. Once the compilation has ended,
   * `compile` returns its result at once.
   */
  prepare?(module: CodeModule): Promise<void>
  /**
   * Wakes kernels that sleep on the word at this offset. If `wake` is absent, `Atomics.notify` wakes the kernels.
   */
  readonly wake?: (memory: WebAssembly.Memory, offset: number) => void
}
