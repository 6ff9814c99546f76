/**
 * Splits a recording with several devices into one rank per device. A rank keeps the streams of its device. A rank also
 * keeps the host threads that launched work on its device. A host thread that launched work on several devices belongs
 * to the ranks of all these devices. A host thread that launched no work belongs to the ranks of all devices of its
 * process.
 */
import { deviceSpan } from '../timeline/builder.ts'
import { another, type Signed, type Unsigned } from '../timeline/columns.ts'
import {
  type Events,
  isDeviceWork,
  Kind,
  NONE,
  type RankTimeline,
  type Sequence,
  type Track,
} from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'

/**
 * If kernels ran on several devices, returns one timeline per device, with the device number as its rank number; if
 * kernels ran on only one device, returns the recording itself. A recording with several devices causes a warning
 * unless they are `expected` in its trace format. If several devices are `expected`, a single copy on a device is
 * enough to make the device a rank.
 */
export function splitByDevice(
  recording: RankTimeline,
  warnings: Warnings,
  { expected = false }: { expected?: boolean } = {},
): RankTimeline[] {
  const { tracks, events } = recording
  /** Three maps: the devices of each thread, the devices of each process, and the processes of each device. */
  const devicesOf = new Map<number, Set<number>>()
  const devicesOfProcess = new Map<number, Set<number>>()
  const processesOf = new Map<number, Set<number>>()
  let [lastStream, lastThread] = [NONE, NONE]
  for (let event = 0; event < events.length; event++) {
    if (!isDeviceWork(events.kind[event]) || events.launch[event] === NONE) continue
    const stream = events.track[event]
    const thread = events.track[events.launch[event]]
    // A stream's next work is usually launched by the same thread as its previous work.
    if (stream === lastStream && thread === lastThread) continue
    lastStream = stream
    lastThread = thread
    const device = tracks[stream].owner
    note(devicesOf, thread, device)
    note(devicesOfProcess, tracks[thread].owner, device)
    note(processesOf, device, tracks[thread].owner)
  }
  for (const [device, processes] of processesOf)
    if (processes.size > 1)
      warnings.add(
        'several-ranks',
        () =>
          `processes ${[...processes].sort((a, b) => a - b).join(', ')} all launch on device ${device}; ` +
          'if this file merges several ranks, audit the separate trace of each rank instead',
      )
  const isKernel = (kind: number): boolean => kind === Kind.kernel || kind === Kind.communication
  if (devicesWith(recording, expected ? isDeviceWork : isKernel).length < 2) return [recording]
  const devices = devicesWith(recording, isDeviceWork)

  if (!expected)
    warnings.add(
      'several-ranks',
      () => `the trace has kernels on devices ${devices.join(', ')}; each device is treated as a rank`,
    )
  const belongs = (track: Track, index: number, device: number): boolean => {
    if (track.role !== 'thread') return track.owner === device
    const launched = devicesOf.get(index) ?? devicesOfProcess.get(track.owner)
    return launched === undefined || launched.has(device)
  }
  return devices.map((device) => ({
    ...pickTracks(recording, (track, index) => belongs(track, index, device)),
    rank: device,
  }))
}

function devicesWith({ tracks, events }: RankTimeline, wanted: (kind: number) => boolean): number[] {
  const devices = new Set<number>()
  for (const { role, owner, from, to } of tracks) {
    if (role !== 'stream' || devices.has(owner)) continue
    for (let event = from; event < to; event++)
      if (wanted(events.kind[event])) {
        devices.add(owner)
        break
      }
  }
  return [...devices].sort((a, b) => a - b)
}

function note(sets: Map<number, Set<number>>, key: number, value: number): void {
  const known = sets.get(key)
  if (known) known.add(value)
  else sets.set(key, new Set([value]))
}

/** Returns a copy of the rank that has only the wanted tracks. Links to events of removed tracks are dropped. */
function pickTracks(rank: RankTimeline, wanted: (track: Track, index: number) => boolean): RankTimeline {
  const { events } = rank
  const kept = rank.tracks
    .map((track, index) => ({ track, index }))
    .filter((one) => wanted(one.track, one.index))
  const length = kept.reduce((sum, { track }) => sum + track.to - track.from, 0)
  const position = new Int32Array(events.length).fill(NONE)
  const tracks: Track[] = []
  let next = 0
  let first = Infinity
  for (const { track } of kept) {
    if (track.to > track.from) first = Math.min(first, events.start[track.from])
    tracks.push({ ...track, from: next, to: next + track.to - track.from })
    for (let event = track.from; event < track.to; event++) position[event] = next++
  }
  const shift = length > 0 ? first : 0
  const take = <T extends Float64Array | Signed | Unsigned>(column: T): T => {
    const made = another(column, length)
    let at = 0
    for (const { track } of kept) {
      made.set(column.subarray(track.from, track.to), at)
      at += track.to - track.from
    }
    return made
  }
  const links = (column: Int32Array): Int32Array =>
    take(column).map((event) => (event === NONE ? NONE : position[event]))
  const keys = <T>(values: ReadonlyMap<number, T>): Map<number, T> => {
    const renumbered = new Map<number, T>()
    for (const [event, value] of values) if (position[event] !== NONE) renumbered.set(position[event], value)
    return renumbered
  }
  const sequence = (): Sequence => {
    const { events: numbered, numbers } = events.sequence
    const isKept = (event: number): boolean => position[event] !== NONE
    return {
      events: numbered.filter(isKept).map((event) => position[event]),
      numbers: numbers.filter((_, i) => isKept(numbered[i])),
    }
  }
  const picked: Events = {
    length,
    start: take(events.start).map((start) => start - shift),
    duration: take(events.duration),
    bytes: keys(events.bytes),
    kind: take(events.kind),
    name: take(events.name),
    track: take(events.track),
    launch: links(events.launch),
    operator: links(events.operator),
    communication: take(events.communication),
    sequence: sequence(),
    operands: take(events.operands),
    traffic: keys(events.traffic),
  }
  tracks.forEach(({ from, to }, index) => picked.track.fill(index, from, to))
  return {
    ...rank,
    base: rank.base + BigInt(shift),
    tracks,
    events: picked,
    deviceSpan: deviceSpan(picked),
  }
}
