/**
 * Defines the control flow ops. Loops carry state: a loop takes initial values, its block takes and yields the current
 * values, and `result` nodes read the final values.
 *
 *   for         (low, high, step, …init)      block (index, …state) -> state
 *   while       (…init)                       block (…state) -> bool; block (…state) -> state
 *   if          (condition)                   block () -> values; block () -> values
 *   persistent  (program, programs, …extents, …init)  block (…indices, …state) -> state
 *   pipeline    (…extents, …init)             block (…indices, …state) -> state
 *   roles       ()                            one block () per role
 *   teams       (program, …sizes)             one block (program, programs) per team; a program executes one of them
 *   last        (arrivals, index?)            block ()
 *
 * In a `persistent` loop, program p of n visits the tiles p, p + n, p + 2 n, … of the space, whose last axis varies
 * fastest. If the loop has clusters, its last axes are the position of a program in its cluster (../clusters.ts). In a
 * `pipeline`, waits and global-to-shared copies run up to `stages` - 1 iterations ahead of the rest of the body. Each
 * role is a group of warps; all roles synchronise after their blocks. The attribute `duties` names the tasks of roles
 * that a compiler pass has created. The block of `last` is executed by the program that makes the last of `arrivals`
 * arrivals. If `last` has an index, it has one counter of arrivals for each index from 0 to `of` - 1.
 */
import type { Block, Node } from '../node.ts'
import { sameType, typeName, valueType, voidType, type Type } from '../type.ts'
import { expectScalar, fail, noMemory, straight, yieldsNothing, type Op, type Unplaced } from './op.ts'

function expectTypes(actual: readonly Node[], wanted: readonly Type[], what: string): void {
  if (actual.length !== wanted.length)
    fail(`${what}: ${actual.length} values where ${wanted.length} are carried`)
  actual.forEach((node, i) => {
    if (!sameType(node.type, wanted[i]))
      fail(`${what}: value ${i} is ${typeName(node.type)}, carried as ${typeName(wanted[i])}`)
  })
}

function expectBlocks(node: Unplaced, count: number): readonly Block[] {
  if (node.blocks.length !== count) fail(`owns ${count} blocks, has ${node.blocks.length}`)
  return node.blocks
}

const i32 = valueType('i32')
/** The value of a constant node. The result is NaN for a node that is not a constant. */
const constantOf = ({ op, attributes }: Node): number => (op === 'const' ? Number(attributes.value) : NaN)
const types = (nodes: readonly Node[]): Type[] => nodes.map((node) => node.type)

function expectCarriable(init: readonly Node[]): void {
  for (const node of init)
    if (node.type.kind !== 'value')
      fail(
        `a loop can carry only values, not ${typeName(node.type)}: refer to memory by its name inside the loop`,
      )
}

/**
 * Checks a loop over a space of `axes` extents. The extents of the space follow `leading` other scalars in the inputs
 * of the loop.
 */
function expectSpaceLoop(node: Unplaced, leading: number): Type {
  const [body] = expectBlocks(node, 1)
  const axes = node.attributes.axes as number
  for (const extent of node.inputs.slice(0, leading + axes)) expectScalar(extent, 'an extent', ['i32'])
  const init = node.inputs.slice(leading + axes)
  expectCarriable(init)
  const indices = Array.from({ length: axes }, () => i32)
  expectTypes(body.params, [...indices, ...types(init)], 'the parameters of the body')
  expectTypes(body.results, types(init), 'the body must return values of the same types as the carried state')
  return voidType
}

/** The maximum number of warps in one program. */
const MOST_WARPS = 32

/** Checks the number of warps of each role, and the sum over all roles. */
function expectWarps(names: readonly string[], warps: readonly number[]): void {
  if (names.length === 0) fail('there is no role: give at least one')
  names.forEach((name, i) => {
    const count = warps[i]
    if (!Number.isInteger(count) || count < 1 || count > MOST_WARPS)
      fail(`the role ${name} has ${count} warps: give a whole number from 1 to ${MOST_WARPS}`)
  })
  const total = warps.reduce((sum, count) => sum + count, 0)
  if (total > MOST_WARPS) fail(`the roles have ${total} warps, but a program has at most ${MOST_WARPS}`)
}

/**
 * The record fields that describe a control-flow op itself. Each node in the blocks of the op is described by its own
 * record.
 */
const control = {
  ...yieldsNothing,
  ...noMemory,
  effect: 'control',
  owner: 'none',
  completes: 'at once',
  waitsFor: 'nobody',
  meets: 'never',
  place: 'anywhere',
  inserted: 'recorded',
  needs: 'nothing',
  ahead: 'both',
  varies: 'never',
  advances: 'none',
  looks: 'none',
} as const

