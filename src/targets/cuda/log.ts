/**
 * The log of a queue: what its kernels write down where the world records, in device memory, and how the host reads it. Contract:
 * kernels write while they run, the host reads and clears it while none does; words are little-endian. Launches are numbered
 * from 0 since the log was cleared: a kernel reads how many have ended, which is its own number, and its last program adds one.
 * So a graph can be replayed, and what did not fit makes nothing else wrong.
 */

/** Launches and events between two looks of the host. */
export const mostLaunches = 1 << 12
export const mostEvents = 1 << 16
/** Events whose places a thread takes at once. */
export const eventsAClaim = 8

/** Offsets. `claimed` counts places that were taken, also those that are not there; `lost` the events that found none. */
const head = { launches: 0, claimed: 4, lost: 8, bytes: 64 } as const
/** Of a launch: the complement of the first start, and the last end; zeros are a beginning for both. */
const times = { start: 0, end: 8, programs: 16, bytes: 32 } as const
const event = {
  start: 0,
  end: 8,
  launch: 16,
  what: 20,
  who: 24,
  amount: 28,
  program: 32,
  sm: 36,
  bytes: 48,
} as const

const eventsOffset = head.bytes + mostLaunches * times.bytes
export const logBytes = eventsOffset + mostEvents * event.bytes

/** What an event is: its low bits; above them the role that wrote it, and the number of a recorded site. */
export const eventKind = { program: 1, wait: 2, copy: 3 } as const
const KINDS = 4
const ROLES = 16
export const whatOf = (kind: number, role: number, site: number): number =>
  kind + KINDS * (Math.min(role, ROLES - 1) + ROLES * site)

/** The same, as the device knows it. */
export const LOG_TYPES = `struct LaunchTimes { u64 start_complement, end; u32 programs, unused[3]; };
struct alignas(16) Event { u64 start, end; u32 launch, what; i32 who; u32 amount, program, multiprocessor, unused[2]; };
struct Log { u32 launches, claimed, lost, unused[13]; LaunchTimes times[${mostLaunches}]; Event events[${mostEvents}]; };
`

export interface LoggedEvent {
  readonly kind: number
  readonly role: number
  readonly site: number
  /** Of the launches since the log was cleared. */
  readonly launch: number
  readonly program: number
  readonly sm: number
  /** Nanoseconds of the device's clock. */
  readonly start: bigint
  readonly end: bigint
  /** Of a wait or a copy: the owner's rank. */
  readonly who: number
  /** Of a copy: bytes. */
  readonly amount: number
}

export interface Logged {
  /** By launch; undefined where no program has ended. */
  readonly launches: readonly ({ readonly start: bigint; readonly end: bigint } | undefined)[]
  readonly events: readonly LoggedEvent[]
  readonly lost: number
}

/** How memory is read and cleared. */
export interface LogMemory {
  read(address: bigint, bytes: number): Uint8Array<ArrayBuffer>
  clear(address: bigint, bytes: number): void
}

/** A log as it was written, to be understood when somebody wants to know. */
export interface RawLog {
  /** How many launches were put into the queue since the log was cleared. */
  readonly launched: number
  readonly times: Uint8Array
  readonly events: Uint8Array
  readonly lost: number
}

/** Takes all that is in a log, and leaves it empty. */
export function takeLog(address: bigint, launched: number, memory: LogMemory): RawLog {
  const words = new DataView(memory.read(address, head.bytes).buffer)
  const count = Math.min(words.getUint32(head.claimed, true), mostEvents)
  const timed = Math.min(launched, mostLaunches)
  const raw = {
    launched,
    times: memory.read(address + BigInt(head.bytes), timed * times.bytes),
    events: memory.read(address + BigInt(eventsOffset), count * event.bytes),
    lost: words.getUint32(head.lost, true),
  }
  memory.clear(address, head.bytes + timed * times.bytes)
  memory.clear(address + BigInt(eventsOffset), count * event.bytes)
  return raw
}

export function readLog(raw: RawLog): Logged {
  const launches = Array.from({ length: raw.launched }, (_, n) => {
    if ((n + 1) * times.bytes > raw.times.length) return undefined
    const view = viewOf(raw.times, n * times.bytes)
    if (view.getUint32(times.programs, true) === 0) return undefined
    const start = BigInt.asUintN(64, ~view.getBigUint64(times.start, true))
    return { start, end: view.getBigUint64(times.end, true) }
  })
  const events: LoggedEvent[] = []
  for (let at = 0; at < raw.events.length; at += event.bytes) {
    const view = viewOf(raw.events, at)
    const what = view.getUint32(event.what, true)
    // A place that was taken and not used.
    if (what === 0) continue
    events.push({
      kind: what % KINDS,
      role: Math.floor(what / KINDS) % ROLES,
      site: Math.floor(what / KINDS / ROLES),
      launch: view.getUint32(event.launch, true),
      program: view.getUint32(event.program, true),
      sm: view.getUint32(event.sm, true),
      start: view.getBigUint64(event.start, true),
      end: view.getBigUint64(event.end, true),
      who: view.getInt32(event.who, true),
      amount: view.getUint32(event.amount, true),
    })
  }
  return { launches, events, lost: raw.lost }
}

const viewOf = (bytes: Uint8Array, at: number): DataView => new DataView(bytes.buffer, bytes.byteOffset + at)
