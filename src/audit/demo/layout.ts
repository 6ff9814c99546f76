/**
 * Computes when each event of a generated job takes place, and links the events: device work, host calls, operators and
 * steps, all on one clock. `layOut` throws an error if the job description is impossible or ambiguous. For example, a
 * launch for which there is no time, or an idle interval with two possible reasons, is an error. Job descriptions are
 * part of this code base, not user input.
 */
import type { Laid, LaidCollective, LaidEvent, LaidRank, Span, SpanWork } from './laid.ts'
import type { AnyWork, Idle, Job, Operator } from './workload.ts'
import { type HostActivity, ofRank, operatorOf } from './workload.ts'

/** The names that a data loader and the program's own Python code have in a trace. */
export const LOADER = 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__'
export const FRAME = 'train.py(42): prepare'

export function layOut(job: Job): Laid {
  const ranks = Array.from({ length: job.ranks }, (_, rank) => new RankLayout(rank, job))
  const collectives: LaidCollective[] = []
  const sequences = job.groups.map(() => 0)
  for (const [step, phases] of job.steps.entries()) {
    for (const rank of ranks) rank.beginStep()
    for (const phase of phases) {
      if (phase.phase === 'idle') {
        for (const rank of ranks) rank.idle(phase)
        continue
      }
      const works: readonly AnyWork[] = phase.phase === 'work' ? [phase.work] : phase.works
      const only = phase.phase === 'work' ? phase.ranks : undefined
      const takes = (rank: number): boolean =>
        (only?.includes(rank) ?? true) &&
        works.every((work) => work.kind !== 'collective' || job.groups[work.group].ranks.includes(rank))
      // Compute the arrival of every rank first, since the end of a collective depends on all arrivals.
      const numbers = works.map((work) => {
        if (work.kind !== 'collective') return -1
        const group = job.groups[work.group]
        const starts = group.ranks.map((rank) => ranks[rank].nextStart() + ofRank(work.offset ?? 0, rank))
        const end = Math.max(...starts) + work.transfer
        collectives.push({ work, group, sequence: sequences[work.group]++, starts, end })
        return collectives.length - 1
      })
      for (const rank of ranks)
        if (takes(rank.rank))
          rank.place(
            works,
            numbers,
            numbers.map((one) => (one < 0 ? NaN : collectives[one].end)),
          )
    }
    if (ranks.some((rank) => rank.isIdle())) throw new Error(`step ${step} ends in an idle phase`)
  }
  return { job, ranks: ranks.map((rank) => rank.finish()), collectives }
}

class RankLayout {
  readonly rank: number
  private pending: Idle[] = []
  private readonly unit: number
  private readonly cost: number
  private readonly events: LaidEvent[] = []
  private readonly spans: Span[] = []
  private readonly steps: { host: number; device: number }[] = []
  private readonly firstStep: number
  /** The time at which the device has finished all work. No host thread is occupied after this time. */
  private device = 0
  private started = false
  /** The stream whose work ended last, or NaN if two streams ended at the same time. */
  private lastStream = 0
  /** For each host thread: the time until which the thread is occupied. */
  private readonly taken = [0, 0]
  /**
   * The number of stream-wait calls so far; and, for each stream, the number of stream-wait calls before its last
   * launch.
   */
  private waits = 0
  private readonly waitsBefore = new Map<number, number>()
  private correlation: number
  private externalId = 1

  constructor(rank: number, job: Job) {
    this.rank = rank
    this.unit = job.unit ?? 1
    this.cost = job.hostCost ?? 8000
    this.correlation = 1000 * (rank + 1)
    this.firstStep = job.firstStep ?? 1
  }

  beginStep(): void {
    this.steps.push({ host: this.device, device: NaN })
  }

  idle(phase: Idle): void {
    this.pending.push(phase)
  }

  private host(): [HostActivity, number][] {
    return this.pending.flatMap(({ host = [] }) =>
      host
        .map(([activity, duration]): [HostActivity, number] => [activity, ofRank(duration, this.rank)])
        .filter(([, duration]) => duration > 0),
    )
  }

  private hole(): readonly ['gap' | 'dependency', number, recorded: boolean] | undefined {
    const holes = this.pending.flatMap(({ device, recorded = true }) => {
      const duration = device ? ofRank(device[1], this.rank) : 0
      return device && duration > 0 ? [[device[0], duration, recorded] as const] : []
    })
    if (holes.length > 1) throw new Error('at most one idle interval of the device can precede device work')
    return holes[0]
  }

  /** The start time of the next device work. */
  nextStart(): number {
    return this.host().reduce((sum, [, duration]) => sum + duration, this.device) + (this.hole()?.[1] ?? 0)
  }

  /** True if an idle phase is still open because no later work has ended it. */
  isIdle(): boolean {
    return this.nextStart() > this.device
  }

