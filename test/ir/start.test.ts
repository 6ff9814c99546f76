/**
 * Tests the rules for the start of a program (src/ir/start.ts): a kernel for a GPU that lacks an op at its start, or has
 * it at another place, is refused.
 */
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, i32, kernel, tensor, type Kernel } from 'arke'
import { Block, type Attributes, type KernelIR, type Node } from '../../src/ir/node.ts'
import { startOrder, type OpName } from '../../src/ir/ops/index.ts'
import { print } from '../../src/ir/print.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { verify } from '../../src/ir/verify.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, usualWorld } from '../../src/targets/cuda/facts.ts'
import { renderCuda } from '../../src/targets/cuda/emit/emit.ts'
import { barriersType, flagsType } from '../../src/ir/type.ts'
import { node, param } from './build.ts'

/** A pipeline that waits for a flag before it copies, and signals another flag. */
const pulling = kernel(
  'pulling',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2), ready: flags(), done: flags() },
  (t, { a, b, c, ready, done }) => {
    const [as, bs] = [t.shared(bf16, [64, 64]), t.shared(bf16, [64, 128])]
    const sum = t.pipeline([4], t.zeros(f32, [64, 128]), ([k], acc) => {
      t.wait(ready)
      t.copy(a.tile([0, k], [64, 64]), as)
      t.copy(b.tile([k, 0], [64, 128]), bs)
      return t.dot(as, bs, acc)
    })
    t.copy(sum, c.tile([0, 0], [64, 128]))
    t.signal(done)
  },
)

/** A pipeline that uses no flags, so that the producer may copy before the previous launch has ended. */
const early = kernel(
  'early',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  (t, { a, b, c }) => {
    const [as, bs] = [t.shared(bf16, [64, 64]), t.shared(bf16, [64, 128])]
    const sum = t.pipeline([4], t.zeros(f32, [64, 128]), ([k], acc) => {
      t.copy(a.tile([0, k], [64, 64]), as)
      t.copy(b.tile([k, 0], [64, 128]), bs)
      return t.dot(as, bs, acc)
    })
    t.copy(sum, c.tile([0, 0], [64, 128]))
  },
)

/** A kernel that polls a number, for any length of time. */
const polling = kernel('polling', { n: tensor(i32, 1) }, (t, { n }) => {
  const look = () => t.load(n.at([0]), { order: 'acquire' })
  t.while(look(), (seen) => seen.eq(0), look)
})

const factsFor = (one: Kernel) => specialise(usualWorld, shapesOf(one.record({ world: 2 })))
const lastStage = (one: unknown): KernelIR =>
  atStage((one as Kernel).record({ world: 2 }), LAST_STAGE, factsFor(one as Kernel))

const startOf = ({ body }: KernelIR): Node[] => body.nodes.filter(({ op }) => op.startsWith('start.'))
const attributesOf = (ir: KernelIR, op: OpName): Attributes =>
  startOf(ir).find((one) => one.op === op)!.attributes

/** Returns the kernel without the nodes of an op. */
function without(ir: KernelIR, op: OpName): KernelIR {
  const copier = new Copier((one) => (one.op === op ? 'drop' : undefined))
  return { ...ir, body: copier.copyBlock(ir.body) }
}

/** Returns the kernel with the nodes of its body in another order. */
function reordered(ir: KernelIR, change: (nodes: readonly Node[]) => readonly Node[]): KernelIR {
  const body = new Block()
  body.params.push(...ir.body.params)
  body.nodes.push(...change(ir.body.nodes))
  return { ...ir, body }
}

describe('the last stage for a GPU begins with the start of a program', () => {
  it('all ops of the start, in their order', () => {
    const ir = lastStage(pulling)
    expect(startOf(ir).map(({ op }) => op)).toEqual(startOrder)
    const before = ir.body.nodes.slice(0, ir.body.nodes.indexOf(startOf(ir)[0]))
    expect(new Set(before.map(({ op }) => op))).toEqual(new Set(['staging', 'shared', 'barriers']))
    expect(attributesOf(ir, 'start.epochs').sides).toEqual(['wait', 'signal'])
    expect(attributesOf(ir, 'start.advance').sides).toEqual(['signal', 'wait'])
  })

  it('is printed', () => {
    const text = print(lastStage(pulling))
    expect(text).toMatch(/start\.barriers\(%\d+, %\d+, arrivals=\[1,4\]\)/)
    expect(text).toMatch(/start\.epochs\(ready, done, sides=\[wait,signal\]\)/)
    expect(text).toMatch(/start\.meet\(%\d+\)/)
    expect(text).toMatch(/start\.advance\(done, ready, sides=\[signal,wait\], thread=\d+\)/)
  })

  it('names the role that starts early, and the threads that only arrive', () => {
    const ir = lastStage(early)
    expect(attributesOf(ir, 'start.after')).toEqual({ early: 'producer', reads: ['a', 'b'] })
    expect(attributesOf(ir, 'start.meet')).toEqual({ early: 'producer', arriving: 128 })
    expect(attributesOf(lastStage(pulling), 'start.meet')).toEqual({})
  })

  it('does not let the next launch start if a loop may poll for any time', () => {
    expect(startOf(lastStage(polling)).map(({ op }) => op)).not.toContain('start.next')
  })
})

