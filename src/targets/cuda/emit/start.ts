/**
 * Decides what a program does before its first statement, from the facts of the kernel's ops: which flag epochs it reads and advances,
 * whether it reads the abort word, and by which numbers its waits are reported.
 */
import { analysis } from '../../../ir/analysis.ts'
import { walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { epochOf, mayWait, opOf, origin, paramName } from '../../../ir/ops/index.ts'
import type { RolesPlan } from './groups.ts'

/** An epoch of a flag set, on its signalling or its waiting side. */
export interface Epoch {
  readonly flags: string
  readonly side: 'signal' | 'wait'
}

export interface StartPlan {
  /** The epochs that programs read, in the order in which the text uses them first. */
  readonly epochs: readonly Epoch[]
  /** Those of `epochs` that a launch advances, first the signalling sides. */
  readonly advanced: readonly Epoch[]
  /** The nodes that report what they wait for, with the number of their line: an index in `waitLines`, plus 1. */
  readonly waitSites: ReadonlyMap<Node, number>
  /** The author's lines that wait. If there are none, programs need not read the abort word. */
  readonly waitLines: readonly string[]
}

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

/** The nodes in the order of the text, in which roles are ordered by their first warp. */
function* inTextOrder({ nodes }: Block, roles: Groups): Generator<Node> {
  const first = (block: Block): number => roles.groups.get(block)?.first ?? 0
  for (const node of nodes) {
    yield node
    for (const block of [...node.blocks].sort((a, b) => first(a) - first(b))) yield* inTextOrder(block, roles)
  }
}

/**
 * True if a program can wait here for ever. At a thread barrier, and for a slot of a ring, it only waits for ever if another role does,
 * and that role reports it.
 */
function reportsWait(node: Node): boolean {
  if (mayWait(node)) return true
  const { waitsFor, meets } = opOf(node)
  return (
    waitsFor === 'roles' && meets === 'never' && origin(node.inputs[0]).base.attributes.ring === undefined
  )
}

/** The node that stands for the author's wait: of words that replace a flag, the one that advances the flag's epoch. */
function authorOf(node: Node, body: Block): Node {
  if (node.op !== 'until') return node
  const [flags] = [...walk(node.blocks[0])].flatMap((one) => epochOf(one)?.flags ?? [])
  const advances = (one: Node): boolean => {
    const used = epochOf(one)
    return used !== undefined && used.advances && used.side === 'wait' && used.flags === flags
  }
  return [...walk(body)].find(advances) ?? node
}
