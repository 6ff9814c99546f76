/**
 * A synthetic audit of a job with several ranks, one of which is slow, with its timeline, its partitions and its
 * document. The figures of the document are counted while the job is generated, not computed by the audit.
 */
import type { AuditDocument, CollectiveDocument, RankDocument } from '../../src/report/document.ts'
import type { ReportInput } from '../../src/report/html.ts'
import type { Clock } from '../../src/taxes/collective.ts'
import { partNames, type Part, type Partition } from '../../src/taxes/ledger.ts'
import { TimelineBuilder, type RankBuilder } from '../../src/timeline/builder.ts'
import {
  complement,
  difference,
  clip,
  total,
  union,
  unionInOrder,
  type Intervals,
} from '../../src/timeline/intervals.ts'
import { Kind } from '../../src/timeline/timeline.ts'

export interface SampleOptions {
  readonly ranks?: number
  readonly steps?: number
  readonly layers?: number
  /** The number of compute kernels per layer. */
  readonly kernels?: number
  readonly straggler?: number
  /** A text that is added to the names of kernels, operators, groups and so on. */
  readonly text?: string
}

/** Intervals of one rank's time. */
type Spans = number[]

interface Made {
  readonly builder: RankBuilder
  readonly compute: Spans
  readonly wait: Spans
  readonly transfer: Spans
  readonly copy: Spans
  readonly dispatch: Spans
  readonly blocked: Spans
  /**
   * The time at which the rank is free for its next work. `communicating` is the time at which the rank's communication
   * stream is free.
   */
  now: number
  communicating: number
}

/** A report input whose collectives are an array, as in a document that was read back. */
export interface Sample extends ReportInput {
  readonly document: AuditDocument & { readonly collectives: readonly CollectiveDocument[] }
}

