/** Tests that the facts in the op records are consistent with each other and with the meaning of the ops. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { DType } from '../../src/ir/dtype.ts'
import type { Node } from '../../src/ir/node.ts'
import { accessesOf, ops, startOrder, type Op, type OpName } from '../../src/ir/ops/index.ts'
import { barriersType, refType, valueType, voidType, type ValueType } from '../../src/ir/type.ts'
import { evaluate, node, param } from './build.ts'

const all = Object.entries(ops) as [OpName, Op][]

describe('facts', () => {
  it.each(all)('of %s agree with its effect', (_, op) => {
    const { effect, accesses, order, flow, isView, elements, advances, place } = op
    const [reads, writes] = [accesses.some((one) => one.reads), accesses.some((one) => one.writes)]
    expect(accesses.every((one) => one.reads || one.writes)).toBe(true)
    expect([effect === 'read', effect === 'write']).toEqual([reads && !writes, writes])
    if (effect === 'pure' || effect === 'declare') expect([accesses, order]).toEqual([[], 'none'])
    // The ops at the start of a program also order launches, which are no agents of the memory model.
    if (effect === 'sync' && place !== 'start') expect([order, advances]).not.toEqual(['none', 'none'])
    expect(effect === 'control').toBe(flow !== 'straight')
    if (isView) expect(['none', 'moved']).toContain(elements)
  })

  it.each(all)('of %s agree with what it yields and leaves', (_, op) => {
    expect(op.numbers === 'none').toBe(op.elements === 'none')
    // An op that declares memory, flags or barriers occurs at the top level of the kernel, unless it yields a view.
    expect(op.effect === 'declare' && !op.isView).toBe(op.place === 'top')
    expect(['repeats', 'branches'].includes(op.flow)).toBe(op.state !== 'none')
    expect(op.atomic !== undefined).toBe(op.accesses.some(({ reads, writes }) => reads && writes))
    if (op.advances !== 'none')
      expect([op.effect, op.looks]).toEqual([op.accesses.length > 0 ? 'write' : 'sync', 'none'])
    // If flag-in-data words hold the epoch, the kernel waits for the words instead of a flag.
    if (op.advances === 'wait' && op.order !== 'none') expect(op.waitsFor).toBe('programs')
  })

  it.each(all)('of %s: a producer repeats no effect', (_, { effect, ahead, advances, waitsFor }) => {
    if (effect === 'pure' || effect === 'declare') expect(ahead).toBe('both')
    if (effect === 'write' || effect === 'sync') expect(ahead).not.toBe('both')
    if (effect === 'sync' && waitsFor === 'programs') expect(ahead).toBe('producer')
    if (advances === 'signal' || waitsFor === 'roles') expect(ahead).not.toBe('producer')
  })

  it('count arithmetic for each element, in additions', () => {
    const weight = (op: OpName, types: readonly ValueType[], attributes = {}): number => {
      const { operations } = ops[op]
      const inputs = types.map((type, i) => param(type, `x${i}`))
      return typeof operations === 'number' ? operations : operations(node(op, inputs, attributes))
    }
    const matrix = (rows: number, columns: number): ValueType => valueType('f32', [rows, columns])
    expect(weight('dot', [matrix(16, 8), matrix(8, 4), matrix(16, 4)])).toBe(16)
    expect(weight('reduce.sum', [matrix(16, 8)], { axis: 1 })).toBe(8)
    expect(weight('reduce.max', [matrix(16, 8)], { axis: 0 })).toBe(16)
    expect(weight('broadcast', [matrix(1, 8)])).toBe(0)
    for (const op of [
      'exp',
      'log',
      'sin',
      'cos',
      'erf',
      'pow',
      'exp2',
      'log2',
      'sqrt',
      'rsqrt',
      'tanh',
      'sigmoid',
      'div',
      'mod',
    ] as const)
      expect([op, weight(op, [])]).toEqual([op, expect.toSatisfy((x: number) => x > weight('add', []))])
  })

  it('name the ops whose result depends on the rank or program', () => {
    const varying = all.filter(([, { varies }]) => varies !== 'never')
    expect(varying.map(([name, { varies }]) => `${name} ${varies}`)).toEqual([
      'rank by rank',
      'program by program',
      'programs by program',
      'last by program',
    ])
  })

  it('name the ops that read an epoch without advancing it', () => {
    const looking = all.filter(([, { looks }]) => looks !== 'none')
    expect(looking.map(([name, { looks }]) => [name, looks])).toEqual([
      ['epoch', 'attribute'],
      ['reached', 'wait'],
      ['words.post', 'signal'],
      ['words.take', 'wait'],
    ])
  })

  it('name the positions that ops may have', () => {
    const bound = all.filter(([, { place }]) => place !== 'anywhere')
    expect(bound.map(([name, { place }]) => `${name}: ${place}`)).toEqual([
      'shared: top',
      'barriers: top',
      'roles: outside roles',
      'last: on every path',
      'cluster.meet: outside roles',
      'words.take: inside until',
      'once: inside loops',
      'staging: top',
      ...startOrder.map((name) => `${name}: start`),
    ])
  })

  it('name the level of memory that ops access, where it is always the same', () => {
    const bound = all.flatMap(([name, { accesses }]) =>
      accesses.flatMap(({ at, level }) => (level === 'either' ? [] : [`${name}: ${level} ${at}`])),
    )
    expect(bound).toEqual([
      ...['dot: shared 0', 'dot: shared 1', 'dot: shared 3', 'copy.async: global 0', 'copy.async: shared 1'],
      ...['put.signal: global 2', 'words.post: global 0', 'words.take: global 0'],
      ...['operands: shared 0', 'stage: shared 0', 'store.box: global 0', 'store.box: shared 2'],
    ])
  })

  it('reject an operand at another level, and tell the level of an access', () => {
    const places = (space: 'global' | 'shared') => param(refType(space, 'f32', [4]), space)
    const [there, here, barrier] = [places('global'), places('shared'), param(barriersType(0, 1), 'full')]
    const copy = (from: Node, to: Node): Node => node('copy.async', [from, to, barrier])
    expect(accessesOf(copy(there, here)).map(({ level }) => level)).toEqual(['global', 'shared'])
    expect(() => copy(here, here)).toThrow(
      'operand 1 lies in shared memory: the operand must be a tile or elements of',
    )
    expect(() => copy(there, there)).toThrow(
      'operand 2 lies in global memory: copy the operand to a shared tile first',
    )
  })

  it('say of ops that wait for others which side of a flag they count', () => {
    const advancing = all.filter(([, { advances }]) => advances !== 'none')
    expect(advancing.map(([name, { advances }]) => [name, advances])).toEqual([
      ['put.signal', 'signal'],
      ['signal', 'signal'],
      ['wait', 'wait'],
      ['advance.signal', 'signal'],
      ['advance.wait', 'wait'],
    ])
  })
})

/** The attributes of the ops that have any. */
const attributes = { dtype: 'i32', word: 1 }

