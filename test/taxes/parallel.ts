/**
 * Jobs with tensor, data and pipeline parallelism, with all times on one exact clock. Every rank computes, arrives at a
 * collective of its group, waits for the last rank of that group only, and continues. One rank may be slow.
 *
 * The jobs are recorded with all metadata about process groups, or without any.
 */
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, NONE, type Timeline, unknownCommunication } from '../../src/timeline/timeline.ts'
import { random } from './job.ts'

export interface ParallelJob {
  readonly tensor?: number
  readonly data?: number
  readonly stages?: number
  readonly steps?: number
  readonly layers?: number
  readonly microbatches?: number
  /** The compute time per layer in nanoseconds, and the fraction by which it varies. */
  readonly compute?: number
  readonly noise?: number
  readonly transfer?: number
  /** The slow rank, its delay in nanoseconds, and the layers of a step in which it is slow; all layers by default. */
  readonly slow?: { readonly rank: number; readonly by: number; readonly layers?: readonly number[] }
  /** The number of additional layers of the first pipeline stage. */
  readonly extraLayers?: number
  /** True if each step ends with a collective of all ranks. */
  readonly closing?: boolean
  /** True if all groups communicate on one stream. */
  readonly oneStream?: boolean
  readonly seed?: number
}

export interface RankCall {
  readonly kind: 'allReduce' | 'allGather' | 'sendRecv'
  readonly group: readonly number[]
  readonly name: string
  readonly stream: number
  readonly start: number
  readonly end: number
}

export interface RankWork {
  readonly calls: RankCall[]
  readonly kernels: { readonly start: number; readonly end: number }[]
}

/** Returns the activity of each rank, in nanoseconds of one exact clock. */
export function run(job: ParallelJob): RankWork[] {
  const { tensor = 1, data = 1, stages = 1, steps = 3, layers = 8, microbatches = 1, extraLayers = 0 } = job
  const { compute = 200_000, noise = 0.02, transfer = 60_000, slow, closing = false, seed = 1 } = job
  const ranks = tensor * data * stages
  const next = random(seed)
  const done: RankWork[] = Array.from({ length: ranks }, () => ({ calls: [], kernels: [] }))
  const free = Array.from({ length: ranks }, () => 1_000_000)
  const rankOf = (stage: number, replica: number, shard: number): number =>
    (stage * data + replica) * tensor + shard
  const work = (rank: number, layer: number): void => {
    const isSlow = slow?.rank === rank && (slow.layers?.includes(layer) ?? true)
    const time = Math.round(compute * (1 + noise * next())) + (isSlow ? slow.by : 0)
    done[rank].kernels.push({ start: free[rank], end: free[rank] + time })
    free[rank] += time
  }
  const meet = (kind: RankCall['kind'], name: string, stream: number, group: readonly number[]): void => {
    if (group.length < 2) return
    const last = Math.max(...group.map((rank) => free[rank]))
    for (const rank of group) {
      const start = free[rank]
      const end = last + transfer + Math.floor(next() * 1_000)
      done[rank].calls.push({ kind, group, name, stream: job.oneStream ? 20 : stream, start, end })
      free[rank] = end + 2_000
    }
  }
  const all = Array.from({ length: ranks }, (_, rank) => rank)
  const shards = Array.from({ length: tensor }, (_, i) => i)
  const replicas = Array.from({ length: data }, (_, i) => i)
  for (let step = 0; step < steps; step++) {
    for (let batch = 0; batch < microbatches; batch++)
      for (let stage = 0; stage < stages; stage++) {
        for (const replica of replicas) {
          const group = shards.map((shard) => rankOf(stage, replica, shard))
          for (let layer = 0; layer < layers + (stage === 0 ? extraLayers : 0); layer++) {
            for (const rank of group) work(rank, layer)
            meet('allReduce', 'tensor', 20, group)
          }
        }
        if (stage + 1 < stages)
          for (const replica of replicas)
            for (const shard of shards)
              meet('sendRecv', 'pipeline', 40, [
                rankOf(stage, replica, shard),
                rankOf(stage + 1, replica, shard),
              ])
      }
    for (let stage = 0; stage < stages; stage++)
      for (const shard of shards)
        meet(
          'allReduce',
          'data',
          30,
          replicas.map((replica) => rankOf(stage, replica, shard)),
        )
    if (closing) meet('allReduce', 'world', 50, all)
  }
  return done
}

const kernelNames = {
  allReduce: 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
  allGather: 'ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
  sendRecv: 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)',
} as const

export interface ParallelRecording {
  /** True if the recorded calls list the ranks of their process group. */
  readonly metadata?: boolean
  /** The number of nanoseconds by which the rank's clock is ahead. */
  readonly ahead?: (rank: number) => number
  readonly traced?: (rank: number) => boolean
}

export function recordRun(done: readonly RankWork[], recording: ParallelRecording = {}): Timeline {
  const { metadata = false, ahead = () => 0, traced = () => true } = recording
  const builder = new TimelineBuilder()
  done.forEach(({ calls, kernels }, rank) => {
    if (!traced(rank)) return
    const made = builder.rank(rank)
    made.base = 1_700_000_000_000_000_000n + BigInt(ahead(rank))
    const compute = made.track('stream', 0, 7)
    for (const { start, end } of kernels)
      made.add(Kind.kernel, compute, builder.intern('gemm'), start, end - start)
    const sequences = new Map<string, number>()
    for (const { kind, group, name, stream, start, end } of calls) {
      const track = made.track('stream', 0, stream)
      const event = made.add(Kind.communication, track, builder.intern(kernelNames[kind]), start, end - start)
      const key = `${name} ${group.join(' ')}`
      sequences.set(key, (sequences.get(key) ?? 0) + 1)
      const known = metadata
        ? { group: name, groupDescription: name, groupRanks: group, groupSize: group.length }
        : {}
      made.setCommunication(
        event,
        made.communication({ ...unknownCommunication, collective: kind, library: 'nccl', ...known }),
        metadata ? (sequences.get(key) ?? NONE) : NONE,
      )
    }
  })
  return builder.freeze()
}
