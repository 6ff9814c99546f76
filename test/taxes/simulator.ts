/**
 * Simulates the ranks of a job, with all times on one exact clock. Each rank runs a program: it computes, issues
 * communication calls on streams, and waits for calls. A call ends on all of its ranks when the transfer time has
 * passed since its last rank has started it. The simulation is the source of truth for tests of the audit: the ranks of
 * each call, their arrivals and the rank that arrived last are known by construction.
 */

/** Times are integer nanoseconds. */
export type Instruction =
  | { readonly op: 'compute'; readonly time: number; readonly name: string }
  | { readonly op: 'issue'; readonly call: CallPlan }
  | { readonly op: 'wait'; readonly call: CallPlan }

/** A communication call that all ranks of its group share. */
export interface CallPlan {
  readonly kind: string
  readonly group: readonly number[]
  /** The name of the process group, which groups of other ranks may share. */
  readonly name: string
  readonly stream: number
  readonly transfer: number
  /** True if the first rank of the group, the sender, leaves after its own transfer. */
  readonly eager?: boolean
}

export interface SimulatedCall {
  readonly plan: CallPlan
  /** For each rank of the group, in the order of `plan.group`: its start and its end on the exact clock. */
  readonly starts: Float64Array
  readonly ends: Float64Array
}

export interface SimulatedRank {
  readonly calls: { readonly call: SimulatedCall; readonly member: number }[]
  readonly kernels: { readonly name: string; readonly start: number; readonly end: number }[]
}

interface Queue {
  readonly waiting: { readonly call: SimulatedCall; readonly member: number; readonly ready: number }[]
  /** The index of the next call to start. */
  next: number
  /** The end of the last call that has ended, or NaN while a call of the stream is in progress. */
  free: number
}

/** Runs the programs of all ranks. `endJitter` returns the delay with which a rank sees the end of a call. */
export function simulate(
  programs: readonly (readonly Instruction[])[],
  startOf: (rank: number) => number,
  endJitter: () => number,
): SimulatedRank[] {
  const calls = new Map<CallPlan, SimulatedCall & { started: number }>()
  const callOf = (plan: CallPlan): SimulatedCall & { started: number } => {
    let call = calls.get(plan)
    if (call === undefined) {
      const none = (): Float64Array => new Float64Array(plan.group.length).fill(NaN)
      calls.set(plan, (call = { plan, starts: none(), ends: none(), started: 0 }))
    }
    return call
  }
  const ranks: SimulatedRank[] = programs.map(() => ({ calls: [], kernels: [] }))
  const now = programs.map((_, rank) => startOf(rank))
  const position = programs.map(() => 0)
  const queues = programs.map(() => new Map<number, Queue>())
  /** The ranks whose programs may be able to continue. */
  const open = programs.map((_, rank) => rank)

  const start = (rank: number, stream: number): void => {
    const queue = queues[rank].get(stream)
    if (queue === undefined || Number.isNaN(queue.free) || queue.next === queue.waiting.length) return
    const { call, member, ready } = queue.waiting[queue.next++]
    const state = callOf(call.plan)
    state.starts[member] = Math.max(ready, queue.free)
    queue.free = NaN
    if (++state.started < state.plan.group.length) return
    const { plan, starts, ends } = state
    const last = Math.max(...starts)
    plan.group.forEach((_, k) => {
      const from = plan.eager === true && k === 0 ? starts[0] : last
      ends[k] = Math.round(from + plan.transfer + endJitter())
    })
    plan.group.forEach((other, k) => {
      const own = queues[other].get(plan.stream)
      if (own) own.free = ends[k]
      open.push(other)
      start(other, plan.stream)
    })
  }

  for (let rank = open.pop(); rank !== undefined; rank = open.pop()) {
    const program = programs[rank]
    for (; position[rank] < program.length; position[rank]++) {
      const step = program[position[rank]]
      if (step.op === 'compute') {
        const end = now[rank] + Math.round(step.time)
        ranks[rank].kernels.push({ name: step.name, start: now[rank], end })
        now[rank] = end
        continue
      }
      const call = callOf(step.call)
      const member = step.call.group.indexOf(rank)
      if (step.op === 'issue') {
        let queue = queues[rank].get(step.call.stream)
        if (queue === undefined)
          queues[rank].set(step.call.stream, (queue = { waiting: [], next: 0, free: -Infinity }))
        queue.waiting.push({ call, member, ready: now[rank] })
        ranks[rank].calls.push({ call, member })
        start(rank, step.call.stream)
        continue
      }
      if (Number.isNaN(call.ends[member])) break
      now[rank] = Math.max(now[rank], call.ends[member])
    }
  }
  const stuck = programs.findIndex((program, rank) => position[rank] < program.length)
  if (stuck >= 0) throw new Error(`rank ${stuck} waits for ever at instruction ${position[stuck]}`)
  return ranks
}

/** Ranks that start a call within this time of the last one, in nanoseconds, share the blame for its waiting. */
const TIE = 3_000

/**
 * The exposed time that ranks waited for each rank. The waiting in every call is charged to the ranks that started the
 * call last. Waiting is exposed while the waiting rank neither computes nor transfers data.
 */
export function trueBlame(ranks: readonly SimulatedRank[]): Float64Array {
  const blame = new Float64Array(ranks.length)
  const busy = ranks.map(busyTimes)
  const seen = new Set<SimulatedCall>()
  for (const { calls } of ranks)
    for (const { call } of calls) {
      if (seen.has(call)) continue
      seen.add(call)
      const { plan, starts, ends } = call
      const last = starts[lastOf(call)]
      const late = plan.group.filter((_, k) => starts[k] > last - TIE)
      let waiting = 0
      // A sender that leaves a call before its receivers does not wait for them.
      for (let k = 0; k < starts.length; k++)
        waiting += uncovered(busy[plan.group[k]], starts[k], Math.min(last, ends[k]))
      for (const rank of late) blame[rank] += waiting / late.length
    }
  return blame
}

function lastOf({ starts }: SimulatedCall): number {
  let last = 0
  for (let k = 1; k < starts.length; k++) if (starts[k] > starts[last]) last = k
  return last
}

/** The disjoint times in which the rank computes or transfers data, in order. */
function busyTimes({ calls, kernels }: SimulatedRank): (readonly [from: number, to: number])[] {
  const all = kernels.map(({ start, end }): [number, number] => [start, end])
  for (const { call, member } of calls) all.push([call.starts[lastOf(call)], call.ends[member]])
  all.sort((a, b) => a[0] - b[0])
  const disjoint: [number, number][] = []
  for (const [from, to] of all) {
    const before = disjoint.at(-1)
    if (before && from <= before[1]) before[1] = Math.max(before[1], to)
    else if (to > from) disjoint.push([from, to])
  }
  return disjoint
}

/** The length of the interval outside the given disjoint times. */
function uncovered(times: readonly (readonly [number, number])[], from: number, to: number): number {
  let [low, high] = [0, times.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (times[middle][1] <= from) low = middle + 1
    else high = middle
  }
  let left = Math.max(0, to - from)
  for (let i = low; i < times.length && times[i][0] < to; i++)
    left -= Math.max(0, Math.min(to, times[i][1]) - Math.max(from, times[i][0]))
  return left
}
