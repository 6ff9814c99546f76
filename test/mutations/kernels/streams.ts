/** Two streams of a rank, one of them the default stream, which pass a buffer back and forth by events. */
import { f32, kernel, scalar, tensor } from '../../../src/index.ts'
import { expectClose, scenario, type Stream } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url
const STEPS = 2

const passMutants = {
  'no-event': { kind: 'race', lines: ['add', 'fill'] },
  'records-before-the-launch': { kind: 'race', lines: ['add', 'fill'] },
  'records-the-wrong-stream': { kind: 'race', lines: ['add', 'fill'] },
  'waits-after-the-launch': { kind: 'race', lines: ['add', 'fill'] },
  'fills-again-too-early': { kind: 'race', lines: ['add', 'fill'] },
  'host-overtakes': { kind: 'race', lines: ['fill', 'host'] },
} satisfies Mutants
type PassMutation = keyof typeof passMutants

const fill = kernel(
  'fill',
  { buffer: tensor(f32, 1), value: scalar(f32) },
  (t, { buffer, value }) => t.store(buffer.at([0]), value), // @line fill
)
const add = kernel(
  'add',
  { buffer: tensor(f32, 1), sum: tensor(f32, 1) },
  (t, { buffer, sum }) => t.store(sum.at([0]), t.load(buffer.at([0])).add(t.load(sum.at([0])))), // @line add
)

const passing = original<PassMutation>({
  name: 'streamsByEvents',
  file,
  ranks: 1,
  mutants: passMutants,
  scenario: (mutation) =>
    scenario('streamsByEvents', { ranks: 1 }, async (world) => {
      const buffer = world.empty(f32, [1], { name: 'buffer' })
      const sum = world.zeros(f32, [1], { name: 'sum' })
      const [one, two] = [world.defaultStream, world.stream()]
      /** One stream waits for the work that has been enqueued on the other stream so far. */
      const follow = (stream: Stream, other: Stream): void => stream.wait(other.record())
      for (let step = 0; step < STEPS; step++) {
        const early = mutation === 'records-before-the-launch' ? one.record() : undefined
        world.launch(fill, { buffer, value: step + 1 }, { grid: 1 })
        if (early) two.wait(early)
        else if (mutation === 'records-the-wrong-stream') follow(two, two)
        else if (mutation !== 'no-event' && mutation !== 'waits-after-the-launch') follow(two, one)
        world.launch(add, { buffer, sum }, { grid: 1, stream: two })
        if (mutation === 'waits-after-the-launch') follow(two, one)
        if (mutation !== 'fills-again-too-early') follow(one, two)
      }
      // The default stream `one` waits for all work on the other stream, so the host need only wait for `one`.
      await one.synchronize()
      world.write(buffer, 0, [0])
      if (mutation === 'host-overtakes') {
        world.launch(fill, { buffer, value: 7 }, { grid: 1, stream: two })
        await one.synchronize()
        world.write(buffer, 0, [0])
      }
      expectClose(await world.read(sum, 0), [3])
    }),
})

export const streams = [passing]
