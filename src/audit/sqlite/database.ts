/**
 * A read-only reader of SQLite files of any size. The reader walks tables row by row in the order of their row ids and
 * reads pages on demand. The reader writes nothing, not even a lock, so it works in a folder without write permission.
 * The reader does not interpret SQL, because an audit needs only whole tables and single rows by row id.
 *
 * The reader supports ordinary tables as https://www.sqlite.org/fileformat.html defines them. The reader does not
 * support tables without row ids, or a write-ahead log that was not merged.
 *
 * After the constructor, damage never causes an exception: unreadable rows are left out with a warning.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Warnings } from '../../timeline/warnings.ts'
import { SQLITE_MAGIC } from '../magic.ts'
import { RecordReader, type SqlValue, Varints } from './record.ts'
import { type Columns, columnsOf } from './schema.ts'

const LEAF = 13
const INTERIOR = 5
const DEPTH_LIMIT = 32
const BLOCK = 1 << 18
const BLOCKS = 64
/**
 * The size of the largest record that is read, in bytes. No profiler writes a larger record, and a damaged length must
 * not exhaust the memory.
 */
const PAYLOAD_LIMIT = 64 << 20

interface Table extends Columns {
  readonly root: number
}

export class SqliteDatabase {
  readonly size: number
  private readonly file: number
  private readonly warnings: Warnings
  private readonly pageSize: number
  /** The number of bytes in a page that hold content. */
  private readonly usable: number
  private readonly records: RecordReader
  private readonly varints = new Varints()
  private readonly blocks = new Map<number, Uint8Array>()
  private readonly tables = new Map<string, Table>()

  /** Throws if the file is not an SQLite database. */
  constructor(path: string, warnings: Warnings) {
    this.warnings = warnings
    this.file = openSync(path, 'r')
    try {
      this.size = fstatSync(this.file).size
      const header = new Uint8Array(100)
      readSync(this.file, header, 0, 100, 0)
      if (Buffer.from(header.buffer, 0, 16).toString('latin1') !== SQLITE_MAGIC)
        throw new Error('the file does not begin with the SQLite signature')
      const size = (header[16] << 8) | header[17]
      this.pageSize = size === 1 ? 65536 : size
      this.usable = this.pageSize - header[20]
      if (this.pageSize < 512 || (this.pageSize & (this.pageSize - 1)) !== 0 || this.usable < 480)
        throw new Error('the header of the SQLite database is damaged')
      this.records = new RecordReader(header[59])
      this.expectWhole(new DataView(header.buffer))
    } catch (error) {
      closeSync(this.file)
      throw error
    }
    const master = columnsOf('(type, name, tbl_name, rootpage, sql)')
    this.walk({ ...master, root: 1 }, 'sqlite_master', ['type', 'name', 'rootpage', 'sql'], (row) => {
      const [type, name, root, sql] = row
      if (type === 'table' && typeof name === 'string' && typeof root === 'number' && typeof sql === 'string')
        this.tables.set(name, { ...columnsOf(sql), root })
    })
  }

  /**
   * Warns if the file is shorter than the number of pages in its header says. The number of pages in the header is
   * valid only if the last program that changed the file also updated the number.
   */
  private expectWhole(header: DataView): void {
    const pages = header.getUint32(28)
    const isCounted = header.getUint32(24) === header.getUint32(92)
    if (isCounted && pages * this.pageSize > this.size)
      this.warnings.add(
        'truncated',
        () => `the database ends after ${this.size} of ${pages * this.pageSize} bytes`,
      )
  }

  close(): void {
    closeSync(this.file)
  }

  get tableNames(): string[] {
    return [...this.tables.keys()]
  }

  has(table: string, column?: string): boolean {
    const found = this.tables.get(table)
    return found !== undefined && (column === undefined || found.names.includes(column))
  }

  /**
   * Calls `row` with the values of the columns for each row. If the table lacks a column, the value of the column is
   * null. All calls of `row` receive the same array.
   */
  rows(table: string, columns: readonly string[], row: (values: readonly SqlValue[]) => void): void {
    const found = this.tables.get(table)
    if (found) this.walk(found, table, columns, row)
  }

