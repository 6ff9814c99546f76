/**
 * Decodes records of SQLite's file format. A record has a header of serial types, followed by the values. Only the
 * wanted columns are decoded. Integers beyond 2^53 are returned as bigints.
 */

export type SqlValue = number | bigint | string | Uint8Array | null

/** Reads variable-length integers. `at` is the position after the integer that was read last. */
export class Varints {
  at = 0

  read(data: Uint8Array, at: number): number {
    let value = 0
    for (let i = 0; i < 8; i++) {
      const byte = data[at++]
      value = value * 128 + (byte & 0x7f)
      if (byte < 0x80) {
        this.at = at
        return value
      }
    }
    value = value * 256 + data[at++]
    this.at = at
    // In a nine-byte varint, eight bytes hold 7 bits each and the last byte holds 8: 64 bits in two's complement.
    return value >= 2 ** 63 ? value - 2 ** 64 : value
  }
}

const INTEGER_BYTES = [0, 1, 2, 3, 4, 6, 8]
const sizeOf = (type: number): number =>
  type < 7 ? INTEGER_BYTES[type] : type === 7 ? 8 : type < 12 ? 0 : Math.floor((type - 12) / 2)

export class RecordReader {
  private readonly types = new Varints()
  private readonly text: { decode(bytes: Uint8Array): string }

  /** `encoding` is the text encoding from the file's header. */
  constructor(encoding: number) {
    this.text =
      encoding === 2
        ? new TextDecoder('utf-16le')
        : encoding === 3
          ? { decode: (bytes) => new TextDecoder('utf-16le').decode(Buffer.from(bytes).swap16()) }
          : { decode: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString() }
  }

  /**
   * Fills `values` from the record in `data` between `from` and `to`. `slots[c]` is the index in `values` for column
   * `c` of the table, or -1 if the column is not wanted. Returns false if the record is damaged.
   */
  read(data: Uint8Array, from: number, to: number, slots: readonly number[], values: SqlValue[]): boolean {
    const { types } = this
    const headerEnd = from + types.read(data, from)
    let type = types.at
    if (headerEnd > to || headerEnd < type) return false
    let at = headerEnd
    for (let column = 0; column < slots.length && type < headerEnd; column++) {
      const code = types.read(data, type)
      type = types.at
      const next = at + sizeOf(code)
      if (type > headerEnd || code < 0 || next > to) return false
      if (slots[column] >= 0) values[slots[column]] = this.value(code, data, at, next)
      at = next
    }
    return true
  }

  private value(code: number, data: Uint8Array, at: number, to: number): SqlValue {
    if (code === 0) return null
    if (code < 7) return integer(data, at, to)
    if (code === 7) return new DataView(data.buffer, data.byteOffset + at, 8).getFloat64(0)
    if (code === 8) return 0
    if (code === 9) return 1
    if (code < 12) return null
    const bytes = data.subarray(at, to)
    return code % 2 === 1 ? this.text.decode(bytes) : bytes.slice()
  }
}

function integer(data: Uint8Array, at: number, to: number): number | bigint {
  let value = data[at] >= 0x80 ? data[at] - 256 : data[at]
  for (let i = at + 1; i < to; i++) value = value * 256 + data[i]
  if (Number.isSafeInteger(value)) return value
  return new DataView(data.buffer, data.byteOffset + at, 8).getBigInt64(0)
}
