/** Converts the audit result, whose times are in nanoseconds, to the document in microseconds that all outputs use. */
import type { Audit, AuditOptions, Ledger } from '../taxes/audit.ts'
import type { Candidate } from '../taxes/candidates.ts'
import { toCommon } from '../taxes/collective.ts'
import { doubtfulOf } from '../taxes/collectives.ts'
import type { Slowness } from '../taxes/equalWork.ts'
import type { Fix, Place } from '../taxes/fix.ts'
import { hostParts, type HostTime } from '../taxes/hostActivity.ts'
import { meansOfNumber, Unblamed } from '../taxes/collectiveTable.ts'
import type { GroupRankTime, GroupTime } from '../taxes/groups.ts'
import type { Straggler } from '../taxes/stragglers.ts'
import { untracedOf } from '../taxes/untraced.ts'
import type { WorkRow } from '../taxes/workTable.ts'
import { Kind, NONE, type Timeline } from '../timeline/timeline.ts'
import type { Warning } from '../timeline/warnings.ts'
import type {
  AuditDocument,
  CandidateDocument,
  CollectiveDocument,
  DocumentList,
  GroupDocument,
  HostDocument,
  RankDocument,
  SourceDocument,
  StepDocument,
  StragglerDocument,
  WorkDocument,
} from './document.ts'
import { describeFix, type FixFigures } from './fixes.ts'
import { sentenceOf } from './headline.ts'
import { headlineOf, summarise } from './summary.ts'

export interface Audited {
  readonly timeline: Timeline
  readonly audit: Audit
  readonly options: AuditOptions
  readonly sources: readonly SourceDocument[]
  readonly warnings: readonly Warning[]
  /** The version of Arke that runs the audit. */
  readonly version: string
}

export function toDocument(audited: Audited): AuditDocument {
  const { timeline, audit, options, sources, warnings, version } = audited
  const doubtful = doubtfulOf(timeline, audit.collectives)
  const untraced = untracedOf(
    timeline,
    audit.collectives,
    audit.ranks.map(({ index }) => index),
    options.world ?? null,
  )
  const scribe = new Scribe(audited)
  const figures = {
    arke: version,
    sources,
    chosenSteps: options.steps ?? null,
    ranks: audit.ranks.map(({ index, ledger }) => ({
      ...scribe.rank(index, ledger),
      once: scribe.once(index),
    })),
    steps: scribe.steps(),
    groups: audit.groups.map((one) => scribe.group(one)),
    collectives: new Lazy(audit.collectives.length, (index) => scribe.collective(index)),
    clocks: audit.clocks.map(({ rank, aligned, correction, drift, residual }) => ({
      rank,
      aligned,
      correctionUs: microseconds(correction),
      driftPpm: drift * 1e6,
      residualUs: residual === null ? null : microseconds(residual),
    })),
    stragglers: audit.stragglers.map((one, i) =>
      scribe.straggler(one, audit.slowness[i] ?? null, audit.hostMeanwhile[i] ?? []),
    ),
    doubtful: { collectives: doubtful.collectives, commUs: microseconds(doubtful.time) },
    ...(untraced.collectives > 0 ? { untraced } : {}),
    candidates: audit.candidates.map((one) => scribe.candidate(one)),
    host: scribe.host(),
    kernels: scribe.work(audit.work.kernels),
    operators: scribe.work(audit.work.operators),
    bandwidths: audit.bandwidths.map((row) => ({
      kind: row.kind,
      group: row.group,
      dtype: row.dtype,
      ranks: row.ranks,
      count: row.count,
      bytes: row.bytes,
      medianUs: orNull(row.median),
      algorithmGBs: row.algorithm === null ? null : row.algorithm / 1e9,
      busGBs: row.bus === null ? null : row.bus / 1e9,
      linkGBs: row.link === null ? null : row.link / 1e9,
    })),
    warnings,
  }
  const context = {
    stragglers: figures.stragglers,
    candidates: figures.candidates,
    ranks: figures.ranks,
    steps: figures.steps,
    isDoubtful: doubtful.collectives > 0,
    ...(untraced.collectives > 0 ? { untraced } : {}),
  }
  const fixes = audit.fixes.map((one) => describeFix(scribe.fix(one), context))
  const all = { ...figures, fixes }
  return { ...all, headline: sentenceOf(headlineOf(all)), summary: summarise(all) }
}