  /**
   * The values of the row with this row id, or null if there is no such row. The search works only for tables whose
   * primary key is the row id.
   */
  find(table: string, number: number, columns: readonly string[]): SqlValue[] | null {
    const found = this.tables.get(table)
    if (!found || found.rowNumber < 0) return null
    const slots = slotsOf(found, columns)
    let page = found.root
    for (let depth = 0; depth < DEPTH_LIMIT; depth++) {
      const data = this.page(page)
      if (!data) return null
      const start = page === 1 ? 100 : 0
      const cells = (data[start + 3] << 8) | data[start + 4]
      if (start + 12 + cells * 2 > data.length) return null
      if (data[start] === INTERIOR) {
        let next = word(data, start + 8)
        // Find the first child page whose largest row id is not below the wanted row id.
        let [low, high] = [0, cells]
        while (low < high) {
          const middle = (low + high) >> 1
          const cell = half(data, start + 12 + middle * 2)
          if (this.varints.read(data, cell + 4) < number) low = middle + 1
          else {
            high = middle
            next = word(data, cell)
          }
        }
        page = next
      } else if (data[start] === LEAF) {
        for (let i = 0; i < cells; i++) {
          const cell = half(data, start + 8 + i * 2)
          const length = this.varints.read(data, cell)
          if (this.varints.read(data, this.varints.at) !== number) continue
          const values: SqlValue[] = columns.map(() => null)
          return this.record(data, this.varints.at, length, slots, values) ? values : null
        }
        return null
      } else return null
    }
    return null
  }

  private walk(
    table: Table,
    name: string,
    columns: readonly string[],
    row: (values: readonly SqlValue[]) => void,
  ): void {
    const slots = slotsOf(table, columns)
    const rowSlot = columns.indexOf(table.names[table.rowNumber])
    const values: SqlValue[] = columns.map(() => null)
    const seen = new Set<number>()
    const damaged = (page: number): void =>
      this.warnings.add('garbage', () => `page ${page} of table ${name} is damaged; its rows are left out`)

    const visit = (page: number, depth: number): void => {
      const data = this.page(page)
      const start = page === 1 ? 100 : 0
      const kind = data?.[start]
      if (!data || depth > DEPTH_LIMIT || seen.has(page) || (kind !== LEAF && kind !== INTERIOR))
        return damaged(page)
      seen.add(page)
      const cells = half(data, start + 3)
      const pointers = start + (kind === LEAF ? 8 : 12)
      if (pointers + cells * 2 > data.length) return damaged(page)
      for (let i = 0; i < cells; i++) {
        const cell = half(data, pointers + i * 2)
        if (kind === INTERIOR) {
          visit(word(data, cell), depth + 1)
          continue
        }
        const length = this.varints.read(data, cell)
        const number = this.varints.read(data, this.varints.at)
        values.fill(null)
        if (!this.record(data, this.varints.at, length, slots, values)) {
          damaged(page)
          continue
        }
        if (rowSlot >= 0) values[rowSlot] = number
        row(values)
      }
      if (kind === INTERIOR) visit(word(data, start + 8), depth + 1)
    }
    visit(table.root, 0)
  }

  /**
   * Reads the record of `length` bytes that begins at `at`. A long record continues in overflow pages of the database.
   */
  private record(
    data: Uint8Array,
    at: number,
    length: number,
    slots: readonly number[],
    values: SqlValue[],
  ): boolean {
    if (!(length >= 0 && length <= PAYLOAD_LIMIT && length <= this.size)) return false
    const { usable } = this
    const most = usable - 35
    if (length <= most)
      return at + length <= data.length && this.records.read(data, at, at + length, slots, values)
    const least = Math.floor(((usable - 12) * 32) / 255) - 23
    const wish = least + ((length - least) % (usable - 4))
    const local = wish <= most ? wish : least
    if (at + local + 4 > data.length) return false
    const whole = new Uint8Array(length)
    whole.set(data.subarray(at, at + local))
    let filled = local
    let next = word(data, at + local)
    while (filled < length) {
      const page = this.page(next)
      if (!page) return false
      const part = page.subarray(4, Math.min(usable, 4 + length - filled))
      whole.set(part, filled)
      filled += part.length
      next = word(page, 0)
    }
    return this.records.read(whole, 0, length, slots, values)
  }

  private page(number: number): Uint8Array | null {
    const offset = (number - 1) * this.pageSize
    if (number < 1 || offset + this.pageSize > this.size) return null
    const index = Math.floor(offset / BLOCK)
    let block = this.blocks.get(index)
    if (!block) {
      block = new Uint8Array(Math.min(BLOCK, this.size - index * BLOCK))
      try {
        readSync(this.file, block, 0, block.length, index * BLOCK)
      } catch {
        return null
      }
      if (this.blocks.size >= BLOCKS)
        for (const oldest of this.blocks.keys()) {
          this.blocks.delete(oldest)
          break
        }
      this.blocks.set(index, block)
    }
    const from = offset - index * BLOCK
    return block.subarray(from, from + this.pageSize)
  }
}

function slotsOf(table: Table, columns: readonly string[]): number[] {
  const slots = table.names.map((name) => columns.indexOf(name))
  while (slots.length > 0 && slots[slots.length - 1] < 0) slots.pop()
  return slots
}

const half = (data: Uint8Array, at: number): number => (data[at] << 8) | data[at + 1]
const word = (data: Uint8Array, at: number): number => half(data, at) * 65536 + half(data, at + 2)
