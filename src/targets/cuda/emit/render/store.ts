/**
 * Stores a fragment to global memory by the TMA (tensor memory accelerator). Each warpgroup writes boxes of 64 rows
 * x 128 bytes to two staging tiles in shared memory alternately, so that one box can be filled while the other is
 * stored.
 */
import type { Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import type { TensorPlan } from '../copies.ts'
import { code, integer, joined } from '../code.ts'
import type { Emission } from '../emission.ts'
import { is16Bit } from '../spell.ts'
import { tileOf } from '../views.ts'
import { engineCoordinates } from './places.ts'
import { lib } from '../library.ts'

export const STAGING_BOX = 64 * 128

export function storeByEngine(node: Node, plan: TensorPlan, emission: Emission): void {
  const { out, group, plans } = emission
  const [target, value] = node.inputs
  const { dtype, shape } = value.type as ValueType
  const view = tileOf(target)
  const map = emission.params.map(plan.map)
  const call = emission.tensorCopy('store', plan.map.box.length + Number(plan.map.ranked))
  const array = emission.inArray(value)
  const region = plans.shared.staging.get(group)!
  const [width] = plan.map.box
  const perRow = shape[1] / width
  const rowTiles = plan.boxes.length / perRow
  const registers = is16Bit(dtype) ? width / 4 : width / 2
  const isOne = group.warps === 4
  const barrier = emission.warpgroupBarrier()
  const row = rowTiles === 1 ? integer(0) : code`box / ${perRow} * 64`
  const boxRow = isOne
    ? row
    : code`(${lib.i32})(thread / 128 * ${64 * rowTiles}${rowTiles === 1 ? '' : code` + ${row}`})`
  const boxColumn = code`(${lib.i32})(box${rowTiles === 1 ? '' : code` % ${perRow}`} * ${width})`
  out.line('#pragma unroll')
  out.block(
    code`for (u32 box = 0; box < ${plan.boxes.length}; ++box)`,
    () => {
      const slot = isOne ? 'box % 2' : '(thread / 128 * 2 + box % 2)'
      out.line(code`const u32 staging = shared + ${region.at} + ${slot} * ${STAGING_BOX};`)
      out.line(
        code`if (thread % 128 == 0) ${lib.tma_store_wait_read}<1>();  // the box before last has left its staging tile`,
      )
      out.line(code`${lib.group_barrier}(${barrier}, 128);`)
      out.line(
        code`${lib[`stage_${is16Bit(dtype) ? 'halves' : 'floats'}`]}(staging, ${array}, box * ${registers}, thread);`,
      )
      out.line(code`${lib.fence_async_shared}();`)
      out.line(code`${lib.group_barrier}(${barrier}, 128);`)
      out.block('if (thread % 128 == 0)', () => {
        const coordinates = engineCoordinates(view, [boxRow, boxColumn], plan.map.ranked, emission)
        out.line(code`${call}(${map}, staging, ${joined(coordinates, ', ')});`)
        out.line(code`${lib.tma_store_commit}();`)
      })
    },
    node.site,
  )
}
