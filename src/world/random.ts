/** Random elements that depend only on the seed and the rank, so they are the same on every target and machine. */

/** Returns a generator of uniform random numbers in [0, 1) with 32 random bits each: a hashed counter (splitmix32). */
export function uniform(seed: number, rank: number): () => number {
  let state = scramble(Math.imul(seed | 0, 0x9e3779b1) ^ scramble(rank + 0x632be5ab))
  return () => {
    state = (state + 0x9e3779b9) | 0
    return scramble(state) / 2 ** 32
  }
}

/** A bijective hash function of 32 bits. The hash of a number is a non-negative integer. */
function scramble(bits: number): number {
  let x = bits | 0
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad)
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97)
  return (x ^ (x >>> 15)) >>> 0
}

/** Returns a generator of normally distributed random numbers with mean 0 and standard deviation 1 (Box and Muller). */
export function normal(seed: number, rank: number): () => number {
  const next = uniform(seed, rank)
  let spare: number | undefined
  return () => {
    if (spare !== undefined) {
      const value = spare
      spare = undefined
      return value
    }
    const radius = Math.sqrt(-2 * Math.log(1 - next()))
    const angle = 2 * Math.PI * next()
    spare = radius * Math.sin(angle)
    return radius * Math.cos(angle)
  }
}
