/**
 * Describes the fixes in words: the cause of the lost time, the advice, and the evidence. The numbers come from
 * src/taxes/fixes.ts.
 */
import type { Cause } from '../taxes/fix.ts'
import { kernelLabel } from '../taxes/labels.ts'
import type {
  AuditDocument,
  CandidateDocument,
  FixDocument,
  ObservationDocument,
  RankDocument,
  StepDocument,
  StragglerDocument,
} from './document.ts'
import { bytes, duration, percent, plural, shorten } from './format.ts'
import { untracedNames } from './untraced.ts'

/** The figures of a fix, without the text that describes the fix. */
export interface FixFigures extends Omit<
  FixDocument,
  'cause' | 'what' | 'advice' | 'evidence' | 'command' | 'leastUs' | 'fusionSavesUs'
> {
  readonly cause: Cause
  /**
   * The lower end of the time that the cause costs. The lower end is less than `us` only for the locality tax, which is
   * an estimate.
   */
  readonly leastUs: number
}

export interface FixContext {
  readonly stragglers: readonly StragglerDocument[]
  readonly candidates: readonly CandidateDocument[]
  readonly ranks: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
  /** True if the traces do not list the ranks of process groups, so that the last rank is unknown. */
  readonly isDoubtful: boolean
  readonly untraced?: AuditDocument['untraced']
}

/** The minimum fraction of the wall time that a fix must save to be listed. */
export const WORTH = 0.01

export function describeFix(fix: FixFigures, context: FixContext): FixDocument {
  const straggler =
    fix.cause === 'straggler' ? context.stragglers.find(({ rank }) => rank === fix.ranks[0]) : undefined
  const candidate = candidateFor(fix, context.candidates)
  const [what, advice] = words(fix, context, straggler, candidate)
  return {
    cause: fix.cause,
    once: fix.once,
    what: fix.once && !what.startsWith('once') ? `once, ${what}` : what,
    advice,
    evidence: straggler ? evidenceOfStraggler(straggler) : evidenceOf(fix, context),
    us: fix.us,
    savesUs: fix.savesUs,
    ...(fix.leastUs < fix.savesUs ? { leastUs: fix.leastUs } : {}),
    ...(advice.includes(FUSE) && candidate ? { fusionSavesUs: fusionSaves(fix, candidate) } : {}),
    ...(fix.followingUs === undefined ? {} : { followingUs: fix.followingUs }),
    count: fix.count,
    ranks: fix.ranks,
    seen: fix.seen,
    example: fix.example ?? lastSeen(straggler),
    command: commandFor(fix, context.candidates),
  }
}

/** Returns the time for which other ranks waited for a late rank at the collective at which they waited longest. */
function lastSeen(straggler: StragglerDocument | undefined): FixDocument['example'] {
  const [worst] = straggler?.worst ?? []
  if (!straggler || !worst) return null
  return { rank: straggler.rank, startUs: worst.startUs - worst.lateUs, durUs: worst.lateUs }
}

/** Returns how much time of the given cause a fused kernel would save, in microseconds. */
function savingIn(cause: Cause, { saves }: CandidateDocument): number {
  switch (cause) {
    case 'dispatch':
    case 'gap':
      return saves.launchUs
    case 'transfer':
      return saves.exposedTransferUs ?? 0
    case 'communication':
      return saves.unsplitCommUs
    case 'locality':
      return saves.localityUs ?? 0
    default:
      return 0
  }
}

/** A candidate for fusion is named in the advice only if it covers at least this fraction of the lost time. */
const COVERS = 1 / 5
/** The command of an operation is printed only if the operation covers at least this fraction of the lost time. */
const TRIES = 1 / 20

const largest = <T>(things: readonly T[], of: (thing: T) => number): T | undefined =>
  things.reduce<T | undefined>(
    (best, one) => (of(one) > (best === undefined ? 0 : of(best)) ? one : best),
    undefined,
  )

function candidateFor(
  { cause, us }: FixFigures,
  candidates: readonly CandidateDocument[],
): CandidateDocument | undefined {
  const best = largest(candidates, (one) => savingIn(cause, one))
  return best && savingIn(cause, best) >= COVERS * us ? best : undefined
}

