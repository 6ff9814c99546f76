/** Derives the ways in which a kernel uses its parameters, as far as the host must know them before a launch. */
import { analysis } from '../ir/analysis.ts'
import { attribute, walk, type KernelIR, type Node } from '../ir/node.ts'
import { epochOf, origin, writtenRefs } from '../ir/ops/index.ts'
import type { Site } from '../ir/site.ts'

export interface Uses {
  /** The flag-set parameters that the kernel signals. */
  readonly signals: ReadonlySet<string>
  readonly waits: ReadonlySet<string>
  /**
   * The flag sets of which the kernel reads the epoch of signals, or the epoch of waits, but does not advance that
   * epoch.
   */
  readonly looks: Readonly<Record<'signals' | 'waits', ReadonlySet<string>>>
  /** The source lines that signal each flag-set parameter; a line may occur more than once. */
  readonly signalSites: ReadonlyMap<string, readonly (Site | undefined)[]>
  /** The tensor parameters that the kernel writes to. */
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
  const signalSites = new Map<string, (Site | undefined)[]>()
  const paramOf = (view: Node): string | undefined => {
    const { base } = origin(view)
    return base.op === 'param' ? attribute<string>(base, 'name') : undefined
  }
  const note = (set: Set<string>, view: Node): void => {
    const name = paramOf(view)
    if (name !== undefined) set.add(name)
  }
  for (const node of walk(ir.body)) {
    const epoch = epochOf(node)
    if (epoch) {
      const { signals: ofSignals, waits: ofWaits } = epoch.advances ? { signals, waits } : looks
      note(epoch.side === 'signal' ? ofSignals : ofWaits, epoch.flags)
    }
    const signalled = epoch?.advances && epoch.side === 'signal' ? paramOf(epoch.flags) : undefined
    if (signalled !== undefined)
      signalSites.set(signalled, [...(signalSites.get(signalled) ?? []), node.site])
    for (const ref of writtenRefs(node)) note(writes, ref)
  }
  return { signals, waits, looks, signalSites, writes }
}
