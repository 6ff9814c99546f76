/**
 * Decides whether the files are traces of one job, and which recording of a rank is audited if the rank has several.
 *
 * Files belong to different jobs in any of these cases: they state different world sizes; a process group has different
 * ranks; or a rank is a different process, did different work at the same time, or did the same step twice. Different
 * times do not prove different jobs, since the clocks of two machines may differ by any amount. However, files that
 * state no rank and have no collective belong to one job only if they were recorded at the same time.
 *
 * One job may have several recordings of a rank, since `torch.profiler` with a schedule writes one file per window.
 * Only one window of the profiler schedule is audited. The same profiler window is audited on all ranks, as far as the
 * number or the times of the windows identify it.
 */
import { basename, dirname, join } from 'node:path'
import { duration } from '../timeline/figures.ts'
import { ranges } from '../timeline/ranges.ts'
import { isDeviceWork, Kind, type RankTimeline } from '../timeline/timeline.ts'
import { AuditError } from './auditError.ts'
import type { FileRank, TraceFile } from './traceFile.ts'

/** What one file recorded about one rank. */
interface Recording extends FileRank {
  readonly file: number
  /**
   * Start and end of the rank's device work, in nanoseconds on its machine's clock; null if there is no device work.
   */
  readonly time: readonly [from: bigint, to: bigint] | null
  /** The process ids of the rank's host threads. */
  readonly processes: ReadonlySet<number>
}

/** A recording that the audit leaves out, with the reason. */
export interface LeftOut {
  readonly file: number
  readonly message: string
}

const isTold = ({ origin }: FileRank): boolean => origin !== 'guess' && origin !== 'device'

function recordingsOf(files: readonly TraceFile[]): Recording[][] {
  return files.map(({ ranks }, file) =>
    ranks.map((rank) => {
      const { base, deviceSpan, tracks } = rank.timeline
      const owners = tracks.filter(({ role, owner }) => role === 'thread' && owner >= 0)
      return {
        ...rank,
        file,
        time: deviceSpan && [base + BigInt(deviceSpan[0]), base + BigInt(deviceSpan[1])],
        processes: new Set(owners.map(({ owner }) => owner)),
      }
    }),
  )
}

/**
 * Throws an `AuditError` that names the jobs if the files belong to several jobs. `called` holds the display name of
 * each file.
 */
export function refuseSeveralJobs(files: readonly TraceFile[], called: readonly string[]): void {
  const recordings = recordingsOf(files)
  const jobs: Recording[][] = []
  let reason: string | null = null
  for (const own of recordings) {
    if (own.length === 0) continue
    const fitting = jobs.filter((job) => {
      const found = firstConflict(job, own, files, called)
      reason ??= found
      return found === null
    })
    // A trace file can fit several jobs. The most likely job is the one whose recordings are nearest to the file in
    // time.
    const job = fitting.reduce<Recording[] | undefined>(
      (best, one) => (best === undefined || distance(one, own) < distance(best, own) ? one : best),
      undefined,
    )
    if (job) job.push(...own)
    else jobs.push([...own])
  }
  if (jobs.length === 1) {
    const surplus = beyondWorld(jobs[0])
    if (surplus) {
      jobs.push(surplus.guessed)
      jobs[0] = jobs[0].filter((one) => !surplus.guessed.includes(one))
      reason = `${called[surplus.guessed[0].file]} states no rank, and all ${surplus.world} ranks of the other job already have a trace`
    }
  }
  if (jobs.length < 2 || reason === null || isWrongNumber(jobs)) return
  throw new AuditError(
    `these are traces of ${jobs.length} jobs: ${jobs.map((job) => describe(job, called)).join('; ')}. ` +
      `${reason as string}. Audit one job at a time: name its files or its folder` +
      (jobs.flat().some(({ origin }) => origin === 'name')
        ? '; if the files are of one job, number them by rank (rank0.json, rank1.json, …)'
        : ''),
  )
}

/**
 * True if the only evidence for a second job is one file that has the same rank number and time as another file, while
 * a rank of the job is missing. A file with the rank number and the time of another file most likely belongs to a
 * missing rank and is misnumbered.
 */
