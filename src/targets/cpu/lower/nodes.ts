/** Every op, and who lowers it. */
import { attribute, type Node } from '../../../ir/node.ts'
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
import { lowerLoad, lowerStore } from './memory.ts'
import { isFragment } from './plan.ts'
import { lowerDot } from './products.ts'
import { lowerRoles } from './roles.ts'
import { lowerScalar } from './scalars.ts'
import { arrive, barrier, fence, reached, signal, wait, waitPhase } from './sync.ts'
import { view } from './views.ts'

export function lowerNode(l: Lowering, node: Node): void {
  switch (node.op) {
    case 'param':
      return
    case 'result': {
      const left = l.results.get(node.inputs[0])![attribute<number>(node, 'index')]
      if ('offset' in left && !('kind' in left)) l.buffers.set(node, left)
      else if ('kind' in left) l.scalars.set(node, left)
      return
    }
    case 'for':
      return lowerFor(l, node)
    case 'while':
      return lowerWhile(l, node)
    case 'if':
      return lowerIf(l, node)
    case 'persistent':
      return lowerPersistent(l, node)
    case 'pipeline':
      return lowerPipeline(l, node)
    case 'teams':
      return lowerTeams(l, node)
    case 'last':
      return lowerLast(l, node)
    case 'roles':
      return lowerRoles(l, node)
    case 'shared':
    case 'on':
    case 'slice':
    case 'pick':
    case 'tile':
    case 'rows':
    case 'at':
      view(l, node)
      return
    case 'barriers': {
      view(l, node)
      const start = address(l.ambient.frame, 0, 1, l.shared.declared.get(node)!)
      l.writer.zeroBytes(start, i32(4 * barriersOf(node).count))
      return
    }
    case 'transpose':
      if (node.type.kind === 'ref') view(l, node)
      else lowerFragment(l, node)
      return
    case 'load':
      return lowerLoad(l, node)
    case 'store':
      return lowerStore(l, node)
    case 'copy':
    case 'copy.async':
      return lowerCopy(l, node)
    case 'atomic.add':
    case 'atomic.sub':
    case 'atomic.cas':
    case 'atomic.xchg':
    case 'atomic.and':
    case 'atomic.or':
    case 'atomic.xor':
    case 'atomic.min':
    case 'atomic.max':
      return lowerAtomic(l, node)
    case 'signal':
      return signal(l, node)
    case 'wait':
      return wait(l, node)
    case 'reached':
      return reached(l, node)
    case 'fence':
      return fence(l, node)
    case 'barrier':
      return barrier(l, node)
    case 'barrier.arrive':
      return arrive(l, node)
    case 'barrier.wait':
      return waitPhase(l, node)
    case 'reduce.sum':
    case 'reduce.max':
    case 'reduce.min':
      return lowerReduction(l, node)
    case 'dot':
      return lowerDot(l, node)
    default:
      return isFragment(node) ? lowerFragment(l, node) : lowerScalar(l, node)
  }
}
