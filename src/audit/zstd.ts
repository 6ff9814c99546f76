/**
 * Decompresses zstd with Node's own decoder, which Node has had since version 22.15. Arke does not contain its own zstd
 * decoder. With an older version of Node, Arke rejects zstd files with an error that says what to do.
 */
import { open } from 'node:fs/promises'
import type { Transform } from 'node:stream'
import zlib from 'node:zlib'
import { AuditError } from './auditError.ts'

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd] as const

export const isZstd = (head: Uint8Array): boolean => MAGIC.every((byte, i) => head[i] === byte)

/** Throws an `AuditError` if the file is compressed with zstd and this version of Node cannot decompress it. */
export async function refuseZstd(path: string): Promise<void> {
  try {
    const file = await open(path)
    try {
      const { buffer } = await file.read(new Uint8Array(MAGIC.length), 0, MAGIC.length, 0)
      if (isZstd(buffer)) unzstd(path).destroy()
    } finally {
      await file.close()
    }
  } catch (error) {
    // A failure to read the file is ignored here, because the trace reader reports it.
    if (error instanceof AuditError) throw error
  }
}

type Create = (options?: { chunkSize?: number }) => Transform

/** Throws an `AuditError` if this version of Node cannot decompress zstd. */
export function unzstd(path: string): Transform {
  const create = (zlib as { createZstdDecompress?: Create }).createZstdDecompress
  if (create === undefined)
    throw new AuditError(
      `${path}: this is compressed with zstd, which Node ${process.versions.node} cannot read (22.15 and newer can); ` +
        'decompress it with `zstd -d`',
    )
  return create({ chunkSize: 1 << 20 })
}
