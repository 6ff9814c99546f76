/**
 * Counts the arrivals at `last` ops, whose block only the last program to arrive executes. Reports counts of arrivals
 * that are incomplete when a launch ends.
 */
import type { Node } from '../../ir/node.ts'
import { describe, type Agent } from './agent.ts'
import { Clock } from './clock.ts'
import type { Launch } from './launch.ts'
import type { Machine } from './machine.ts'

/**
 * Counts an arrival at an index of a `last` op. The result is true if this arrival completes the count of `arrivals`;
 * the next arrival then starts a new count.
 */
export function arriveLast(
  machine: Machine,
  agent: Agent,
  node: Node,
  arrivals: number,
  index: number,
): boolean {
  const of = (node.attributes.of as number | undefined) ?? 1
  if (index < 0 || index >= of)
    machine.stop(
      agent,
      node,
      'out-of-bounds',
      `t.last counts an arrival at index ${index}, but has ${of} counters (option of)`,
    )
  if (arrivals < 1)
    machine.stop(
      agent,
      node,
      'error',
      `t.last has ${arrivals} as its number of arrivals, so its block would never run`,
    )
  const { lasts } = agent.launch
  let counts = lasts.get(node)
  if (!counts) lasts.set(node, (counts = new Map()))
  let gate = counts.get(index)
  if (!gate) counts.set(index, (gate = { wanted: arrivals, rounds: 0, arrived: [], clock: new Clock() }))
  agent.clock.join(gate.clock)
  agent.release(gate.clock)
  agent.noteEffect()
  machine.strong.noteClock(agent)
  const arrival = {
    who: describe(agent),
    what: `arrives${node.attributes.of === undefined ? '' : ` at index ${index}`} for ${arrivals} arrivals`,
    site: node.site,
  }
  gate.arrived.push(arrival)
  if (gate.arrived.length === 1) gate.wanted = arrivals
  else if (gate.wanted !== arrivals)
    machine.report({
      kind: 'lost-signal',
      kernel: agent.launch.kernel,
      message: `t.last counts to ${gate.wanted} arrivals in some programs and to ${arrivals} in others: all programs must give the same number`,
      parties: [gate.arrived[0], arrival],
    })
  if (gate.arrived.length < gate.wanted) return false
  gate.arrived = []
  gate.rounds++
  return true
}

/**
 * Reports counts of `last` ops that are incomplete at the end of a launch, because the next launch would continue such
 * a count.
 */
export function expectArrived(machine: Machine, { kernel, rank, lasts }: Launch): void {
  const counts = [...lasts].flatMap(([node, all]) =>
    [...all].map(([index, count]) => ({ node, index, count })),
  )
  for (const { node, index, count } of counts) {
    const { wanted, rounds, arrived } = count
    if (arrived.length === 0) continue
    const at = node.attributes.of === undefined ? '' : ` at index ${index}`
    const before =
      rounds === 0 ? '' : `, after the block has run ${rounds === 1 ? 'once' : `${rounds} times`}`
    machine.report({
      kind: 'lost-signal',
      kernel,
      message: `t.last has ${arrived.length} of ${wanted} arrivals${at} when the launch ends on rank ${rank}${before}: ${wanted - arrived.length} ${wanted - arrived.length === 1 ? 'is' : 'are'} missing, or ${arrived.length} too many`,
      parties: arrived.slice(0, 4),
    })
  }
}
