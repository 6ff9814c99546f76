/**
 * A handwritten event log in the format of kernels: 64 bytes of counters; 32 bytes for each of 4096 launches, with the
 * complement of the first start, the last end and the number of ended programs; then events of 48 bytes.
 */
import { viewNative } from '../../src/targets/cuda/node.ts'

const times = (launch: number): number => 64 + 32 * launch
const events = 64 + 32 * 4096
export const logBytes = events + 48 * 65536
const kinds = { program: 1, wait: 2, copy: 3 } as const

export interface MadeEvent {
  readonly kind: keyof typeof kinds
  readonly role?: number
  readonly site?: number
  readonly launch: number
  readonly program: number
  readonly sm: number
  readonly start: number
  readonly end: number
  readonly who?: number
  readonly amount?: number
}

/** Times are in nanoseconds after `epoch`, which is far from 0, like a device's clock. */
export const epoch = 1_700_000_000_000_000_000n

export class HandmadeLog {
  readonly #view: DataView

  constructor(memory: ArrayBuffer) {
    this.#view = new DataView(memory)
  }

  static at(address: bigint): HandmadeLog {
    return new HandmadeLog(viewNative(address, logBytes))
  }

  get launches(): number {
    return this.#view.getUint32(0, true)
  }

  /** Writes an event for the end of a program. The last program of a launch also ends the launch. */
  program(made: Omit<MadeEvent, 'kind'>, programs = 1): void {
    const { launch, start, end } = made
    this.event({ ...made, kind: 'program', who: made.program })
    const at = times(launch)
    const complement = BigInt.asUintN(64, ~(epoch + BigInt(start)))
    const [first, last] = [this.#view.getBigUint64(at, true), this.#view.getBigUint64(at + 8, true)]
    if (complement > first) this.#view.setBigUint64(at, complement, true)
    if (epoch + BigInt(end) > last) this.#view.setBigUint64(at + 8, epoch + BigInt(end), true)
    const ended = this.#view.getUint32(at + 16, true) + 1
    this.#view.setUint32(at + 16, ended, true)
    if (ended === programs) this.#view.setUint32(0, launch + 1, true)
  }

  event({ kind, role = 0, site = 0, launch, program, sm, start, end, who = 0, amount = 0 }: MadeEvent): void {
    const place = this.#claim()
    const at = events + 48 * place
    this.#view.setBigUint64(at, epoch + BigInt(start), true)
    this.#view.setBigUint64(at + 8, epoch + BigInt(end), true)
    const words = [launch, kinds[kind] + 4 * (role + 16 * site), who, amount, program, sm]
    words.forEach((word, i) => this.#view.setUint32(at + 16 + 4 * i, word, true))
  }

  /** Writes the number of events for which the log had no free entry. */
  lose(count: number): void {
    this.#view.setUint32(4, 65536 + count, true)
    this.#view.setUint32(8, count, true)
  }

  #claim(): number {
    const place = this.#view.getUint32(4, true)
    this.#view.setUint32(4, place + 1, true)
    return place
  }
}
