/** Derives the facts that a world needs to launch a kernel: the emitted code, and facts that follow from its IR. */
import { analysis } from '../../ir/analysis.ts'
import { walk, type KernelIR } from '../../ir/node.ts'
import { isOpenEnded, isRemote, mayWait, origin, paramName, writtenRefs } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import type { Emitted } from './platform.ts'

export interface Executable {
  /** The IR of the recorded kernel, before any stage. */
  readonly ir: KernelIR
  readonly emitted: Emitted
  /** The number of counter words of the kernel. Every launch resets the counter words to zero. */
  readonly counterWords: number
  /** The names of the tensors that the kernel writes on other ranks. */
  readonly writesElsewhere: readonly string[]
  /**
   * The first op at which programs may wait, with its source location if known. `waiting` is undefined if programs of
   * the kernel never wait.
   */
  readonly waiting: { readonly site: Site | undefined } | undefined
  /**
   * True if the next launch on the stream must not read memory before this kernel has ended. `barsEarlyReads` is true
   * for a kernel with a loop that may poll for any length of time. `barsEarlyReads` is also true for a kernel that
   * waits and has no tensor parameters, such as a barrier between ranks, because later work must start after the
   * barrier.
   */
  readonly barsEarlyReads: boolean
}

/** The facts about launches that follow from the recorded IR. */
export const launchesOnGpu = analysis(
  'launches on a GPU',
  (ir: KernelIR): Pick<Executable, 'writesElsewhere' | 'waiting' | 'barsEarlyReads'> => {
    const nodes = [...walk(ir.body)]
    const waiting = nodes.find(mayWait)
    const elsewhere = nodes.flatMap(writtenRefs).filter(isRemote)
    const hasOnlyFlags = waiting !== undefined && !ir.body.params.some(({ type }) => type.kind === 'tensor')
    return {
      writesElsewhere: [...new Set(elsewhere.map((ref) => paramName(origin(ref).base)))],
      waiting: waiting && { site: waiting.site },
      barsEarlyReads: hasOnlyFlags || nodes.some(isOpenEnded),
    }
  },
)

const known = new WeakMap<Emitted, Executable>()

/**
 * Returns the executable of a recorded kernel. Two recorded kernels with the same emitted code have the same executable
 * object.
 */
export function executableOf(ir: KernelIR, emitted: Emitted): Executable {
  let executable = known.get(emitted)
  if (!executable) {
    const words = emitted.params.map((param) => (param.kind === 'counters' ? param.words : 0))
    const counterWords = words.reduce((sum, count) => sum + count, 0)
    known.set(emitted, (executable = { ir, emitted, counterWords, ...launchesOnGpu(ir) }))
  }
  return executable
}
