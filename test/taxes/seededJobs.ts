/**
 * Random jobs with tensor, data, pipeline, expert and sharded data parallelism, whose truth is known from the
 * simulation. Every job has one slow rank or none, and its traces have clock offsets, drift and jitter. The recordings
 * may or may not contain the metadata of process groups.
 */
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, NONE, type Timeline, unknownCommunication } from '../../src/timeline/timeline.ts'
import { random } from './job.ts'
import { type CallPlan, type Instruction, type SimulatedRank, simulate, trueBlame } from './simulator.ts'

export const tunedFamilies = ['tensor x data', 'pipeline', 'sharded', 'experts'] as const
/** Families of jobs that were not used while the audit's estimator was developed. */
export const otherFamilies = [
  'context ring',
  'sharded x tensor',
  'permuted',
  'uneven',
  'interleaved',
] as const
export type Family = (typeof tunedFamilies)[number] | (typeof otherFamilies)[number]

export type ClockError = 'none' | 'small' | 'large'

export interface SeededJob {
  readonly seed: number
  readonly family: Family
  readonly description: string
  readonly ranks: readonly SimulatedRank[]
  /** The rank that was made slow if it caused clearly the most waiting, or null. */
  readonly slow: number | null
  /** The exposed time that other ranks waited for each rank. */
  readonly blame: Float64Array
  /** False if no rank kept others waiting for a noticeable share of the time. */
  readonly isMaterial: boolean
  readonly clocks: ClockError
  readonly ahead: readonly number[]
  readonly drift: readonly number[]
  /** The duration of the shortest call that was recorded. */
  readonly shortest: number
  /** The number of calls at the beginning of the job that each rank's recording lacks. */
  readonly missed: readonly number[]
  /** The resolution of the recorded times in nanoseconds. */
  readonly resolution: number
}

/** Builds the programs (sequences of computation, calls and waits) that the ranks of a job run. */
class Programs {
  readonly programs: Instruction[][]
  private readonly next: () => number
  private readonly noise: number
  private readonly slow: { rank: number; by: number; layers: number } | null
  private readonly oneStream: boolean
  private readonly plans = new Map<string, CallPlan>()
  private readonly counts = new Map<string, number>()

  constructor(
    ranks: number,
    next: () => number,
    noise: number,
    slow: { rank: number; by: number; layers: number } | null,
    oneStream: boolean,
  ) {
    this.programs = Array.from({ length: ranks }, () => [])
    this.next = next
    this.noise = noise
    this.slow = slow
    this.oneStream = oneStream
  }

  /** A layer's compute. The slow rank is slow in the first `layers` layers of a step. */
  compute(rank: number, time: number, layer: number, name = 'gemm'): void {
    const slow = this.slow?.rank === rank && layer < this.slow.layers ? this.slow.by : 0
    this.programs[rank].push({ op: 'compute', time: time * (1 + this.noise * this.next()) + slow, name })
  }

  /** Issues a call on every rank of the group, and lets the ranks wait for it unless the call is overlapped. */
  meet(
    kind: string,
    name: string,
    stream: number,
    group: readonly number[],
    transfer: number,
    { overlapped = false, eager = false }: { overlapped?: boolean; eager?: boolean } = {},
  ): CallPlan | null {
    if (group.length < 2) return null
    const plan: CallPlan = {
      kind,
      name,
      group,
      stream: this.oneStream && !overlapped ? 7 : stream,
      transfer: Math.round(transfer * (1 + 0.03 * this.next())),
      eager,
    }
    for (const rank of group) {
      this.programs[rank].push({ op: 'issue', call: plan })
      if (!overlapped) this.programs[rank].push({ op: 'wait', call: plan })
    }
    return plan
  }

  issue(rank: number, plan: CallPlan): void {
    this.programs[rank].push({ op: 'issue', call: plan })
  }

  wait(plan: CallPlan | null): void {
    if (plan !== null) for (const rank of plan.group) this.programs[rank].push({ op: 'wait', call: plan })
  }
}

const range = (length: number): number[] => Array.from({ length }, (_, i) => i)

