/**
 * Emits the ops by which TMA stores a fragment box by box through staging memory, with their synchronisation
 * (ir/ops/staging.ts).
 */
import type { Node } from '../../../ir/node.ts'
import { STAGING_PLACES } from '../../../ir/ops/index.ts'
import type { Copier } from '../../../ir/rewrite.ts'
import type { Site } from '../../../ir/site.ts'
import { valueType, type ValueType } from '../../../ir/type.ts'
import type { TensorPlan } from './copies.ts'

interface StagedStore {
  readonly target: Node
  readonly value: Node
  readonly plan: TensorPlan
  readonly site: Site | undefined
}

export function emitBoxes(copier: Copier, staging: Node, { target, value, plan, site }: StagedStore): Node {
  const [, columns] = (value.type as ValueType).shape
  const [width] = plan.map.box
  const boxes = { count: plan.boxes.length, perRow: columns / width }
  const body = copier.block([{ type: valueType('i32'), name: 'box' }], ([box]) => {
    const place = copier.emit('staging.place', [staging, box])
    copier.emit('drain', [], { of: 'reads', pending: STAGING_PLACES - 1 })
    copier.emit('meet', [], { of: 'warpgroup' })
    copier.emit('stage', [place, value, box])
    copier.emit('fence.async', [], { space: 'shared' })
    copier.emit('meet', [], { of: 'warpgroup' })
    copier.emit('store.box', [target, value, place, box], { by: 'engine', ...boxes }, [], site)
    return []
  })
  return copier.emit('boxes', [value], boxes, [body], site)
}
