/**
 * Reads one file of any known format. The content of a file identifies its format: the first bytes of an SQLite
 * database, or the first key of JSON from rocprofv3 or from Arke. Any other file is read as a PyTorch trace, whose
 * reader finds events even if the beginning of the file is damaged. The readers of formats other than PyTorch's are
 * loaded on demand.
 */
import { TimelineBuilder } from '../timeline/builder.ts'
import { Warnings } from '../timeline/warnings.ts'
import { headOf } from './head.ts'
import { readKinetoRanks } from './kineto.ts'
import { ROCPROF_KEY, SQLITE_MAGIC } from './magic.ts'
import type { TraceFile, TraceFileOptions, TraceFormat, TraceInput } from './traceFile.ts'

export async function readTraceFile(path: string, options: TraceFileOptions = {}): Promise<TraceFile> {
  let format: TraceFormat
  try {
    format = formatOf(await headOf(path))
  } catch (error) {
    const warnings = new Warnings()
    warnings.add('unreadable', () => (error as Error).message)
    return { format: 'kineto', bytes: 0, names: [], ranks: [], warnings: warnings.list() }
  }
  return readTrace(format, path, options)
}

/** Reads a trace of a known format. A database is given by its path. */
export async function readTrace(
  format: TraceFormat,
  source: TraceInput,
  options: TraceFileOptions,
): Promise<TraceFile> {
  switch (format) {
    case 'nsys':
      if (typeof source !== 'string') throw new Error('a database is read by its path, not from bytes')
      return (await import('./nsys.ts')).readNsys(source, options)
    case 'rocprof':
      return (await import('./rocprof.ts')).readRocprof(source, options)
    case 'arke':
      return (await import('./arkeTrace.ts')).readArkeTrace(source, options)
    case 'kineto':
      return readKinetoFileRanks(source, options)
    default:
      return format satisfies never
  }
}

async function readKinetoFileRanks(source: TraceInput, options: TraceFileOptions): Promise<TraceFile> {
  const warnings = new Warnings()
  const builder = new TimelineBuilder()
  const { ranks, bytes } = await readKinetoRanks(source, builder, warnings, options)
  const { names } = builder.freeze()
  const only = ranks.map(({ metadata: _, ...rank }) => rank)
  return { format: 'kineto', bytes, names, ranks: only, warnings: warnings.list() }
}

/** Returns the format of a file whose decompressed content begins with these bytes. */
export function formatOf(head: Uint8Array): TraceFormat {
  const text = Buffer.from(head.buffer, head.byteOffset, head.length).toString('latin1')
  if (text.startsWith(SQLITE_MAGIC)) return 'nsys'
  const firstKey = /^[\s\xef\xbb\xbf]*\{\s*"([^"]*)"/.exec(text)?.[1]
  if (firstKey === ROCPROF_KEY) return 'rocprof'
  return firstKey === 'arke' ? 'arke' : 'kineto'
}
