/**
 * Exchanges of elements between the threads of a role through shared memory. In the last stage for a GPU, the attribute
 * `exchange` of a node lists the steps of its exchange, including the thread barriers:
 *
 *   write    threads write elements that other threads need: all threads, one thread per warp, or one for all
 *   meet     the threads of the role synchronise
 *   change   threads change the elements in shared memory
 *   read     threads read elements that other threads have written or changed
 *
 * The analyses of a kernel and the code generators of a target follow the listed steps of an exchange and no others.
 */
import { KernelError } from './site.ts'
import type { Node } from './node.ts'

export const exchangeSteps = ['write', 'meet', 'change', 'read'] as const
export type ExchangeStep = (typeof exchangeSteps)[number]

/**
 * The steps by which the threads of a role exchange the value of a node. The list is empty if the threads do not
 * exchange the value.
 */
export const exchangeOf = ({ attributes }: Node): readonly ExchangeStep[] =>
  (attributes.exchange ?? []) as readonly ExchangeStep[]

/** True if the threads of the role exchange the value of the node, so that no thread may execute the node alone. */
export const isExchanged = (node: Node): boolean => node.attributes.exchange !== undefined

/**
 * Throws an error unless the steps of a node's exchange begin with a write, and the threads synchronise after this
 * write and between any two steps that access shared memory.
 */
export function expectExchange(node: Node): void {
  if (!isExchanged(node)) return
  const steps: readonly string[] = exchangeOf(node)
  const fail = (problem: string): never => {
    throw new KernelError(`${node.op}: an exchange of elements ${problem}`, node.site)
  }
  const unknown = steps.find((step) => !(exchangeSteps as readonly string[]).includes(step))
  if (unknown !== undefined) fail(`has no step ${unknown}: its steps are ${exchangeSteps.join(', ')}`)
  if (steps[0] !== 'write' || !steps.includes('meet')) fail('begins with write, and threads meet after it')
  for (const [i, step] of steps.entries())
    if (i > 0 && (step === 'meet') === (steps[i - 1] === 'meet'))
      fail(`needs one meet between ${steps[i - 1]} and ${step}`)
}
