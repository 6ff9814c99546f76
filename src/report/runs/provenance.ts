/** States where a result comes from: the machine, the day, the commit, and the hardware that the ranks share. */
import type { BenchResult } from '../../runs/results.ts'
import { plural } from '../format.ts'
import { count } from '../units.ts'

const rankCount = ({ points }: BenchResult): number => Math.max(1, ...points.map(({ ranks }) => ranks))

/** Says on which hardware the ranks run, and how data travels between them. */
export function ranksText(result: BenchResult): string {
  const { machine } = result
  const ranks = rankCount(result)
  if (machine.threads)
    return (
      'The ranks are threads that share one memory. No link lies between the ranks, so a transfer is a copy within that memory. ' +
      'Launches, waits and overlapped computation are real.'
    )
  if (ranks > 1 && machine.memories === 1)
    return (
      `The ${ranks} ranks are virtual: they share one GPU and its memory, and each has ${count(machine.cores / ranks)} multiprocessors. ` +
      'No link lies between the ranks, so their times say nothing about push versus pull on a real node.'
    )
  return `Each of the ${plural(ranks, 'rank')} has a GPU of its own.`
}

/** The machine, the target, the day and the commit of a result. */
export const sourceText = ({ machine, target, arke, date, commit }: BenchResult): string =>
  `${machine.processor}, ${plural(machine.cores, machine.threads ? 'worker thread' : 'multiprocessor')}, target ${target}, ` +
  `${date}, ${commit === null ? `arke ${arke}` : `commit ${commit}`}`
