/**
 * Generates the matrix product of whole tiles, composed of microkernels and blocked for the caches. A block of the
 * inner axis is so deep that one panel of the right operand fills half the L1 cache. Within a block of the inner axis,
 * a block of rows fills half the L2 cache. The innermost loops are over panels, and then over rows. Each static shape
 * of a matrix product has its own function.
 */
import { dtypes } from '../../../../ir/dtype.ts'
import {
  add,
  address,
  and,
  binary,
  codeFunction,
  compare,
  i32,
  max,
  min,
  mul,
  step,
  sub,
  use,
  type Operand,
  type Writer,
} from '../../build.ts'
import type { CodeFunction, CodeType, Expression, Local, Machine } from '../../code.ts'
import { memoryKind, rawCodeType, widen } from '../convert.ts'
import { blockingOf, isWide, splitRows, type Blocking, type Product } from './blocking.ts'
import { multiplyInner } from './inner.ts'
import { microkernel } from './microkernel.ts'
import { skinnyKernel, streamsFor, touchedPanels, touchPanels } from './skinny.ts'
import { numbersOf, panelColumns, pointers, sharedFunction, wideBytes } from './tiles.ts'
import { packPanel, widenRows } from './widening.ts'

/** The extents of a packed right operand that are known only at launch. */
interface Extents {
  readonly panelStride: Local
  readonly depth: Local
  readonly panels: Local
}

/**
 * Computes sums += left x right, or sums = left x right if `fresh` is set. The arguments of the function are: left,
 * right, sums, scratch, fresh. For a packed right operand, its panel stride, depth and number of panels are additional
 * arguments.
 */
export function productFunction(machine: Machine, product: Product): CodeFunction {
  const { rows, columns, depth, left, right, sumRow } = product
  const form = formOf(right)
  const name = `dot_${rows}x${columns}x${depth}_${left.dtype}_${left.rowStride}_${left.stepStride}_${right.dtype}_${form}_${sumRow}`
  const known: [string, CodeType][] = [
    ['panelStride', 'ptr'],
    ['depth', 'i32'],
    ['panels', 'i32'],
  ]
  return sharedFunction(machine, name, () =>
    codeFunction(
      name,
      [
        ...pointers('left', 'right', 'sums', 'scratch'),
        ['fresh', 'i32'],
        ...(right.kind === 'packed' ? known : []),
      ],
      (writer, leftBase, rightBase, sums, scratch, fresh, ...rest) => {
        const extents =
          right.kind === 'packed' ? { panelStride: rest[0], depth: rest[1], panels: rest[2] } : undefined
        new ProductWriter(
          writer,
          machine,
          product,
          { left: leftBase, right: rightBase, sums, scratch, fresh },
          extents,
        ).write()
      },
      { hot: true },
    ),
  )
}

function formOf(right: Product['right']): string {
  if (right.kind === 'rows') return `${right.stepStride}_${right.columnStride}`
  return right.kind === 'inner' ? `inner_${right.columnStride}` : right.kind
}

interface Places {
  readonly left: Local
  readonly right: Local
  readonly sums: Local
  readonly scratch: Local
  readonly fresh: Local
}

class ProductWriter {
  readonly #writer: Writer
  readonly #machine: Machine
  readonly #product: Product
  readonly #places: Places
  readonly #extents: Extents | undefined
  readonly #blocking: Blocking
  readonly #width: number
  /** The left operand after its elements were widened. */
  #left: { readonly base: Local; readonly row: number; readonly step: number }

  constructor(
    writer: Writer,
    machine: Machine,
    product: Product,
    places: Places,
    extents: Extents | undefined,
  ) {
    this.#writer = writer
    this.#machine = machine
    this.#product = product
    this.#places = places
    this.#extents = extents
    this.#blocking = blockingOf(machine, product)
    this.#width = panelColumns(machine)
    this.#left = { base: places.left, row: product.left.rowStride, step: product.left.stepStride }
  }

