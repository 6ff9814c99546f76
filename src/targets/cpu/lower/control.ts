/**
 * Lowers control flow: blocks, loops, branches and teams. Loops without a static bound poll the abort word in every
 * iteration.
 */
import { attribute, type Block, type Node } from '../../../ir/node.ts'
import { launch as launchBlock, slot as slotBlock, waitKind } from '../abi.ts'
import { add, address, and, binary, compare, i32, mul, select, sub, unary, use } from '../build.ts'
import type { Expression } from '../code.ts'
import { constantOf, type Lowering } from './context.ts'
import { isStopped } from './runtime.ts'
import { scalar } from './scalars.ts'
import { lowerNode } from './nodes.ts'
import {
  beginState,
  branchState,
  enterState,
  leaveState,
  nextState,
  preferBranch,
  preferInPlace,
  type State,
} from './state.ts'
import { raise } from './sync.ts'

export function lowerBlock(l: Lowering, block: Block): void {
  for (const node of block.nodes) lowerNode(l, node)
}

/**
 * Lowers a block, and afterwards frees the memory of the block's fragments in the frame (the private memory of a
 * program).
 */
function lowerScope(l: Lowering, body: () => void): void {
  l.shared.frame.scope(body)
}

function pollStop(l: Lowering): void {
  const stopped = isStopped(l.writer, l.ambient.memory)
  l.writer.if(compare('ne', stopped, i32(0)), () => l.stop())
}

/** Lowers one iteration: runs the block on the current state and stores the results as the next state. */
function iterate(l: Lowering, state: State, params: readonly Node[], block: Block): void {
  enterState(l, state, params)
  preferInPlace(l, state, params, block)
  lowerScope(l, () => {
    lowerBlock(l, block)
    nextState(l, state, block.results)
  })
}

export function lowerFor(l: Lowering, node: Node): void {
  const { writer } = l
  const [low, high, step] = node.inputs
  const [block] = node.blocks
  const state = beginState(l, node, 3)
  const by = constantOf(step)
  const known = constantOf(low) !== undefined && constantOf(high) !== undefined && by !== undefined
  const body = (index: Expression): void => {
    if (!known) pollStop(l)
    l.scalars.set(block.params[0], index)
    iterate(l, state, block.params.slice(1), block)
  }
  if (by !== undefined && by > 0)
    writer.for('index', scalar(l, low), scalar(l, high), by, (index) => body(use(index)))
  else {
    const amount = scalar(l, step)
    writer.if(compare('le', amount, i32(0)), () => raise(l, 'badStep', node))
    const index = writer.let('index', scalar(l, low))
    writer.loop(() => {
      writer.if(compare('ge', index, scalar(l, high)), () => writer.break())
      body(use(index))
      writer.set(index, add(index, amount))
    })
  }
  leaveState(l, node, state)
}

export function lowerWhile(l: Lowering, node: Node): void {
  const { writer, ambient, shared } = l
  const [condition, block] = node.blocks
  const state = beginState(l, node, 0)
  const iterations = writer.let('iterations', i32(0))
  writer.loop(() => {
    pollStop(l)
    enterState(l, state, condition.params)
    for (const param of condition.params) l.pinned.add(param)
    lowerScope(l, () => lowerBlock(l, condition))
    writer.if(unary('eqz', scalar(l, condition.results[0])), () => writer.break())
    iterate(l, state, block.params, block)
    writer.set(iterations, add(iterations, i32(1)))
    writer.if(unary('eqz', and(iterations, i32(255))), () => {
      l.call(
        shared.runtime.restInLoop,
        ambient.memory,
        iterations,
        ambient.slot,
        i32(shared.sites.number(node)),
      )
    })
  })
  writer.store('i32', ambient.slot, i32(waitKind.none), slotBlock.wait)
  leaveState(l, node, state)
}

export function lowerIf(l: Lowering, node: Node): void {
  const [yes, no] = node.blocks
  const state = branchState(l, yes.results)
  const branch = (block: Block) => (): void => {
    preferBranch(l, state, block)
    lowerScope(l, () => {
      lowerBlock(l, block)
      nextState(l, state, block.results)
    })
  }
  l.writer.if(scalar(l, node.inputs[0]), branch(yes), branch(no))
  leaveState(l, node, state)
}

