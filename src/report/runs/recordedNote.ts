/** States once per page how the recorded kernels differ from the timed ones, and what this means for the reader. */
import type { Point } from '../../runs/results.ts'
import { html, type Markup } from '../markup.ts'

/** What the differences mean for the figures of a run. */
export const recordedNote =
  'Times in the table are of executions without recording. The ledgers are of recorded executions, whose kernels differ; ' +
  'recording resolves waits to the polling interval. With recording:'

/** The differences of all points, each once. */
export const unlikeOf = (points: readonly Pick<Point, 'recordedUnlike'>[]): string[] => [
  ...new Set(points.flatMap((point) => point.recordedUnlike)),
]

export const recordedMarkup = (points: readonly Pick<Point, 'recordedUnlike'>[]): Markup | null => {
  const unlike = unlikeOf(points)
  return unlike.length === 0
    ? null
    : html`<details class="recorded-note">
        <summary>${recordedNote}</summary>
        <ul>
          ${unlike.map((one) => html`<li>${one}</li>`)}
        </ul>
      </details>`
}

/** How `arke bench` states a difference in the warnings of a document. */
export const recordedWarning = (difference: string): string => `Recorded, ${difference}.`
