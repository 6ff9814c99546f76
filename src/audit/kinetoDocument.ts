/**
 * Builds one rank from the events of a Kineto document and links them. Device work is linked to the host call that
 * enqueued it by correlation id. Host calls and device work are linked to their operator by external id. If the
 * external id is unusable, a host call or device work is linked to the innermost operator that was running on the
 * calling thread.
 */
import { RankBuilder, type TimelineBuilder } from '../timeline/builder.ts'
import { calledEvent, type Communication, isDeviceWork, isInReach, Kind, NONE } from '../timeline/timeline.ts'
import { collectiveOf, communicationLibrary } from './communication.ts'
import { hostCallKind } from './hostCalls.ts'
import { Identifiers } from './identifiers.ts'
import { IntegerMap } from './integerMap.ts'
import type { TraceEvent } from './json/event.ts'
import { NumberField, TextField } from './json/fields.ts'
import type { TraceMetadata } from './json/scanner.ts'
import type { ByteStrings } from './json/strings.ts'
import { OperandRecords } from './operands.ts'
import { isCall, linkRunningOperators } from './operators.ts'
import type { WarningClass, Warnings } from '../timeline/warnings.ts'

type Role =
  'kernel' | 'memcpy' | 'memset' | 'wait' | 'call' | 'operator' | 'annotation' | 'device annotation' | 'frame'

/**
 * The minimum duration of a Python function call (frame), in nanoseconds. Shorter Python frames are left out. A trace
 * with stacks has far more frames than kernels, and only long frames explain why a device is idle.
 */
export const SHORTEST_FRAME = 500_000

/**
 * For each event category: the role that its events have in the timeline. The capitalised categories are from traces of
 * 2021.
 */
const roles: Readonly<Record<string, Role>> = {
  kernel: 'kernel',
  Kernel: 'kernel',
  concurrent_kernel: 'kernel',
  gpu_memcpy: 'memcpy',
  Memcpy: 'memcpy',
  gpu_memset: 'memset',
  Memset: 'memset',
  cuda_sync: 'wait',
  cuda_runtime: 'call',
  cuda_driver: 'call',
  hip_runtime: 'call',
  hip_driver: 'call',
  hip_api: 'call',
  runtime: 'call',
  Runtime: 'call',
  privateuse1_runtime: 'call',
  privateuse1_driver: 'call',
  cpu_op: 'operator',
  Operator: 'operator',
  user_annotation: 'annotation',
  gpu_user_annotation: 'device annotation',
  python_function: 'frame',
}

export const roleOf = (category: string): Role | undefined =>
  Object.hasOwn(roles, category) ? roles[category] : undefined

const step = /^ProfilerStep\s?#\s?\d+/

export class KinetoDocument {
  private readonly rank = new RankBuilder()
  private readonly timeline: TimelineBuilder
  private readonly strings: ByteStrings
  private readonly warnings: Warnings
  /** Kernels whose names match this regular expression also count as communication. */
  private readonly named: RegExp | null
  /**
   * Caches keyed by string id: the name's id in the timeline, the library of a kernel, the kind of a call, and whether
   * the name is that of a step.
   */
  private readonly names: number[] = []
  private readonly libraries: (string | null | undefined)[] = []
  private readonly calls: (Kind | undefined)[] = []
  private readonly steps: (boolean | undefined)[] = []
  private readonly roles: (Role | undefined)[] = []
  private readonly communications = new Map<string, number>()
  private readonly operands: OperandRecords
  /** For each event: the id that links it to a host call or to an operator, or NaN if the event has no such id. */
  private readonly correlations = new Identifiers()
  private readonly externalIds = new Identifiers()
  /** The time in the trace, in microseconds, that becomes time 0 of the rank's timeline. */
  private origin = NaN

  constructor(
    timeline: TimelineBuilder,
    strings: ByteStrings,
    warnings: Warnings,
    named: RegExp | null = null,
  ) {
    this.named = named
    this.timeline = timeline
    this.strings = strings
    this.warnings = warnings
    this.operands = new OperandRecords(this.rank, warnings)
  }

