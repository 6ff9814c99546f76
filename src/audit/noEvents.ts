/**
 * Explains in one sentence why a file has no events to audit: it is empty, cut off, damaged, of another kind, or a
 * trace without events. The returned sentence says what the file is and what the user can do.
 */
import { readFileSync, statSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { Warning } from '../timeline/warnings.ts'
import { headOf } from './head.ts'
import { SQLITE_MAGIC } from './magic.ts'
import type { TraceFile } from './traceFile.ts'

/**
 * The file names of profiler recordings in formats that Arke does not read, each with a description of the recording.
 */
const otherRecordings: readonly (readonly [name: RegExp, what: string])[] = [
  [/\.(nsys-rep|qdrep|qdstrm)$/i, 'a report of Nsight Systems; export it by `nsys export --type sqlite`'],
  [/\.(pftrace|perfetto-trace)$/i, 'a Perfetto trace; record with `--output-format json`'],
  [/\.(rocpd|db)$/i, 'a database of rocprofv3; record with `--output-format json`'],
]

/** The first bytes of files that are not traces, each with a description of the file. */
const otherKinds: readonly (readonly [start: RegExp, what: string])[] = [
  [/^\x89PNG/, 'a PNG image'],
  [/^\xff\xd8\xff/, 'a JPEG image'],
  [/^%PDF/, 'a PDF document'],
  [/^\x7fELF/, 'a program'],
  [/^\s*<(?:!doctype|html)/i, 'an HTML page'],
  [/^[\s\xef\xbb\xbf]*[[{]/, 'JSON without trace events'],
]

/** True if the text has no control characters except white space. */
const isText = (head: string): boolean => [...head].every((one) => one >= ' ' || /\s/.test(one))

const kinds = 'give traces of PyTorch (.json, .json.gz), Nsight Systems (.sqlite), rocprofv3 (.json) or Arke'

/** The smallest size of an SQLite database in bytes. A shorter database file is cut off. */
const LEAST_SQLITE = 512

/** False if the compressed data is cut off before its end. */
function isWhole(path: string): boolean {
  try {
    gunzipSync(readFileSync(path))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'Z_BUF_ERROR'
  }
}

/** Returns null if the file could not be read at all, because a warning already reports such a file. */
export async function whyNoEvents(
  path: string,
  { bytes, warnings, head: known }: TraceFile,
): Promise<string | null> {
  let head: string
  let size: number
  try {
    head = Buffer.from(known ?? (await headOf(path))).toString('latin1')
    size = known ? Math.max(bytes, known.length) : statSync(path).size
  } catch {
    return null
  }
  const has = (kind: Warning['class']): boolean => warnings.some((one) => one.class === kind)
  if (size === 0) return 'it is empty; record or copy it again'
  const recording = otherRecordings.find(([name]) => name.test(path))
  if (recording) return `it is ${recording[1]}`
  const isSqlite = head.startsWith(SQLITE_MAGIC)
  // If the first bytes of a file are not those of a trace, the file counts as another kind of file, even if it is cut
  // off.
  const isForeign = warnings[0]?.class === 'garbage' && !isSqlite
  const isHollow = bytes === 0 && !isSqlite && !has('unreadable')
  const isCut =
    (has('truncated') && !isForeign) ||
    (isSqlite && size < LEAST_SQLITE) ||
    (isHollow && known === undefined && !isWhole(path))
  if (isCut)
    return 'it is cut off before its first event; copy it again, or wait until the profiler has written it'
  if (has('gzip')) return 'its compressed data is damaged before the first event; copy it again'
  if (isHollow) return 'it holds no data once it is decompressed; record or copy it again'
  if (isSqlite && has('format')) return `it is an SQLite database, but no export of Nsight Systems; ${kinds}`
  if (isForeign || has('format')) {
    const known = otherKinds.find(([start]) => start.test(head))?.[1]
    const kind = known ?? (isText(head) ? 'a text file' : 'a file of an unknown kind')
    return `it is ${kind}, no trace; ${kinds}`
  }
  if (has('unreadable')) return null
  return 'no GPU events found; record the GPU as well (ProfilerActivity.CUDA)'
}
