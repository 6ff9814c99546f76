/**
 * Decides how many iterations of each loop are unrolled, which loops poll the abort word (set to stop a launch), and
 * which loads of flag-in-data words are repeated by all threads of a group together.
 */
import { analysis } from '../../../ir/analysis.ts'
import { isExchanged } from '../../../ir/exchange.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { awaitsBarrier, isLoop, isOfThreads, opOf, type OpName } from '../../../ir/ops/index.ts'
import { isFragment, type Layouts } from './assign.ts'
import type { Group } from './groups.ts'
import type { Product } from './products.ts'

export interface LoopPlan {
  /**
   * For each loop, the factor in `#pragma unroll`. The CUDA compiler chooses the factor of loops that are not in this
   * map.
   */
  readonly unrolled: ReadonlyMap<Node, number>
  /**
   * For each loop that polls the abort word, the number of iterations between two reads. A read of the abort word is
   * slow, because it bypasses the L1 cache.
   */
  readonly polling: ReadonlyMap<Node, number>
  /**
   * The `until` loops (repeated loads of flag-in-data words) that all threads of the group repeat together. An `until`
   * loop outside this set is repeated by each thread independently of the other threads.
   */
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

/** The maximum number of iterations that a `for` loop may execute without reading the abort word. */
const FOR_TURNS = 1024

/**
 * The number of iterations after which a loop reads the abort word again, unless `otherTurns` has an entry for the
 * loop.
 */
const TURNS = 64

/**
 * The loop ops that poll the abort word at another interval than `TURNS`. Each function returns the interval in
 * iterations, or undefined if the loop need not poll the abort word.
 */
const otherTurns: Readonly<Partial<Record<OpName, (loop: Node) => number | undefined>>> = {
  // If the iterations of a loop are divided among threads, each iteration is a wait that polls the abort word itself.
  for: (loop) => (loop.attributes.apart !== true && isLong(loop) ? FOR_TURNS : undefined),
  until: () => 256,
  // A loop over the boxes of a fragment (sections that fit in a staging buffer) has few iterations.
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

/**
 * True for a loop with many iterations or an unknown number of iterations, unless the loop waits for a ring slot. The
 * wait for a ring slot itself ends if the launch is aborted, so a loop with such a wait need not poll the abort word.
 */
function isLong(loop: Node): boolean {
  const bounds = loop.inputs.slice(0, 3)
  const [low, high, step] = bounds.map((bound) =>
    bound.op === 'const' ? attribute<number>(bound, 'value') : undefined,
  )
  if (low !== undefined && high !== undefined && step !== undefined) return (high - low) / step > FOR_TURNS
  return !loop.blocks[0].nodes.some(awaitsBarrier)
}

/**
 * True if the threads of a group execute the node together: they synchronise, exchange values or compute a matrix
 * product.
 */
function isTogether(node: Node, products: Known['products']): boolean {
  const { op } = node
  if (opOf(node).meets !== 'never' || isExchanged(node)) return true
  if (op === 'dot') return products.get(node) !== 'elements'
  // When a launch is aborted, all threads decide together whether to leave a loop. The nodes inside an inner `until`
  // loop are examined separately.
  return op !== 'until' && turnsBetweenReads(node) !== undefined
}

const isLoad = ({ op }: Node): boolean => op === 'load' || op === 'words.take'

/**
 * True if a loop body loads values and neither synchronises threads nor has other effects. If a loop only loads and
 * computes, the loads of one iteration can be in flight while the previous iteration computes.
 */
const onlyLoads = ({ nodes }: Block): boolean =>
  nodes.some(isLoad) && nodes.every((node) => node.blocks.length === 0 && (isLoad(node) || isSilent(node)))

const isSilent = (node: Node): boolean => isOfThreads(node) || opOf(node).effect === 'pure'

const isKnown = ({ inputs: [low, high] }: Node): boolean => low.op === 'const' && high.op === 'const'

/**
 * Returns the number of iterations whose loads are in flight at the same time. Loops with a known number of iterations
 * usually iterate over at most 8 ranks.
 */
function turnsAtOnce(loop: Node, layouts: Layouts, isRepeated: boolean): number {
  if (!isKnown(loop)) return 4
  const registers = registersLoaded(loop.blocks[0], layouts)
  // Flag-in-data words are loaded in program order, and all of them are held in registers.
  if (isRepeated) return 8 * registers <= mostHeld ? 8 : 4
  return 16 * registers <= mostLoaded ? 16 : 8
}

/**
 * The maximum number of registers that 16 unrolled iterations may load. If the iterations loaded more registers, too
 * few registers would remain for the sum of the loaded values.
 */
const mostLoaded = 384
const mostHeld = 192

const registersLoaded = ({ nodes }: Block, layouts: Layouts): number =>
  nodes.reduce((sum, node) => sum + (isLoad(node) && isFragment(node) ? layouts.of(node).count : 0), 0)

/** The maximum number of registers that one iteration may store if iterations are unrolled. */
const mostStored = 32

/** For each storing op, the index of the input that is the stored value. */
const storedAt: Partial<Record<OpName, number>> = { store: 1, 'words.post': 2, boxes: 0 }

/**
 * True if a loop body only stores. A loop that only stores usually writes one value to all ranks: only the addresses
 * differ, and the compiler computes the addresses for all ranks together.
 */
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
