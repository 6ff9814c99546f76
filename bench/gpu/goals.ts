/**
 * Defines the performance goals for one H200, and judges for each cell whether they were reached. Cells without a
 * result are not judged.
 */
import type { LibraryGoal } from '../../src/ops/points.ts'
import { digits } from '../../src/report/format.ts'
import { measured, withLibraries, type CellResult } from './cells.ts'
import { bestOf, compare } from './tables.ts'

export interface Judgement {
  /** Goals of tier A are required, goals of tier B are expected, and goals of tier C are desirable. */
  readonly tier: 'A' | 'B' | 'C'
  readonly what: string
  readonly goal: string
  readonly found: string
  readonly isReached: boolean
}

const share = (part: number): string => `${Math.round(100 * part)} %`

export function judge(cells: readonly CellResult[]): Judgement[] {
  return cells.flatMap((cell) => {
    const own = measured.find(({ gpu }) => gpu.section === cell.section)
    if (own) {
      const goal = own.gpu.goal(cell.shape)
      return goal === 'near alone'
        ? [againstAlone(cell, own.gpu.alone)]
        : againstBulk(cell, goal === 'recover')
    }
    const peers = withLibraries.find(({ libraries }) => libraries.section === cell.section)
    if (peers) return againstLibraries(cell, peers.libraries.goals)
    switch (cell.section) {
      case 'gemm':
        return againstVendor(cell)
      case 'launch':
        return launches(cell)
      default:
        return []
    }
  })
}

const missing = (tier: Judgement['tier'], what: string, goal: string): Judgement => ({
  tier,
  what,
  goal,
  found: 'not measured',
  isReached: false,
})

function againstBulk(cell: CellResult, isRecovery: boolean): Judgement[] {
  const goal = 'best fused at least as fast as the faster bsp'
  const found = compare(cell)
  if (!found) return [missing('A', cell.key, goal)]
  const { ratio, recovered } = found
  // If the two compared variants are about equally fast, the confidence interval shows whether they differ
  // significantly.
  const spread = cell.speedup?.interval.map((end) => end.toFixed(3)).join('…')
  const speed = `${ratio.toFixed(3)} times as fast${spread ? ` (${spread})` : ''}`
  const judgements: Judgement[] = [{ tier: 'A', what: cell.key, goal, found: speed, isReached: ratio >= 1 }]
  if (isRecovery)
    judgements.push({
      tier: 'A',
      what: cell.key,
      goal: 'recover at least 70 % of the time that bsp takes beyond the lower bound',
      found: share(recovered),
      isReached: recovered >= 0.7,
    })
  return judgements
}

function againstAlone(cell: CellResult, step: string): Judgement {
  const goal = `at most 1.05 times the time of ${step} alone`
  const [fused, alone] = [bestOf(cell, 'fused'), bestOf(cell, 'alone')]
  if (!fused || !alone) return missing('C', cell.key, goal)
  const ratio = fused.median / alone.median
  return { tier: 'C', what: cell.key, goal, found: `${ratio.toFixed(3)} times`, isReached: ratio <= 1.05 }
}

/** For each goal, judges the speed of Arke relative to another library (a peer). */
function atLeast(
  cell: CellResult,
  isPeer: (name: string) => boolean,
  peer: string,
  goals: readonly (readonly [tier: 'B' | 'C', least: number])[],
): Judgement[] {
  const ours = bestOf(cell, 'ours')
  const theirs = cell.timings.filter(({ role, name }) => role === 'peer' && isPeer(name))
  return goals.map(([tier, least]) => {
    const goal = `at least ${least} times the speed of ${peer}`
    if (!ours || theirs.length === 0) return missing(tier, cell.key, goal)
    const ratio = Math.min(...theirs.map(({ median }) => median)) / ours.median
    return { tier, what: cell.key, goal, found: ratio.toFixed(3), isReached: ratio >= least }
  })
}

const againstVendor = (cell: CellResult): Judgement[] =>
  atLeast(cell, (name) => name === 'cuBLASLt', 'cuBLASLt', [
    ['B', cell.shape.M <= 64 ? 0.9 : 0.8],
    ['C', cell.shape.M <= 64 ? 1 : 0.92],
  ])

const againstLibraries = (cell: CellResult, goals: readonly LibraryGoal[]): Judgement[] =>
  goals.flatMap(({ library, name, tier, least }) =>
    atLeast(cell, (peer) => peer.startsWith(library), name, [[tier, least]]),
  )

function launches(cell: CellResult): Judgement[] {
  const limits = { 'launch, with the device': 4.5, 'graph node, with the device': 1.3 }
  return Object.entries(limits).map(([name, most]) => {
    const goal = `at most ${most} us`
    const timing = cell.timings.find((one) => one.name === name)
    if (!timing) return missing('A', name, goal)
    const { median } = timing
    return { tier: 'A', what: name, goal, found: `${digits(median)} us`, isReached: median <= most }
  })
}

/** Lists for each tier the number of goals reached and each goal that was missed. */
export function verdict(judgements: readonly Judgement[]): string[] {
  const lines = (['A', 'B', 'C'] as const).flatMap((tier) => {
    const own = judgements.filter((judgement) => judgement.tier === tier)
    if (own.length === 0) return []
    const missed = own.filter(({ isReached }) => !isReached)
    return [
      `tier ${tier}: ${own.length - missed.length} of ${own.length} goals reached`,
      ...missed.map(({ what, goal, found }) => `  missed: ${what}: ${found}; the goal is ${goal}`),
    ]
  })
  return lines
}