/** Process groups of `size` ranks whose numbers differ by multiples of `stride`. */
export function groupsBy(ranks: number, size: number, stride: number): number[][] {
  const groups = new Map<number, number[]>()
  for (const rank of range(ranks)) {
    const key = Math.floor(rank / (size * stride)) * stride + (rank % stride)
    groups.set(key, [...(groups.get(key) ?? []), rank])
  }
  return [...groups.values()]
}

interface Shape {
  readonly ranks: number
  readonly steps: number
  readonly layers: number
  readonly compute: number
  readonly transfer: number
}

type Draw = <T>(some: readonly T[]) => T

function tensorData(p: Programs, shape: Shape, draw: Draw, relabel = (rank: number): number => rank): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const tensor = Math.min(draw([2, 4, 8]), ranks / 2)
  const named = (groups: number[][]): number[][] =>
    groups.map((group) => group.map(relabel).sort((a, b) => a - b))
  const inner = named(groupsBy(ranks, tensor, 1))
  const outer = named(groupsBy(ranks, ranks / tensor, tensor))
  const overlapped = draw([false, true])
  for (let step = 0; step < steps; step++) {
    const buckets: (CallPlan | null)[] = []
    for (let layer = 0; layer < layers; layer++) {
      for (const group of inner) {
        for (const rank of group) p.compute(rank, compute, layer)
        p.meet('allReduce', 'tensor', 20, group, transfer)
      }
      if (overlapped && layer % 4 === 3)
        for (const group of outer)
          buckets.push(p.meet('allReduce', 'data', 30, group, 3 * transfer, { overlapped: true }))
    }
    if (!overlapped) for (const group of outer) p.meet('allReduce', 'data', 30, group, 4 * transfer)
    for (const bucket of buckets) p.wait(bucket)
    for (const rank of range(ranks)) p.compute(rank, compute / 2, layers, 'adam')
  }
  return `${tensor} x ${ranks / tensor}${overlapped ? ', overlapped' : ''}`
}

function pipeline(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const stages = Math.min(draw([2, 4, 8]), ranks)
  const tensor = Math.min(draw([1, 2, 4]), ranks / stages)
  const data = ranks / stages / tensor
  const eager = draw([false, false, true])
  const microbatches = ranks > 64 ? 2 : stages
  const depth = Math.max(1, Math.round(layers / 4))
  const rankOf = (stage: number, replica: number, shard: number): number =>
    (stage * data + replica) * tensor + shard
  const body = (stage: number, back: boolean): void => {
    for (const replica of range(data)) {
      const group = range(tensor).map((shard) => rankOf(stage, replica, shard))
      for (let layer = 0; layer < depth; layer++) {
        for (const rank of group) p.compute(rank, back ? 2 * compute : compute, layer)
        p.meet('allReduce', 'tensor', 20, group, transfer)
      }
    }
  }
  const pass = (from: number, to: number): void => {
    for (const replica of range(data))
      for (const shard of range(tensor)) {
        const pair = [rankOf(from, replica, shard), rankOf(to, replica, shard)]
        p.meet('sendRecv', 'pipeline', 40, pair, transfer, { eager })
      }
  }
  for (let step = 0; step < steps; step++) {
    for (let batch = 0; batch < microbatches; batch++)
      for (let stage = 0; stage < stages; stage++) {
        body(stage, false)
        if (stage + 1 < stages) pass(stage, stage + 1)
      }
    for (let batch = 0; batch < microbatches; batch++)
      for (let stage = stages - 1; stage >= 0; stage--) {
        body(stage, true)
        if (stage > 0) pass(stage, stage - 1)
      }
    for (const stage of range(stages))
      for (const shard of range(tensor))
        p.meet(
          'allReduce',
          'data',
          30,
          range(data).map((replica) => rankOf(stage, replica, shard)),
          4 * transfer,
        )
  }
  return `${stages} stages x ${data} x ${tensor}${eager ? ', eager sends' : ''}`
}

