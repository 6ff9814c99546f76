/**
 * Renders the matrix product with mma.sync, in tiles of 16 x 8 with 16 elements along k. Every warp has the rows of the
 * left operand for its tiles in registers or loads them with ldmatrix. A warp loads only the columns of the right
 * operand for its own tiles, two tiles at a time if their number is even. Addresses of rows beyond the last are clamped
 * to existing rows.
 */
import type { Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { code, integer, plain, sum, type Code, type Variable } from '../code.ts'
import type { Emission } from '../emission.ts'
import { firstColumn } from '../layout.ts'
import { lib } from '../library.ts'
import type { Operands } from './dot.ts'
import { sharedAddress, type SharedView } from './places.ts'

export function multiplyTiles(node: Node, operands: Operands, acc: Variable, emission: Emission): void {
  const { out, plans } = emission
  const [a] = node.inputs
  const { dtype, shape } = a.type as ValueType
  const [rows, depth] = shape
  const spread = plans.layouts.of(node).spread!
  const { rowTiles, rowWarps, warpsOfRow, columnTiles } = spread
  const registersA = operands.left ? undefined : emission.inArray(a, 'left')
  const wide = columnTiles % 2 === 0
  const firstRow = rowWarps === 1 ? integer(0) : code`thread / ${32 * warpsOfRow} * ${16 * rowTiles}`
  const tiles = Array.from({ length: rowTiles }, (_, tile) => tile)

  out.line('#pragma unroll')
  out.block(
    code`for (u32 step = 0; step < ${depth / 16}; ++step)`,
    () => {
      if (operands.left)
        for (const tile of tiles) {
          const left = leftMatrices(operands.left, sum(firstRow, integer(16 * tile)), rows)
          out.line(code`u32 left${tile}[4];`)
          out.line(code`${loadOf(left, 4)}(left${tile}, ${left.address});`)
        }
      out.line('#pragma unroll')
      out.block(code`for (u32 octet = 0; octet < ${columnTiles}; ${wide ? 'octet += 2' : '++octet'})`, () => {
        const right = rightMatrices(operands.right, sum(firstColumn(spread), plain('octet * 8')))
        out.line(code`u32 right[${wide ? 4 : 2}];`)
        out.line(code`${loadOf(right, wide ? 4 : 2)}(right, ${right.address});`)
        for (const tile of tiles)
          for (const half of wide ? [0, 1] : [0]) {
            const at = sum(integer(4 * columnTiles * tile + 4 * half), plain('octet * 4'))
            const left = registersA
              ? code`${lib.part}<4>(${registersA}, ${sum(integer((depth / 4) * tile), plain('step * 4'))})`
              : code`left${tile}`
            const [low, high] = [2 * half, 2 * half + 1]
            out.line(
              code`${lib[`mma_${dtype as 'f16' | 'bf16'}`]}(${lib.part}<4>(${acc}, ${at}), ${left}, right[${low}], right[${high}]);`,
            )
          }
      })
    },
    node.site,
  )
}

interface MatrixLoad {
  readonly isTransposed: boolean
  /** The address of one row of an 8 x 8 matrix. Each thread passes the address of a different row to ldmatrix. */
  readonly address: Code
}

const loadOf = ({ isTransposed }: MatrixLoad, count: 2 | 4): Code =>
  lib[`load_matrix${isTransposed ? '_transposed' : ''}_x${count}` as const]

/**
 * Returns the ldmatrix load of the left operand. The four 8 x 8 matrices are ordered by rows first, then by k, as in
 * the registers of the left operand of mma.sync.
 */
function leftMatrices(view: SharedView, first: Code, rows: number): MatrixLoad {
  const low = plain('thread % 16')
  const high = plain('thread % 32 / 16 * 8')
  if (view.transposed) {
    const row = clamped(sum(first, plain('thread / 8 % 2 * 8')), rows, 8)
    const k = code`(step * 16 + thread % 8 + ${high})`
    return { isTransposed: true, address: sharedAddress(view, [row, k]) }
  }
  const row = clamped(sum(first, low), rows, 1)
  return { isTransposed: false, address: sharedAddress(view, [row, code`(step * 16 + ${high})`]) }
}

/** Returns the ldmatrix load of the right operand. The 8 x 8 matrices are ordered by k first, then by columns. */
function rightMatrices(view: SharedView, first: Code): MatrixLoad {
  if (view.transposed) {
    const column = code`(${first} + thread % 8 + thread % 32 / 16 * 8)`
    const k = plain('(step * 16 + thread / 8 % 2 * 8)')
    return { isTransposed: false, address: sharedAddress(view, [k, column]) }
  }
  const k = plain('(step * 16 + thread % 16)')
  const column = code`(${first} + thread % 32 / 16 * 8)`
  return { isTransposed: true, address: sharedAddress(view, [k, column]) }
}

const clamped = (text: Code, rows: number, step: number): Code =>
  rows % 16 === 0 ? code`(${text})` : code`${lib.min_u32}(${text}, ${Math.max(0, rows - step)})`
