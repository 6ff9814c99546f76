/** Times Arke's contestants and the Python peers (PyTorch, Triton) in alternating rounds. */
import { randomOrder } from '../../src/runs/contest.ts'
import { quantityOf } from '../../src/runs/quantity.ts'
import type { CellResult, Timing } from './cells.ts'
import { openPeers, type Prepare } from './peers.ts'
import { stageOptions, type Effort, type Stage } from './stage.ts'

export async function timesAlongside(
  stage: Stage,
  effort: Effort,
  prepare: Prepare,
): Promise<Pick<CellResult, 'timings' | 'turn' | 'failed' | 'notes'>> {
  const peers = stageOptions.isMeasuring ? await openPeers() : 'kernels are only compiled'
  if (typeof peers === 'string')
    return {
      timings: await stage.times(effort),
      turn: stage.repeats,
      failed: stage.failed,
      notes: [`PyTorch and Triton were not measured: ${peers}`],
    }
  const { names, failed } = await peers.prepare(prepare)
  const theirs = names.map((): number[] => [])
  const random = randomOrder(names.length + 3)
  let turn = 0
  const ours = await stage.times(effort, async (round) => {
    for (const n of random(names.length)) {
      const [time] = await peers.time(names[n], turn++, 1)
      if (round >= 0) theirs[n].push(time)
    }
  })
  const timings = names.map((name, n): Timing => ({ name, role: 'peer', form: '', ...quantityOf(theirs[n]) }))
  return {
    timings: [...ours, ...timings],
    turn: stage.repeats,
    failed: { ...stage.failed, ...failed },
    notes: [peers.about],
  }
}