function commandFor({ cause, us }: FixFigures, candidates: readonly CandidateDocument[]): string | null {
  const ours = candidates.filter(({ operation }) => operation?.command)
  const best = largest(ours, (one) => savingIn(cause, one))
  return best && savingIn(cause, best) >= TRIES * us ? (best.operation?.command ?? null) : null
}

const brief = ({ chain, count, operation }: CandidateDocument): string => {
  const shown = chain.length > 3 ? [...chain.slice(0, 2), `… ${chain.length - 2} more`] : chain
  return (
    shown.map((name) => shorten(name, 32)).join(' → ') +
    (count === 1 ? '' : ` (${count} times)`) +
    (operation ? `, as ${operation.name} does` : '')
  )
}

/** The first word of advice to fuse kernels. */
export const FUSE = 'fuse '

const fusionSaves = (fix: FixFigures, candidate: CandidateDocument): number =>
  Math.min(savingIn(fix.cause, candidate), fix.us)

/** The last words of advice to fuse kernels. A fusion rarely saves all the time that a cause costs. */
export const fusionSaving = (us: number, ranks: number): string =>
  `, which saves at most ${duration(us / ranks)} of the cost per rank`

/** The cost of a cause as a share of the wall time: an upper bound, or an interval. */
export const costOf = ({ savesUs, leastUs = savesUs }: FixDocument, wall: number): string => {
  const [least, most] = [percent(leastUs, wall), percent(savesUs, wall)]
  return least === most ? most : `${least.replace(' %', '')} to ${most}`
}

const sum = (fix: FixFigures, of: (one: ObservationDocument) => boolean): number =>
  fix.seen.reduce((all, one) => (of(one) ? all + one.us : all), 0)

