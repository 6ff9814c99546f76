/**
 * The records of ops that the compiler stages of a GPU target insert into a lowered kernel. Authors
 * of kernels cannot write the ops in this file. The ops that stages insert have records like all other ops, so that the
 * IR after each stage can be verified, printed and checked.
 */
import { round } from '../dtype.ts'
import { walk } from '../node.ts'
import { typeName, valueType, voidType, type RefType, type Type } from '../type.ts'
import { storeInFlight } from './companions.ts'
import {
  expectInputs,
  expectRef,
  expectValue,
  fail,
  noMemory,
  straight,
  yieldsNothing,
  type Companion,
  type Op,
  type Unplaced,
} from './op.ts'
import { expectFlagSet } from './start.ts'
import { opOf } from './table.ts'

/** The op that combines the partial results of warps needs a reduction as its input. */
const ownReduction: Companion = {
  where: 'role',
  what: 'a reduction as its input',
  is: ({ inputs: [input] }, other) => input === other && opOf(other).elements === 'reduced',
}

/** Flag-in-data words hold the epoch of a flag set, so the kernel must advance that epoch. */
const epochOf = (side: 'signal' | 'wait'): Companion => ({
  where: 'kernel',
  what: `advance.${side} of its flags`,
  is: ({ inputs: [, flags] }, { op, inputs }) => op === `advance.${side}` && inputs[0] === flags,
})

/**
 * Checks that the inputs are a tile of f32 flag-in-data words in a tensor, and the flags whose epochs the words
 * hold.
 */
function expectWords(node: Unplaced): RefType {
  const ref = expectRef(node.inputs[0], 'the places')
  if (ref.dtype !== 'f32') fail(`words are f32, not ${typeName(ref)}`)
  expectFlagSet(node.inputs[1])
  return ref
}

/** Returns a number as a flag-in-data word holds it: the two lowest bits of the f32 mantissa are lost. */
export function carriedBy(x: number): number {
  word.setFloat32(0, round('f32', x))
  word.setUint32(0, word.getUint32(0) & ~3)
  return word.getFloat32(0)
}
const word = new DataView(new ArrayBuffer(4))

/**
 * The low two bits of a flag-in-data word in a given epoch: 1, 2 or 3. The low two bits of a flag-in-data word are
 * never 0, because memory is initially 0.
 */
export const marksOf = (epoch: number): number => (epoch % 3) + 1

/**
 * The stages of a target insert the ops of this file only after pipelines have been lowered to roles, so no producer
 * runs ahead of them.
 */
const ahead = 'consumer'

/** Facts of ops that order accesses among the threads of a role and the bulk copy engine. */
const ofThreads = {
  ...yieldsNothing,
  ...noMemory,
  ...straight,
  ahead,
  effect: 'sync',
  waitsFor: 'threads',
  inserted: 'order',
} as const

const advance = (side: 'signal' | 'wait') =>
  ({
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    ahead,
    effect: 'sync',
    advances: side,
    inserted: 'words',
    summary: `the epoch of a flag set advances on its ${side} side; no flag is written, because flag-in-data words carry the epoch`,
    infer(node) {
      expectInputs(node, 1)
      expectFlagSet(node.inputs[0])
      return voidType
    },
  }) as const satisfies Op

