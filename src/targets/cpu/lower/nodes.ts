/** The table of lowering functions for CPU targets, one per op. */
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, opsWith, type OpName } from '../../../ir/ops/index.ts'
import { address, i32 } from '../build.ts'
import { lowerAtomic } from './atomics.ts'
import { barriersOf, type Lowering } from './context.ts'
import {
  lowerFor,
  lowerIf,
  lowerLast,
  lowerPersistent,
  lowerPipeline,
  lowerTeams,
  lowerWhile,
} from './control.ts'
import { lowerCopy } from './copies.ts'
import { lowerFragment, lowerReduction } from './fragments.ts'
import { lowerGathered } from './gathered.ts'
import { lowerLoad, lowerStore } from './memory.ts'
import { assert } from './diagnostics.ts'
import { isFragment } from './plan.ts'
import { lowerDot } from './products.ts'
import { lowerRoles } from './roles.ts'
import { lowerElement, lowerEpoch, lowerExtent, scalar } from './scalars.ts'
import { arrive, barrier, fence, reached, signal, wait, waitPhase } from './sync.ts'
import { isOfGpu, view } from './views.ts'

type Lower = (l: Lowering, node: Node) => void

/**
 * Lowers an elementwise op of the IR. The result of an elementwise op on fragments is stored in the program's private
 * memory, or each reader of the result computes it. An elementwise op on scalars becomes a local variable.
 */
const lowerElementwise: Lower = (l, node) => (isFragment(node) ? lowerFragment : lowerElement)(l, node)

/** Views and ids emit no code at their position in the program. A view or id is lowered where it is used. */
const lowerView: Lower = (l, node) => void view(l, node)
const lowerId: Lower = (l, node) => void scalar(l, node)

const ofGpu: Lower = (_, node) => isOfGpu(node)

/** Ops that the compiler stages of a CPU replace. */
const replaced: Lower = (_, { op }) => {
  throw new Error(`${op} is replaced before a kernel is lowered for a CPU`)
}

/** The world replaces `print` before it compiles a kernel (src/ir/passes/prints.ts). */
const expandedBefore: Lower = (_, { op }) => {
  throw new Error(`the kernel still contains ${op}: give the kernel a print buffer first`)
}

const lowerings: Readonly<Record<OpName, Lower>> = {
  ...opsWith({ elements: 'same' }, lowerElementwise),
  ...opsWith({ elements: 'stretched' }, lowerFragment),
  ...opsWith({ elements: 'reduced' }, lowerReduction),
  ...opsWith({ elements: 'gathered' }, lowerGathered),
  const: lowerId,
  rank: lowerId,
  program: lowerId,
  programs: lowerId,
  iota: lowerFragment,
  transpose: (l, node) => (node.type.kind === 'ref' ? lowerView : lowerFragment)(l, node),
  dot: lowerDot,

  on: lowerView,
  dim: lowerExtent,
  slice: lowerView,
  pick: lowerView,
  tile: lowerView,
  rows: lowerView,
  at: lowerView,

  shared: lowerView,
  load: lowerLoad,
  store: lowerStore,
  copy: lowerCopy,
  'copy.async': lowerCopy,
  'copy.nbi': replaced,
  'put.signal': replaced,
  quiet: replaced,
  ...opsWith({ effect: 'write', elements: 'other' }, lowerAtomic),

  epoch: lowerEpoch,
  signal,
  wait,
  reached,
  fence,
  barrier,
  barriers(l, node) {
    view(l, node)
    const start = address(l.ambient.frame, 0, 1, l.shared.declared.get(node)!)
    l.writer.zeroBytes(start, i32(4 * barriersOf(node).count))
  },
  'barrier.arrive': arrive,
  'barrier.wait': waitPhase,

  assert,
  print: expandedBefore,

  param: () => undefined,
  result(l, node) {
    const left = l.results.get(node.inputs[0])![attribute<number>(node, 'index')]
    if ('offset' in left && !('kind' in left)) l.buffers.set(node, left)
    else if ('kind' in left) l.scalars.set(node, left)
  },
  for: lowerFor,
  while: lowerWhile,
  if: lowerIf,
  persistent: lowerPersistent,
  pipeline: lowerPipeline,
  roles: lowerRoles,
  teams: lowerTeams,
  last: lowerLast,

  ...opsWith({ inserted: 'clusters' }, ofGpu),
  ...opsWith({ inserted: 'words' }, ofGpu),
  ...opsWith({ inserted: 'order' }, ofGpu),
}

export function lowerNode(l: Lowering, node: Node): void {
  entryOf(lowerings, node)(l, node)
}
