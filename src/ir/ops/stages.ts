/**
 * Defines the ops that the compiler stages of a GPU target insert into a lowered kernel. Authors of kernels cannot
 * write the ops in this file. The ops that stages insert have records like all other ops, so that the IR after each
 * stage can be verified, printed and checked.
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
 * The stages of a target insert the ops of this file only after pipelines have been lowered to roles, so the lowering
 * of pipelines never sees these ops.
 */
const ahead = 'consumer'

/**
 * The record fields that are equal for all ops that order accesses among the threads of a role and the bulk copy
 * engine.
 */
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
    summary: `advances the ${side} epoch of a flag set once per launch, without writing a flag, because flag-in-data words carry the epoch`,
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
      'a barrier of all programs of a cluster: everything that a program did before the barrier happens before everything that any of these programs does after the barrier',
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
    summary:
      'converts a fragment to another layout: the threads exchange the elements that they hold in registers',
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
    summary:
      'combines the partial results of a reduction, one from each warp of a role, into one result that every warp gets',
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
      'stores f32 numbers as flag-in-data words, which hold the epoch of this launch in the two lowest bits of the mantissa',
    infer(node) {
      expectInputs(node, 3)
      const { dtype, shape } = expectWords(node)
      const value = expectValue(node.inputs[2], 'the value')
      if (typeName(value) !== typeName(valueType(dtype, shape)))
        fail(`the value is ${typeName(value)}, but the memory holds ${typeName(valueType(dtype, shape))}`)
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
      'loads the numbers in flag-in-data words, without the bits that hold the epoch; the enclosing `until` repeats the load until all words have arrived',
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
      'repeats its block until all flag-in-data words that the block loads hold the epoch of this launch',
    infer(node): Type {
      expectInputs(node, 0)
      if (node.blocks.length !== 1) fail(`owns 1 block, has ${node.blocks.length}`)
      const nodes = [...walk(node.blocks[0])]
      if (!nodes.some(({ op }) => op === 'words.take')) fail('the block must contain a words.take')
      const harmful = nodes
        .map(opOf)
        .findIndex(({ effect, waitsFor }) => ['write', 'sync'].includes(effect) && waitsFor !== 'threads')
      if (harmful >= 0) fail(`the block would repeat ${nodes[harmful].op}, which must be executed only once`)
      return voidType
    },
  },
  meet: {
    ...ofThreads,
    meets: 'barrier',
    order: 'both',
    scope: 'threads',
    summary: 'a barrier of the threads of a role, or of the threads of each warpgroup of a role',
    infer(node) {
      expectInputs(node, 0)
      const { of } = node.attributes
      if (of !== undefined && of !== 'warpgroup')
        fail(`the attribute \`of\` is ${String(of)}, but must be warpgroup or absent`)
      return voidType
    },
  },
  'fence.async': {
    ...ofThreads,
    order: 'both',
    scope: 'threads',
    summary:
      "orders earlier accesses by a role's threads, in shared memory or in all memory, before later accesses that the copy engine or the matrix unit makes for the role",
    infer(node) {
      expectInputs(node, 0)
      const { space } = node.attributes
      if (space !== 'shared' && space !== 'all')
        fail(`the attribute \`space\` is ${String(space)}, but must be shared or all`)
      return voidType
    },
  },
  drain: {
    ...ofThreads,
    needs: storeInFlight,
    order: 'releases',
    scope: 'threads',
    summary:
      'waits until the stores that the copy engine makes for a role are complete, or with `reads` only until they have read their sources; the last `pending` boxes may stay in flight; with `by` = threads, waits instead for the asynchronous copies of the threads',
    infer(node) {
      expectInputs(node, 0)
      const { of, pending, by } = node.attributes
      if (by !== undefined && (by !== 'threads' || of !== undefined))
        fail(`the attribute \`by\` is ${String(by)}, but must be absent, or threads without \`of\``)
      if (of !== undefined && of !== 'reads')
        fail(`the attribute \`of\` is ${String(of)}, but must be reads or absent`)
      if (pending !== undefined && (of !== 'reads' || !Number.isInteger(pending) || Number(pending) < 1))
        fail(
          `the attribute \`pending\` is ${String(pending)}, but must be a whole number of at least 1, with \`of\` = reads`,
        )
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
      'executes its block, which contains one wait, unless the role has already waited for that flag; remembers the first 32 flags of a set (`set`), or only the most recent flag (`last`)',
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
