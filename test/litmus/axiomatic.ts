/**
 * A brute-force enumerator of the executions of a litmus program under the scoped release/acquire model, stated as
 * axioms over whole execution graphs. The enumeration is written for obviousness rather than speed, and is independent
 * of the implementation that it checks.
 *
 * An execution of a litmus program is a choice of:
 *   rf  for each read, the write it reads from;
 *   co  for each location, a total order of its writes that starts with the initial write;
 *   S   a total order of the seqCst fences that agrees with program order.
 *
 * Relations that are derived from po, rf, co and S:
 *   fr  = a read to every write that follows, in co, the one it read from (an RMW not to itself);
 *   eco = (rf + co + fr)+;
 *   sw  = release pattern to acquire pattern, through observation, with mutually covering scopes; and each
 *         pair of seqCst fences with mutually covering scopes, in the direction of S;
 *   hb  = (po + sw)+, with the initial writes before everything.
 *
 * The axioms of the memory model:
 *   hb is irreflexive;  hb;eco is irreflexive;  po + rf + (S between mutually covering fences) is acyclic;
 *   an RMW's write immediately follows, in co, the write it read from.
 * Axiom 1 follows from axiom 3, because sw lies within the closure in axiom 3, but axiom 1 is checked nevertheless.
 *
 * Relations are rows of bit masks, so a program has at most 31 events, initial writes included.
 */

import { checkProgram, outcomeKey } from './program.ts'
import type { LitmusProgram, Op, Position, Scope } from './program.ts'

export interface Enumeration {
  /** Every outcome of a consistent execution. */
  readonly outcomes: Set<string>
  /** Outcomes of consistent executions without any race. */
  readonly raceFreeOutcomes: Set<string>
  /** Outcomes of consistent executions with a race in which an access is weak. */
  readonly weakRaceOutcomes: Set<string>
  /**
   * Outcomes of consistent executions with a race of two strong accesses whose scopes do not include each other's
   * agents.
   */
  readonly scopeRaceOutcomes: Set<string>
  readonly weakRace: boolean
  readonly scopeRace: boolean
  /** The number of consistent executions. Two orders S that agree on all mutually covering fences count once. */
  readonly executions: number
}

interface Event {
  readonly id: number
  /** The index of the agent, or -1 for an initial write. */
  readonly agent: number
  readonly op: Op | undefined
  /** The index of the location, or -1 for a fence. */
  readonly loc: number
  readonly reads: boolean
  /** True if the event may write. A cas writes only if it succeeds; all other read-modify-writes always write. */
  readonly mayWrite: boolean
  readonly strong: boolean
  readonly releases: boolean
  readonly acquires: boolean
}

type Rows = number[]

const maxEvents = 31

function at<T>(items: readonly T[], index: number): T {
  const item = items[index]
  if (item === undefined) throw new RangeError(`no item ${index}`)
  return item
}

function emptyRows(size: number): Rows {
  return new Array<number>(size).fill(0)
}

function has(rows: Rows, from: number, to: number): boolean {
  return ((at(rows, from) >> to) & 1) === 1
}

function add(rows: Rows, from: number, to: number): void {
  rows[from] = at(rows, from) | (1 << to)
}

function union(left: Rows, right: Rows): Rows {
  return left.map((row, index) => row | at(right, index))
}

function closure(rows: Rows): Rows {
  const result = [...rows]
  for (let middle = 0; middle < result.length; middle++) {
    const reach = at(result, middle)
    for (let from = 0; from < result.length; from++) {
      const row = at(result, from)
      if ((row >> middle) & 1) result[from] = row | reach
    }
  }
  return result
}

/** True if no event of a transitively closed relation reaches itself. */
function irreflexive(closed: Rows): boolean {
  return closed.every((row, index) => ((row >> index) & 1) === 0)
}

function scopeIncludes(scope: Scope, owner: Position, other: Position): boolean {
  if (owner === other || scope === 'system') return true
  if (owner.rank !== other.rank) return false
  return scope === 'device' || owner.program === other.program
}

