/** The barrier that synchronises all roles of a program. */
import { meetsRoles } from '../../ir/ops/index.ts'
import type { Agent } from './agent.ts'
import { Clock } from './clock.ts'
import type { StrongMemory } from './strong.ts'

/** The roles that a program-wide barrier is still waiting for. */
export function missing(agent: Agent): string[] {
  return agent.instance.roles
    .filter((role) => role !== agent && !isAtBarrier(role))
    .map((role) => (role.done ? `${role.role}, which has ended` : role.role))
}

function isAtBarrier(role: Agent): boolean {
  if (role.done) return false
  const at = role.code.instructions.at(role.pc)
  return at !== undefined && meetsRoles(at.node)
}

/** True if the agent can pass the barrier: all roles have arrived, or the barrier has released the agent. */
export function canMeet(agent: Agent): boolean {
  if (!agent.parent || agent.instance.released.has(agent)) return true
  return agent.instance.released.size === 0 && agent.instance.roles.every((role) => isAtBarrier(role))
}

/**
 * Executes the barrier for one role. The first role that passes the barrier releases all other roles. After a barrier,
 * each role is ordered after everything that any role did before the barrier.
 */
export function meet(agent: Agent, strong: StrongMemory): void {
  const { instance } = agent
  if (!agent.parent || instance.released.delete(agent)) return
  const all = new Clock()
  for (const role of instance.roles) role.release(all)
  for (const role of instance.roles) {
    role.clock.join(all)
    strong.noteClock(role)
    if (role !== agent) instance.released.add(role)
  }
}
