/** Random jobs for the generator of traces: ranks, groups, streams, threads, idle time of every cause, collectives. */
import fc from 'fast-check'
import { collectiveKinds, type CollectiveWork, type Group, type Idle } from '../../src/audit/demo/workload.ts'
import type { HostActivity, Job, PerRank, Phase, Work } from '../../src/audit/demo/workload.ts'

export interface JobShape {
  minRanks?: number
  maxRanks?: number
  unit?: number
  /**
   * True if some process groups contain only some of the ranks. Traces without metadata do not show which ranks belong
   * to such a process group.
   */
  subgroups?: boolean
  maxSlots?: number
  /** True if each step ends with a collective of all ranks. */
  closing?: boolean
}

/** One random number per rank, indexed by the rank's number. */
const draws = fc.array(fc.nat(999_999), { minLength: 8, maxLength: 8 })

const slot = fc.record({
  what: fc.constantFrom('kernel', 'kernel', 'fill', 'copy', 'graph', 'collective', 'collective', 'together'),
  times: draws,
  other: draws,
  stream: fc.constantFrom(0, 0, 0, 9),
  thread: fc.constantFrom(0, 0, 1),
  kind: fc.constantFrom(...collectiveKinds.filter((kind) => kind !== 'broadcast')),
  group: fc.nat(3),
  host: fc.option(
    fc.record({
      before: fc.array(
        fc.tuple(
          fc.constantFrom<HostActivity>(
            'operator',
            'call',
            'synchronize',
            'item',
            'absent',
            'loading',
            'allocate',
          ),
          draws,
        ),
        { maxLength: 3 },
      ),
      operator: draws,
    }),
  ),
  hole: fc.option(draws),
  recorded: fc.boolean(),
  first: fc.boolean(),
})
type Slot = typeof slot extends fc.Arbitrary<infer T> ? T : never

export function jobs(shape: JobShape = {}): fc.Arbitrary<Job> {
  const { minRanks = 1, maxRanks = 8, unit = 1, subgroups = false, maxSlots = 10, closing = true } = shape
  return fc
    .record({
      ranks: fc.integer({ min: minRanks, max: maxRanks }),
      steps: fc.array(fc.array(slot, { minLength: 1, maxLength: maxSlots }), { minLength: 1, maxLength: 3 }),
      last: fc.array(slot, { minLength: 3, maxLength: 3 }),
      hostCost: fc.constantFrom(20, 3000, 8000).map((cost) => cost * unit),
    })
    .map(({ ranks, steps, last, hostCost }) => {
      const all = Array.from({ length: ranks }, (_, rank) => rank)
      const groups: Group[] = [{ name: '0', description: 'default_pg', ranks: all }]
      if (subgroups && ranks >= 4) {
        const half = ranks >> 1
        groups.push({ name: '1', description: 'tensor', ranks: all.slice(0, half) })
        groups.push({ name: '2', description: 'tensor', ranks: all.slice(half) })
        groups.push({ name: '3', description: 'data', ranks: all.filter((rank) => rank % 2 === 1) })
      }
      return {
        ranks,
        unit,
        groups,
        hostCost,
        steps: steps.map((slots, i) => {
          const end: Slot[] = closing ? [{ ...last[i], what: 'collective', group: 0 }] : []
          return new StepMaker(ranks, unit, groups).make([...slots, ...end])
        }),
      }
    })
}

class StepMaker {
  private readonly ranks: number
  private readonly unit: number
  private readonly groups: readonly Group[]
  /** The stream on which all ranks executed their last work, or -1 if this stream differs between ranks. */
  private last = -1

  constructor(ranks: number, unit: number, groups: readonly Group[]) {
    this.ranks = ranks
    this.unit = unit
    this.groups = groups
  }

  make(slots: readonly Slot[]): Phase[] {
    let first = true
    return slots.flatMap((one): Phase[] => {
      // All ranks take part in the first work of a step, which the host launches late.
      const made = first ? { ...one, what: one.what === 'collective' ? ('kernel' as const) : one.what } : one
      const phases = this.slot(made, first)
      first = false
      return phases
    })
  }

