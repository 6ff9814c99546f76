/**
 * Litmus programs as plain data: a few agents, each with straight-line code over a few shared locations.
 *
 * Every location starts at 0. An agent's registers are numbered by the order in which its code fills them, and
 * locations are named from a fixed list, so that the text of an outcome depends on the program only and two
 * independent enumerators can compare their outcomes as sets of strings.
 */

export type Scope = 'block' | 'device' | 'system'
export type StoreOrder = 'weak' | 'relaxed' | 'release'
export type LoadOrder = 'weak' | 'relaxed' | 'acquire'
export type RmwOrder = 'relaxed' | 'acquire' | 'release' | 'acqRel'
export type FenceOrder = 'acquire' | 'release' | 'acqRel' | 'seqCst'
export type RmwKind = 'xchg' | 'add' | 'cas'

export interface StoreOp {
  readonly kind: 'store'
  readonly loc: string
  readonly value: number
  readonly order: StoreOrder
  /** The scope of the store, which has no effect on a weak store. */
  readonly scope: Scope
}

export interface LoadOp {
  readonly kind: 'load'
  readonly loc: string
  readonly into: string
  readonly order: LoadOrder
  /** The scope of the load, which has no effect on a weak load. */
  readonly scope: Scope
  /**
   * If present, the enumerators keep only executions in which the load reads this value. A load with this field
   * represents a spin loop.
   */
  readonly await?: number
}

export interface RmwOp {
  readonly kind: 'rmw'
  readonly op: RmwKind
  readonly loc: string
  /** The value of an exchange, the addend of an addition, or the value that a successful cas writes. */
  readonly value: number
  /** The value that a cas compares with. Only a cas has this field. */
  readonly expected?: number
  /** The register that receives the old value, whether or not a cas succeeds. */
  readonly into: string
  readonly order: RmwOrder
  readonly scope: Scope
  /** If present, the enumerators keep only executions in which the RMW reads this value. */
  readonly await?: number
}

export interface FenceOp {
  readonly kind: 'fence'
  readonly order: FenceOrder
  readonly scope: Scope
}

export type Op = StoreOp | LoadOp | RmwOp | FenceOp

export interface Position {
  readonly rank: number
  readonly program: number
  readonly role: string
}

export interface LitmusAgent extends Position {
  readonly code: readonly Op[]
}

export interface LitmusProgram {
  readonly name: string
  readonly agents: readonly LitmusAgent[]
  /** The locations of the program, which must be a prefix of `locationNames`. */
  readonly locations: readonly string[]
}

/** The names of locations, in the order in which programs use them. */
export const locationNames: readonly string[] = ['x', 'y', 'z', 'w', 'v', 'u']

/**
 * The canonical text of an outcome of a litmus test, such as `a0.r0=1 a1.r0=0 ; x=1 y=2`.
 *
 * `registers` holds, for each agent in order, the values its code loaded in order of appearance (an agent
 * without loads has an empty list); `finals` holds the last value of each location in order.
 */
export function outcomeKey(registers: readonly (readonly number[])[], finals: readonly number[]): string {
  const left = registers.flatMap((values, agent) =>
    values.map((value, index) => `a${agent}.r${index}=${value}`),
  )
  const right = finals.map((value, index) => `${locationNames[index] ?? `l${index}`}=${value}`)
  return `${left.join(' ')} ; ${right.join(' ')}`.trim()
}

/** Throws an error if the program violates the conventions that make outcomes canonical. */
export function checkProgram(program: LitmusProgram): void {
  const fail = (what: string): never => {
    throw new Error(`litmus program ${program.name}: ${what}`)
  }
  program.locations.forEach((name, index) => {
    if (name !== locationNames[index]) fail(`location ${index} is ${name}, not ${locationNames[index]}`)
  })
  const places = new Set(program.agents.map((agent) => `${agent.rank}/${agent.program}/${agent.role}`))
  if (places.size !== program.agents.length) fail('two agents share a position')
  program.agents.forEach((agent, index) => {
    let registers = 0
    for (const op of agent.code) {
      if (op.kind === 'fence') continue
      if (!program.locations.includes(op.loc)) fail(`agent ${index} uses the unknown location ${op.loc}`)
      if (op.kind === 'store') continue
      if (op.into !== `r${registers}`) fail(`agent ${index} fills ${op.into}, not r${registers}`)
      registers += 1
      if (op.kind === 'rmw' && (op.op === 'cas') !== (op.expected !== undefined)) {
        fail(`agent ${index}: expected belongs to a cas, and only to a cas`)
      }
    }
  })
}

/** Agents of one program instance, distinguished by their roles. Block scope covers agents of one program. */
export function sameProgram(count: number): Position[] {
  return Array.from({ length: count }, (_, index) => ({ rank: 0, program: 0, role: `w${index}` }))
}

/**
 * Agents of different program instances on one rank. Device scope covers agents of different programs on one rank;
 * block scope does not.
 */
export function sameRank(count: number): Position[] {
  return Array.from({ length: count }, (_, index) => ({ rank: 0, program: index, role: 'w0' }))
}

/** Positions of agents on different ranks. Only system scope covers agents on different ranks. */
export function differentRanks(count: number): Position[] {
  return Array.from({ length: count }, (_, index) => ({ rank: index, program: 0, role: 'w0' }))
}

/**
 * The first `near` agents run on rank 0 in different programs. The other agents run on rank 1 in different programs.
 */
export function splitRanks(count: number, near: number): Position[] {
  return Array.from({ length: count }, (_, index) =>
    index < near ? { rank: 0, program: index, role: 'w0' } : { rank: 1, program: index - near, role: 'w0' },
  )
}

/** True if some outcome contains all equations of `pattern`, such as `a1.r0=1 x=2`. */
export function contains(outcomes: Iterable<string>, pattern: string): boolean {
  const wanted = pattern.split(' ')
  return [...outcomes].some((outcome) => {
    const equations = new Set(outcome.split(' '))
    return wanted.every((equation) => equations.has(equation))
  })
}
