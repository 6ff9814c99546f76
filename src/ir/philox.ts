/**
 * Philox4x32-10, the counter-based random number generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as
 * easy as 1, 2, 3", 2011). A block of four random words is a function of four words of a counter and two words of a key.
 */

/**
 * The constants of Philox4x32-10. The multipliers of Philox apply to words 0 and 2 of the counter, and the increments
 * apply to the words of the key.
 */
export const philox = {
  rounds: 10,
  multipliers: [0xd2511f53, 0xcd9e8d57],
  increments: [0x9e3779b9, 0xbb67ae85],
} as const

/** The upper 32 bits of the product of two u32. Every intermediate result of the 64-bit product is below 2^53. */
function multiplyHigh(a: number, b: number): number {
  const [aHigh, aLow] = [a >>> 16, a & 0xffff]
  const [bHigh, bLow] = [b >>> 16, b & 0xffff]
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16)
  const carried = aLow * bHigh + (middle % 65536)
  return aHigh * bHigh + Math.floor(middle / 65536) + Math.floor(carried / 65536)
}

/** The Philox block for a counter: four words of random bits. */
export function philoxBlock(counter: readonly number[], key: readonly number[]): readonly number[] {
  let [a, b, c, d] = counter
  let [low, high] = key
  for (let round = 0; round < philox.rounds; round++) {
    const [m, n] = philox.multipliers
    const next = [
      multiplyHigh(n, c) ^ b ^ low,
      Math.imul(n, c),
      multiplyHigh(m, a) ^ d ^ high,
      Math.imul(m, a),
    ]
    ;[a, b, c, d] = next.map((word) => word >>> 0)
    low = (low + philox.increments[0]) >>> 0
    high = (high + philox.increments[1]) >>> 0
  }
  return [a, b, c, d]
}