export function makeSample(options: SampleOptions = {}): Sample {
  const { ranks: world = 8, steps = 3, layers = 4, kernels = 6, straggler = 5, text = '' } = options
  const random = generator(12345)
  const timelines = new TimelineBuilder()
  const name = (plain: string): number => timelines.intern(plain + text)
  const names = {
    kernels: [
      'void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)',
      'void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int, float)',
      'void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)',
      'void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)',
      'triton_poi_fused_add_mul_7',
    ].map(name),
    operators: [
      'aten::linear',
      'aten::gelu',
      'flash_attn::_flash_attn_forward',
      'aten::layer_norm',
      'triton',
    ].map(name),
    collective: name('ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),
    copy: name('Memcpy HtoD (Pinned -> Device)'),
    launch: name('cudaLaunchKernel'),
  }
  const skew = (rank: number): number => (rank === 0 ? 0 : (rank % 3) * 1_500_000 - 700_000)

  const made = Array.from({ length: world }, (_, rank): Made => {
    const builder = timelines.rank(rank)
    // The rank's clock is wrong by `skew`. The events below use the true clock.
    builder.base = 1_700_000_000_000_000_000n + BigInt(skew(rank))
    builder.device = 'NVIDIA H100 80GB HBM3'
    return {
      builder,
      compute: [],
      wait: [],
      transfer: [],
      copy: [],
      dispatch: [],
      blocked: [],
      now: 0,
      communicating: 0,
    }
  })
  const device = (
    rank: Made,
    kind: Kind,
    stream: number,
    called: number,
    operator: number,
    start: number,
    duration: number,
    delay: number,
  ): void => {
    const { builder } = rank
    const event = builder.add(kind, builder.track('stream', 0, stream), called, start, duration)
    const thread = builder.track('thread', 1, 1)
    const launch = builder.add(Kind.launch, thread, names.launch, start - delay, 2000)
    builder.linkLaunch(event, launch)
    if (operator >= 0)
      builder.linkOperator(event, builder.add(Kind.operator, thread, operator, start - delay - 500, 3000))
  }

  const stepBounds = made.map((): number[] => [])
  const collectives: { arrivals: number[]; end: number; late: number; last: number }[] = []
  for (let step = 0; step < steps; step++) {
    for (const [r, rank] of made.entries()) {
      stepBounds[r].push(rank.now)
      device(rank, Kind.memcpy, 24, names.copy, -1, rank.now, 18_000, 9_000)
      rank.copy.push(rank.now, rank.now + 18_000)
      rank.dispatch.push(rank.now + 18_000, rank.now + 40_000)
      rank.now += 40_000
    }
    for (let layer = 0; layer < layers; layer++) {
      for (const [r, rank] of made.entries())
        for (let k = 0; k < kernels; k++) {
          const which = (k + layer) % names.kernels.length
          const slow = r === straggler && layer % 2 === 0 ? 1.6 : 1
          const duration = Math.round((6_000 + 44_000 * random()) * slow)
          const operator = k % 2 === 0 ? names.operators[which] : -1
          device(
            rank,
            Kind.kernel,
            7,
            names.kernels[which],
            operator,
            rank.now,
            duration,
            6_000 + Math.round(30_000 * random()),
          )
          rank.compute.push(rank.now, rank.now + duration)
          const gap = Math.round(400 + 1_800 * random())
          rank.now += duration + gap
        }
      const arrivals = made.map(({ now, communicating }) => Math.max(now, communicating))
      const last = Math.max(...arrivals)
      const end = last + 30_000 + Math.round(30_000 * random())
      const sorted = [...arrivals].sort((a, b) => a - b)
      collectives.push({ arrivals, end, late: last - sorted[world - 2], last: arrivals.indexOf(last) })
      const overlapped = layer % 2 === 1 && layer < layers - 1
      for (const [r, rank] of made.entries()) {
        device(rank, Kind.communication, 20, names.collective, -1, arrivals[r], end - arrivals[r], 12_000)
        if (last > arrivals[r]) rank.wait.push(arrivals[r], last)
        rank.transfer.push(last, end)
        rank.communicating = end
        if (!overlapped) {
          rank.dispatch.push(end, end + 9_000)
          rank.now = end + 9_000
        }
      }
    }
    for (const rank of made) {
      const pause = 60_000 + Math.round(20_000 * random())
      rank.blocked.push(rank.now, rank.now + pause)
      rank.now += pause
    }
  }
  // The window ends with the last device work.
  const ends = made.map(({ communicating }) => communicating)
  // Freezing the timeline moves time 0 of a rank to its first event, which is a host call.
  const bases = made.map(({ builder }) => builder.base)
  const timeline = timelines.freeze()
  const shifts = timeline.ranks.map((rank, r) => Number(rank.base - bases[r]))
  const clocks = timeline.ranks.map((rank, r): Clock => ({
    rank: rank.rank,
    offset: shifts[r] - shifts[0],
    drift: 0,
    aligned: r > 0,
    correction: -skew(r),
    residual: r === 0 ? 0 : 420,
    collectives: collectives.length,
  }))
  const partitions = made.map((rank, r) => partitionOf(rank, ends[r], -shifts[r]))
  const figures = (r: number, from: number, to: number): RankDocument =>
    figuresOf(r, partitions[r], from - shifts[r], to - shifts[r], from)

  const collectiveDocuments = collectives.map(({ arrivals, end, last }): CollectiveDocument => ({
    kind: 'allReduce',
    group: `0 (tensor parallel)${text}`,
    library: `NCCL${text}`,
    matchedBy: 'communicator and sequence',
    complete: true,
    lastRank: last,
    endSkewUs: 0.42,
    perRank: arrivals.map((start, rank) => ({
      rank,
      startUs: start / 1000,
      durUs: (end - start) / 1000,
      waitUs: (arrivals[last] - start) / 1000,
      transferUs: (end - arrivals[last]) / 1000,
    })),
  }))
  const perRank = made.map((_, r) => figures(r, 0, ends[r]))
  const document: Sample['document'] = {
    arke: '0.1.0',
    sources: made.map((_, rank) => ({
      path: `/traces/llama-70b-tp8/rank${rank}${text}.pt.trace.json.gz`,
      format: 'kineto',
      bytes: 14_200_000 + rank * 31_000,
      ranks: [rank],
    })),
    chosenSteps: null,
    ranks: perRank,
    steps: Array.from({ length: steps }, (_, step) => ({
      name: `ProfilerStep#${step + 10}${text}`,
      number: step + 10,
      ranks: made.map((_, r) => figures(r, stepBounds[r][step], stepBounds[r][step + 1] ?? ends[r])),
    })),
    groups: [
      {
        group: `0 (tensor parallel)${text}`,
        description: null,
        ranks: made.map((_, rank) => rank),
        collectives: collectives.length,
        commUs: sum(perRank, ({ commUs }) => commUs),
        waitUs: sum(perRank, ({ taxes }) => taxes.waitUs ?? 0),
        exposedTransferUs: sum(perRank, ({ taxes }) => taxes.exposedTransferUs ?? 0),
        perRank: [],
      },
    ],
    collectives: collectiveDocuments,
    clocks: clocks.map(({ rank, aligned, correction, residual }) => ({
      rank,
      aligned,
      correctionUs: correction / 1000,
      driftPpm: rank * 0.031,
      residualUs: residual === null ? null : residual / 1000,
    })),
    stragglers: stragglersOf(collectives, text),
    candidates: candidatesOf(collectiveDocuments, text),
    summary: [
      `The biggest tax is bulk synchronous${text}: a rank, on average, pays 29.4 % of its time, most of it waiting for the last rank.`,
      `Rank ${straggler} kept the others waiting at every second collective; meanwhile it ran cutlass::Kernel2.`,
      'Fuse linear, allReduce and layer_norm first: that saves at most 1.93 ms.',
    ],
    warnings: [
      {
        class: 'aligned',
        message: `the clocks of ranks disagree with collective ends${text}; aligned`,
        count: world - 1,
      },
      { class: 'shapes', message: `operators without the shapes of their operands${text}`, count: 12_345 },
    ],
  }
  return { document, timeline, clocks, partitions }
}

const sum = <T>(values: readonly T[], of: (value: T) => number): number =>
  values.reduce((all, value) => all + of(value), 0)

/** Returns a generator of numbers from 0 to 1 that is deterministic for a seed. */
function generator(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
}

function set(spans: Spans, offset: number): Intervals {
  const starts = Float64Array.from(
    spans.filter((_, i) => i % 2 === 0),
    (start) => start + offset,
  )
  const durations = Float64Array.from(starts, (_, i) => spans[2 * i + 1] - spans[2 * i])
  return unionInOrder(starts, durations, 0, starts.length)
}

function partitionOf(rank: Made, end: number, offset: number): Partition {
  const [from, to] = [offset, end + offset]
  const within = (spans: Spans): Intervals => clip(set(spans, offset), from, to)
  const [compute, waiting, transferring, copying] = [rank.compute, rank.wait, rank.transfer, rank.copy].map(
    within,
  )
  const parts = Object.fromEntries(partNames.map((part) => [part, new Float64Array(0)])) as Record<
    Part,
    Intervals
  >
  let claimed: Intervals = new Float64Array(0)
  const claim = (part: Part, time: Intervals): void => {
    parts[part] = difference(time, claimed)
    claimed = union(claimed, time)
  }
  claim('compute', compute)
  claim('transfer', transferring)
  claim('wait', waiting)
  claim('copy', copying)
  claim('dispatch', within(rank.dispatch))
  claim('hostBlocked', within(rank.blocked))
  claim('gap', complement(claimed, from, to))
  return {
    from,
    to,
    processors: [{ parts, waiting, transferring }],
    communicating: union(waiting, transferring),
    copying,
  }
}

function figuresOf(
  rank: number,
  partition: Partition,
  from: number,
  to: number,
  start: number,
): RankDocument {
  const of = (time: Intervals): number => total(clip(time, from, to)) / 1000
  const [{ parts, waiting }] = partition.processors
  const wallUs = (to - from) / 1000
  const [compute, wait, transfer, copy, dispatch, gap, blocked] = (
    ['compute', 'wait', 'transfer', 'copy', 'dispatch', 'gap', 'hostBlocked'] as const
  ).map((part) => of(parts[part]))
  return {
    rank,
    startUs: start / 1000,
    wallUs,
    busyUs: compute + wait + transfer + copy,
    idleUs: dispatch + gap + blocked,
    computeUs: compute,
    commUs: of(partition.communicating),
    copyUs: of(partition.copying),
    overlapPct: 24.5,
    idle: {
      dispatchUs: dispatch,
      hostBlockedUs: blocked,
      hostAbsentUs: 0,
      dependencyUs: 0,
      gapUs: gap,
      unattributedUs: 0,
    },
    taxes: {
      launchUs: dispatch + gap,
      waitUs: wait,
      exposedTransferUs: transfer,
      hiddenWaitUs: of(difference(waiting, parts.wait)),
      localityBytes: 184_000_000 + rank * 1_000_000,
      localityUs: [0.08 * compute, 0.27 * compute],
      otherUs: copy + blocked,
    },
    other: {
      exposedCopyUs: copy,
      hostBlockedUs: blocked,
      hostAbsentUs: 0,
      dependencyUs: 0,
      unattributedUs: 0,
      unsplitCommUs: 0,
    },
    exposedCommUs: wait + transfer,
    launches: 74,
  }
}

function stragglersOf(
  collectives: readonly { arrivals: readonly number[]; last: number; late: number }[],
  text: string,
): AuditDocument['stragglers'] {
  const byRank = new Map<number, number[]>()
  for (const [i, { last }] of collectives.entries()) byRank.set(last, [...(byRank.get(last) ?? []), i])
  return [...byRank]
    .map(([rank, own]) => {
      const waits = new Map<number, number>()
      const kept = (collective: number): number => {
        const { arrivals, last } = collectives[collective]
        return arrivals.reduce((sum, arrival) => sum + (arrivals[last] - arrival) / 1000, 0)
      }
      for (const i of own)
        for (const [waiter, arrival] of collectives[i].arrivals.entries())
          if (waiter !== rank)
            waits.set(waiter, (waits.get(waiter) ?? 0) + (collectives[i].arrivals[rank] - arrival) / 1000)
      return {
        rank,
        keptWaitingUs: own.reduce((sum, i) => sum + kept(i), 0),
        exposedWaitUs: own.reduce((sum, i) => sum + kept(i), 0),
        lateUs: own.reduce((sum, i) => sum + collectives[i].late / 1000, 0),
        collectives: own.length,
        waiters: [...waits].map(([waiter, waitUs]) => ({ rank: waiter, waitUs, exposedWaitUs: waitUs })),
        worst: [...own]
          .sort((a, b) => kept(b) - kept(a))
          .slice(0, 5)
          .map((collective) => ({
            collective,
            kind: 'allReduce',
            group: `0 (tensor parallel)${text}`,
            startUs: collectives[collective].arrivals[rank] / 1000,
            keptWaitingUs: kept(collective),
            lateUs: collectives[collective].late / 1000,
          })),
        meanwhile: [
          {
            what: 'compute',
            name: `cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128${text}`,
            operator: `aten::linear${text}`,
            us: 412.5,
          },
          { what: 'dispatch', name: null, operator: null, us: 31.2 },
        ],
      }
    })
    .sort((a, b) => b.keptWaitingUs - a.keptWaitingUs)
}

function candidatesOf(collectives: readonly CollectiveDocument[], text: string): AuditDocument['candidates'] {
  const { startUs, durUs } = collectives[0].perRank[2]
  return [
    {
      kind: 'compute-collective-compute',
      chain: [`aten::linear${text}`, 'allReduce', `aten::layer_norm${text}`],
      count: 96,
      ranks: collectives[0].perRank.map(({ rank }) => rank),
      savesUs: 1930,
      saves: { launchUs: 210, waitUs: 1100, exposedTransferUs: 540, unsplitCommUs: 0, localityUs: 80 },
      localityBytes: 41_000_000,
      operation: {
        name: 'gemmReduceScatter',
        shapes: `M 4096, N 8192, K 1024${text}`,
        otherShapes: 2,
        command: `arke bench gemm-reduce-scatter --shape M=4096,N=8192,K=1024${text}`,
      },
      example: { rank: 2, startUs: startUs - 50, durUs: durUs + 100 },
    },
    {
      kind: 'small-kernels',
      chain: [`aten::gelu${text}`, `aten::mul${text}`, `aten::add${text}`],
      count: 310,
      ranks: [0, 1, 2, 5],
      savesUs: 640,
      saves: { launchUs: 320, waitUs: null, exposedTransferUs: null, unsplitCommUs: 0, localityUs: 320 },
      localityBytes: 96_000_000,
      operation: null,
      example: { rank: 5, startUs: 120, durUs: 60 },
    },
  ]
}
