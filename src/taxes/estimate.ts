/**
 * Estimates process groups and clock offsets together, for calls whose traces list no groups. As evidence, the estimate
 * uses, in every stream and for every kind of call, which ranks end their calls together. Ranks that end their calls
 * together are called tied (ties.ts), and a set of tied ranks is called a tie.
 *
 * For two ranks of one group, the distance between the end times of a call is the same for all calls, whatever the
 * offset of the clocks. The distance is also the same for all calls if the ranks are in two groups that run in
 * lockstep, with one group late by a constant time. The calls of a stream therefore only suggest which ranks are tied,
 * and which clock offsets follow. A pair of ranks has only one clock offset. If tied ranks in two streams imply
 * different clock offsets, one of the two sets of tied ranks is wrong, namely the set without which all waiting is
 * still explained.
 *
 * The trace's own clocks are one of the hypotheses. The trace's clocks are kept unless the estimated clocks explain
 * clearly more of the time in calls.
 */
import type { Timeline } from '../timeline/timeline.ts'
import { AGREEMENT } from './agreement.ts'
import { median } from './align.ts'
import type { Lane } from './calls.ts'
import type { Clock } from './collective.ts'
import { regular } from './layouts.ts'
import { PairFits } from './pairFit.ts'
import { type Program, programsOf } from './programs.ts'
import {
  EXPLAINED,
  explanationOf,
  isSingle,
  type Section,
  sectionsOf,
  shareOf,
  shareOfAll,
  slackOf,
  type Tied,
} from './ties.ts'

/** How well the clocks of a hypothesis fit the calls. */
export interface Hypothesis {
  readonly clocks: 'trace' | 'estimated'
  /** The share of the time in calls whose ranks end together and whose waiting is explained. */
  readonly explained: number
  /** The median distance between the first and the last end of a call, in nanoseconds, or null if no ranks are tied. */
  readonly residual: number | null
}

export interface Estimate {
  readonly sections: readonly EstimatedSection[]
  /** True if the estimated clocks explain the time in the calls and the trace's clocks do not. */
  readonly corrects: boolean
  readonly chosen: Hypothesis
  /**
   * The second-best hypothesis, or null if the trace's clocks explain the calls so well that no other hypothesis was
   * tried.
   */
  readonly runnerUp: Hypothesis | null
  /** True if the trace's clocks are kept because they explain the time in the calls. */
  readonly isTrusted: boolean
}

export interface EstimatedSection {
  readonly lane: Lane
  readonly program: Program
  readonly section: Section
  readonly tied: readonly Tied[]
}

interface Draft extends EstimatedSection {
  tied: Tied[]
}

export function estimateGroups(
  timeline: Timeline,
  lanes: readonly Lane[],
  clocks: readonly Clock[],
): Estimate {
  const zero = clocks.map(({ offset }) => offset)
  const programs = lanes.flatMap((lane) =>
    programsOf(lane, zero)
      .filter(({ rows }) => rows.length > 1)
      .map((program) => ({ lane, program })),
  )
  const own = draftsOf(programs, AGREEMENT)
  const shareOwn = shareOf(sum(own.drafts, own.dropped))
  const isKept = own.drafts.length > 0 && shareOf(sum(own.drafts, 0)) >= EXPLAINED
  if (shareOwn >= EXPLAINED) {
    const sections = regularSections(own.drafts, AGREEMENT)
    const chosen = { clocks: 'trace', explained: shareOwn, residual: residualOf(sections, false) } as const
    return { sections, corrects: false, chosen, runnerUp: null, isTrusted: true }
  }
  const { drafts, dropped } = draftsOf(programs, Infinity)
  const joined = regularSections(new Joint(timeline.ranks.length, drafts).solve(), Infinity)
  const fitted = new Joint(timeline.ranks.length, joined).solve()
  const shareFitted = shareOf(sum(fitted, dropped))
  const { total } = sum(fitted, 0)
  const corrects = fitted.length > 0 && shareFitted > shareOwn + (CLEARLY * total) / (total + dropped)
  const kept = regularSections(own.drafts, AGREEMENT)
  const byTrace = { clocks: 'trace', explained: shareOwn, residual: residualOf(kept, false) } as const
  const byEstimate = {
    clocks: 'estimated',
    explained: shareFitted,
    residual: residualOf(fitted, true),
  } as const
  return {
    sections: corrects ? fitted : kept,
    corrects,
    chosen: corrects ? byEstimate : byTrace,
    runnerUp: corrects ? byTrace : byEstimate,
    isTrusted: !corrects && isKept,
  }
}

