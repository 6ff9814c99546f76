/**
 * Defines how rendered C++ is compiled: the command line, the cache key, and the machine described by a compiler's
 * predefined macros. The file build.ts does not access files or processes; node.ts does.
 */
import type { Machine } from '../cpu/code.ts'

/**
 * The version of the cache format, which must be incremented when the format of a cache entry changes, so that older
 * entries are never read.
 */
const cacheVersion = 'arke native 1'

/** The flags that decide which instructions the compiler uses, both when it compiles and when it prints its macros. */
const targetFlags: readonly string[] = ['-std=c++17', '-O3', '-march=native']

/**
 * Compiler flags that define the semantics: integers wrap, the compiler fuses no operations unless the code requests
 * it, and no operation sets `errno` or raises a flag.
 */
const meaningFlags = ['-fwrapv', '-ffp-contract=off', '-fno-math-errno', '-fno-trapping-math']

/**
 * The vectors of a kernel are as wide as the processor's widest registers. Functions that have no vector form in the
 * compiler (fused multiply-add, square root) are written as loops over lanes, and the compiler must turn each such loop
 * into one instruction. Without the flag `-mprefer-vector-width=512`, gcc avoids 64-byte registers if it tunes for an
 * Intel processor, and computes each lane by itself.
 */
const vectorFlags = (macros: string): string[] =>
  has(macros, '__x86_64__', '__AVX512F__') ? ['-mprefer-vector-width=512'] : []

/**
 * Without aligned functions and loops, the innermost loop of a matrix product may straddle instruction-cache lines and
 * run up to 10 % slower, depending on chance.
 */
const alignmentFlags = ['-falign-functions=64', '-falign-loops=64']

/** Compiler flags that avoid everything that needs a runtime library, which would take time to link and to load. */
const plainFlags = ['-fno-exceptions', '-fno-rtti', '-fno-asynchronous-unwind-tables', '-w']

/**
 * On Linux x86-64, kernels only call functions that Node has already loaded. Skipping the library search halves the
 * time to build a small kernel.
 */
const linkFlags = (macros: string): string[] => [
  '-shared',
  '-fPIC',
  ...(has(macros, '__linux__', '__x86_64__') ? ['-nostdlib'] : []),
]

export const macroArguments = (): string[] => [...targetFlags, '-dM', '-E', '-x', 'c++', '/dev/null']

export const compileArguments = (source: string, library: string, macros: string): string[] => [
  ...targetFlags,
  ...vectorFlags(macros),
  ...meaningFlags,
  ...alignmentFlags,
  ...plainFlags,
  ...linkFlags(macros),
  '-o',
  library,
  source,
]

/**
 * Returns all inputs of the compilation of a library as one text, which is hashed to name the library in the cache. The
 * compiler's macros include its version and the processor's features.
 */
export const contentKey = (source: string, compiler: readonly string[], macros: string): string =>
  [cacheVersion, compiler.join(' '), compileArguments('', '', macros).join(' '), macros, source].join('\0')

const has = (macros: string, ...names: readonly string[]): boolean =>
  names.every((name) => new RegExp(`^#define ${name}\\b`, 'm').test(macros))

/** The sizes of the L1 and L2 caches, in bytes. */
export interface Caches {
  readonly l1: number
  readonly l2: number
}
export const defaultCaches: Caches = { l1: 32 * 1024, l2: 512 * 1024 }

/** The supported numbers of vector lanes. */
export const laneCounts = [4, 8, 16] as const

/**
 * The processor's vector width, and the microkernel that fills its 16 or 32 vector registers. With another number of
 * `lanes`, the compiler maps each vector to the registers that the processor has.
 */
export function machineOf(macros: string, caches: Caches, lanes = lanesOf(macros)): Machine {
  const rows = lanes === 16 || has(macros, '__aarch64__') ? 12 : 6
  return { name: 'native', lanes, rows, columns: 2, prefetches: true, ...caches }
}

function lanesOf(macros: string): number {
  if (has(macros, '__AVX512F__', '__AVX512BW__', '__AVX512VL__')) return 16
  return has(macros, '__AVX2__', '__FMA__') ? 8 : 4
}
