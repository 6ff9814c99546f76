/**
 * Stores a fragment to global memory by the TMA (tensor memory accelerator). Each warpgroup writes boxes of 64 rows
 * x 128 bytes to two staging tiles in shared memory alternately, so that one box can be filled while the other is
 * stored.
 */
import type { Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import type { TensorPlan } from '../copies.ts'
import type { Emission } from '../emission.ts'
import { is16Bit } from '../spell.ts'
import { tileOf } from '../views.ts'
import { engineCoordinates } from './places.ts'

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
  const row = rowTiles === 1 ? '0' : `box / ${perRow} * 64`
  const boxRow = isOne ? row : `(i32)(thread / 128 * ${64 * rowTiles}${rowTiles === 1 ? '' : ` + ${row}`})`
  const boxColumn = `(i32)(box${rowTiles === 1 ? '' : ` % ${perRow}`} * ${width})`
  out.line('#pragma unroll')
  out.block(
    `for (u32 box = 0; box < ${plan.boxes.length}; ++box)`,
    () => {
      const slot = isOne ? 'box % 2' : '(thread / 128 * 2 + box % 2)'
      out.line(`const u32 staging = shared + ${region.at} + ${slot} * ${STAGING_BOX};`)
      out.line(
        'if (thread % 128 == 0) tma_store_wait_read<1>();  // the box before last has left its staging tile',
      )
      out.line(`group_barrier(${barrier}, 128);`)
      out.line(
        `stage_${is16Bit(dtype) ? 'halves' : 'floats'}(staging, ${array}, box * ${registers}, thread);`,
      )
      out.line('fence_async_shared();')
      out.line(`group_barrier(${barrier}, 128);`)
      out.block('if (thread % 128 == 0)', () => {
        const coordinates = engineCoordinates(view, [boxRow, boxColumn], plan.map.ranked, emission)
        out.line(`${call}(${map}, staging, ${coordinates.join(', ')});`)
        out.line('tma_store_commit();')
      })
    },
    node.site,
  )
}
