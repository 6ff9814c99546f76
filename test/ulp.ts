/** Distances of f32 numbers in units in the last place, and a reference for the error function. */
const bits = new Uint32Array(1)
const float = new Float32Array(bits.buffer)

/**
 * The position of an f32 number among all f32 numbers. In the order of all f32 numbers, both zeros are at 0, and the
 * infinities follow the largest numbers.
 */
function position(x: number): number {
  float[0] = x
  return bits[0] >>> 31 ? -(bits[0] & 0x7fffffff) : bits[0]
}

/** The number of f32 numbers from a to b. The result is NaN if a or b is NaN. */
export const ulps = (a: number, b: number): number =>
  Number.isNaN(a) || Number.isNaN(b) ? NaN : Math.abs(position(a) - position(b))

/** The error function in float64: its Taylor series near 0, and the continued fraction of 1 - erf elsewhere. */
export function erfReference(x: number): number {
  if (Number.isNaN(x) || x === 0) return x
  const size = Math.abs(x)
  if (size > 7) return Math.sign(x)
  if (size < 2) {
    let [sum, power] = [0, x]
    for (let n = 0; Math.abs(power) > 1e-18 * Math.abs(x); n++, power *= -(x * x) / n)
      sum += power / (2 * n + 1)
    return (2 / Math.sqrt(Math.PI)) * sum
  }
  let fraction = size
  for (let n = 120; n > 0; n--) fraction = size + n / 2 / fraction
  return Math.sign(x) * (1 - Math.exp(-size * size) / Math.sqrt(Math.PI) / fraction)
}
