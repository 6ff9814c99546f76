/**
 * Chooses the tile order of `persistent` loops. If concurrent programs process a few rows of output tiles together,
 * they share operand tiles in the L2 cache. The language promises row-major order, so the grouped order is used only if
 * no program can observe the difference.
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import {
  isElementwise,
  isPublished,
  isRemote,
  leadingInputs,
  opOf,
  origin,
  readRefs,
  stateBlocks,
  stateCount,
  writtenRefs,
} from '../../../ir/ops/index.ts'
import { elsewhere } from '../../../ir/passes/elsewhere.ts'
import { isFragment } from './assign.ts'

/** The number of rows of tiles that a loop processes together; 1 means row-major order. */
export type TileGroup = (loop: Node) => number

/**
 * Loops that contain matrix products process `wanted` rows of tiles together. The grouped order changes the assignment
 * of tiles to programs. A program may rely on getting the same tiles in several loops, so a loop stays row-major if it
 * accesses memory that a row-major loop writes, or writes memory that such a loop accesses. A loop is identified by its
 * source position, because each role has its own copy of a loop that the author wrote.
 */
export const tileGroupOf = analysis('order of tiles', findTileGroup, (ir) => findTileGroup(ir, 4))

function findTileGroup(ir: KernelIR, wanted: number): TileGroup {
  const nodes = [...walk(ir.body)]
  const ofTeams = nodes
    .filter((node) => opOf(node).flow === 'programs')
    .flatMap((node) => node.blocks.map(ownProgram))
  const programs = new Set([...nodes.filter(tellsProgramsApart), ...ofTeams])
  const fromProgram = reachedFrom(ir.body, programs)
  const isElsewhere = elsewhere(ir.body, ir.world)
  const loops = nodes
    .filter(({ op }) => op === 'persistent')
    .map((loop) => ({ loop, site: String(loop.site), ...memoryOf(loop, isElsewhere) }))
  const multiplying = new Set(loops.filter(({ multiplies }) => multiplies).map(({ site }) => site))
  const isPlain = ({ loop, site }: (typeof loops)[number]): boolean =>
    !multiplying.has(site) || loop.attributes.cluster !== undefined || isOrderSeen(loop, fromProgram)
  const plain = new Set(loops.filter(isPlain).map(({ site }) => site))
  for (let before = -1; before < plain.size;) {
    before = plain.size
    for (const one of loops)
      for (const other of loops) if (plain.has(other.site) && shareMemory(one, other)) plain.add(one.site)
  }
  return ({ site }) => (plain.has(String(site)) ? 1 : wanted)
}

interface LoopMemory {
  readonly multiplies: boolean
  readonly touched: ReadonlySet<Node>
  /** The tensors that the loop may access on another rank. */
  readonly touchedRemotely: ReadonlySet<Node>
  /** The tensors that the loop may write on this rank. */
  readonly written: ReadonlySet<Node>
  readonly writtenElsewhere: ReadonlySet<Node>
}

function memoryOf(loop: Node, isElsewhere: (ref: Node) => boolean): LoopMemory {
  const nodes = [...walk(loop.blocks[0])]
  const refs = nodes.flatMap(({ inputs }) => inputs.filter(({ type }) => type.kind === 'ref'))
  const written = nodes.flatMap(writtenRefs)
  const bases = (of: readonly Node[]): ReadonlySet<Node> =>
    new Set(of.map((ref) => origin(ref).base).filter(({ op }) => op === 'param'))
  return {
    multiplies: nodes.some(({ op }) => op === 'dot'),
    touched: bases(refs),
    touchedRemotely: bases(refs.filter(isRemote)),
    written: bases(written.filter((ref) => !isElsewhere(ref))),
    writtenElsewhere: bases(written.filter(isElsewhere)),
  }
}

const shareMemory = (one: LoopMemory, other: LoopMemory): boolean =>
  writesWhereTouched(one, other) || writesWhereTouched(other, one)

const writesWhereTouched = (one: LoopMemory, other: LoopMemory): boolean =>
  [...one.written].some((base) => other.touched.has(base)) ||
  [...one.writtenElsewhere].some((base) => other.touchedRemotely.has(base))

/**
 * True for a value that differs between programs of a launch. The op `programs` (the number of programs) has the same
 * value in all programs.
 */
const tellsProgramsApart = (node: Node): boolean =>
  opOf(node).varies === 'by program' && node.type.kind === 'value' && node.op !== 'programs'

const ownProgram = (block: Block): Node => block.params[0]

