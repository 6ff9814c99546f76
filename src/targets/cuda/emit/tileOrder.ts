/**
 * In which order `persistent` comes to its tiles. Programs that run at the same time share tiles in the L2 where they walk a few
 * rows of tiles together; the language promises the plain order, so another one is taken only where nobody can tell.
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import {
  isRemote,
  leadingInputs,
  opOf,
  opsWith,
  origin,
  readRefs,
  releases,
  stateBlocks,
  stateCount,
  writtenRefs,
  type OpName,
} from '../../../ir/ops/index.ts'
import { elsewhere } from '../../../ir/passes/elsewhere.ts'
import { isFragment } from './assign.ts'

/** Of a loop, how many rows of tiles it walks together; 1: plain order. */
export type TileGroup = (loop: Node) => number

/**
 * Loops of products walk so many rows together as are wanted. Which program has which tile then changes, so that a loop stays in
 * plain order with those that it shares memory with: a program may count on having the same tiles again. The roles' copies of an
 * author's loop are at one place in the source.
 */
export const tileGroupOf = analysis('order of tiles', findTileGroup, (ir) => findTileGroup(ir, 4))

function findTileGroup(ir: KernelIR, wanted: number): TileGroup {
  const nodes = [...walk(ir.body)]
  const ofTeams = nodes.filter((node) => node.op === 'teams').flatMap((node) => node.blocks.map(ownProgram))
  const programs = new Set([...nodes.filter((node) => node.op === 'program'), ...ofTeams])
  const fromProgram = reachedFrom(ir.body, programs)
  const isElsewhere = elsewhere(ir.body, ir.world)
  const loops = nodes
    .filter(({ op }) => op === 'persistent')
    .map((loop) => ({ loop, site: String(loop.site), ...memoryOf(loop, isElsewhere) }))
  const multiplying = new Set(loops.filter(({ multiplies }) => multiplies).map(({ site }) => site))
  const isPlain = ({ loop, site }: (typeof loops)[number]): boolean =>
    !multiplying.has(site) || isOrderSeen(loop, fromProgram)
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
  /** Of those, what may lie on another rank. */
  readonly touchedRemotely: ReadonlySet<Node>
  /** On this rank, or on one that may be it. */
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

const ownProgram = (block: Block): Node => block.params[0]

function isOrderSeen(loop: Node, fromProgram: ReadonlySet<Node>): boolean {
  const [body] = loop.blocks
  const nodes = [...walk(body)]
  const tellsProgram = (node: Node): boolean => node.inputs.some((input) => fromProgram.has(input))
  return (
    nodes.some((node) => isPublished(node) || tellsProgram(node)) || isCarried(loop) || isOverwritten(loop)
  )
}

/** True if other programs can observe when the node is executed. */
function isPublished(node: Node): boolean {
  const { varies, flow, advances, accesses, scope } = opOf(node)
  const isReleased = releases(node) && scope !== 'threads' && scope !== 'program'
  const isAtomic = accesses.some(({ reads, writes }) => reads && writes)
  return varies === 'by program' || flow === 'programs' || advances === 'signal' || isAtomic || isReleased
}

/** Whether a tile sees which ones came before it: by what the loop carries, a position in a ring of buffers excepted. */
function isCarried(loop: Node): boolean {
  const [body] = loop.blocks
  const state = new Set(body.params.slice(attribute<number>(loop, 'axes')))
  if ([...state].some(isFragment)) return true
  const carried = reachedFrom(body, state)
  /** Nodes that choose a slot of the ring, or compute its position. An op without an entry may do anything with what it is given. */
  const ofRing: Readonly<Partial<Record<OpName, (node: Node) => boolean>>> = {
    ...opsWith({ elements: 'same' }, () => true),
    pick: ({ inputs: [from] }) => opOf(from).effect === 'declare' && !carried.has(from),
    for: ({ inputs }) => inputs.slice(0, 3).every((bound) => !carried.has(bound)),
    result: () => true,
    'barrier.wait': () => true,
    'barrier.arrive': () => true,
  }
  const isOfRing = (node: Node): boolean => ofRing[node.op]?.(node) ?? false
  return [...walk(body)].some((node) => node.inputs.some((input) => carried.has(input)) && !isOfRing(node))
}

/** Whether two tiles may write the same place, or one read what another wrote. */
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

/** The values, and if `places` also the places, that are computed from the given ones. How tiles are dealt out is none. */
function reachedFrom(block: Block, from: ReadonlySet<Node>, places = false): ReadonlySet<Node> {
  const reached = new Set(from)
  const reach = (node: Node, by: readonly Node[]): void => {
    if ((places || node.type.kind === 'value') && by.some((one) => reached.has(one))) reached.add(node)
  }
  // Which tiles a program gets, and how many, follows from its number by design.
  const bounds = (control: Node): readonly Node[] =>
    control.op === 'persistent' ? [] : control.inputs.slice(0, leadingInputs(control))
  /** The blocks of a control node: their indices follow from its bounds, their state from what enters and from what they yield. */
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
