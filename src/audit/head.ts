/**
 * Reads the first bytes of a file, decompressed if the file is gzip. The first bytes are enough to recognise the file's
 * format.
 */
import { open } from 'node:fs/promises'
import zlib, { constants, gunzipSync } from 'node:zlib'
import { isZstd } from './zstd.ts'

const HEAD = 4096

export async function headOf(path: string): Promise<Uint8Array> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(new Uint8Array(HEAD), 0, HEAD, 0)
    return unpackedHead(buffer.subarray(0, bytesRead))
  } finally {
    await file.close()
  }
}

/** The first bytes of a file, decompressed if they are gzip or zstd. */
export function unpackedHead(head: Uint8Array): Uint8Array {
  try {
    if (head[0] === 0x1f && head[1] === 0x8b) return gunzipSync(head, { finishFlush: constants.Z_SYNC_FLUSH })
    const unzstdSync = (zlib as { zstdDecompressSync?: UnzstdSync }).zstdDecompressSync
    if (isZstd(head) && unzstdSync) return unzstdSync(head, { finishFlush: ZSTD_FLUSH })
  } catch {
    // Damaged data causes no error here, because the reader of the whole file reports the damage.
  }
  return head
}

type UnzstdSync = (bytes: Uint8Array, options: { finishFlush: number }) => Uint8Array
/** `constants.ZSTD_e_flush`, which older versions of Node lack. */
const ZSTD_FLUSH = 1
