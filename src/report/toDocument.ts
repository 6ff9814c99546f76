/** Converts the audit result, whose times are in nanoseconds, to the document in microseconds that all outputs use. */
import type { Audit, AuditOptions, Ledger } from '../taxes/audit.ts'
import type { Candidate } from '../taxes/candidates.ts'
import { toCommon } from '../taxes/collective.ts'
import { doubtfulOf } from '../taxes/collectives.ts'
import { meansOfNumber } from '../taxes/collectiveTable.ts'
import type { GroupRankTime, GroupTime } from '../taxes/groups.ts'
import type { Straggler } from '../taxes/stragglers.ts'
import { NONE, type Timeline } from '../timeline/timeline.ts'
import type { Warning } from '../timeline/warnings.ts'
import type {
  AuditDocument,
  CandidateDocument,
  CollectiveDocument,
  DocumentList,
  GroupDocument,
  RankDocument,
  SourceDocument,
  StepDocument,
  StragglerDocument,
} from './document.ts'
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
  const scribe = new Scribe(audited)
  const figures = {
    arke: version,
    sources,
    chosenSteps: options.steps ?? null,
    ranks: audit.ranks.map(({ index, ledger }) => scribe.rank(index, ledger)),
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
    stragglers: audit.stragglers.map((one) => scribe.straggler(one)),
    doubtful: { collectives: doubtful.collectives, commUs: microseconds(doubtful.time) },
    candidates: audit.candidates.map((one) => scribe.candidate(one)),
    warnings,
  }
  return { ...figures, headline: sentenceOf(headlineOf(figures)), summary: summarise(figures) }
}

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
    const last = collectives.last[index]
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

  straggler({
    rank,
    keptWaiting,
    exposed,
    late,
    collectives,
    waiters,
    worst,
    meanwhile,
  }: Straggler): StragglerDocument {
    return {
      rank: this.number(rank),
      keptWaitingUs: microseconds(keptWaiting),
      exposedWaitUs: microseconds(exposed),
      lateUs: microseconds(late),
      collectives,
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