function isOrderSeen(loop: Node, fromProgram: ReadonlySet<Node>): boolean {
  const [body] = loop.blocks
  const nodes = [...walk(body)]
  const tellsProgram = (node: Node): boolean => node.inputs.some((input) => fromProgram.has(input))
  return (
    nodes.some((node) => isPublished(node) || tellsProgram(node)) || isCarried(loop) || isOverwritten(loop)
  )
}

/**
 * True if an iteration can observe the tiles of previous iterations through the loop's carried state. Positions in a
 * ring of buffers are ignored, although loops carry these positions as state.
 */
function isCarried(loop: Node): boolean {
  const [body] = loop.blocks
  const state = new Set(body.params.slice(attribute<number>(loop, 'axes')))
  if ([...state].some(isFragment)) return true
  const carried = reachedFrom(body, state)
  /**
   * True if the node only computes or carries the position of a slot of the ring, selects the slot, or waits or arrives
   * at the barrier of the slot. A node that does anything else may use the position to observe the tiles of previous
   * iterations.
   */
  const isOfRing = (node: Node): boolean => {
    const { state, scope, meets } = opOf(node)
    if (isElementwise(node) || node.op === 'result') return true
    if (state === 'carried') return !node.inputs.slice(0, leadingInputs(node)).some((one) => carried.has(one))
    const [from] = node.inputs
    if (node.op === 'pick') return opOf(from).effect === 'declare' && !carried.has(from)
    return scope === 'program' && meets === 'never'
  }
  return [...walk(body)].some((node) => node.inputs.some((input) => carried.has(input)) && !isOfRing(node))
}

/**
 * True if two iterations may write the same element, or if one iteration may read an element that another iteration
 * writes.
 */
function isOverwritten(loop: Node): boolean {
  const [body] = loop.blocks
  const nodes = [...walk(body)]
  const written = nodes.flatMap(writtenRefs).filter((ref) => origin(ref).base.op === 'param')
  const reads = nodes.flatMap(readRefs)
  const bases = new Set(written.map((ref) => origin(ref).base))
  if (reads.some((ref) => bases.has(origin(ref).base))) return true
  const indices = body.params.slice(0, attribute<number>(loop, 'axes'))
  return indices.some((index) => {
    const places = reachedFrom(body, new Set([index]), true)
    return written.some((ref) => !places.has(ref))
  })
}

/**
 * Returns the values that are computed from the given nodes. With `places`, the result includes the views of memory
 * that depend on the nodes. The tile assignment of a `persistent` loop does not count as a computation from the program
 * index.
 */
function reachedFrom(block: Block, from: ReadonlySet<Node>, places = false): ReadonlySet<Node> {
  const reached = new Set(from)
  const reach = (node: Node, by: readonly Node[]): void => {
    if ((places || node.type.kind === 'value') && by.some((one) => reached.has(one))) reached.add(node)
  }
  // The tiles of a program always depend on its program index, so the bounds of a `persistent` loop are ignored.
  const bounds = (control: Node): readonly Node[] =>
    control.op === 'persistent' ? [] : control.inputs.slice(0, leadingInputs(control))
  /**
   * Propagates dependences into the blocks of a control node: indices depend on the bounds, and the carried state
   * depends on the initial values and on the yielded values.
   */
  const enter = (control: Node): void => {
    const isCarried = ['carried', 'tested'].includes(opOf(control).state)
    const count = isCarried ? stateCount(control) : 0
    for (const { params } of control.blocks)
      params.forEach((param, i) => {
        const at = i - (params.length - count)
        const sources = [
          control.inputs[control.inputs.length - count + at],
          ...stateBlocks(control).map(({ results }) => results[at]),
        ]
        reach(param, at < 0 ? bounds(control) : sources)
      })
  }
  const leave = (result: Node): void => {
    const [control] = result.inputs
    const index = attribute<number>(result, 'index')
    const state = stateBlocks(control).flatMap(({ params, results }) =>
      [results[index], params[params.length - results.length + index]].filter((one) => one !== undefined),
    )
    const tested = opOf(control).state === 'tested' ? control.blocks[0].results : []
    reach(result, [...state, ...bounds(control), ...tested])
  }
  for (let before = -1; before < reached.size;) {
    before = reached.size
    for (const node of walk(block)) {
      if (node.op === 'result') leave(node)
      else if (node.blocks.length > 0) enter(node)
      else reach(node, node.inputs)
    }
  }
  return reached
}