/**
 * The types of operands that an op takes: the first dtype for which it is defined, in fragments of eight elements.
 */
function operands(op: OpName): ValueType[] | undefined {
  const dtypes: DType[] = ['f32', 'i32', 'bool', 'u32']
  for (const count of [1, 2, 3, 6])
    for (const dtype of dtypes)
      for (const first of dtypes) {
        const types = Array.from({ length: count }, (_, i) => valueType(i === 0 ? first : dtype, [8]))
        try {
          node(
            op,
            types.map((type, i) => param(type, `x${i}`)),
            attributes,
          )
          return types
        } catch {
          // If the op does not take these operands, the next operands are tried.
        }
      }
  return undefined
}

describe('an op whose elements are the same', () => {
  const elementwise = all.filter(([, { elements }]) => elements === 'same')

  it('is one of arithmetic, and there are many', () => {
    expect(elementwise.length).toBeGreaterThan(20)
  })

  it.each(elementwise)('%s: computes each element from the input elements at the same position', (op) => {
    const types = operands(op)!
    const numbers = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(
        fc.array(numbers, { minLength: 6, maxLength: 6 }),
        fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6, 7], { minLength: 8 }),
        (data, order) => {
          const given = types.map(({ dtype }, i) =>
            Float64Array.from(data[i], (x) => (dtype === 'bool' ? x % 2 : x)),
          )
          const plain = evaluate(op, types, given, attributes) as Float64Array
          const moved = evaluate(
            op,
            types,
            given.map((one) => Float64Array.from(order, (at) => one[at])),
            attributes,
          ) as Float64Array
          expect([...moved]).toEqual(order.map((at) => plain[at]))
        },
      ),
      { numRuns: 30 },
    )
  })
})