  write(): void {
    const { rows, right } = this.#product
    this.#widenLeft()
    if (right.kind === 'inner') return this.#writeInner(right)
    if (this.#extents) this.#clearMissing(this.#extents)
    const streams = streamsFor(this.#machine, rows)
    if (this.#extents && streams > 1) this.#writeStreams(this.#extents, streams)
    else this.#writeBlocks(rows)
  }

  #writeInner({ dtype, columnStride }: Extract<Product['right'], { kind: 'inner' }>): void {
    const { depth, sumRow } = this.#product
    const { right, sums, fresh } = this.#places
    const kernel = {
      depth,
      dtype,
      leftRow: this.#left.row,
      rightColumn: columnStride,
      sumRow,
    }
    multiplyInner(this.#writer, this.#machine, kernel, this.#product, {
      left: this.#left.base,
      right,
      sums,
      fresh,
    })
  }

  /** Zeroes uninitialised sums if the packed tensor ends within the tile, because no panel stores to some of them. */
  #clearMissing({ depth, panels }: Extents): void {
    const { rows, columns, sumRow } = this.#product
    const { fresh, sums } = this.#places
    const some = binary('or', compare('lt', panels, i32(columns / this.#width)), compare('le', depth, i32(0)))
    this.#writer.if(and(fresh, some), () => {
      this.#writer.zeroBytes(sums, i32((rows - 1) * sumRow + columns * wideBytes))
      this.#writer.set(fresh, i32(0))
    })
  }

  /** For few rows, multiplies groups of panels over the whole depth, and then the remaining panels one by one. */
  #writeStreams({ panelStride, depth, panels }: Extents, streams: number): void {
    const { rows, right, sumRow } = this.#product
    const group = (first: Operand, count: number): void => {
      const shape = { rows, panels: count, leftRow: this.#left.row, leftStep: this.#left.step, sumRow }
      const kernel = skinnyKernel(this.#machine, { ...shape, dtype: right.dtype })
      const sums = address(this.#places.sums, first, this.#width * wideBytes)
      const start = step(this.#places.right, first, panelStride)
      this.#writer.call(kernel, this.#left.base, start, sums, depth, panelStride, this.#places.fresh)
    }
    const whole = this.#writer.let('whole', sub(panels, binary('rem', panels, i32(streams))))
    this.#writer.for('panel', 0, whole, streams, (panel) => group(panel, streams))
    this.#writer.for('panel', max(whole, i32(0)), panels, 1, (panel) => group(panel, 1))
  }

  #writeBlocks(rows: number): void {
    this.#eachDepth((from, depth) => {
      const left = this.#writer.let('left', address(this.#left.base, from, this.#left.step))
      const begins = compare('eq', from, i32(0))
      const fresh = this.#writer.let('first', and(this.#places.fresh, begins))
      const { packs, panels } = this.#blocking
      const packedBefore = packs === 'panels' && panels > 1
      if (packedBefore) this.#eachPanel((panel, width) => void this.#pack(panel, width, from, depth))
      this.#eachRows((first, end, last) => {
        this.#eachPanel((panel, width) => {
          const ragged = width < this.#width && width % this.#machine.lanes !== 0
          const inPlace = packs === 'nothing' || (packs === 'edge' && !ragged)
          const right = inPlace
            ? this.#rightAt(panel, from, depth)
            : packedBefore
              ? this.#writer.let('right', this.#panelPlace(panel))
              : this.#pack(panel, width, from, depth)
          const block = { left, right, depth, panel, width, packed: !inPlace, fresh }
          const { whole, rest } = splitRows(rows, this.#machine.rows)
          if (whole > 0)
            this.#writer.for('row', first, end, this.#machine.rows, (row) =>
              this.#multiply(block, row, this.#machine.rows),
            )
          if (rest.length > 0)
            last(() => {
              let row = whole
              for (const count of rest) {
                this.#multiply(block, i32(row), count)
                row += count
              }
            })
        })
      })
    })
  }

  /** Iterates over blocks of the inner axis (K). */
  #eachDepth(write: (from: Operand, depth: Expression) => void): void {
    const total = this.#extents ? use(this.#extents.depth) : i32(this.#product.depth)
    const { depth } = this.#blocking
    if (this.#product.depth <= depth) return write(i32(0), total)
    const even = !this.#extents && this.#product.depth % depth === 0
    this.#writer.for('from', 0, total, depth, (from) => {
      write(from, even ? i32(depth) : use(this.#writer.let('depth', min(i32(depth), sub(total, from)))))
    })
  }

  /**
   * Iterates over blocks of rows whose sizes are multiples of the microkernel's rows. The function `last` emits code
   * for the rows after the last block.
   */
  #eachRows(write: (first: Operand, end: Expression, last: (write: () => void) => void) => void): void {
    const { rows } = this.#product
    const block = this.#blocking.rows
    const { whole } = splitRows(rows, this.#machine.rows)
    if (rows <= block) return write(i32(0), i32(whole), (after) => after())
    this.#writer.for('block', 0, rows, block, (first) => {
      const next = this.#writer.let('next', add(first, i32(block)))
      const end = this.#writer.let('end', min(next, i32(whole)))
      write(first, use(end), (after) => this.#writer.if(compare('ge', next, i32(rows)), after))
    })
  }

  /**
   * Iterates over the panels of the right operand with their numbers of columns. The last panel can have fewer columns
   * than the others.
   */
  #eachPanel(write: (panel: Operand, width: number) => void): void {
    const { columns } = this.#product
    const whole = Math.floor(columns / this.#width)
    const count = this.#extents ? use(this.#extents.panels) : i32(whole)
    if (whole > 0 || this.#extents)
      this.#writer.for('panel', 0, count, 1, (panel) => write(panel, this.#width))
    if (!this.#extents && columns % this.#width > 0) write(i32(whole), columns % this.#width)
  }

  #rightAt(panel: Operand, from: Operand, depth: Expression): Local {
    const { right } = this.#product
    const bytes = dtypes[right.dtype].bytes
    const base = this.#places.right
    if (right.kind === 'rows') {
      const rows = address(base, from, right.stepStride)
      return this.#writer.let('right', address(rows, panel, this.#width * bytes))
    }
    const stepBytes = this.#width * bytes
    const start = this.#extents
      ? step(base, panel, this.#extents.panelStride)
      : address(base, panel, this.#product.depth * stepBytes)
    const place = this.#writer.let('right', address(start, from, stepBytes))
    if (this.#extents && this.#product.rows > this.#machine.rows)
      this.#touch(this.#extents, panel, place, depth)
    return place
  }

  #touch({ panels, panelStride }: Extents, panel: Operand, place: Local, depth: Expression): void {
    const first = compare('eq', binary('remU', panel, i32(touchedPanels)), i32(0))
    const exist = compare('le', add(panel, i32(touchedPanels)), panels)
    this.#writer.if(and(first, exist), () => {
      const bytes = mul(depth, i32(this.#width * dtypes[this.#product.right.dtype].bytes))
      this.#writer.call(touchPanels(this.#machine), place, panelStride, bytes, this.#places.scratch)
    })
  }

  #panelPlace(panel: Operand): Expression {
    const { panelsAt, panels, depth } = this.#blocking
    const start = address(this.#places.scratch, 0, 1, panelsAt)
    return panels > 1 ? address(start, panel, depth * this.#width * wideBytes) : start
  }

  #pack(panel: Operand, width: number, from: Operand, depth: Expression): Local {
    const { right } = this.#product
    if (right.kind !== 'rows') throw new Error('only an operand in row order is copied into panels')
    const { stepStride, columnStride } = right
    const start = address(address(this.#places.right, from, stepStride), panel, this.#width * columnStride)
    const base = this.#writer.let('source', start)
    const place = this.#writer.let('panelPlace', this.#panelPlace(panel))
    const source = { base: use(base), stepStride, columnStride }
    packPanel(this.#writer, this.#machine, right.dtype, source, place, width, depth)
    return place
  }

  #multiply(
    block: {
      readonly left: Local
      readonly right: Local
      readonly depth: Expression
      readonly panel: Operand
      readonly width: number
      readonly packed: boolean
      readonly fresh: Local
    },
    row: Operand,
    rows: number,
  ): void {
    const { right, sumRow } = this.#product
    const { lanes } = this.#machine
    const wide = numbersOf(right.dtype).dtype
    const ragged = block.width % lanes !== 0
    const stored = block.packed || right.kind !== 'rows'
    const dtype = block.packed ? wide : right.kind === 'panels' ? wide : right.dtype
    const kernel = microkernel(this.#machine, {
      rows,
      vectors: Math.ceil(block.width / lanes),
      leftRow: this.#left.row,
      leftStep: this.#left.step,
      dtype,
      rightStep: stored ? this.#width * dtypes[dtype].bytes : right.stepStride,
      sumRow: ragged ? this.#width * wideBytes : sumRow,
    })
    const left = address(block.left, row, this.#left.row)
    const start = address(this.#places.sums, row, sumRow)
    const sums = this.#writer.let('sums', address(start, block.panel, this.#width * wideBytes))
    if (!ragged) {
      this.#writer.call(kernel, left, block.right, sums, block.depth, block.fresh)
      return
    }
    const edge = this.#places.scratch
    this.#copySums(
      rows,
      block.width,
      { base: sums, stride: sumRow },
      { base: edge, stride: this.#width * wideBytes },
    )
    this.#writer.call(kernel, left, block.right, edge, block.depth, block.fresh)
    this.#copySums(
      rows,
      block.width,
      { base: edge, stride: this.#width * wideBytes },
      { base: sums, stride: sumRow },
    )
  }

  #copySums(
    rows: number,
    columns: number,
    from: { readonly base: Local; readonly stride: number },
    to: { readonly base: Local; readonly stride: number },
  ): void {
    const { memory, scalar } = numbersOf(this.#product.right.dtype)
    this.#writer.for('edgeRow', 0, rows, 1, (row) => {
      const source = this.#writer.let('source', address(from.base, row, from.stride))
      const target = this.#writer.let('target', address(to.base, row, to.stride))
      this.#writer.for('edgeColumn', 0, columns, 1, (column) => {
        const value = this.#writer.load('value', scalar, memory, address(source, column, wideBytes))
        this.#writer.store(memory, address(target, column, wideBytes), value)
      })
    })
  }

  #widenLeft(): void {
    const { rows, depth, left } = this.#product
    if (isWide(left.dtype)) return
    const { dtype, rowStride, stepStride } = left
    const bytes = dtypes[dtype].bytes
    const base = this.#writer.let('widened', address(this.#places.scratch, 0, 1, this.#blocking.leftAt))
    const { memory } = numbersOf(dtype)
    if (stepStride === bytes) {
      const target = { base, rowStride: depth * wideBytes }
      widenRows(
        this.#writer,
        this.#machine,
        dtype,
        { base: this.#places.left, rowStride },
        target,
        i32(rows),
        depth,
      )
      this.#left = { base, row: depth * wideBytes, step: wideBytes }
      return
    }
    this.#left = { base, row: wideBytes, step: rows * wideBytes }
    if (rowStride === bytes) {
      const source = { base: this.#places.left, rowStride: stepStride }
      const target = { base, rowStride: rows * wideBytes }
      widenRows(this.#writer, this.#machine, dtype, source, target, i32(depth), rows)
      return
    }
    this.#writer.for('inner', 0, depth, 1, (inner) => {
      const from = this.#writer.let('from', address(this.#places.left, inner, stepStride))
      const to = this.#writer.let('to', address(base, inner, rows * wideBytes))
      this.#writer.for('row', 0, rows, 1, (row) => {
        const raw = this.#writer.load(
          'raw',
          rawCodeType(dtype, false),
          memoryKind(dtype),
          address(from, row, rowStride),
        )
        this.#writer.store(
          memory,
          address(to, row, wideBytes),
          widen(this.#writer, this.#machine, dtype, raw),
        )
      })
    })
  }
}
