/**
 * Runs an operation under the checker. There must be no finding on random schedules and in a bounded search, for the
 * kernels as recorded and as lowered for a GPU.
 */
import { expect } from 'vitest'
import type { StorageDType } from '../../src/ir/dtype.ts'
import type { KernelIR } from '../../src/ir/node.ts'
import { kernel, tensor, type Kernel, type TensorParam } from '../../src/lang/kernel.ts'
import type { Program } from '../../src/lang/program.ts'
import type { Tensor, TensorRank } from '../../src/lang/tensor.ts'
import { oncePer, type OperandDType, type Operation } from '../../src/operation/definition.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { expectClose, scenario, type Scenario, type World } from '../../src/world/world.ts'

const asOnGpu = (recorded: KernelIR, shapes: Shapes): KernelIR =>
  atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))

export const stages = { recorded: 'recorded', [LAST_STAGE]: asOnGpu } as const

export interface Repeated<C> {
  /** The name of the input that the result is proportional to. */
  readonly factor: string
  /** The tolerance of the comparison with the reference. The default is the tolerance of the operation. */
  readonly tolerance?: number
  /** The number of executions without a host wait in between. */
  readonly launches?: number
  /** A function that modifies random contents before they are used. */
  readonly contents?: (random: C, round: number) => C
  readonly residency?: number
}

/**
 * Rewrites every element of an input, multiplied by `sign`, as a rank's own kernels may do before and after an
 * operation.
 */
const rewriteKernel = oncePer(({ dtype, rank }: { dtype: OperandDType | 'i32'; rank: number }) => {
  const body = (t: Program, x: Tensor<OperandDType | 'i32', 2>, sign: number): void =>
    t.for(x.dim(0), (i) =>
      t.for(x.dim(1), (j) => {
        const place = x.at([i, j])
        t.store(place, t.load(place).to('f32').mul(sign).to(dtype))
      }),
    )
  const meta = { sign: 1 }
  if (rank === 1)
    return kernel('rewrite', { x: tensor(dtype, 1) }, meta, (t, { x }) =>
      t.for(x.dim(0), (i) => t.store(x.at([i]), t.load(x.at([i])))),
    )
  if (rank === 2)
    return kernel('rewrite', { x: tensor(dtype, 2) }, meta, (t, { x }, { sign }) => body(t, x, sign))
  return kernel('rewrite', { x: tensor(dtype, 4) }, meta, (t, { x }, { sign }) =>
    t.for(x.dim(0), (b) => t.for(x.dim(1), (h) => body(t, x.pick(b).pick(h), sign))),
  )
})

/**
 * A scenario that fills the inputs and then, several times in a row, rewrites the inputs with the opposite sign and launches
 * the operation. The scenario compares the result of every rank with the reference, and repeats everything once with
 * other contents.
 */
export function repeated<C>(
  ranks: number,
  make: (world: World) => Operation<C>,
  options: Repeated<C>,
): Scenario {
  const { launches = 3, tolerance, residency, factor, contents: adapt = (random: C) => random } = options
  return scenario('operation', { ranks, residency }, async (world) => {
    const operation = make(world)
    const renew = (): void => {
      for (const [name, x] of Object.entries(operation.inputs)) {
        const rewrite = rewriteKernel({ dtype: x.dtype as OperandDType, rank: x.shape.length })
        world.launch(
          rewrite as Kernel<{ x: TensorParam<StorageDType, TensorRank> }>,
          { x },
          { grid: 1, meta: { sign: name === factor ? -1 : 1 } },
        )
      }
    }
    for (const [round, times] of [launches, 2].entries()) {
      const contents = adapt(operation.random(1 + round), round)
      operation.fill(contents)
      for (let launch = 0; launch < times; launch++) {
        renew()
        operation.launch()
      }
      renew()
      for (let rank = 0; rank < ranks; rank++) {
        const sign = times % 2 === 0 ? 1 : -1
        const expected = operation.reference(contents, rank).map((x) => sign * x)
        expectClose(await operation.result(rank), expected, { atol: tolerance ?? operation.tolerance })
      }
      await world.barrier()
    }
  })
}

export interface Effort {
  readonly schedules?: number
  readonly limit?: number
}

export async function expectClean(subject: Scenario, effort: Effort = {}): Promise<void> {
  const [ranks] = subject.ranks
  const { schedules = 10, limit = 10 } = effort
  for (const [name, stage] of Object.entries(stages)) {
    const random = await explore(subject, { ranks, stage, schedules })
    expect(random.findings.map(formatFinding), `${name}, random schedules`).toEqual([])
    const search = await explore(subject, { ranks, stage, preemptions: 1, limit })
    expect(search.findings.map(formatFinding), `${name}, search`).toEqual([])
  }
}
