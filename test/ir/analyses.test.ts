/** No analysis passes over an op that has no record: it would take it for one without effects. */
import { describe, expect, it } from 'vitest'
import { analyses } from '../../src/ir/analysis.ts'
import { Node, type KernelIR } from '../../src/ir/node.ts'
import type { OpName } from '../../src/ir/ops/index.ts'
import { lower } from '../../src/ir/stages.ts'
import { valueType, voidType } from '../../src/ir/type.ts'
import { f32, flags, kernel, tensor } from '../../src/index.ts'
// The modules that register analyses.
import '../../src/ir/moves.ts'
import '../../src/ir/passes/courier.ts'
import '../../src/ir/traffic/plan.ts'
import '../../src/targets/cpu/lower/lower.ts'
import '../../src/targets/cuda/emit/emit.ts'

const copying = kernel(
  'copying',
  { x: tensor(f32, 2), y: tensor(f32, 2), ready: flags() },
  (t, { x, y, ready }) => {
    const tile = t.shared(f32, [16, 16])
    const sum = t.pipeline([4], t.zeros(f32, [16, 16]), ([k], acc) => {
      t.wait(ready)
      t.copy(x.tile([k, 0], [16, 16]), tile)
      return t.dot(tile, tile, acc)
    })
    t.store(y.tile([0, 0], [16, 16]), sum)
    t.signal(ready)
  },
)

const unknown = 'mystery' as OpName

/** The same kernel with a node of an op that nobody has a record of, in each of its blocks in turn. */
function* withUnknown(ir: KernelIR): Generator<KernelIR> {
  const visit = function* (block: KernelIR['body']): Generator<KernelIR['body']> {
    for (const type of [voidType, valueType('f32', [16, 16])]) {
      block.nodes.push(new Node(unknown, type, []))
      yield block
      block.nodes.pop()
    }
    for (const node of block.nodes) for (const inner of node.blocks) yield* visit(inner)
  }
  for (const _ of visit(ir.body)) yield { ...ir }
}

describe('analyses', () => {
  const recorded = copying.record({ world: 2 })

  it('are registered', () => {
    expect([...analyses.keys()].length).toBeGreaterThanOrEqual(14)
  })

  it.each([...analyses])('%s: refuses an op without a record', (_, analyse) => {
    for (const ir of [recorded, lower(recorded)])
      for (const broken of withUnknown(ir)) expect(() => analyse(broken)).toThrow(/mystery/)
  })
})
