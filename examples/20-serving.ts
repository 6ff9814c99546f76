/**
 * 20: a serving loop. The host launches several steps in advance. Each step waits until the host signals a request,
 * then answers it and publishes its own number. The host polls this number with `peek`, which waits for no launch.
 *
 * A second stream counts served requests. Events order the two streams: the count of a step follows the step, and a
 * step that overwrites the answers follows the previous count. Each step prints a line with `t.print`.
 */
import { expectClose, flags, i32, kernel, scalar, scenario, tensor } from 'arke'
import { show } from './show.ts'

const LENGTH = 4
const STEPS = 3

export const serve = kernel(
  'serve',
  {
    prompt: tensor(i32, 1),
    answer: tensor(i32, 1),
    served: tensor(i32, 1),
    request: flags(),
    step: scalar(i32),
  },
  (t, { prompt, answer, served, request, step }) => {
    t.wait(request)
    const tokens = t.load(prompt.tile([0], [LENGTH]))
    t.print('request', step, tokens)
    t.store(answer.tile([0], [LENGTH]), tokens.cumsum(0).add(t.rank))
    t.store(served.at([0]), step, { order: 'release' })
  },
)

export const count = kernel(
  'count',
  { answer: tensor(i32, 1), total: tensor(i32, 1) },
  (t, { answer, total }) =>
    t.store(
      total.at([0]),
      t
        .load(answer.tile([0], [LENGTH]))
        .sum()
        .add(t.load(total.at([0]))),
    ),
)

export const serving = scenario('serve requests', { ranks: 2 }, async (world) => {
  const [prompt, answer] = ['prompt', 'answer'].map((name) => world.zeros(i32, [LENGTH], { name }))
  const [served, total] = ['served', 'total'].map((name) => world.zeros(i32, [1], { name }))
  const request = world.flags([], { name: 'request', signaller: 'host' })
  const [steps, counts] = [world.defaultStream, world.stream()]
  for (let step = 1; step <= STEPS; step++) {
    world.launch(serve, { prompt, answer, served, request, step }, { grid: 1 })
    counts.wait(steps.record())
    world.launch(count, { answer, total }, { grid: 1, stream: counts })
    steps.wait(counts.record())
  }

  const lines: string[] = []
  const totals = Array.from({ length: world.ranks }, () => 0)
  for (let step = 1; step <= STEPS; step++)
    for (let rank = 0; rank < world.ranks; rank++) {
      const tokens = Array.from({ length: LENGTH }, (_, i) => 10 * step + i)
      world.write(prompt, rank, tokens)
      world.signal(request, rank)
      while ((await world.peek(served, rank))[0] !== step);
      const answers = await world.peek(answer, rank) // the next steps still wait for their requests
      let sum = rank
      const expected = tokens.map((token) => (sum += token))
      expectClose(answers, expected)
      totals[rank] += expected.reduce((a, b) => a + b)
      lines.push(`rank ${rank} answered request ${step} with ${answers.join(' ')}`)
    }
  for (let rank = 0; rank < world.ranks; rank++) expectClose(await world.read(total, rank), [totals[rank]])
  return lines
})

await show(import.meta.url, serving)
