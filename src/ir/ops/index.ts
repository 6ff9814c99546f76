/** All ops. Adding one means adding its record here and telling the targets that do it specially. */
import { controlOps } from './control.ts'
import { memoryOps } from './memory.ts'
import type { Op } from './op.ts'
import { syncOps } from './sync.ts'
import { valueOps } from './values.ts'
import { viewOps } from './views.ts'

const all = { ...valueOps, ...viewOps, ...memoryOps, ...syncOps, ...controlOps }

export type OpName = keyof typeof all
export const ops: Readonly<Record<OpName, Op>> = all

export { atomicMeaning, bytesOf, orders, scopes, type Order, type Scope } from './memory.ts'
export { isRemote, origin, paramName, writtenRefs } from './views.ts'
export { SpecError, type Datum, type Effect, type Op } from './op.ts'