/** The median distance between the ends of the calls of tied ranks, with or without the ranks' clock offsets. */
function residualOf(drafts: readonly Draft[], offset: boolean): number | null {
  const skews: number[] = []
  for (const { section, tied } of drafts)
    for (const { rows, offsets } of tied) {
      if (rows.length < 2) continue
      for (const column of section.columns) {
        let [first, last] = [Infinity, -Infinity]
        rows.forEach((row, i) => {
          const end = section.rows[row].ends[column - section.rows[row].first] ?? NaN
          if (Number.isNaN(end)) return
          first = Math.min(first, end + (offset ? offsets[i] : 0))
          last = Math.max(last, end + (offset ? offsets[i] : 0))
        })
        if (last > first) skews.push(last - first)
      }
    }
  return skews.length > 0 ? median(Float64Array.from(skews)) : null
}

/**
 * Replaces the groups of each section (a set of calls) by groups of a regular layout if possible, beginning with the
 * section that has the most calls.
 */
function regularSections(drafts: readonly Draft[], reach: number): Draft[] {
  const made = drafts.map((draft) => ({ ...draft }))
  const order = [...made].sort((a, b) => b.section.columns.length - a.section.columns.length)
  order.forEach((draft, i) => {
    const fits = new PairFits(draft.section.columns.length)
    draft.tied = [...regular(draft.section, draft.tied, order.slice(0, i), fits, reach)]
  })
  return made
}

/**
 * The sections (sets of calls, see ties.ts) of all programs. The clocks of tied ranks differ by at most `reach`
 * nanoseconds.
 */
function draftsOf(
  programs: readonly { lane: Lane; program: Program }[],
  reach: number,
): { drafts: Draft[]; dropped: number } {
  let dropped = 0
  const drafts = programs.flatMap(({ lane, program }) => {
    const fits = new PairFits(Math.max(...program.columns.map(({ length }) => length)))
    const sections = program.columns.flatMap((columns) => sectionsOf(program.rows, columns, fits, reach))
    for (const section of sections) section.tied = section.tied.flatMap((one) => plausible(section, one))
    // A rank can leave a message before the other rank arrives, so messages are used only if all ranks run one program
    // and the ends of all their calls agree.
    const isWhole = program.rows.length === lane.ranks.length
    if (mayLeaveEarly(program) && (!isWhole || shareOfAll(sections) < EXPLAINED)) {
      for (const section of sections) dropped += explanationOf(section, section.tied).total
      return []
    }
    return sections.map((section) => ({
      lane,
      program,
      section,
      tied: section.tied,
    }))
  })
  return { drafts, dropped }
}

const mayLeaveEarly = ({ calls }: Program): boolean =>
  calls.every(({ loose }) => loose.every((one) => one === 1))

/** The minimum share of the time in the calls of tied ranks that must be explained. */
const PLAUSIBLE = 0.8

/**
 * Splits a set of tied ranks into single ranks if most of their waiting is unexplained, since their calls then end
 * together by chance.
 */
function plausible(section: Section, one: Tied): Tied[] {
  if (one.rows.length < 2 || shareOf(explanationOf(section, [one])) >= PLAUSIBLE) return [one]
  return one.rows.map((row) => ({ rows: [row], offsets: [0] }))
}

/**
 * Estimated clocks are used only if they explain more of the time in calls than the trace's clocks do, by at least this
 * share of the time.
 */
const CLEARLY = 0.02

function sum(drafts: readonly Draft[], dropped: number): { unexplained: number; total: number } {
  let [unexplained, total] = [dropped, dropped]
  drafts.forEach(({ section, tied }) => {
    const found = explanationOf(section, tied)
    unexplained += found.unexplained
    total += found.total
  })
  return { unexplained, total }
}

