/**
 * Stores a fragment to global memory by the TMA (tensor memory accelerator). Each warpgroup writes boxes of 64 rows
 * x 128 bytes to two staging tiles in shared memory alternately, so that one box can be filled while the other is
 * stored.
 */
import { attribute, type Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { code, integer, joined } from '../code.ts'
import type { Emission } from '../emission.ts'
import { is16Bit } from '../spell.ts'
import { tileOf } from '../views.ts'
import { recorded } from './memory.ts'
import { engineCoordinates } from './places.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'

export const STAGING_BOX = 64 * 128

export const boxes: Renderer = (node, emission) => {
  const stored = node.blocks[0].nodes.find(({ op }) => op === 'store.box')!
  recorded(stored, stored.inputs[0], emission, () => loop(node, emission))
}

function loop(node: Node, emission: Emission): void {
  const { out } = emission
  const [body] = node.blocks
  const array = emission.inArray(node.inputs[0])
  out.line('#pragma unroll')
  out.block(
    code`for (u32 box = 0; box < ${attribute<number>(node, 'count')}; ++box)`,
    () => {
      emission.stored = array
      emission.block(body)
      emission.stored = undefined
    },
    node.site,
  )
}

/** Declares the address of the staging buffer for a box. Each warpgroup has two staging buffers of its own. */
export const place: Renderer = (_, { out, group, plans }) => {
  const region = plans.shared.staging.get(group)!
  const own = group.warps === 4 ? 'box % 2' : '(thread / 128 * 2 + box % 2)'
  out.line(code`const u32 staging = shared + ${region.at} + ${own} * ${STAGING_BOX};`)
}

/**
 * The number of registers per thread that hold one box of 64 rows x 128 bytes: 64 elements of 16 bits per row, or 32
 * elements of 32 bits.
 */
const BOX_REGISTERS = 16

export const stage: Renderer = ({ inputs: [, value] }, { out, stored }) => {
  const kind = is16Bit((value.type as ValueType).dtype) ? 'halves' : 'floats'
  out.line(code`${lib[`stage_${kind}`]}(staging, ${stored!}, box * ${BOX_REGISTERS}, thread);`)
}

export const storeBox: Renderer = (node, emission) => {
  const { out, group, plans } = emission
  const plan = plans.stores.get(node)!
  const { count, perRow } = node.attributes as { count: number; perRow: number }
  const [width] = plan.map.box
  const rowTiles = count / perRow
  const map = emission.params.map(plan.map)
  const call = emission.tensorCopy('store', plan.map.box.length + Number(plan.map.ranked))
  const row = rowTiles === 1 ? integer(0) : code`box / ${perRow} * 64`
  const boxRow =
    group.warps === 4
      ? row
      : code`(${lib.i32})(thread / 128 * ${64 * rowTiles}${rowTiles === 1 ? '' : code` + ${row}`})`
  const boxColumn = code`(${lib.i32})(box${rowTiles === 1 ? '' : code` % ${perRow}`} * ${width})`
  out.block('if (thread % 128 == 0)', () => {
    const coordinates = engineCoordinates(
      tileOf(node.inputs[0]),
      [boxRow, boxColumn],
      plan.map.ranked,
      emission,
    )
    out.line(code`${call}(${map}, staging, ${joined(coordinates, ', ')});`)
    out.line(code`${lib.tma_store_commit}();`)
  })
}
