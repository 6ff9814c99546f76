/**
 * Tables of tiles, keyed by device, setting and class of shapes. A class groups shapes whose growing extents, such as
 * rows and tokens, round up to the same power of two. All extents that do not grow must be equal within a class.
 */
export type Numbers = Readonly<Record<string, number>>

/** The properties of an operation and its machine that determine the choice of tiles. */
export interface Asked {
  readonly operation: string
  readonly variant?: string
  /**
   * The layout options of the operation, such as { shard: 'K' }. Tiles for one layout are not used for another layout.
   */
  readonly layout?: Readonly<Record<string, string>>
  readonly dtype: string
  readonly ranks: number
  /** The number of processors per rank: those of a GPU, or worker threads of a CPU. */
  readonly processors: number
  /** The name of the GPU that the rank runs on, or the name of the target. */
  readonly device: string
  readonly shape: Numbers
  /**
   * The classes of shapes in the operation's definition. If the classes are absent, tiles are used only for the shape
   * at which they were measured.
   */
  readonly growing?: Growing
}

/**
 * The extents of an operation that grow with the amount of work. Shapes that are equal after rounding these extents up
 * to a power of two form a class. If an extent is marked `neighbouring`, tiles of a class in which this extent is up to
 * two doublings away may be used, too.
 */
export type Growing = Readonly<Record<string, 'rounded' | 'neighbouring'>>

/**
 * The tiles measured on one device, indexed by setting (such as `allGatherGemm pull K bf16 8x16`) and class of shapes.
 */
export type Table = Readonly<Record<string, Readonly<Record<string, Numbers>>>>
/** Tables of tiles, keyed by device name. */
export type Tables = Readonly<Record<string, Table>>

/**
 * An operation always states the same layout options, so the values of these options, in the order of their names,
 * identify the layout.
 */
export function settingOf({ operation, variant, layout = {}, dtype, ranks, processors }: Asked): string {
  const values = Object.keys(layout)
    .sort()
    .map((name) => layout[name])
  return [operation, variant, ...values, dtype, `${ranks}x${processors}`].filter(Boolean).join(' ')
}

/** The class of a shape after its extents marked `neighbouring` have been doubled `doublings` times. */
export function classOf({ shape, growing = {} }: Pick<Asked, 'shape' | 'growing'>, doublings = 0): string {
  const extents = Object.entries(shape).map(([name, extent]) => {
    if (!Object.hasOwn(growing, name)) return [name, extent]
    return [name, 2 ** (Math.ceil(Math.log2(extent)) + (growing[name] === 'neighbouring' ? doublings : 0))]
  })
  return namedNumbers(Object.fromEntries(extents))
}

/** Returns the tables with the newly found tiles added. Settings and classes of the tables are sorted by name. */
export function withTiles(tables: Tables, found: readonly { asked: Asked; tiles: Numbers }[]): Tables {
  const all: Record<string, Record<string, Record<string, Numbers>>> = {}
  const put = (device: string, setting: string, name: string, tiles: Numbers): void => {
    ;((all[device] ??= {})[setting] ??= {})[name] = tiles
  }
  for (const [device, table] of Object.entries(tables))
    for (const [setting, classes] of Object.entries(table))
      for (const [name, tiles] of Object.entries(classes)) put(device, setting, name, tiles)
  for (const { asked, tiles } of found) put(asked.device, settingOf(asked), classOf(asked), tiles)
  return mapped(all, (table) => mapped(table, (classes) => mapped(classes, (tiles) => tiles)))
}

const inOrder = new Intl.Collator('en', { numeric: true })

/** Maps the values of a record and sorts its names; numbers inside names are compared by value. */
function mapped<From, To>(
  record: Readonly<Record<string, From>>,
  to: (value: From) => To,
): Record<string, To> {
  const names = Object.keys(record).sort((a, b) => inOrder.compare(a, b))
  return Object.fromEntries(names.map((name) => [name, to(record[name])]))
}

/** Formats the table of a device as a TypeScript source file. */
export function tableSource(name: string, device: string, table: Table): string {
  const lines = Object.entries(table).flatMap(([setting, classes]) => [
    `  '${setting}': {`,
    ...Object.entries(classes).map(
      ([shape, tiles]) => `    '${shape}': { ${namedNumbers(tiles, ': ', ', ')} },`,
    ),
    '  },',
  ])
  return `/** The fastest tiles on ${device}, by setting and class of shapes. Only tuning writes this file. */
import type { Table } from './tables.ts'

export const ${name}: Table = {${lines.length === 0 ? '' : `\n${lines.join('\n')}\n`}}
`
}

/** Formats named numbers, such as `M=64 N=1024`. */
export const namedNumbers = (numbers: Numbers, is = '=', between = ' '): string =>
  Object.entries(numbers)
    .map(([name, value]) => `${name}${is}${value}`)
    .join(between)