/** Returns the most important activities of a host in several intervals, over all categories of idle time. */
function merge(times: readonly HostTime[]): HostTime[] {
  const known = new Map<string, HostTime>()
  for (const one of times) {
    const key = JSON.stringify([one.activity, one.name, one.inside])
    const other = known.get(key)
    const longest = other && other.to - other.from > one.to - one.from ? other : one
    known.set(key, other ? { ...longest, time: one.time + other.time, count: one.count + other.count } : one)
  }
  return [...known.values()].sort((a, b) => b.time - a.time).slice(0, 4)
}

const kindNames: Readonly<Record<number, string>> = Object.fromEntries(
  Object.entries(Kind).map(([name, kind]) => [kind, name]),
)

/** The number of host activities that are listed per rank and category of idle time. */
const ACTIVITIES = 12

const microseconds = (nanoseconds: number): number => Math.round(nanoseconds) / 1000
/** Converts to microseconds. Unknown values are null in objects and NaN in columns. */
const orNull = (nanoseconds: number | null): number | null =>
  nanoseconds === null || Number.isNaN(nanoseconds) ? null : microseconds(nanoseconds)

/** A list that creates its elements on demand and stores none of them. */
class Lazy<T> implements DocumentList<T> {
  readonly length: number
  private readonly make: (index: number) => T

  constructor(length: number, make: (index: number) => T) {
    this.length = length
    this.make = make
  }

  *[Symbol.iterator](): Generator<T> {
    for (let index = 0; index < this.length; index++) yield this.make(index)
  }

  toJSON(): T[] {
    return [...this]
  }
}

class Scribe {
  private readonly timeline: Timeline
  private readonly audit: Audit
  /** The start of the first device work of all ranks, on the common clock. */
  private readonly origin: number

  constructor({ timeline, audit }: Audited) {
    this.timeline = timeline
    this.audit = audit
    this.origin = Math.min(
      ...audit.ranks.map(({ index, ledger }) => toCommon(audit.clocks[index], ledger.from)),
    )
  }

  private at(rank: number, time: number): number {
    return microseconds(toCommon(this.audit.clocks[rank], time) - this.origin)
  }

  private number(rank: number): number {
    return this.timeline.ranks[rank].rank
  }

  rank(index: number, ledger: Ledger): RankDocument {
    const { parts, unsplit, locality, communication } = ledger
    const launch = parts.dispatch + parts.gap
    const other = ledger.wall - parts.compute - launch - parts.wait - parts.transfer
    return {
      rank: this.number(index),
      startUs: this.at(index, ledger.from),
      wallUs: microseconds(ledger.wall),
      busyUs: microseconds(ledger.busy),
      idleUs: microseconds(ledger.idle),
      computeUs: microseconds(parts.compute),
      commUs: microseconds(communication),
      copyUs: microseconds(ledger.copy),
      overlapPct: communication === 0 ? null : (100 * ledger.overlap) / communication,
      idle: {
        dispatchUs: microseconds(parts.dispatch),
        hostBlockedUs: microseconds(parts.hostBlocked),
        hostAbsentUs: microseconds(parts.hostAbsent),
        dependencyUs: microseconds(parts.dependency),
        gapUs: microseconds(parts.gap),
        unattributedUs: microseconds(parts.unattributed),
      },
      taxes: {
        launchUs: microseconds(launch),
        waitUs: unsplit ? null : microseconds(parts.wait),
        exposedTransferUs: unsplit ? null : microseconds(parts.transfer),
        hiddenWaitUs: unsplit ? null : microseconds(ledger.hiddenWait),
        localityBytes: locality && locality.bytes,
        localityUs: locality?.time
          ? [microseconds(locality.time.low), microseconds(locality.time.high)]
          : null,
        otherUs: microseconds(other),
      },
      other: {
        exposedCopyUs: microseconds(parts.copy),
        vacantUs: microseconds(parts.vacant),
        hostBlockedUs: microseconds(parts.hostBlocked),
        hostAbsentUs: microseconds(parts.hostAbsent),
        dependencyUs: microseconds(parts.dependency),
        unattributedUs: microseconds(parts.unattributed),
        unsplitCommUs: microseconds(parts.communication),
      },
      exposedCommUs: microseconds(parts.wait + parts.transfer + parts.communication),
      launches: ledger.launches,
    }
  }

