/**
 * Reads the members of a tar archive from a stream: ustar, GNU tar (long names, base-256 sizes) and pax (extended
 * headers). Links, devices and sparse files are refused.
 */
import { AuditError } from '../auditError.ts'
import type { Warnings } from '../../timeline/warnings.ts'
import { checkName, type Member, refuseLink, type UnpackBudget } from './member.ts'

const BLOCK = 512
/** The maximum size of an extended header or long name, in bytes. */
const META = 1 << 20

/** Yields the members of a tar archive. If the archive is damaged, yields the members before the damage and warns. */
export async function* tarMembers(
  archive: string,
  input: AsyncIterable<Uint8Array>,
  budget: UnpackBudget,
  warnings: Warnings,
): AsyncGenerator<Member> {
  const bytes = new ByteReader(input)
  let extended: Extended = {}
  const shared: Extended = {}
  try {
    for (;;) {
      const block = await bytes.take(BLOCK)
      if (block === null) {
        warnings.add('truncated', () => 'the archive has no end mark; its last members may be missing')
        return
      }
      // Two blocks of zeros end a tar archive, but some programs write only one block.
      if (block.every((byte) => byte === 0)) return
      const header = parseHeader(block)
      if (header === null) {
        warnings.add(
          'garbage',
          () =>
            'the archive is damaged: the header of a member is unreadable; the rest of the archive is left out',
        )
        return
      }
      budget.addMember(archive)
      const { type } = header
      if (type === 'x' || type === 'g' || type === 'L' || type === 'K') {
        const data = header.size <= META ? await bytes.take(padded(header.size)) : null
        if (data === null) {
          warnings.add('garbage', () => 'the archive is damaged: an extended header is too long or cut off')
          return
        }
        const own = data.subarray(0, header.size)
        if (type === 'L') extended.path = textOf(own)
        else if (type !== 'K') Object.assign(type === 'x' ? extended : shared, parsePax(own))
        continue
      }
      const told = { ...shared, ...extended }
      extended = {}
      const name = told.path ?? header.name
      const size = told.size ?? header.size
      checkName(archive, name)
      if (told.isSparse || type === 'S')
        throw new AuditError(
          `${archive}: ${name} is stored as a sparse file, which is not supported; unpack the archive`,
        )
      if (type === '5') {
        await bytes.skip(padded(size))
        continue
      }
      if (type !== '0' && type !== '7' && type !== '\0') throw refuseLink(archive, name)
      const member = bytes.piecesOf(size)
      yield { name, bytes: member }
      for await (const _ of member);
      if (bytes.isEnded) {
        warnings.add('truncated', () => `the archive ends inside ${name}; later members are missing`)
        return
      }
      await bytes.skip(padded(size) - size)
    }
  } finally {
    await bytes.close()
  }
}

interface Extended {
  path?: string
  size?: number
  isSparse?: boolean
}

interface Header {
  readonly name: string
  readonly size: number
  readonly type: string
}

const padded = (size: number): number => Math.ceil(size / BLOCK) * BLOCK

const textOf = (bytes: Uint8Array): string => {
  const end = bytes.indexOf(0)
  return Buffer.from(end < 0 ? bytes : bytes.subarray(0, end)).toString('utf8')
}

/** Returns null if the checksum or a number of the header is wrong. */
function parseHeader(block: Uint8Array): Header | null {
  let sum = 0
  for (let i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 0x20 : block[i]
  if (numberOf(block.subarray(148, 156)) !== sum) return null
  const size = numberOf(block.subarray(124, 136))
  if (size === null) return null
  const prefix =
    textOf(block.subarray(257, 262)) === 'ustar' && block[263] !== 0x20
      ? textOf(block.subarray(345, 500))
      : ''
  const name = textOf(block.subarray(0, 100))
  return { name: prefix === '' ? name : `${prefix}/${name}`, size, type: String.fromCharCode(block[156]) }
}

/** An octal number, or a base-256 number as GNU tar writes sizes of 8 GB and more; null if the number is unreadable. */
function numberOf(field: Uint8Array): number | null {
  if (field[0] & 0x80) {
    let value = field[0] & 0x7f
    for (let i = 1; i < field.length; i++) value = value * 256 + field[i]
    return Number.isSafeInteger(value) ? value : null
  }
  const text = textOf(field).trim()
  return text === '' ? 0 : /^[0-7]+$/.test(text) ? parseInt(text, 8) : null
}

/** Parses pax header records, which have the form `LENGTH KEY=VALUE\n`. Unreadable records are ignored. */
function parsePax(data: Uint8Array): Extended {
  const found: Extended = {}
  for (let at = 0; at < data.length;) {
    const space = data.indexOf(0x20, at)
    const length = space < 0 ? NaN : Number(Buffer.from(data.subarray(at, space)).toString('latin1'))
    if (!Number.isSafeInteger(length) || length < 5 || at + length > data.length) break
    const record = Buffer.from(data.subarray(space + 1, at + length - 1)).toString('utf8')
    const equals = record.indexOf('=')
    const [key, value] = [record.slice(0, equals), record.slice(equals + 1)]
    if (key === 'path') found.path = value
    else if (key === 'size' && /^\d+$/.test(value)) found.size = Number(value)
    else if (key.startsWith('GNU.sparse')) found.isSparse = true
    at += length
  }
  return found
}

/** Reads exact numbers of bytes from a stream of chunks. */
class ByteReader {
  private readonly input: AsyncIterator<Uint8Array>
  private piece: Uint8Array = new Uint8Array(0)
  isEnded = false

  constructor(input: AsyncIterable<Uint8Array>) {
    this.input = input[Symbol.asyncIterator]()
  }

  /** Returns the next `length` bytes, or null if the stream has fewer bytes left. */
  async take(length: number): Promise<Uint8Array | null> {
    const taken = new Uint8Array(length)
    let at = 0
    while (at < length) {
      if (!(await this.fill())) return null
      const some = this.piece.subarray(0, length - at)
      taken.set(some, at)
      at += some.length
      this.piece = this.piece.subarray(some.length)
    }
    return taken
  }

  async skip(length: number): Promise<void> {
    for await (const _ of this.piecesOf(length));
  }

  /**
   * Yields the next bytes in chunks. If several loops read the chunks one after another, each loop continues where the
   * previous loop stopped.
   */
  piecesOf(length: number): AsyncIterable<Uint8Array> {
    let left = length
    const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
      if (left === 0 || !(await this.fill())) return { done: true, value: undefined }
      const some = this.piece.subarray(0, left)
      left -= some.length
      this.piece = this.piece.subarray(some.length)
      return { done: false, value: some }
    }
    return { [Symbol.asyncIterator]: () => ({ next }) }
  }

  private async fill(): Promise<boolean> {
    while (this.piece.length === 0) {
      const next = await this.input.next()
      if (next.done === true) {
        this.isEnded = true
        return false
      }
      this.piece = next.value
    }
    return true
  }

  async close(): Promise<void> {
    await this.input.return?.()
  }
}
