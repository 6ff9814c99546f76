/**
 * Runs every variant of GEMM + Reduce-Scatter many times in a row, while ranks are delayed at random (../endure.ts). The
 * short tests run 1000 executions, and the long tests 10,000.
 */
import { describe } from 'vitest'
import { openWorld } from '../../../src/index.ts'
import {
  gemmReduceScatter,
  gemmReduceScatterOperation,
  type GemmReduceScatterOptions,
} from '../../../src/ops/gemmReduceScatter/index.ts'
import { realTargets } from '../../targets/differential/targets.ts'
import { endure, ofMatrices } from '../endure.ts'
import { itForSome } from '../../long.ts'

const targets = await realTargets()
const tiles = { BM: 4, BN: 16, BK: 4, stages: 2 }

interface Case {
  readonly name: string
  readonly options: Omit<GemmReduceScatterOptions, 'shape' | 'dtype'>
  readonly ranks: number
  readonly launches: number
}

const forms = gemmReduceScatterOperation.variants.flatMap((variant) =>
  (['M', 'N'] as const).map((scatter) => ({ variant, scatter })),
)
const caseOf = (options: Case['options'], ranks: number, launches: number): Case => ({
  name: `${options.variant} along ${options.scatter} on ${ranks} ranks${options.summers ? ', with summers' : ''}${options.signalsLate ? ', with late signals' : ''}, ${launches} times`,
  ...{ options, ranks, launches },
})
const team = { variant: 'fused', scatter: 'M', summers: 1, grid: 3, signalsLate: true } as const
const brief = [...forms, team].map((options) => caseOf(options, 2, 1000))
const endless = [
  ...forms.flatMap((options) => [2, 3].map((ranks) => caseOf(options, ranks, 10_000))),
  ...[2, 4].map((ranks) => caseOf(team, ranks, 10_000)),
]

describe.each(targets)('on %s', (target) => {
  itForSome(
    [...brief, ...endless].map((one) => [one.name, one] as const),
    ([, { options, launches }]) =>
      launches === 1000 && target === 'wasm' && options.scatter === 'M' && options.variant !== 'bsp',
  )('%s', async ([, { options, ranks, launches }]) => {
    const workers = typeof options.grid === 'number' ? options.grid : undefined
    await using world = await openWorld({ target, ranks, ...(target === 'cuda' ? {} : { workers }) })
    // Along M, the last shard is shorter than others. Along N, shards have no padding, which would lie between their
    // elements.
    const shape = options.scatter === 'M' ? { M: 10, N: 37, K: 21 } : { M: 7, N: 24, K: 21 }
    const operation = gemmReduceScatter(world, { shape, dtype: 'f32', tiles, ...options })
    await endure(world, operation, ofMatrices, operation.inputs.a, operation.outputs.c, launches)
  })
})
