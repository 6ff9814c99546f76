/**
 * Tests random pipelines: nested loops, branches and pipelines over shared or separate tiles, whose bounds and rows
 * come from program ids, loop state or memory. The lowered kernel must compute the same as the recorded kernel, however
 * far its producer runs ahead.
 */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { f32, i32, type Program, type Scalar, type Shared } from 'arke'
import { traffic, type Binding, type Traffic } from '../../src/ir/traffic.ts'
import { count, lowered, recorded, type Args } from './lowered.ts'
import { long } from '../long.ts'

interface Pipeline {
  readonly kind: 'pipeline'
  readonly extents: readonly (number | 'n' | 'loaded')[]
  readonly stages: number
  readonly tiles: readonly number[]
  readonly row: 'index' | 'outer' | 'loaded' | 'state'
  /** A pipeline that fills and uses the tiles in some iterations only. */
  readonly sometimes: boolean
}
type Item =
  | Pipeline
  | { readonly kind: 'for'; readonly times: number; readonly body: readonly Item[] }
  | {
      readonly kind: 'if'
      readonly odd: boolean
      readonly yes: readonly Item[]
      readonly no: readonly Item[]
    }
  | { readonly kind: 'while'; readonly times: number; readonly body: readonly Item[] }

const { item } = fc.letrec<{ item: Item }>((tie) => {
  const body = fc.array(tie('item'), { minLength: 1, maxLength: 2 })
  return {
    item: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.record({
        kind: fc.constant('pipeline' as const),
        extents: fc.array(fc.constantFrom(0, 1, 2, 3, 'n' as const, 'loaded' as const), {
          minLength: 1,
          maxLength: 2,
        }),
        stages: fc.integer({ min: 1, max: 4 }),
        tiles: fc.subarray([0, 1, 2], { minLength: 1 }),
        row: fc.constantFrom('index' as const, 'outer' as const, 'loaded' as const, 'state' as const),
        sometimes: fc.boolean(),
      }),
      fc.record({ kind: fc.constant('for' as const), times: fc.integer({ min: 0, max: 3 }), body }),
      fc.record({ kind: fc.constant('while' as const), times: fc.integer({ min: 0, max: 3 }), body }),
      fc.record({ kind: fc.constant('if' as const), odd: fc.boolean(), yes: body, no: body }),
    ),
  }
})

type Index = Scalar<'i32'>

function write(items: readonly Item[], t: Program, { a, b, c, offsets, n }: Args): void {
  const tiles = [0, 1, 2].map(() => t.shared(f32, [1, 2]))
  const zeros = () => t.zeros(f32, [1, 2])
  let written = 0
  const pipeline = ({ extents, stages, tiles: used, row, sometimes }: Pipeline, outer: Index): void => {
    const bounds = extents.map((extent) =>
      extent === 'n'
        ? n
        : extent === 'loaded'
          ? t.load(offsets.at([outer.mod(5)])).mod(3)
          : t.constant(i32, extent),
    )
    const [sum, next] = t.pipeline(
      bounds,
      [zeros(), outer],
      ([...index], [sum, state]) => {
        const k = index[index.length - 1]
        const rows = { index: k, outer, loaded: t.load(offsets.at([k.mod(5)])), state }
        const from = rows[row].add(index[0]).mod(6)
        const body = () => {
          const shared: Shared<'f32', 2>[] = used.map((i) => tiles[i])
          shared.forEach((tile, i) =>
            t.copy(i < 2 ? a.tile([from, k.add(i)], [1, 2]) : b.tile([from, k], [1, 2]), tile),
          )
          return shared.reduce((total, tile) => total.add(t.load(tile)), sum)
        }
        const after = sometimes ? t.if(k.mod(2).eq(0), body, () => sum.add(1)) : body()
        return [after, state.mul(2).add(k).mod(7)]
      },
      { stages },
    )
    t.store(c.tile([written % 6, written % 3], [1, 2]), sum.add(next.to(f32)))
    written++
  }
  const run = (list: readonly Item[], outer: Index): void => {
    for (const one of list)
      switch (one.kind) {
        case 'pipeline':
          pipeline(one, outer)
          break
        case 'for':
          t.for(one.times, (i) => run(one.body, i.add(outer)))
          break
        case 'while':
          t.while(
            t.constant(i32, 0),
            (i) => i.lt(one.times),
            (i) => {
              run(one.body, i.add(1))
              return i.add(1)
            },
          )
          break
        case 'if':
          t.if(
            outer.mod(2).eq(one.odd ? 1 : 0),
            () => run(one.yes, outer),
            () => run(one.no, outer),
          )
      }
  }
  run(items, n)
  t.store(c.at([5, 5]), 1)
}

const binding: Binding = {
  extents: { a: [6, 10], b: [10, 6], c: [6, 6], offsets: [5], counter: [4] },
  scalars: { n: 3 },
  rank: 0,
  program: 0,
  programs: 1,
}

const overlapAll = (numRuns: number): void =>
  fc.assert(
    fc.property(fc.array(item, { minLength: 1, maxLength: 3 }), (items) => {
      const ir = lowered((t, args) => write(items, t, args))
      expect(ir.notes).toEqual([])
      const hasPipeline = JSON.stringify(items).includes('pipeline')
      expect(count(ir.body, 'roles')).toBe(hasPipeline ? 1 : 0)
      const plain = ({ tensors, unknown }: Traffic) => ({
        tensors: Object.fromEntries(tensors),
        unknown: new Set(unknown.flatMap((one) => one.parameters)),
      })
      expect(plain(traffic(ir, binding))).toEqual(
        plain(
          traffic(
            recorded((t, args) => write(items, t, args)),
            binding,
          ),
        ),
      )
    }),
    { numRuns },
  )

it('compute the same with the same traffic, and all of them overlap: 15', () => overlapAll(15))
it('compute the same with the same traffic, and all of them overlap: 60', long, () => overlapAll(60))
