/**
 * Decides about the setup code of a program, from the facts of the kernel's ops: which flag epochs it reads and
 * advances, whether it reads the abort word, and which number each wait reports when a launch is aborted.
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { epochOf, mayWait, opOf, origin, paramName } from '../../../ir/ops/index.ts'
import type { RolesPlan } from './groups.ts'

/** The epoch counter of a flag set on the signalling side or on the waiting side. */
export interface Epoch {
  readonly flags: string
  readonly side: 'signal' | 'wait'
}

export interface StartPlan {
  /** The epochs that programs read, ordered by first use in the text. */
  readonly epochs: readonly Epoch[]
  /**
   * The epochs that a launch advances, a subset of `epochs`. Epochs of signalling sides precede those of waiting sides.
   */
  readonly advanced: readonly Epoch[]
  /**
   * The nodes that write a wait record if the launch is aborted, each with the number of its source line: the index in
   * `waitLines`, plus 1.
   */
  readonly waitSites: ReadonlyMap<Node, number>
  /** The author's source lines that contain waits. If the list is empty, programs need not read the abort word. */
  readonly waitLines: readonly string[]
}

/** The epochs that an op at the start of a kernel reads or advances. */
export const epochsAt = (node: Node | undefined): Epoch[] =>
  (node?.inputs ?? []).map((flags, i) => ({
    flags: paramName(flags),
    side: attribute<readonly Epoch['side'][]>(node!, 'sides')[i],
  }))

type Groups = Pick<RolesPlan, 'groups'>

export const planStart = analysis('start of a program', findStart, (ir) =>
  findStart(ir, { groups: new Map() }),
)

function findStart({ body }: KernelIR, roles: Groups): StartPlan {
  const [epochs, advanced] = [new Map<string, Epoch>(), new Map<string, Epoch>()]
  const waitSites = new Map<Node, number>()
  const waitLines: string[] = []
  for (const node of inTextOrder(body, roles)) {
    const used = epochOf(node)
    if (used) {
      const epoch = { flags: paramName(used.flags), side: used.side }
      const key = `${epoch.side} ${epoch.flags}`
      if (!epochs.has(key)) epochs.set(key, epoch)
      if (used.advances && !advanced.has(key)) advanced.set(key, epoch)
    }
    if (!reportsWait(node)) continue
    const line = authorOf(node, body).site?.line ?? '(unknown line)'
    if (!waitLines.includes(line)) waitLines.push(line)
    waitSites.set(node, waitLines.indexOf(line) + 1)
  }
  const ofSide = (side: Epoch['side']): Epoch[] => [...advanced.values()].filter((one) => one.side === side)
  return {
    epochs: [...epochs.values()],
    advanced: [...ofSide('signal'), ...ofSide('wait')],
    waitSites,
    waitLines,
  }
}

/**
 * Yields the nodes of a block in the order in which the emitted text contains them. The text orders roles by their
 * first warp.
 */
function* inTextOrder({ nodes }: Block, roles: Groups): Generator<Node> {
  const first = (block: Block): number => roles.groups.get(block)?.first ?? 0
  for (const node of nodes) {
    yield node
    for (const block of [...node.blocks].sort((a, b) => first(a) - first(b))) yield* inTextOrder(block, roles)
  }
}

/**
 * True if a program can block at the node for ever and the node reports it. At a thread barrier or at a ring slot, a
 * program blocks for ever only if another role does, and that role reports its own wait.
 */
function reportsWait(node: Node): boolean {
  if (mayWait(node)) return true
  const { waitsFor, meets } = opOf(node)
  return (
    waitsFor === 'roles' && meets === 'never' && origin(node.inputs[0]).base.attributes.ring === undefined
  )
}

/**
 * Returns the node that has the source line of the author's wait. For flag-in-data words, that is the node that
 * advances the epoch of the replaced flag.
 */
function authorOf(node: Node, body: Block): Node {
  if (node.op !== 'until') return node
  const [flags] = [...walk(node.blocks[0])].flatMap((one) => epochOf(one)?.flags ?? [])
  const advances = (one: Node): boolean => {
    const used = epochOf(one)
    return used !== undefined && used.advances && used.side === 'wait' && used.flags === flags
  }
  return [...walk(body)].find(advances) ?? node
}
