/**
 * Keeps the record of a recording world: launches as the host saw them, and the events that kernels wrote into the logs
 * of their queues. The timeline is built from the recorded launches and events. On each rank, the timeline has one
 * track of launches per stream. Each multiprocessor has one track for each of its concurrent programs, and one for each
 * role of that program that recorded an event. The host of the world has a track of its calls.
 *
 * All times of the timeline are on the clock of the first rank's device. Ranks on the first rank's device share its
 * clock, so the times of these ranks are exact relative to each other. Times of other devices are converted to the
 * clock of the first rank's device, with an error of about 1 us.
 */
import { onlyMoves } from '../../ir/moves.ts'
import { TimelineBuilder, type RankBuilder } from '../../timeline/builder.ts'
import { recordedNames } from '../../timeline/recordedNames.ts'
import { Kind, type Timeline } from '../../timeline/timeline.ts'
import { workerTrack } from '../../timeline/workers.ts'
import { LaunchTraffic, type Given } from '../../world/launchTraffic.ts'
import { inWorld, type Members } from '../../world/members.ts'
import { onDevice, type Moment } from './clock.ts'
import {
  eventKind,
  readLog,
  takeLog,
  type LogMemory,
  type Logged,
  type LoggedEvent,
  type RawLog,
} from './log.ts'

/** The fields of a launch that the events of the launch refer to. */
export interface RecordedKernel {
  readonly name: string
  /** The recorded source locations, by the number of the location. */
  readonly sites: readonly { readonly line: string; readonly flags: string | undefined }[]
  /** The flag sets of the launch, by kernel parameter. */
  readonly flags: Readonly<Record<string, { readonly name: string }>>
  /**
   * The group on which the kernel was launched. The events of the kernel contain rank numbers within this group.
   * `members` is undefined if the kernel was launched on the whole world.
   */
  readonly members?: Members
}
interface Launched {
  readonly kernel: RecordedKernel
  readonly given: Given | undefined
  /** The start and the end of the host's call, in nanoseconds on the host clock. */
  readonly from: number
  readonly to: number
}

/** The address of an event log, and the rank, the stream and the device to which the log belongs. */
export interface LogPlace {
  readonly rank: number
  readonly stream: number
  readonly address: bigint
  readonly memory: LogMemory
  /** The index of the log's device among the devices of the world. */
  readonly device: number
}
interface QueueRecord {
  readonly place: LogPlace
  readonly launched: Launched[]
  readonly taken: { readonly first: number; readonly raw: RawLog }[]
  /** The number of entries of `launched` whose events have been read from the log. */
  settled: number
}

export class Recording {
  readonly #records: QueueRecord[] = []
  readonly #waits: { readonly from: number; readonly to: number }[] = []
  readonly #traffic = new LaunchTraffic()
  /** The readings of the host clock and the device clock, indexed by device. */
  readonly #moments: Moment[][]
  readonly #ask: (device: number) => Moment

  /** The function `ask` reads the host clock and a device's clock at the same time. */
  constructor(devices: number, ask: (device: number) => Moment) {
    this.#ask = ask
    this.#moments = Array.from({ length: devices }, (_, device) => [ask(device)])
  }

  attach(place: LogPlace): void {
    this.#records.push({ place, launched: [], taken: [], settled: 0 })
  }