function words(
  fix: FixFigures,
  context: FixContext,
  straggler: StragglerDocument | undefined,
  candidate: CandidateDocument | undefined,
): readonly [what: string, advice: string] {
  const [top] = fix.seen
  const fuse = candidate
    ? `${FUSE}${brief(candidate)}${fusionSaving(fusionSaves(fix, candidate), context.ranks.length)}`
    : null
  switch (fix.cause) {
    case 'dataLoading':
      return [
        'the devices wait for input data',
        'load batches ahead of time: more DataLoader workers (num_workers, persistent_workers, prefetch_factor), pin_memory=True, and non_blocking=True copies',
      ]
    case 'allocation':
      return [
        'the host allocates or frees memory',
        'keep buffers instead of allocating them in a step; avoid empty_cache(); try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True',
      ]
    case 'moduleLoading':
      return [
        'the host loads kernels onto the device',
        'run each kernel once before the measured steps, or load all code at start (CUDA_MODULE_LOADING=EAGER)',
      ]
    case 'dispatch':
      return [
        'the devices wait for the host to launch kernels',
        `use CUDA graphs or torch.compile, or fewer and larger kernels${fuse === null ? '' : `; for example, ${fuse}`}`,
      ]
    case 'hostBlocked':
      return [
        'the devices idle while the host waits for them',
        'remove this synchronisation (.item(), .cpu(), printing a tensor, synchronize()), or read the value a step later' +
          (fix.followingUs !== undefined && fix.followingUs > fix.us / 10
            ? `; the fix also saves the ${duration(fix.followingUs / context.ranks.length)} of idle time per rank in which the device waits for the host's next launch`
            : ''),
      ]
    case 'hostAbsent':
      return [
        'the devices wait for host code outside of operators',
        top && top.activity === 'frame'
          ? 'shorten this Python code, move it to another thread, or replay the launches as a CUDA graph'
          : top && top.activity === 'annotation'
            ? 'shorten the Python code in this range (record one step with with_stack=True to see which code), or use CUDA graphs or torch.compile'
            : 'record one step with with_stack=True to see which Python code runs; CUDA graphs or torch.compile avoid much of it',
      ]
    case 'gap':
      return longGaps(fix)
        ? [
            `the devices idle for ${duration(fix.us / fix.count)} on average between kernels that are already enqueued`,
            'first check the recording: work is probably missing from it (sampled events; other streams or processes), or another process uses the device',
          ]
        : [
            'the devices pause between enqueued kernels',
            `use CUDA graphs, or fewer and larger kernels${fuse === null ? '' : `; for example, ${fuse}`}`,
          ]
    case 'dependency':
      return [
        'streams wait for events of other streams',
        'launch the awaited work earlier, or put dependent work on one stream',
      ]
    case 'unattributed':
      return [
        'the devices are idle, and the trace does not say why',
        'record the calls of the host, too (ProfilerActivity.CPU, nsys --trace=cuda, rocprofv3 --hip-trace)',
      ]
    case 'copy':
      return copies(fix)
    case 'straggler':
      return straggler ? late(straggler) : ['a rank is late', 'find out why']
    case 'imbalance':
      return [
        'ranks wait for each other, but no single rank is to blame: the last rank changes, or several ranks arrive late together',
        'balance the work between ranks; larger steps between collectives average out the jitter',
      ]
    case 'transfer':
      if (context.untraced) {
        const names = untracedNames(context.untraced)
        return [
          `collectives move data, or wait for ${names}, while nothing is computed`,
          `record ${names}, too, to tell waiting and transfer apart; to remove the transfer, ` +
            (fuse ?? 'overlap communication with compute, or send fewer bytes'),
        ]
      }
      return [
        'collectives move data while nothing is computed',
        fuse ??
          'overlap collectives with compute (a separate stream, larger or earlier buckets), or send fewer bytes',
      ]
    case 'communication':
      return [
        'communication is not hidden by compute',
        (context.isDoubtful
          ? 'record the process groups (PyTorch 2.2 or later, torch.profiler) to tell waiting and transfer apart'
          : 'record the traces of all ranks to tell waiting and transfer apart') +
          (fuse === null ? '; then overlap communication with compute' : `; to remove the transfer, ${fuse}`),
      ]
    case 'vacant':
      return [
        'processors have no program left while other processors are busy',
        'use smaller tiles or a persistent grid, so that all processors finish together',
      ]
    case 'locality':
      return [
        `kernels pass intermediate results through device memory (estimated from shapes: ${duration(fix.leastUs / context.ranks.length)} to ${duration(fix.us / context.ranks.length)} per rank)`,
        fuse ?? 'fuse the kernels that pass on intermediate results',
      ]
    case 'hole':
      return [
        `once, ${fix.ranks.length === 1 ? 'the device was' : 'the devices were'} idle for ${duration(fix.example?.durUs ?? fix.us)}`,
        inHole(fix.seen[1]),
      ]
    case 'outlier':
      return [
        `once, ${shorten(kernelLabel(top?.name ?? 'a kernel'), 60)} took far longer than in its other calls`,
        'if this is the first call of the kernel (compilation, autotuning), run the kernel before the measured steps',
      ]
    case 'firstCollective':
      return [
        'ranks wait in the first collective of the recording',
        'nothing to fix: the ranks began recording at different times, so no rank is to blame',
      ]
    default:
      return fix.cause satisfies never
  }
}

/** Gaps between enqueued kernels take a few microseconds. A gap of more than 100 microseconds has another cause. */
const LONG_GAP = 100
const longGaps = ({ us, count }: FixFigures): boolean => us / Math.max(1, count) > LONG_GAP

function copies(fix: FixFigures): readonly [string, string] {
  const is = (pattern: RegExp) => sum(fix, ({ name }) => pattern.test(name ?? ''))
  const toDevice = is(/HtoD|HostToDevice|HOST_TO_DEVICE/i)
  const toHost = is(/DtoH|DeviceToHost|DEVICE_TO_HOST/i)
  const between = is(/PtoP|PeerToPeer/i)
  const pageable = is(/pageable/i)
  const most = Math.max(toDevice, toHost, between, fix.us - toDevice - toHost - between)
  if (most === toDevice)
    return [
      'copies from the host to the device run while nothing is computed',
      (pageable > toDevice / 2
        ? 'copy from pinned memory (pin_memory=True) with non_blocking=True'
        : 'copy ahead of time on a stream of its own') + '; keep data that does not change on the device',
    ]
  if (most === toHost)
    return [
      'copies from the device to the host run while nothing is computed',
      'copy less often or fewer bytes, into pinned memory with non_blocking=True, on a stream of its own',
    ]
  if (most === between)
    return [
      'copies between devices run while nothing is computed',
      'overlap the copies with compute, on a separate stream',
    ]
  return [
    'copies within the device run while nothing else runs',
    'avoid the copies: use views, one memory layout throughout, in-place writes, or a kernel that reads the source directly',
  ]
}

