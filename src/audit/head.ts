/**
 * Reads the first bytes of a file, decompressed if the file is gzip. These bytes are enough to recognise the file's
 * format.
 */
import { open } from 'node:fs/promises'
import { constants, gunzipSync } from 'node:zlib'

const HEAD = 4096

export async function headOf(path: string): Promise<Uint8Array> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(new Uint8Array(HEAD), 0, HEAD, 0)
    const head = buffer.subarray(0, bytesRead)
    if (head[0] !== 0x1f || head[1] !== 0x8b) return head
    try {
      return gunzipSync(head, { finishFlush: constants.Z_SYNC_FLUSH })
    } catch {
      return head
    }
  } finally {
    await file.close()
  }
}
