/**
 * Chooses the tiles of an operation. Four sources are tried in order: tiles given by the caller, tiles tuned on this
 * machine (`arke tune`), tiles shipped for the device, and the operation's own rule. If the class of a shape (shapes of
 * similar size) was not measured, the nearest measured class is used. The nearest class may be up to two doublings
 * away, and its tiles must be valid for the shape.
 */
import { tunedHere } from './cache.ts'
import { shippedTables } from './shipped.ts'
import { classOf, settingOf, type Asked, type Numbers, type Tables } from './tables.ts'

/** The way in which an operation chooses its tiles. */
export interface Tiling<Tiles extends Numbers = Numbers> {
  readonly asked: Asked
  /** Returns tiles by a rule, consistent with the tiles that the caller gave. */
  fallback(given?: Partial<Tiles>): Tiles
  /** True if tiles that were measured for another shape may be used for this shape. */
  isLegal(tiles: Tiles): boolean
  /** The tiles that `arke tune` tries, with the default tiles first. */
  candidates(): readonly Tiles[]
  /** The names of tile parameters that may be 0. */
  readonly mayBeZero?: readonly string[]
}

export type TilesFrom = 'given' | 'tuned here' | `shipped for ${string}` | 'default'

/**
 * The distances to other classes of shapes, as numbers of doublings, with the nearest first. Of two equally near
 * classes, the larger one comes first, because tiles for larger shapes waste less work.
 */
const distances = [0, 1, -1, 2, -2]

export function tilesFor<Tiles extends Numbers>(
  tiling: Tiling<Tiles>,
  given: Partial<Tiles> = {},
  here: Tables = tunedHere(),
  shipped: Tables = shippedTables,
): { readonly tiles: Tiles; readonly tilesFrom: TilesFrom } {
  const fallback = tiling.fallback(given)
  if (Object.values(given).some((value) => value !== undefined))
    return { tiles: { ...fallback, ...given }, tilesFrom: 'given' }
  const { asked, mayBeZero = [] } = tiling
  const isLike = (tiles: Numbers): tiles is Tiles =>
    Object.keys(fallback).every(
      (name) => Number.isInteger(tiles[name]) && tiles[name] >= (mayBeZero.includes(name) ? 0 : 1),
    )
  const sources: readonly (readonly [TilesFrom, Tables])[] = [
    ['tuned here', here],
    [`shipped for ${asked.device}`, shipped],
  ]
  for (const [tilesFrom, tables] of sources) {
    for (const setting of settingsOf(asked)) {
      const classes = tables[asked.device]?.[setting] ?? {}
      for (const doublings of distances) {
        const tiles = classes[classOf(asked, doublings)] as Numbers | undefined
        if (tiles && isLike(tiles) && tiling.isLegal(tiles)) return { tiles, tilesFrom }
      }
    }
  }
  return { tiles: fallback, tilesFrom: 'default' }
}

/**
 * The settings under which the tables of tuned tiles are searched. The search begins with the requested dtype and
 * continues with the other dtype of the same size, because a machine copies and multiplies both equally fast.
 */
function settingsOf(asked: Asked): string[] {
  const alike = { bf16: 'f16', f16: 'bf16' }[asked.dtype]
  return [asked.dtype, ...(alike ? [alike] : [])].map((dtype) => settingOf({ ...asked, dtype }))
}
