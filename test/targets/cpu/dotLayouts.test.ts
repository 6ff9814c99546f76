/** Tests which shared tiles of a kernel are stored in panels (blocks of columns), and how much memory they take. */
import { describe, expect, it } from 'vitest'
import { bf16, f32, kernel, tensor } from 'arke'
import { walk } from '../../../src/ir/node.ts'
import { refType } from '../../../src/ir/type.ts'
import type { Machine } from '../../../src/targets/cpu/code.ts'
import { borrowedTiles } from '../../../src/targets/cpu/lower/borrowed.ts'
import { panelColumns } from '../../../src/targets/cpu/lower/dot/tiles.ts'
import { assignLayouts, panelBytes } from '../../../src/targets/cpu/lower/layouts.ts'
import { packedTiles } from '../../../src/targets/cpu/lower/packed.ts'
import { decodeToOwners } from '../../../examples/13-decode-to-owners.ts'
import { gemm } from '../../../src/ops/gemm.ts'

const machine: Machine = {
  name: 'native',
  lanes: 8,
  rows: 6,
  columns: 2,
  prefetches: true,
  l1: 32 << 10,
  l2: 512 << 10,
}
const rows = { kind: 'rows' }

function layoutsOf(ir: ReturnType<typeof gemm.record>) {
  const layouts = assignLayouts(ir, machine, new Set())
  return [...walk(ir.body)].filter((node) => node.op === 'shared').map((tile) => layouts.get(tile))
}
const tensors = { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) }

describe('assignLayouts', () => {
  it('stores the left operand of a product by rows and the right one in panels', () => {
    expect(layoutsOf(gemm.record({ world: 1, meta: { BM: 32, BN: 48, BK: 24 } }))).toEqual([
      { kind: 'panels', axis: 1, width: 24 },
      { kind: 'panels', axis: 1, width: 16 },
    ])
  })

  it('divides a transposed right operand along its rows', () => {
    expect(layoutsOf(decodeToOwners.record({ world: 2, meta: { G: 4, D: 8, BN: 4 } }))).toEqual([
      { kind: 'panels', axis: 0, width: 16 },
      { kind: 'panels', axis: 1, width: 16 },
    ])
  })

  it.each([
    [
      'a load reads it too',
      kernel('tiles', tensors, {}, (t, { a, b, c }) => {
        const [as, bs] = [t.shared(bf16, [8, 8]), t.shared(bf16, [8, 8])]
        t.copy(a.tile([0, 0], [8, 8]), as)
        t.copy(b.tile([0, 0], [8, 8]), bs)
        const sum = t.dot(as, bs, t.zeros(f32, [8, 8]))
        t.store(c.tile([0, 0], [8, 8]), sum.add(t.load(as).to(f32)).add(t.load(bs).to(f32)))
      }),
    ],
    [
      'a fragment is stored into it',
      kernel('tiles', tensors, {}, (t, { a, c }) => {
        const [as, bs] = [t.shared(bf16, [8, 8]), t.shared(bf16, [8, 8])]
        for (const tile of [as, bs]) t.store(tile, t.load(a.tile([0, 0], [8, 8])))
        t.store(c.tile([0, 0], [8, 8]), t.dot(as, bs, t.zeros(f32, [8, 8])))
      }),
    ],
    [
      'it is both operands, or both ways round',
      kernel('tiles', tensors, {}, (t, { a, b, c }) => {
        const [as, bs] = [t.shared(bf16, [8, 8]), t.shared(bf16, [8, 8])]
        t.copy(a.tile([0, 0], [8, 8]), as)
        t.copy(b.tile([0, 0], [8, 8]), bs)
        const sum = t.dot(as, as, t.zeros(f32, [8, 8]))
        const left = t.load(a.tile([0, 0], [8, 8]))
        t.store(c.tile([0, 0], [8, 8]), t.dot(left, bs, t.dot(left, bs.transpose(), sum)))
      }),
    ],
  ])('leaves a tile as declared where %s', (_, tiles) => {
    expect(layoutsOf(tiles.record({ world: 1 }))).toEqual([rows, rows])
  })
})

describe('panelBytes', () => {
  it('counts whole panels with four bytes per element', () => {
    const tile = refType('shared', 'bf16', [24, 40])
    expect(panelBytes(tile, { kind: 'rows' }, machine)).toBe(24 * 40 * 2)
    expect(panelBytes(tile, { kind: 'panels', axis: 1, width: 16 }, machine)).toBe(24 * 48 * 4)
    expect(panelBytes(tile, { kind: 'panels', axis: 0, width: 16 }, machine)).toBe(32 * 40 * 4)
  })
})

describe('a tile of a packed tensor', () => {
  const width = panelColumns(machine)
  it.each(['right', 'left', 'transposed'] as const)('as wide as a panel, used as %s operand', (use) => {
    const ir = kernel('uses', tensors, (t, { a, b, c }) => {
      const [other, tile] = [t.shared(bf16, [width, width]), t.shared(bf16, [width, width])]
      t.copy(a.tile([0, 0], [width, width]), other)
      t.copy(b.tile([0, 0], [width, width]), tile)
      const few = t.load(a.tile([0, 0], [2, width]))
      const sum =
        use === 'left'
          ? t.dot(tile, other, t.zeros(f32, [width, width]))
          : t.dot(few, use === 'right' ? tile : tile.transpose(), t.zeros(f32, [2, width]))
      t.store(c.at([0, 0]), sum.sum(0).sum(0))
    }).record({ world: 1 })
    const options = { machine, packed: new Set(['b']) }
    const packed = (): unknown =>
      packedTiles(ir, options, assignLayouts(ir, machine, borrowedTiles(ir, options)))
    if (use === 'right') expect(packed()).toMatchObject({ size: 1 })
    else
      expect(packed).toThrow(
        'b is packed, but the kernel uses a tile other than as the right operand of a matrix product',
      )
  })
})
