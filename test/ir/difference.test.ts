/**
 * Tests the comparison of two forms of a kernel, which finds exactly the nodes that were added, removed, moved or
 * changed.
 */
import { describe, expect, it } from 'vitest'
import { f32, flags, kernel, tensor } from '../../src/index.ts'
import { difference, type Details, type Difference } from '../../src/ir/difference.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import type { OpName } from '../../src/ir/ops/index.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, usualWorld } from '../../src/targets/cuda/facts.ts'

const piped = kernel(
  'piped',
  { a: tensor(f32, 2), c: tensor(f32, 2), ready: flags() },
  (t, { a, c, ready }) => {
    const tile = t.shared(f32, [16, 32])
    const sum = t.pipeline([6], t.zeros(f32, [16, 32]), ([k], acc) => {
      t.wait(ready)
      t.copy(a.tile([0, k], [16, 32]), tile)
      return acc.add(t.load(tile))
    })
    t.if(t.program.eq(0), () => t.store(c.tile([0, 0], [16, 32]), sum.mul(2)))
    t.signal(ready)
  },
)
const recorded = piped.record({ world: 2 })
const ir = atStage(recorded, LAST_STAGE, specialise(usualWorld, shapesOf(recorded)))

const nothing = (): Details => ({})
const compare = (here: KernelIR, there: KernelIR): string[] =>
  difference([here.body, nothing], [there.body, nothing]).map(textOf)
const textOf = (one: Difference): string =>
  one.kind === 'differs'
    ? `${one.node.op}: ${one.what} ${String(one.here)} ${String(one.there)}`
    : `${one.node.op}: ${one.kind}`

/** Returns a copy of the kernel in which `change` replaces or drops the nth node with the given op. */
function changed(op: OpName, nth: number, change: (node: Node, copier: Copier) => Node | 'drop'): KernelIR {
  let left = nth
  const copier: Copier = new Copier((node) =>
    node.op === op && left-- === 0 ? change(node, copier) : undefined,
  )
  const body = copier.copyBlock(ir.body)
  expect(left).toBeLessThan(0)
  return { ...ir, body }
}
const dropped = (op: OpName, nth = 0): KernelIR => changed(op, nth, () => 'drop')
const again = (node: Node, copier: Copier, inputs: readonly Node[], attributes = node.attributes): Node =>
  copier.emit(
    node.op,
    inputs.map((input) => copier.get(input)),
    attributes,
    node.blocks.map((block) => copier.copyBlock(block)),
    node.site,
  )

describe('the difference of two forms of a kernel', () => {
  it('is nothing if they are equal', () => {
    expect(compare(ir, ir)).toEqual([])
    expect(compare(ir, { ...ir, body: new Copier().copyBlock(ir.body) })).toEqual([])
  })

  it.each(['fence.async', 'meet', 'signal', 'barrier.arrive', 'store'] as const)(
    'is a %s of one form only',
    (op) => {
      expect(compare(ir, dropped(op))).toEqual([`${op}: only here`])
      expect(compare(dropped(op), ir)).toEqual([`${op}: only there`])
    },
  )

  it('is a node that has moved, within its block or into another one', () => {
    const nodes = [...walk(ir.body)].filter(({ op }) => op === 'fence.async')
    expect(nodes.length).toBeGreaterThan(0)
    const [fence] = nodes
    const moved = (before: OpName): KernelIR => {
      let isDone = false
      const copier: Copier = new Copier((node) => {
        if (node === fence) return 'drop'
        if (node.op !== before || isDone) return undefined
        isDone = true
        copier.emit(fence.op, [], fence.attributes, [], fence.site)
        return undefined
      })
      return { ...ir, body: copier.copyBlock(ir.body) }
    }
    expect(compare(ir, moved('roles'))).toEqual(['fence.async: moved'])
    expect(compare(ir, moved('signal'))).toEqual(['fence.async: moved'])
  })

  it('is an attribute', () => {
    const other = changed('fence.async', 0, (node, copier) => again(node, copier, [], { space: 'shared' }))
    expect(compare(ir, other)).toEqual(['fence.async: space all shared'])
  })

  it('is another operand, if both forms have it', () => {
    const other = changed('mul', 0, (node, copier) => again(node, copier, [...node.inputs].reverse()))
    expect(compare(ir, other).filter((one) => one.startsWith('mul'))).toEqual([
      'mul: operands undefined undefined',
    ])
  })

  it('is what is known about a node', () => {
    const layout = (text: string) => (node: Node) => (node.op === 'mul' ? { layout: text } : {})
    const found = difference([ir.body, layout('rows')], [ir.body, layout('columns')]).map(textOf)
    expect(new Set(found)).toEqual(new Set(['mul: layout rows columns']))
  })

  it('includes the nodes inside a node that only one form has', () => {
    const without = dropped('if')
    expect(compare(ir, without)).toEqual(expect.arrayContaining(['if: only here', 'store: only here']))
  })
})
