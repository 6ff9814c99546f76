/**
 * Decisions about loops: how many iterations are unrolled, which loops poll the abort word, and which loads of flag-in-data words all
 * threads of a group repeat together.
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { awaitsBarrier, isLoop, isOfThreads, opOf, type OpName } from '../../../ir/ops/index.ts'
import { isFragment, type Layouts } from './assign.ts'
import type { Group } from './groups.ts'
import type { Product } from './products.ts'

export interface LoopPlan {
  /** Iterations for `#pragma unroll`; a loop that is not here is left to the compiler. */
  readonly unrolled: ReadonlyMap<Node, number>
  /** Loops that read the abort word once in so many iterations. A read of the host's memory takes up to a microsecond. */
  readonly polling: ReadonlyMap<Node, number>
  /** `until` blocks that all threads of the group repeat together; each thread repeats the others on its own. */
  readonly together: ReadonlySet<Node>
}

interface Known {
  readonly layouts: Layouts
  readonly products: ReadonlyMap<Node, Product>
  readonly groupOf: ReadonlyMap<Node, Group>
}

export const planLoops = analysis('loops of a GPU', findLoops, (ir) =>
  findLoops(ir, {
    layouts: { of: () => undefined as never },
    products: new Map(),
    groupOf: new Map(),
  }),
)

/** More iterations than a `for` may execute without reading the abort word. */
const FOR_TURNS = 1024

/** The iterations after which a loop reads the abort word again. */
const TURNS = 64

/** The loops with another number of iterations. Undefined if the loop need not read the abort word. */
const otherTurns: Readonly<Partial<Record<OpName, (loop: Node) => number | undefined>>> = {
  // Of a loop whose iterations are divided among threads, each iteration is a wait, which reads the abort word itself.
  for: (loop) => (loop.attributes.apart !== true && isLong(loop) ? FOR_TURNS : undefined),
  until: () => 256,
  // A fragment has few boxes.
  boxes: () => undefined,
}

function turnsBetweenReads(node: Node): number | undefined {
  if (!isLoop(node)) return undefined
  const turns = otherTurns[node.op]
  return turns ? turns(node) : TURNS
}

function findLoops(ir: KernelIR, { layouts, products, groupOf }: Known): LoopPlan {
  const unrolled = new Map<Node, number>()
  const polling = new Map<Node, number>()
  const together = new Set<Node>()
  const visit = ({ nodes }: Block, isRepeated: boolean): void => {
    for (const node of nodes) {
      const { op, attributes, blocks } = node
      const turns = turnsBetweenReads(node)
      if (turns !== undefined) polling.set(node, turns)
      if (op === 'for' && attributes.apart !== true) {
        if (onlyLoads(blocks[0]) || (isKnown(node) && onlyStores(blocks[0], layouts)))
          unrolled.set(node, turnsAtOnce(node, layouts, isRepeated))
      }
      if (
        op === 'until' &&
        !groupOf.get(node)?.solo &&
        [...walk(blocks[0])].some((one) => isTogether(one, products))
      )
        together.add(node)
      for (const block of blocks) visit(block, isRepeated || op === 'until')
    }
  }
  visit(ir.body, false)
  return { unrolled, polling, together }
}

/** True for a loop of unknown length, or of many iterations. A loop that a ring feeds ends with its other role, and need not poll. */
function isLong(loop: Node): boolean {
  const bounds = loop.inputs.slice(0, 3)
  const [low, high, step] = bounds.map((bound) =>
    bound.op === 'const' ? attribute<number>(bound, 'value') : undefined,
  )
  if (low !== undefined && high !== undefined && step !== undefined) return (high - low) / step > FOR_TURNS
  return !loop.blocks[0].nodes.some(awaitsBarrier)
}

/** True if the threads of a group act together there: they synchronise, exchange values or multiply. */
function isTogether(node: Node, products: Known['products']): boolean {
  const { op, attributes } = node
  if (opOf(node).meets !== 'never' || attributes.exchange !== undefined) return true
  if (op === 'dot') return products.get(node) !== 'elements'
  // All threads decide together whether to leave a loop of an aborted launch. Of an inner `until`, its own nodes are looked at.
  return op !== 'until' && turnsBetweenReads(node) !== undefined
}

const isLoad = ({ op }: Node): boolean => op === 'load' || op === 'words.take'

/** The loads of an iteration can be in flight while the one before computes, if threads do not synchronise in between. */
const onlyLoads = ({ nodes }: Block): boolean =>
  nodes.some(isLoad) && nodes.every((node) => node.blocks.length === 0 && (isLoad(node) || isSilent(node)))

const isSilent = (node: Node): boolean => isOfThreads(node) || opOf(node).effect === 'pure'

const isKnown = ({ inputs: [low, high] }: Node): boolean => low.op === 'const' && high.op === 'const'

/** Iterations whose loads are in flight together: 4 of an unknown number; of a known number, the parts of eight ranks as a rule. */
function turnsAtOnce(loop: Node, layouts: Layouts, isRepeated: boolean): number {
  if (!isKnown(loop)) return 4
  const registers = registersLoaded(loop.blocks[0], layouts)
  // Flag-in-data words are loaded in program order, and all of them are held in registers.
  if (isRepeated) return 8 * registers <= mostHeld ? 8 : 4
  return 16 * registers <= mostLoaded ? 16 : 8
}

/** Registers that sixteen iterations load. With more, their sum does not fit beside them. */
const mostLoaded = 384
const mostHeld = 192

const registersLoaded = ({ nodes }: Block, layouts: Layouts): number =>
  nodes.reduce((sum, node) => sum + (isLoad(node) && isFragment(node) ? layouts.of(node).count : 0), 0)

/** Registers that one iteration stores, where iterations are unrolled. */
const mostStored = 32

/** The input of a store that is the stored value. */
const storedAt: Partial<Record<OpName, number>> = { store: 1, 'words.post': 2, boxes: 0 }

/** Stores to all ranks, as a rule: only the addresses differ, and the compiler computes them for all ranks at once. */
function onlyStores({ nodes }: Block, layouts: Layouts): boolean {
  const isStored = ({ op, attributes: { order } }: Node): boolean =>
    (op === 'store' && order === undefined) || op === 'words.post' || op === 'boxes'
  const stored = nodes.filter(isStored).map(({ op, inputs }) => inputs[storedAt[op]!])
  const registers = stored.map((value) => (isFragment(value) ? layouts.of(value).count : 1))
  return (
    stored.length > 0 &&
    registers.reduce((sum, count) => sum + count, 0) <= mostStored &&
    nodes.every((node) => isStored(node) || (node.blocks.length === 0 && isSilent(node)))
  )
}
