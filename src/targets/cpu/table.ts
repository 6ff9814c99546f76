/** Holds the executables of a world, by number, in the shared memory from which its workers load them. */
import type { KernelIR } from '../../ir/node.ts'
import { WorldError } from '../../world/world.ts'
import { executable, mostExecutables } from './abi.ts'
import {
  compile,
  prepare,
  specialisationKey,
  type Executable,
  type Specialisation,
  type Wanted,
} from './executables.ts'
import type { CpuPlatform } from './host.ts'
import type { Layout } from './layout.ts'
import type { Arena } from './pool.ts'
import type { PrivateMemory } from './private.ts'

export class ExecutableTable {
  readonly #platform: CpuPlatform
  readonly #record: boolean
  readonly #arena: Arena
  readonly #layout: Layout
  readonly #private: PrivateMemory
  readonly #known = new Map<KernelIR, Map<string, Executable>>()
  /** The last executable number that was assigned. Executable number 0 is reserved (see `awaitQueue` in abi.ts). */
  #last = 0

  constructor(
    platform: CpuPlatform,
    record: boolean,
    arena: Arena,
    layout: Layout,
    privateMemory: PrivateMemory,
  ) {
    this.#platform = platform
    this.#record = record
    this.#arena = arena
    this.#layout = layout
    this.#private = privateMemory
  }

  #wanted(ir: KernelIR, facts: Specialisation): Wanted {
    const { engine, lower } = this.#platform
    return { ir, engine, lower, record: this.#record, ...facts }
  }

  /** Compiles a kernel without blocking this thread. Once the compilation has ended, `get` returns at once. */
  prepare(ir: KernelIR, facts: Specialisation): Promise<void> {
    return prepare(this.#wanted(ir, facts))
  }

  /** Returns the executable of a kernel and compiles it on first use. */
  get(ir: KernelIR, facts: Specialisation): Executable {
    let ofKernel = this.#known.get(ir)
    if (!ofKernel) this.#known.set(ir, (ofKernel = new Map()))
    const key = specialisationKey(facts)
    const known = ofKernel.get(key)
    if (known) return known
    const number = this.#last + 1
    if (number === mostExecutables) throw new WorldError(`a world has at most ${mostExecutables} kernels`)
    const { lowered, bytes } = compile(this.#wanted(ir, facts))
    const pointer = this.#private.take(bytes.length)
    const { memory, words } = this.#arena
    new Uint8Array(memory.buffer, pointer, bytes.length).set(bytes)
    const at = this.#layout.executables + number * executable.bytes
    words[(at + executable.pointer) >>> 2] = pointer | 0
    words[(at + executable.pointer + 4) >>> 2] = 0
    words[(at + executable.length) >>> 2] = bytes.length
    words[(at + executable.roles) >>> 2] = lowered.roles
    const made: Executable = { number, lowered, bytes }
    ofKernel.set(key, made)
    this.#last = number
    return made
  }
}
