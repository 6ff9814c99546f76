/**
 * Plans shared memory: the internal layout of every shared tile, and the allocation of regions.
 *
 * A tile that the matrix unit reads is *swizzled*. A swizzled tile consists of panels: each panel has all rows of the
 * tile and 128, 64 or 32 bytes of each row. The 16-byte chunks of a panel are permuted within 8 rows in the same way as
 * TMA and wgmma permute them. A tile that is not swizzled is *plain*: its rows are consecutive in memory.
 */
import { analysis } from '../../../ir/analysis.ts'
import { dtypes, type DType } from '../../../ir/dtype.ts'
import { walk, type KernelIR, type Node } from '../../../ir/node.ts'
import { declaresTile, origin } from '../../../ir/ops/index.ts'
import { KernelError } from '../../../ir/site.ts'
import type { RefType, Shape } from '../../../ir/type.ts'
import type { Swizzle } from '../tensormap.ts'

export interface Tile {
  readonly node: Node
  readonly dtype: DType
  /** The number of rows per pipeline stage of the tile. */
  readonly rows: number
  readonly columns: number
  readonly stages: number
  /** The number of bytes per row of a panel; 0 for a plain tile. */
  readonly span: 0 | 32 | 64 | 128
  readonly stageBytes: number
}

export const swizzleOf = (tile: Tile): Swizzle =>
  tile.span === 0 ? 'none' : (`${tile.span}B` as Exclude<Swizzle, 'none'>)

/** The shared tile that a view refers to. */
export const tileRoot = (ref: Node): Node => origin(ref).base

/** The shared tiles of a kernel and the layout of each tile, which depends on its uses. */
export const planTiles = analysis('tiles of a GPU', findTiles)

function findTiles(ir: KernelIR): ReadonlyMap<Node, Tile> {
  const multiplied = new Set<Node>()
  for (const node of walk(ir.body))
    if (node.op === 'dot')
      for (const operand of node.inputs.slice(0, 2))
        if (operand.type.kind === 'ref') multiplied.add(tileRoot(operand))
  const tiles = new Map<Node, Tile>()
  for (const node of walk(ir.body)) {
    if (!declaresTile(node)) continue
    const { dtype, shape } = node.type as RefType
    const { rows, columns, stages } = splitStages(shape)
    const { bytes } = dtypes[dtype]
    const span = multiplied.has(node) && bytes === 2 ? spanOf(columns * bytes) : 0
    const alignment = span === 0 ? 128 : 1024
    const stageBytes = Math.ceil((rows * columns * bytes) / alignment) * alignment
    tiles.set(node, { node, dtype, rows, columns, stages, span, stageBytes })
  }
  return tiles
}

function splitStages(shape: Shape): Pick<Tile, 'rows' | 'columns' | 'stages'> {
  if (shape.length === 3) return { stages: shape[0], rows: shape[1], columns: shape[2] }
  if (shape.length === 1) return { stages: 1, rows: 1, columns: shape[0] }
  return { stages: 1, rows: shape[0], columns: shape[1] }
}

/** Returns the swizzle span, in bytes, for rows of `rowBytes` bytes, or 0 if no swizzle is possible. */
export function spanOf(rowBytes: number): Tile['span'] {
  for (const span of [128, 64] as const) if (rowBytes % span === 0) return span
  return rowBytes === 32 ? 32 : 0
}

/**
 * A region of shared memory. `at` is the offset of the region, in bytes, from the base of the program's shared memory.
 */
export interface Region {
  readonly at: number
  readonly bytes: number
}

/**
 * Allocates the shared memory of a program, which may have `limit` bytes. Tiles are allocated first, so that their
 * alignment wastes no memory.
 */
export class SharedSpace {
  readonly limit: number
  #end = 0

  constructor(limit: number) {
    this.limit = limit
  }

  take(bytes: number, alignment: number): Region {
    const at = Math.ceil(this.#end / alignment) * alignment
    this.#end = at + bytes
    return { at, bytes }
  }

  get used(): number {
    return this.#end
  }

  /** True if `bytes` more bytes fit into shared memory. */
  hasRoom(bytes: number): boolean {
    return this.#end + bytes + BASE_ALIGNMENT <= this.limit
  }
}

/** The alignment of the base of a program's shared memory, in bytes. Aligning the base may waste up to 1024 bytes. */
export const BASE_ALIGNMENT = 1024

export function expectFits(
  space: SharedSpace,
  ir: KernelIR,
  users: { readonly tiles: readonly Tile[]; readonly scratch: ReadonlyMap<Node, Region> },
): void {
  if (space.hasRoom(0)) return
  const { tiles, scratch } = users
  const list = tiles.map(
    (tile) =>
      `${tile.stages}x${tile.rows}x${tile.columns} ${tile.dtype} (${tile.stages * tile.stageBytes} bytes, ${tile.node.site})`,
  )
  const [largest] = [...scratch].sort(([, a], [, b]) => b.bytes - a.bytes)
  throw new KernelError(
    [
      `${ir.name} needs ${space.used + BASE_ALIGNMENT} bytes of shared memory, a program has ${space.limit}: use smaller tiles or fewer stages`,
      ...(list.length > 0 ? [`Its tiles: ${list.join('; ')}`] : []),
      ...(largest
        ? [
            `The largest exchange of elements between threads: ${largest[0].op} needs ${largest[1].bytes} bytes (${largest[0].site})`,
          ]
        : []),
    ].join('. '),
    tiles[0]?.node.site ?? largest?.[0].site,
  )
}
