/**
 * Says how the threads of a group exchange a value, and which thread barriers are redundant because another barrier
 * directly precedes them.
 */
import { exchangeOf, isExchanged, type ExchangeStep } from '../../../ir/exchange.ts'
import type { Node } from '../../../ir/node.ts'
import { isOfStart, isPassive, opOf } from '../../../ir/ops/index.ts'
import { outlivesNode } from './scratch.ts'

interface ExchangeKind {
  /** A text for the printed decisions that says how threads exchange the value. */
  readonly what: string
  readonly steps: readonly ExchangeStep[]
}

/**
 * The ways in which the threads of a group exchange the value of a node. The steps are an attribute of the node
 * (`ir/exchange.ts`): the printed stage shows them, the analysis of hazards uses them, and the renderers execute them.
 */
export const exchanges = {
  /** All threads write to the scratch memory of the node, and then read from it. */
  scratch: {
    what: 'threads exchange its elements through shared memory',
    steps: ['write', 'meet', 'read'],
  },
  /** Between the write and the read, one thread per row or column changes the elements in place. */
  scan: {
    what: 'threads exchange its elements through shared memory, where one thread adds up each row or column',
    steps: ['write', 'meet', 'change', 'meet', 'read'],
  },
  /** Threads read from the scratch memory of the node when its value is used. */
  table: {
    what: 'threads write it to shared memory, and read it when it is used',
    steps: ['write', 'meet'],
  },
  /**
   * One thread computes the value and writes it to the exchange buffer of the group, which other exchanges use, too.
   */
  leader: { what: 'one thread obtains it for all', steps: ['write', 'meet', 'read', 'meet'] },
  /** Every warp writes a partial result to the exchange buffer of the group, which other exchanges use, too. */
  warps: { what: 'warps exchange partial results', steps: ['write', 'meet', 'read', 'meet'] },
} as const satisfies Record<string, ExchangeKind>

export type Exchange = keyof typeof exchanges

/** How threads exchange the value of a node that has scratch memory. */
export function exchangeInScratch(node: Node): Exchange {
  if (outlivesNode(node)) return 'table'
  return node.op === 'cumsum' ? 'scan' : 'scratch'
}

/**
 * True if a thread barrier after `nodes` is redundant: all threads of the program have synchronised, and the nodes
 * after that synchronisation only compute values.
 */
export function haveJustMet(nodes: readonly Node[]): boolean {
  // A role that starts before the previous kernel has ended does not wait for other threads at the start of a program.
  const last = nodes.findLast((node) => !isOfStart(node) && (!isPassive(node) || isExchanged(node)))
  return last !== undefined && endsWithMeeting(last)
}

/** True if all threads of the group synchronise at the end of the node. */
function endsWithMeeting(node: Node): boolean {
  // At a `last` node, threads exchange a value before the block of the node, not at the end of the node.
  if (isExchanged(node) && node.blocks.length === 0) return exchangeOf(node).at(-1) === 'meet'
  return opOf(node).meets === 'barrier'
}
