/**
 * 16: sampling a token. Every rank holds the logits of a batch and draws one token for each row, with a probability
 * proportional to e^(logit / temperature).
 *
 * The Gumbel-max trick needs neither a sum nor a search: -log(-log u) is added to each scaled logit, with a fresh uniform
 * number u, and the largest sum wins. `t.random` depends only on the seed and the counter, so all ranks draw the
 * same tokens, on every target and with any tiles. The step is part of the counter, so each step draws new numbers.
 */
import { expectClose, f32, i32, kernel, scalar, scenario, tensor } from 'arke'
import { show } from './show.ts'

const vocabulary = 24

export const sample = kernel(
  'sample',
  { logits: tensor(f32, 2), tokens: tensor(i32, 1), step: scalar(i32), temperature: scalar(f32) },
  { ROWS: 4, seed: 1 },
  (t, { logits, tokens, step, temperature }, { ROWS, seed }) => {
    t.persistent(logits.tiles([ROWS, vocabulary]), (tile, [i]) => {
      const row = i.mul(ROWS).add(t.arange(ROWS))
      const place = row.mul(vocabulary).expand(1).add(t.arange(vocabulary).expand(0))
      const uniform = t.random(f32, seed, [place, step]).add(2 ** -25) // the random number is never 0 here
      const gumbel = uniform.log().neg().log().neg()
      const scaled = t.load(tile).div(temperature)
      t.assert(scaled.eq(scaled), 'no logit is NaN')
      t.store(tokens.tile([i], [ROWS]), scaled.add(gumbel).argmax(1))
    })
  },
)

export const sampling = scenario('sampling', { ranks: 2 }, async (world) => {
  const [batch, steps] = [8, 50]
  // Token 3 is e times as likely as token 5. All other tokens are almost impossible.
  const row = Array.from({ length: vocabulary }, (_, token) => (token === 3 ? 11 : token === 5 ? 10 : -10))
  const logits = world.from(f32, [batch, vocabulary], Array.from({ length: batch }, () => row).flat())
  const tokens = world.empty(i32, [batch], { name: 'tokens' })
  const drawn = new Map<number, number>()
  for (let step = 0; step < steps; step++) {
    world.launch(sample, { logits, tokens, step, temperature: 1 }, { grid: 2 })
    const [mine, theirs] = [await world.read(tokens, 0), await world.read(tokens, 1)]
    expectClose(theirs, mine)
    for (const token of mine) drawn.set(token, (drawn.get(token) ?? 0) + 1)
  }
  const share = (drawn.get(3) ?? 0) / (batch * steps)
  expectClose([share], [Math.E / (Math.E + 1)], { atol: 0.02 })
  return [`of ${batch * steps} tokens, ${drawn.get(3)} are token 3 and ${drawn.get(5)} are token 5`]
})

await show(import.meta.url, sampling)
