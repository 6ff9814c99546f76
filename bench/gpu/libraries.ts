/** Measures an operation on one rank with the whole GPU, compared with libraries that do the same work. */
import { timesAlongside } from './alongside.ts'
import { leastTime, operationOf, type Cell, type CellResult } from './cells.ts'
import { operationStage } from './operation.ts'
import type { Pattern } from './pattern.ts'
import type { Effort } from './stage.ts'

export async function measureAgainstLibraries(
  cell: Cell,
  pattern: Pattern,
  effort: Effort,
): Promise<CellResult> {
  const { variants, workOf } = operationOf(cell)!.gpu.libraries!
  const stage = await operationStage(
    cell,
    pattern,
    variants.map((variant) => ({ variant, role: 'ours' })),
  )
  try {
    return {
      ...cell,
      ...(await timesAlongside(stage, effort, workOf(cell.shape))),
      limit: leastTime(cell, stage.world.machine.processors[0]),
    }
  } finally {
    await stage.close()
  }
}
