/**
 * Renders the ops at the start of a program (`ir/ops/start.ts`). The emitter writes the start when the body of the
 * kernel is known, because the start prefetches the tensor maps and words that the body uses.
 */
import { attribute, type Block, type Node } from '../../../../ir/node.ts'
import { isOfStart, type startOrder } from '../../../../ir/ops/index.ts'
import { code, joined, type Code } from '../code.ts'
import type { Emission } from '../emission.ts'
import { lib } from '../library.ts'
import { epochsAt, type Epoch } from '../start.ts'

type StartName = (typeof startOrder)[number]

/** The data that all renderers of ops at the start of a program use. */
interface Start {
  readonly emission: Emission
  /** The ops at the start of the kernel. */
  readonly ops: ReadonlyMap<StartName, Node>
  /**
   * The address of the counter of the programs that have read the epochs. There is no counter if no epoch is advanced.
   */
  readonly counter: Code | undefined
}

type StartRenderer = (node: Node, start: Start) => void

/** Returns the ops at the start of a kernel, in their order. */
export const startOf = (body: Block): ReadonlyMap<StartName, Node> =>
  new Map(body.nodes.filter(isOfStart).map((node) => [node.op as StartName, node]))

/** Renders all ops at the start of the kernel, in their order. */
export function renderStart(emission: Emission): void {
  const ops = startOf(emission.plans.ir.body)
  const counter = ops.has('start.advance') ? emission.params.counter() : undefined
  for (const [op, node] of ops) renderers[op](node, { emission, ops, counter })
}

const barriers: StartRenderer = (node, { emission: { out, plans, params } }) => {
  const arrivals = attribute<readonly number[]>(node, 'arrivals')
  out.block('if (thread == 0)', () => {
    for (const map of params.maps) out.line(code`${lib.tma_prefetch}(${map});`)
    node.inputs.forEach((declared, i) => {
      const { at } = plans.shared.barriers.get(declared)!
      out.line(
        code`for (u32 i = 0; i < ${attribute<number>(declared, 'count')}; ++i) ${lib.barrier_init}(shared + ${at} + i * 8, ${arrivals[i]});`,
        declared.site,
      )
    })
    out.line(code`${lib.barrier_init_fence}();`)
    out.line(code`${lib.fence_async_shared}();`)
  })
}

/**
 * Memory accesses start after `griddepcontrol.wait`, when the previous kernel has ended and its writes are visible. The
 * next kernel of the stream may then start (programmatic dependent launch). The warps of a role that starts before the
 * previous kernel has ended do neither: they do not wait for the previous kernel, and do not let the next kernel start.
 */
const after: StartRenderer = (node, start) => {
  const { emission, ops } = start
  const { out, params } = emission
  const begin = (): void => {
    out.line(code`${lib.kernel_before_ended}();`)
    if (ops.has('start.next')) out.line(code`${lib.next_kernel_may_start}();`)
  }
  bringNear(start)
  const { early, reads } = node.attributes as { early?: string; reads?: readonly string[] }
  if (early !== undefined) {
    const settled = params.settled([reads!])
    const isSettled = code`threadIdx.x < 32 && ${settled} != 0`
    out.line(
      code`const bool is_early = ${isSettled};  // true: the ${early} may copy before the previous kernel has ended`,
    )
    out.block('if (!is_early)', begin)
  } else begin()
  emission.recorder?.begins()
}

/**
 * Prefetches into L2 the words that every program reads first. Other data may have evicted these words since the last
 * launch.
 */
function bringNear({ emission: { out, params, plans }, ops, counter }: Start): void {
  const sets = new Set(epochsAt(ops.get('start.epochs')).map(({ flags }) => flags))
  const words = [
    ...[...sets].map((flags) => params.epochs(flags)),
    ...(ops.has('start.aborted') ? [params.control] : []),
    ...(counter ? [counter] : []),
  ]
  if (words.length === 0) return
  const calls = words.map((one) => code`${lib.bring_near}(${one});`)
  out.line(code`if (thread == ${plans.clerk}) { ${joined(calls, ' ')} }`)
}

