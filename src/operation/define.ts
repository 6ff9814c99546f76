/**
 * `defineOperation` turns one record into the definition of an operation: its inputs, its variants, its reference and
 * its work. All code that measures, tunes or emits shipped operations can then use the new operation, too.
 * docs/your-operations.md explains the record.
 *
 * By default, the inputs of an operation hold random numbers, different on every rank. The output is one tensor per
 * rank. A row of the output runs along the last axis, and rows are numbered over all other axes.
 */
import { Site } from '../ir/site.ts'
import { fewestProcessors, type Machine } from '../world/machine.ts'
import {
  WorldError,
  type LaunchOptions,
  type PackedTensor,
  type SymmetricTensor,
  type World,
} from '../world/world.ts'
import { tilesFor, type Tiling } from '../tune/configurations.ts'
import type { Growing, Numbers } from '../tune/tables.ts'
import { variantOf } from './choice.ts'
import {
  chosen,
  expectExtents,
  operandDTypes,
  randomNumbers,
  type OperandDType,
  type Operation,
  type OperationDefinition,
  type Step,
  type TilingWorld,
} from './definition.ts'
import { packWeights, unpackWeights, weightsIn } from './weights.ts'

/** The point for which an operation is made: a shape, a dtype, and the ranks of a machine. */
export interface OperationPoint<Shape extends Numbers = Numbers, D extends OperandDType = OperandDType> {
  readonly shape: Shape
  readonly dtype: D
  readonly ranks: number
  readonly machine: Machine
}

/** The data that a variant needs to allocate its buffers and to build its launches. */
export interface OperationPlan<
  Shape extends Numbers,
  D extends OperandDType,
  Tiles extends Numbers,
  Inputs,
  Output,
> extends OperationPoint<Shape, D> {
  readonly world: World
  readonly tiles: Tiles
  readonly inputs: Inputs
  readonly output: Output
  /** The grid and the stream of every launch. */
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
  /**
   * Returns a weight in the layout that the target reads fastest if the weight has been packed, and otherwise the
   * weight itself. A variant must call `packed` at every launch.
   */
  readonly packed: <W extends OperandDType>(
    weight: SymmetricTensor<W>,
  ) => SymmetricTensor<W> | PackedTensor<W>
}

/** The elements of each input by rank, in row-major order. */
export type OperationContents<Inputs> = { readonly [Name in keyof Inputs]: readonly ArrayLike<number>[] }

export interface DefinedOptions<
  Shape extends Numbers,
  D extends OperandDType,
  Tiles extends Numbers,
  Variant extends string,
> {
  readonly shape: Shape
  readonly dtype: D
  readonly variant: Variant | 'auto'
  readonly tiles?: Partial<Tiles>
  /** The number of programs per rank. By default, as many programs run as can be resident at the same time. */
  readonly grid?: LaunchOptions['grid']
  readonly stream?: number
}

/** The type of a shape whose extents may be any numbers, rather than only the default values. */
export type ExtentsOf<Shape> = { readonly [Name in keyof Shape]: number }

/** The record that `defineOperation` takes. */
export interface OperationRecipe<
  Shape extends Numbers,
  D extends OperandDType,
  Tiles extends Numbers,
  Inputs extends Readonly<Record<string, SymmetricTensor>>,
  Output extends SymmetricTensor,
  Variant extends string,