  place(works: readonly AnyWork[], collectives: readonly number[], ends: readonly number[]): void {
    const [host, hole, idleFrom, start] = [this.host(), this.hole(), this.device, this.nextStart()]
    const launched = start - (hole?.[1] ?? 0)
    this.pending = []
    const step = this.steps[this.steps.length - 1]
    if (Number.isNaN(step.device)) {
      if (host.length === 0) throw new Error('a step must begin with an idle phase that has host activity')
      step.device = start
    }
    const placed: SpanWork[] = []
    works.forEach((work, i) => {
      const from = start + ofRank(work.offset ?? 0, this.rank)
      const first = i === 0
      if (first && from !== start)
        throw new Error('the first work of a phase with several works must not have an offset')
      const operator = operatorOf(work.operator ?? { name: 'aten::op' }, this.rank)
      const stream = work.stream ?? 0
      const thread = work.thread ?? 0
      if (!first && placed.every(({ to }) => to < from))
        throw new Error('the kernels and copies of one phase must not leave the device idle between them')
      let link: { correlation: number; externalId: number }
      const waiting = first && hole?.[0] === 'dependency' ? hole : undefined
      if (
        first &&
        hole?.[0] === 'gap' &&
        stream !== this.lastStream &&
        this.waits > (this.waitsBefore.get(stream) ?? 0)
      )
        throw new Error('a gap after a stream-wait call would be recorded as a dependency')
      if (waiting && !waiting[2] && stream === this.lastStream)
        throw new Error('a wait that is not recorded is visible only if the next work is on another stream')
      if (first && host.length > 0) link = this.hostBound(host, idleFrom, thread, work, operator, waiting)
      else link = this.ahead(first ? idleFrom : from, thread, work, operator, waiting)
      if (waiting?.[2])
        this.events.push({
          role: 'wait',
          name: 'Stream Wait Event',
          start: launched,
          duration: waiting[1],
          track: stream,
          correlation: link.correlation,
        })
      placed.push(...this.run(work, from, collectives[i], ends[i], stream, link))
      this.waitsBefore.set(stream, this.waits)
    })
    if (this.started && hole) this.spans.push({ part: hole[0], from: launched, to: start })
    this.started = true
    this.busy(placed)
    const last = placed.reduce((a, b) => (b.to > a.to ? b : a))
    this.device = last.to
    const tied = placed.some((one) => one !== last && one.to === last.to)
    this.lastStream = tied ? NaN : (works[works.length === 1 ? 0 : placed.indexOf(last)].stream ?? 0)
  }

  /**
   * Adds the busy spans. If several kernels or copies run one after the other, as in a CUDA graph, each becomes one
   * span, with gaps between the spans.
   */
  private busy(works: readonly SpanWork[]): void {
    let group: SpanWork[] = []
    let until = works[0].from
    const close = (): void => {
      this.spans.push({ part: 'busy', from: group[0].from, to: until, works: group })
    }
    for (const work of works) {
      if (work.from >= until && group.length > 0) {
        close()
        if (work.from > until) this.spans.push({ part: 'gap', from: until, to: work.from })
        group = []
      }
      group.push(work)
      until = Math.max(until, work.to)
    }
    close()
  }

  private run(
    work: AnyWork,
    from: number,
    collective: number,
    end: number,
    track: number,
    link: { correlation: number; externalId: number },
  ): SpanWork[] {
    switch (work.kind) {
      case 'graph':
        return work.kernels.map(({ name, duration, gap = 0 }, i) => {
          const start = from + (i === 0 ? 0 : ofRank(gap, this.rank))
          const length = ofRank(duration, this.rank)
          from = start + length
          this.events.push({ role: 'kernel', name, start, duration: length, track, ...link })
          return { kind: 'compute', from: start, to: from }
        })
      case 'collective':
        this.events.push({
          role: 'kernel',
          name: work.collective,
          start: from,
          duration: end - from,
          track,
          collective,
          ...link,
        })
        return [{ kind: 'collective', from, to: end, collective }]
      case 'kernel':
      case 'fill':
      case 'copy': {
        const { kind, name, bytes } = work
        const duration = ofRank(work.duration, this.rank)
        this.events.push({ role: kind, name, start: from, duration, track, bytes, ...link })
        return [{ kind: kind === 'copy' ? 'copy' : 'compute', from, to: from + duration }]
      }
      default:
        return work satisfies never
    }
  }