/**
 * Assigns the tiles of an index space to programs round-robin. One counter enumerates the tiles, and division yields
 * the indices of a tile.
 */
export function lowerPersistent(l: Lowering, node: Node): void {
  const { writer } = l
  const [block] = node.blocks
  const axes = attribute<number>(node, 'axes')
  const [program, programs, ...extents] = node.inputs.slice(0, 2 + axes).map((input) => scalar(l, input))
  const state = beginState(l, node, 2 + axes)
  const atLeastZero = extents.map((extent) =>
    extent.kind === 'const'
      ? i32(Math.max(extent.value, 0))
      : select(compare('gt', extent, i32(0)), extent, i32(0)),
  )
  const total = writer.let(
    'total',
    atLeastZero.reduce((a, b) => mul(a, b)),
  )
  const counter = writer.let('counter', program)
  writer.loop(() => {
    writer.if(compare('ge', counter, total), () => writer.break())
    pollStop(l)
    let rest: Expression = use(counter)
    for (let axis = axes - 1; axis >= 0; axis--) {
      const index = axis === 0 ? rest : binary('remU', rest, extents[axis])
      l.scalars.set(block.params[axis], use(writer.let('index', index)))
      if (axis > 0) rest = use(writer.let('rest', binary('divU', rest, extents[axis])))
    }
    iterate(l, state, block.params.slice(axes), block)
    writer.set(counter, add(counter, programs))
  })
  leaveState(l, node, state)
}

/** On a CPU, a pipeline is a plain loop, because a single worker cannot prefetch for itself. */
export function lowerPipeline(l: Lowering, node: Node): void {
  const [block] = node.blocks
  const axes = attribute<number>(node, 'axes')
  const extents = node.inputs.slice(0, axes)
  const state = beginState(l, node, axes)
  const known = extents.every((extent) => constantOf(extent) !== undefined)
  const loop = (axis: number): void => {
    if (axis < axes)
      l.writer.for('index', 0, scalar(l, extents[axis]), 1, (index) => {
        l.scalars.set(block.params[axis], use(index))
        loop(axis + 1)
      })
    else {
      if (!known) pollStop(l)
      iterate(l, state, block.params.slice(axes), block)
    }
  }
  loop(0)
  leaveState(l, node, state)
}

export function lowerTeams(l: Lowering, node: Node): void {
  const [program, ...sizes] = node.inputs.map((input) => scalar(l, input))
  const team = (k: number, number: Expression): void => {
    if (k === sizes.length) return
    const block = node.blocks[k]
    const enter = (): void => {
      l.scalars.set(block.params[0], number)
      l.scalars.set(block.params[1], sizes[k])
      lowerScope(l, () => lowerBlock(l, block))
    }
    l.writer.if(compare('lt', number, sizes[k]), enter, () =>
      team(k + 1, use(l.writer.let('number', sub(number, sizes[k])))),
    )
  }
  team(0, program)
}

/**
 * Lowers `last`: each program increments a counter. The program that arrives last runs the block and resets the counter
 * to 0 for the next launch. If `last` counts arrivals per index, arrivals of the next count may come before the counter
 * is reset. The program that arrives last therefore subtracts the arrivals of the completed count instead of setting
 * the counter to 0.
 */
export function lowerLast(l: Lowering, node: Node): void {
  const { writer, ambient, shared } = l
  const counters = l.once('counters', (prologue) =>
    prologue.loadPointer('counters', ambient.launch, launchBlock.counters),
  )
  const [arrivals, index] = node.inputs.map((input) => scalar(l, input)) as [Expression, Expression?]
  const first = shared.counterWords
  shared.counterWords += (node.attributes.of as number | undefined) ?? 1
  const at = index ? address(counters, index, 4, 4 * first) : address(counters, first, 4)
  const counter = writer.let('counter', at)
  const before = writer.atomic('add', counter, i32(1), 'acqRel')
  const arrived = add(before, i32(1))
  const isLast = index ? unary('eqz', binary('rem', arrived, arrivals)) : compare('eq', arrived, arrivals)
  writer.if(isLast, () => {
    if (index) writer.atomic('sub', counter, arrivals, 'relaxed')
    else writer.atomicStore(counter, i32(0), 'relaxed')
    lowerScope(l, () => lowerBlock(l, node.blocks[0]))
  })
}