function sharded(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const hybrid = draw([false, true]) && ranks > 8
  const inner = hybrid ? groupsBy(ranks, 8, 1) : [range(ranks)]
  const outer = hybrid ? groupsBy(ranks, ranks / 8, 8) : []
  for (let step = 0; step < steps; step++) {
    for (const back of [false, true])
      for (let layer = 0; layer < layers / 2; layer++) {
        // The all-gather of the next layer overlaps with the computation of the current layer.
        const gathers = inner.map((group) =>
          p.meet('allGather', 'shard', 20, group, transfer, { overlapped: true }),
        )
        for (const rank of range(ranks)) p.compute(rank, (back ? 2 : 1) * compute, layer)
        for (const gather of gathers) p.wait(gather)
        if (back)
          for (const group of inner)
            p.meet('reduceScatter', 'shard', 20, group, transfer, { overlapped: true })
      }
    for (const group of outer) p.meet('allReduce', 'replicate', 30, group, 3 * transfer)
    for (const group of inner) p.meet('allReduce', 'shard', 20, group, transfer / 2)
  }
  return hybrid ? `8 x ${ranks / 8}` : `${ranks}`
}

function experts(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const size = Math.min(draw([4, 8, 16]), ranks)
  const inner = groupsBy(ranks, size, 1)
  const outer = groupsBy(ranks, ranks / size, size)
  const imbalance = draw([0.05, 0.3])
  for (let step = 0; step < steps; step++) {
    for (let layer = 0; layer < layers / 2; layer++) {
      for (const rank of range(ranks)) p.compute(rank, compute, layer, 'attention')
      for (const group of inner) p.meet('allToAll', 'experts', 20, group, transfer)
      for (const rank of range(ranks))
        p.compute(rank, compute * (1 + imbalance * draw(range(10)) * 0.1), layers, 'grouped gemm')
      for (const group of inner) p.meet('allToAll', 'experts', 20, group, transfer)
    }
    for (const group of outer) p.meet('allReduce', 'data', 30, group, 4 * transfer)
  }
  return `${size} x ${ranks / size}`
}

/** Context parallelism: each rank passes its keys and values around a ring, inside a group of ranks. */
function contextRing(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const size = draw([2, 4])
  const rings = groupsBy(ranks, size, 1)
  const outer = groupsBy(ranks, ranks / size, size)
  for (let step = 0; step < steps; step++) {
    for (let layer = 0; layer < layers / 2; layer++)
      for (const ring of rings)
        for (let hop = 0; hop + 1 < size; hop++) {
          for (const rank of ring) p.compute(rank, compute, layer)
          p.meet('sendRecv', 'context', 40, ring, transfer)
        }
    for (const group of outer) {
      p.meet('reduceScatter', 'data', 30, group, 3 * transfer)
      p.meet('allGather', 'data', 30, group, 3 * transfer)
    }
  }
  return `rings of ${size}`
}

function shardedTensor(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const tensor = Math.min(draw([2, 4]), ranks / 2)
  const inner = groupsBy(ranks, tensor, 1)
  const outer = groupsBy(ranks, ranks / tensor, tensor)
  for (let step = 0; step < steps; step++) {
    for (let layer = 0; layer < layers / 2; layer++) {
      const gathers = outer.map((group) =>
        p.meet('allGather', 'shard', 30, group, 2 * transfer, { overlapped: true }),
      )
      for (const gather of gathers) p.wait(gather)
      for (const group of inner) {
        for (const rank of group) p.compute(rank, compute, layer)
        p.meet('allReduce', 'tensor', 20, group, transfer)
      }
      for (const group of outer)
        p.meet('reduceScatter', 'shard', 30, group, 2 * transfer, { overlapped: true })
    }
    for (const group of [range(ranks)]) p.meet('allReduce', 'world', 50, group, transfer / 2)
  }
  return `${tensor} x ${ranks / tensor}`
}

/** Ranks are assigned to groups in a random order, as some schedulers place them. */
function permuted(p: Programs, shape: Shape, draw: Draw): string {
  const order = range(shape.ranks)
  for (let i = order.length - 1; i > 0; i--) {
    const j = draw(range(i + 1))
    ;[order[i], order[j]] = [order[j], order[i]]
  }
  return tensorData(p, shape, draw, (rank) => order[rank])
}

/** Groups of different sizes, such as experts on some ranks and dense layers on others. */
function uneven(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const groups: number[][] = []
  for (let from = 0; from < ranks;) {
    const size = Math.min(draw([2, 3, 5, 6]), ranks - from)
    groups.push(range(size).map((i) => from + i))
    from += size
  }
  for (let step = 0; step < steps; step++) {
    for (let layer = 0; layer < layers; layer++)
      for (const group of groups) {
        for (const rank of group) p.compute(rank, compute, layer)
        p.meet('allReduce', 'tensor', 20, group, transfer)
      }
    p.meet('allReduce', 'world', 30, range(ranks), 3 * transfer)
  }
  return `groups of ${[...new Set(groups.map(({ length }) => length))].join(', ')}`
}

