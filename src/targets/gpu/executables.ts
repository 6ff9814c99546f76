/** What a world has to know about a kernel to launch it: the emitted kernel, and facts that follow from its IR. */
import { analysis } from '../../ir/analysis.ts'
import { walk, type KernelIR } from '../../ir/node.ts'
import { isOpenEnded, isRemote, mayWait, origin, paramName, writtenRefs } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import type { Emitted } from './platform.ts'

export interface Executable {
  /** The recorded IR, before any stage. */
  readonly ir: KernelIR
  readonly emitted: Emitted
  /** The number of counter words of the kernel. Every launch resets these words to zero. */
  readonly counterWords: number
  /** The names of the tensors that the kernel writes on other ranks. */
  readonly writesElsewhere: readonly string[]
  /** The source location of the first op at which programs may wait. Undefined if programs never wait. */
  readonly waiting: { readonly site: Site | undefined } | undefined
  /**
   * True if the next launch on the stream must not read memory before this kernel has ended. That is so if a loop of the
   * kernel may poll for any length of time, and if the kernel waits and has no tensors: what follows a rank barrier or a
   * start gate is meant to start behind it.
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

/** Returns the executable of a recorded kernel. The same emitted kernel gives the same object. */
export function executableOf(ir: KernelIR, emitted: Emitted): Executable {
  let executable = known.get(emitted)
  if (!executable) {
    const words = emitted.params.map((param) => (param.kind === 'counters' ? param.words : 0))
    const counterWords = words.reduce((sum, count) => sum + count, 0)
    known.set(emitted, (executable = { ir, emitted, counterWords, ...launchesOnGpu(ir) }))
  }
  return executable
}