function pick({ rows, offsets }: Tied, some: readonly number[]): Tied {
  const ordered = [...some].sort((a, b) => a - b)
  return {
    rows: ordered.map((i) => rows[i]),
    offsets: ordered.map((i) => offsets[i] - offsets[ordered[0]]),
  }
}

/**
 * The maximum number of sets of tied ranks that are divided because their clock offsets contradict those of other sets.
 */
const ROUNDS = 64

/** Finds clock offsets that agree with as many sets of tied ranks as possible. */
class Joint {
  private readonly drafts: readonly Draft[]
  private readonly order: readonly number[]
  private readonly tied: Tied[][]
  /**
   * A union-find forest of ranks. A rank's potential is the number of nanoseconds to add to a time of the rank to get
   * the time of its parent.
   */
  private readonly parent: Int32Array
  private readonly potential: Float64Array

  constructor(ranks: number, drafts: readonly Draft[]) {
    this.drafts = drafts
    this.tied = drafts.map(({ tied }) => [...tied])
    this.parent = new Int32Array(ranks)
    this.potential = new Float64Array(ranks)
    // Sections with many calls come first: the more calls two ranks end together, the less likely is chance as the
    // reason.
    const calls = drafts.map(({ section }) => section.columns.length)
    this.order = drafts.map((_, i) => i).sort((a, b) => calls[b] - calls[a])
  }

  solve(): Draft[] {
    for (let round = 0; round < ROUNDS && this.giveUpOne(); round++);
    return this.drafts.map((draft, i) => ({ ...draft, tied: this.tied[i] }))
  }

  /**
   * Joins the ranks of every tie (a set of ranks whose calls end together). If the clock offsets of a tie contradict
   * those of other ties, divides one tie, if possible a tie that is not needed, and returns true.
   */
  private giveUpOne(): boolean {
    for (let rank = 0; rank < this.parent.length; rank++) this.parent[rank] = rank
    this.potential.fill(0)
    // A tie (a set of tied ranks) that contradicts other ties is examined only after all ties without a contradiction
    // have joined their ranks.
    const contradicting: { index: number; which: number }[] = []
    for (const index of this.order)
      for (const [which, one] of this.tied[index].entries()) {
        if (this.sidesOf(index, one) === null) this.join(index, one)
        else contradicting.push({ index, which })
      }
    if (contradicting.length === 0) return false
    const [{ index, which }] = contradicting
    const one = this.tied[index][which]
    const sides = this.sidesOf(index, one)
    if (sides === null) return false
    const parts = sides.map((side) => pick(one, side))
    const isFree = !this.isNeeded(index, one, parts)
    if (isFree || !this.giveUpEarlier(index, one, sides)) this.tied[index].splice(which, 1, ...parts)
    return true
  }

  /**
   * Divides a set of tied ranks of another section, if the set joins ranks of different `sides` and is not needed to
   * explain the waiting.
   */
  private giveUpEarlier(index: number, one: Tied, sides: readonly (readonly number[])[]): boolean {
    const sideOf = new Map<number, number>()
    sides.forEach((side, i) => {
      for (const member of side) sideOf.set(this.rankOf(index, one, member), i)
    })
    for (const earlier of this.order.filter((other) => other !== index))
      for (const [which, other] of this.tied[earlier].entries()) {
        const bySide = new Map<number, number[]>()
        other.rows.forEach((_, member) => {
          const side = sideOf.get(this.rankOf(earlier, other, member)) ?? 0
          bySide.set(side, [...(bySide.get(side) ?? []), member])
        })
        if (bySide.size < 2) continue
        const parts = Array.from(bySide.values(), (some) => pick(other, some))
        if (this.isNeeded(earlier, other, parts)) continue
        this.tied[earlier].splice(which, 1, ...parts)
        return true
      }
    return false
  }

  private rankOf(index: number, { rows }: Tied, member: number): number {
    return this.drafts[index].section.rows[rows[member]].rank
  }

  private find(rank: number): number {
    let [root, sum] = [rank, 0]
    while (this.parent[root] !== root) {
      sum += this.potential[root]
      root = this.parent[root]
    }
    // The path to the root is compressed, so that later searches are short.
    for (let at = rank, left = sum; this.parent[at] !== at;) {
      const [next, step] = [this.parent[at], this.potential[at]]
      this.parent[at] = root
      this.potential[at] = left
      left -= step
      at = next
    }
    return root
  }

