/** The facts in the records of ops agree with each other, and with what the ops mean. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { DType } from '../../src/ir/dtype.ts'
import { ops, type Op, type OpName } from '../../src/ir/ops/index.ts'
import { valueType, voidType, type ValueType } from '../../src/ir/type.ts'
import { evaluate, node, param } from './build.ts'

const all = Object.entries(ops) as [OpName, Op][]

describe('facts', () => {
  it.each(all)('of %s agree with its effect', (_, op) => {
    const { effect, accesses, order, flow, isView, elements, advances } = op
    const [reads, writes] = [accesses.some((one) => one.reads), accesses.some((one) => one.writes)]
    expect(accesses.every((one) => one.reads || one.writes)).toBe(true)
    expect([effect === 'read', effect === 'write']).toEqual([reads && !writes, writes])
    if (effect === 'pure' || effect === 'declare') expect([accesses, order]).toEqual([[], 'none'])
    if (effect === 'sync') expect([order, advances]).not.toEqual(['none', 'none'])
    expect(effect === 'control').toBe(flow !== 'straight')
    if (isView) expect(['none', 'moved']).toContain(elements)
  })

  it('say of ops that wait for others which side of a flag they count', () => {
    const advancing = all.filter(([, { advances }]) => advances !== 'none')
    expect(advancing.map(([name, { advances }]) => [name, advances])).toEqual([
      ['signal', 'signal'],
      ['wait', 'wait'],
      ['advance.signal', 'signal'],
      ['advance.wait', 'wait'],
    ])
  })
})

/** Types of operands that an op takes: the first dtype that it is defined on, and fragments of eight. */
function operands(op: OpName): ValueType[] | undefined {
  const dtypes: DType[] = ['f32', 'i32', 'bool']
  for (const count of [1, 2, 3])
    for (const dtype of dtypes)
      for (const first of dtypes) {
        const types = Array.from({ length: count }, (_, i) => valueType(i === 0 ? first : dtype, [8]))
        try {
          node(
            op,
            types.map((type, i) => param(type, `x${i}`)),
            { dtype: 'i32' },
          )
          return types
        } catch {
          // Other operands, then.
        }
      }
  return undefined
}

describe('an op whose elements are the same', () => {
  const elementwise = all.filter(([, { elements }]) => elements === 'same')

  it('is one of arithmetic, and there are many', () => {
    expect(elementwise.length).toBeGreaterThan(20)
  })

  it.each(elementwise)('%s: computes each element from those in its place', (op) => {
    const types = operands(op)!
    const numbers = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(
        fc.tuple(numbers, numbers, numbers),
        fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6, 7], { minLength: 8 }),
        (data, order) => {
          const given = types.map(({ dtype }, i) =>
            Float64Array.from(data[i], (x) => (dtype === 'bool' ? x % 2 : x)),
          )
          const plain = evaluate(op, types, given, { dtype: 'i32' }) as Float64Array
          const moved = evaluate(
            op,
            types,
            given.map((one) => Float64Array.from(order, (at) => one[at])),
            { dtype: 'i32' },
          ) as Float64Array
          expect([...moved]).toEqual(order.map((at) => plain[at]))
        },
      ),
      { numRuns: 30 },
    )
  })
})

describe('a record', () => {
  it('without its facts does not compile', () => {
    const incomplete = { effect: 'pure', summary: 'adds three', infer: () => voidType } as const
    // @ts-expect-error -- an op says whether it is elementwise, what it accesses, whom it waits for and what it costs
    const asOp: Op = incomplete
    // @ts-expect-error -- a table of ops has an entry for each
    const table: Record<OpName, string> = { add: 'a + b' }
    expect([asOp.summary, table.add]).toEqual(['adds three', 'a + b'])
  })
})