describe('the verifier refuses a kernel', () => {
  const ir = lastStage(pulling)
  it.each([
    ['start.barriers', /barriers: needs start\.barriers, which initialises it/],
    ['start.after', /needs start\.after, because no op waits for the previous launch/],
    ['start.epochs', /needs start\.epochs, which reads the epoch ready \(wait\)/],
    ['start.meet', /barriers: needs start\.meet, because one thread initialises it for all/],
    ['start.advance', /needs start\.advance, which advances the epoch ready \(wait\)/],
  ] as const)('without %s', (op, problem) => {
    verify(ir)
    expect(() => verify(without(ir, op))).toThrow(problem)
  })

  it('that advances epochs before the threads have met', () => {
    const signals = kernel('signals', { done: flags() }, (t, { done }) => t.signal(done))
    const made = lastStage(signals)
    verify(made)
    expect(() => verify(without(made, 'start.meet'))).toThrow(/other threads may still read the epochs/)
  })

  it('whose start is in another order, or not at its start', () => {
    const isMeeting = ({ op }: Node): boolean => op === 'start.meet'
    const meetFirst = reordered(ir, (nodes) => {
      const first = nodes.findIndex(({ op }) => op === 'start.after')
      const others = nodes.filter((one) => !isMeeting(one) && one.op !== 'start.aborted')
      return [...others.slice(0, first), node('start.meet'), ...others.slice(first)]
    })
    expect(() => verify(meetFirst)).toThrow(/start\.after: is at the start after start\.meet/)
    const atEnd = reordered(ir, (nodes) => [...nodes, node('start.next')])
    expect(() => verify(atEnd)).toThrow(/start\.next: this op must be at the start of the kernel/)
  })

  it('that lets the next launch start, and may poll for any time', () => {
    const made = lastStage(polling)
    const next = reordered(made, (nodes) => {
      const after = nodes.findIndex(({ op }) => op === 'start.after')
      return [...nodes.slice(0, after + 1), node('start.next'), ...nodes.slice(after + 1)]
    })
    expect(() => verify(next)).toThrow(/while: may poll for any time, but start\.next/)
  })
})

describe('the ops of the start refuse', () => {
  const flagSet = param(flagsType(1), 'flags')
  const barriers = node('barriers', [], { count: 2, arrivals: 1 })
  it('counts that do not belong to their inputs', () => {
    expect(() => node('start.barriers', [barriers], { arrivals: [1, 2] })).toThrow(/a count for each/)
    expect(() => node('start.barriers', [barriers], { arrivals: [0] })).toThrow(/a count for each/)
    expect(() => node('start.barriers', [param(barriersType(0, 1))], { arrivals: [1] })).toThrow(
      /initialises barriers where they are declared/,
    )
    expect(() => node('start.epochs', [flagSet], { sides: [] })).toThrow(/a side for each/)
    expect(() => node('start.epochs', [flagSet], { sides: ['left'] })).toThrow(/is not signal or wait/)
  })
  it('to end the program for another reason, or to let threads go on without a role that starts early', () => {
    expect(() => node('start.meet', [node('const', [], { dtype: 'bool', value: 1 })])).toThrow(
      /ends the program for start\.aborted/,
    )
    expect(() => node('start.meet', [], { arriving: 32 })).toThrow(/or neither/)
    expect(() => node('start.meet', [], { early: 'load', arriving: 32, waiting: 32 })).toThrow(
      /waits in any case/,
    )
    expect(() => node('start.after', [], { early: 'load' })).toThrow(/or neither/)
    expect(() => node('start.advance', [flagSet], { sides: ['wait'] })).toThrow(/needs a thread/)
  })
})

it('the text is rendered from the start: it makes as many arrivals as the barriers expect', () => {
  const ir = lastStage(pulling)
  const facts = factsFor(pulling as unknown as Kernel)
  expect(renderCuda(ir, facts).source).toContain('__syncthreads_or(is_stopped)')
  expect(renderCuda(without(ir, 'start.next'), facts).source).not.toContain('next_kernel_may_start();')
  const copier: Copier = new Copier((one) =>
    one.op === 'start.barriers'
      ? copier.emit(
          one.op,
          one.inputs.map((input) => copier.get(input)),
          { arrivals: [1, 1] },
        )
      : undefined,
  )
  const other = { ...ir, body: copier.copyBlock(ir.body) }
  expect(() => renderCuda(other, facts)).toThrow(/initialised for 1 arrivals, and the threads make 4/)
})
