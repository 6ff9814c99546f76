/** A producer in two strands: which copies go ahead, and when there is nothing to split. What strands compute: lowered.ts. */
import { describe, expect, it } from 'vitest'
import { f32, i32, type Program } from 'arke'
import { attribute, walk, type Block, type KernelIR } from '../../src/ir/node.ts'
import { origin, paramName } from '../../src/ir/ops/index.ts'
import { splitProducer } from '../../src/ir/passes/ahead.ts'
import { count, lowered, ops, type Args } from './lowered.ts'

interface Given {
  /** Rows of the tiles of a and of columns of those of b. */
  readonly tiles?: readonly [number, number]
  readonly waits?: boolean
  readonly remote?: boolean
  readonly written?: boolean
  readonly inTeams?: boolean
}

const product = ({ tiles: [rows, columns] = [1, 3], ...given }: Given) =>
  lowered((t: Program, { a, b, c, ready }: Args) => {
    const [as, bs] = [t.shared(f32, [rows, 2]), t.shared(f32, [2, columns])]
    const body = (): void => {
      const sum = t.pipeline(
        [5],
        t.zeros(f32, [rows, columns]),
        ([k], acc) => {
          t.copy((given.remote ? b.on(1) : b).tile([k, 0], [2, columns]), bs)
          if (given.waits) t.wait(ready)
          t.copy(a.tile([0, k], [rows, 2]), as)
          return t.dot(as, bs, acc)
        },
        { stages: 2 },
      )
      t.store(c.tile([0, 0], [rows, columns]), sum)
      if (given.written) t.store(b.on(t.rank.add(1).mod(t.world)).at([0, 0]), 1)
    }
    if (given.inTeams) t.teams({ all: { programs: 'rest', body } })
    else body()
  })

const rolesOf = (ir: KernelIR) => [...walk(ir.body)].find((node) => node.op === 'roles')!
const copied = (block: Block): string[] => [
  ...new Set(
    [...walk(block)]
      .filter(({ op }) => op === 'copy.async')
      .map(({ inputs }) => paramName(origin(inputs[0]).base)),
  ),
]
const strandsOf = (ir: KernelIR | undefined) =>
  ir &&
  rolesOf(ir).blocks.map((block, i) => [attribute<readonly string[]>(rolesOf(ir), 'names')[i], copied(block)])

describe('a producer in strands', () => {
  it('copies what is more of first, and waits in the second', () => {
    const split = splitProducer(product({ waits: true }))!
    expect(strandsOf(split)).toEqual([
      ['ahead', ['b']],
      ['producer', ['a']],
      ['consumer', []],
    ])
    expect(attribute(rolesOf(split), 'warps')).toEqual([1, 3, 4])
    const [ahead, behind] = rolesOf(split).blocks
    const waits = (block: Block) => [...walk(block)].filter(({ op }) => op === 'wait')
    expect(waits(ahead).map(({ attributes }) => attributes.unlessSettled)).toEqual([true])
    expect(waits(behind).map(({ attributes }) => attributes.unlessSettled)).toEqual([undefined])
    const full = [...walk(split.body)].find(({ attributes }) => attributes.ring === 'full')!
    expect(full.attributes.arrivals).toBe(2)
  })

  it('has no waits in the first where nothing is written meanwhile', () => {
    const [ahead, behind] = rolesOf(splitProducer(product({ waits: true }), 'settled')!).blocks
    expect(ops(ahead)).not.toContain('wait')
    expect(count(behind, 'wait')).toBe(1)
  })

  it('is split without waits, too, where one tensor is most of it', () => {
    expect(strandsOf(splitProducer(product({})))?.[0]).toEqual(['ahead', ['b']])
    expect(strandsOf(splitProducer(product({ tiles: [3, 1] })))?.[0]).toEqual(['ahead', ['a']])
    expect(splitProducer(product({ tiles: [2, 2] }))).toBeUndefined()
    expect(strandsOf(splitProducer(product({ tiles: [2, 2], waits: true })))).toHaveLength(3)
  })

  it('does not go ahead with what comes from other ranks, or what the kernel itself writes', () => {
    expect(strandsOf(splitProducer(product({ waits: true })))).toHaveLength(3)
    for (const change of ['remote', 'written'] as const)
      expect([change, splitProducer(product({ waits: true, [change]: true }))]).toEqual([change, undefined])
  })

  it('does not go ahead with what a wait may be for, or what an epoch picks', () => {
    const strands = (first: 'wait' | 'copy' | 'slot') =>
      strandsOf(
        splitProducer(
          lowered((t: Program, { a, b, c, ready }: Args) => {
            const [as, bs] = [t.shared(f32, [1, 2]), t.shared(f32, [2, 3])]
            const row = first === 'slot' ? t.epoch(ready, 'wait').mod(2).to(i32) : 0
            const sum = t.pipeline([5], t.zeros(f32, [1, 3]), ([k], acc) => {
              if (first === 'wait') t.wait(ready)
              t.copy(b.tile([k, row], [2, 3]), bs)
              if (first !== 'wait') t.wait(ready)
              t.copy(a.tile([0, k], [1, 2]), as)
              return t.dot(as, bs, acc)
            })
            t.store(c.tile([0, 0], [1, 3]), sum)
          }),
        ),
      )
    expect(strands('copy')?.[0]).toEqual(['ahead', ['b']])
    expect(strands('wait')).toBeUndefined()
    expect(strands('slot')).toBeUndefined()
  })

  it('is left as it is where roles are not all that the kernel does', () => {
    expect(splitProducer(product({ waits: true, inTeams: true }))).toBeUndefined()
  })
})
