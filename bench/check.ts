/**
 * Measures the speed of the checker and of the recorder:
 *
 *   npx tsx bench/check.ts [--json]
 *
 * Rates include all costs of a schedule: allocating the world, running the host program and the kernels, and comparing
 * with the reference.
 */
import { bf16, expectClose, explore, f32, flags, kernel, scenario, tensor } from '../src/index.ts'
import { walk } from '../src/ir/node.ts'
import { pullKernel } from '../src/ops/allGatherGemm/pullInPlace.ts'
import { measure, present, type Variant } from './measure.ts'

const messagePassing = kernel(
  'messagePassing',
  { inbox: tensor(f32, 1), out: tensor(f32, 1), ready: flags() },
  (t, { inbox, out, ready }) => {
    t.if(
      t.rank.eq(0),
      () => {
        t.store(inbox.on(1).tile([0], [4]), t.arange(4).to(f32))
        t.signal(ready.on(1))
      },
      () => {
        t.wait(ready)
        t.copy(inbox.tile([0], [4]), out.tile([0], [4]))
      },
    )
  },
)

const passMessage = scenario('message passing', { ranks: 2 }, async (world) => {
  const inbox = world.empty(f32, [4], { name: 'inbox' })
  const out = world.empty(f32, [4], { name: 'out' })
  world.launch(messagePassing, { inbox, out, ready: world.flags() }, { grid: 1 })
  expectClose(await world.read(out, 1), [0, 1, 2, 3])
})

/**
 * The benchmark checks a kernel on 4 ranks. On each rank, C has 4x4 tiles of 4x4 elements each, and each rank holds one
 * tile along K.
 */
function allGatherGemm(ranks: number): ReturnType<typeof scenario> {
  const [m, n, k] = [16, 16, 4]
  const matrix = (rows: number, columns: number, seed: number): Float64Array =>
    Float64Array.from({ length: rows * columns }, (_, i) => ((i * 7 + seed * 3) % 11) - 5)
  const a = Array.from({ length: ranks }, (_, rank) => matrix(m, k, rank))
  const b = Array.from({ length: ranks }, (_, rank) => matrix(k * ranks, n, rank + 5))
  const expected = b.map((mine) => {
    const c = new Float64Array(m * n)
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++)
        for (let l = 0; l < k * ranks; l++)
          c[i * n + j] += a[Math.floor(l / k)][i * k + (l % k)] * mine[l * n + j]
    return c
  })
  return scenario('All-Gather+GEMM pull', { ranks }, async (world) => {
    const ready = world.flags([ranks])
    const done = world.flags([ranks])
    const c = world.empty(bf16, [m, n])
    const args = {
      a: world.from(bf16, [m, k], (rank) => a[rank]),
      b: world.from(bf16, [k * ranks, n], (rank) => b[rank]),
      c,
      ready,
      done,
    }
    const pull = pullKernel({ dtype: 'bf16', shard: 'K' })
    world.launch(pull, args, { grid: 2, meta: { BM: 4, BN: 4, BK: 4, stages: 2 } })
    for (let rank = 0; rank < ranks; rank++)
      expectClose(await world.read(c, rank), expected[rank], { atol: 4 })
  })
}

function rate(
  run: ReturnType<typeof scenario>,
  ranks: number,
  stage: 'recorded' | 'lowered',
  schedules: number,
): () => Promise<number> {
  let seed = 1
  return async () => {
    const start = performance.now()
    const { findings } = await explore(run, { ranks, stage, schedules, seed })
    seed += schedules
    if (findings.length > 0) throw new Error(findings[0].message)
    return (schedules * 1000) / (performance.now() - start)
  }
}

/** Records a new kernel of 200 nodes in each sample, so that no cache applies. */
function recordTwoHundred(): number {
  const made = kernel('twoHundred', { x: tensor(f32, 1) }, (t, { x }) => {
    let value = t.load(x.tile([0], [64]))
    for (let i = 0; i < 40; i++) value = value.mul(1.5).add(value).max(0)
    t.store(x.tile([0], [64]), value)
  })
  const start = performance.now()
  const ir = made.record({ world: 8 })
  const elapsed = performance.now() - start
  const nodes = [...walk(ir.body)].length
  if (nodes < 200) throw new Error(`only ${nodes} nodes`)
  return elapsed
}

const atLeast = (goal: number): Variant['goal'] => ({
  text: `at least ${goal}`,
  reached: (median) => median >= goal,
})
const gemm = allGatherGemm(4)
const figures = await measure(
  [
    {
      name: 'message passing, 2 ranks',
      unit: 'schedules/s',
      sample: rate(passMessage, 2, 'recorded', 300),
      goal: atLeast(1000),
    },
    {
      name: 'All-Gather+GEMM, 4 ranks, recorded',
      unit: 'schedules/s',
      sample: rate(gemm, 4, 'recorded', 30),
      goal: atLeast(100),
    },
    {
      name: 'All-Gather+GEMM, 4 ranks, lowered',
      unit: 'schedules/s',
      sample: rate(gemm, 4, 'lowered', 30),
      goal: atLeast(100),
    },
    {
      name: 'record and verify 200+ nodes',
      unit: 'ms',
      sample: recordTwoHundred,
      goal: { text: 'under 10', reached: (median) => median < 10 },
    },
  ],
  15,
)
present('Checker and recorder', figures)