export const stageOps = {
  'cluster.meet': {
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    ahead,
    effect: 'sync',
    meets: 'barrier',
    order: 'both',
    scope: 'rank',
    waitsFor: 'roles',
    place: 'outside roles',
    inserted: 'clusters',
    summary:
      'a barrier of all programs of the cluster: everything that a program did before it happens before everything that any program does after it',
    infer(node) {
      expectInputs(node, 0)
      return voidType
    },
  },
  convert: {
    ...noMemory,
    ...straight,
    inserted: 'layouts',
    effect: 'pure',
    elements: 'same',
    numbers: [0],
    isView: false,
    ahead: 'both',
    operations: 0,
    summary: 'the same fragment in another layout: its threads exchange their elements',
    infer(node) {
      expectInputs(node, 1)
      const type = expectValue(node.inputs[0], 'the operand')
      if (type.shape.length === 0) fail('a scalar has no layout')
      return type
    },
    evaluate: (_, [input]) => input,
  },
  combine: {
    ...noMemory,
    ...straight,
    inserted: 'layouts',
    needs: ownReduction,
    effect: 'pure',
    elements: 'same',
    numbers: 'other',
    isView: false,
    meets: 'exchange',
    ahead: 'both',
    operations: 1,
    summary: 'combines the partial reductions of the warps of a role into one result in all warps',
    infer(node) {
      expectInputs(node, 1)
      return expectValue(node.inputs[0], 'the reduction')
    },
    // The evaluator has no warps, so the input of `combine` is already the complete reduction.
    evaluate: (_, [input]) => input,
  },
  'words.post': {
    ...yieldsNothing,
    ...straight,
    inserted: 'words',
    needs: epochOf('signal'),
    looks: 'signal',
    ahead,
    effect: 'write',
    accesses: [{ at: 0, level: 'global', reads: false, writes: true, values: [2] }],
    order: 'attribute',
    scope: 'attribute',
    summary:
      'stores flag-in-data words, each with the epoch of this launch in the two lowest bits of its mantissa',
    infer(node) {
      expectInputs(node, 3)
      const { dtype, shape } = expectWords(node)
      const value = expectValue(node.inputs[2], 'the value')
      if (typeName(value) !== typeName(valueType(dtype, shape)))
        fail(`the value is ${typeName(value)}, the places hold ${typeName(valueType(dtype, shape))}`)
      return voidType
    },
  },
  'words.take': {
    ...straight,
    inserted: 'words',
    place: 'inside until',
    needs: epochOf('wait'),
    looks: 'wait',
    ahead,
    effect: 'read',
    elements: 'other',
    numbers: 'other',
    isView: false,
    accesses: [{ at: 0, level: 'global', reads: true, writes: false }],
    order: 'attribute',
    scope: 'attribute',
    operations: 0,
    summary:
      'loads flag-in-data words without the bits that carry the epoch; inside `until`, which repeats the load',
    infer(node) {
      expectInputs(node, 2)
      const { dtype, shape } = expectWords(node)
      return valueType(dtype, shape)
    },
  },
  until: {
    ...yieldsNothing,
    ...noMemory,
    effect: 'control',
    owner: 'none',
    completes: 'at once',
    flow: 'repeats',
    state: 'yielded',
    place: 'anywhere',
    inserted: 'words',
    needs: 'nothing',
    ahead,
    varies: 'never',
    waitsFor: 'programs',
    meets: 'never',
    advances: 'none',
    looks: 'none',
    summary:
      'repeats its block until all flag-in-data words that the block takes carry the epoch of this launch',
    infer(node): Type {
      expectInputs(node, 0)
      if (node.blocks.length !== 1) fail(`owns 1 block, has ${node.blocks.length}`)
      const nodes = [...walk(node.blocks[0])]
      if (!nodes.some(({ op }) => op === 'words.take')) fail('has no words.take in its block')
      const harmful = nodes
        .map(opOf)
        .findIndex(({ effect, waitsFor }) => ['write', 'sync'].includes(effect) && waitsFor !== 'threads')
      if (harmful >= 0) fail(`repeats ${nodes[harmful].op}, which may be executed only once`)
      return voidType
    },
  },
  meet: {
    ...ofThreads,
    meets: 'barrier',
    order: 'both',
    scope: 'threads',
    summary:
      'the threads of the role, or of each of its warpgroups, meet: what each did before comes before what any does after',
    infer(node) {
      expectInputs(node, 0)
      const { of } = node.attributes
      if (of !== undefined && of !== 'warpgroup')
        fail(`of ${String(of)}: there is warpgroup, and the role without it`)
      return voidType
    },
  },
  'fence.async': {
    ...ofThreads,
    order: 'both',
    scope: 'threads',
    summary:
      'orders earlier accesses by the role, in shared or in all memory, before later accesses by engines on its behalf',
    infer(node) {
      expectInputs(node, 0)
      const { space } = node.attributes
      if (space !== 'shared' && space !== 'all') fail(`of ${String(space)} memory: there is shared and all`)
      return voidType
    },
  },
  drain: {
    ...ofThreads,
    needs: storeInFlight,
    order: 'releases',
    scope: 'threads',
    summary:
      'waits until the stores by engines on behalf of the role are complete, or with `reads` until they have read their sources, except the last `pending` boxes; by `threads`, until their asynchronous copies are complete',
    infer(node) {
      expectInputs(node, 0)
      const { of, pending, by } = node.attributes
      if (by !== undefined && (by !== 'threads' || of !== undefined))
        fail(`by ${String(by)}: there is threads, of all copies, and engines without it`)
      if (of !== undefined && of !== 'reads') fail(`of ${String(of)}: there is reads, and all without it`)
      if (pending !== undefined && (of !== 'reads' || !Number.isInteger(pending) || Number(pending) < 1))
        fail(`leaves ${String(pending)} boxes in flight: at least one, and of reads`)
      return voidType
    },
  },
  once: {
    ...yieldsNothing,
    ...noMemory,
    effect: 'control',
    owner: 'none',
    completes: 'at once',
    flow: 'branches',
    state: 'yielded',
    place: 'inside loops',
    inserted: 'order',
    needs: 'nothing',
    ahead,
    varies: 'never',
    waitsFor: 'nobody',
    meets: 'never',
    advances: 'none',
    looks: 'none',
    summary:
      'skips its block, a wait and what follows from it, if the role has waited for this flag before: of a `set`, for any of its first 32; else `last`',
    infer(node): Type {
      expectInputs(node, 0)
      if (node.blocks.length !== 1) fail(`owns 1 block, has ${node.blocks.length}`)
      const waits = node.blocks[0].nodes.filter(({ op }) => op === 'wait')
      if (waits.length !== 1) fail(`skips 1 wait, has ${waits.length} in its block`)
      return voidType
    },
  },
  'advance.signal': advance('signal'),
  'advance.wait': advance('wait'),
} as const satisfies Record<string, Op>
