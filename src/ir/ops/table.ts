/** All ops. Adding one means adding its record here and telling the targets that do it specially. */
import { controlOps } from './control.ts'
import { memoryOps } from './memory.ts'
import type { Op } from './op.ts'
import { stageOps } from './stages.ts'
import { syncOps } from './sync.ts'
import { valueOps } from './values.ts'
import { viewOps } from './views.ts'

const all = { ...valueOps, ...viewOps, ...memoryOps, ...syncOps, ...controlOps, ...stageOps }

export type OpName = keyof typeof all
export const ops: Readonly<Record<OpName, Op>> = all

/** The record of a node's op. An analysis that meets an op without one has nothing to go by, so it stops here. */
export function opOf({ op }: { readonly op: OpName }): Op {
  const record = (ops as Readonly<Record<string, Op | undefined>>)[op]
  if (!record) throw new Error(`${op} is no op: src/ir/ops has no record of it`)
  return record
}
