/**
 * What is tuned for the table that is shipped, and how a point is: candidates that were found right in some places take turns on a
 * stage, and the faster half goes on.
 */
import { gemmKernel } from '../../src/ops/gemm.ts'
import type { TilingWorld } from '../../src/ops/operation.ts'
import { gemmTiling } from '../../src/ops/tiles.ts'
import type { Timed } from '../../src/runs/gate.ts'
import { medianOf } from '../../src/runs/quantity.ts'
import type { Tiling } from '../../src/tune/configurations.ts'
import { halve } from '../../src/tune/halving.ts'
import { namedNumbers, type Numbers } from '../../src/tune/tables.ts'
import { timedPart, type Tuned } from '../../src/tune/tune.ts'
import { measured, operationOf, planCells, type Cell } from './cells.ts'
import { gemmHeap, gemmInputs } from './gemm.ts'
import { bytesOn, expectedMachine, optionsOf } from './inputs.ts'
import { inputsOf } from './operation.ts'
import type { Pattern } from './pattern.ts'
import { productCheck } from './products.ts'
import { nothing, Stage, stageOptions } from './stage.ts'

/** Products of one rank are no operation. */
const isProduct = ({ section }: Pick<Cell, 'section'>): boolean => section === 'gemm'

export const tunedSections: readonly string[] = [...measured.map(({ gpu }) => gpu.section), 'gemm', 'attend']

/** A cell in one variant. */
export interface TunePoint extends Cell {
  readonly variant: string
}

export interface TunePointResult extends TunePoint {
  /** Undefined where the default itself failed. */
  readonly tuned: Tuned | undefined
  /** Candidates that were not timed, and why. */
  readonly failed: Readonly<Record<string, string>>
}

/** Those that goals are about, unless others are asked for. */
function variantsOf(cell: Cell, asked: readonly string[] | undefined): readonly string[] {
  if (isProduct(cell)) return ['gemm'].filter((name) => asked?.includes(name) ?? true)
  const { definition, gpu } = operationOf(cell)!
  return asked ? definition.variants.filter((name) => asked.includes(name)) : gpu.tuned
}

export function planPoints(shard: 'K' | 'M', variants?: readonly string[]): TunePoint[] {
  return planCells({ quick: false, shard })
    .filter(({ section }) => tunedSections.includes(section))
    .flatMap((cell) =>
      variantsOf(cell, variants).map((variant) => ({ ...cell, variant, key: `${cell.key} ${variant}` })),
    )
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
const megabytes64 = 64 * 2 ** 20

/** Bytes of results of which one set of inputs is enough: nothing of the inputs is found in a cache then, and results take memory. */
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
  /** Those worth trying, as their numbers in order; none: all. */
  wanted: readonly string[] = [],
): Promise<TunePointResult> {
  const { ranks } = point
  const way = isProduct(point) ? gemmWay(point) : operationWay(point)
  // How many candidates there will be must be known before there is a world.
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
