/** What was tuned on devices that others have, too, by the names of those. */
import { h200 } from './h200.ts'
import { h200ByHand } from './h200ByHand.ts'
import type { Table, Tables } from './tables.ts'

/** As tuning writes them. */
export const tunedTables: Tables = { 'NVIDIA H200': h200 }

/** With what was chosen by hand. */
export const shippedTables: Tables = { 'NVIDIA H200': overlaid(h200, h200ByHand) }

function overlaid(table: Table, over: Table): Table {
  const both = { ...table }
  for (const [setting, classes] of Object.entries(over)) both[setting] = { ...both[setting], ...classes }
  return both
}
