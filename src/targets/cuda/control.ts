/**
 * Control blocks: the abort word of a launch and, for each of its programs, a record of what it waited for when it was stopped.
 * They lie in the device's memory, since every program looks at the abort word and thousands that look at the host's wait for each
 * other for hundreds of microseconds; the host writes and reads them by copies, which need no multiprocessor. Contract: every
 * launch that is under way has a block of its own, so that records tell which launch wrote them; of blocks that are taken no
 * abort is raised and no record written.
 */
import type { Device } from './device.ts'
import { transfersOf } from './transfers.ts'

export interface Control {
  readonly device: Device
  readonly address: bigint
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

export const abort = ({ device, address }: Control): void => transfersOf(device).write(address, 'u32', [1])

export function recordsOf({ device, address }: Control, programs: number): WaitRecord[] {
  const words = transfersOf(device).read(address + BigInt(4 * HEAD_WORDS), 'u32', programs * RECORD_WORDS)
  const records: WaitRecord[] = []
  for (let program = 0; program < programs; program++) {
    const at = program * RECORD_WORDS
    const [site, owner, value, wanted] = words.subarray(at, at + RECORD_WORDS)
    if (site > 0) records.push({ program, site, owner, value, wanted })
  }
  return records
}

/** Of one device. */
export class Controls {
  readonly #device: Device
  readonly #records: number
  readonly #blockWords: number
  readonly #pieces: bigint[] = []
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
    for (const piece of this.#pieces) this.#clear(piece)
  }

  #clear(piece: bigint): void {
    const words = new Uint32Array(this.#blockWords * BLOCKS_A_PIECE)
    for (let block = 0; block < BLOCKS_A_PIECE; block++) words[block * this.#blockWords + 1] = this.#records
    transfersOf(this.#device).write(piece, 'u32', words)
  }

  #grow(): void {
    const bytes = 4 * this.#blockWords
    const piece = this.#device.allocate(bytes * BLOCKS_A_PIECE)
    this.#pieces.push(piece)
    this.#clear(piece)
    for (let block = 0; block < BLOCKS_A_PIECE; block++)
      this.#free.push({ device: this.#device, address: piece + BigInt(block * bytes) })
  }

  close(): void {
    for (const piece of this.#pieces) this.#device.free(piece)
  }
}
