/**
 * The rules for the start of a program (ops/start.ts), for kernels that have passed the stage that inserts it:
 *
 * 1. Each op of the start occurs at most once, in the order of `startOrder`.
 * 2. The threads wait for the previous launch of the stream, because the kernel may use what that launch wrote. A kernel
 *    with a loop that may poll for any time does not let the next launch start before its own end, because the next
 *    launch would occupy multiprocessors while the kernel polls.
 * 3. One thread initialises all barriers that the kernel declares, and then the threads synchronise.
 * 4. The threads read each epoch that the kernel uses.
 * 5. The threads synchronise after they have read epochs that the launch advances, and the launch advances exactly the
 *    epochs that an op of the kernel advances.
 */
import { walk, type KernelIR, type Node } from './node.ts'
import { declaresBarriers, epochOf, isOpenEnded, origin, paramName, startOrder } from './ops/index.ts'

type StartName = (typeof startOrder)[number]

/** The stage that inserts the ops at the start of a program. */
const INSERTED: string = 'order'

/** True for a kernel that has passed the stage that inserts the ops at the start of a program. */
export const hasStart = ({ stage, passed }: Pick<KernelIR, 'stage' | 'passed'>): boolean =>
  stage === INSERTED || passed?.includes(INSERTED) === true

export function expectStart(ir: KernelIR, fail: (node: Node, problem: string) => never): void {
  if (!hasStart(ir)) return
  const all = [...walk(ir.body)]
  const places = expectOrder(ir.body.nodes, fail)
  const at = (op: StartName): Node | undefined => places.get(op)
  const anyNode = ir.body.nodes.at(0) ?? ir.body.params.at(0)
  if (!at('start.after')) {
    if (anyNode) fail(anyNode, 'needs start.after, because no op waits for the previous launch')
    return
  }
  const openEnded = all.find(isOpenEnded)
  if (at('start.next') && openEnded)
    fail(openEnded, 'may poll for any time, but start.next lets the next launch start')

  for (const node of all.filter(declaresBarriers)) {
    if (!at('start.barriers')?.inputs.includes(node)) fail(node, 'needs start.barriers, which initialises it')
    if (!at('start.meet')) fail(node, 'needs start.meet, because one thread initialises it for all')
  }

  const [read, advanced] = [epochsOf(at('start.epochs')), epochsOf(at('start.advance'))]
  const toAdvance = new Set<string>()
  for (const node of all) {
    const used = epochOf(node)
    if (!used) continue
    const epoch = keyOf(used.flags, used.side)
    if (!read.has(epoch)) fail(node, `needs start.epochs, which reads the epoch ${epoch}`)
    if (!used.advances) continue
    toAdvance.add(epoch)
    if (!advanced.has(epoch)) fail(node, `needs start.advance, which advances the epoch ${epoch}`)
  }
  const advance = at('start.advance')
  if (!advance) return
  if (!at('start.meet')) fail(advance, 'needs start.meet: other threads may still read the epochs')
  for (const epoch of advanced)
    if (!toAdvance.has(epoch)) fail(advance, `advances the epoch ${epoch}, which no op advances`)
}

/** Returns the ops at the start of a program, after a check that each occurs at most once and in order (rule 1). */
function expectOrder(
  nodes: readonly Node[],
  fail: (node: Node, problem: string) => never,
): ReadonlyMap<StartName, Node> {
  const places = new Map<StartName, Node>()
  let last = -1
  for (const node of nodes) {
    const place = (startOrder as readonly string[]).indexOf(node.op)
    if (place < 0) continue
    if (place <= last) fail(node, `is at the start after ${startOrder[last]}: each op once, and in order`)
    last = place
    places.set(startOrder[place], node)
  }
  return places
}

const keyOf = (flags: Node, side: string): string => `${paramName(flags)} (${side})`

function epochsOf(node: Node | undefined): ReadonlySet<string> {
  const sides = (node?.attributes.sides ?? []) as readonly string[]
  return new Set(node?.inputs.map((flags, i) => keyOf(origin(flags).base, sides[i])))
}