  /** The steps, sorted by number. If a rank lacks a step, the step has no entry for that rank. */
  steps(): StepDocument[] {
    const steps = new Map<number, { name: string; number: number; ranks: RankDocument[] }>()
    for (const { index, steps: own } of this.audit.ranks)
      for (const { step, ledger } of own) {
        let known = steps.get(step.number)
        if (!known) steps.set(step.number, (known = { name: step.name, number: step.number, ranks: [] }))
        known.ranks.push(this.rank(index, ledger))
      }
    return [...steps.values()].sort((a, b) => a.number - b.number)
  }

  group({ group, description, collectives, perRank }: GroupTime): GroupDocument {
    const sum = (of: (one: GroupRankTime) => number | null): number | null =>
      perRank.reduce<number | null>(
        (all, one) => (of(one) === null ? all : (all ?? 0) + (of(one) ?? 0)),
        null,
      )
    return {
      group,
      description,
      ranks: perRank.map(({ rank }) => this.number(rank)),
      collectives,
      commUs: microseconds(sum((one) => one.communication) ?? 0),
      waitUs: orNull(sum((one) => one.wait)),
      exposedTransferUs: orNull(sum((one) => one.transfer)),
      perRank: perRank.map(({ rank, collectives: calls, communication, wait, transfer }) => ({
        rank: this.number(rank),
        collectives: calls,
        commUs: microseconds(communication),
        waitUs: orNull(wait),
        exposedTransferUs: orNull(transfer),
      })),
    }
  }

  collective(index: number): CollectiveDocument {
    const { collectives } = this.audit
    const { kind, group, groupDescription, library } = collectives.callOf(index)
    const isTied = collectives.unblamed[index] === Unblamed.tied
    const last = isTied ? NONE : collectives.last[index]
    const perRank: CollectiveDocument['perRank'][number][] = []
    for (let member = collectives.first[index]; member < collectives.first[index + 1]; member++) {
      const [rank, event] = [collectives.rank[member], collectives.event[member]]
      const { start, duration } = this.timeline.ranks[rank].events
      perRank.push({
        rank: this.number(rank),
        startUs: this.at(rank, start[event]),
        durUs: microseconds(duration[event]),
        waitUs: orNull(collectives.wait[member]),
        transferUs: orNull(collectives.transfer[member]),
      })
    }
    return {
      kind,
      group: group ?? groupDescription,
      library,
      matchedBy: meansOfNumber(collectives.matchedBy[index]),
      complete: collectives.complete[index] === 1,
      lastRank: last === NONE ? null : this.number(last),
      endSkewUs: microseconds(collectives.endSkew[index]),
      perRank,
    }
  }

  once(index: number): RankDocument['once'] {
    const once = this.audit.host.find(({ rank }) => rank === index)?.once
    return (
      once && {
        dispatchUs: microseconds(once.dispatch),
        gapUs: microseconds(once.gap),
        hostBlockedUs: microseconds(once.hostBlocked),
        hostAbsentUs: microseconds(once.hostAbsent),
        dependencyUs: microseconds(once.dependency),
        unattributedUs: microseconds(once.unattributed),
      }
    )
  }

  work(rows: readonly WorkRow[]): WorkDocument[] {
    const wall = this.audit.ranks.reduce((sum, { ledger }) => sum + ledger.wall, 0)
    return rows.map(({ name, kind, time, calls, longest, latency, leastLatency }) => ({
      name,
      kind: kindNames[kind],
      us: microseconds(time),
      pct: wall > 0 ? (100 * time) / wall : 0,
      calls,
      longestUs: microseconds(longest),
      latencyUs: orNull(latency),
      leastLatencyUs: orNull(leastLatency),
    }))
  }

  /** Returns the host activities of each rank, per category of idle time. One-off idle intervals are included. */
  host(): HostDocument[] {
    return this.audit.host.flatMap(({ rank, times }) =>
      hostParts.flatMap((part): HostDocument[] => {
        const own = times.filter((one) => one.part === part)
        const all = own.reduce((sum, { time }) => sum + time, 0)
        if (all === 0) return []
        return [
          {
            rank: this.number(rank),
            part,
            us: microseconds(all),
            activities: own.slice(0, ACTIVITIES).map(({ activity, name, inside, time, count, from, to }) => ({
              activity,
              name,
              inside,
              us: microseconds(time),
              pct: (100 * time) / all,
              count,
              longestUs: microseconds(to - from),
            })),
          },
        ]
      }),
    )
  }

