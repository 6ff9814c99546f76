/**
 * The executions that a page draws, in the format that the page's script reads. There is one block of data per
 * benchmark point, and each text is stored once.
 */
import { runPartNames, type Picture } from '../../runs/results.ts'

export interface PackedTrack {
  readonly name: string
  /**
   * For each span: its times in nanoseconds, the index of its part in `runPartNames`, and the index of its label in
   * `labels`.
   */
  readonly from: readonly number[]
  readonly to: readonly number[]
  readonly part: readonly number[]
  readonly label: readonly number[]
}

export interface PackedPicture {
  readonly variant: string
  readonly wall: number
  readonly ranks: readonly { readonly rank: number; readonly tracks: readonly PackedTrack[] }[]
}

export interface PackedPoint {
  readonly labels: readonly string[]
  readonly variants: readonly PackedPicture[]
}

export const blockOfPoint = (place: number): string => `pictures-${place}`

export function packPictures({
  variants,
}: {
  readonly variants: readonly { readonly variant: string; readonly picture: Picture }[]
}): PackedPoint {
  const places = new Map<string, number>()
  const placeOf = (label: string): number => {
    const place = places.get(label) ?? places.size
    places.set(label, place)
    return place
  }
  const packed = variants.map(({ variant, picture: { wall, ranks } }) => ({
    variant,
    wall,
    ranks: ranks.map(({ rank, tracks }) => ({
      rank,
      tracks: tracks.map(({ name, spans }) => ({
        name,
        from: spans.map(({ from }) => from),
        to: spans.map(({ to }) => to),
        part: spans.map(({ part }) => runPartNames.indexOf(part)),
        label: spans.map(({ label }) => placeOf(label)),
      })),
    })),
  }))
  return { labels: [...places.keys()], variants: packed }
}