  add(event: TraceEvent): void {
    const role = (this.roles[event.category] ??= roleOf(this.strings.text(event.category)))
    if (role === undefined) return
    const name = event.name < 0 ? '' : this.strings.text(event.name)
    if (!event.timed) return this.warn('time', role, name, 'has no readable time; left out')
    if (Number.isNaN(this.origin)) this.origin = event.time.whole
    const start = (event.time.whole - this.origin) * 1000 + event.time.nanoseconds
    let duration = event.duration
    if (Number.isNaN(duration)) {
      this.warn('time', role, name, 'has no readable duration; treated as 0')
      duration = 0
    }
    if (duration < 0) {
      this.warn('negative-duration', role, name, 'has a negative duration; treated as 0')
      duration = 0
    }
    if (!isInReach(start, duration))
      return this.warn('time', role, name, 'is more than 26 days from the first event; left out')
    if (role === 'frame' && duration < SHORTEST_FRAME) return
    const kind = this.kind(role, event, name)
    const id =
      event.name < 0 ? this.timeline.intern('') : (this.names[event.name] ??= this.timeline.intern(name))
    const added = this.rank.add(kind, this.track(role, event), id, start, duration)
    const { numbers } = event
    this.correlations.push(numbers[NumberField.correlation])
    this.externalIds.push(numbers[NumberField.externalId])
    if (numbers[NumberField.bytes] > 0) this.rank.setBytes(added, numbers[NumberField.bytes])
    if (kind === Kind.communication) this.describe(added, event, name)
    if (kind === Kind.operator) this.operands.set(added, event)
  }

  /** Links the events. After a call of `finish`, no event can be added. */
  finish(metadata: TraceMetadata): RankBuilder {
    const origin = Number.isNaN(this.origin) ? 0n : BigInt(this.origin) * 1000n
    this.rank.base = (metadata.baseTimeNanoseconds ?? 0n) + origin
    const alone = this.link()
    this.correlations.clear()
    this.externalIds.clear()
    linkRunningOperators(this.rank, alone)
    return this.rank
  }

  private warn(kind: WarningClass, role: Role, name: string, what: string): void {
    this.warnings.add(kind, () =>
      name.trim() === '' ? `a ${role} without a name ${what}` : `${role} ${calledEvent(name)} ${what}`,
    )
  }

  private kind(role: Role, event: TraceEvent, name: string): Kind {
    switch (role) {
      case 'kernel': {
        const told = event.texts[TextField.collective] >= 0
        return this.library(event.name, name) !== null || told ? Kind.communication : Kind.kernel
      }
      case 'memcpy':
        return Kind.memcpy
      case 'memset':
        return Kind.memset
      case 'wait':
        return Kind.wait
      case 'call':
        return (this.calls[event.name] ??= hostCallKind(name))
      case 'operator':
        return this.isStep(event, name) ? Kind.step : Kind.operator
      case 'annotation':
      case 'device annotation':
        return this.isStep(event, name) ? Kind.step : Kind.annotation
      case 'frame':
        return Kind.frame
      default:
        return role satisfies never
    }
  }

  /**
   * The library of a communication kernel, or null. A null result is cached too, so that each kernel name is classified
   * only once.
   */
  private library(id: number, name: string): string | null {
    const known = this.libraries[id]
    return known === undefined ? (this.libraries[id] = communicationLibrary(name, this.named)) : known
  }

  private isStep(event: TraceEvent, name: string): boolean {
    return event.name >= 0 && (this.steps[event.name] ??= step.test(name))
  }

  private track(role: Role, event: TraceEvent): number {
    const { process, thread, numbers } = event
    if (role === 'call' || role === 'operator' || role === 'annotation' || role === 'frame')
      return this.rank.track('thread', orNone(process), orNone(thread))
    const device = numbers[NumberField.device]
    const stream = numbers[NumberField.stream]
    return this.rank.track(
      role === 'device annotation' ? 'annotations' : 'stream',
      orNone(Number.isNaN(device) ? process : device),
      orNone(Number.isNaN(stream) ? thread : stream),
    )
  }

  private describe(added: number, event: TraceEvent, kernel: string): void {
    const { numbers, texts } = event
    // Most collective calls repeat an earlier call in everything except the sequence number, so they share one record.
    let key = `${event.name}`
    for (let i = 0; i < texts.length; i++) key += ` ${texts[i]}`
    for (let i: number = NumberField.groupSize; i < numbers.length; i++)
      if (i !== NumberField.sequence) key += ` ${numbers[i]}`
    let communication = this.communications.get(key)
    if (communication === undefined) {
      communication = this.rank.communication(this.communication(event, kernel))
      this.communications.set(key, communication)
    }
    const sequence = numbers[NumberField.sequence]
    const fits = sequence >= 0 && sequence < 2 ** 31
    this.rank.setCommunication(added, communication, fits ? sequence : NONE)
  }

