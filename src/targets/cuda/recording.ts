/**
 * What a recording world remembers: launches as the host saw them, and what kernels wrote into the logs of their queues; and the
 * timeline that is made of it. On a rank each stream has a track of launches; each multiprocessor has one for each program that
 * runs on it at once, and one for each of that program's roles that recorded something; the host has one of its calls.
 *
 * Times are those of the first rank's device: exact between its ranks, which share its clock. Clocks of other devices are
 * set by it, to a microsecond or so.
 */
import { onlyMoves } from '../../ir/moves.ts'
import { TimelineBuilder, type RankBuilder } from '../../timeline/builder.ts'
import { recordedNames } from '../../timeline/recordedNames.ts'
import { Kind, type Timeline } from '../../timeline/timeline.ts'
import { workerTrack } from '../../timeline/workers.ts'
import { LaunchTraffic, type Given } from '../../world/launchTraffic.ts'
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

/** A launch, as far as its events need it. */
export interface RecordedKernel {
  readonly name: string
  /** By recorded site. */
  readonly sites: readonly { readonly line: string; readonly flags: string | undefined }[]
  /** Names of flag sets, by parameter. */
  readonly flags: Readonly<Record<string, { readonly name: string }>>
}
interface Launched {
  readonly kernel: RecordedKernel
  readonly given: Given | undefined
  /** The host's call. */
  readonly from: number
  readonly to: number
}

/** Where a log lies, and whose it is. */
export interface LogPlace {
  readonly rank: number
  readonly stream: number
  readonly address: bigint
  readonly memory: LogMemory
  /** The number of its device among the world's. */
  readonly device: number
}
interface QueueRecord {
  readonly place: LogPlace
  readonly launched: Launched[]
  readonly taken: { readonly first: number; readonly raw: RawLog }[]
  /** Of `launched`, those whose log was taken. */
  settled: number
}

export class Recording {
  readonly #records: QueueRecord[] = []
  readonly #waits: { readonly from: number; readonly to: number }[] = []
  readonly #traffic = new LaunchTraffic()
  /** By device. */
  readonly #moments: Moment[][]
  readonly #ask: (device: number) => Moment

  /** `ask` gives the present moment on a device's clock. */
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

  /** A kernel was enqueued, by a call of the host from one time to another. */
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

  /** Takes what kernels have written. None may be running. */
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

  /** Forgets everything; logs are left empty. None may be running. */
  clear(): void {
    for (const record of this.#records) {
      takeLog(record.place.address, record.launched.length - record.settled, record.place.memory)
      record.launched.length = record.taken.length = record.settled = 0
    }
    this.#waits.length = 0
  }

  /** `multiprocessors` of each rank: all of them have a track. */
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
            trackOf: (sm, role) =>
              rank.track(
                'worker',
                number,
                workerTrack({ stream: place.stream, leader: processors.get(sm)!, role }),
              ),
            add: (kind, track, name, { start, end }) => add(kind, track, name, time(start), time(end)),
            kernelOf,
          })
        }
      })
      if (lost > 0) {
        const last = onHost(this.#waits.at(-1)?.to ?? 0)
        const what = `${lost} events were lost: synchronize more often while the world records`
        add(Kind.annotation, host, what, last, last)
      }
    }
    return builder.freeze()
  }

  /** What to add to times of a device to have them on the first one's clock. */
  #shift(device: number): number {
    const [first, own] = [this.#moments[0], this.#moments[device]]
    if (first === own) return 0
    const differences = own.map((moment) => onDevice(first, moment.host, moment.device))
    return differences.reduce((sum, one) => sum + one, 0) / differences.length
  }
}

/** Multiprocessors by the device's numbers for them, counted from 0. */
function processorNumbers(logs: readonly Logged[]): ReadonlyMap<number, number> {
  const numbers = new Set(logs.flatMap(({ events }) => events.map(({ sm }) => sm)))
  return new Map([...numbers].sort((a, b) => a - b).map((sm, number) => [sm, number]))
}

interface Drawing {
  readonly rank: number
  trackOf(sm: number, role: number): number
  add(kind: Kind, track: number, name: string, event: LoggedEvent): number
  kernelOf(event: LoggedEvent): RecordedKernel | undefined
}

/** Roles of a program that can be told apart, of the programs that run at once on a multiprocessor. */
const ROLES = 16

function addEvents(rank: RankBuilder, { events }: Logged, drawing: Drawing): void {
  const slots = slotsOf(events)
  for (const event of events) {
    const kernel = drawing.kernelOf(event)
    const { line, flags } = kernel?.sites[event.site] ?? { line: '', flags: undefined }
    const slot = slots.get(programKey(event)) ?? 0
    const track = drawing.trackOf(event.sm, slot * ROLES + event.role)
    if (event.kind === eventKind.program)
      drawing.add(
        Kind.annotation,
        track,
        recordedNames.program(kernel?.name ?? 'program', event.program),
        event,
      )
    else if (event.kind === eventKind.wait) {
      const name = (flags !== undefined && kernel?.flags[flags]?.name) || 'a flag'
      drawing.add(Kind.wait, track, recordedNames.wait(name, event.who, line), event)
    } else if (event.who !== drawing.rank) {
      const copied = drawing.add(Kind.transfer, track, recordedNames.copy(event.who, line), event)
      rank.setBytes(copied, event.amount)
    }
  }
}

const programKey = ({ launch, program }: LoggedEvent): string => `${launch} ${program}`

/** Programs that run at once on a multiprocessor have different numbers, from 0. */
function slotsOf(events: readonly LoggedEvent[]): ReadonlyMap<string, number> {
  const programs = events.filter(({ kind }) => kind === eventKind.program)
  programs.sort((a, b) => (a.start < b.start ? -1 : Number(a.start > b.start)))
  const busy = new Map<number, bigint[]>()
  const slots = new Map<string, number>()
  for (const program of programs) {
    let ends = busy.get(program.sm)
    if (!ends) busy.set(program.sm, (ends = []))
    const free = ends.findIndex((end) => end <= program.start)
    const slot = free < 0 ? ends.length : free
    ends[slot] = program.end
    slots.set(programKey(program), slot)
  }
  return slots
}