> {
  /** The name of the operation, in camel case. `arke bench FILE#NAME` chooses an operation by its camel-case name. */
  readonly name: string
  /** The name of the operation in headings; `name` by default. */
  readonly title?: string
  /** The default extents of the operation's shape. */
  readonly shape: Shape
  /**
   * The dtypes that the kernels accept, with the default first. If absent, the dtypes are all operand dtypes, with f32
   * first.
   */
  readonly dtypes?: readonly D[]
  /** Additional names of extents on the command line, in lower case. */
  readonly aliases?: Readonly<Record<string, keyof Shape & string>>
  /**
   * The extents that grow with the amount of work. Shapes that are equal after rounding the growing extents up to a
   * power of two share tuned tiles, which must fit all of them.
   */
  readonly growing?: Growing
  /** The default tile sizes for a point (a shape, a dtype, and the ranks of a machine). */
  tiles?(point: OperationPoint<ExtentsOf<Shape>, D>): Tiles
  /** Additional tile sizes that `arke tune` tries. */
  candidates?(point: OperationPoint<ExtentsOf<Shape>, D>): readonly Tiles[]
  /** Allocates the inputs of the operation on a world. */
  inputs(world: World, point: OperationPoint<ExtentsOf<Shape>, D>): Inputs
  /** Allocates the output of the operation on a world. */
  output(world: World, point: OperationPoint<ExtentsOf<Shape>, D>): Output
  /** The inputs that stay constant and are packed once, for variants that read them through `packed`. */
  readonly weights?: readonly (keyof NoInfer<Inputs> & string)[]
  /**
   * The variants, from bulk synchronous (`bsp`, which must exist) to fused. Each variant allocates its own buffers and
   * returns the launches of one execution, in order.
   */
  readonly variants: {
    readonly [Name in Variant]: (
      plan: OperationPlan<ExtentsOf<Shape>, D, Tiles, Inputs, Output>,
    ) => readonly Step[]
  }
  /**
   * The fused variants: those in which the kernel that computes also communicates. If absent, the fused variants are
   * all variants except `bsp`.
   */
  readonly fused?: readonly NoInfer<Variant>[]
  /**
   * A step of `bsp` that reads only memory of the rank on which it runs. The time of the limiting step is a lower bound
   * on the time of every variant.
   */
  readonly limit: { readonly step: string; readonly name: string }
  /** Returns random contents for the inputs. By default, every input of every rank has numbers between -1 and 1. */
  random?(point: OperationPoint<ExtentsOf<Shape>, D>, seed: number): OperationContents<Inputs>
  /** A row of the expected output of a rank, computed in float64. */
  reference(
    contents: OperationContents<Inputs>,
    point: OperationPoint<ExtentsOf<Shape>, D> & { readonly rank: number },
    row: number,
  ): ArrayLike<number>
  /** The largest difference from the reference that rounding can explain, for random contents. */
  tolerance(point: OperationPoint<ExtentsOf<Shape>, D>): number
  /** Floating-point operations of the busiest rank. A multiply-add counts as two floating-point operations. */
  flops(point: OperationPoint<ExtentsOf<Shape>, D>): number
  /** The minimum number of bytes that the busiest rank receives from other ranks. */
  remoteBytes(point: OperationPoint<ExtentsOf<Shape>, D>): number
}

export function defineOperation<
  const Shape extends Numbers,
  Inputs extends Readonly<Record<string, SymmetricTensor>>,
  Output extends SymmetricTensor,
  const Variant extends string,
  const D extends OperandDType = OperandDType,
  Tiles extends Numbers = Numbers,
>(
  recipe: OperationRecipe<Shape, D, Tiles, Inputs, Output, Variant>,
): OperationDefinition<DefinedOptions<ExtentsOf<Shape>, D, Tiles, Variant>, OperationContents<Inputs>> {
  type Options = DefinedOptions<ExtentsOf<Shape>, D, Tiles, Variant>
  type Contents = OperationContents<Inputs>
  expectRecipe(recipe)
  const site = Site.here()
  const { name, limit, growing } = recipe
  const variants = Object.keys(recipe.variants) as Variant[]
  const dtypes = recipe.dtypes ?? (operandDTypes as readonly D[])
  const weights = recipe.weights ?? []

  const pointOf = ({ ranks, machine }: TilingWorld, { shape, dtype }: Pick<Options, 'shape' | 'dtype'>) => ({
    ...{ shape, dtype, ranks, machine },
  })
  const tilingOf = (world: TilingWorld, options: Omit<Options, 'tiles'>): Tiling<Tiles> => {
    const point = pointOf(world, options)
    const { variant, dtype, shape } = options
    const fallback = (): Tiles => recipe.tiles?.(point) ?? ({} as Tiles)
    return {
      asked: {
        ...{ operation: name, variant, dtype, shape, growing, ranks: world.ranks },
        ...{ processors: fewestProcessors(world.machine), device: world.machine.name },
      },
      fallback: (given) => ({ ...fallback(), ...given }),
      isLegal: () => true,
      candidates: () => unique([fallback(), ...(recipe.candidates?.(point) ?? [])]),
    }
  }

  const make = (world: World, options: Options, given?: Operation['inputs']): Operation<Contents> => {
    const { shape, dtype, grid = 'resident', stream = 0 } = options
    expectExtents(name, shape)
    if (!dtypes.includes(dtype))
      throw new RangeError(`${name}: dtype ${dtype}; the kernels accept ${dtypes.join(', ')}`)
    const { variant, reason } = variantOf(definition, world, options)
    type Prepare = (typeof recipe.variants)[Variant]
    const prepare = chosen(name, recipe.variants as Readonly<Record<string, Prepare>>, variant)
    const point = pointOf(world, options)
    const tiling = tilingOf(world, { ...options, variant: variant as Variant })
    const { tiles, tilesFrom } = tilesFor(tiling, options.tiles)
    const inputs = (given as Inputs | undefined) ?? recipe.inputs(world, point)
    const output = recipe.output(world, point)
    const steps = prepare({
      ...point,
      ...{ world, tiles, inputs, output, packed: weightsIn, options: { grid, stream } },
    })
    if (variant === 'bsp') expectLimit(name, limit.step, steps, site)
    const width = output.shape.at(-1) ?? 1
    const height = sizeOf(output) / width
    const remoteBytes = recipe.remoteBytes(point)
    return {
      ...{ name, variant, reason, dtype, tiles, tilesFrom, inputs, steps },
      outputs: { output },
      traffic: {
        ...{ remoteBytes, leastRemoteBytes: remoteBytes },
        ...{ flops: recipe.flops(point), launches: steps.length },
      },
      launch: () => {
        for (const step of steps) step.launch()
      },
      pack: async () => {
        for (const weight of weights) await packWeights(world, inputs[weight])
      },
      random: (seed) => recipe.random?.(point, seed) ?? randomContents(inputs, world.ranks, dtype, seed),
      fill(contents) {
        for (const weight of weights) unpackWeights(world, inputs[weight])
        for (const [input, tensor] of Object.entries(inputs))
          for (const rank of world.localRanks) world.write(tensor, rank, contents[input][rank])
      },
      result: (rank) => world.read(output, rank),
      reference(contents, rank, rows = Array.from({ length: height }, (_, row) => row)) {
        const expected = new Float64Array(rows.length * width)
        rows.forEach((row, n) => {
          const found = recipe.reference(contents, { ...point, rank }, row)
          if (found.length !== width)
            throw new RangeError(
              `${name}: the reference of a row has ${found.length} elements; the output has ${width}`,
            )
          expected.set(Array.from(found), n * width)
        })
        return expected
      },
      tolerance: recipe.tolerance(point),
    }
  }

  const definition: OperationDefinition<Options, Contents> = {
    ...{ name, title: recipe.title ?? name, variants, dtypes, growing, limit },
    fused: recipe.fused ?? variants.filter((variant) => variant !== 'bsp'),
    defaults: { shape: recipe.shape, dtype: dtypes[0], variant: variants[variants.length - 1] },
    aliases: recipe.aliases as OperationDefinition<Options, Contents>['aliases'],
    packs: weights.length > 0,
    measurements: [],
    tiling: tilingOf,
    make,
  }
  return definition
}