/** In an aborted world, nobody would signal the flags that this kernel waits for. */
const aborted: StartRenderer = (node, { emission: { out, params } }) =>
  out.line(
    code`const bool is_stopped = thread == ${attribute<number>(node, 'thread')} && ${lib.abort_raised}(${params.control});`,
  )

const wordOf = ({ side }: Epoch): number => (side === 'signal' ? 0 : 1)

const epochs: StartRenderer = (node, { emission }) => {
  for (const one of epochsAt(node)) {
    const place = code`${emission.params.epochs(one.flags)} + ${wordOf(one)}`
    emission.out.line(
      code`const u32 ${emission.epoch(one.flags, one.side)} = *(volatile u32*)(${place}) + 1;`,
    )
  }
}

const meet: StartRenderer = (node, { emission }) => {
  const endsIfAborted = node.inputs.length > 0
  if (node.attributes.early !== undefined) meetBehind(node, endsIfAborted, emission)
  else emission.out.line(endsIfAborted ? 'if (__syncthreads_or(is_stopped)) return;' : '__syncthreads();')
}

/**
 * Synchronises all threads except the threads of the early role's warpgroup, which only arrive at the thread barrier
 * and continue. All threads use the thread barrier of the early role, because threads that continue may soon arrive at
 * another barrier of the program. A courier role (an idle warp that sends data) in the same warpgroup may continue,
 * too, because it uses no mbarriers. A courier role waits for no flags, so it need not know whether the world was
 * aborted.
 */
function meetBehind({ attributes }: Node, endsIfAborted: boolean, { out, plans }: Emission): void {
  const { block, groups } = plans.roles
  const { early, arriving, waiting } = attributes as { early: string; arriving: number; waiting?: number }
  const { branch, barrier } = [...groups.values()].find(({ name }) => name === early)!
  // The warp that advances the epochs waits until all threads have read them.
  const first: Code | undefined =
    waiting === undefined ? undefined : code`threadIdx.x / 32 == ${waiting / 32}`
  if (first) out.line(code`if (${first}) ${lib.group_barrier}(${barrier}, ${block});`)
  out.line(
    code`${first ? 'else ' : ''}if (threadIdx.x < ${arriving}) ${lib.group_arrive}(${barrier}, ${block});`,
  )
  out.block('else', () => {
    out.line(code`${lib.group_barrier}(${barrier}, ${block});`)
    if (!endsIfAborted) return
    const [other] = [...groups.values()].filter((group) => group.branch !== branch)
    const isAnyStopped = code`${lib.group_any}(${other.barrier}, ${block - arriving}, is_stopped)`
    out.line(code`if (${isAnyStopped}) { ${lib.copies_arrive}(); return; }`)
  })
}

/** When the last program reaches this line, all programs have read the epochs, so the epochs may be advanced. */
const advance: StartRenderer = (node, { emission, counter }) => {
  const { out, params } = emission
  const thread = attribute<number>(node, 'thread')
  const isLast = code`thread == ${thread} && ${lib.last_program}(${counter!}, gridDim.x)`
  out.block(code`if (${isLast})`, () => {
    for (const one of epochsAt(node))
      out.line(code`${params.epochs(one.flags)}[${wordOf(one)}] = ${emission.epoch(one.flags, one.side)};`)
  })
}

const renderers: Readonly<Record<StartName, StartRenderer>> = {
  'start.barriers': barriers,
  'start.after': after,
  // The renderer of `start.after` also renders `start.next`, because the same threads execute both ops.
  'start.next': () => undefined,
  'start.aborted': aborted,
  'start.epochs': epochs,
  'start.meet': meet,
  'start.advance': advance,
}