  #recordOf(rank: number, stream: number): QueueRecord {
    return this.#records.find(({ place }) => place.rank === rank && place.stream === stream)!
  }

  address(rank: number, stream: number): bigint {
    return this.#recordOf(rank, stream).place.address
  }

  /** Records that a host call between the times `from` and `to` enqueued a kernel. */
  launched(
    { rank, stream }: Pick<LogPlace, 'rank' | 'stream'>,
    kernel: RecordedKernel,
    given: Given | undefined,
    from: number,
    to: number,
  ): void {
    this.#recordOf(rank, stream).launched.push({ kernel, given, from, to })
  }

  waited(from: number, to: number): void {
    this.#waits.push({ from, to })
  }

  /** Reads and clears all logs. No kernel may be running while the logs are read. */
  collect(): void {
    let isNew = false
    for (const record of this.#records) {
      const count = record.launched.length - record.settled
      if (count === 0) continue
      isNew = true
      const { address, memory } = record.place
      record.taken.push({ first: record.settled, raw: takeLog(address, count, memory) })
      record.settled = record.launched.length
    }
    if (isNew) this.#moments.forEach((moments, device) => moments.push(this.#ask(device)))
  }

  /** Discards all recorded launches and clears all logs. No kernel may be running while the logs are cleared. */
  clear(): void {
    for (const record of this.#records) {
      takeLog(record.place.address, record.launched.length - record.settled, record.place.memory)
      record.launched.length = record.taken.length = record.settled = 0
    }
    this.#waits.length = 0
  }

  /**
   * Builds the timeline of the recording world. `multiprocessors` returns the number of multiprocessors of a rank. Each
   * multiprocessor gets a track.
   */
  timeline(ranks: readonly number[], target: string, multiprocessors: (rank: number) => number): Timeline {
    const builder = new TimelineBuilder()
    const [moments] = this.#moments
    const base = moments[0].device
    const onHost = (time: number): number => onDevice(moments, time, base)
    for (const number of ranks) {
      const rank = builder.rank(number)
      rank.base = base
      rank.device = target
      const host = rank.track('thread', 0, 0)
      const add = (kind: Kind, track: number, name: string, from: number, to: number): number =>
        rank.add(kind, track, builder.intern(name), Math.round(from), Math.max(0, Math.round(to - from)))
      for (const { from, to } of this.#waits)
        add(Kind.synchronize, host, 'synchronize', onHost(from), onHost(to))
      const records = this.#records.filter(({ place }) => place.rank === number)
      const logs = records.map(({ taken }) =>
        taken.map(({ first, raw }) => ({ first, logged: readLog(raw) })),
      )
      const processors = processorNumbers(logs.flat().map(({ logged }) => logged))
      let lost = 0
      records.forEach(({ place, launched }, n) => {
        const shift = this.#shift(place.device)
        const time = (stamp: bigint): number => Number(stamp - base) + shift
        const stream = rank.track('stream', number, place.stream)
        if (launched.length > 0)
          for (let leader = 0; leader < multiprocessors(number); leader++)
            rank.track('worker', number, workerTrack({ stream: place.stream, leader, role: 0 }))
        for (const { first, logged } of logs[n]) {
          lost += logged.lost
          logged.launches.forEach((times, at) => {
            const { kernel, given, from, to } = launched[first + at]
            const call = add(Kind.launch, host, recordedNames.launch(kernel.name), onHost(from), onHost(to))
            if (!times) return void lost++
            const kind = given && onlyMoves(given.ir) ? Kind.communication : Kind.kernel
            const ran = add(kind, stream, kernel.name, time(times.start), time(times.end))
            rank.linkLaunch(ran, call)
            if (given) rank.setTraffic(ran, this.#traffic.of(given, number))
          })
          const kernelOf = ({ launch }: LoggedEvent): RecordedKernel | undefined =>
            launched[first + launch]?.kernel
          addEvents(rank, logged, {
            rank: number,
            trackOf: (processor, role) =>
              rank.track(
                'worker',
                number,
                workerTrack({ stream: place.stream, leader: processors.get(processor)!, role }),
              ),
            add: (kind, track, name, { start, end }) => add(kind, track, name, time(start), time(end)),
            kernelOf,
          })
        }
      })
      if (lost > 0) {
        const last = onHost(this.#waits.at(-1)?.to ?? 0)
        const what = `${lost} events were lost because a log was full: synchronize more often while the world records`
        add(Kind.annotation, host, what, last, last)
      }
    }
    return builder.freeze()
  }

  /** The offset in nanoseconds that converts a device's times to the clock of the first device. */
  #shift(device: number): number {
    const [first, own] = [this.#moments[0], this.#moments[device]]
    if (first === own) return 0
    const differences = own.map((moment) => onDevice(first, moment.host, moment.device))
    return differences.reduce((sum, one) => sum + one, 0) / differences.length
  }
}

/** Numbers the multiprocessors from 0, keyed by the device's own numbers. */
function processorNumbers(logs: readonly Logged[]): ReadonlyMap<number, number> {
  const numbers = new Set(logs.flatMap(({ events }) => events.map(({ processor }) => processor)))
  return new Map([...numbers].sort((a, b) => a - b).map((own, number) => [own, number]))
}

interface Drawing {
  readonly rank: number
  trackOf(processor: number, role: number): number
  add(kind: Kind, track: number, name: string, event: LoggedEvent): number
  kernelOf(event: LoggedEvent): RecordedKernel | undefined
}

/** Each concurrent program of a multiprocessor has 16 track numbers, one per role. */
const ROLES = 16

function addEvents(rank: RankBuilder, { events }: Logged, drawing: Drawing): void {
  const slots = slotsOf(events)
  for (const event of events) {
    const kernel = drawing.kernelOf(event)
    const { line, flags } = kernel?.sites[event.site] ?? { line: '', flags: undefined }
    const slot = slots.get(programKey(event)) ?? 0
    const track = drawing.trackOf(event.processor, slot * ROLES + event.role)
    if (event.kind === eventKind.program)
      drawing.add(
        Kind.annotation,
        track,
        recordedNames.program(kernel?.name ?? 'program', event.program),
        event,
      )
    else if (event.kind === eventKind.wait) {
      const name = (flags !== undefined && kernel?.flags[flags]?.name) || 'a flag'
      drawing.add(
        Kind.wait,
        track,
        recordedNames.wait(name, inWorld(kernel?.members, event.who), line),
        event,
      )
    } else {
      const owner = inWorld(kernel?.members, event.who)
      if (owner === drawing.rank) continue
      const copied = drawing.add(Kind.transfer, track, recordedNames.copy(owner, line), event)
      rank.setBytes(copied, event.amount)
    }
  }
}

const programKey = ({ launch, program }: LoggedEvent): string => `${launch} ${program}`

/**
 * Assigns slot numbers, which start at 0, to programs, so that concurrent programs on one multiprocessor have different
 * numbers.
 */
function slotsOf(events: readonly LoggedEvent[]): ReadonlyMap<string, number> {
  const programs = events.filter(({ kind }) => kind === eventKind.program)
  programs.sort((a, b) => (a.start < b.start ? -1 : Number(a.start > b.start)))
  const busy = new Map<number, bigint[]>()
  const slots = new Map<string, number>()
  for (const program of programs) {
    let ends = busy.get(program.processor)
    if (!ends) busy.set(program.processor, (ends = []))
    const free = ends.findIndex((end) => end <= program.start)
    const slot = free < 0 ? ends.length : free
    ends[slot] = program.end
    slots.set(programKey(program), slot)
  }
  return slots
}
