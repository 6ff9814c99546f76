/** Writes tar and zip archives byte by byte: archives as common programs write them, and malicious archives. */
import { crc32, deflateRawSync } from 'node:zlib'

export interface TarMember {
  readonly name: string
  readonly data?: Uint8Array | string
  readonly type?: string
  /** The tar extension with which a long name is written. */
  readonly long?: 'pax' | 'gnu'
  readonly link?: string
}

const bytesOf = (data: Uint8Array | string = ''): Buffer => Buffer.from(data as string)

function tarBlocks(name: string, data: Buffer, type: string, link = ''): Buffer {
  const header = Buffer.alloc(512)
  header.write(name.slice(0, 100))
  header.write('0000644\0', 100)
  header.write(`${data.length.toString(8).padStart(11, '0')} `, 124)
  header.write('        ', 148)
  header.write(type, 156)
  header.write(link, 157)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([header, data, Buffer.alloc((512 - (data.length % 512)) % 512)])
}

function paxRecord(key: string, value: string): Buffer {
  const body = ` ${key}=${value}\n`
  let length = Buffer.byteLength(body) + 1
  while (String(length).length + Buffer.byteLength(body) !== length) length++
  return Buffer.from(`${length}${body}`)
}

export function tar(members: readonly TarMember[]): Buffer {
  const blocks = members.flatMap(({ name, data, type = '0', long, link }) => [
    ...(long === 'pax' ? [tarBlocks('PaxHeader', paxRecord('path', name), 'x')] : []),
    ...(long === 'gnu' ? [tarBlocks('././@LongLink', Buffer.from(`${name}\0`), 'L')] : []),
    tarBlocks(long ? 'cut' : name, bytesOf(data), type, link),
  ])
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

export interface ZipMember {
  readonly name: string
  readonly data?: Uint8Array | string
  readonly stored?: boolean
  /** True if a data descriptor after the member's data states the sizes, instead of the header before the data. */
  readonly descriptor?: boolean
  readonly zip64?: boolean
  readonly mode?: number
  readonly flags?: number
  readonly method?: number
  /** The index of an earlier member whose data this member shares. */
  readonly shares?: number
}

export function zip(members: readonly ZipMember[]): Buffer {
  const locals: Buffer[] = []
  const entries: Buffer[] = []
  const offsets: number[] = []
  let offset = 0
  for (const {
    name,
    data,
    stored,
    descriptor,
    zip64,
    mode = 0o100644,
    flags = 0,
    method,
    shares,
  } of members) {
    const raw = bytesOf(data)
    const packed = stored ? raw : deflateRawSync(raw)
    const at = shares === undefined ? offset : offsets[shares]
    const called = Buffer.from(name)
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50, 0)
    local.writeUInt16LE(flags | (descriptor ? 8 : 0), 6)
    local.writeUInt16LE(method ?? (stored ? 0 : 8), 8)
    if (!descriptor) {
      local.writeUInt32LE(crc32(raw), 14)
      local.writeUInt32LE(packed.length, 18)
      local.writeUInt32LE(raw.length, 22)
    }
    local.writeUInt16LE(called.length, 26)
    const after = Buffer.alloc(descriptor ? 16 : 0)
    if (descriptor) {
      after.writeUInt32LE(0x08074b50, 0)
      after.writeUInt32LE(crc32(raw), 4)
      after.writeUInt32LE(packed.length, 8)
      after.writeUInt32LE(raw.length, 12)
    }
    offsets.push(at)
    if (shares === undefined) {
      const whole = Buffer.concat([local, called, packed, after])
      locals.push(whole)
      offset += whole.length
    }
    const extra = Buffer.alloc(zip64 ? 28 : 0)
    if (zip64) {
      extra.writeUInt16LE(1, 0)
      extra.writeUInt16LE(24, 2)
      extra.writeBigUInt64LE(BigInt(raw.length), 4)
      extra.writeBigUInt64LE(BigInt(packed.length), 12)
      extra.writeBigUInt64LE(BigInt(at), 20)
    }
    const entry = Buffer.alloc(46)
    entry.writeUInt32LE(0x02014b50, 0)
    entry.writeUInt16LE(flags | (descriptor ? 8 : 0), 8)
    entry.writeUInt16LE(method ?? (stored ? 0 : 8), 10)
    entry.writeUInt32LE(crc32(raw), 16)
    entry.writeUInt32LE(zip64 ? 0xffff_ffff : packed.length, 20)
    entry.writeUInt32LE(zip64 ? 0xffff_ffff : raw.length, 24)
    entry.writeUInt16LE(called.length, 28)
    entry.writeUInt16LE(extra.length, 30)
    entry.writeUInt32LE((mode << 16) >>> 0, 38)
    entry.writeUInt32LE(zip64 ? 0xffff_ffff : at, 42)
    entries.push(Buffer.concat([entry, called, extra]))
  }
  const directory = Buffer.concat(entries)
  const is64 = members.some(({ zip64 }) => zip64)
  const end64 = Buffer.alloc(is64 ? 76 : 0)
  if (is64) {
    end64.writeUInt32LE(0x06064b50, 0)
    end64.writeBigUInt64LE(44n, 4)
    end64.writeBigUInt64LE(BigInt(entries.length), 24)
    end64.writeBigUInt64LE(BigInt(entries.length), 32)
    end64.writeBigUInt64LE(BigInt(directory.length), 40)
    end64.writeBigUInt64LE(BigInt(offset), 48)
    end64.writeUInt32LE(0x07064b50, 56)
    end64.writeBigUInt64LE(BigInt(offset + directory.length), 64)
  }
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(is64 ? 0xffff_ffff : offset, 16)
  return Buffer.concat([...locals, directory, end64, end])
}