function isWrongNumber(jobs: readonly (readonly Recording[])[]): boolean {
  const [[stray, ...others], job] = [...jobs].sort((a, b) => a.length - b.length)
  if (jobs.length > 2 || others.length > 0) return false
  const told = new Set(job.filter(isTold).map(({ timeline }) => timeline.rank))
  return (
    stray.worldSize !== null &&
    told.size < stray.worldSize &&
    told.size > 1 &&
    job.every((one) => one.worldSize === stray.worldSize && conflictingGroup(one, stray) === null) &&
    job.some((one) => one.timeline.rank === stray.timeline.rank && overlaps(one, stray))
  )
}

const SHOWN = 3

function describe(job: readonly Recording[], called: readonly string[]): string {
  const told = new Set(job.filter(isTold).map(({ timeline }) => timeline.rank))
  const world = job.find(({ worldSize }) => worldSize !== null)?.worldSize ?? null
  const names = [...new Set(job.map(({ file }) => called[file]))]
  const shown = names.length > SHOWN ? [...names.slice(0, SHOWN), `${names.length - SHOWN} more`] : names
  const ranks =
    told.size === 0 ? 'unknown ranks' : `${told.size === 1 ? 'rank' : 'ranks'} ${ranges([...told])}`
  return `${ranks}${world === null ? '' : ` of ${world}`} (${shown.join(', ')})`
}

/** Returns the reason why the recordings of a file cannot belong to the job, or null if they can. */
function firstConflict(
  job: readonly Recording[],
  own: readonly Recording[],
  files: readonly TraceFile[],
  called: readonly string[],
): string | null {
  for (const a of job)
    for (const b of own) {
      const found = conflict(a, b, files, called[a.file], called[b.file])
      if (found !== null) return found
    }
  return null
}

function conflict(
  a: Recording,
  b: Recording,
  files: readonly TraceFile[],
  nameOfA: string,
  nameOfB: string,
): string | null {
  if (a.worldSize !== null && b.worldSize !== null && a.worldSize !== b.worldSize)
    return `${nameOfA} is from a job of ${a.worldSize} ranks and ${nameOfB} from a job of ${b.worldSize}`
  const { rank } = a.timeline
  for (const [one, other, name] of [
    [a, b, nameOfB],
    [b, a, nameOfA],
  ] as const)
    if (one.worldSize !== null && other.worldSize === null && isTold(other))
      if (other.timeline.rank >= one.worldSize)
        return `${name} is rank ${other.timeline.rank}, but the other job has only ${one.worldSize} ranks`
  const group = conflictingGroup(a, b)
  if (group !== null)
    return `process group ${group.name} has ranks ${ranges(group.a)} in ${nameOfA} and ranks ${ranges(group.b)} in ${nameOfB}`
  const otherProcess = a.processes.size > 0 && b.processes.size > 0 && isDisjoint(a.processes, b.processes)
  if (!isTold(a) || !isTold(b)) {
    // The two recordings have no rank number, no collective and no overlap in time, so nothing shows that they belong
    // together.
    const isAlone = (one: Recording): boolean => !isTold(one) && !communicates(one.timeline)
    if (!otherProcess || !a.time || !b.time || overlaps(a, b) || !(isAlone(a) || isAlone(b))) return null
    const [alone, other] = isAlone(b) ? [nameOfB, nameOfA] : [nameOfA, nameOfB]
    return `${alone} states no rank, has no collective and was not recorded at the same time as ${other}`
  }
  if (rank !== b.timeline.rank) return null
  if (otherProcess)
    return `rank ${rank} is process ${[...a.processes][0]} in ${nameOfA} and process ${[...b.processes][0]} in ${nameOfB}`
  if (isCopy(a.timeline, b.timeline)) return null
  if (overlaps(a, b))
    return `${nameOfA} and ${nameOfB} both have work of rank ${rank} at the same time, and the work differs`
  const steps = stepsOf(a, files[a.file].names)
  const again = [...stepsOf(b, files[b.file].names)].find((step) => steps.has(step))
  return again === undefined ? null : `${nameOfA} and ${nameOfB} both have ${again} of rank ${rank}`
}

/**
 * Finds a process group that both recordings list under the same name with different but overlapping ranks. A rank
 * cannot be in two groups of the same name, so two recordings with such a group belong to different jobs.
 */
