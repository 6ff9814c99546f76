/**
 * Tunes the tile sizes for the points of the table that Arke ships. Candidates whose sampled results are correct run
 * interleaved on a stage. The faster half of the candidates continues to the next round of successive halving.
 */
import { gemmKernel } from '../../src/ops/gemm.ts'
import type { TilingWorld } from '../../src/operation/definition.ts'
import type { Layout } from '../../src/ops/points.ts'
import { gemmTiling } from '../../src/ops/tiles.ts'
import type { Timed } from '../../src/runs/gate.ts'
import { medianOf } from '../../src/runs/quantity.ts'
import type { Tiling } from '../../src/tune/configurations.ts'
import { halve } from '../../src/tune/halving.ts'
import { namedNumbers, type Numbers } from '../../src/tune/tables.ts'
import { timedPart, type Tuned } from '../../src/tune/tune.ts'
import { measured, operationOf, planCells, withLibraries, type Cell } from './cells.ts'
import { gemmHeap, gemmInputs } from './gemm.ts'
import { bytesOn, expectedMachine, inputsOf, optionsOf } from './inputs.ts'
import type { Pattern } from './pattern.ts'
import { productCheck } from './products.ts'
import { nothing, Stage, stageOptions } from './stage.ts'

/** True for matrix products on one rank, which are not an operation. */
const isProduct = ({ section }: Pick<Cell, 'section'>): boolean => section === 'gemm'

export const tunedSections: readonly string[] = [
  ...measured.map(({ gpu }) => gpu.section),
  'gemm',
  ...withLibraries.map(({ libraries }) => libraries.section),
]

/** A cell of the benchmark and the variant of its operation that is tuned. */
export interface TunePoint extends Cell {
  readonly variant: string
}

export interface TunePointResult extends TunePoint {
  /** The tuned tile sizes; undefined if the default tiles failed. */
  readonly tuned: Tuned | undefined
  /** The reasons why candidates were not timed, keyed by candidate. */
  readonly failed: Readonly<Record<string, string>>
}

/** The variants to which the goals refer, unless the user requests others. */
function variantsOf(cell: Cell, asked: readonly string[] | undefined): readonly string[] {
  if (isProduct(cell)) return ['gemm'].filter((name) => asked?.includes(name) ?? true)
  const { definition, gpu } = operationOf(cell)!
  return asked ? definition.variants.filter((name) => asked.includes(name)) : gpu.tuned
}

export function planPoints(layout: Layout, variants?: readonly string[]): TunePoint[] {
  return planCells({ quick: false, layout })
    .filter(({ section }) => tunedSections.includes(section))
    .flatMap((cell) =>
      variantsOf(cell, variants).map((variant) => ({ ...cell, variant, key: `${cell.key} ${variant}` })),
    )
}

/** A candidate whose time is measured, with one execution per set of inputs. */
interface Tried {
  readonly whole: readonly (() => void)[]
  readonly timed: readonly Timed[]
  readonly check: (set: number, run: () => void) => Promise<void>
}

interface Way {
  tiling(world: TilingWorld): Tiling
  /** The heap size per rank in bytes that all candidates together need. */
  heap(candidates: readonly Numbers[]): number
  /** Allocates the inputs and returns the function that creates a candidate. */
  prepare(stage: Stage, pattern: Pattern): (tiles: Numbers) => Tried
}

/**
 * The largest number of elements of a result that is read completely. The limit is small because the results of many
 * candidates are read.
 */
const mostRead = 2 ** 17
const megabytes64 = 64 * 2 ** 20

/**
 * The largest number of bytes of a result for which several sets of inputs are used. Writing a larger result evicts the
 * inputs from the cache anyway, and several sets of results would take too much memory.
 */
const largeResult = 7.4e6

function operationWay(point: TunePoint): Way {
  const { definition } = operationOf(point)!
  const special = inputsOf(definition)
  const options = optionsOf(definition, point, point.variant)
  const machine = expectedMachine(point)
  let sets = special.sets(point)
  bytesOn(machine, point.ranks, (world) => {
    const [{ shape }] = Object.values(definition.make(world, options).outputs)
    if (2 * shape.reduce((product, extent) => product * extent, 1) > largeResult) sets = 1
  })
  return {
    tiling: (world) => definition.tiling(world, options),
    heap(candidates) {
      const counted = bytesOn(machine, point.ranks, (world) => {
        for (let set = 0; set < special.sets(point); set++) {
          const { inputs } = definition.make(world, options)
          if (set >= sets) continue
          for (const tiles of candidates) definition.make(world, { ...options, tiles }, inputs)
        }
      })
      return counted + 2 * megabytes64
    },
    prepare(stage, pattern) {
      const { world, stream } = stage
      const { inputs, check } = special.prepare(stage, point, pattern)
      return (tiles) => {
        const made = inputs
          .slice(0, sets)
          .map((input) => definition.make(world, { ...options, tiles, stream: stream.id }, input))
        return {
          whole: made.map((operation) => () => operation.launch()),
          timed: made.map(timedPart),
          check: check(
            made.map(({ outputs }) => Object.values(outputs)[0]),
            mostRead,
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

export async function tunePoint(
  point: TunePoint,
  pattern: Pattern,
  seconds: number,
  /** The tile sizes to try, each as its numbers separated by commas; an empty list means all. */
  wanted: readonly string[] = [],
): Promise<TunePointResult> {
  const { ranks } = point
  const way = isProduct(point) ? gemmWay(point) : operationWay(point)
  // The heap size depends on the number of candidates, so that number must be known before a world is open.
  const expected = { ranks, machine: expectedMachine(point) }
  const isWanted = (tiles: Numbers, n: number): boolean =>
    n === 0 || wanted.length === 0 || wanted.includes(Object.values(tiles).join(','))
  const heap = way.heap(way.tiling(expected).candidates().filter(isWanted))
  const stage = await Stage.open({ ranks, heap, repeats: 8 })
  try {
    const { asked, candidates } = way.tiling(stage.world)
    const make = way.prepare(stage, pattern)
    const contenders: { readonly tiles: Numbers; readonly executions: readonly Timed[] }[] = []
    const all = candidates().filter(isWanted)
    if (wanted.length > 0 && all.length === 1)
      stage.failed['--tiles'] = 'none of the given tiles is a candidate at this point'
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
      // The mean of the time of a single execution behind a start gate and the time per execution in a loop, in ns.
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
