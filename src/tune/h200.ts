/** Tiles that were the fastest on NVIDIA H200, by setting and class of shapes. Written by tuning; do not edit. */
import type { Table } from './tables.ts'

export const h200: Table = {}