function conflictingGroup(
  { groups: a = [] }: Recording,
  { groups: b = [] }: Recording,
): { name: string; a: readonly number[]; b: readonly number[] } | null {
  if (a === b || a.length === 0 || b.length === 0) return null
  const byName = new Map(a.map((group) => [group.name, group.ranks]))
  for (const { name, ranks } of b) {
    const others = byName.get(name)
    if (!others || (others.length === ranks.length && others.every((rank, i) => rank === ranks[i]))) continue
    const own = new Set(others)
    if (ranks.some((rank) => own.has(rank))) return { name, a: others, b: ranks }
  }
  return null
}

const isDisjoint = (a: ReadonlySet<number>, b: ReadonlySet<number>): boolean =>
  ![...a].some((one) => b.has(one))

const overlaps = ({ time: a }: Recording, { time: b }: Recording): boolean =>
  a !== null && b !== null && a[0] < b[1] && b[0] < a[1]

const communicates = ({ events }: RankTimeline): boolean => events.kind.includes(Kind.communication)

/** The names of the steps that the program annotated. */
function stepsOf({ timeline: { events } }: Recording, names: readonly string[]): Set<string> {
  const found = new Set<string>()
  for (let event = 0; event < events.length; event++)
    if (events.kind[event] === Kind.step) found.add(names[events.name[event]])
  return found
}

/** The largest relative change of a duration if a trace was rewritten on a common clock that drifts. */
const STRETCH = 1e-3
/**
 * In a damaged copy of a recording, some work is missing or has other times than in the original. At least this
 * fraction of the device work must match for a recording to count as a damaged copy.
 */
const MOST = 0.9

/**
 * True if two recordings have the same content: one is a copy of the other, perhaps cut off or rewritten on another
 * clock.
 */
function isCopy(a: RankTimeline, b: RankTimeline): boolean {
  const [some, all] = [workOf(a), workOf(b)].sort((one, other) => one.length - other.length)
  if (some.length === 0) return false
  const sameDurations = some.every(
    (work, i) => Math.abs(work.duration - all[i].duration) <= 2 + STRETCH * work.duration,
  )
  if (some.length === all.length && sameDurations) return true
  const known = new Set(all.map(({ from, duration: time }) => `${from} ${time}`))
  const same = some.filter(({ from, duration: time }) => known.has(`${from} ${time}`)).length
  return same >= MOST * some.length
}

function workOf({ base, events, tracks }: RankTimeline): { from: bigint; duration: number }[] {
  const found: { from: bigint; duration: number }[] = []
  for (const { role, from, to } of tracks)
    if (role === 'stream')
      for (let event = from; event < to; event++)
        if (isDeviceWork(events.kind[event]))
          found.push({ from: base + BigInt(events.start[event]), duration: events.duration[event] })
  return found
}

/**
 * Finds the recordings that cannot belong to the job, because they state no rank number although every rank of the
 * world already has a recording.
 */
function beyondWorld(job: readonly Recording[]): { world: number; guessed: Recording[] } | null {
  const world = job.find(({ worldSize }) => worldSize !== null)?.worldSize ?? null
  const told = new Set(job.filter(isTold).map(({ timeline }) => timeline.rank))
  const guessed = job.filter(({ origin }) => origin === 'guess')
  return world !== null && guessed.length > 0 && told.size >= world ? { world, guessed } : null
}

/** The time between two sets of recordings in nanoseconds, or 0 if the sets overlap. */
function distance(a: readonly Recording[], b: readonly Recording[]): number {
  let least = Infinity
  for (const one of a)
    for (const other of b)
      if (one.time && other.time)
        least = Math.min(
          least,
          Math.max(0, Number(one.time[0] - other.time[1]), Number(other.time[0] - one.time[1])),
        )
  return least
}

/**
 * The recordings that are not audited because another recording of the same rank is audited, each with the message to
 * print.
 */
