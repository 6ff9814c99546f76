/** Generates small random programs, equal for equal seeds. */
import type { LitmusProgram, Op, Position, Scope } from './program.ts'

/** A small generator of uniform 32-bit numbers, so that a seed produces the same programs on every machine. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/**
 * Small programs with arbitrary mixes of orders, scopes and placements. Random programs compare the enumerators beyond
 * the textbook shapes. Each random program has two to four agents, two locations, and at most `maxOps` operations, with
 * at most five reads.
 */
export function randomPrograms(count: number, seed: number, maxOps = 8): LitmusProgram[] {
  const below = generator(seed)
  const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T
  const places: readonly Position[] = [
    { rank: 0, program: 0, role: 'w0' },
    { rank: 0, program: 0, role: 'w1' },
    { rank: 0, program: 1, role: 'w0' },
    { rank: 1, program: 0, role: 'w0' },
  ]
  const scopes: readonly Scope[] = ['block', 'device', 'system', 'system', 'system']

  return Array.from({ length: count }, (_, index): LitmusProgram => {
    const free = [...places]
    const agents = Array.from({ length: 2 + below(3) }, () => {
      const [position] = free.splice(below(free.length), 1)
      return { ...(position as Position), code: [] as Op[], registers: 0 }
    })
    let reads = 0
    let value = 0
    for (let left = agents.length + below(maxOps - agents.length + 1); left > 0; left--) {
      const agent = pick(agents)
      const loc = pick(['x', 'y'])
      const scope = pick(scopes)
      const kind = pick(['store', 'store', 'load', 'load', 'load', 'rmw', 'fence', 'fence'] as const)
      if (kind === 'fence') {
        agent.code.push({
          kind,
          order: pick(['acquire', 'release', 'acqRel', 'seqCst', 'seqCst'] as const),
          scope,
        })
      } else if (kind === 'store' || reads === 5) {
        const order = pick(['weak', 'relaxed', 'release', 'release'] as const)
        agent.code.push({ kind: 'store', loc, value: ++value, order, scope })
      } else if (kind === 'load') {
        reads += 1
        const order = pick(['weak', 'relaxed', 'acquire', 'acquire'] as const)
        agent.code.push({ kind, loc, into: `r${agent.registers++}`, order, scope })
      } else {
        reads += 1
        const op = pick(['xchg', 'add', 'cas'] as const)
        const expected = op === 'cas' ? { expected: below(value + 1) } : {}
        const order = pick(['relaxed', 'acquire', 'release', 'acqRel'] as const)
        const into = `r${agent.registers++}`
        agent.code.push({ kind, op, loc, value: ++value, ...expected, into, order, scope })
      }
    }
    return {
      name: `random-${seed}-${index}`,
      agents: agents.map(({ rank, program, role, code }) => ({ rank, program, role, code })),
      locations: ['x', 'y'],
    }
  })
}
