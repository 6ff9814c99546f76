/**
 * Reads the traces inside an archive, one after the other, without unpacking the archive to disk. Only a database is
 * written to a temporary file, because its pages are read in any order.
 *
 * An archive is refused with an `AuditError` if the archive unpacks to more bytes than the limits allow, or if a member
 * is a link, is an archive itself or has a path that leads out of the archive. Damage of the archive is reported in the
 * warnings.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { createGunzip, constants } from 'node:zlib'
import { type Warning, Warnings } from '../../timeline/warnings.ts'
import { isArchiveHead, isArchiveName } from '../archive.ts'
import { AuditError } from '../auditError.ts'
import { unpackedHead } from '../head.ts'
import { isTraceName } from '../paths.ts'
import { formatOf, readTrace } from '../readFile.ts'
import type { HostDetail, TraceFile, TraceFileOptions } from '../traceFile.ts'
import { isZstd, unzstd } from '../zstd.ts'
import type { Member, UnpackBudget } from './member.ts'
import { tarMembers } from './tar.ts'
import { through } from './through.ts'
import { zipMembers } from './zip.ts'

export interface ArchiveOptions {
  readonly budget: UnpackBudget
  readonly detail?: HostDetail
  readonly communication?: string
  /** Called with the number of bytes that have been read from the archive so far. */
  readonly onProgress?: (bytes: number) => void
}

export interface ArchiveFile {
  /** The path of the archive, followed by the name of the member. */
  readonly path: string
  readonly file: TraceFile
}

export interface ReadArchive {
  readonly files: readonly ArchiveFile[]
  readonly warnings: readonly Warning[]
}

const HEAD = 4096

export async function readArchive(path: string, options: ArchiveOptions): Promise<ReadArchive> {
  const warnings = new Warnings()
  const files: ArchiveFile[] = []
  let members = 0
  for await (const member of await membersOf(path, options, warnings)) {
    members++
    if (isHidden(member.name)) continue
    if (isArchiveName(member.name)) throw nested(path, member.name)
    if (!isTraceName(member.name)) continue
    files.push({ path: `${path}/${member.name}`, file: await readMember(path, member, options) })
  }
  if (files.length === 0 && warnings.list().length === 0)
    throw new AuditError(
      `${path}: no trace found among the ${members} files in this archive; trace files end in .json, .json.gz, .trace or .sqlite`,
    )
  return { files, warnings: warnings.list() }
}

const isHidden = (name: string): boolean =>
  name.split('/').some((part) => part.startsWith('.') && part !== '.') || name.startsWith('__MACOSX/')

const nested = (archive: string, name: string): AuditError =>
  new AuditError(`${archive}: ${name} is an archive inside the archive; unpack it`)

async function membersOf(
  path: string,
  options: ArchiveOptions,
  warnings: Warnings,
): Promise<AsyncGenerator<Member>> {
  const head = await firstBytes(path)
  if (head.subarray(0, 2).toString('latin1') === 'PK') return zipMembers(path, options.budget, warnings)
  return tarMembers(path, unpacked(path, head, options, warnings), options.budget, warnings)
}

async function firstBytes(path: string): Promise<Buffer> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD), 0, HEAD, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

/** The bytes of a file, decompressed if it is compressed. */
async function* unpacked(
  path: string,
  head: Uint8Array,
  { budget, onProgress }: ArchiveOptions,
  warnings: Warnings,
): AsyncGenerator<Uint8Array> {
  const file = await open(path)
  let [packed, total] = [0, 0]
  try {
    const raw = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) {
        const { buffer, bytesRead } = await file.read(new Uint8Array(1 << 20), 0, 1 << 20, null)
        if (bytesRead === 0) return
        packed += bytesRead
        onProgress?.(packed)
        yield buffer.subarray(0, bytesRead)
      }
    }
    const isGzip = head[0] === 0x1f && head[1] === 0x8b
    const pieces = isGzip
      ? through(raw(), createGunzip({ chunkSize: 1 << 20, finishFlush: constants.Z_SYNC_FLUSH }))
      : isZstd(head)
        ? through(raw(), unzstd(path))
        : raw()
    for await (const piece of pieces) {
      total += piece.length
      if (isGzip || isZstd(head)) budget.add(path, piece.length, total, packed)
      yield piece
    }
  } catch (error) {
    if (error instanceof AuditError) throw error
    warnings.add('gzip', () => `the compressed data of the archive is damaged: ${(error as Error).message}`)
  } finally {
    await file.close()
  }
}

async function readMember(archive: string, member: Member, options: ArchiveOptions): Promise<TraceFile> {
  const { budget, detail, communication } = options
  const { head, bytes } = await peeked(member.bytes)
  const start = unpackedHead(head)
  if (isArchiveHead(start)) throw nested(archive, member.name)
  const format = formatOf(start)
  // The output of gzip inside a member counts as unpacked, too, since a decompression bomb may be nested.
  const onUnpacked = (length: number, total: number, packed: number): void =>
    budget.add(`${archive}/${member.name}`, length, total, packed)
  const found =
    format === 'nsys'
      ? await readDatabase(bytes, { name: basename(member.name), detail, communication })
      : await readTrace(format, bytes, { name: member.name, detail, communication, onUnpacked })
  return { ...found, head: start }
}

/** Returns the first bytes of a stream, and a stream of all its bytes including the first bytes. */
async function peeked(
  bytes: AsyncIterable<Uint8Array>,
): Promise<{ head: Uint8Array; bytes: AsyncIterable<Uint8Array> }> {
  const input = bytes[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  let length = 0
  while (length < HEAD) {
    const next = await input.next()
    if (next.done === true) break
    // A chunk is valid until the next chunk is requested.
    first.push(next.value.slice())
    length += next.value.length
  }
  const all = async function* (): AsyncGenerator<Uint8Array> {
    yield* first
    for (let next = await input.next(); next.done !== true; next = await input.next()) yield next.value
  }
  return { head: Buffer.concat(first).subarray(0, HEAD), bytes: all() }
}

async function readDatabase(bytes: AsyncIterable<Uint8Array>, options: TraceFileOptions): Promise<TraceFile> {
  const folder = mkdtempSync(join(tmpdir(), 'arke-archive-'))
  try {
    const path = join(folder, 'member.sqlite')
    const file = await open(path, 'w')
    try {
      for await (const piece of bytes) await file.write(piece)
    } finally {
      await file.close()
    }
    return await readTrace('nsys', path, options)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
