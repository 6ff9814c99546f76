/** Builds timelines of runs by hand, so that tests of the ledger know the correct answers. */
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, type TensorBytes, type Timeline } from '../../src/timeline/timeline.ts'
import { workerTrack, type WorkerPlace } from '../../src/timeline/workers.ts'

export interface Piece {
  readonly from: number
  readonly to: number
}
export interface MadeKernel extends Piece {
  readonly name: string
  readonly stream?: number
  /** The interval in which the host enqueued the kernel. */
  readonly call?: Piece
  readonly traffic?: readonly TensorBytes[]
  /** True if the kernel only moves data. */
  readonly moves?: boolean
}
export interface MadeWorker extends Partial<WorkerPlace> {
  readonly leader: number
  readonly programs: readonly Piece[]
  readonly waits: readonly Piece[]
  readonly transfers: readonly Piece[]
}
export interface MadeRank {
  readonly kernels: readonly MadeKernel[]
  readonly workers: readonly MadeWorker[]
  /** Annotations (named intervals) of stream 0, as other programs record them. */
  readonly annotations?: readonly Piece[]
  /** The intervals in which the host waited. */
  readonly waits?: readonly Piece[]
}

/** Builds a timeline by hand. Times are on one clock for all ranks. */
export function timelineOf(ranks: readonly MadeRank[]): Timeline {
  const builder = new TimelineBuilder()
  ranks.forEach(({ kernels, workers, annotations = [], waits = [] }, number) => {
    const rank = builder.rank(number)
    const add = (kind: Kind, track: number, name: string, { from, to }: Piece): number =>
      rank.add(kind, track, builder.intern(name), from, to - from)
    const host = rank.track('thread', 0, 0)
    for (const wait of waits) add(Kind.synchronize, host, 'synchronize', wait)
    for (const kernel of kernels) {
      const kind = kernel.moves ? Kind.communication : Kind.kernel
      const event = add(kind, rank.track('stream', number, kernel.stream ?? 0), kernel.name, kernel)
      if (kernel.call) rank.linkLaunch(event, add(Kind.launch, host, `launch ${kernel.name}`, kernel.call))
      rank.setTraffic(event, kernel.traffic ?? [])
    }
    for (const piece of annotations)
      add(Kind.annotation, rank.track('annotations', number, 0), 'annotation', piece)
    for (const { stream = 0, leader, role = 0, ...pieces } of workers) {
      const track = rank.track('worker', number, workerTrack({ stream, leader, role }))
      pieces.programs.forEach((piece, n) => add(Kind.annotation, track, `program ${n}`, piece))
      for (const piece of pieces.waits) add(Kind.wait, track, 'wait for ready of rank 0', piece)
      for (const piece of pieces.transfers)
        rank.setBytes(add(Kind.transfer, track, 'copy with rank 0', piece), 64)
    }
  })
  return builder.freeze()
}

export const covers = (pieces: readonly Piece[], time: number): boolean =>
  pieces.some(({ from, to }) => from <= time && time < to)
