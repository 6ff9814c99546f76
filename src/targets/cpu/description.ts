/** Defines what the descriptions of both CPU targets have in common (../description.ts). */
import type { TargetDescription } from '../description.ts'

const wasmPage = 65536

/**
 * The heaps of a world are limited by 32-bit addresses. Untouched pages take no physical memory, so the maximum heap
 * size does not depend on the number of open worlds.
 */
export const cpuHeap: TargetDescription['measuredHeap'] = (ranks) =>
  Math.floor((3.5 * 2 ** 30) / ranks / wasmPage) * wasmPage