function inHole(top: ObservationDocument | undefined): string {
  switch (top?.activity) {
    case 'dataLoading':
      return 'start the data loader before the first step (persistent_workers=True), or load batches ahead of time'
    case 'allocation':
      return 'allocate before the steps'
    case 'moduleLoading':
    case 'launching':
      return 'a first call loads or compiles its kernel: run warm-up steps before the measured ones'
    case 'synchronising':
      return 'the host waits in this call: leave the call out of the steps'
    case 'notRecorded':
    case undefined:
      return 'the trace does not show what the host did: record with with_stack=True, and leave the first steps out'
    default:
      return 'if the host starts up (compilation, autotuning), leave the start-up out of the recording; otherwise move the work out of the steps'
  }
}

function late(straggler: StragglerDocument): readonly [string, string] {
  const { rank, because } = straggler
  const what = `the other ranks wait for rank ${rank}`
  if (because) {
    const { moreWorkUs, slowerUs, unknownUs, idleUs, kernels } = because
    const most = Math.max(moreWorkUs, slowerUs, unknownUs, idleUs)
    const of = (time: (one: (typeof kernels)[number]) => number): string => {
      const one = largest(kernels, time)
      return one ? ` in ${shorten(kernelLabel(one.name), 40)}` : ''
    }
    if (most > 0 && most === moreWorkUs) {
      const one = largest(kernels, (kernel) => kernel.moreWorkUs)
      const amount = one?.work ? ` ${one.work.toFixed(2)} times the work` : ' more work'
      return [
        what,
        `rank ${rank} has${amount}${of((kernel) => kernel.moreWorkUs)}: distribute the work (tokens, sequence lengths) evenly`,
      ]
    }
    if (most > 0 && most === slowerUs) {
      const one = largest(kernels, (kernel) => kernel.slowerUs)
      const pace = one?.pace ? `${one.pace.toFixed(2)} times as long for equal work` : 'longer for equal work'
      return [
        what,
        `rank ${rank} takes ${pace}${of((kernel) => kernel.slowerUs)}: check its clocks, temperature and power limit, and other processes on its device`,
      ]
    }
    if (most > 0 && most === unknownUs)
      return [
        what,
        `rank ${rank} computes longer${of((kernel) => kernel.unknownUs)}; record with record_shapes=True to see whether it has more work`,
      ]
  }
  const [first] = straggler.meanwhile
  switch (first?.what) {
    case 'dispatch':
    case 'hostAbsent':
    case 'hostBlocked':
      return [what, hostIsLate(straggler)]
    default:
      return [what, `find out why rank ${rank} is late`]
  }
}

function hostIsLate({ rank, host = [] }: StragglerDocument): string {
  const top = host.find(({ activity }) => activity !== 'notRecorded')
  if (!top || top.us < host[0].us / 2)
    return `the host of rank ${rank} is late: compare its host threads with those of another rank`
  return `the host of rank ${rank} is late, mostly in ${observed(top)}: compare it with the host of another rank`
}

