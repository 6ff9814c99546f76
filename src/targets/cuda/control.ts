/**
 * Control blocks: the abort word of a launch and, for each of its programs, a record of what it waited for when it was stopped,
 * in memory that host and device both see. Contract: every launch that is under way has a block of its own, so that records tell
 * which launch wrote them; of blocks that are taken no abort is raised and no record written.
 */
import type { Device, HostMemory } from './runtime.ts'

export interface Control {
  readonly address: bigint
  readonly words: Uint32Array
}

export interface WaitRecord {
  readonly program: number
  /** One more than the place in the kernel's `waitSites`. */
  readonly site: number
  readonly owner: number
  readonly value: number
  readonly wanted: number
}

/** The abort word, how many records the block has room for, two that are unused. */
const HEAD_WORDS = 4
/** In place of the rank whose flag it was: a loop, or a barrier of the program's own. */
export const NO_FLAG = 0xffff_ffff
const RECORD_WORDS = 4
const BLOCKS_A_PIECE = 128

export const abort = ({ words }: Control): void => void (words[0] = 1)

export function recordsOf({ words }: Control, programs: number): WaitRecord[] {
  const records: WaitRecord[] = []
  for (let program = 0; program < programs; program++) {
    const at = HEAD_WORDS + program * RECORD_WORDS
    const [site, owner, value, wanted] = words.subarray(at, at + RECORD_WORDS)
    if (site > 0) records.push({ program, site, owner, value, wanted })
  }
  return records
}

export class Controls {
  readonly #device: Device
  readonly #records: number
  readonly #blockWords: number
  readonly #pieces: HostMemory[] = []
  readonly #free: Control[] = []

  /** `programs`: the most that a launch has whose programs wait. */
  constructor(device: Device, programs: number) {
    this.#device = device
    this.#records = programs
    this.#blockWords = HEAD_WORDS + RECORD_WORDS * programs
  }

  take(): Control {
    if (this.#free.length === 0) this.reserve(BLOCKS_A_PIECE)
    return this.#free.pop()!
  }

  /** So many more can be taken before memory must be had, for which a driver may wait until no kernel runs. */
  reserve(count: number): void {
    for (let blocks = 0; blocks < count; blocks += BLOCKS_A_PIECE) this.#grow()
  }

  giveBack(control: Control): void {
    this.#free.push(control)
  }

  /** After a stop. */
  clear(): void {
    for (const { view } of this.#pieces) {
      const words = new Uint32Array(view).fill(0)
      for (let at = 0; at + this.#blockWords <= words.length; at += this.#blockWords)
        words[at + 1] = this.#records
    }
  }

  #grow(): void {
    const bytes = 4 * this.#blockWords
    const piece = this.#device.allocateHost(bytes * BLOCKS_A_PIECE)
    this.#pieces.push(piece)
    for (let block = 0; block < BLOCKS_A_PIECE; block++) {
      const words = new Uint32Array(piece.view, block * bytes, this.#blockWords)
      words[1] = this.#records
      this.#free.push({ address: piece.address + BigInt(block * bytes), words })
    }
  }

  close(): void {
    for (const piece of this.#pieces) piece.free()
  }
}
