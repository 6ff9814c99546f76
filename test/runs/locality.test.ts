/** Bytes that one kernel writes to memory and a later kernel of the same rank reads back. */
import { describe, expect, it } from 'vitest'
import { pictureOf } from '../../src/runs/ledger.ts'
import type { TensorBytes } from '../../src/timeline/timeline.ts'
import { timelineOf } from './handmade.ts'

const SIZE = 1000
type Use = readonly [tensor: number, written: number, read: number]

/** The locality tax of consecutive kernels of 10 ns each, whose time is all useful. */
function localityOf(kernels: readonly (readonly Use[])[], bandwidth = 1e9) {
  const pieces = kernels.map((_, n) => ({ from: 10 * n, to: 10 * n + 10 }))
  const traffic = (uses: readonly Use[]): TensorBytes[] =>
    uses.map(([tensor, written, read]) => ({ tensor, name: `t${tensor}`, size: SIZE, written, read }))
  const timeline = timelineOf([
    {
      kernels: kernels.map((uses, n) => ({ name: 'kernel', ...pieces[n], traffic: traffic(uses) })),
      workers: [{ leader: 0, programs: pieces, waits: [], transfers: [] }],
    },
  ])
  const window = { from: 0, to: 10 * kernels.length }
  return pictureOf(timeline, window, { bandwidth }).ranks[0].ledger.locality
}
const write = (tensor: number, bytes = SIZE): Use => [tensor, bytes, 0]
const read = (tensor: number, bytes = SIZE): Use => [tensor, 0, bytes]

describe('locality', () => {
  it.each<[string, (readonly Use[])[], number]>([
    ['a tensor that is written and read', [[write(0)], [read(0)]], SIZE],
    ['read many times: once', [[write(0)], [read(0, 8 * SIZE)]], SIZE],
    ['read by two kernels: once', [[write(0)], [read(0)], [read(0)]], SIZE],
    ['read in two halves', [[write(0)], [read(0, 300)], [read(0, 700)]], SIZE],
    ['half of it read', [[write(0)], [read(0, 500)]], 500],
    ['half of it written', [[write(0, 500)], [read(0)]], 500],
    ['written twice over: at most its size', [[write(0)], [write(0)], [read(0, 4 * SIZE)]], SIZE],
    ['written by two kernels', [[write(0, 400)], [write(0, 600)], [read(0)]], SIZE],
    ['written, read, written and read again', [[write(0)], [read(0)], [write(0)], [read(0)]], 2 * SIZE],
    ['changed in place on the way', [[write(0)], [[0, SIZE, SIZE]], [read(0)]], 2 * SIZE],
    [
      'two tensors',
      [
        [write(0), write(1)],
        [read(0), read(1, 10)],
      ],
      SIZE + 10,
    ],
    ['kernels apart', [[write(0)], [write(1)], [read(0)]], SIZE],
    ['read before it is written: an input', [[read(0)], [write(0)]], 0],
    ['written and read by one kernel: fused', [[[0, SIZE, SIZE]]], 0],
    ['another tensor', [[write(0)], [read(1)]], 0],
    ['nothing', [], 0],
  ])('%s', (_, kernels, bytes) => {
    expect(localityOf(kernels).bytes).toBe(bytes)
  })

  it('ranges in time from 0 to bytes divided by bandwidth, limited by useful time', () => {
    expect(localityOf([[write(0)], [read(0)]], 100e9).time).toEqual([0, 10])
    expect(localityOf([[write(0)], [read(0)]], 1e9).time).toEqual([0, 20])
  })
})