/** The text that describes one observation. */
export function observed({
  activity,
  name,
  inside,
}: Pick<ObservationDocument, 'activity' | 'name' | 'inside'>): string {
  // Only the names of kernels and operators have parameters that can be left out.
  const label = (text: string): string => (/\.py\(\d+\)|#|^enumerate/.test(text) ? text : kernelLabel(text))
  const place = inside === null ? '' : ` in ${shorten(label(inside), 56)}`
  switch (activity) {
    case 'notRecorded':
      return 'nothing recorded'
    case 'frame':
      return `Python ${shorten(name ?? '', 56)}${place}`
    case 'collective':
      return `${name ?? 'a collective'}${inside === null ? '' : ` of group ${shorten(inside, 32)}`}`
    case 'idle':
      return 'idle'
    case 'late':
      return `while rank ${name ?? '?'} was last`
    case 'kernel':
      return `before ${name === null ? 'unknown work' : shorten(kernelLabel(name), 44)}${place}`
    case 'copy':
      return `${shorten(name ?? 'copy', 44)}${place}`
    case 'dataLoading':
    case 'annotation':
      return `${shorten(name ?? 'no name', 64)}${place}`
    default:
      return `${shorten(name === null ? 'no name' : label(name), 44)}${place}`
  }
}

/** The evidence for a fix: its longest occurrence, and the observations with the largest shares of its time. */
function evidenceOf(fix: FixFigures, { ranks, steps }: FixContext): string {
  const { seen, example, us } = fix
  if (fix.cause === 'locality') {
    const sizes = ranks.reduce((all, { taxes }) => all + (taxes.localityBytes ?? 0), 0)
    return `${bytes(sizes)} that one kernel writes and the next kernel reads back, over all ranks`
  }
  const listed = seen.filter(({ activity }) => activity !== 'idle')
  if (fix.cause === 'outlier' && listed.length > 0 && example) {
    const [{ count }] = listed
    return `${duration(us)}, one of ${plural(count, 'call')}, on rank ${example.rank} at ${at(example.startUs)}`
  }
  const shares = listed
    .slice(0, 3)
    .filter(({ us: own }, i) => i === 0 || own >= us / 20)
    .map((one) => {
      const rate = one.bytes !== null && one.bytes > 0 ? `, ${bytes(one.bytes)}` : ''
      const times = one.activity === 'late' ? '' : ` (${plural(one.count, 'time')}${rate})`
      return `${percent(one.us, us)} ${observed(one)}${times}`
    })
  const place =
    example && fix.cause !== 'imbalance'
      ? `the longest ${fix.once ? '' : 'one '}${duration(example.durUs)} on rank ${example.rank} at ${at(example.startUs)}`
      : ''
  // A one-off event says nothing about the other launches of the recording.
  const isMean = fix.cause === 'dispatch' && !fix.once
  return [isMean ? launches(us, ranks, steps) : '', ...shares, place].filter((text) => text !== '').join('; ')
}

/** The number of launches, and the idle time per launch. */
function launches(us: number, ranks: readonly RankDocument[], steps: readonly StepDocument[]): string {
  const perStep = steps.flatMap(({ ranks: own }) => own)
  const mean = (of: readonly RankDocument[]): number =>
    of.reduce((all, one) => all + one.launches, 0) / Math.max(1, of.length)
  const all = ranks.reduce((total, one) => total + one.launches, 0)
  if (all === 0) return ''
  const count = mean(perStep.length > 0 ? perStep : ranks)
  return `${Math.round(10 * count) / 10} launches per rank${perStep.length > 0 ? ' and step' : ''}, ${duration(us / all)} of dispatch each`
}

const at = (us: number): string => duration(Math.max(0, us))

function evidenceOfStraggler(straggler: StragglerDocument): string {
  const { collectives, worst, meanwhile, exposedWaitUs, because } = straggler
  const reasons = because
    ? (
        [
          ['more work', because.moreWorkUs],
          ['slower at equal work', because.slowerUs],
          ['compute of unknown size', because.unknownUs],
          ['time without compute', because.idleUs],
        ] as const
      ).filter(([, us]) => us > 0)
    : []
  const all = reasons.reduce((total, [, us]) => total + us, 0)
  const shaped = because?.kernels.find(
    ({ shapes, work }) => shapes !== null && work !== null && Math.abs(work - 1) > 0.01,
  )
  const [first] = meanwhile
  return [
    `last at ${plural(collectives, 'collective')}, which cost the others ${duration(exposedWaitUs)}`,
    reasons.length > 0
      ? `compared with the second-latest rank: ${reasons.map(([name, us]) => `${percent(us, all)} ${name}`).join(', ')}`
      : '',
    shaped?.shapes
      ? `${shorten(kernelLabel(shaped.name), 40)} has ${shaped.shapes[0]} against ${shaped.shapes[1]}`
      : '',
    reasons.length === 0 && first
      ? `meanwhile mostly ${first.what}${first.name === null ? '' : ` ${shorten(kernelLabel(first.name), 40)}`}`
      : '',
    worst.length > 0 ? `the worst at ${at(worst[0].startUs)}, ${duration(worst[0].lateUs)} late` : '',
  ]
    .filter((text) => text !== '')
    .join('; ')
}
