/**
 * How rendered code is compiled: the command line, what a cached result depends on, and the machine that a compiler's
 * predefined macros describe. Knows no files and no processes: node.ts has those.
 */
import type { Machine } from '../cpu/code.ts'

/** Raised when what an entry of the cache is changes, so that older ones are never read. */
const cacheVersion = 'arke native 1'

/** What the compiler is asked for its macros with: everything that decides which instructions there are. */
export const targetFlags: readonly string[] = ['-std=c++17', '-O3', '-march=native']

/** Meaning first: integers wrap, nothing fuses that Code does not fuse, and no operation sets `errno` or raises a flag. */
const meaningFlags = ['-fwrapv', '-ffp-contract=off', '-fno-math-errno', '-fno-trapping-math']

/** A product's innermost loop that begins within a line of the instruction cache runs up to a tenth slower, or not, by chance. */
const alignmentFlags = ['-falign-functions=64', '-falign-loops=64']

/** Nothing that needs a runtime, which would cost time to link and to load. */
const plainFlags = ['-fno-exceptions', '-fno-rtti', '-fno-asynchronous-unwind-tables', '-w']

/** Where kernels call nothing but what Node has already loaded, no libraries are searched: half of a small kernel's time. */
const linkFlags = (macros: string): string[] => [
  '-shared',
  '-fPIC',
  ...(has(macros, '__linux__', '__x86_64__') ? ['-nostdlib'] : []),
]

export const macroArguments = (): string[] => [...targetFlags, '-dM', '-E', '-x', 'c++', '/dev/null']

export const compileArguments = (source: string, library: string, macros: string): string[] => [
  ...targetFlags,
  ...meaningFlags,
  ...alignmentFlags,
  ...plainFlags,
  ...linkFlags(macros),
  '-o',
  library,
  source,
]

/** All that a library is made from, as text to be hashed. The macros hold the compiler's version and the processor's features. */
export const contentKey = (source: string, compiler: readonly string[], macros: string): string =>
  [cacheVersion, compiler.join(' '), compileArguments('', '', macros).join(' '), macros, source].join('\0')

const has = (macros: string, ...names: readonly string[]): boolean =>
  names.every((name) => new RegExp(`^#define ${name}\\b`, 'm').test(macros))

/** Sizes of the first and second level of cache, in bytes. */
export interface Caches {
  readonly l1: number
  readonly l2: number
}
export const defaultCaches: Caches = { l1: 32 * 1024, l2: 512 * 1024 }

/** Vectors that code is written for. */
export const laneCounts = [4, 8, 16] as const

/**
 * The vectors of a processor, and the microkernel that fills its registers: 16 of them, or 32. With other `lanes` the compiler makes
 * of each vector what the processor has.
 */
export function machineOf(macros: string, caches: Caches, lanes = lanesOf(macros)): Machine {
  const rows = lanes === 16 || has(macros, '__aarch64__') ? 12 : 6
  return { name: 'native', lanes, rows, columns: 2, ...caches }
}

function lanesOf(macros: string): number {
  if (has(macros, '__AVX512F__', '__AVX512BW__', '__AVX512VL__')) return 16
  return has(macros, '__AVX2__', '__FMA__') ? 8 : 4
}

/** `32K`, `1M`, or bytes, as Linux writes the size of a cache. */
export function cacheBytes(text: string): number | undefined {
  const match = /^(\d+)([KM]?)$/.exec(text.trim())
  if (!match) return undefined
  return Number(match[1]) * { '': 1, K: 1024, M: 1024 * 1024 }[match[2] as '' | 'K' | 'M']
}