  fix({ cause, once, time, saves, least, count, ranks, evidence, following }: Fix): FixFigures {
    const longest = evidence.reduce<Place | null>(
      (most, { longest: one }) => (most === null || one.to - one.from > most.to - most.from ? one : most),
      null,
    )
    return {
      cause,
      once,
      us: microseconds(time),
      savesUs: microseconds(saves),
      leastUs: microseconds(least),
      ...(following === undefined ? {} : { followingUs: microseconds(following) }),
      count,
      ranks: ranks.map((rank) => this.number(rank)),
      seen: evidence.map((one) => ({
        activity: one.activity,
        name: one.name,
        inside: one.inside,
        us: microseconds(one.time),
        count: one.count,
        longestUs: microseconds(one.longest.to - one.longest.from),
        bytes: one.bytes,
      })),
      example:
        longest !== null && longest.to > longest.from
          ? {
              rank: this.number(longest.rank),
              startUs: this.at(longest.rank, longest.from),
              durUs: microseconds(longest.to - longest.from),
            }
          : null,
    }
  }

  straggler(
    { rank, keptWaiting, exposed, late, collectives, waiters, worst, meanwhile }: Straggler,
    slowness: Slowness | null,
    host: readonly HostTime[],
  ): StragglerDocument {
    return {
      rank: this.number(rank),
      keptWaitingUs: microseconds(keptWaiting),
      exposedWaitUs: microseconds(exposed),
      lateUs: microseconds(late),
      collectives,
      savesUs: microseconds(this.audit.lateness.saves[rank]),
      host: merge(host).map(({ activity, name, inside, time, count, from, to }) => ({
        activity,
        name,
        inside,
        us: microseconds(time),
        count,
        longestUs: microseconds(to - from),
      })),
      because: slowness && {
        moreWorkUs: microseconds(slowness.more),
        slowerUs: microseconds(slowness.slower),
        unknownUs: microseconds(slowness.unknown),
        idleUs: microseconds(slowness.other),
        kernels: slowness.kernels.map(({ name, more, slower, unknown, work, pace, shapes }) => ({
          name,
          moreWorkUs: microseconds(more),
          slowerUs: microseconds(slower),
          unknownUs: microseconds(unknown),
          work,
          pace,
          shapes,
        })),
      },
      waiters: waiters.map((one) => ({
        rank: this.number(one.rank),
        waitUs: microseconds(one.wait),
        exposedWaitUs: microseconds(one.exposed),
      })),
      worst: worst.map(({ collective, keptWaiting: kept, late: by }) => {
        const { kind, group, groupDescription, members } = this.audit.collectives.at(collective)
        const own = members.find((member) => member.rank === rank) ?? members[0]
        return {
          collective,
          kind,
          group: group ?? groupDescription,
          startUs: this.at(own.rank, this.timeline.ranks[own.rank].events.start[own.event]),
          keptWaitingUs: microseconds(kept),
          lateUs: microseconds(by),
        }
      }),
      meanwhile: meanwhile.map(({ what, name, operator, time }) => ({
        what,
        name,
        operator,
        us: microseconds(time),
      })),
    }
  }

  candidate({
    kind,
    chain,
    count,
    ranks,
    saves,
    savings,
    localityBytes,
    operation,
    example,
  }: Candidate): CandidateDocument {
    return {
      kind,
      chain,
      count,
      ranks: ranks.map((rank) => this.number(rank)),
      savesUs: microseconds(saves),
      saves: {
        launchUs: microseconds(savings.launch),
        waitUs: orNull(savings.wait),
        exposedTransferUs: orNull(savings.transfer),
        unsplitCommUs: microseconds(savings.communication),
        localityUs: orNull(savings.locality),
      },
      localityBytes,
      operation,
      example: {
        rank: this.number(example.rank),
        startUs: this.at(example.rank, example.from),
        durUs: microseconds(example.to - example.from),
      },
    }
  }
}