export const controlOps = {
  param: {
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    effect: 'pure',
    elements: 'other',
    numbers: 'other',
    ahead: 'both',
    summary: 'a parameter of a kernel, or of a block such as the body of a loop',
    infer: () => fail('a param cannot be created alone; it is created together with its block'),
  },
  result: {
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    effect: 'pure',
    elements: 'other',
    numbers: 'other',
    ahead: 'both',
    summary: 'one of the values that a loop or branch yields',
    infer(node): Type {
      const from: Node | undefined = node.inputs[0]
      const block: Block | undefined = from?.blocks.at(-1)
      const value: Node | undefined = block?.results[node.attributes.index as number]
      return value?.type ?? fail('there is no such result')
    },
  },
  for: {
    ...control,
    flow: 'repeats',
    state: 'carried',
    summary: 'a loop whose index counts from `low` up to, but not including, `high`',
    infer(node) {
      const [body] = expectBlocks(node, 1)
      for (const bound of node.inputs.slice(0, 3)) expectScalar(bound, 'a bound of the loop', ['i32'])
      const step = constantOf(node.inputs[2])
      if (step < 1) fail(`the step is ${step}, but loops count up by at least 1`)
      const init = node.inputs.slice(3)
      expectCarriable(init)
      expectTypes(body.params, [i32, ...types(init)], 'the parameters of the body')
      expectTypes(
        body.results,
        types(init),
        'the body must return values of the same types as the carried state',
      )
      return voidType
    },
  },
  while: {
    ...control,
    flow: 'repeats',
    state: 'tested',
    // The condition of a `while` loop may poll memory that another program writes.
    waitsFor: 'programs',
    summary: 'a loop that runs as long as the condition is true',
    infer(node) {
      const [condition, body] = expectBlocks(node, 2)
      expectCarriable(node.inputs)
      expectTypes(condition.params, types(node.inputs), 'the parameters of the condition')
      expectTypes(condition.results, [valueType('bool')], 'the condition')
      expectTypes(body.params, types(node.inputs), 'the parameters of the body')
      expectTypes(
        body.results,
        types(node.inputs),
        'the body must return values of the same types as the carried state',
      )
      return voidType
    },
  },
  if: {
    ...control,
    flow: 'branches',
    state: 'yielded',
    summary: 'executes one of two blocks',
    infer(node) {
      const [yes, no] = expectBlocks(node, 2)
      expectScalar(node.inputs[0], 'the condition', ['bool'])
      expectCarriable(yes.results)
      expectTypes(no.results, types(yes.results), 'the two branches must return values of the same types')
      return voidType
    },
  },
  persistent: {
    ...control,
    flow: 'repeats',
    state: 'carried',
    summary: 'a loop that assigns the points of an index space round-robin to the programs of the launch',
    infer: (node) => expectSpaceLoop(node, 2),
  },
  pipeline: {
    ...control,
    flow: 'repeats',
    state: 'carried',
    summary: 'a loop whose waits and copies into shared memory may run ahead of its computation',
    infer(node) {
      const stages = node.attributes.stages as number
      if (!Number.isInteger(stages) || stages < 1) fail(`a pipeline of ${stages} stages`)
      return expectSpaceLoop(node, 0)
    },
  },
  roles: {
    ...control,
    flow: 'warps',
    state: 'none',
    place: 'outside roles',
    waitsFor: 'roles',
    meets: 'barrier',
    order: 'both',
    scope: 'program',
    summary: 'divides a program into groups of warps that do different work',
    infer(node) {
      const { names, warps, duties = names } = node.attributes as Record<string, readonly unknown[]>
      if (warps.length !== names.length || duties.length !== names.length)
        fail(
          `there are ${names.length} names, ${warps.length} numbers of warps and ${duties.length} duties, but each role needs one of each`,
        )
      expectWarps(names as readonly string[], warps as readonly number[])
      for (const block of expectBlocks(node, names.length)) {
        expectTypes(block.params, [], 'a role')
        expectTypes(block.results, [], 'a role returns nothing: roles communicate through shared memory')
      }
      return voidType
    },
  },
  teams: {
    ...control,
    flow: 'programs',
    state: 'none',
    summary: 'divides the programs of a launch into teams that do different work',
    infer(node) {
      const names = node.attributes.names as readonly string[]
      if (names.length === 0) fail('there is no team: give at least one')
      if (node.inputs.length !== names.length + 1) fail('one size a team')
      for (const input of node.inputs) expectScalar(input, 'a size', ['i32'])
      names.forEach((name, i) => {
        const size = constantOf(node.inputs[1 + i])
        if (size < 0) fail(`the team ${name} has ${size} programs: give a whole number, 0 or more`)
      })
      for (const block of expectBlocks(node, names.length)) {
        expectTypes(block.params, [i32, i32], 'a team')
        expectTypes(block.results, [], 'a team returns nothing')
      }
      return voidType
    },
  },
  last: {
    ...control,
    flow: 'chosen',
    state: 'none',
    place: 'on every path',
    // The last program to arrive is known only once all programs have arrived, so a producer cannot run ahead of the op
    // `last`.
    ahead: 'consumer',
    varies: 'by program',
    order: 'both',
    scope: 'rank',
    summary:
      'executes its block in the program that makes the last of `arrivals` arrivals at this op on the rank; with an index, counts the arrivals at each index separately',
    infer(node) {
      const [body] = expectBlocks(node, 1)
      const [arrivals, index] = node.inputs as readonly (Node | undefined)[]
      expectScalar(arrivals, 'arrivals', ['i32'])
      if (constantOf(arrivals!) < 1) fail(`with ${constantOf(arrivals!)} arrivals, the block would never run`)
      if (index) {
        expectScalar(index, 'the index', ['i32'])
        const of = node.attributes.of as number
        if (!(Number.isInteger(of) && of >= 1)) fail(`an index of ${of} counters: give a whole number, of`)
        const at = constantOf(index)
        if (at < 0 || at >= of) fail(`index ${at} of ${of} counters`)
      }
      expectTypes(body.results, [], 'last')
      return voidType
    },
  },
} as const satisfies Record<string, Op>
