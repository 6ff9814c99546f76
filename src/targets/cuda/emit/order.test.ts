import { describe, expect, it } from 'vitest'

import { bodyOf, emit } from '../../../../test/cuda/emitting.ts'
import { walk, type KernelIR } from '../../../ir/node.ts'
import { i32 } from '../../../lang/dtypes.ts'
import { kernel, tensor } from '../../../lang/kernel.ts'
import { atStage, LAST_STAGE, specialise, usualWorld } from '../facts.ts'

const lastStage = (ir: KernelIR): KernelIR => atStage(ir, LAST_STAGE, specialise(usualWorld, { x: [128] }))

const barriersOf = (ir: KernelIR): (readonly [string, boolean])[] =>
  [...walk(ir.body)]
    .filter(({ op }) => op === 'meet' || op === 'barrier')
    .map(({ op, attributes }) => [op, attributes.joins === true])

const lines = (text: string): number => text.match(/__syncthreads\(\);/g)?.length ?? 0

describe('two thread barriers in a row', () => {
  it('are one', () => {
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

  it('are one if a value was exchanged before', () => {
    const seen = kernel('seen', { x: tensor(i32, 1) }, (t, { x }) => {
      const loaded = t.load(x.at([0]), { order: 'acquire', scope: 'device' })
      t.store(x.at([1]), loaded)
    })
    expect(barriersOf(lastStage(seen.record({ world: 1 })))).toEqual([['meet', true]])
  })

  it('stay two if memory was accessed in between', () => {
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

  it('stay two if a block was executed in between, even after an exchange', () => {
    const afterLast = kernel('afterLast', { x: tensor(i32, 1) }, (t, { x }) => {
      t.last(() => t.store(x.at([0]), 1))
      t.barrier()
    })
    expect(barriersOf(lastStage(afterLast.record({ world: 1 }))).at(-1)).toEqual(['barrier', false])
  })
})