function buildEvents(program: LitmusProgram): Event[] {
  const events: Event[] = program.locations.map((_, loc) => ({
    id: loc,
    agent: -1,
    op: undefined,
    loc,
    reads: false,
    mayWrite: true,
    strong: false,
    releases: false,
    acquires: false,
  }))
  program.agents.forEach((agent, index) => {
    for (const op of agent.code) {
      events.push({
        id: events.length,
        agent: index,
        op,
        loc: op.kind === 'fence' ? -1 : program.locations.indexOf(op.loc),
        reads: op.kind === 'load' || op.kind === 'rmw',
        mayWrite: op.kind === 'store' || op.kind === 'rmw',
        strong: op.order !== 'weak',
        releases: op.order === 'release' || op.order === 'acqRel' || op.order === 'seqCst',
        acquires: op.order === 'acquire' || op.order === 'acqRel' || op.order === 'seqCst',
      })
    }
  })
  if (events.length > maxEvents) throw new Error(`litmus program ${program.name} has too many events`)
  return events
}

/** The program order of an agent. Initial writes come before all other events. */
function programOrder(events: readonly Event[]): Rows {
  const po = emptyRows(events.length)
  for (const from of events) {
    for (const to of events) {
      if (to.agent === -1) continue
      if (from.agent === -1 || (from.agent === to.agent && from.id < to.id)) add(po, from.id, to.id)
    }
  }
  return po
}

/** Pairs of events whose scopes include each other's agent. An initial write has no agent and belongs to no pair. */
function mutualCover(program: LitmusProgram, events: readonly Event[]): Rows {
  const rows = emptyRows(events.length)
  for (const left of events) {
    for (const right of events) {
      if (left.op === undefined || right.op === undefined) continue
      const leftAgent = at(program.agents, left.agent)
      const rightAgent = at(program.agents, right.agent)
      if (
        scopeIncludes(left.op.scope, leftAgent, rightAgent) &&
        scopeIncludes(right.op.scope, rightAgent, leftAgent)
      ) {
        add(rows, left.id, right.id)
      }
    }
  }
  return rows
}

/** Pairs of accesses to one location that are both strong, with mutually covering scopes. */
function morallyStrong(events: readonly Event[], mutual: Rows): Rows {
  const rows = emptyRows(events.length)
  for (const left of events) {
    for (const right of events) {
      if (left.loc < 0 || left.loc !== right.loc || !left.strong || !right.strong) continue
      if (has(mutual, left.id, right.id)) add(rows, left.id, right.id)
    }
  }
  return rows
}

/** Every total order of the seqCst fences that agrees with po, restricted to mutually covering pairs. */
function fenceOrders(events: readonly Event[], po: Rows, mutual: Rows): Rows[] {
  const fences = events.filter((event) => event.op?.kind === 'fence' && event.op.order === 'seqCst')
  const found = new Map<string, Rows>()
  const extend = (placed: readonly Event[]): void => {
    if (placed.length === fences.length) {
      const rows = emptyRows(events.length)
      placed.forEach((later, index) => {
        for (const earlier of placed.slice(0, index)) {
          if (has(mutual, earlier.id, later.id)) add(rows, earlier.id, later.id)
        }
      })
      found.set(rows.join(), rows)
      return
    }
    for (const fence of fences) {
      if (placed.includes(fence)) continue
      const ready = fences.every((other) => placed.includes(other) || !has(po, other.id, fence.id))
      if (ready) extend([...placed, fence])
    }
  }
  extend([])
  return [...found.values()]
}

/** Yields each order of `writes` after `first` in which every read-modify-write immediately follows its source. */
function coherenceOrders(
  first: number,
  writes: readonly number[],
  sourceOfRmw: ReadonlyMap<number, number>,
): number[][] {
  const found: number[][] = []
  const extend = (placed: readonly number[]): void => {
    if (placed.length === writes.length + 1) {
      found.push([...placed])
      return
    }
    const last = at(placed, placed.length - 1)
    const claimed = writes.some((write) => sourceOfRmw.get(write) === last)
    for (const write of writes) {
      if (placed.includes(write)) continue
      const source = sourceOfRmw.get(write)
      if (source === undefined ? !claimed : source === last) extend([...placed, write])
    }
  }
  extend([first])
  return found
}

