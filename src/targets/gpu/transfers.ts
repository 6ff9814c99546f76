/**
 * Copies elements between the host and a device through pinned memory, on a separate stream. Contract: a transfer has
 * completed when the call returns, even while kernels wait. Transfers are not ordered with launches.
 *
 * Even on a separate stream, a DMA copy may be queued behind earlier work of the copy engine. In a measurement with
 * four graphs of eight ranks pending behind a kernel that waited for the host, no copy executed. Kernels wait only for
 * writes of a few words, so such writes use no DMA copy.
 */
import { dtypes, type StorageDType } from '../../ir/dtype.ts'
import { fillElements, readElements, writeElements } from '../../world/elements.ts'
import { isWords } from '../../world/host.ts'
import { WorldError } from '../../world/world.ts'
import type { Device, HostMemory, Stream } from './device.ts'

const STAGING_BYTES = 8 * 1024 * 1024
/** The time in milliseconds after which one chunk of a copy is considered blocked. */
const patience = 20_000

export class Transfers {
  readonly #stream: Stream
  readonly #staging: HostMemory
  #isHeldUp = false
  #canWriteWords = true

  constructor(device: Device) {
    this.#stream = device.createStream(true)
    this.#staging = device.allocateHost(STAGING_BYTES)
  }

  write(to: bigint, dtype: StorageDType, contents: ArrayLike<number>): void {
    this.#expectFree()
    if (isWords(dtype, contents.length) && this.#haveWritten(to, dtype, contents)) return
    this.#inPieces(dtype, contents.length, (at, count, bytes) => {
      writeElements(this.#staging.view, 0, dtype, part(contents, at, count))
      this.#in(to + BigInt(at * dtypes[dtype].bytes), bytes)
    })
  }

  /**
   * Writes words without a DMA copy. If the driver cannot write words without a DMA copy, the result is false, and from
   * then on all words are copied by DMA.
   */
  #haveWritten(to: bigint, dtype: StorageDType, contents: ArrayLike<number>): boolean {
    if (!this.#canWriteWords) return false
    writeElements(this.#staging.view, 0, dtype, contents)
    const words = new Uint32Array(this.#staging.view, 0, contents.length)
    try {
      words.forEach((word, n) => this.#stream.writeWord(to + BigInt(4 * n), word))
    } catch {
      // If the driver call failed for another reason than missing support, the DMA copy that follows fails as well and
      // reports that reason.
      this.#canWriteWords = false
      return false
    }
    this.#end()
    return true
  }

  fill(to: bigint, dtype: StorageDType, count: number, value: number): void {
    this.#expectFree()
    fillElements(
      this.#staging.view,
      0,
      dtype,
      Math.min(count, Math.floor(STAGING_BYTES / dtypes[dtype].bytes)),
      value,
    )
    this.#inPieces(dtype, count, (at, _, bytes) => this.#in(to + BigInt(at * dtypes[dtype].bytes), bytes))
  }

  read(from: bigint, dtype: StorageDType, count: number): Float64Array {
    this.#expectFree()
    const contents = new Float64Array(count)
    this.#inPieces(dtype, count, (at, piece, bytes) => {
      const source = from + BigInt(at * dtypes[dtype].bytes)
      this.#stream.startCopyOut(new Uint8Array(this.#staging.view, 0, bytes), source)
      this.#end()
      contents.set(readElements(this.#staging.view, 0, dtype, piece), at)
    })
    return contents
  }

  copy(to: bigint, from: bigint, bytes: number): void {
    if (bytes === 0) return
    this.#expectFree()
    this.#stream.copy(to, from, bytes)
    this.#end()
  }

  #in(to: bigint, bytes: number): void {
    this.#stream.copyIn(to, new Uint8Array(this.#staging.view, 0, bytes))
    this.#end()
  }

  /**
   * Polls until the copy to or from the device has completed. A blocking driver call would never return if the copy is
   * queued behind a kernel that has to be aborted first.
   */
  #end(): void {
    const start = performance.now()
    while (!this.#stream.isIdle()) {
      if (performance.now() - start < patience) continue
      this.#isHeldUp = true
      this.#expectFree()
    }
  }

  /**
   * Throws an error if an earlier copy is blocked, because the blocked copy may still read or write the staging memory.
   */
  #expectFree(): void {
    if (!this.#isHeldUp) return
    throw new WorldError(
      `a copy between the host and a device has not ended for ${patience} ms: it is queued behind earlier launches, which cannot be stopped`,
    )
  }

  #inPieces(
    dtype: StorageDType,
    count: number,
    move: (at: number, count: number, bytes: number) => void,
  ): void {
    const size = dtypes[dtype].bytes
    const most = Math.floor(STAGING_BYTES / size)
    for (let at = 0; at < count; at += most) {
      const piece = Math.min(most, count - at)
      move(at, piece, piece * size)
    }
  }
}

function part(contents: ArrayLike<number>, at: number, count: number): ArrayLike<number> {
  if (at === 0 && count === contents.length) return contents
  if (contents instanceof Float32Array || contents instanceof Float64Array)
    return contents.subarray(at, at + count)
  return Array.prototype.slice.call(contents, at, at + count) as number[]
}

const known = new WeakMap<Device, Transfers>()

/**
 * Returns the object that transfers data to and from a device. Each device has one transfer object, which later worlds
 * reuse.
 */
export function transfersOf(device: Device): Transfers {
  let transfers = known.get(device)
  if (!transfers) known.set(device, (transfers = new Transfers(device)))
  return transfers
}
