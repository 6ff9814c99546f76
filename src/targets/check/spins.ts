/**
 * Detects loops that may not end: an iteration without effects need not be repeated until a location that it read
 * changes.
 */
import type { Agent } from './agent.ts'

/** Returns false if another iteration of the loop would only repeat the previous iteration. */
export function canIterate(agent: Agent, loop: number, state: readonly number[]): boolean {
  const previous = agent.spins.get(loop)
  if (!previous || previous.spin.effects || !sameState(agent, previous.state, state)) return true
  for (const [location, message] of previous.spin.reads) if (location.hasNews(message)) return true
  return false
}

/**
 * Begins an iteration of the loop. The registers `state` hold the values that the loop carries from one iteration to
 * the next.
 */
export function iterate(agent: Agent, loop: number, state: readonly number[]): void {
  const previous = agent.spins.get(loop)
  agent.stale.clear()
  if (previous && !previous.spin.effects && sameState(agent, previous.state, state))
    for (const [location, message] of previous.spin.reads) agent.stale.set(location, message)
  agent.spins.set(loop, {
    state: state.map((register) => agent.registers[register]),
    spin: { effects: false, reads: new Map() },
  })
}

function sameState(agent: Agent, before: readonly unknown[], registers: readonly number[]): boolean {
  return registers.every((register, i) => {
    const now = agent.registers[register]
    const then = before[i]
    if (typeof now === 'number') return Object.is(now, then)
    return (now as Float64Array).every((x, j) => Object.is(x, (then as Float64Array)[j]))
  })
}
