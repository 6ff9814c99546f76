/**
 * Tables of tiles: by device, setting and class of shapes. A class stands for the shapes whose growing extents, such as rows and
 * tokens, have the same next power of two; all others count as they are.
 */
export type Numbers = Readonly<Record<string, number>>

/** What tiles are chosen for. */
export interface Asked {
  readonly operation: string
  readonly variant?: string
  readonly shard?: string
  readonly dtype: string
  readonly ranks: number
  /** Of a rank: multiprocessors of a GPU, worker threads of a CPU. */
  readonly processors: number
  /** The name of a rank's GPU, or the target's. */
  readonly device: string
  readonly shape: Numbers
}

/** What was measured on a device: tiles by setting, such as `allGatherGemm pull K bf16 8x16`, and class of shapes. */
export type Table = Readonly<Record<string, Readonly<Record<string, Numbers>>>>
/** By the name of the device. */
export type Tables = Readonly<Record<string, Table>>

export const settingOf = ({ operation, variant, shard, dtype, ranks, processors }: Asked): string =>
  [operation, variant, shard, dtype, `${ranks}x${processors}`].filter(Boolean).join(' ')

const growing = ['M', 'batch', 'tokens']
/** Those of them along which neighbours are alike. */
const neighbouring = ['M', 'tokens']

/** Some doublings away. */
export function classOf(shape: Numbers, doublings = 0): string {
  const extents = Object.entries(shape).map(([name, extent]) => {
    const power = Math.ceil(Math.log2(extent)) + (neighbouring.includes(name) ? doublings : 0)
    return [name, growing.includes(name) ? 2 ** power : extent]
  })
  return namedNumbers(Object.fromEntries(extents))
}

/** The tables with what was found put in its place; settings and classes in order. */
export function withTiles(tables: Tables, found: readonly { asked: Asked; tiles: Numbers }[]): Tables {
  const all: Record<string, Record<string, Record<string, Numbers>>> = {}
  const put = (device: string, setting: string, name: string, tiles: Numbers): void => {
    ;((all[device] ??= {})[setting] ??= {})[name] = tiles
  }
  for (const [device, table] of Object.entries(tables))
    for (const [setting, classes] of Object.entries(table))
      for (const [name, tiles] of Object.entries(classes)) put(device, setting, name, tiles)
  for (const { asked, tiles } of found) put(asked.device, settingOf(asked), classOf(asked.shape), tiles)
  return mapped(all, (table) => mapped(table, (classes) => mapped(classes, (tiles) => tiles)))
}

const inOrder = new Intl.Collator('en', { numeric: true })

/** The same names, sorted, numbers in them by their size. */
function mapped<From, To>(
  record: Readonly<Record<string, From>>,
  to: (value: From) => To,
): Record<string, To> {
  const names = Object.keys(record).sort((a, b) => inOrder.compare(a, b))
  return Object.fromEntries(names.map((name) => [name, to(record[name])]))
}

/** The table of a device as a source file. */
export function tableSource(name: string, device: string, table: Table): string {
  const lines = Object.entries(table).flatMap(([setting, classes]) => [
    `  '${setting}': {`,
    ...Object.entries(classes).map(
      ([shape, tiles]) => `    '${shape}': { ${namedNumbers(tiles, ': ', ', ')} },`,
    ),
    '  },',
  ])
  return `/** Tiles that were the fastest on ${device}, by setting and class of shapes, as tuning writes them. */
import type { Table } from './tables.ts'

export const ${name}: Table = {${lines.length === 0 ? '' : `\n${lines.join('\n')}\n`}}
`
}

/** Such as `M=64 N=1024`. */
export const namedNumbers = (numbers: Numbers, is = '=', between = ' '): string =>
  Object.entries(numbers)
    .map(([name, value]) => `${name}${is}${value}`)
    .join(between)
