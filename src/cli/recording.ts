/**
 * The recording that ships with Arke: an output of `arke bench --json`, made on a GPU. The demo draws its timelines,
 * with the machine, the day and the commit of the recording. docs/reproduce.md states the command that makes the file.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../files.ts'
import { wrap } from '../report/format.ts'
import { ranksText, sourceText } from '../report/runs/provenance.ts'
import { timelineLegend, timelineRows } from '../report/runs/timeline.ts'
import type { BenchResult } from '../runs/results.ts'

const shipped = fileURLToPath(packageFile('docs/results/recording-h200.json'))

/** The recording, or null if there is no such file. */
export const recordingIn = (path = shipped): BenchResult | null =>
  existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as BenchResult) : null

/** Every recorded point, drawn with its variants on one time scale. */
export const recordingLines = (recording: BenchResult): string[] => [
  ...wrap(`${sourceText(recording)}. ${ranksText(recording)}`),
  ...recording.points.flatMap((point) => ['', ...timelineRows(point).map((line) => `  ${line}`)]),
  '',
  `  ${timelineLegend}`,
]
