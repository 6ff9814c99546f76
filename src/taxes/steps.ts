/**
 * Finds the steps of a rank as windows of device time. The program annotates a step (`ProfilerStep#N`). The step
 * contains the device work that was enqueued while the host was inside the annotation. The window of a step goes from
 * its first work to the first work of the next step, so windows do not overlap and leave no gaps. The window of the
 * last step ends with the last work of that step.
 *
 * If the program annotates no steps, the audit searches for a period: a sequence of kernels that repeats in the same
 * order throughout the trace. Layers within a step repeat as well, but a step also contains kernels that occur only
 * once per step.
 */
import { duration as written } from '../timeline/figures.ts'
import { rankNames } from '../timeline/ranges.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'

export interface Step {
  readonly name: string
  readonly number: number
  /** The time window of the step on the device of a rank. */
  readonly from: number
  readonly to: number
}

export interface Steps {
  readonly steps: readonly Step[]
  /** The number of kernels per period if the steps were detected, or null if they are annotated. */
  readonly period: number | null
}

export function stepsOf(rank: RankTimeline, names: readonly string[], warnings: Warnings): Steps {
  const named = namedSteps(rank, names)
  if (named.length > 0) return { steps: windows(rank, named, warnings), period: null }
  const period = periodOf(rank)
  if (!period) return { steps: [], period: null }
  const { start, duration } = rank.events
  const { first, length, events } = period
  const steps: Step[] = []
  for (let at = first; at + length <= events.length; at += length) {
    const last = events[at + length - 1]
    const next = at + 2 * length <= events.length ? start[events[at + length]] : start[last] + duration[last]
    steps.push({ name: `period ${steps.length}`, number: steps.length, from: start[events[at]], to: next })
  }
  return { steps, period: length }
}

interface NamedStep {
  readonly name: string
  readonly number: number
  /** The time of the step's annotation on the host. */
  readonly from: number
  readonly to: number
}

function namedSteps(rank: RankTimeline, names: readonly string[]): NamedStep[] {
  const { start, duration, kind, name } = rank.events
  const found = new Map<number, NamedStep>()
  for (const track of rank.tracks) {
    if (track.role !== 'thread') continue
    for (let event = track.from; event < track.to; event++) {
      if (kind[event] !== Kind.step) continue
      const called = names[name[event]]
      const number = Number(/\d+/.exec(called)?.[0] ?? found.size)
      if (!found.has(number))
        found.set(number, { name: called, number, from: start[event], to: start[event] + duration[event] })
    }
  }
  return [...found.values()].sort((a, b) => a.from - b.from)
}

function windows(rank: RankTimeline, named: readonly NamedStep[], warnings: Warnings): Step[] {
  const { start, duration, kind, launch } = rank.events
  const first = new Float64Array(named.length).fill(Infinity)
  const last = new Float64Array(named.length).fill(-Infinity)
  for (const { role, from, to } of rank.tracks) {
    if (role !== 'stream') continue
    let step = 0
    for (let event = from; event < to; event++) {
      if (!isDeviceWork(kind[event]) || launch[event] === NONE) continue
      const enqueued = start[launch[event]]
      // The work of a stream is enqueued nearly in order, so the search for the step of an event starts at the step of
      // the previous event.
      while (step > 0 && enqueued < named[step].from) step--
      while (step < named.length - 1 && enqueued >= named[step + 1].from) step++
      if (enqueued < named[step].from || enqueued >= named[step].to) continue
      first[step] = Math.min(first[step], start[event])
      last[step] = Math.max(last[step], start[event] + duration[event])
    }
  }
  const steps: Step[] = []
  let ahead = NaN
  let ends = -Infinity
  for (let i = named.length - 1; i >= 0; i--) {
    const { name, number } = named[i]
    ends = Math.max(ends, last[i])
    if (first[i] === Infinity) {
      warnings.tally(
        'steps',
        rank.rank,
        ({ ranks, count, amount }) =>
          (count === 1
            ? `${name} of rank ${rank.rank} enqueued no device work and is left out`
            : `${count} steps of ${rankNames(ranks)} enqueued no device work and are left out`) +
          ` (${written(amount / 1000)} on the host)`,
        { amount: named[i].to - named[i].from },
        'empty',
      )
      continue
    }
    const from = Number.isNaN(ahead) ? first[i] : Math.min(first[i], ahead)
    steps.unshift({ name, number, from, to: Number.isNaN(ahead) ? ends : ahead })
    ahead = from
  }
  return steps
}

interface Period {
  /** The kernels of the stream that has the most kernels. */
  readonly events: Uint32Array
  readonly first: number
  readonly length: number
}

/** The minimum fraction of kernels that must have the same name as the kernel one period earlier. */
const ALIKE = 0.95
/** The maximum fraction of kernel names that may occur less often than once per period. */
const RARE = 0.15
/**
 * A period has at least `LEAST_KERNELS` kernels and occurs at least `LEAST_PERIODS` times, since shorter or rarer
 * sequences repeat by chance.
 */
const LEAST_KERNELS = 4
const LEAST_PERIODS = 3
/** The maximum number of periods that are tried, since each trial costs a pass over the kernels. */
const MOST_TRIED = 64

function periodOf(rank: RankTimeline): Period | null {
  const { name } = rank.events
  const events = busiestStream(rank)
  const kernels = new Map<number, { name: number; count: number; first: number; second: number }>()
  events.forEach((event, i) => {
    const known = kernels.get(name[event])
    if (!known) kernels.set(name[event], { name: name[event], count: 1, first: i, second: i })
    else if (++known.count === 2) known.second = i
  })
  // The rarest kernels are tried first. Equally rare kernels are ordered by name id, which all ranks share, so that
  // periods begin with the same kernel on all ranks.
  const order = [...kernels.values()].sort((a, b) => a.count - b.count || a.name - b.name)
  const tried = new Set<number>()
  let rarer = 0
  for (const [i, { count, first, second }] of order.entries()) {
    if (i > 0 && count > order[i - 1].count) rarer = i
    if (count < LEAST_PERIODS) continue
    if (rarer > RARE * order.length) return null
    const length = second - first
    const periods = Math.floor((events.length - (first % length)) / length)
    if (length < LEAST_KERNELS || periods < LEAST_PERIODS || tried.has(length)) continue
    tried.add(length)
    if (tried.size > MOST_TRIED) return null
    let same = 0
    for (let k = 0; k + length < events.length; k++) if (name[events[k]] === name[events[k + length]]) same++
    if (same >= ALIKE * (events.length - length)) return { events, first: first % length, length }
  }
  return null
}

function busiestStream(rank: RankTimeline): Uint32Array {
  const { kind } = rank.events
  let most = new Uint32Array(0)
  for (const { role, from, to } of rank.tracks) {
    if (role !== 'stream' || to - from <= most.length) continue
    const kernels = Uint32Array.from({ length: to - from }, (_, i) => from + i).filter(
      (event) => kind[event] === Kind.kernel || kind[event] === Kind.communication,
    )
    if (kernels.length > most.length) most = kernels
  }
  return most
}
