/**
 * Reads the members of a zip archive in the order in which their data is stored. The central directory at the end of
 * the file lists the members with their sizes, so data descriptors need not be read. Zip64 is supported. Encrypted
 * members, links and members that share data (as in zip bombs) are refused.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { crc32, createInflateRaw } from 'node:zlib'
import { AuditError } from '../auditError.ts'
import type { Warnings } from '../../timeline/warnings.ts'
import { checkName, type Member, refuseLink, type UnpackBudget } from './member.ts'
import { through } from './through.ts'

const END = 0x06054b50
const END64 = 0x06064b50
const LOCATOR64 = 0x07064b50
const ENTRY = 0x02014b50
const LOCAL = 0x04034b50
const LARGEST_COMMENT = 0xffff
/** The largest central directory. */
const DIRECTORY = 256 << 20
const PIECE = 1 << 20

const methods: Readonly<Record<number, string>> = {
  1: 'shrink',
  6: 'implode',
  9: 'Deflate64',
  12: 'bzip2',
  14: 'LZMA',
  20: 'Zstandard',
  93: 'Zstandard',
  95: 'xz',
  98: 'PPMd',
}

interface Entry {
  readonly name: string
  readonly method: number
  readonly packed: number
  readonly unpacked: number
  readonly checksum: number
  readonly offset: number
  readonly isLink: boolean
  readonly isEncrypted: boolean
}

export async function* zipMembers(
  archive: string,
  budget: UnpackBudget,
  warnings: Warnings,
): AsyncGenerator<Member> {
  const file = await open(archive)
  try {
    const { size } = await file.stat()
    const entries = await entriesOf(file, size)
    if (entries === null) {
      warnings.add('truncated', () => 'the archive has no readable list of members at its end; copy it again')
      return
    }
    entries.sort((a, b) => a.offset - b.offset)
    for (const entry of entries) {
      budget.addMember(archive)
      checkName(archive, entry.name)
      if (entry.isLink) throw refuseLink(archive, entry.name)
    }
    let before = 0
    for (const entry of entries) {
      const { name, method, packed, offset } = entry
      if (name.endsWith('/')) continue
      if (entry.isEncrypted) throw new AuditError(`${archive}: ${name} is encrypted; unpack the archive`)
      if (method !== 0 && method !== 8)
        throw new AuditError(
          `${archive}: ${name} is compressed with ${methods[method] ?? `method ${method}`}, which is not supported; unpack the archive`,
        )
      const data = await dataOf(file, offset)
      if (data === null || data + packed > size) {
        warnings.add('garbage', () => `the archive is damaged at ${name}, which is left out`)
        continue
      }
      if (offset < before)
        throw new AuditError(
          `${archive}: members share data, which looks like a decompression bomb; such archives are refused`,
        )
      before = data + packed
      const member = once(bytesOf(archive, file, entry, data, budget, warnings))
      yield { name, bytes: member }
      for await (const _ of member);
    }
  } finally {
    await file.close()
  }
}

/**
 * Lets several loops read from one generator, so that each loop continues where the previous loop stopped. A loop that
 * stops before the last element does not end the generator.
 */
function once(bytes: AsyncGenerator<Uint8Array>): AsyncIterable<Uint8Array> {
  return { [Symbol.asyncIterator]: () => ({ next: () => bytes.next() }) }
}

async function read(file: FileHandle, offset: number, length: number): Promise<DataView | null> {
  if (offset < 0 || length < 0 || !Number.isSafeInteger(offset + length)) return null
  const { buffer, bytesRead } = await file.read(new Uint8Array(length), 0, length, offset)
  return bytesRead === length ? new DataView(buffer.buffer, buffer.byteOffset, length) : null
}

/** Reads a 64-bit number, or returns NaN if the number is too large for a double (beyond 2^53). */
const long = (view: DataView, at: number): number => {
  const value = view.getBigUint64(at, true)
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : NaN
}

