/**
 * Reads the data caches of the computer's processors, as Linux reports them. On other operating systems the caches are
 * unknown, and the list is empty.
 */
export interface SystemCache {
  readonly level: number
  readonly bytes: number
  /** True if all processors share the cache. */
  readonly isShared: boolean
}

/** Returns the contents of a system file, or undefined if it cannot be read. */
export type ReadText = (path: string) => string | undefined

const processors = '/sys/devices/system/cpu'
/** The maximum number of cache entries to read, which is larger than the number of caches of any processor. */
const most = 16

/** The caches of the first processor; Arke assumes that all processors have equal caches. */
export function systemCaches(read: ReadText): readonly SystemCache[] {
  const caches: SystemCache[] = []
  const online = read(`${processors}/online`)?.trim()
  for (let index = 0; index < most; index++) {
    const of = (name: string): string | undefined =>
      read(`${processors}/cpu0/cache/index${index}/${name}`)?.trim()
    const [level, size, type] = [of('level'), of('size'), of('type')]
    if (level === undefined) break
    const bytes = cacheBytes(size ?? '')
    if (!bytes || (type !== 'Data' && type !== 'Unified')) continue
    const sharing = of('shared_cpu_list')
    caches.push({ level: Number(level), bytes, isShared: sharing !== undefined && sharing === online })
  }
  return caches
}

/** Parses a cache size as Linux prints it: `32K`, `1M`, or a number of bytes. */
export function cacheBytes(text: string): number | undefined {
  const match = /^(\d+)([KM]?)$/.exec(text.trim())
  if (!match) return undefined
  return Number(match[1]) * { '': 1, K: 1024, M: 1024 * 1024 }[match[2] as '' | 'K' | 'M']
}