/** Data parallel ranks are neighbours, and tensor parallel ranks are far apart. */
function interleaved(p: Programs, shape: Shape, draw: Draw): string {
  const { ranks, steps, layers, compute, transfer } = shape
  const data = Math.min(draw([2, 4]), ranks / 2)
  const outer = groupsBy(ranks, data, 1)
  const inner = groupsBy(ranks, ranks / data, data)
  for (let step = 0; step < steps; step++) {
    for (let layer = 0; layer < layers; layer++)
      for (const group of inner) {
        for (const rank of group) p.compute(rank, compute, layer)
        p.meet('allReduce', 'tensor', 20, group, transfer)
        if (layer % 5 === 4) p.meet('allGather', 'tensor', 20, group, 2 * transfer)
      }
    for (const group of outer) p.meet('allReduce', 'data', 30, group, 4 * transfer)
  }
  return `${ranks / data} x ${data}`
}

const families: Readonly<Record<Family, (p: Programs, shape: Shape, draw: Draw) => string>> = {
  'tensor x data': tensorData,
  pipeline,
  sharded,
  experts,
  'context ring': contextRing,
  'sharded x tensor': shardedTensor,
  permuted,
  uneven,
  interleaved,
}

/** Waiting for a rank is noticeable if it takes at least this share of the time of all ranks. */
const MATERIAL = 0.002
/** The number of ranks per machine, which share a clock. */
const PER_MACHINE = 8

export interface SeededOptions {
  readonly families?: readonly Family[]
  readonly clocks?: ClockError
  readonly mostRanks?: number
}

/** Builds the random job that belongs to a seed. The same seed and options give the same job. */
export function seededJob(seed: number, options: SeededOptions = {}): SeededJob {
  const next = random(Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995)
  const draw: Draw = (some) => some[Math.floor(next() * some.length)]
  const family = draw(options.families ?? tunedFamilies)
  const sizes = [8, 8, 8, 16, 16, 16, 32, 32, 64, 64, 128, 256, 512].filter(
    (size) => size <= (options.mostRanks ?? 512),
  )
  const ranks = draw(sizes)
  const steps = ranks > 64 ? 3 : draw([3, 4, 5])
  const layers = ranks > 128 ? 8 : draw([8, 12, 16])
  const compute = draw([80_000, 200_000, 600_000])
  const transfer = draw([40_000, 90_000, 250_000])
  const noise = draw([0.002, 0.02, 0.1])
  const oneStream = draw([false, false, false, true])
  const isSlow = next() < 0.9
  const slowRank = Math.floor(next() * ranks)
  const share = draw([0.1, 0.3, 1])
  const onlySome = draw([Infinity, Infinity, 1, 3])
  const programSeed = Math.floor(next() * 2 ** 31)
  const jitter = draw([300, 1_000, 2_000])
  const clocks = options.clocks ?? draw<ClockError>(['none', 'small', 'small', 'large'])

  // The delay of the slow rank is increased until this rank causes most of the waiting.
  let by = share * compute
  let simulated: SimulatedRank[]
  let blame: Float64Array
  let description: string
  for (let round = 0; ; round++) {
    const inner = random(programSeed)
    const slow = isSlow ? { rank: slowRank, by, layers: onlySome } : null
    const programs = new Programs(ranks, inner, noise, slow, oneStream)
    const choose: Draw = (some) => some[Math.floor(inner() * some.length)]
    description = families[family](programs, { ranks, steps, layers, compute, transfer }, choose)
    const starts = range(ranks).map(() => 1_000_000 + Math.floor(inner() * 20_000))
    simulated = simulate(
      programs.programs,
      (rank) => starts[rank],
      () => Math.floor(inner() * jitter),
    )
    blame = trueBlame(simulated)
    const others = Math.max(...blame.filter((_, rank) => rank !== slowRank))
    if (!isSlow || blame[slowRank] > 1.5 * others || round === 3) break
    by *= 3
  }
  const time = simulated.reduce((sum, { kernels }) => sum + kernels[kernels.length - 1].end, 0)
  const isMaterial = Math.max(...blame) > MATERIAL * time
  const isTop = blame.every((one, rank) => rank === slowRank || 1.5 * one < blame[slowRank])

  let shortest = Infinity
  for (const { calls } of simulated)
    for (const { call, member } of calls)
      shortest = Math.min(shortest, call.ends[member] - call.starts[member])
  // If each clock is ahead by less than half of the shortest call, two clocks differ by less than the shortest call.
  const most = { none: 0, small: 0.9 * shortest, large: draw([2e6, 5e8]) }[clocks]
  const machines = Math.ceil(ranks / PER_MACHINE)
  const perRank = draw([false, true])
  const machineOffset = range(machines).map(() => next() * most)
  const rankOffset = range(ranks).map(() => next() * most)
  const machineDrift = range(machines).map(() => (clocks === 'none' ? 0 : (next() - 0.5) * 2e-5))
  const machineOf = (rank: number): number => Math.floor(rank / PER_MACHINE)
  const isRagged = draw([false, false, false, true])
  return {
    seed,
    family,
    description:
      `${family} ${description}, ${ranks} ranks, ${steps} steps, clocks ${clocks}` +
      `${perRank ? ' per rank' : ''}, noise ${noise}, jitter ${jitter} ns, slow by ${isSlow ? Math.round(by) : 0} ns` +
      `${Number.isFinite(onlySome) ? ` in ${onlySome} layers` : ''}${oneStream ? ', one stream' : ''}${isRagged ? ', ragged' : ''}`,
    ranks: simulated,
    slow: isSlow && isTop && isMaterial ? slowRank : null,
    blame,
    isMaterial,
    clocks,
    ahead: range(ranks).map((rank) =>
      Math.round(perRank ? rankOffset[rank] : machineOffset[machineOf(rank)]),
    ),
    drift: range(ranks).map((rank) => machineDrift[machineOf(rank)]),
    shortest,
    missed: range(ranks).map(() => (isRagged ? draw([0, 0, 0, 1, 2]) : 0)),
    resolution: draw([1, 1, 1000]),
  }
}

