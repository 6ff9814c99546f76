/** Reports launches that may run concurrently and advance or read the same flag epochs. */
import { walk, type Node } from '../../ir/node.ts'
import { origin, paramName } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import type { Code } from './code.ts'
import type { FlagSet, FlagView } from './flags.ts'
import type { Launch } from './launch.ts'
import type { Machine } from './machine.ts'

interface Launched {
  readonly kernel: string
  readonly code: Code
  readonly args: Readonly<Record<string, unknown>>
  readonly stream: number
}

const flagsOf = ({ args }: Pick<Launched, 'args'>, names: ReadonlySet<string>): FlagSet[] =>
  [...names].map((name) => (args[name] as FlagView).flags)

/** The source location where a kernel first uses a flag set. */
function siteOf({ code, args }: Launched, flags: FlagSet): Site | undefined {
  const isIt = (node: Node): boolean =>
    node.type.kind === 'flags' && (args[paramName(origin(node).base)] as FlagView).flags === flags
  for (const node of walk(code.ir.body))
    if (node.type.kind !== 'flags' && node.inputs.some(isIt)) return node.site
  return undefined
}

/**
 * Reports launches that may run concurrently and share epochs. A flag set has two epoch counters per rank: one for
 * signals and one for waits. Launches that may run concurrently must neither advance the same epoch counter nor read
 * it.
 */
export function expectOwnEpochs(
  machine: Machine,
  now: Launched,
  rank: number,
  after: readonly Launch[],
): void {
  for (const launch of machine.beside(rank, after))
    for (const side of ['signals', 'waits'] as const)
      for (const [one, other] of [
        [launch, now],
        [now, launch],
      ] as const)
        for (const flags of flagsOf(one, one.code[side])) {
          const isAdvanced = flagsOf(other, other.code[side]).includes(flags)
          if (!isAdvanced && !flagsOf(other, other.code.looks[side]).includes(flags)) continue
          const what = side === 'signals' ? 'signal' : 'wait for'
          machine.report({
            kind: 'flag-reuse',
            kernel: now.kernel,
            message: `${one.kernel} (stream ${one.stream}) and ${other.kernel} (stream ${other.stream}) may run at once on rank ${rank}; ${isAdvanced ? `both launches ${what} ${flags.name}` : `the first launch advances the epoch of ${flags.name}, which the second launch reads`}, and a rank has only one epoch counter per flag set: give each launch flags of its own, or order the two with an event`,
            parties: [one, other].map((launched) => ({
              who: `${launched.kernel} on stream ${launched.stream}`,
              what: `uses ${flags.name}`,
              site: siteOf(launched, flags),
            })),
          })
        }
}
