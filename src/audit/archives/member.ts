/**
 * A file inside an archive, and the limits on unpacking. The names of an archive's members are never used as paths, so
 * no member is written to disk under its name. Members whose names lead out of the archive's folder are refused all the
 * same, since an archive of traces has no reason to hold such members.
 */
import { AuditError } from '../auditError.ts'

export interface Member {
  readonly name: string
  /**
   * The unpacked bytes. The bytes of a member must be read, or skipped by `return`, before the next member is
   * requested.
   */
  readonly bytes: AsyncIterable<Uint8Array>
}

export interface UnpackLimits {
  /** The maximum number of bytes that are unpacked from all archives together. */
  readonly bytes: number
}

/** The maximum number of unpacked bytes if the user sets no limit. */
export const UNPACK_BYTES = 64e9

/**
 * The largest ratio of unpacked to packed bytes. A typical trace compresses to a tenth of its size, and a very regular
 * one to a fiftieth.
 */
const RATIO = 300
/** The compression ratio of a member is checked only after this many unpacked bytes. */
const FREE = 64 << 20
/** The maximum number of members of an archive. No job has so many trace files. */
const MEMBERS = 100_000

/** Counts the unpacked bytes and throws an `AuditError` if they exceed the limits. */
export class UnpackBudget {
  private readonly limits: UnpackLimits
  private unpacked = 0
  private members = 0

  constructor(limits: UnpackLimits = { bytes: UNPACK_BYTES }) {
    this.limits = limits
  }

  /** Counts `length` unpacked bytes. So far, `packed` bytes of the stream have been unpacked to `total` bytes. */
  add(archive: string, length: number, total: number, packed: number): void {
    this.unpacked += length
    if (this.unpacked > this.limits.bytes)
      throw new AuditError(
        `${archive}: the archives unpack to more than ${this.limits.bytes / 1e9} GB; raise the limit with --unpack-limit, or unpack them`,
      )
    if (total > FREE && total > RATIO * packed)
      throw new AuditError(
        `${archive}: ${packed} bytes unpack to more than ${total} bytes, which no trace does; this looks like a decompression bomb`,
      )
  }

  addMember(archive: string): void {
    if (++this.members > MEMBERS)
      throw new AuditError(
        `${archive}: the archive has more than ${MEMBERS} members; unpack the traces of one job`,
      )
  }
}

/** Throws an `AuditError` if the member's name leads out of the archive's folder. */
export function checkName(archive: string, name: string): void {
  const isOutside =
    name.split(/[/\\]/).includes('..') || /^[/\\]|^[a-z]:/i.test(name) || name.includes('\0') || name === ''
  if (isOutside)
    throw new AuditError(
      `${archive}: the member ${JSON.stringify(name.slice(0, 200))} leads out of the archive; such archives are refused`,
    )
}

export const refuseLink = (archive: string, name: string): AuditError =>
  new AuditError(
    `${archive}: the member ${JSON.stringify(name.slice(0, 200))} is a link or a device; an archive of traces holds only files`,
  )
