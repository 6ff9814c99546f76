/**
 * Implements flag-in-data words (as in NCCL's LL protocol) as instructions of the checker. In the checker, a
 * flag-in-data word is an f32 whose two lowest bits are replaced by the marks of an epoch. The checker stores numbers
 * as float64, in which NaN and infinities have no usable mantissa bits. NaN and infinities are therefore represented by
 * numbers beyond the f32 range, whose exponent encodes the epoch.
 */
import { carriedBy, marksOf } from '../../ir/ops/index.ts'
import type { Maker } from './code.ts'
import type { FlagView } from './flags.ts'
import { strongAccess } from './strongAccess.ts'

const word = new DataView(new ArrayBuffer(4))
const [INFINITE, NO_NUMBER] = [2 ** 300, 2 ** 400]

export function marked(x: number, marks: number): number {
  if (Number.isNaN(x)) return NO_NUMBER * 2 ** marks
  if (!Number.isFinite(x)) return Math.sign(x) * INFINITE * 2 ** marks
  word.setFloat32(0, carriedBy(x))
  word.setUint32(0, word.getUint32(0) | marks)
  return word.getFloat32(0)
}

export function unmarked(x: number): { readonly value: number; readonly marks: number } {
  const size = Math.abs(x)
  if (size >= NO_NUMBER) return { value: NaN, marks: Math.log2(size / NO_NUMBER) }
  if (size >= INFINITE) return { value: Math.sign(x) * Infinity, marks: Math.log2(size / INFINITE) }
  word.setFloat32(0, x)
  return { value: carriedBy(x), marks: word.getUint32(0) & 3 }
}

export const post: Maker = (node, out, inputs) => {
  const [, flags, value] = inputs
  return strongAccess(node, out, inputs, {
    verb: 'writes',
    stored: value,
    orderTells: false,
    act(access, { registers, launch }, { strong }, i) {
      const { signal } = launch.epochs.get((registers[flags] as FlagView).flags)!
      strong.store(access, marked((registers[value] as Float64Array)[i], marksOf(signal)))
      return 0
    },
  })
}

/**
 * Executes the op that reads flag-in-data words. If a word has the marks of another epoch, the surrounding `until` loop
 * repeats its block.
 */
export const take: Maker = (node, out, inputs, { missing }) => {
  const [, flags] = inputs
  return strongAccess(node, out, inputs, {
    verb: 'reads',
    orderTells: false,
    act(access, { registers, launch }, { strong }) {
      const { wait } = launch.epochs.get((registers[flags] as FlagView).flags)!
      const { value, marks } = unmarked(strong.load(access))
      if (marks !== marksOf(wait)) registers[missing!] = 1
      return value
    },
  })
}

/**
 * The op that advances epochs has no effect in the checker, because the machine advances epochs at the end of a launch.
 */
export const advance: Maker = (node) => ({ node, sync: false, run: () => undefined })
