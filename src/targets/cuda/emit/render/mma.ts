/**
 * Renders the matrix product with mma.sync, in tiles of 16 x 8 with 16 elements along k. Every warp has the left
 * rows of its tiles in registers or loads them with ldmatrix. It loads only the right columns of its own tiles, two
 * tiles at a time if their number is even. Addresses of rows beyond the last are clamped to existing rows.
 */
import type { Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import type { Emission } from '../emission.ts'
import { firstColumn } from '../layout.ts'
import type { Operands } from './dot.ts'
import { sharedAddress, sum, type SharedView } from './places.ts'

export function multiplyTiles(node: Node, operands: Operands, acc: string, emission: Emission): void {
  const { out, plans } = emission
  const [a] = node.inputs
  const { dtype, shape } = a.type as ValueType
  const [rows, depth] = shape
  const spread = plans.layouts.of(node).spread!
  const { rowTiles, rowWarps, warpsOfRow, columnTiles } = spread
  const registersA = operands.left ? undefined : emission.inArray(a, 'left')
  const wide = columnTiles % 2 === 0
  const firstRow = rowWarps === 1 ? '0' : `thread / ${32 * warpsOfRow} * ${16 * rowTiles}`
  const tiles = Array.from({ length: rowTiles }, (_, tile) => tile)

  out.line('#pragma unroll')
  out.block(
    `for (u32 step = 0; step < ${depth / 16}; ++step)`,
    () => {
      if (operands.left)
        for (const tile of tiles) {
          const { load, address } = leftMatrices(operands.left, sum(firstRow, String(16 * tile)), rows)
          out.line(`u32 left${tile}[4];`)
          out.line(`${load}(left${tile}, ${address});`)
        }
      out.line('#pragma unroll')
      out.block(`for (u32 octet = 0; octet < ${columnTiles}; ${wide ? 'octet += 2' : '++octet'})`, () => {
        const { load, address } = rightMatrices(operands.right, sum(firstColumn(spread), 'octet * 8'))
        out.line(`u32 right[${wide ? 4 : 2}];`)
        out.line(`${load}${wide ? '_x4' : '_x2'}(right, ${address});`)
        for (const tile of tiles)
          for (const half of wide ? [0, 1] : [0]) {
            const at = sum(String(4 * columnTiles * tile + 4 * half), 'octet * 4')
            const left = registersA
              ? `part<4>(${registersA}, ${sum(String((depth / 4) * tile), 'step * 4')})`
              : `left${tile}`
            const [low, high] = [2 * half, 2 * half + 1]
            out.line(`mma_${dtype}(part<4>(${acc}, ${at}), ${left}, right[${low}], right[${high}]);`)
          }
      })
    },
    node.site,
  )
}

interface MatrixLoad {
  readonly load: string
  /** The address of the row of the 8 x 8 matrices that the executing thread supplies to ldmatrix. */
  readonly address: string
}

/**
 * The load of the left operand. Its four matrices are ordered rows first, then k, as the left registers of mma.sync
 * are.
 */
function leftMatrices(view: SharedView, first: string, rows: number): MatrixLoad {
  const low = 'thread % 16'
  const high = 'thread % 32 / 16 * 8'
  if (view.transposed) {
    const row = clamped(sum(first, 'thread / 8 % 2 * 8'), rows, 8)
    const k = `(step * 16 + thread % 8 + ${high})`
    return { load: 'load_matrix_transposed_x4', address: sharedAddress(view, [row, k]) }
  }
  const row = clamped(sum(first, low), rows, 1)
  return { load: 'load_matrix_x4', address: sharedAddress(view, [row, `(step * 16 + ${high})`]) }
}

/** The load of the right operand. Its matrices are ordered along k first, then by the next eight columns. */
function rightMatrices(view: SharedView, first: string): MatrixLoad {
  if (view.transposed) {
    const column = `(${first} + thread % 8 + thread % 32 / 16 * 8)`
    const k = '(step * 16 + thread / 8 % 2 * 8)'
    return { load: 'load_matrix', address: sharedAddress(view, [k, column]) }
  }
  const k = '(step * 16 + thread % 16)'
  const column = `(${first} + thread % 32 / 16 * 8)`
  return { load: 'load_matrix_transposed', address: sharedAddress(view, [k, column]) }
}

const clamped = (text: string, rows: number, step: number): string =>
  rows % 16 === 0 ? `(${text})` : `min_u32(${text}, ${Math.max(0, rows - step)})`
