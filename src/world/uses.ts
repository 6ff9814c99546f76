/** The ways in which a kernel uses its parameters, as far as the host must know them before a launch. */
import { analysis } from '../ir/analysis.ts'
import { attribute, walk, type KernelIR, type Node } from '../ir/node.ts'
import { opOf, origin, writtenRefs } from '../ir/ops/index.ts'

export interface Uses {
  /** The flag-set parameters that the kernel signals. */
  readonly signals: ReadonlySet<string>
  readonly waits: ReadonlySet<string>
  /** Flag sets whose epochs the kernel reads without advancing them, for signals and for waits. */
  readonly looks: Readonly<Record<'signals' | 'waits', ReadonlySet<string>>>
  /** The tensor parameters that the kernel writes. */
  readonly writes: ReadonlySet<string>
}

const known = new WeakMap<KernelIR, Uses>()

export const usesOf = analysis('uses of parameters', findUses)

function findUses(ir: KernelIR): Uses {
  let uses = known.get(ir)
  if (!uses) known.set(ir, (uses = find(ir)))
  return uses
}

function find(ir: KernelIR): Uses {
  const [signals, waits, writes] = [new Set<string>(), new Set<string>(), new Set<string>()]
  const looks = { signals: new Set<string>(), waits: new Set<string>() }
  const note = (set: Set<string>, view: Node): void => {
    const { base } = origin(view)
    if (base.op === 'param') set.add(attribute<string>(base, 'name'))
  }
  for (const node of walk(ir.body)) {
    const { advances, looks: side } = opOf(node)
    if (advances !== 'none') note(advances === 'signal' ? signals : waits, node.inputs[0])
    const seen = side === 'attribute' ? attribute<string>(node, 'side') : side
    if (seen !== 'none') note(seen === 'signal' ? looks.signals : looks.waits, node.inputs[0])
    for (const ref of writtenRefs(node)) note(writes, ref)
  }
  return { signals, waits, looks, writes }
}