const required = ['inputs', 'output', 'reference', 'tolerance', 'flops', 'remoteBytes'] as const

/** Throws an error if a JavaScript program has left the record of an operation incomplete. */
function expectRecipe(
  recipe: Readonly<Record<(typeof required)[number] | 'name' | 'variants' | 'limit', unknown>>,
): void {
  const { name, variants, limit } = recipe
  const wrong = (what: string): RangeError => new RangeError(`defineOperation: ${what}`)
  if (typeof name !== 'string' || !/^[a-zA-Z]\w*$/.test(name))
    throw wrong(`the name of the operation is ${JSON.stringify(name)}, but must be a single word`)
  const names = Object.keys(variants ?? {})
  if (!names.includes('bsp'))
    throw wrong(
      `${name} has no variant bsp, with which the others are compared; it has ${names.join(', ') || 'none'}`,
    )
  for (const method of required)
    if (typeof recipe[method] !== 'function') throw wrong(`${name} has no function ${method}`)
  const { step } = (limit ?? {}) as { step?: unknown }
  if (typeof step !== 'string')
    throw wrong(`${name} has no limit.step, which must name a step of the variant bsp`)
}

/** Throws an error, at the line of `defineOperation`, unless the field `limit` names a step of `bsp`. */
function expectLimit(name: string, limit: string, steps: readonly Step[], site: Site): void {
  const names = steps.map((step) => step.name)
  if (!names.includes(limit))
    throw new WorldError(
      `${name}: limit.step is ${JSON.stringify(limit)}, but the steps of bsp are ${names.join(', ') || 'none'}`,
      site,
    )
}

const sizeOf = ({ shape }: SymmetricTensor): number => shape.reduce((product, extent) => product * extent, 1)

/** Random numbers between -1 and 1, different for every input and rank. */
function randomContents<Inputs extends Readonly<Record<string, SymmetricTensor>>>(
  inputs: Inputs,
  ranks: number,
  dtype: OperandDType,
  seed: number,
): OperationContents<Inputs> {
  const entries = Object.entries(inputs).map(([name, tensor], place) => [
    name,
    Array.from({ length: ranks }, (_, rank) =>
      randomNumbers(dtype, sizeOf(tensor), (seed * 64 + rank) * 16 + place + 1),
    ),
  ])
  return Object.fromEntries(entries) as OperationContents<Inputs>
}

function unique<Tiles extends Numbers>(all: readonly Tiles[]): Tiles[] {
  const seen = new Set<string>()
  return all.filter((tiles) => {
    const key = JSON.stringify(Object.entries(tiles).sort())
    return !seen.has(key) && seen.add(key)
  })
}