  /** Random durations of at least `least` units for the participating ranks. */
  private times(
    draws: readonly number[],
    least: number,
    range: number,
    members?: readonly number[],
  ): PerRank {
    return Array.from({ length: this.ranks }, (_, rank) =>
      members && !members.includes(rank) ? 0 : (least + (draws[rank] % range)) * this.unit,
    )
  }

  private slot(one: Slot, first: boolean): Phase[] {
    const { stream, thread, what } = one
    const group = this.groups[one.group % this.groups.length]
    const groupIndex = this.groups.indexOf(group)
    const joint = what === 'collective' || what === 'together'
    const members = what === 'collective' ? group.ranks : undefined
    const duration = this.times(one.times, 40, 3000)
    const collective: CollectiveWork = {
      kind: 'collective',
      collective: one.kind,
      group: what === 'together' ? 0 : groupIndex,
      transfer: (20 + (one.times[0] % 2000)) * this.unit,
      stream: what === 'together' ? 1 : 1 + groupIndex,
      thread,
    }
    const on = joint ? (collective.stream as number) : stream
    const idle = this.idle(one, first, on, members)
    const compute: Work = {
      kind: 'kernel',
      name: 'gemm',
      duration,
      stream,
      thread,
      operator: {
        name: 'aten::mm',
        shapes: [
          [4, 8],
          [8, 2],
        ],
      },
    }
    let work: Phase
    switch (what) {
      case 'kernel':
        work = { phase: 'work', work: compute }
        break
      case 'fill':
        work = { phase: 'work', work: { ...compute, kind: 'fill', name: 'Memset (Device)', bytes: 4096 } }
        break
      case 'copy':
        work = { phase: 'work', work: { ...compute, kind: 'copy', name: 'Memcpy DtoH', bytes: 4096 } }
        break
      case 'graph':
        work = {
          phase: 'work',
          work: {
            kind: 'graph',
            stream,
            thread,
            kernels: [0, 1, 2].map((i) => ({
              name: `node ${i}`,
              duration,
              gap: this.times(one.other, i, 30),
            })),
          },
        }
        break
      case 'collective':
        work = { phase: 'work', work: collective }
        break
      case 'together': {
        // The second kernel begins while the first kernel runs.
        const offset = this.times(one.other, 20, 19)
        const long = this.times(one.times, 41, 3000) as number[]
        work = one.first
          ? {
              phase: 'together',
              works: [
                {
                  ...compute,
                  duration: long.map((time) => time + (one.other[0] % 5000) * this.unit),
                  stream: 0,
                },
                { ...collective, offset },
              ],
            }
          : {
              phase: 'together',
              works: [
                { ...collective, transfer: collective.transfer + 50 * this.unit },
                { ...compute, stream: 0, offset },
              ],
            }
        break
      }
      default:
        work = what satisfies never
    }
    this.last = joint ? (what === 'collective' && group.ranks.length === this.ranks ? on : -1) : on
    return [...idle, work]
  }

  private idle(one: Slot, first: boolean, stream: number, members?: readonly number[]): Idle[] {
    const host = one.host ?? (first ? { before: [], operator: one.other } : null)
    const hole = one.hole
    // An idle interval on the same stream can be a gap or a dependency. An idle interval before work on another stream
    // is a dependency.
    const same = this.last === stream && one.what !== 'together'
    const known = this.last >= 0 && one.what !== 'together'
    const why = same && one.recorded ? 'gap' : 'dependency'
    if (!host && !hole) return []
    return [
      {
        phase: 'idle',
        host: host
          ? [
              ...host.before.map(
                ([activity, times]) => [activity, this.times(times, 5, 900, members)] as const,
              ),
              ['operator', this.times(host.operator, 10, 900, members)] as const,
            ]
          : [],
        device: hole ? [why, this.times(hole, 1, 500, members)] : undefined,
        recorded: why === 'dependency' && (same || !known || one.recorded),
      },
    ]
  }
}
