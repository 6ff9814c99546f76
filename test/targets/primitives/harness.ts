/** Runs tables of primitives on every available target, including the checker. */
import { openWorld, type OpenOptions, type World } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import { realTargets } from '../differential/targets.ts'
import { openOnCpu, unavailable } from '../../cuda/onCpu/onCpu.ts'
import { itForSome } from '../../long.ts'

export const targets: readonly string[] = ['check', ...(await realTargets())]

/** Runs emitted CUDA C++ on this CPU, thread by thread. */
export const cudaOnCpu = 'cuda on this CPU'
const why = unavailable()
if (why) console.info(`emitted kernels do not run on this CPU: ${why}`)
/** Every available target and, unless ARKE_TARGETS names targets, emitted CUDA C++ on this CPU. */
export const places: readonly string[] = (why ?? process.env.ARKE_TARGETS) ? targets : [...targets, cudaOnCpu]

export const worldSizes = [1, 2, 3, 4, 5, 6, 7, 8]

/** If ARKE_STRESS=1 is set, the tests run all combinations. */
export const everything = process.env.ARKE_STRESS === '1'
/**
 * Selects fewer cases on `native`, where compiling C++ takes about a second per kernel. wasm renders the same Code at
 * once.
 */
export const fewerOn = <T>(target: string, all: readonly T[], few: readonly T[]): readonly T[] =>
  target === 'native' && !everything ? few : all
/**
 * Declares one test per case. On native, compiling a case takes a second, so all tests but the first run only in the
 * long run.
 */
export const itForEach = <const T>(target: string, cases: readonly T[]) =>
  itForSome(cases, (_case, n) => target !== 'native' || n === 0)
/** Declares one test per world size. The short run has only world size 3, and size 8 if kernels need no compiler. */
export const itForSizes = (target: string, sizes: readonly number[]) =>
  itForSome(sizes, (ranks) => ranks === 3 || (ranks === 8 && target !== 'native'))
export const storage = ['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8', 'u8', 'i32', 'u32', 'i64'] as const
export const orders = ['relaxed', 'acquire', 'release', 'acqRel'] as const
export const scopes = ['block', 'device', 'system'] as const
export const masks = ['none', 'all on', 'all off', 'ragged'] as const
export type MaskKind = (typeof masks)[number]

/** True if the mask is on in the given lane (element). */
export const isOn = (mask: MaskKind, lane: number): boolean =>
  mask === 'none' || mask === 'all on' || (mask === 'ragged' && lane < raggedLanes)
/** The number of lanes (elements) that are on in a ragged mask. */
export const raggedLanes = 3
/** The mask of n lanes is `arange(n).lt(limitOf(mask))`. */
export const limitOf = (mask: MaskKind): number =>
  mask === 'all off' ? 0 : mask === 'ragged' ? raggedLanes : 1000

export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

/** A small integer that every dtype can represent and that depends on the indices. */
export const numberAt = (dtype: StorageDType, ...at: readonly number[]): number => {
  const mixed = at.reduce((sum, one, i) => sum + one * (7 * i + 3), dtype.length)
  return dtype.startsWith('u') ? mixed % 15 : (mixed % 15) - 7
}

/** The initial contents of outputs. Every dtype can represent the initial value, and no table writes it. */
export const poison = 96

export async function onWorld<T>(
  target: string,
  ranks: number,
  run: (world: World) => Promise<T>,
  options: Pick<OpenOptions, 'onPrint' | 'workers'> = {},
): Promise<T> {
  const world =
    target === cudaOnCpu ? openOnCpu(ranks, options) : await openWorld({ target, ranks, ...options })
  try {
    return await run(world)
  } finally {
    await world.close()
  }
}