export function repeatedRecordings(
  files: readonly TraceFile[],
  called: readonly string[],
): ReadonlyMap<FileRank, LeftOut> {
  const recordings = recordingsOf(files)
  const leftOut = new Map<FileRank, LeftOut>()
  const original = (one: Recording): FileRank => files[one.file].ranks[recordings[one.file].indexOf(one)]
  const leave = (one: Recording, message: string): void => {
    leftOut.set(original(one), { file: one.file, message })
  }
  const windows = new Map<string, Recording[]>()
  for (const one of recordings.flat()) {
    const key = keyOf(one)
    if (key === null) continue
    const known = windows.get(key)
    if (!known) {
      windows.set(key, [one])
      continue
    }
    const copied = isTold(one) ? known.find((other) => isCopy(other.timeline, one.timeline)) : undefined
    if (copied)
      leave(
        one,
        one.file === copied.file
          ? `the file contains rank ${one.timeline.rank} twice; the second recording is left out`
          : `this is a copy of rank ${one.timeline.rank} in ${called[copied.file]} and is left out`,
      )
    // Two recordings without a rank number that overlap in time are different ranks.
    else if (isTold(one) || !known.some((other) => overlaps(other, one))) known.push(one)
  }

  for (const [key, some] of windows) {
    const isDoubtful = (one: Recording): boolean =>
      some.some((other) => other.file !== one.file && overlaps(one, other))
    const doubtful = some.filter(isDoubtful)
    if (doubtful.length === 0) continue
    for (const one of doubtful) {
      const other = doubtful.find(({ file }) => file !== one.file) ?? one
      leave(
        one,
        `${called[other.file]} also has work of ${key} at the same time, and the work differs; ` +
          'one of the two rank numbers is wrong, so both files are left out',
      )
    }
    windows.delete(key)
  }
  const all = [...windows.values()].map((some) => some.sort(byTime))
  const chosen = chooseWindows(all)
  all.forEach((some, i) => {
    for (const one of some) if (one !== chosen[i]) leave(one, describeWindow(one, chosen[i], called))
  })
  return leftOut
}

/** A key that all recordings of one rank have in common, or null if nothing identifies the rank. */
function keyOf(one: Recording): string | null {
  if (isTold(one)) return `rank ${one.timeline.rank}`
  if (one.processes.size === 0 || one.time === null) return null
  return `${one.origin} ${one.timeline.rank} of ${[...one.processes].sort((a, b) => a - b).join(' ')}`
}

const byTime = ({ time: a }: Recording, { time: b }: Recording): number =>
  a === null || b === null ? Number(a === null) - Number(b === null) : a[0] < b[0] ? -1 : 1

/** Chooses the window to audit for each rank. The windows of a rank are sorted by time. */
function chooseWindows(ranks: readonly (readonly Recording[])[]): Recording[] {
  if (ranks.length === 0) return []
  const counts = ranks.map((some) => some.length)
  const fewest = Math.min(...counts)
  if (fewest === Math.max(...counts)) return ranks.map((some) => some[0])
  // The rank with the fewest windows sets the time. Every other rank is audited in the window that is nearest in time
  // to the first window of the rank with the fewest windows.
  const anchor = [ranks[counts.indexOf(fewest)][0]]
  return ranks.map((some) =>
    some.reduce((best, one) => (distance(anchor, [one]) < distance(anchor, [best]) ? one : best)),
  )
}

function describeWindow(one: Recording, chosen: Recording, called: readonly string[]): string {
  const microseconds = (time: bigint): string => duration(Number(time) / 1000)
  const kept = one.file === chosen.file ? 'the audited recording' : `the recording in ${called[chosen.file]}`
  const who = isTold(one) ? `rank ${one.timeline.rank}` : 'the same process'
  if (!one.time || !chosen.time) return `another recording of ${who} is left out in favour of ${kept}`
  const [from, to] = one.time
  const apart =
    from < chosen.time[0]
      ? `${microseconds(chosen.time[0] - from)} before`
      : `${microseconds(from - chosen.time[0])} after`
  return `a recording of ${microseconds(to - from)} of ${who} that begins ${apart} ${kept} is left out; audit it on its own`
}

/** The display name of each file: its base name, with its folder if base names are not unique. */
export function callFiles(paths: readonly string[]): string[] {
  const names = paths.map((path) => basename(path))
  if (new Set(names).size === names.length) return names
  return paths.map((path) => join(basename(dirname(path)), basename(path)))
}
