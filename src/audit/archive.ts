/**
 * Archives hold several files, so none of them is a trace: read as one, its members would run into each other. They are
 * told by their names, and whatever their names by how they begin.
 */
import { headOf } from './head.ts'

const archiveName = /\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tlz|tzst|zip|7z|rar)$/i

/** The first bytes of zip (with and without members), 7z and rar. */
const MAGIC = ['PK\x03\x04', 'PK\x05\x06', "7z\xbc\xaf'\x1c", 'Rar!\x1a\x07']
/** Where the header of a tar archive's first member says what it is. */
const TAR = { at: 257, text: 'ustar' } as const

export const isArchiveName = (path: string): boolean => archiveName.test(path)

/** False for a file that cannot be read, which the reader reports. */
export async function isArchive(path: string): Promise<boolean> {
  if (isArchiveName(path)) return true
  try {
    const head = Buffer.from(await headOf(path)).toString('latin1')
    return MAGIC.some((magic) => head.startsWith(magic)) || head.startsWith(TAR.text, TAR.at)
  } catch {
    return false
  }
}
