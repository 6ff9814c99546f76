/**
 * Formats warnings, with the most serious one first. Equal warnings of several files or ranks are merged into one line
 * with a count.
 */
import { basename, dirname, join } from 'node:path'
import { ranges } from '../timeline/ranges.ts'
import type { AuditDocument, WarningDocument } from './document.ts'
import { plural } from './format.ts'

/**
 * The order of the warning classes. Warnings about wrong numbers come first, and warnings about missing data come after
 * them. Warnings of classes that are not listed come last.
 */
const gravity: readonly string[] = [
  'unreadable',
  'missing-ranks',
  'clock',
  'aligned',
  'groups',
  'unmatched',
  'several-ranks',
  'rank',
  'duplicate-rank',
  'truncated',
  'gzip',
  'no-events',
  'garbage',
  'documents',
  'too-large',
  'time',
  'negative-duration',
  'duplicate-event',
  'before-launch',
  'steps',
  'before-recording',
  'correlation',
  'duplicate-correlation',
  'overlap',
  'stacks',
  'shapes',
  'device',
]

/**
 * The unit of the count of a warning class if the class does not count occurrences, or null if the message itself
 * contains the number.
 */
const counted: Readonly<Record<string, 'rank' | null>> = {
  'missing-ranks': null,
  'duplicate-rank': null,
  clock: null,
  aligned: null,
  groups: null,
  unmatched: null,
  'before-recording': null,
  rank: null,
  'several-ranks': null,
  'no-events': 'rank',
  shapes: 'rank',
  device: 'rank',
}

export function byGravity(warnings: readonly WarningDocument[]): WarningDocument[] {
  const place = ({ class: of }: WarningDocument): number => {
    const at = gravity.indexOf(of)
    return at < 0 ? gravity.length : at
  }
  return [...warnings].sort((a, b) => place(a) - place(b))
}

export function warningLines({ warnings, sources }: Pick<AuditDocument, 'warnings' | 'sources'>): string[] {
  const names = sources.flatMap(({ path }) => [basename(path), join(basename(dirname(path)), basename(path))])
  const merged = new Map<
    string,
    { first: WarningDocument; texts: string[]; count: number; files: Set<string> }
  >()
  for (const warning of byGravity(warnings)) {
    const file = names.find((name) => warning.message.startsWith(`${name}: `))
    const text = file === undefined ? warning.message : warning.message.slice(file.length + 2)
    const key = `${warning.class} ${ending(text)}`
    const known = merged.get(key)
    if (known) {
      known.count += warning.count
      known.texts.push(text)
    } else merged.set(key, { first: warning, texts: [text], count: warning.count, files: new Set() })
    if (file !== undefined) merged.get(key)?.files.add(file)
  }
  return [...merged.values()].map(({ first, texts, count, files }) => {
    const unit = first.class in counted ? counted[first.class] : 'time'
    const counts = [
      ...(count > 1 && unit !== null ? [plural(count, unit)] : []),
      ...(files.size > 1 ? [`in ${plural(files.size, 'file')}`] : []),
    ]
    return (
      (files.size > 1 ? withRanges(texts) : first.message) +
      (counts.length > 0 ? ` (${counts.join(' ')})` : '')
    )
  })
}

/**
 * Merges texts that differ only in numbers: `rank 0` to `rank 3` become `rank 0-3`. Returns the first text if the texts
 * differ in more than numbers.
 */
function withRanges(texts: readonly string[]): string {
  const number = /(?<= )\d+(?= |$|[,;.])/g
  const shape = (text: string): string => text.replace(number, '#')
  if (texts.some((text) => shape(text) !== shape(texts[0]))) return texts[0]
  const values = texts.map((text) => text.match(number) ?? [])
  let at = 0
  return texts[0].replace(number, () => {
    const all = new Set(values.map((of) => Number(of[at])))
    at++
    return ranges([...all])
  })
}

/**
 * The key for merging messages of one class. Messages of one class with equal endings differ only in the kernel, rank
 * or byte that they name.
 */
const ending = (text: string): string => text.replace(/\d+/g, '#').split(' ').slice(-4).join(' ')
