/**
 * A matrix product whose programs form clusters: multicast copies promise that programs along an axis copy equal
 * elements.
 */
import { f32, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url
const [ROWS, COLUMNS, STEPS] = [2, 2, 2]

const clusterMutants = {
  'a-along-its-own-axis': { kind: 'multicast', lines: ['fetch-a', 'fetch-a'] },
  'b-along-its-own-axis': { kind: 'multicast', lines: ['fetch-b', 'fetch-b'] },
  'row-of-the-program': { kind: 'multicast', lines: ['fetch-a', 'fetch-a'] },
  'steps-in-another-order': {
    kind: 'multicast',
    lines: ['fetch-a', 'fetch-a'],
    also: [{ kind: 'multicast', lines: ['fetch-b', 'fetch-b'] }],
  },
  'all-store-one-column': { kind: 'race', lines: ['store', 'store'] },
} satisfies Mutants
type ClusterMutation = keyof typeof clusterMutants

const clusterKernel = (mutation?: ClusterMutation) =>
  kernel('clustered', { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2) }, (t, { a, b, c }) => {
    const as = t.shared(f32, [1, 1])
    const bs = t.shared(f32, [1, 1])
    t.persistent(
      [ROWS, COLUMNS],
      ([i, j]) => {
        const row = mutation === 'row-of-the-program' ? t.program.mod(ROWS) : i
        const sum = t.pipeline([STEPS], t.zeros(f32, [1, 1]), ([k], acc) => {
          const step = mutation === 'steps-in-another-order' ? k.add(j).mod(STEPS) : k
          t.copy(a.tile([row, step], [1, 1]), as, { multicast: mutation === 'a-along-its-own-axis' ? 0 : 1 }) // @line fetch-a
          t.copy(b.tile([step, j], [1, 1]), bs, { multicast: mutation === 'b-along-its-own-axis' ? 1 : 0 }) // @line fetch-b
          return t.dot(as, bs, acc)
        })
        t.store(c.tile([i, mutation === 'all-store-one-column' ? 0 : j], [1, 1]), sum) // @line store
      },
      { cluster: [ROWS, COLUMNS] },
    )
  })

const clustered = original<ClusterMutation>({
  name: 'clustered',
  file,
  ranks: 1,
  mutants: clusterMutants,
  scenario(mutation) {
    const multiply = clusterKernel(mutation)
    return scenario('clustered', { ranks: 1 }, async (world) => {
      const a = world.from(f32, [ROWS, STEPS], [1, 2, 3, 4], { name: 'a' })
      const b = world.from(f32, [STEPS, COLUMNS], [5, 6, 7, 8], { name: 'b' })
      const c = world.empty(f32, [ROWS, COLUMNS], { name: 'c' })
      world.launch(multiply, { a, b, c }, { grid: ROWS * COLUMNS })
      expectClose(await world.read(c, 0), [19, 22, 43, 50])
    })
  },
})

export const clusters = [clustered]
