/**
 * Tests the rules for exchanges of elements (src/ir/exchange.ts): the last stage for a GPU lists the steps of each
 * exchange, the threads meet between them, and the text executes exactly these steps.
 */
import { describe, expect, it } from 'vitest'
import { f32, i32, kernel, tensor, type Kernel } from 'arke'
import { exchangeOf, type ExchangeStep } from '../../src/ir/exchange.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { print } from '../../src/ir/print.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { verify } from '../../src/ir/verify.ts'
import { renderCuda } from '../../src/targets/cuda/emit/emit.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, usualWorld } from '../../src/targets/cuda/facts.ts'

const exchanging = kernel('exchanging', { x: tensor(f32, 2), n: tensor(i32, 1) }, (t, { x, n }) => {
  const tile = t.load(x.tile([0, 0], [64, 64]))
  const seen = t.load(n.at([0]), { order: 'acquire', scope: 'device' })
  const rows = x.rows(t.load(n.tile([0], [64]))).tile(0, 64)
  const sums = tile.cumsum(1).add(t.load(rows)).add(tile.transpose())
  const all = sums.add(sums.sum(1).sum(0))
  t.store(x.tile([0, 0], [64, 64]), all)
  t.last(() => t.store(n.at([1]), seen))
}) as unknown as Kernel

const recorded = exchanging.record({ world: 1 })
const facts = specialise(usualWorld, shapesOf(recorded))
const ir = atStage(recorded, LAST_STAGE, facts)
const exchanged = (op: string): Node =>
  [...walk(ir.body)].find((node) => node.op === op && exchangeOf(node).length > 0)!

/** Returns the kernel with the given steps in every exchange of the op `op`. */
function withSteps(op: string, steps: readonly string[]): KernelIR {
  const copier: Copier = new Copier((node) => {
    if (node.op !== op || exchangeOf(node).length === 0) return undefined
    const inputs = node.inputs.map((input) => copier.get(input))
    const blocks = node.blocks.map((block) => copier.copyBlock(block))
    return copier.emit(node.op, inputs, { ...node.attributes, exchange: steps }, blocks, node.site)
  })
  return { ...ir, body: copier.copyBlock(ir.body) }
}

const leader: readonly ExchangeStep[] = ['write', 'meet', 'read', 'meet']

describe('the last stage for a GPU lists the steps of an exchange', () => {
  it.each([
    ['transpose', ['write', 'meet', 'read']],
    ['cumsum', ['write', 'meet', 'change', 'meet', 'read']],
    ['rows', ['write', 'meet']],
    ['load', leader],
    ['reduce.sum', leader],
    ['last', leader],
  ])('of %s', (op, steps) => {
    expect(exchangeOf(exchanged(op))).toEqual(steps)
  })

  it('and prints them', () => {
    expect(print(ir)).toMatch(/cumsum\(%\d+, axis=1, exchange=\[write,meet,change,meet,read\]\)/)
  })
})

describe('the verifier refuses an exchange', () => {
  it.each([
    ['transpose', ['write', 'read'], /transpose: .* threads meet after it/],
    ['cumsum', ['write', 'meet', 'change', 'read'], /needs one meet between change and read/],
    ['load', ['write', 'meet', 'meet', 'read'], /needs one meet between meet and meet/],
    ['load', ['read', 'meet'], /begins with write/],
    ['load', [], /begins with write/],
    ['load', ['write', 'meet', 'send'], /has no step send: its steps are write, meet, change, read/],
  ])('of %s with the steps %s', (op, steps, problem) => {
    verify(ir)
    expect(() => verify(withSteps(op, steps))).toThrow(problem)
  })
})

describe('the text of an exchange', () => {
  const barriers = (given: KernelIR): number =>
    renderCuda(given, facts).source.match(/__syncthreads\(\);/g)?.length ?? 0

  it('has the thread barriers that the stage lists', () => {
    expect(barriers(withSteps('rows', ['write', 'meet', 'meet'])) - barriers(ir)).toBe(1)
    expect(barriers(ir) - barriers(withSteps('transpose', ['write', 'read']))).toBe(1)
  })

  it('has no exchange that the stage does not list', () => {
    expect(() => renderCuda(withSteps('transpose', []), facts)).toThrow(/the IR has no exchange/)
    expect(() => renderCuda(withSteps('transpose', ['write', 'meet', 'change']), facts)).toThrow(
      /its exchange has no step change/,
    )
  })
})
