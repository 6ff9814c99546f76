/**
 * Detects archives, and rejects kinds of archives that Arke does not read. An archive is recognised by its file name
 * extension or by its first bytes.
 */
import { AuditError } from './auditError.ts'
import { headOf } from './head.ts'

const archiveName = /\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tlz|tzst|zip|7z|rar)$/i

/** The kinds of archives that Arke does not read, by their file names and their first bytes. */
const refused: readonly (readonly [name: RegExp, start: string, what: string])[] = [
  [/\.7z$/i, "7z\xbc\xaf'\x1c", 'a 7z archive'],
  [/\.rar$/i, 'Rar!\x1a\x07', 'a rar archive'],
  [/\.(tar\.bz2?|tbz2?)$/i, 'BZh', 'compressed with bzip2'],
  [/\.(tar\.xz|txz)$/i, '\xfd7zXZ', 'compressed with xz'],
  [/\.(tar\.lz|tlz)$/i, 'LZIP', 'compressed with lzip'],
]

/** Throws an `AuditError` if the archive is of a kind that Arke does not read. */
export async function refuseArchive(path: string): Promise<void> {
  const head = Buffer.from(await headOf(path)).toString('latin1')
  const found = refused.find(([name, start]) => head.startsWith(start) || name.test(path))
  if (found)
    throw new AuditError(
      `${path}: this is ${found[2]}, which is not supported; unpack it and audit its files`,
    )
}

/** The first bytes of zip archives (with and without members), of 7z archives and of rar archives. */
const MAGIC = ['PK\x03\x04', 'PK\x05\x06', "7z\xbc\xaf'\x1c", 'Rar!\x1a\x07']
/** The magic number of a tar archive, and its offset in the first header. */
const TAR = { at: 257, text: 'ustar' } as const

export const isArchiveName = (path: string): boolean => archiveName.test(path)

export function isArchiveHead(bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  return MAGIC.some((magic) => head.startsWith(magic)) || head.startsWith(TAR.text, TAR.at)
}

/**
 * True if the file is an archive. Returns false if the file cannot be read, because the trace reader reports that
 * error.
 */
export async function isArchive(path: string): Promise<boolean> {
  if (isArchiveName(path)) return true
  try {
    return isArchiveHead(await headOf(path))
  } catch {
    return false
  }
}
