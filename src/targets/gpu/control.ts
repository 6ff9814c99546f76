/**
 * Manages control blocks in device memory. A control block holds the abort word of a launch and, for each program of
 * the launch, a record of what the program waited for when the launch was aborted. Control blocks are stored in device
 * memory, because every program polls the abort word: thousands of programs that poll host memory would delay each
 * other by hundreds of microseconds. The host writes and reads control blocks by copies, which need no multiprocessor.
 * Contract: each launch in flight has its own control block, so that a wait record identifies its launch. In a control
 * block that `take` returns, the abort word is 0 and no wait record is set.
 */
import type { Device } from './device.ts'
import { transfersOf } from './transfers.ts'

export interface Control {
  readonly device: Device
  readonly address: bigint
}

export interface WaitRecord {
  readonly program: number
  /** The index of the source line in the kernel's `waitSites`, plus 1. */
  readonly site: number
  readonly owner: number
  readonly value: number
  readonly wanted: number
}

/**
 * The header words: the abort word, the number of records that the block can hold, the number of the first assertion
 * that failed (0 if no assertion failed), and the program in which it failed.
 */
const HEAD_WORDS = 4
/**
 * The value of `owner` in a wait record if the program waited in a loop or at one of its barriers, and not for a flag.
 */
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

/** A failed assertion of a launch. */
export interface Failure {
  readonly program: number
  /** The index of the failed assertion in the kernel's `assertions`, plus 1. */
  readonly assertion: number
}

/** Returns the first assertion that failed in the launch, or undefined if no assertion failed. */
export function failureOf({ device, address }: Control): Failure | undefined {
  const [assertion, program] = transfersOf(device).read(address + 8n, 'u32', 2)
  return assertion === 0 ? undefined : { assertion, program }
}

/** The control blocks of one device. */
export class Controls {
  readonly #device: Device
  readonly #records: number
  readonly #blockWords: number
  readonly #pieces: bigint[] = []
  readonly #free: Control[] = []

  /** The parameter `programs` is the largest number of programs of any launch whose programs wait. */
  constructor(device: Device, programs: number) {
    this.#device = device
    this.#records = programs
    this.#blockWords = HEAD_WORDS + RECORD_WORDS * programs
  }

  take(): Control {
    if (this.#free.length === 0) this.reserve(BLOCKS_A_PIECE)
    return this.#free.pop()!
  }

  /**
   * Allocates at least `count` more control blocks. A driver may delay an allocation until no kernel runs, so the
   * blocks are allocated before `take` needs them.
   */
  reserve(count: number): void {
    for (let blocks = 0; blocks < count; blocks += BLOCKS_A_PIECE) this.#grow()
  }

  giveBack(control: Control): void {
    this.#free.push(control)
  }

  /** Resets all control blocks after the world was aborted. */
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
