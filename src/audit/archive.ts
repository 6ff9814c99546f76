/**
 * Detects archives. An archive holds several files, so it cannot be read as one trace: the contents of its members
 * would be mixed. An archive is recognised by its file name extension, or by its first bytes whatever its name.
 */
import { headOf } from './head.ts'

const archiveName = /\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tlz|tzst|zip|7z|rar)$/i

/** These are the first bytes of zip archives (with and without members), of 7z archives and of rar archives. */
const MAGIC = ['PK\x03\x04', 'PK\x05\x06', "7z\xbc\xaf'\x1c", 'Rar!\x1a\x07']
/** A tar archive has this magic number at this offset in its first header. */
const TAR = { at: 257, text: 'ustar' } as const

export const isArchiveName = (path: string): boolean => archiveName.test(path)

/**
 * True if the file is an archive. Returns false if the file cannot be read, because the trace reader reports that
 * error.
 */
export async function isArchive(path: string): Promise<boolean> {
  if (isArchiveName(path)) return true
  try {
    const head = Buffer.from(await headOf(path)).toString('latin1')
    return MAGIC.some((magic) => head.startsWith(magic)) || head.startsWith(TAR.text, TAR.at)
  } catch {
    return false
  }
}