describe('an op whose numbers are those of inputs', () => {
  const moving = all.filter(([, { numbers, evaluate }]) => typeof numbers !== 'string' && evaluate)

  it('is a choice, a cast or a change of shape', () => {
    expect(moving.map(([name]) => name)).toEqual([
      ...['select', 'cast', 'reshape', 'interleave', 'expand', 'broadcast', 'transpose', 'convert'],
    ])
  })

  it.each(moving)('%s: yields no others', (op, { numbers }) => {
    const shape = op === 'broadcast' ? [1, 4] : [2, 4]
    const types = [valueType(op === 'select' ? 'bool' : 'i32', shape)]
    if (op === 'select') types.push(valueType('i32', shape), valueType('i32', shape))
    if (op === 'interleave') types.push(types[0])
    if (op === 'expand') types[0] = valueType('i32', [8])
    const attributes = { axis: 0, dtype: 'i32', shape: [2, 4] }
    const values = fc.array(fc.integer({ min: 0, max: 999 }), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(fc.tuple(values, values, values), (data) => {
        const given = types.map(({ dtype, shape: [rows, columns = 1] }, i) =>
          Float64Array.from(data[i].slice(0, rows * columns), (x) => (dtype === 'bool' ? x % 2 : x)),
        )
        const from = new Set((numbers as readonly number[]).flatMap((at) => [...given[at]]))
        const made = evaluate(op, types, given, attributes) as Float64Array
        expect([...made].filter((x) => !from.has(x))).toEqual([])
      }),
      { numRuns: 30 },
    )
  })
})

describe('an op that some of its inputs decide', () => {
  const dtypes: DType[] = ['f32', 'i32', 'u32', 'i64', 'bool']
  const decided = all
    .filter(([, { simplify }]) => simplify)
    .flatMap(([op, { simplify }]) => dtypes.map((dtype) => [op, dtype, simplify!] as const))

  it.each(decided)('%s of %s: means what it is replaced by', (op, dtype, simplify) => {
    const scalar = valueType(dtype)
    const types = op === 'select' ? [valueType('bool'), scalar, scalar] : [scalar, scalar]
    const inputs = types.map((type, i) => param(type, `x${i}`))
    try {
      node(op, inputs)
    } catch {
      return // The op is not defined for this dtype.
    }
    const special: Partial<Record<DType, number[]>> = { f32: [-0, NaN, Infinity, -1.5], i32: [-1], i64: [-1] }
    const number = (one: ValueType) =>
      one.dtype === 'bool'
        ? fc.constantFrom(0, 1)
        : fc.constantFrom(0, 1, 2, 7, ...(special[one.dtype] ?? []))
    fc.assert(
      fc.property(
        fc.tuple(...types.map(number)),
        fc.integer({ min: 0, max: types.length - 1 }),
        (data, at) => {
          const simpler = simplify(
            dtype,
            data.map((x, i) => (i === at ? x : undefined)),
          )
          if (!simpler) return
          const stands = 'input' in simpler ? data[simpler.input] : simpler.value
          expect(stands).toBe(evaluate(op, types, data))
        },
      ),
      { numRuns: 200 },
    )
  })

  it('has a neutral operand, or chooses', () => {
    const names = [...new Set(decided.map(([op]) => op))].join(' ')
    expect(names).toBe('add sub mul div mod or xor shl shr select')
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