const kernelNames: Readonly<Record<string, string>> = {
  allReduce: 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
  allGather: 'ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
  reduceScatter: 'ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
  // NCCL runs an all-to-all as sends and receives in one kernel.
  allToAll: 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)',
  sendRecv: 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)',
}
const kindByName: Readonly<Record<string, string>> = { allToAll: 'sendRecv' }

/** Records the job as profilers with separate clocks do, with all metadata of process groups or without any. */
export function recordSeeded(job: SeededJob, metadata: boolean): Timeline {
  const builder = new TimelineBuilder()
  job.ranks.forEach(({ calls, kernels }, rank) => {
    const made = builder.rank(rank)
    made.base = 1_700_000_000_000_000_000n + BigInt(job.ahead[rank])
    const own = (time: number): number =>
      Math.round((time * (1 + job.drift[rank])) / job.resolution) * job.resolution
    const compute = made.track('stream', 0, 7)
    for (const { name, start, end } of kernels)
      made.add(Kind.kernel, compute, builder.intern(name), own(start), own(end) - own(start))
    const sequences = new Map<string, number>()
    calls.forEach(({ call: { plan, starts, ends }, member }, k) => {
      const key = `${plan.name} ${plan.group.join(' ')}`
      const sequence = (sequences.get(key) ?? 0) + 1
      sequences.set(key, sequence)
      if (k < job.missed[rank]) return
      const track = made.track('stream', 0, plan.stream)
      const from = own(starts[member])
      const name = builder.intern(kernelNames[plan.kind])
      const event = made.add(Kind.communication, track, name, from, own(ends[member]) - from)
      made.setCommunication(
        event,
        made.communication({
          ...unknownCommunication,
          collective: metadata ? plan.kind : (kindByName[plan.kind] ?? plan.kind),
          library: 'nccl',
          ...(metadata && {
            group: plan.name,
            groupDescription: plan.name,
            groupRanks: plan.group,
            groupSize: plan.group.length,
          }),
        }),
        metadata ? sequence : NONE,
      )
    })
  })
  return builder.freeze()
}
