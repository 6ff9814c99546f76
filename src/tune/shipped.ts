/**
 * The tuned tiles that Arke ships, keyed by device name. Only `bench/gpu/tune.ts` and `arke tune --write` write tables
 * of tiles that Arke ships.
 */
import { h200 } from './h200.ts'
import type { Tables } from './tables.ts'

export const shippedTables: Tables = { 'NVIDIA H200': h200 }
