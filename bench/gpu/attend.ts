/** Measures flash decode on one rank with the whole GPU, compared with the attention of cuDNN and of PyTorch. */
import { timesAlongside } from './alongside.ts'
import { leastTime, type Cell, type CellResult } from './cells.ts'
import { operationStage } from './operation.ts'
import type { Pattern } from './pattern.ts'
import type { Effort } from './stage.ts'

export async function measureAttend(cell: Cell, pattern: Pattern, effort: Effort): Promise<CellResult> {
  const stage = await operationStage(
    cell,
    pattern,
    (['bsp', 'fused-coarse', 'fused'] as const).map((variant) => ({ variant, role: 'ours' })),
  )
  try {
    const { queryHeads: heads, kvHeads, D, tokens } = cell.shape
    return {
      ...cell,
      ...(await timesAlongside(stage, effort, { do: 'attention', heads, kvHeads, D, tokens })),
      limit: leastTime(cell, stage.world.machine.processors[0]),
    }
  } finally {
    await stage.close()
  }
}
