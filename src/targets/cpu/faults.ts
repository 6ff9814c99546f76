/** Reads the workers' slots and describes what each worker is doing, for the watchdog and for messages. */
import { pendingOf, type FlagSignals, type Signallers } from '../../world/signallers.ts'
import { doing } from '../../world/stops.ts'
import type { Activity } from '../../world/watchdog.ts'
import type { StoppedWorker, SymmetricFlags } from '../../world/world.ts'
import { awaitQueue, faultCode, slot as slotOf, waitKind, workerState, type Fault } from './abi.ts'
import type { Launched, Queue, Worker } from './queue.ts'

const faults: Readonly<Record<Fault, string>> = {
  none: '',
  divisionByZero: 'divides by zero',
  badStep: 'runs a loop whose step is not positive',
  badRank: 'addresses a rank that does not exist',
  assertion: 'fails the assertion',
}

const faultText = (fault: Fault, message: string | undefined): string =>
  message === undefined ? faults[fault] : `${faults[fault]}: ${message}`

const faultOf = (code: number): Fault | undefined =>
  (Object.keys(faultCode) as Fault[]).find((name) => name !== 'none' && faultCode[name] === code)

/** Formats a row-major element number as an index per axis. */
function position(index: number, shape: readonly number[]): string {
  if (shape.length === 0) return ''
  const at: number[] = []
  let rest = index
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    at.unshift(rest % shape[axis])
    rest = Math.floor(rest / shape[axis])
  }
  return `[${at.join(', ')}]`
}

/** The words of a slot that change when its worker makes progress. */
const progressing = [
  slotOf.state,
  slotOf.wait,
  slotOf.site,
  slotOf.param,
  slotOf.owner,
  slotOf.index,
  slotOf.wanted,
  slotOf.value,
  slotOf.program,
]

/** A hash that changes when a worker starts or ends a wait or a program, except if two hashes are equal by chance. */
export function progressOf(words: Int32Array, workers: readonly Worker[]): number {
  let digest = 0
  for (const { slot } of workers)
    for (const field of progressing)
      digest = (Math.imul(digest, 0x01000193) ^ Atomics.load(words, (slot + field) >>> 2)) | 0
  return digest
}

/**
 * Workers that wait for another queue count as idle, because other workers serve that queue. If no worker of a queue
 * has started the queue's pending launch, the queue counts as computing, because the operating system has merely not
 * scheduled the worker threads yet.
 */
export function activityOf(words: Int32Array, workers: readonly Worker[]): Activity {
  let isWaiting = false
  let isLooping = false
  const notStarted = new Set<Queue>()
  for (const { queue } of workers) if (!queue.isIdle) notStarted.add(queue)
  for (const { queue, slot } of workers) {
    const read = (field: number): number => Atomics.load(words, (slot + field) >>> 2)
    if (read(slotOf.state) !== workerState.running) continue
    notStarted.delete(queue)
    if (read(slotOf.executable) === awaitQueue) continue
    const wait = read(slotOf.wait)
    if (wait === waitKind.none) return 'computing'
    if (wait === waitKind.loop) isLooping = true
    else isWaiting = true
  }
  if (notStarted.size > 0) return 'computing'
  return isWaiting && !isLooping ? 'waiting' : 'unknown'
}

/** The state of the workers, and who could signal the flags for which they wait. */
export interface Doings {
  readonly workers: readonly StoppedWorker[]
  readonly signals: readonly FlagSignals[]
}

export function doingsOf(
  words: Int32Array,
  workers: Iterable<Worker>,
  queues: readonly Queue[],
  signallers: Signallers,
): Doings {
  const awaited = new Set<SymmetricFlags>()
  const found = stoppedWorkers(words, workers, awaited)
  const pending = pendingOf(
    queues.flatMap((queue) =>
      queue.pending.map(({ kernel }) => ({ kernel, rank: queue.rank, stream: queue.stream })),
    ),
    found,
  )
  return { workers: found, signals: [...awaited].map((flags) => signallers.couldSignal(flags, pending)) }
}

/**
 * The workers that run a kernel: first those that raised a fault, then those that wait. The flag sets for which the
 * workers wait are added to `awaited`.
 */
function stoppedWorkers(
  words: Int32Array,
  workers: Iterable<Worker>,
  awaited: Set<SymmetricFlags>,
): StoppedWorker[] {
  const found: { readonly worker: StoppedWorker; readonly urgency: number }[] = []
  for (const worker of workers) {
    const { queue, slot, failure } = worker
    const read = (field: number): number => Atomics.load(words, (slot + field) >>> 2)
    const running = read(slotOf.state) === workerState.running
    const [launched] = queue.pending
    if (!launched?.executable || (!running && failure === undefined)) continue
    const fault = faultOf(read(slotOf.fault))
    const wait = read(slotOf.wait)
    const told = failure === undefined && (fault !== undefined || wait !== waitKind.none)
    const site = told ? launched.executable.lowered.sites[read(slotOf.site)] : undefined
    found.push({
      urgency: failure !== undefined || fault ? 0 : wait !== waitKind.none ? 1 : 2,
      worker: {
        rank: queue.rank,
        ...(launched.members && { members: launched.members }),
        stream: queue.stream,
        kernel: launched.kernel,
        program: read(slotOf.program),
        site: site?.toString(),
        ...(failure !== undefined
          ? { what: `failed: ${failure.split('\n')[0]}` }
          : fault
            ? { what: faultText(fault, launched.executable.lowered.messages[read(slotOf.site)]) }
            : waiting(read, wait, launched, awaited)),
      },
    })
  }
  return found.sort((a, b) => a.urgency - b.urgency).map(({ worker }) => worker)
}

function waiting(
  read: (field: number) => number,
  kind: number,
  launched: Launched,
  awaited: Set<SymmetricFlags>,
): Pick<StoppedWorker, 'what' | 'flag'> {
  switch (kind) {
    case waitKind.flag: {
      const param = launched.executable!.lowered.params[read(slotOf.param)]
      const flags = param === undefined ? undefined : launched.flags[param]
      if (flags) awaited.add(flags)
      const flag = {
        name: `${flags?.name ?? param ?? 'a flag'}${position(read(slotOf.index), flags?.shape ?? [])}`,
        rank: read(slotOf.owner),
        value: read(slotOf.value),
        wanted: read(slotOf.wanted),
      }
      return doing.waitForFlag(flag, launched.members)
    }
    case waitKind.loop:
      return doing.loop
    case waitKind.barrier:
      return doing.barrier
    case waitKind.roles:
      return doing.roles
    default:
      return doing.computing
  }
}
