/**
 * States once per page how the recorded kernels differ from the timed kernels, and how the differences affect figures.
 */
import type { Point } from '../../runs/results.ts'
import { html, type Markup } from '../markup.ts'

/** States which figures of a run come from executions with recording. */
export const recordedNote =
  'Times in the table are of executions without recording. The ledgers are of recorded executions, whose kernels differ; ' +
  'the time of a recorded wait is accurate to one polling interval. Differences of the recorded kernels:'

/** The differences between recorded and timed kernels at all points, without repetitions. */
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

/** The warning with which `arke bench` states a difference between recorded and timed kernels. */
export const recordedWarning = (difference: string): string => `Recorded, ${difference}.`
