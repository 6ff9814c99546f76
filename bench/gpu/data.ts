// Random bf16 data and float64 references. Every call draws fresh numbers.

const view = new DataView(new ArrayBuffer(4))

export function fromBits(bits: number): number {
  view.setUint32(0, bits << 16)
  return view.getFloat32(0)
}

export function toBits(x: number): number {
  view.setFloat32(0, x)
  const bits = view.getUint32(0)
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16
}

// Bell-shaped numbers as bf16 bits, drawn from by index: fast enough for a hundred million.
const TABLE = Uint16Array.from({ length: 4096 }, () => {
  let sum = -2
  for (let i = 0; i < 4; i++) sum += Math.random()
  return toBits(sum)
})

export function randomBf16(count: number): Uint16Array {
  const out = new Uint16Array(count)
  let state = (Math.random() * 2 ** 32) | 1
  for (let i = 0; i < count; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    out[i] = TABLE[state & 4095]
  }
  return out
}

export const asNumbers = (bits: Uint16Array): Float64Array => Float64Array.from(bits, fromBits)

export interface Difference {
  /** |out - reference| / |reference|, over the rows compared. */
  readonly relative: number
  readonly worst: number
  /** Elements that still hold the poison, of all. */
  readonly unwritten: number
}

/** Compares rows of C = A x B with a float64 reference; `a(row, k)` and `b` are the operands as numbers. */
export function compareGemm(
  out: Uint16Array,
  [M, N, K]: readonly number[],
  a: (row: number, k: number) => number,
  b: Float64Array,
  rows = Array.from({ length: M }, (_, row) => row),
): Difference {
  let error = 0
  let norm = 0
  let worst = 0
  const reference = new Float64Array(N)
  for (const row of rows) {
    reference.fill(0)
    for (let k = 0; k < K; k++) {
      const x = a(row, k)
      for (let n = 0, at = k * N; n < N; n++) reference[n] += x * b[at + n]
    }
    for (let n = 0; n < N; n++) {
      const d = fromBits(out[row * N + n]) - reference[n]
      error += d * d
      norm += reference[n] ** 2
      if (!(Math.abs(d) <= worst)) worst = Math.abs(d)
    }
  }
  let unwritten = 0
  for (const bits of out) if (bits === 0xffff) unwritten++
  return { relative: Math.sqrt(error / norm), worst, unwritten }
}

/** bf16 rounding of the result alone gives about 1.7e-3. */
export const isRight = (difference: Difference): boolean =>
  difference.relative < 4e-3 && difference.unwritten === 0 && !Number.isNaN(difference.worst)

export const median = (values: readonly number[]): number =>
  [...values].sort((p, q) => p - q)[Math.floor(values.length / 2)]
