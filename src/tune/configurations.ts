/**
 * Which tiles an operation takes: those that its caller gives; those that were measured on this machine (`arke tune`); those that
 * are shipped for the device; what the operation's own rule says. Where the class of a shape was not measured, the nearest one is
 * taken, up to two doublings away, if its tiles do for the shape.
 */
import { tunedHere } from './cache.ts'
import { shippedTables } from './shipped.ts'
import { classOf, settingOf, type Asked, type Numbers, type Tables } from './tables.ts'

/** How an operation's tiles are chosen. */
export interface Tiling<Tiles extends Numbers = Numbers> {
  readonly asked: Asked
  /** By rule, around those that are given. */
  fallback(given?: Partial<Tiles>): Tiles
  /** Whether tiles that were measured for another shape do for this one. */
  isLegal(tiles: Tiles): boolean
  /** Those worth trying, the fallback first. */
  candidates(): readonly Tiles[]
  /** Names of numbers that may be 0. */
  readonly mayBeZero?: readonly string[]
}

export type TilesFrom = 'given' | 'tuned here' | `shipped for ${string}` | 'default'

/** The nearest first; of two as near the larger, whose tiles waste least. */
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
        const tiles = classes[classOf(asked.shape, doublings)] as Numbers | undefined
        if (tiles && isLike(tiles) && tiling.isLegal(tiles)) return { tiles, tilesFrom }
      }
    }
  }
  return { tiles: fallback, tilesFrom: 'default' }
}

/** What was measured for it, or for the other numbers of its size: they move and multiply alike. */
function settingsOf(asked: Asked): string[] {
  const alike = { bf16: 'f16', f16: 'bf16' }[asked.dtype]
  return [asked.dtype, ...(alike ? [alike] : [])].map((dtype) => settingOf({ ...asked, dtype }))
}
