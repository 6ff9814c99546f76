/**
 * Records and lowers kernels for the tests of pipelines. A lowered kernel is verified, and its results are compared
 * with the recorded kernel, with the producer running ahead of the consumer, behind it, and alternating with it.
 */
import { expect } from 'vitest'
import { f32, flags, i32, kernel, scalar, tensor, type Arguments, type Program } from 'arke'
import { walk, type Block, type KernelIR } from '../../src/ir/node.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { verify } from '../../src/ir/verify.ts'
import { interpret, type Launch, type Memory } from './interpret.ts'

export const params = {
  a: tensor(f32, 2),
  b: tensor(f32, 2),
  c: tensor(f32, 2),
  offsets: tensor(i32, 1),
  counter: tensor(i32, 1),
  n: scalar(i32),
  ready: flags(),
  done: flags(),
}
export type Args = Arguments<typeof params>

export const recorded = (body: (t: Program, args: Args) => void): KernelIR =>
  kernel('k', params, body).record({ world: 2 })
export const ops = (block: Block): string[] => [...walk(block)].map((node) => node.op)
export const count = (block: Block, op: string): number => ops(block).filter((one) => one === op).length

export function rolesOf(ir: KernelIR): { producer: Block; consumer: Block } {
  const roles = [...walk(ir.body)].filter((node) => node.op === 'roles')
  expect(roles).toHaveLength(1)
  const [producer, consumer] = roles[0].blocks
  return { producer, consumer }
}

// The inputs are integers, so that sums are exact in any order.
const matrix = (rows: number, columns: number, seed: number): Memory => ({
  data: Array.from({ length: rows * columns }, (_, i) => ((i * 7 + seed * 13) % 11) - 5),
  extents: [rows, columns],
})
const launch = (): Launch => ({
  tensors: {
    a: matrix(6, 10, 1),
    b: matrix(10, 6, 2),
    c: { data: Array<number>(36).fill(0), extents: [6, 6] },
    offsets: { data: [0, 2, 3, 3, 5], extents: [5] },
    counter: { data: [0, 0, 0, 0], extents: [4] },
  },
  scalars: { n: 3 },
  program: 0,
  programs: 1,
})

/** Returns the lowered kernel after verifying that it computes the same as the recorded one. */
export function lowered(body: (t: Program, args: Args) => void): KernelIR {
  const before = recorded(body)
  const after = lower(before)
  verify(after)
  expect(ops(after.body)).not.toContain('pipeline')
  const visible = (ir: KernelIR, schedule?: Launch['schedule']) => {
    const given = launch()
    const trace = interpret(ir, { ...given, schedule })
    // Another role executes the waits, so the order of waits and other events is left to the checker.
    return { tensors: given.tensors, trace: trace.filter((event) => !event.startsWith('wait')) }
  }
  const wanted = visible(before)
  expect(wanted.trace.length).toBeGreaterThan(0)
  for (const schedule of ['ahead', 'behind', 'turns'] as const)
    expect(visible(after, schedule)).toEqual(wanted)
  return after
}
