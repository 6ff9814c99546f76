/** A split-K kernel: the last of the programs that share a tile, by a count of arrivals, adds their partial sums. */
import { f32, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url
const TILES = 2
const SPLITS = 2

const splitKMutants = {
  'one-arrival-missing': { kind: 'lost-signal', lines: ['arrive'], says: ['1 of 2 arrivals at index 1'] },
  'one-arrival-too-many': {
    kind: 'lost-signal',
    lines: ['arrive-again'],
    says: ['t.last has 1 of 2 arrivals at index 0', '1 is missing, or 1 too many'],
    also: [
      { kind: 'race', lines: ['add-parts', 'store-part'] },
      { kind: 'uninitialised', lines: ['add-parts'] },
      { kind: 'lost-signal', lines: ['arrive'] },
    ],
  },
  'arrives-at-the-next-tile': {
    kind: 'uninitialised',
    lines: ['add-parts'],
    also: [{ kind: 'race', lines: ['add-parts', 'store-part'] }],
  },
  'arrives-at-an-index-without-a-counter': {
    kind: 'out-of-bounds',
    lines: ['arrive'],
    says: ['t.last counts an arrival at index 2, but has 2 counters'],
  },
  'stores-after-arriving': {
    kind: 'uninitialised',
    lines: ['add-parts'],
    also: [{ kind: 'race', lines: ['add-parts', 'store-part'] }],
  },
  'expects-one-arrival-too-many': {
    kind: 'lost-signal',
    lines: ['arrive', 'arrive'],
    says: ['t.last has 2 of 3 arrivals', 'when the launch ends on rank 0'],
  },
  'expects-one-arrival-too-few': {
    kind: 'uninitialised',
    lines: ['add-parts'],
    also: [
      { kind: 'race', lines: ['add-parts', 'store-part'] },
      { kind: 'race', lines: ['store-sum', 'store-sum'] },
    ],
  },
} satisfies Mutants
type SplitKMutation = keyof typeof splitKMutants

const splitKKernel = (mutation?: SplitKMutation) =>
  kernel(
    'splitK',
    { x: tensor(f32, 2), sums: tensor(f32, 1), parts: tensor(f32, 2) },
    (t, { x, sums, parts }) => {
      t.persistent([SPLITS, TILES], ([split, tile]) => {
        const storePart = () => t.store(parts.at([split, tile]), t.load(x.at([split, tile])).mul(2)) // @line store-part
        const isAfter = mutation === 'stores-after-arriving'
        if (!isAfter) storePart()
        const addParts = (): void => {
          const sum = t.for(SPLITS, t.constant(f32, 0), (s, sum) => sum.add(t.load(parts.at([s, tile])))) // @line add-parts
          t.store(sums.at([tile]), sum) // @line store-sum
        }
        const arrivals =
          SPLITS +
          (mutation === 'expects-one-arrival-too-many' ? 1 : 0) -
          (mutation === 'expects-one-arrival-too-few' ? 1 : 0)
        const at =
          mutation === 'arrives-at-the-next-tile'
            ? tile.add(split).mod(TILES)
            : mutation === 'arrives-at-an-index-without-a-counter'
              ? tile.add(1)
              : tile
        const isFirst = split.eq(0).and(tile.eq(0))
        const arrive = () => t.last(addParts, { at, of: TILES, arrivals }) // @line arrive
        if (mutation === 'one-arrival-missing') t.if(split.eq(0).and(tile.eq(1)).not(), arrive)
        else arrive()
        if (mutation === 'one-arrival-too-many')
          t.if(isFirst, () => t.last(addParts, { at, of: TILES, arrivals })) // @line arrive-again
        if (isAfter) storePart()
      })
    },
  )

const splitK = original<SplitKMutation>({
  name: 'splitKByLast',
  file,
  ranks: 1,
  mutants: splitKMutants,
  scenario(mutation) {
    const one = splitKKernel(mutation)
    return scenario('splitKByLast', { ranks: 1 }, async (world) => {
      const x = world.from(f32, [SPLITS, TILES], [1, 2, 3, 4], { name: 'x' })
      const parts = world.empty(f32, [SPLITS, TILES], { name: 'parts' })
      const sums = world.zeros(f32, [TILES], { name: 'sums' })
      world.launch(one, { x, sums, parts }, { grid: 2 })
      expectClose(await world.read(sums, 0), [8, 12])
    })
  },
})

export const splits = [splitK]
