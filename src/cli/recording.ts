/**
 * Reads the recording that ships with Arke: an output of `arke bench --json`, made on a GPU. The demo draws the
 * timelines of the recording, and states its machine, day and commit. docs/reproduce.md states the command that makes
 * the file.
 */
import { readFileSync } from 'node:fs'
import { packageFile } from '../files.ts'
import { wrap } from '../report/format.ts'
import { ranksText, sourceText } from '../report/runs/provenance.ts'
import { timelineLegend, timelineRows } from '../report/runs/timeline.ts'
import type { BenchResult } from '../runs/results.ts'

export const shippedRecording = (): BenchResult =>
  JSON.parse(readFileSync(new URL(packageFile('docs/results/recording-h200.json')), 'utf8')) as BenchResult

/** Every recorded point, drawn with its variants on one time scale. */
export const recordingLines = (recording: BenchResult): string[] => [
  ...wrap(`${sourceText(recording)}. ${ranksText(recording)}`),
  ...recording.points.flatMap((point) => ['', ...timelineRows(point).map((line) => `  ${line}`)]),
  '',
  `  ${timelineLegend}`,
]