interface Values {
  readonly read: ReadonlyMap<number, number>
  readonly written: ReadonlyMap<number, number>
}

/**
 * The values that all events read and write if the reads-from relation `rf` is acyclic. Returns undefined if a read's
 * source is a failed cas, or if an await does not read its value.
 */
function evaluate(events: readonly Event[], rf: ReadonlyMap<number, number>): Values | undefined {
  const read = new Map<number, number>()
  const written = new Map<number, number>()
  const done = new Set<number>()
  const settle = (event: Event): void => {
    if (done.has(event.id)) return
    done.add(event.id)
    if (event.reads) {
      const source = at(events, rf.get(event.id) ?? -1)
      settle(source)
      const value = written.get(source.id)
      if (value !== undefined) read.set(event.id, value)
    }
    const op = event.op
    if (op === undefined) written.set(event.id, 0)
    else if (op.kind === 'store') written.set(event.id, op.value)
    else if (op.kind === 'rmw') {
      const old = read.get(event.id)
      if (old === undefined) return
      if (op.op === 'add') written.set(event.id, old + op.value)
      else if (op.op === 'xchg' || old === op.expected) written.set(event.id, op.value)
    }
  }
  events.forEach(settle)
  for (const event of events) {
    if (!event.reads) continue
    const value = read.get(event.id)
    if (value === undefined) return undefined
    const op = event.op
    if ((op?.kind === 'load' || op?.kind === 'rmw') && op.await !== undefined && op.await !== value) {
      return undefined
    }
  }
  return { read, written }
}

/** Synchronisation through observed writes, without the additional order of seqCst fences. */
function synchronises(
  events: readonly Event[],
  rf: ReadonlyMap<number, number>,
  values: Values,
  mutual: Rows,
  moral: Rows,
): Rows {
  const sw = emptyRows(events.length)
  for (const reader of events) {
    if (!reader.reads) continue
    const sinks = events.filter(
      (event) =>
        event.acquires &&
        (event === reader ||
          (event.op?.kind === 'fence' && event.agent === reader.agent && event.id > reader.id)),
    )
    // Walks back along rf. Beyond the first write, the walk follows only read-modify-writes and morally strong links.
    let next: Event | undefined = reader
    while (next !== undefined && next.reads) {
      const writer: Event = at(events, rf.get(next.id) ?? -1)
      if (!has(moral, writer.id, next.id)) break
      for (const source of events) {
        const releases =
          source.releases &&
          ((source === writer && values.written.has(source.id)) ||
            (source.op?.kind === 'fence' && source.agent === writer.agent && source.id < writer.id))
        if (!releases) continue
        for (const sink of sinks) {
          if (has(mutual, source.id, sink.id)) add(sw, source.id, sink.id)
        }
      }
      next = writer
    }
  }
  return sw
}

/** The relation eco, computed from rf and the coherence orders of all locations. */
function extendedCoherence(
  size: number,
  rf: ReadonlyMap<number, number>,
  orders: readonly (readonly number[])[],
): Rows {
  const rows = emptyRows(size)
  for (const order of orders) {
    order.forEach((later, index) => {
      for (const earlier of order.slice(0, index)) add(rows, earlier, later)
    })
  }
  const co = [...rows]
  for (const [reader, writer] of rf) {
    add(rows, writer, reader)
    // In the from-read relation, a read-modify-write follows its own source in co, so it must not precede itself.
    rows[reader] = at(rows, reader) | (at(co, writer) & ~(1 << reader))
  }
  return closure(rows)
}

function composesToCycle(first: Rows, second: Rows): boolean {
  return first.some((row, from) =>
    second.some((back, via) => ((row >> via) & 1) === 1 && ((back >> from) & 1) === 1),
  )
}

/** All combinations of one item from every list. */
function product<T>(lists: readonly (readonly T[])[]): T[][] {
  return lists.reduce<T[][]>(
    (partial, list) => partial.flatMap((chosen) => list.map((item) => [...chosen, item])),
    [[]],
  )
}

