/** What a world has to know about a kernel to launch it: the emitted kernel, and facts that follow from its IR. */
import { analysis } from '../../ir/analysis.ts'
import { walk, type KernelIR } from '../../ir/node.ts'
import { isLoop, isRemote, mayWait, origin, paramName, writtenRefs } from '../../ir/ops/index.ts'
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
   * True if a loop of the kernel may wait, or if the kernel waits and has no tensors (as a rank barrier). The next
   * launch on the stream must not read memory before this kernel has ended.
   */
  readonly polls: boolean
}

/** The facts about launches that follow from the recorded IR. */
export const launchesOnGpu = analysis(
  'launches on a GPU',
  (ir: KernelIR): Pick<Executable, 'writesElsewhere' | 'waiting' | 'polls'> => {
    const nodes = [...walk(ir.body)]
    const waiting = nodes.find(mayWait)
    const elsewhere = nodes.flatMap(writtenRefs).filter(isRemote)
    const hasOnlyFlags = waiting !== undefined && !ir.body.params.some(({ type }) => type.kind === 'tensor')
    return {
      writesElsewhere: [...new Set(elsewhere.map((ref) => paramName(origin(ref).base)))],
      waiting: waiting && { site: waiting.site },
      polls: hasOnlyFlags || nodes.some((node) => isLoop(node) && mayWait(node)),
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
