/**
 * Order inside a group. The language promises that a role is sequential; a group has many threads, and the copy engine and
 * the matrix unit besides. This keeps track of the accesses since the threads last met, and says what must happen before
 * the next one: a meeting, a fence between ordinary accesses and those of the engines, or the end of stores under way.
 */
import { attribute, walk, type Block, type Node } from '../../../ir/node.ts'
import { origin } from '../../../ir/ops/index.ts'
import type { RefType } from '../../../ir/type.ts'
import { isFragment, type Layouts } from './assign.ts'
import type { CopyPlanner, TensorPlan } from './copies.ts'

export interface Access {
  /** The tensor parameter or shared tile. */
  readonly base: Node
  readonly ref: Node
  readonly writes: boolean
  /** Ordinary loads and stores, reads by an engine, or stores that the copy engine has under way. */
  readonly by: 'threads' | 'engine' | 'engineStore'
  /** How elements are dealt out to threads: equal ones meet in the same thread. */
  readonly dealt: string
}

export interface Plans {
  readonly layouts: Layouts
  readonly copies: CopyPlanner
  readonly stores: ReadonlyMap<Node, TensorPlan>
}

/** Accesses of memory by a node itself. */
export function accessesOf(node: Node, plans: Plans): Access[] {
  const access = (ref: Node, writes: boolean, by: Access['by'], dealt: string): Access => ({
    base: origin(ref).base,
    ref,
    writes,
    by,
    dealt,
  })
  const dealtAs = (value: Node): string => {
    if (!isFragment(value)) return ''
    const { kind, count, vector } = plans.layouts.of(value)
    return `${kind} ${count} ${vector}`
  }
  switch (node.op) {
    case 'load':
      return [access(node.inputs[0], false, 'threads', dealtAs(node) || 'all')]
    case 'store':
      if (plans.stores.has(node)) return [access(node.inputs[0], true, 'engineStore', 'engine')]
      return [access(node.inputs[0], true, 'threads', dealtAs(node.inputs[1]) || 'leader')]
    case 'copy': {
      const dealt = `${plans.copies.ofCopy(node).how} ${(node.inputs[0].type as RefType).shape.join('x')}`
      return [access(node.inputs[0], false, 'threads', dealt), access(node.inputs[1], true, 'threads', dealt)]
    }
    case 'copy.async': {
      // Its target is ordered by the barrier it completes on: that is the author's.
      const by = plans.copies.ofCopy(node).how === 'tensor' ? 'engine' : 'threads'
      return [access(node.inputs[0], false, by, 'copy')]
    }
    case 'dot':
      return node.inputs
        .slice(0, 2)
        .filter((operand) => operand.type.kind === 'ref')
        .map((operand) => access(operand, false, 'engine', 'engine'))
    default:
      if (!node.op.startsWith('atomic.')) return []
      return [access(node.inputs[0], true, 'threads', dealtAs(node) || 'leader')]
  }
}

export interface Need {
  readonly meet: boolean
  readonly fenceShared: boolean
  readonly fenceGlobal: boolean
  readonly drain: boolean
}

interface Pending extends Access {
  /** The loop in whose previous iteration it was. */
  readonly before: Node | undefined
}

export class Hazards {
  #pending: Pending[] = []

  need(accesses: readonly Access[]): Need {
    const conflicts = accesses.flatMap((now) =>
      this.#pending.filter((then) => conflict(then, now)).map((then) => ({ then, now })),
    )
    const crossing = conflicts.filter(
      ({ then, now }) => then.writes && then.by === 'threads' && now.by !== 'threads',
    )
    const isShared = (access: Access): boolean => access.base.op === 'shared'
    return {
      meet: conflicts.length > 0,
      fenceShared: crossing.some(({ then }) => isShared(then)),
      fenceGlobal: crossing.some(({ then }) => !isShared(then)),
      drain: conflicts.some(({ then }) => then.by === 'engineStore'),
    }
  }

  add(accesses: readonly Access[]): void {
    for (const access of accesses) this.#pending.push({ ...access, before: undefined })
  }

  /** The threads have met. */
  meet(): void {
    this.#pending = this.#pending.filter((access) => access.by === 'engineStore')
  }

  /** Stores of the copy engine have ended. */
  drained(): void {
    this.#pending = this.#pending.filter((access) => access.by !== 'engineStore')
  }

  get isClear(): boolean {
    return this.#pending.length === 0
  }

  get hasStoresUnderWay(): boolean {
    return this.#pending.some((access) => access.by === 'engineStore')
  }

  get hasSharedWrites(): boolean {
    return this.#pending.some(
      (access) => access.writes && access.by === 'threads' && access.base.op === 'shared',
    )
  }

  /** In a loop, what an iteration does comes before what the next one does. */
  enterLoop(loop: Node, plans: Plans): void {
    for (const block of loop.blocks)
      for (const node of walk(block))
        for (const access of accessesOf(node, plans)) this.#pending.push({ ...access, before: loop })
  }

  snapshot(): readonly unknown[] {
    return [...this.#pending]
  }

  /** Where branches meet again, what either did is pending. */
  restore(...branches: readonly (readonly unknown[])[]): void {
    this.#pending = [...new Set(branches.flat() as Pending[])]
  }
}

function conflict(then: Pending, now: Access): boolean {
  if (then.base !== now.base || !(then.writes || now.writes)) return false
  if (then.by === 'engine' && now.by === 'engine') return false
  if (then.dealt === 'leader' && now.dealt === 'leader') return false
  if (then.ref !== now.ref) return true
  if (then.before && isDistinct(now.ref, then.before)) return false
  return then.dealt !== now.dealt || then.by !== 'threads' || then.dealt === 'all'
}

/** Whether a tile is another one in every iteration of a loop: all the loop's indices choose it. */
function isDistinct(ref: Node, loop: Node): boolean {
  if (ref.op !== 'tile' || (loop.op !== 'for' && loop.op !== 'persistent')) return false
  const [body] = loop.blocks
  const indices = body.params.slice(0, loop.op === 'for' ? 1 : attribute<number>(loop, 'axes'))
  const chosen = new Set(ref.inputs.slice(1))
  for (let view = ref.inputs[0]; view.op !== 'param'; view = view.inputs[0])
    if (view.op === 'pick') chosen.add(view.inputs[1])
  return indices.every((index) => chosen.has(index))
}

/** Whether a block stores through the copy engine. */
export function storesByEngine(block: Block, plans: Plans): boolean {
  return [...walk(block)].some((node) => plans.stores.has(node))
}
