/**
 * Computes the nodes that must be executed to know the traffic of one access: the loops and branches around the access,
 * and all nodes on which the addresses, the loops and the branches depend. The search stops at loads, because loaded
 * data is unknown before the launch.
 */
import { analysis } from '../analysis.ts'
import { attribute, type Block, type KernelIR, type Node } from '../node.ts'
import { accessesOf, leadingInputs, opOf, stateBlocks, stateCount } from '../ops/index.ts'
import { removeDead } from '../passes/dead.ts'
import { fold } from '../passes/fold.ts'
import { separatePuts } from '../passes/puts.ts'
import type { Site } from '../site.ts'

/** One access to global memory, one signal or one wait, with the nodes on which it depends. */
export interface Slice {
  readonly counted: Node
  /** The nodes that the traffic analysis executes, including the access that it counts. */
  readonly needed: ReadonlySet<Node>
}
export interface Plan {
  readonly ir: KernelIR
  readonly slices: readonly Slice[]
}

const plans = new WeakMap<KernelIR, Plan>()

export const plan = analysis('traffic', planOf)

function planOf(ir: KernelIR): Plan {
  let known = plans.get(ir)
  // Nodes that the lowering removes do not count as traffic of the recorded kernel either. A put with a signal counts
  // as a copy and as a signal.
  if (!known)
    plans.set(ir, (known = makePlan(ir.stage === 'recorded' ? removeDead(fold(separatePuts(ir))) : ir)))
  return known
}

/** The references to global memory that a node accesses, and its mask. */
export interface AccessParts {
  readonly source?: Node
  readonly target?: Node
  readonly mask?: Node
}

/** The references to global memory of a node. The result is undefined if the op of the node never accesses memory. */
export function accessParts(node: Node): AccessParts | undefined {
  if (opOf(node).accesses.length === 0) return undefined
  const accesses = accessesOf(node).filter(({ level }) => level === 'global')
  const [sources, targets] = [accesses.filter(({ reads }) => reads), accesses.filter(({ writes }) => writes)]
  if (sources.length > 1 || targets.length > 1)
    throw new Error(
      `${node.op} at ${node.site} reads or writes several references to global memory, but the traffic analysis supports only one of each`,
    )
  return {
    source: sources.at(0)?.ref,
    target: targets.at(0)?.ref,
    mask: accesses.find(({ mask }) => mask)?.mask,
  }
}

interface Structure {
  readonly parents: ReadonlyMap<Node, Node>
  /** For each parameter of a block, the block and the control-flow node that contains the block. */
  readonly owners: ReadonlyMap<Node, { readonly control: Node; readonly block: Block }>
}

function makePlan(ir: KernelIR): Plan {
  const parents = new Map<Node, Node>()
  const owners = new Map<Node, { readonly control: Node; readonly block: Block }>()
  const counted: Node[] = []
  /**
   * The role in which the traffic of an access is counted. If another role repeats the access, the repeated access hits
   * the cache and is not counted.
   */
  const roleOfSite = new Map<Site, Block>()
  const index = (block: Block, control: Node | undefined, role: Block | undefined): void => {
    for (const param of block.params) if (control) owners.set(param, { control, block })
    for (const node of block.nodes) {
      if (control) parents.set(node, control)
      if (isCounted(node) && (roleOfSite.get(node.site!) ?? role) === role) {
        counted.push(node)
        if (role && node.site) roleOfSite.set(node.site, role)
      }
      for (const inner of node.blocks) index(inner, node, opOf(node).flow === 'warps' ? inner : role)
    }
  }
  index(ir.body, undefined, undefined)
  return { ir, slices: counted.map((node) => makeSlice(node, { parents, owners })) }
}

function makeSlice(counted: Node, { parents, owners }: Structure): Slice {
  const needed = new Set<Node>()
  const kept = new Map<Node, Set<number>>()
  const pending: Node[] = [counted]
  const keep = (control: Node, i: number): void => {
    const indices = kept.get(control) ?? new Set<number>()
    kept.set(control, indices)
    if (indices.has(i)) return
    indices.add(i)
    pending.push(...stateBlocks(control).map((block) => block.results[i]))
    if (opOf(control).state !== 'yielded') pending.push(control.inputs[leadingInputs(control) + i])
  }
  for (let node = pending.pop(); node; node = pending.pop()) {
    const owner = owners.get(node)
    if (owner) {
      const state = owner.block.params.indexOf(node) - (owner.block.params.length - stateCount(owner.control))
      if (state >= 0) keep(owner.control, state)
      continue
    }
    if (needed.has(node)) continue
    needed.add(node)
    const parent = parents.get(node)
    if (parent) pending.push(parent)
    const parts = accessParts(node)
    if (parts) {
      if (node === counted) pending.push(...[parts.source, parts.target].filter((ref) => ref !== undefined))
      if (node === counted && parts.mask) pending.push(parts.mask)
    } else if (node.op === 'result') {
      pending.push(node.inputs[0])
      keep(node.inputs[0], attribute<number>(node, 'index'))
    } else if (opOf(node).effect === 'control') {
      pending.push(...node.inputs.slice(0, leadingInputs(node)))
      if (opOf(node).state === 'tested') pending.push(...node.blocks[0].results)
    } else pending.push(...node.inputs)
  }
  return { counted, needed }
}

function isCounted(node: Node): boolean {
  if (opOf(node).advances !== 'none') return true
  const parts = accessParts(node)
  return parts?.source !== undefined || parts?.target !== undefined
}
