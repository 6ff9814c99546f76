/**
 * What is tuned for the table that is shipped, and how a point is: candidates that were found right in some places take turns on a
 * stage, and the faster half goes on.
 */
import { allGatherGemm, allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import {
  flashDecode,
  flashDecodeOperation,
  type FlashDecodeShape,
  type FlashDecodeVariant,
} from '../../src/ops/flashDecode/index.ts'
import type { AllGatherGemmVariant } from '../../src/ops/allGatherGemm/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import type { TilingWorld } from '../../src/ops/operation.ts'
import { gemmTiling } from '../../src/ops/tiles.ts'
import type { Timed } from '../../src/runs/gate.ts'
import { medianOf } from '../../src/runs/quantity.ts'
import type { Tiling } from '../../src/tune/configurations.ts'
import { halve } from '../../src/tune/halving.ts'
import { namedNumbers, type Numbers } from '../../src/tune/tables.ts'
import { timedPart, type Tuned } from '../../src/tune/tune.ts'
import { sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/world/machines.ts'
import { cacheBytes, planCells, setsFor, type Cell } from './cells.ts'
import { decodeCheck, decodeInputs, sampleAttention } from './decode.ts'
import { gatherExtents, gatherInputs, sets as gatherSets } from './gather.ts'
import { gemmHeap, gemmInputs } from './gemm.ts'
import type { Pattern } from './pattern.ts'
import { productCheck } from './products.ts'
import { nothing, Stage, stageOptions } from './stage.ts'

export const tunedSections = ['gather', 'decode', 'gemm', 'attend'] as const
type TunedSection = (typeof tunedSections)[number]

/** A cell in one variant. */
export interface TunePoint extends Cell {
  readonly section: TunedSection
  readonly variant: string
}

export interface TunePointResult extends TunePoint {
  /** Undefined where the default itself failed. */
  readonly tuned: Tuned | undefined
  /** Candidates that were not timed, and why. */
  readonly failed: Readonly<Record<string, string>>
}

/** Those that goals are about, unless others are asked for. */
const usualVariants: Readonly<Record<TunedSection, readonly string[]>> = {
  gather: ['bsp', 'pull', 'fused'],
  decode: ['bsp', 'fused-coarse', 'fused'],
  gemm: ['gemm'],
  attend: ['bsp', 'fused-coarse', 'fused'],
}
const allVariants: Readonly<Record<TunedSection, readonly string[]>> = {
  gather: allGatherGemmOperation.variants,
  decode: flashDecodeOperation.variants,
  gemm: ['gemm'],
  attend: flashDecodeOperation.variants,
}

export function planPoints(shard: 'K' | 'M', variants?: readonly string[]): TunePoint[] {
  return planCells({ quick: false, shard }).flatMap((cell) => {
    const section = tunedSections.find((name) => name === cell.section)
    if (!section) return []
    const wanted = variants
      ? allVariants[section].filter((name) => variants.includes(name))
      : usualVariants[section]
    return wanted.map((variant) => ({ ...cell, section, variant, key: `${cell.key} ${variant}` }))
  })
}

/** Tiles as something to time: one execution for each set of inputs. */
interface Tried {
  readonly whole: readonly (() => void)[]
  readonly timed: readonly Timed[]
  readonly check: (set: number, run: () => void) => Promise<void>
}

interface Way {
  tiling(world: TilingWorld): Tiling
  /** Bytes of a rank, for all candidates. */
  heap(candidates: readonly Numbers[]): number
  /** Inputs first, then what makes a candidate. */
  prepare(stage: Stage, pattern: Pattern): (tiles: Numbers) => Tried
}

/** Of results that are read as a whole: there are many candidates. */
const mostRead = 2 ** 17
const [kilobytes64, megabytes64] = [2 ** 16, 64 * 2 ** 20]

function gatherWay(point: TunePoint): Way {
  const { dtype, shard = 'K' } = point
  const { M, N, K } = point.shape
  const options = { shape: { M, N, K }, dtype, shard, variant: point.variant as AllGatherGemmVariant }
  // Many rows find nothing of B in a cache anyhow, and their results take memory.
  const sets = M > 1024 ? 1 : gatherSets
  const gathered = { bsp: 1, pull: 0 }[point.variant] ?? 2
  return {
    tiling: (world) => allGatherGemmOperation.tiling(world, options),
    heap(candidates) {
      const { rows, depth, gatheredRows, height } = gatherExtents(point)
      // A result each, and what is gathered, or an inbox of two slots.
      const each = 2 * (M * N + gathered * gatheredRows * height) + kilobytes64
      return 2 * (rows * depth + gatherSets * height * N) + sets * candidates.length * each + megabytes64
    },
    prepare(stage, pattern) {
      const { world, stream } = stage
      const { a, bs, samples } = gatherInputs(world, point, pattern)
      return (tiles) => {
        const operations = bs
          .slice(0, sets)
          .map((b) => allGatherGemm(world, { ...options, tiles, stream: stream.id }, { a, b }))
        const results = operations.map(({ outputs }) => outputs.c)
        return {
          whole: operations.map((operation) => () => operation.launch()),
          timed: operations.map(timedPart),
          check: productCheck(stage, results, samples, mostRead),
        }
      }
    },
  }
}

function decodeWay(point: TunePoint): Way {
  const { dtype, ranks } = point
  const shape = point.shape as FlashDecodeShape
  const options = { shape, dtype, variant: point.variant as FlashDecodeVariant }
  const { batch, queryHeads, kvHeads, D } = shape
  return {
    tiling: (world) => flashDecodeOperation.tiling(world, options),
    heap(candidates) {
      const sets = setsFor(cacheBytes(point))
      // Own partial results, and two slots of those of all ranks.
      const part = 4 * (2 * ranks + 1) * batch * (queryHeads * (D + 2) + kvHeads)
      const parts = candidates.reduce((sum, { splits }) => sum + splits * part + kilobytes64, 0)
      return sets * (cacheBytes(point) / ranks + parts) + 2 * megabytes64
    },
    prepare({ world, stream }, pattern) {
      const inputs = decodeInputs(world, point, pattern)
      const samples = sampleAttention(shape, ranks, pattern)
      return (tiles) => {
        const operations = inputs.map((input) =>
          flashDecode(world, { ...options, tiles, stream: stream.id }, input),
        )
        return {
          whole: operations.map((operation) => () => operation.launch()),
          timed: operations.map(timedPart),
          check: decodeCheck(
            world,
            operations.map(({ outputs }) => outputs.out),
            samples,
          ),
        }
      }
    },
  }
}

function gemmWay(point: TunePoint): Way {
  const { dtype } = point
  const { M, N, K } = point.shape
  return {
    tiling: ({ machine }) => gemmTiling(machine, { m: M, n: N, k: K, dtype }),
    heap: () => gemmHeap(point),
    prepare(stage, pattern) {
      const { world, stream } = stage
      const { sets, samples } = gemmInputs(world, point, pattern)
      const results = sets.map(({ c }) => c)
      return (meta) => {
        const launches = sets.map((operands) => () => {
          world.launch(gemmKernel(dtype), operands, { grid: 'resident', stream, meta })
        })
        return {
          whole: launches,
          timed: launches.map((launch) => ({ launches: 1, launch })),
          check: productCheck(stage, results, samples, mostRead),
        }
      }
    },
  }
}

const ways: Readonly<Record<TunedSection, (point: TunePoint) => Way>> = {
  gather: gatherWay,
  decode: decodeWay,
  gemm: gemmWay,
  attend: decodeWay,
}

export async function tunePoint(
  point: TunePoint,
  pattern: Pattern,
  seconds: number,
  /** Those worth trying, as their numbers in order; none: all. */
  wanted: readonly string[] = [],
): Promise<TunePointResult> {
  const { ranks } = point
  const way = ways[point.section](point)
  // How many candidates there will be must be known before there is a world.
  const expected = { ranks, machine: sharedOut(h200, ranks) }
  const isWanted = (tiles: Numbers, n: number): boolean =>
    n === 0 || wanted.length === 0 || wanted.includes(Object.values(tiles).join(','))
  const heap = way.heap(way.tiling(expected).candidates().filter(isWanted))
  const stage = await Stage.open({ ranks, heap, repeats: 8 })
  try {
    const { asked, candidates } = way.tiling(stage.world)
    const make = way.prepare(stage, pattern)
    const contenders: { readonly tiles: Numbers; readonly executions: readonly Timed[] }[] = []
    const all = candidates().filter(isWanted)
    if (wanted.length > 0 && all.length === 1) stage.failed['--tiles'] = 'none of them is a candidate here'
    for (const tiles of all)
      await stage.try(namedNumbers(tiles), async () => {
        const { whole, timed, check } = make(tiles)
        for (const [n, run] of whole.entries()) await (stageOptions.isMeasuring ? check(n, run) : run())
        contenders.push({ tiles, executions: timed })
      })
    const { failed } = stage
    if (!stageOptions.isMeasuring || contenders[0]?.tiles !== all[0])
      return { ...point, tuned: undefined, failed }
    const found = await halve(contenders.length, seconds, async (wanted, effort) => {
      const ways = wanted.map((n) => contenders[n].executions)
      const turns = [[nothing], ...ways, ...ways.map((one) => stage.inLoop(one))]
      const [[...empty], ...samples] = await stage.samples(turns, effort)
      const telling = medianOf(empty)
      // Half of what one takes behind a gate, half of what it takes in a loop, in nanoseconds.
      return ways.map((_, n) =>
        samples[n].map((once, round) => {
          const inLoop = samples[n + ways.length][round]
          return 500 * (once - telling + (inLoop - telling) / stage.repeats)
        }),
      )
    })
    const tuned: Tuned = {
      asked,
      fallback: { tiles: all[0], time: found.fallback },
      best: { tiles: contenders[found.best].tiles, time: found.time },
      speedup: found.speedup,
      tried: all.length,
      dropped: [],
    }
    return { ...point, tuned, failed }
  } finally {
    await stage.close()
  }
}