  /**
   * If the clocks that are known so far contradict a set of tied ranks, divides the set into subsets such that the
   * clocks within a subset agree; otherwise, returns null.
   */
  private sidesOf(index: number, one: Tied): number[][] | null {
    const width = 3 * this.drafts[index].section.tolerance
    const byRoot = new Map<number, { member: number; value: number }[]>()
    one.rows.forEach((_, member) => {
      const rank = this.rankOf(index, one, member)
      const root = this.find(rank)
      const value = this.potential[rank] - one.offsets[member]
      const known = byRoot.get(root)
      if (known) known.push({ member, value })
      else byRoot.set(root, [{ member, value }])
    })
    const free: number[] = []
    let sides: number[][] | null = null
    for (const some of byRoot.values()) {
      some.sort((a, b) => a.value - b.value)
      const own: number[][] = []
      let from = 0
      some.forEach(({ member, value }, i) => {
        if (i === 0 || value - some[from].value > width) {
          own.push([])
          from = i
        }
        own[own.length - 1].push(member)
      })
      if (own.length > 1 && sides === null) sides = own
      else free.push(...some.map(({ member }) => member))
    }
    if (sides === null) return null
    sides.sort((a, b) => b.length - a.length)
    sides[0].push(...free)
    return sides
  }

  private join(index: number, one: Tied): void {
    const first = this.rankOf(index, one, 0)
    for (let member = 1; member < one.rows.length; member++) {
      const rank = this.rankOf(index, one, member)
      const [a, b] = [this.find(first), this.find(rank)]
      if (a === b) continue
      // time(first) = time(rank) + offset, and each root's time is the rank's time plus its potential.
      this.parent[b] = a
      this.potential[b] = this.potential[first] + one.offsets[member] - this.potential[rank]
    }
  }

  /** True if too much waiting would be unexplained if the tied ranks `whole` were the separate groups `parts`. */
  private isNeeded(index: number, whole: Tied, parts: readonly Tied[]): boolean {
    const { section } = this.drafts[index]
    const before = explanationOf(section, [whole]).unexplained
    const after = explanationOf(section, parts).unexplained
    return after - before > NEEDED * waitingIn(section, whole.rows)
  }
}

/** A set of tied ranks is needed if it explains more than this share of the waiting of its ranks. */
const NEEDED = 0.05

/** The time by which the calls of the given ranks (rows) last longer than the transfer, in nanoseconds. */
function waitingIn({ rows, columns, transfers, tolerance }: Section, some: readonly number[]): number {
  let waiting = 0
  for (const row of some) {
    const { first, starts, ends } = rows[row]
    for (let k = 0; k < columns.length; k++) {
      const call = columns[k] - first
      if (call < 0 || call >= ends.length) continue
      const over = ends[call] - starts[call] - transfers[k]
      if (over > slackOf(transfers[k], tolerance)) waiting += over
    }
  }
  return waiting
}

/**
 * The sets of tied ranks that cross a certain group of another section: such a set contains several ranks of the group,
 * but not all, and also other ranks. Of two process groups, one usually contains the other, or they share at most one
 * rank. A set of tied ranks that crosses a certain group therefore consists of several groups.
 */
export function crossing(sections: readonly EstimatedSection[]): ReadonlySet<Tied> {
  const certain = sections.map(({ section, tied }) => {
    const groupOf = new Map<number, Tied>()
    for (const one of tied)
      if (one.rows.length > 1 && isSingle(section, one.rows))
        for (const row of one.rows) groupOf.set(section.rows[row].rank, one)
    return groupOf
  })
  const found = new Set<Tied>()
  for (const { section, tied } of sections)
    for (const one of tied)
      for (const groupOf of certain) {
        const shared = new Map<Tied, number>()
        for (const row of one.rows) {
          const group = groupOf.get(section.rows[row].rank)
          if (group && group !== one) shared.set(group, (shared.get(group) ?? 0) + 1)
        }
        for (const [group, count] of shared)
          if (count > 1 && count < group.rows.length && count < one.rows.length) found.add(one)
      }
  return found
}
