/** Ends runs in which no agent can continue, or in which agents continue without an end. */
import { signalLines } from '../../world/signallers.ts'
import { rankNames } from '../../timeline/ranges.ts'
import { describe, type Agent } from './agent.ts'
import { CutRun, StopRun } from './findings.ts'
import type { Machine } from './machine.ts'
import type { Queues } from './queues.ts'

/** Ends a run in which none of the agents can continue. */
export function deadlock(blocked: readonly Agent[], machine: Machine, queues: Queues): never {
  const parties = blocked.slice(0, 12).map((agent) => {
    const instruction = agent.code.instructions[agent.pc]
    return {
      who: describe(agent),
      what: instruction.waiting?.(agent, machine) ?? 'waits',
      site: instruction.node.site,
    }
  })
  const more = blocked.length > parties.length ? `, ${blocked.length - parties.length} more not shown` : ''
  const signals = queues.couldSignal(blocked)
  const unsignalled = signals.filter((one) => one.signals.length === 0).flatMap(signalLines)
  const signallers = signals.flatMap(({ flag, signals: found }) =>
    found.map(({ kernel, ranks, what, site }) => ({
      who: rankNames(ranks),
      what: `could signal ${flag}: ${kernel} ${what}`,
      site,
    })),
  )
  throw new StopRun({
    kind: 'deadlock',
    kernel: blocked[0].launch.kernel,
    message: `${blocked.length} ${blocked.length === 1 ? 'agent waits' : 'agents wait'} ${[`for events that cannot occur any more${more}`, ...unsignalled].join('; ')}`,
    parties: [...parties, ...signallers],
  })
}

/**
 * Ends a run that reached the limit of scheduling points. If all enabled agents are in unbounded loops, the run is a
 * livelock. If some agent is not in an unbounded loop, the run ends without a result, because the kernel may just need
 * more steps.
 */
export function endAtLimit(enabled: readonly Agent[], stepLimit: number): never {
  if (!enabled.every((agent) => agent.spins.size > 0)) throw new CutRun()
  throw new StopRun({
    kind: 'livelock',
    kernel: enabled[0].launch.kernel,
    message: `all programs that can continue are still in unbounded loops after ${stepLimit} scheduling points`,
    parties: enabled
      .slice(0, 4)
      .map((agent) => ({ who: describe(agent), what: 'is still looping', site: agent.site })),
  })
}
