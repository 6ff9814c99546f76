/**
 * What the producer of a pipelined block must execute: the waits and copies of the pipelines, the waits before them, and
 * backwards from these everything they depend on, in data and in control.
 */
import { attribute, walk, type Block, type Node } from '../node.ts'
import { ops } from '../ops/index.ts'
import type { RefType } from '../type.ts'

export interface Slice {
  /** Waits and copies inside pipelines: the producer's alone. */
  readonly moved: ReadonlySet<Node>
  /** All nodes the producer executes, `moved` included. */
  readonly needed: ReadonlySet<Node>
  /** Weak loads among them. */
  readonly loads: ReadonlySet<Node>
  /** Why the producer cannot run ahead, if it cannot. */
  readonly obstacle: string | undefined
  /** Whether the producer carries state `i` of a control node. */
  keeps(control: Node, i: number): boolean
}

export function containsPipeline(node: Node): boolean {
  return node.op === 'pipeline' || node.blocks.some((block) => block.nodes.some(containsPipeline))
}

/** A copy that the producer makes: from global memory to a whole shared tile, unmasked. */
export function isProducerCopy(node: Node): boolean {
  if (node.op !== 'copy' || node.inputs.length > 2) return false
  return (node.inputs[0].type as RefType).space === 'global' && node.inputs[1].op === 'shared'
}

/** How many of a control node's inputs come before its carried state. */
export function leadingInputs(node: Node): number {
  return node.op === 'if' ? node.inputs.length : node.inputs.length - stateCount(node)
}

/** How many values a control node carries, or, if it is an `if`, yields. */
export function stateCount(node: Node): number {
  return node.blocks[node.blocks.length - 1].results.length
}

export function producerSlice(block: Block): Slice {
  const parents = new Map<Node, Node>()
  const owners = new Map<Node, { control: Node; block: Block }>()
  const index = (inner: Block, control: Node | undefined): void => {
    for (const param of inner.params) if (control) owners.set(param, { control, block: inner })
    for (const node of inner.nodes) {
      if (control) parents.set(node, control)
      node.blocks.forEach((own) => index(own, node))
    }
  }
  index(block, undefined)

  const moved = new Set<Node>()
  for (const pipeline of walk(block))
    if (pipeline.op === 'pipeline')
      for (const node of walk(pipeline.blocks[0]))
        if (node.op === 'wait' || isProducerCopy(node)) moved.add(node)

  const needed = new Set<Node>()
  const loads = new Set<Node>()
  const kept = new Map<Node, Set<number>>()
  let obstacle: string | undefined
  const pending: Node[] = [...moved, ...standsBeforePipelines(block, (node) => node.op === 'wait')]

  const keep = (control: Node, i: number): void => {
    const set = kept.get(control) ?? new Set<number>()
    kept.set(control, set)
    if (set.has(i)) return
    set.add(i)
    for (const inner of control.op === 'while' ? control.blocks.slice(1) : control.blocks)
      pending.push(inner.results[i])
    if (control.op !== 'if') pending.push(control.inputs[leadingInputs(control) + i])
  }

  for (let node = pending.pop(); node; node = pending.pop()) {
    if (node.op === 'param') {
      const owner = owners.get(node)
      const leading = owner
        ? owner.block.params.length - (owner.control.op === 'if' ? 0 : stateCount(owner.control))
        : 0
      const at = owner ? owner.block.params.indexOf(node) : -1
      if (owner && at >= leading) keep(owner.control, at - leading)
      continue
    }
    if (needed.has(node)) continue
    needed.add(node)
    const parent = parents.get(node)
    if (parent) pending.push(parent)
    if (node.op === 'result') {
      pending.push(node.inputs[0])
      keep(node.inputs[0], attribute<number>(node, 'index'))
      continue
    }
    if (ops[node.op].effect === 'control') {
      pending.push(...node.inputs.slice(0, leadingInputs(node)))
      if (node.op === 'while') pending.push(...node.blocks[0].results)
      if (node.op === 'last') obstacle = `what it waits for stands in last(), at ${node.site}`
      continue
    }
    pending.push(...node.inputs)
    if (node.op === 'load' && node.attributes.order === undefined) loads.add(node)
    // Two looks at one flag may differ, and the roles would go apart.
    else if (
      ['dot', 'reached'].includes(node.op) ||
      (['read', 'write'].includes(ops[node.op].effect) && !isProducerCopy(node))
    )
      obstacle = `what it copies depends on ${node.op} at ${node.site}, which only the consumer executes`
  }
  return { moved, needed, loads, obstacle, keeps: (control, i) => kept.get(control)?.has(i) ?? false }
}

/** Nodes of a kind that something in a pipeline comes after, those in a pipeline included. */
export function standsBeforePipelines(block: Block, isWanted: (node: Node) => boolean): Node[] {
  const found: Node[] = []
  const visit = (inner: Block, followed: boolean): void => {
    const pipelines = inner.nodes.map(containsPipeline)
    const lastPipeline = pipelines.lastIndexOf(true)
    inner.nodes.forEach((node, i) => {
      const before = followed || i < lastPipeline
      if (before && isWanted(node)) found.push(node)
      const repeats = pipelines[i] && ['for', 'while', 'persistent', 'pipeline'].includes(node.op)
      node.blocks.forEach((own) => visit(own, before || repeats))
    })
  }
  visit(block, false)
  return found
}
