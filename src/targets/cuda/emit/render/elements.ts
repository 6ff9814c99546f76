/**
 * Renders the matrix product as plain arithmetic. Plain arithmetic is used where the tensor cores do not compute what
 * the language defines: for f32, for 8-bit operands, and for extents that no matrix instruction supports. For plain
 * arithmetic, both operands of the matrix product are in shared memory. For each step along k, a thread reads the
 * elements of its own rows and columns.
 */
import type { DType } from '../../../../ir/dtype.ts'
import type { Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { code, REGISTER, word, type Code, type Variable } from '../code.ts'
import type { Emission } from '../emission.ts'
import { columnsLayout, rowsLayout, sliceIndex } from '../layout.ts'
import { registerType, spellCast } from '../spell.ts'
import type { Operands } from './dot.ts'
import { sharedAddress, type SharedView } from './places.ts'
import { lib } from '../library.ts'

export function multiplyElements(node: Node, operands: Operands, acc: Variable, emission: Emission): void {
  const { out, group, plans } = emission
  const { dtype: sumType, shape } = node.type as ValueType
  const [rows, columns] = shape
  const [, depth] = (node.inputs[0].type as ValueType).shape
  const layout = plans.layouts.of(node)
  const ofRows = rowsLayout([rows], group)
  const ofColumns = columnsLayout([columns], rows, group)
  const type = registerType(sumType)
  out.line('#pragma unroll 2')
  out.block(
    code`for (u32 step = 0; step < ${depth}; ++step)`,
    () => {
      const row = clamped(ofRows.place(REGISTER)[0], rows, ofRows.exists(REGISTER))
      const column = clamped(ofColumns.place(REGISTER)[0], columns, ofColumns.exists(REGISTER))
      out.line(code`${type} left[${ofRows.count}], right[${ofColumns.count}];`)
      out.unrolled(ofRows.count, code`left[i] = ${read(operands.left!, [row, word('step')], sumType)};`)
      out.unrolled(
        ofColumns.count,
        code`right[i] = ${read(operands.right, [word('step'), column], sumType)};`,
      )
      const [left, right] = [
        code`left[${sliceIndex('rows', layout, REGISTER)}]`,
        code`right[${sliceIndex('columns', layout, REGISTER)}]`,
      ]
      const sum =
        sumType === 'f32' ? code`fmaf(${left}, ${right}, ${acc}[i])` : code`${acc}[i] + ${left} * ${right}`
      out.unrolled(layout.count, code`${acc}[i] = ${sum};`)
    },
    node.site,
  )
}

function read(view: SharedView, at: readonly Code[], as: DType): Code {
  const { dtype } = view.tile
  const text = code`${lib.shared_load}<${registerType(dtype)}>(${sharedAddress(view, at)})`
  return spellCast(dtype, as, text)
}

const clamped = (text: Code, extent: number, exists: Code | undefined): Code =>
  exists ? code`${lib.min_u32}(${text}, ${extent - 1})` : text