  private communication(event: TraceEvent, kernel: string): Communication {
    const { numbers } = event
    const collective = this.text(event, TextField.collective)
    return {
      collective: (collective === null ? null : collectiveOf(collective)) ?? collectiveOf(kernel),
      library: this.libraries[event.name] ?? null,
      group: this.text(event, TextField.group),
      groupDescription: this.text(event, TextField.groupDescription),
      groupRanks: ranksOf(this.text(event, TextField.groupRanks)),
      groupSize: orNull(numbers[NumberField.groupSize]),
      communicator: this.text(event, TextField.communicator),
      dtype: this.text(event, TextField.dtype),
      elementsIn: orNull(numbers[NumberField.elementsIn]),
      elementsOut: orNull(numbers[NumberField.elementsOut]),
      source: orNull(numbers[NumberField.source]),
      destination: orNull(numbers[NumberField.destination]),
    }
  }

  private text({ texts }: TraceEvent, field: number): string | null {
    return texts[field] < 0 ? null : this.strings.text(texts[field])
  }

  /** Links events by their ids. Returns true if some host calls are left without an operator. */
  private link(): boolean {
    const { rank } = this
    const calls = new IntegerMap()
    const operators = new IntegerMap()
    for (let event = 0; event < rank.length; event++) {
      const kind = rank.kind(event)
      const correlation = this.correlations.get(event)
      const externalId = this.externalIds.get(event)
      if (isCall(kind) && correlation > 0) {
        const known = calls.get(correlation)
        if (known === NONE || (rank.kind(known) !== Kind.launch && kind === Kind.launch))
          calls.set(correlation, event)
        else if (kind === Kind.launch)
          this.warnings.add(
            'duplicate-correlation',
            () => `two launches have the correlation id ${correlation}; the first one is used`,
          )
      } else if (kind === Kind.operator && externalId >= 0 && operators.get(externalId) === NONE)
        operators.set(externalId, event)
    }

    let alone = false
    for (let event = 0; event < rank.length; event++) {
      if (!isCall(rank.kind(event))) continue
      const operator = this.operator(event, event, operators)
      if (operator !== NONE) rank.linkOperator(event, operator)
      else alone = true
    }
    let missing = 0
    for (let event = 0; event < rank.length; event++) {
      if (!isDeviceWork(rank.kind(event)) && rank.kind(event) !== Kind.wait) continue
      const correlation = this.correlations.get(event)
      const call = correlation > 0 ? calls.get(correlation) : NONE
      if (call !== NONE) rank.linkLaunch(event, call)
      else if (rank.kind(event) !== Kind.wait) missing++
      const operator = this.operator(event, call, operators)
      if (operator !== NONE) rank.linkOperator(event, operator)
    }
    calls.clear()
    operators.clear()
    if (missing > 0)
      this.warnings.add('correlation', () => 'device work without the host call that enqueued it', missing)
    return alone
  }

  /**
   * Returns the operator whose external id equals the external id of an event. Some traces contain the correlation id
   * in the field of the external id, which then names no operator, or by chance a wrong operator. If an event's
   * external id equals its correlation id, the operator is returned only if it was running when the call was made.
   */
  private operator(event: number, call: number, operators: IntegerMap): number {
    const { rank } = this
    const externalId = this.externalIds.get(event)
    const operator = externalId >= 0 ? operators.get(externalId) : NONE
    if (operator === NONE || externalId !== this.correlations.get(event)) return operator
    const running =
      call !== NONE &&
      rank.trackIndex(operator) === rank.trackIndex(call) &&
      rank.start(operator) <= rank.start(call) &&
      rank.start(call) <= rank.end(operator)
    return running ? operator : NONE
  }
}

/**
 * The number of a device, stream, process or thread, or `NONE` if the field is not an integer, as in a damaged trace.
 */
const orNone = (number: number): number => (Number.isSafeInteger(number) ? number : NONE)
const orNull = (value: number): number | null => (Number.isNaN(value) ? null : value)

/** Parses a list of ranks such as `[0, 1]`, and returns null if the list is abbreviated or unreadable. */
function ranksOf(text: string | null): number[] | null {
  if (text === null) return null
  const found = /^\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]$/.exec(text)
  return found ? found[1].split(',').map(Number) : null
}
