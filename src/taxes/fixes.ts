/**
 * Ranks the causes of lost time that can be fixed, over all categories of the ledger. Each fix has evidence (the
 * observed calls or kernels, with their number, duration and position) and an upper bound on the time that it saves.
 *
 * The bounds of all fixes are disjoint times of the ledger, so together they never exceed the wall time of the ranks.
 * One-off events are separate fixes, and no other fix includes their time. A one-off event is a long idle interval
 * without similar intervals, or a call of a kernel that took far longer than the other calls of the kernel.
 *
 * Only the fix for the locality tax is an estimate: an interval of time inside compute, by whose middle the fix is
 * ranked.
 */
import { Column, float64 } from '../timeline/columns.ts'
import { difference, intersection, type Intervals, total } from '../timeline/intervals.ts'
import { sortBy } from '../timeline/sort.ts'
import { end, Kind, NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import { type Clock, toCommon } from './collective.ts'
import type { Collectives } from './collectiveTable.ts'
import { type Cause, causes, Draft, type Evidence, type Fix, SHOWN } from './fix.ts'
import { type HostActivity, type HostTime, hostTimes } from './hostActivity.ts'
import type { Lateness } from './lateness.ts'
import { type IdlePart, idleParts, idleTime, type Partition } from './ledger.ts'
import type { LocalityTime } from './locality.ts'
import { MeanMeasured } from './measured.ts'
import { followingOf, type Hole, leastOnce, mergedHoles, oneOffHoles, outliersOf } from './oneOffs.ts'
import { allWork } from './processors.ts'
import type { Straggler } from './stragglers.ts'

/** A rank's lateness is a one-off event if one collective has at least this fraction of the waiting for the rank. */
const MOSTLY = 0.8

/** Collects the fixes rank by rank. */
export class Fixes {
  private readonly timeline: Timeline
  private readonly collectives: Collectives
  private readonly clocks: readonly Clock[]
  private readonly partitions: readonly Partition[]
  private readonly drafts = new Map<string, Draft>()
  /** The activities of each rank's host in the rank's idle time. */
  readonly host: {
    readonly rank: number
    readonly times: readonly HostTime[]
    /** The time of the one-off idle intervals in each category of idle time. */
    readonly once: Readonly<Record<IdlePart, number>>
  }[] = []
  private readonly holes: Hole[] = []
  private readonly outliers: Fix[] = []
  private readonly locality = { time: 0, low: 0, ranks: [] as number[] }
  private following = 0
  /** The largest number of steps of a rank. */
  private steps = 0
  private wait = 0
  private readonly waiting: number[] = []

  constructor(
    timeline: Timeline,
    collectives: Collectives,
    clocks: readonly Clock[],
    partitions: readonly Partition[],
  ) {
    this.timeline = timeline
    this.collectives = collectives
    this.clocks = clocks
    this.partitions = partitions
  }

  /** Adds the causes of a rank that has device work in its window. `steps` is the number of steps of the rank. */
  addRank(index: number, steps: number, locality: LocalityTime | null): void {
    const rank = this.timeline.ranks[index]
    const partition = this.partitions[index]
    this.steps = Math.max(this.steps, steps)
    const apart = this.addHost(rank, index, partition, steps)
    this.addIdle(rank, index, partition, apart)
    const mean = (
      part: 'copy' | 'transfer' | 'communication' | 'vacant' | 'wait' | 'compute',
    ): MeanMeasured => new MeanMeasured(partition.processors.map(({ parts }) => parts[part]))
    this.addCopies(rank, index, partition, mean('copy'))
    const { from, to } = partition
    this.addRest('vacant', index, mean('vacant').within(from, to), from, to)
    const wait = mean('wait').within(from, to)
    this.wait += wait
    if (wait > 0) this.waiting.push(index)
    const compute = mean('compute')
    const { outliers, claimed } = outliersOf(rank, this.timeline.names, index, partition, steps, compute)
    this.outliers.push(...outliers)
    if (locality?.time) {
      const high = Math.min(locality.time.high, compute.within(from, to) - claimed)
      if (high > 0) {
        this.locality.time += high
        this.locality.low += Math.min(locality.time.low, high)
        this.locality.ranks.push(index)
      }
    }
  }

  /** Returns the fixes, with the most important first. `stragglers` are the indices of late ranks. */
  list(lateness: Lateness, stragglers: readonly Straggler[]): Fix[] {
    this.addCommunication()
    const fixes: Fix[] = []
    for (const cause of causes) {
      const draft = this.drafts.get(cause)
      if (!draft) continue
      // Idle time without a known cause has one remedy (recording launches), so it is not divided into one-off and
      // other events.
      const once =
        cause === 'unattributed'
          ? null
          : draft.takeOnce((rank) => leastOnce(this.partitions[rank]), this.steps)
      if (once) {
        const { time, longest } = once
        fixes.push({
          cause,
          time,
          saves: time,
          least: time,
          count: 1,
          ranks: [longest.rank],
          once: true,
          evidence: [once],
        })
      }
      if (draft.time > 0)
        fixes.push(draft.fix(cause, cause === 'hostBlocked' ? { following: this.following } : {}))
    }
    let claimed = 0
    for (const { rank, collectives, worst, keptWaiting } of stragglers) {
      const saves = lateness.saves[rank]
      claimed += saves
      if (saves <= 0) continue
      fixes.push({
        cause: 'straggler',
        time: saves,
        saves,
        least: saves,
        count: collectives,
        ranks: [rank],
        once: collectives >= 4 && worst[0].keptWaiting >= MOSTLY * keptWaiting,
        evidence: [],
      })
    }
    const first = lateness.first.reduce((sum, time) => sum + time, 0)
    const left = this.wait - claimed - first
    if (left > 0)
      fixes.push({
        cause: 'imbalance',
        time: left,
        saves: left,
        least: left,
        count: this.collectives.length,
        ranks: this.waiting,
        once: false,
        evidence: [...lateness.others.keys()]
          .filter((rank) => lateness.others[rank] > 0)
          .map((rank) => this.whileLast(rank, lateness.others[rank]))
          .sort((a, b) => b.time - a.time)
          .slice(0, SHOWN),
      })
    if (first > 0 && lateness.longestFirst)
      fixes.push({
        cause: 'firstCollective',
        time: first,
        saves: 0,
        least: 0,
        count: 1,
        ranks: [...lateness.first.keys()].filter((rank) => lateness.first[rank] > 0),
        once: true,
        evidence: [
          {
            activity: 'collective',
            name: null,
            inside: null,
            time: first,
            count: 1,
            bytes: null,
            running: first,
            longest: lateness.longestFirst,
            longestTime: lateness.longestFirst.to - lateness.longestFirst.from,
          },
        ],
      })
    const { time, low, ranks } = this.locality
    if (time > 0)
      fixes.push({
        cause: 'locality',
        time,
        saves: time,
        least: low,
        count: ranks.length,
        ranks,
        once: false,
        evidence: [],
      })
    fixes.push(...mergedHoles(this.holes), ...this.outliers)
    return fixes.sort((a, b) => b.saves + b.least - (a.saves + a.least) || b.time - a.time)
  }

  /**
   * The observation that other ranks waited at collectives at which this rank arrived last, alone or together with
   * others.
   */
  private whileLast(rank: number, time: number): Evidence {
    const { from, to } = this.partitions[rank]
    return {
      activity: 'late',
      name: String(this.timeline.ranks[rank].rank),
      inside: null,
      time,
      count: 1,
      bytes: null,
      running: time,
      longest: { rank, from, to },
      longestTime: 0,
    }
  }

  private draft(cause: Cause): Draft {
    let draft = this.drafts.get(cause)
    if (!draft) this.drafts.set(cause, (draft = new Draft()))
    return draft
  }

  /**
   * Adds what the host was doing while the device of the rank was idle. Returns the one-off idle intervals of the rank.
   */
  private addHost(rank: RankTimeline, index: number, partition: Partition, steps: number): Intervals {
    const { names } = this.timeline
    const apart = oneOffHoles(partition, steps)
    const perHole: Evidence[][] = Array.from({ length: apart.length / 2 }, () => [])
    const times = hostTimes(rank, names, partition, apart)
    const parts = idleTime(partition)
    const once = Object.fromEntries(
      idleParts.map((part) => [part, total(intersection(parts[part], apart))]),
    ) as Record<IdlePart, number>
    this.host.push({ rank: index, times, once })
    this.following += followingOf(partition, apart)
    for (const one of times) {
      const { part, activity, name, inside, time, count, from, to } = one
      const evidence: Evidence = {
        activity,
        name,
        inside,
        time,
        count,
        bytes: null,
        running: time,
        longest: { rank: index, from, to },
        longestTime: to - from,
      }
      if (one.apart >= 0) perHole[one.apart].push(evidence)
      else this.draft(causeOf(part, activity)).add(evidence)
    }
    perHole.forEach((evidence, i) => {
      const [from, to] = [apart[2 * i], apart[2 * i + 1]]
      const clock = this.clocks[index]
      this.holes.push({
        rank: index,
        from,
        to,
        start: toCommon(clock, from),
        stop: toCommon(clock, to),
        evidence,
      })
    })
    return apart
  }

  /** Adds the idle time that the host did not cause, with the name of the device work that followed. */
  private addIdle(rank: RankTimeline, index: number, partition: Partition, apart: Intervals): void {
    const parts = idleTime(partition)
    const { name, operator } = rank.events
    for (const cause of ['gap', 'dependency'] as const) {
      const set = difference(parts[cause], apart)
      const next = allWork(rank).starts()
      const seen = new Map<number, { time: number; count: number; from: number; to: number; work: number }>()
      for (let i = 0; i < set.length; i += 2) {
        const work = next(set[i + 1])
        const key = work === NONE ? NONE : operator[work] === NONE ? name[work] : name[operator[work]]
        const time = set[i + 1] - set[i]
        const known = seen.get(key)
        if (!known) seen.set(key, { time, count: 1, from: set[i], to: set[i + 1], work })
        else {
          known.time += time
          known.count++
          if (time > known.to - known.from) [known.from, known.to] = [set[i], set[i + 1]]
        }
      }
      for (const [key, { time, count, from, to }] of seen)
        this.draft(cause).add({
          activity: 'kernel',
          name: key === NONE ? null : this.timeline.names[key],
          inside: null,
          time,
          count,
          bytes: null,
          running: time,
          longest: { rank: index, from, to },
          longestTime: to - from,
        })
    }
  }

  private addCopies(rank: RankTimeline, index: number, { from, to }: Partition, exposed: MeanMeasured): void {
    const { start, duration, name, kind, operator, bytes } = rank.events
    const copies = new Column(float64)
    for (const track of rank.tracks)
      if (track.role === 'stream')
        for (let event = track.from; event < track.to; event++)
          if (kind[event] === Kind.memcpy && start[event] < to && end(rank.events, event) > from)
            copies.push(event)
    const order = Uint32Array.from(copies.all())
    sortBy(order, (a, b) => start[a] - start[b] || a - b)
    type Sum = { -readonly [K in keyof Evidence]: Evidence[K] }
    const sums = new Map<number, Sum>()
    let at = -Infinity
    for (const event of order) {
      const begin = Math.max(at, start[event])
      const stop = end(rank.events, event)
      if (stop <= begin) continue
      at = stop
      const time = exposed.within(begin, stop)
      if (time <= 0) continue
      const key =
        (name[event] + 1) * this.timeline.names.length +
        (operator[event] === NONE ? 0 : name[operator[event]])
      let sum = sums.get(key)
      if (!sum) {
        sum = {
          activity: 'copy',
          name: this.timeline.names[name[event]],
          inside: operator[event] === NONE ? null : this.timeline.names[name[operator[event]]],
          time: 0,
          count: 0,
          bytes: null,
          running: 0,
          longest: { rank: index, from: start[event], to: stop },
          longestTime: 0,
        }
        sums.set(key, sum)
      }
      const size = bytes.get(event)
      sum.time += time
      sum.count++
      sum.running += duration[event]
      if (size !== undefined) sum.bytes = (sum.bytes ?? 0) + size
      if (time > sum.longestTime) {
        sum.longest = { rank: index, from: start[event], to: stop }
        sum.longestTime = time
      }
    }
    for (const one of sums.values()) this.draft('copy').add(one)
  }

  private addRest(cause: Cause, rank: number, time: number, from: number, to: number): void {
    this.draft(cause).add({
      activity: 'idle',
      name: null,
      inside: null,
      time,
      count: 1,
      bytes: null,
      running: time,
      longest: { rank, from, to },
      longestTime: time,
    })
  }

  /** Adds exposed transfers and unsplit communication, by kind and group of the collective. */
  private addCommunication(): void {
    const { ranks } = this.timeline
    const { length, first, rank: rankOf, event: eventOf } = this.collectives
    const own = ranks.map(() => ({ event: new Column(float64), collective: new Column(float64) }))
    for (let i = 0; i < length; i++)
      for (let m = first[i]; m < first[i + 1]; m++) {
        own[rankOf[m]].event.push(eventOf[m])
        own[rankOf[m]].collective.push(i)
      }
    own.forEach(({ event, collective }, index) => {
      const partition = this.partitions[index]
      if (!(partition.from < partition.to)) return
      const rank = ranks[index]
      const { start, duration } = rank.events
      const order = Uint32Array.from({ length: event.length }, (_, i) => i)
      sortBy(order, (a, b) => start[event.get(a)] - start[event.get(b)] || a - b)
      for (const cause of ['transfer', 'communication'] as const) {
        const exposed = new MeanMeasured(partition.processors.map(({ parts }) => parts[cause]))
        let left = exposed.within(partition.from, partition.to)
        if (left <= 0) continue
        const sums = new Map<
          number,
          { time: number; count: number; running: number; from: number; to: number; most: number }
        >()
        let at = -Infinity
        for (const i of order) {
          const one = event.get(i)
          const begin = Math.max(at, start[one])
          const stop = start[one] + duration[one]
          if (stop <= begin) continue
          at = stop
          const time = exposed.within(begin, stop)
          if (time <= 0) continue
          left -= time
          const call = this.collectives.call[collective.get(i)]
          const known = sums.get(call)
          if (!known)
            sums.set(call, { time, count: 1, running: duration[one], from: start[one], to: stop, most: time })
          else {
            known.time += time
            known.count++
            known.running += duration[one]
            if (time > known.most) [known.from, known.to, known.most] = [start[one], stop, time]
          }
        }
        for (const [call, { time, count, running, from, to, most }] of sums) {
          const { kind, group, groupDescription, library } = this.collectives.calls[call]
          this.draft(cause).add({
            activity: 'collective',
            name: kind ?? library ?? 'communication',
            inside: groupDescription || group || null,
            time,
            count,
            bytes: null,
            running,
            longest: { rank: index, from, to },
            longestTime: most,
          })
        }
        // Arke's own runs record transfers between programs, which belong to no collective.
        if (left > 0.5) this.addRest(cause, index, left, partition.from, partition.to)
      }
    })
  }
}

function causeOf(
  part: 'dispatch' | 'hostBlocked' | 'hostAbsent' | 'unattributed',
  activity: HostActivity,
): Cause {
  switch (activity) {
    case 'dataLoading':
    case 'allocation':
    case 'moduleLoading':
      return activity
    default:
      return part
  }
}
