/** What was tuned on devices that others have, too, by the names of those. */
import type { Tables } from './tables.ts'
import { h200 } from './h200.ts'

export const shippedTables: Tables = { 'NVIDIA H200': h200 }