  /**
   * Lays out host activity that starts at `from` while the device is idle. The last host activity launches the next
   * device work.
   */
  private hostBound(
    host: readonly (readonly [HostActivity, number])[],
    from: number,
    thread: number,
    work: AnyWork,
    operator: Operator,
    waiting: unknown,
  ): { correlation: number; externalId: number } {
    const { unit } = this
    if (host[host.length - 1][0] !== 'operator')
      throw new Error('the last host activity must be an operator, which launches the next work')
    let at = from
    for (const [i, [activity, duration]] of host.entries()) {
      const to = at + duration
      if (i === host.length - 1) {
        this.idleSpan('dispatch', at, to)
        return this.enqueue(at, to, to, thread, work, operator, waiting)
      }
      switch (activity) {
        case 'operator':
          this.hostEvent('operator', 'aten::empty', at, duration, thread, this.externalId++)
          this.idleSpan('dispatch', at, to)
          break
        case 'call':
          this.hostEvent('call', 'cudaFuncSetAttribute', at, duration, thread)
          this.idleSpan('dispatch', at, to)
          break
        case 'synchronize': {
          // The synchronisation call begins as soon as all host threads are free, perhaps long before the device is
          // idle.
          const begin = i === 0 ? Math.max(...this.taken) : at
          this.hostEvent('call', 'cudaDeviceSynchronize', begin, to - begin, thread)
          this.idleSpan('hostBlocked', at, to)
          break
        }
        case 'item': {
          if (duration < 3 * unit) throw new Error('aten::item needs at least three time units')
          const id = this.externalId++
          this.hostEvent('operator', 'aten::item', at, duration, thread, id)
          this.hostEvent('call', 'cudaStreamSynchronize', at + unit, duration - 2 * unit, thread, id)
          this.idleSpan('dispatch', at, at + unit)
          this.idleSpan('hostBlocked', at + unit, to - unit)
          this.idleSpan('dispatch', to - unit, to)
          break
        }
        case 'absent':
          this.idleSpan('hostAbsent', at, to)
          break
        case 'loading':
          this.hostEvent('annotation', LOADER, at, duration, thread)
          this.idleSpan('hostAbsent', at, to)
          break
        case 'python':
          this.hostEvent('frame', FRAME, at, duration, thread)
          this.idleSpan('hostAbsent', at, to)
          break
        case 'allocate': {
          const id = this.externalId++
          this.hostEvent('operator', 'aten::empty', at, duration, thread, id)
          this.hostEvent('call', 'cudaMalloc', at, duration, thread, id)
          this.idleSpan('dispatch', at, to)
          break
        }
        default:
          activity satisfies never
      }
      at = to
    }
    throw new Error('unreachable')
  }

  /** Enqueues the work at `deadline` at the latest. The device is busy with earlier work until `deadline`. */
  private ahead(
    deadline: number,
    thread: number,
    work: AnyWork,
    operator: Operator,
    waiting: unknown,
  ): { correlation: number; externalId: number } {
    // The host begins to enqueue the work when no thread is occupied with earlier work.
    const from = Math.max(...this.taken)
    const to = from + Math.min(deadline - from, Math.ceil(this.cost / this.unit) * this.unit)
    return this.enqueue(from, to, to - this.unit, thread, work, operator, waiting)
  }

  /** Adds an operator from `from` to `to` whose launch call ends at `launched`. */
  private enqueue(
    from: number,
    to: number,
    launched: number,
    thread: number,
    work: AnyWork,
    operator: Operator,
    waiting: unknown,
  ): { correlation: number; externalId: number } {
    const { unit } = this
    const lead = Math.max(1, Math.floor((launched - from) / (2 * unit))) * unit
    if (launched - from - lead < unit || (waiting && lead < 2 * unit))
      throw new Error(
        `${launched - from} ns are not enough time to launch ${operator.name} on rank ${this.rank}`,
      )
    const externalId = this.externalId++
    const correlation = ++this.correlation
    this.events.push({
      role: 'operator',
      name: operator.name,
      start: from,
      duration: to - from,
      track: thread,
      externalId,
      operator,
    })
    if (waiting) {
      this.hostEvent('call', 'cudaStreamWaitEvent', from + lead - unit, unit, thread, externalId)
      this.waits++
    }
    this.events.push({
      role: launchOf(work),
      name: '',
      start: from + lead,
      duration: launched - from - lead,
      track: thread,
      correlation,
      externalId,
    })
    this.taken[thread] = Math.max(this.taken[thread], to)
    return { correlation, externalId }
  }

  private hostEvent(
    role: 'call' | 'operator' | 'annotation' | 'frame',
    name: string,
    start: number,
    duration: number,
    track: number,
    externalId?: number,
  ): void {
    const correlation = role === 'call' ? ++this.correlation : undefined
    this.events.push({ role, name, start, duration, track, correlation, externalId })
    this.taken[track] = start + duration
  }

  private idleSpan(part: 'dispatch' | 'hostBlocked' | 'hostAbsent', from: number, to: number): void {
    // Idle time before the first device work is not part of the wall time.
    if (this.started) this.spans.push({ part, from, to })
  }

  finish(): LaidRank {
    const { rank, events, spans, steps } = this
    const end = Math.max(this.device, ...this.taken)
    const annotations = steps.map(({ host }, i): LaidEvent => {
      const next = steps[i + 1]?.host ?? end
      return {
        role: 'step',
        name: `ProfilerStep#${this.firstStep + i}`,
        start: host,
        duration: next - host,
        track: 0,
        externalId: this.externalId++,
      }
    })
    return { rank, events: [...annotations, ...events], spans, steps, end: this.device }
  }
}

function launchOf(work: AnyWork): LaidEvent['role'] {
  switch (work.kind) {
    case 'copy':
      return 'copyCall'
    case 'fill':
      return 'fillCall'
    case 'graph':
      return 'graphLaunch'
    case 'kernel':
    case 'collective':
      return 'launch'
    default:
      return work satisfies never
  }
}
