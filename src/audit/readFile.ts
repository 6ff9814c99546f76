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
import type { TraceFile, TraceFileOptions, TraceFormat } from './traceFile.ts'

export async function readTraceFile(path: string, options: TraceFileOptions = {}): Promise<TraceFile> {
  let format: TraceFormat
  try {
    format = formatOf(await headOf(path))
  } catch (error) {
    const warnings = new Warnings()
    warnings.add('unreadable', () => (error as Error).message)
    return { format: 'kineto', bytes: 0, names: [], ranks: [], warnings: warnings.list() }
  }
  switch (format) {
    case 'nsys':
      return (await import('./nsys.ts')).readNsys(path, options)
    case 'rocprof':
      return (await import('./rocprof.ts')).readRocprof(path, options)
    case 'arke':
      return (await import('./arkeTrace.ts')).readArkeTrace(path, options)
    case 'kineto':
      return readKinetoFileRanks(path, options)
    default:
      return format satisfies never
  }
}

async function readKinetoFileRanks(path: string, options: TraceFileOptions): Promise<TraceFile> {
  const warnings = new Warnings()
  const builder = new TimelineBuilder()
  const { ranks, bytes } = await readKinetoRanks(path, builder, warnings, options)
  const { names } = builder.freeze()
  const only = ranks.map(({ metadata: _, ...rank }) => rank)
  return { format: 'kineto', bytes, names, ranks: only, warnings: warnings.list() }
}

/** Returns the format of a file whose decompressed content begins with these bytes. */
function formatOf(head: Uint8Array): TraceFormat {
  const text = Buffer.from(head.buffer, head.byteOffset, head.length).toString('latin1')
  if (text.startsWith(SQLITE_MAGIC)) return 'nsys'
  const firstKey = /^[\s\xef\xbb\xbf]*\{\s*"([^"]*)"/.exec(text)?.[1]
  if (firstKey === ROCPROF_KEY) return 'rocprof'
  return firstKey === 'arke' ? 'arke' : 'kineto'
}
