/**
 * Counts how often the host has signalled each flag. No kernel signals the flags that the host signals, so the count is
 * the value of the flag.
 */
import { elements } from '../ir/type.ts'
import { isExtent } from './allocator.ts'
import { misuse, type SymmetricFlags } from './world.ts'

export class HostSignals {
  /** The number of times that the host has signalled each flag, by rank and index. */
  #signalled = new WeakMap<SymmetricFlags, Map<number, number>>()

  /**
   * Calls `post` with the index of the flag and its new value. If `post` throws an error, the signal is not counted.
   */
  signal(
    flags: SymmetricFlags,
    rank: number,
    at: readonly number[],
    post: (index: number, value: number) => void,
  ): void {
    if (flags.signaller !== 'host')
      throw misuse(
        `${flags.name} is signalled by kernels, which count its epochs: allocate it with { signaller: 'host' } to signal it from the host`,
      )
    const { shape, name } = flags
    if (at.length !== shape.length || !at.every((i, axis) => isExtent(i) && i < shape[axis]))
      throw misuse(`there is no flag [${at.join(', ')}] in ${name} of shape [${shape.join(', ')}]`)
    const index = at.reduce((sum, i, axis) => sum * shape[axis] + i, 0)
    let counts = this.#signalled.get(flags)
    if (!counts) this.#signalled.set(flags, (counts = new Map()))
    const key = rank * elements(shape) + index
    const count = (counts.get(key) ?? 0) + 1
    post(index, count >>> 0)
    counts.set(key, count)
  }

  /** Resets all counts, when all flags have become zero. */
  forget(): void {
    this.#signalled = new WeakMap()
  }
}
