/**
 * Reads the bytes of a trace from a file, a buffer or a stream, chunk by chunk. Gzip and zstd are recognised by the
 * first bytes, not by the file name, and are decompressed. Damaged or truncated input yields the readable bytes before
 * the damage, and a warning.
 */
import { open } from 'node:fs/promises'
import type { Transform } from 'node:stream'
import { constants, createGunzip } from 'node:zlib'
import type { Warnings } from '../../timeline/warnings.ts'
import { AuditError } from '../auditError.ts'
import { isZstd, unzstd } from '../zstd.ts'

const PIECE = 1 << 20

export interface SourceOptions {
  /** Called with the number of raw (maybe compressed) bytes read so far. */
  onProgress?: (bytes: number) => void
  /**
   * Called with the length of each chunk, and with the numbers of decompressed and raw bytes so far. The callback may
   * throw.
   */
  onUnpacked?: (length: number, total: number, packed: number) => void
}

/**
 * Passes the bytes of `source` (a path or a buffer) to `push`, chunk by chunk. Returns the number of bytes that were
 * passed. A chunk is valid until `push` returns.
 */
export async function readBytes(
  source: string | Uint8Array | AsyncIterable<Uint8Array>,
  push: (piece: Uint8Array) => void,
  warnings: Warnings,
  { onProgress, onUnpacked }: SourceOptions = {},
): Promise<number> {
  const input =
    typeof source === 'string' ? piecesOfFile(source) : source instanceof Uint8Array ? pieces(source) : source
  let raw = 0
  let total = 0
  // An error that `push` throws is not an error of the file. An error of `push` is rethrown at the end, outside any
  // stream callback.
  let fault: { error: unknown } | undefined
  const give = (piece: Uint8Array): void => {
    if (fault) return
    total += piece.length
    try {
      if (gunzip) onUnpacked?.(piece.length, total, raw)
      push(piece)
    } catch (error) {
      fault = { error }
    }
  }
  let gunzip: Decompressor | undefined
  let first: Uint8Array = new Uint8Array(0)
  let isOpen = true
  try {
    for await (const piece of input) {
      // The first four bytes identify the compression format.
      if (isOpen) first = Buffer.concat([first, piece])
      raw += piece.length
      onProgress?.(raw)
      if (raw < 4) continue
      const bytes = isOpen ? first : piece
      if (isOpen) gunzip = decompressorFor(first, give, typeof source === 'string' ? source : 'the data')
      isOpen = false
      if (!gunzip) give(bytes)
      else if (!(await gunzip.write(bytes))) break
      if (fault) break
    }
    if (isOpen && raw > 0) {
      gunzip = decompressorFor(first, give, '')
      if (gunzip) await gunzip.write(first)
      else give(first)
    }
  } catch (error) {
    if (error instanceof AuditError) throw error
    warnings.add('unreadable', () => (error as Error).message)
  }
  const problem = await gunzip?.finish()
  if (problem) warnings.add('gzip', () => `the compressed data is damaged: ${problem}`)
  if (fault) throw fault.error
  return total
}

/** Reads the next chunk while the caller uses the previous chunk. Two buffers are used alternately. */
async function* piecesOfFile(path: string): AsyncGenerator<Uint8Array> {
  const file = await open(path)
  try {
    let [current, other] = [new Uint8Array(PIECE), new Uint8Array(PIECE)]
    let reading = file.read(current, 0, PIECE, null)
    for (;;) {
      const { bytesRead } = await reading
      if (bytesRead === 0) return
      reading = file.read(other, 0, PIECE, null)
      // A caller that stops before the end of the file does not await the read that is in progress.
      reading.catch(() => undefined)
      yield current.subarray(0, bytesRead)
      ;[current, other] = [other, current]
    }
  } finally {
    await file.close()
  }
}

function* pieces(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE)
}

/**
 * If zlib finds damage, it drops the output of the whole write call. Small files are passed to zlib in small parts, so
 * that damage loses less of their data.
 */
const SLICE = 1 << 16
const FIRST_SLICES = 1 << 12
/** The size of the gzip trailer (checksum and length). A wrong trailer must not cause data to be lost. */
const TRAILER = 8

function decompressorFor(
  head: Uint8Array,
  give: (piece: Uint8Array) => void,
  name: string,
): Decompressor | undefined {
  if (head[0] === 0x1f && head[1] === 0x8b)
    return new Decompressor(createGunzip({ chunkSize: PIECE, finishFlush: constants.Z_SYNC_FLUSH }), give)
  return isZstd(head) ? new Decompressor(unzstd(name), give) : undefined
}

/**
 * Decompresses one chunk after the other. Truncated input is not an error here, since the scanner reports that the
 * input is truncated.
 */
class Decompressor {
  private held = new Uint8Array(0)
  private written = 0
  private problem: string | undefined
  private readonly stream: Transform
  private readonly closed: Promise<void>

  constructor(stream: Transform, give: (piece: Uint8Array) => void) {
    this.stream = stream
    this.stream.on('data', give)
    this.closed = new Promise((resolve) => {
      this.stream.on('end', resolve)
      this.stream.on('close', resolve)
      this.stream.on('error', (error: Error) => {
        this.problem = error.message
        resolve()
      })
    })
  }

  /** Returns false if no further input can be decompressed. */
  async write(piece: Uint8Array): Promise<boolean> {
    const bytes = new Uint8Array(this.held.length + piece.length)
    bytes.set(this.held)
    bytes.set(piece, this.held.length)
    const to = Math.max(0, bytes.length - TRAILER)
    this.held = bytes.slice(to)
    for (let at = 0; at < to;) {
      const size = this.written < PIECE ? FIRST_SLICES : SLICE
      if (!(await this.slice(bytes.subarray(at, Math.min(to, at + size))))) return false
      at += size
    }
    return true
  }

  private async slice(bytes: Uint8Array): Promise<boolean> {
    this.written += bytes.length
    const written = new Promise<void>((resolve) => this.stream.write(bytes, () => resolve()))
    await Promise.race([written, this.closed])
    return this.problem === undefined && !this.stream.destroyed && !this.stream.readableEnded
  }

  async finish(): Promise<string | undefined> {
    if (this.problem === undefined && !this.stream.destroyed && this.held.length > 0)
      await this.slice(this.held)
    if (this.problem === undefined) this.stream.end()
    await this.closed
    return this.problem
  }
}