async function entriesOf(file: FileHandle, size: number): Promise<Entry[] | null> {
  const tailLength = Math.min(size, LARGEST_COMMENT + 22)
  const tail = await read(file, size - tailLength, tailLength)
  if (tail === null) return null
  let end = tailLength - 22
  while (end >= 0 && tail.getUint32(end, true) !== END) end--
  if (end < 0) return null
  let [length, offset] = [tail.getUint32(end + 12, true), tail.getUint32(end + 16, true)]
  const locator = await read(file, size - tailLength + end - 20, 20)
  if (locator !== null && locator.getUint32(0, true) === LOCATOR64) {
    const end64 = await read(file, long(locator, 8), 56)
    if (end64 === null || end64.getUint32(0, true) !== END64) return null
    ;[length, offset] = [long(end64, 40), long(end64, 48)]
  }
  if (!(length <= DIRECTORY) || !(offset + length <= size)) return null
  const directory = await read(file, offset, length)
  if (directory === null) return null
  const entries: Entry[] = []
  for (let at = 0; at + 46 <= length;) {
    if (directory.getUint32(at, true) !== ENTRY) return entries.length > 0 ? entries : null
    const [name, extra, comment] = [28, 30, 32].map((field) => directory.getUint16(at + field, true))
    const next = at + 46 + name + extra + comment
    if (next > length) return entries.length > 0 ? entries : null
    entries.push(entryAt(directory, at, name, extra))
    at = next
  }
  return entries
}

function entryAt(view: DataView, at: number, nameLength: number, extraLength: number): Entry {
  const text = Buffer.from(view.buffer, view.byteOffset + at + 46, nameLength)
  const flags = view.getUint16(at + 8, true)
  let packed = view.getUint32(at + 20, true)
  let unpacked = view.getUint32(at + 24, true)
  let offset = view.getUint32(at + 42, true)
  const from = at + 46 + nameLength
  for (let extra = from; extra + 4 <= from + extraLength;) {
    const [id, size] = [view.getUint16(extra, true), view.getUint16(extra + 2, true)]
    let value = extra + 4
    const stop = Math.min(value + size, from + extraLength)
    if (id === 1) {
      // The zip64 field of a member holds only those sizes and offsets of the member that do not fit into 32 bits.
      const take = (short: number): number => {
        if (short !== 0xffff_ffff || value + 8 > stop) return short
        value += 8
        return long(view, value - 8)
      }
      unpacked = take(unpacked)
      packed = take(packed)
      offset = take(offset)
    }
    extra = stop
    if (size === 0 && stop <= extra - 4) break
  }
  // The upper half of the external attributes holds the file mode of Unix.
  const type = (view.getUint32(at + 38, true) >>> 16) & 0o170000
  return {
    name: text.toString('utf8'),
    method: view.getUint16(at + 10, true),
    packed,
    unpacked,
    checksum: view.getUint32(at + 16, true),
    offset,
    isLink: type !== 0 && type !== 0o100000 && type !== 0o040000,
    isEncrypted: (flags & 1) === 1,
  }
}

/** The offset of a member's data, or null if its header is damaged. */
async function dataOf(file: FileHandle, offset: number): Promise<number | null> {
  const header = await read(file, offset, 30)
  if (header === null || header.getUint32(0, true) !== LOCAL) return null
  return offset + 30 + header.getUint16(26, true) + header.getUint16(28, true)
}

async function* bytesOf(
  archive: string,
  file: FileHandle,
  { name, method, packed, unpacked, checksum }: Entry,
  data: number,
  budget: UnpackBudget,
  warnings: Warnings,
): AsyncGenerator<Uint8Array> {
  const raw = piecesOf(file, data, packed)
  let [length, sum] = [0, 0]
  try {
    for await (const piece of method === 0 ? raw : through(raw, createInflateRaw({ chunkSize: PIECE }))) {
      length += piece.length
      if (length > unpacked) break
      budget.add(archive, piece.length, length, packed)
      sum = crc32(piece, sum)
      yield piece
    }
  } catch (error) {
    if (error instanceof AuditError) throw error
    warnings.add('garbage', () => `the data of ${name} is damaged: ${(error as Error).message}`)
    return
  }
  if (length !== unpacked || sum !== checksum)
    warnings.add('garbage', () => `the data of ${name} is damaged: its checksum or its length is wrong`)
}

async function* piecesOf(file: FileHandle, from: number, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < length;) {
    const piece = new Uint8Array(Math.min(PIECE, length - at))
    const { bytesRead } = await file.read(piece, 0, piece.length, from + at)
    if (bytesRead === 0) return
    at += bytesRead
    yield piece.subarray(0, bytesRead)
  }
}