/** All consistent executions of the program, as sets of outcomes and race verdicts. */
export function enumerate(program: LitmusProgram): Enumeration {
  checkProgram(program)
  const events = buildEvents(program)
  const po = programOrder(events)
  const mutual = mutualCover(program, events)
  const moral = morallyStrong(events, mutual)
  const fences = fenceOrders(events, po, mutual)
  const readers = events.filter((event) => event.reads)
  const sources = readers.map((reader) =>
    events.filter((event) => event.mayWrite && event.loc === reader.loc && event !== reader),
  )

  const outcomes = new Set<string>()
  const raceFreeOutcomes = new Set<string>()
  const weakRaceOutcomes = new Set<string>()
  const scopeRaceOutcomes = new Set<string>()
  let executions = 0

  const visit = (rf: ReadonlyMap<number, number>): void => {
    const causes = [...po]
    for (const [reader, writer] of rf) add(causes, writer, reader)
    if (!irreflexive(closure(causes))) return
    const values = evaluate(events, rf)
    if (values === undefined) return

    const sw = synchronises(events, rf, values, mutual, moral)
    const happens = fences
      .filter((order) => irreflexive(closure(union(causes, order))))
      .map((order) => closure(union(union(po, sw), order)))
      .filter(irreflexive)
    if (happens.length === 0) return

    const sourceOfRmw = new Map<number, number>()
    for (const [reader, writer] of rf) {
      if (values.written.has(reader)) sourceOfRmw.set(reader, writer)
    }
    const choices = program.locations.map((_, loc) => {
      const writes = events.filter(
        (event) => event.loc === loc && event.agent >= 0 && values.written.has(event.id),
      )
      return coherenceOrders(
        loc,
        writes.map((event) => event.id),
        sourceOfRmw,
      )
    })
    const registers = program.agents.map((_, agent) =>
      readers.filter((event) => event.agent === agent).map((event) => values.read.get(event.id) ?? NaN),
    )
    for (const orders of product(choices)) {
      const eco = extendedCoherence(events.length, rf, orders)
      const finals = orders.map((order) => values.written.get(at(order, order.length - 1)) ?? NaN)
      const outcome = outcomeKey(registers, finals)
      for (const hb of happens) {
        if (composesToCycle(hb, eco)) continue
        executions += 1
        outcomes.add(outcome)
        const races = findRaces(events, values, hb, moral)
        if (races.weak) weakRaceOutcomes.add(outcome)
        if (races.scope) scopeRaceOutcomes.add(outcome)
        if (!races.weak && !races.scope) raceFreeOutcomes.add(outcome)
      }
    }
  }

  const choose = (index: number, rf: Map<number, number>): void => {
    const reader = readers[index]
    if (reader === undefined) {
      visit(rf)
      return
    }
    for (const source of at(sources, index)) {
      rf.set(reader.id, source.id)
      choose(index + 1, rf)
    }
    rf.delete(reader.id)
  }
  choose(0, new Map())

  return {
    outcomes,
    raceFreeOutcomes,
    weakRaceOutcomes,
    scopeRaceOutcomes,
    weakRace: weakRaceOutcomes.size > 0,
    scopeRace: scopeRaceOutcomes.size > 0,
    executions,
  }
}

function findRaces(
  events: readonly Event[],
  values: Values,
  hb: Rows,
  moral: Rows,
): { weak: boolean; scope: boolean } {
  let weak = false
  let scope = false
  for (const left of events) {
    for (const right of events) {
      if (left.id >= right.id || left.loc < 0 || left.loc !== right.loc) continue
      if (left.agent === -1 || left.agent === right.agent) continue
      if (!values.written.has(left.id) && !values.written.has(right.id)) continue
      if (has(hb, left.id, right.id) || has(hb, right.id, left.id)) continue
      if (has(moral, left.id, right.id)) continue
      if (left.strong && right.strong) scope = true
      else weak = true
    }
  }
  return { weak, scope }
}
