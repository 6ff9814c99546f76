/** How a kernel uses its parameters: what a host must know before it launches. */
import { attribute, walk, type KernelIR, type Node } from '../ir/node.ts'
import { origin } from '../ir/ops/views.ts'

export interface Uses {
  /** Flag-set parameters that the kernel signals and waits for. */
  readonly signals: ReadonlySet<string>
  readonly waits: ReadonlySet<string>
  /** Tensor parameters that the kernel writes. */
  readonly writes: ReadonlySet<string>
}

const known = new WeakMap<KernelIR, Uses>()

export function usesOf(ir: KernelIR): Uses {
  let uses = known.get(ir)
  if (!uses) known.set(ir, (uses = find(ir)))
  return uses
}

function find(ir: KernelIR): Uses {
  const [signals, waits, writes] = [new Set<string>(), new Set<string>(), new Set<string>()]
  const note = (set: Set<string>, view: Node): void => {
    const { base } = origin(view)
    if (base.op === 'param') set.add(attribute<string>(base, 'name'))
  }
  for (const node of walk(ir.body)) {
    if (node.op === 'signal') note(signals, node.inputs[0])
    else if (node.op === 'wait') note(waits, node.inputs[0])
    else if (node.op === 'copy') note(writes, node.inputs[1])
    else if (node.op === 'store' || node.op.startsWith('atomic.')) note(writes, node.inputs[0])
  }
  return { signals, waits, writes }
}
