/**
 * Defines the event log of a queue: kernels of a recording world write the event log in device memory, and the host
 * reads it. Contract: kernels write the event log while they run, and the host reads and clears the event log while no
 * kernel runs. All words of the log are little-endian. The launches since the log was cleared are numbered from 0. A
 * kernel reads its launch number from the log, and the last program of the launch increments that number. Each replay
 * of a graph therefore gets new launch numbers. If the log is full, additional events do not corrupt other entries.
 */

/** The maximum number of launches and events that a log can hold until the host reads it. */
export const mostLaunches = 1 << 12
export const mostEvents = 1 << 16
/** The number of log entries that a thread reserves at once. */
export const eventsAClaim = 8

/**
 * Byte offsets of the fields in the header of the log. The word `claimed` counts reserved entries, including entries
 * beyond the end of the log. The word `lost` counts events that found no entry.
 */
const head = { launches: 0, claimed: 4, lost: 8, bytes: 64 } as const
/**
 * Byte offsets of the fields in a launch's record in the log. The field `start` holds the bitwise complement of the
 * first start time, and `end` holds the last end time, so that a kernel can compute both as maxima with the initial
 * value 0.
 */
const times = { start: 0, end: 8, programs: 16, bytes: 32 } as const
const event = {
  start: 0,
  end: 8,
  launch: 16,
  what: 20,
  who: 24,
  amount: 28,
  program: 32,
  processor: 36,
  bytes: 48,
} as const

const eventsOffset = head.bytes + mostLaunches * times.bytes
export const logBytes = eventsOffset + mostEvents * event.bytes

/**
 * The kind of an event, in the low bits of `what`. The higher bits of `what` contain the role that wrote the event and
 * the number of the recorded source location.
 */
export const eventKind = { program: 1, wait: 2, copy: 3 } as const
const KINDS = 4
const ROLES = 16
export const whatOf = (kind: number, role: number, site: number): number =>
  kind + KINDS * (Math.min(role, ROLES - 1) + ROLES * site)

export interface LoggedEvent {
  readonly kind: number
  readonly role: number
  readonly site: number
  /** The number of the launch, counted from 0 since the log was cleared. */
  readonly launch: number
  readonly program: number
  /** The device's own number of the multiprocessor that wrote the event. */
  readonly processor: number
  /** The start and the end of the event in nanoseconds on the device's clock. */
  readonly start: bigint
  readonly end: bigint
  /** The rank that owns the flag (for a wait) or the memory (for a copy). */
  readonly who: number
  /** The number of bytes of a copy. */
  readonly amount: number
}

export interface Logged {
  /** The recorded launches by launch number; an entry is undefined if no program of the launch has ended. */
  readonly launches: readonly ({ readonly start: bigint; readonly end: bigint } | undefined)[]
  readonly events: readonly LoggedEvent[]
  readonly lost: number
}

/** The functions with which the host reads and clears the device memory of a log. */
export interface LogMemory {
  read(address: bigint, bytes: number): Uint8Array<ArrayBuffer>
  clear(address: bigint, bytes: number): void
}

/** The raw bytes of a log. The function `readLog` decodes the raw bytes when a timeline is requested. */
export interface RawLog {
  /** The number of launches that were enqueued since the log was cleared. */
  readonly launched: number
  readonly times: Uint8Array
  readonly events: Uint8Array
  readonly lost: number
}

/** Reads a log from device memory and clears it. */
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
    // An entry with `what` = 0 was reserved in the event log but not written.
    if (what === 0) continue
    events.push({
      kind: what % KINDS,
      role: Math.floor(what / KINDS) % ROLES,
      site: Math.floor(what / KINDS / ROLES),
      launch: view.getUint32(event.launch, true),
      program: view.getUint32(event.program, true),
      processor: view.getUint32(event.processor, true),
      start: view.getBigUint64(event.start, true),
      end: view.getBigUint64(event.end, true),
      who: view.getInt32(event.who, true),
      amount: view.getUint32(event.amount, true),
    })
  }
  return { launches, events, lost: raw.lost }
}

const viewOf = (bytes: Uint8Array, at: number): DataView => new DataView(bytes.buffer, bytes.byteOffset + at)
