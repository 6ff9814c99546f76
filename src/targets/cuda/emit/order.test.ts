import { describe, expect, it } from 'vitest'

import { bodyOf, emit } from '../../../../test/cuda/emitting.ts'
import { walk, type KernelIR } from '../../../ir/node.ts'
import { i32 } from '../../../lang/dtypes.ts'
import { kernel, tensor } from '../../../lang/kernel.ts'
import { limitsOf } from '../../../world/machine.ts'
import { describedGpu } from '../description.ts'
import { atStage, LAST_STAGE, specialise, usualWorld } from '../facts.ts'
import { lower } from '../stages.ts'
import { decide } from './decide.ts'
import { emitCuda } from './emit.ts'
import type { EmitFacts } from './recipe.ts'

const lastStage = (ir: KernelIR): KernelIR => atStage(ir, LAST_STAGE, specialise(usualWorld, { x: [128] }))

const barriersOf = (ir: KernelIR): (readonly [string, boolean])[] =>
  [...walk(ir.body)]
    .filter(({ op }) => op === 'meet' || op === 'barrier')
    .map(({ op, attributes }) => [op, attributes.joins === true])

const lines = (text: string): number => text.match(/__syncthreads\(\);/g)?.length ?? 0

describe('scratch memory', () => {
  /** Records a kernel with four prefix sums, each of which exchanges the elements of a tile through scratch memory. */
  const exchanging = (side: number) =>
    kernel('exchanging', { x: tensor('f32', 2) }, (t, { x }) => {
      const tile = t.load(x.tile([0, 0], [side, side]))
      const moved = [1, 2, 3, 4].reduce((sum, axis) => sum.cumsum(axis % 2), tile)
      t.store(x.tile([0, 0], [side, side]), moved.sub(moved.maximum(1).expand(1)))
    }).record({ world: 1 })
  const regions = (ir: KernelIR, facts: EmitFacts): number[] =>
    [...decide(atStage(ir, LAST_STAGE, facts), facts).scratch].flatMap(([{ op }, { at }]) =>
      op === 'cumsum' ? [at] : [],
    )
  const facts = specialise(usualWorld, { x: [128, 128] })

  it('uses one region of scratch memory per exchange if shared memory suffices, otherwise one region for all exchanges', () => {
    const [few, many] = [exchanging(64), exchanging(128)]
    expect(new Set(regions(few, facts)).size).toBe(4)
    expect(new Set(regions(many, facts)).size).toBe(1)
    // In both kernels, the result of the first prefix sum is also converted to another layout, so other threads read
    // its elements.
    const meetings = (ir: KernelIR): number =>
      [...walk(atStage(ir, LAST_STAGE, facts).body)].filter(({ op }) => op === 'meet').length
    expect(meetings(many) - meetings(few)).toBeGreaterThanOrEqual(3)
  })

  it('uses a separate region for the indices of gathered rows, because later ops read these indices', () => {
    const gathering = kernel('gathering', { x: tensor('f32', 2), at: tensor(i32, 1) }, (t, { x, at }) => {
      const rows = x.rows(t.load(at.tile([0], [128]))).tile(0, 128)
      const sums = t
        .load(x.tile([0, 0], [128, 128]))
        .cumsum(1)
        .cumsum(0)
        .cumsum(1)
        .cumsum(0)
      t.store(x.tile([0, 0], [128, 128]), sums.add(t.load(rows)))
    }).record({ world: 1 })
    const { scratch } = decide(atStage(gathering, LAST_STAGE, facts), facts)
    const [[, table]] = [...scratch].filter(([{ op }]) => op === 'rows')
    const others = [...scratch].filter(([{ op }]) => op !== 'rows').map(([, { at }]) => at)
    expect(new Set(others).size).toBe(1)
    expect(others).not.toContain(table.at)
  })

  it('rejects a kernel whose largest exchange does not fit in shared memory, and names that exchange', () => {
    const given = specialise({ ...usualWorld, device: limitsOf(describedGpu({ sharedBytes: 49152 })) }, {})
    expect(() => emitCuda(lower(exchanging(128)), given)).toThrow(
      /needs \d+ bytes of shared memory, a program has 49152: .*The largest exchange of elements between threads: cumsum needs 65536 bytes/,
    )
  })
})

describe('two thread barriers in a row', () => {
  it('merges two thread barriers', () => {
    const twice = kernel('twice', { x: tensor(i32, 1) }, (t, { x }) => {
      t.barrier()
      t.barrier()
      t.store(x.at([0]), 1)
    })
    const ir = twice.record({ world: 1 })
    expect(barriersOf(lastStage(ir))).toEqual([
      ['barrier', false],
      ['barrier', true],
    ])
    expect(lines(bodyOf(emit(ir, [128])))).toBe(1)
  })

  it('merges two thread barriers if the first barrier ends the exchange of a value between threads', () => {
    const seen = kernel('seen', { x: tensor(i32, 1) }, (t, { x }) => {
      const loaded = t.load(x.at([0]), { order: 'acquire', scope: 'device' })
      t.store(x.at([1]), loaded)
    })
    expect(barriersOf(lastStage(seen.record({ world: 1 })))).toEqual([['meet', true]])
  })

  it('does not merge two thread barriers if memory is accessed between them', () => {
    const between = kernel('between', { x: tensor(i32, 1) }, (t, { x }) => {
      t.barrier()
      t.store(x.at([0]), 1)
      t.barrier()
    })
    expect(barriersOf(lastStage(between.record({ world: 1 })))).toEqual([
      ['barrier', false],
      ['barrier', false],
    ])
  })

  it('does not merge two thread barriers if a block is executed between them, even after an exchange', () => {
    const afterLast = kernel('afterLast', { x: tensor(i32, 1) }, (t, { x }) => {
      t.last(() => t.store(x.at([0]), 1))
      t.barrier()
    })
    expect(barriersOf(lastStage(afterLast.record({ world: 1 }))).at(-1)).toEqual(['barrier', false])
  })
})
