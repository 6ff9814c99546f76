/**
 * 19: rotary position embedding. Each row of x holds the heads of one token. A row is normalised by its root mean
 * square per head (RMS norm), its pairs of elements are rotated by an angle that grows with the position of the token,
 * and GELU is applied. The final result of example 19 is rounded to int8.
 *
 * Mathematical functions of f32, such as the cosine, are methods of values. `cumsum` of the mask gives each token its
 * position among the tokens that are not padding. `reshape` views a row as a matrix with one row per head, and
 * `interleave` puts the rotated pairs back in their order.
 */
import { expectClose, f32, i32, i8, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const rotary = kernel(
  'rotary',
  { x: tensor(f32, 2), mask: tensor(i32, 1), y: tensor(i8, 2) },
  { TOKENS: 8, HEADS: 2, PAIRS: 4, base: 10_000, scale: 32 },
  (t, { x, mask, y }, { TOKENS, HEADS, PAIRS, base, scale }) => {
    const positions = t
      .load(mask.tile([0], [TOKENS]))
      .cumsum(0)
      .sub(1)
    t.persistent([TOKENS], ([token]) => {
      const position = t.arange(TOKENS).eq(token).select(positions, 0).sum().to(f32)
      const element = t.arange(HEADS * PAIRS).mul(2)
      const even = t.load(x.at([token, element])).reshape([HEADS, PAIRS])
      const odd = t.load(x.at([token, element.add(1)])).reshape([HEADS, PAIRS])

      const squares = even.mul(even).add(odd.mul(odd)).sum(1)
      const norm = squares
        .div(2 * PAIRS)
        .add(1e-6)
        .rsqrt()
        .expand(1) // one row per head
      const frequency = t.constant(f32, base).pow(t.arange(PAIRS).to(f32).div(-PAIRS))
      const angle = frequency.mul(position).expand(0)
      const [cos, sin] = [angle.cos(), angle.sin()]
      const [a, b] = [even.mul(norm), odd.mul(norm)]
      const rotated = a
        .mul(cos)
        .sub(b.mul(sin))
        .interleave(a.mul(sin).add(b.mul(cos)))

      const gelu = rotated.div(Math.SQRT2).erf().add(1).mul(0.5).mul(rotated)
      t.store(
        y.pick(token).tile([0], [HEADS * PAIRS * 2]),
        gelu
          .mul(scale)
          .round()
          .to(i8)
          .reshape([HEADS * PAIRS * 2]),
      )
    })
  },
)

const { TOKENS, HEADS, PAIRS, base, scale } = rotary.meta
const WIDTH = 2 * HEADS * PAIRS
const maskOf = (token: number): number => (token === 2 || token === 5 ? 0 : 1)
const elementOf = (rank: number, token: number, n: number): number =>
  ((rank * 5 + token * 7 + n * 3) % 11) / 4 - 1

/** The row of a token in float64, before rounding. erf is the integral of its derivative, by Simpson's rule. */
function rowOf(rank: number, token: number): number[] {
  const erf = (x: number): number => {
    const [steps, h] = [1000, x / 1000]
    let sum = 0
    for (let i = 0; i <= steps; i++)
      sum += Math.exp(-((i * h) ** 2)) * (i === 0 || i === steps ? 1 : i % 2 === 0 ? 2 : 4)
    return ((2 / Math.sqrt(Math.PI)) * sum * h) / 3
  }
  const position =
    Array.from({ length: token + 1 }, (_, before) => maskOf(before)).reduce((a, b) => a + b) - 1
  return Array.from({ length: WIDTH }, (_, n) => {
    const head = Math.floor(n / (2 * PAIRS))
    const inHead = Array.from({ length: 2 * PAIRS }, (_, i) => elementOf(rank, token, head * 2 * PAIRS + i))
    const norm = 1 / Math.sqrt(inHead.reduce((sum, x) => sum + x * x, 0) / (2 * PAIRS) + 1e-6)
    const pair = Math.floor((n % (2 * PAIRS)) / 2)
    const angle = position * base ** (-pair / PAIRS)
    const [a, b] = [inHead[2 * pair] * norm, inHead[2 * pair + 1] * norm]
    const x =
      n % 2 === 0 ? a * Math.cos(angle) - b * Math.sin(angle) : a * Math.sin(angle) + b * Math.cos(angle)
    return 0.5 * x * (1 + erf(x / Math.SQRT2)) * scale
  })
}

export const embed = scenario('rotate, activate, round', { ranks: 2 }, async (world) => {
  const rows = (rank: number): number[] =>
    Array.from({ length: TOKENS * WIDTH }, (_, i) => elementOf(rank, Math.floor(i / WIDTH), i % WIDTH))
  const x = world.from(f32, [TOKENS, WIDTH], rows, { name: 'x' })
  const mask = world.from(
    i32,
    [TOKENS],
    Array.from({ length: TOKENS }, (_, token) => maskOf(token)),
  )
  const y = world.empty(i8, [TOKENS, WIDTH], { name: 'y' })
  world.launch(rotary, { x, mask, y }, { grid: 2 })

  const lines: string[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const found = await world.read(y, rank)
    const expected = Array.from({ length: TOKENS }, (_, token) => rowOf(rank, token)).flat()
    expectClose(found, expected, { atol: 0.501 })
    lines.push(`rank ${rank} has the row ${found.subarray(WIDTH, WIDTH + 4).join(' ')} … of token 1`)
  }
  return lines
})

await show(import.meta.url, embed)
