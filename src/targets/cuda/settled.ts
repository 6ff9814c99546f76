/**
 * What launches under way may write, and read early. A kernel may copy from a tensor while the launch ahead of it still ends if no
 * launch since the world last idled writes that tensor, on any rank. Whoever is to write it on another rank or stream after that
 * waits, on the host, until the world idles: the launch ahead may be waiting for that write, and all after it would have to see it. Where
 * somebody else enqueues work on the world's streams nothing is known, and nothing is settled.
 */
import { u32, type Launch } from './runtime.ts'

/** Memory of tensors that a launch accesses. */
export interface Accesses {
  readonly launch: Launch
  /** Groups that are read while the launch ahead ends, each where all of it is settled. */
  readonly early: readonly (readonly object[])[]
  readonly writes: readonly object[]
  readonly writesElsewhere: readonly object[]
  /** Which kernel parameter says which are, a bit for each; -1: none. */
  readonly settledAt: number
  /** What that parameter says now. */
  settled: number
}

export class Settled {
  readonly #written = new Set<object>()
  readonly #readEarly = new Set<object>()
  #isForeign = false

  /** Work of others may be on the streams from now on. */
  forgo(): void {
    this.#isForeign = true
  }

  /** Nothing runs. */
  clear(): void {
    this.#written.clear()
    this.#readEarly.clear()
  }

  /** Whether these have to wait until nothing runs; on the one stream there is, what they write on their own rank comes later. */
  disturb(parts: readonly Accesses[], isOneStream: boolean): boolean {
    if (this.#readEarly.size === 0) return false
    return parts.some(({ writes, writesElsewhere }) =>
      (isOneStream ? writesElsewhere : writes).some((memory) => this.#readEarly.has(memory)),
    )
  }

  /** These are launched. */
  note(parts: readonly Pick<Accesses, 'writes'>[]): void {
    for (const { writes } of parts) for (const memory of writes) this.#written.add(memory)
  }

  /** Before these are launched together; they may start while what is ahead of them ends, or not. */
  tell(parts: readonly Accesses[], mayStartEarly: boolean): void {
    this.note(parts)
    for (const part of parts) {
      if (part.settledAt < 0) continue
      let settled = 0
      if (mayStartEarly && !this.#isForeign)
        part.early.forEach((group, i) => {
          if (group.some((memory) => this.#written.has(memory))) return
          for (const memory of group) this.#readEarly.add(memory)
          settled |= 1 << i
        })
      if (settled === part.settled) continue
      part.launch.setArgument(part.settledAt, u32(settled))
      part.settled = settled
    }
  }
}
