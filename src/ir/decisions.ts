/**
 * The decisions that stages have made about a kernel, as data for a reader. A pass adds what it has decided to the kernel
 * that it returns, under the name of its stage. No pass reads this record. `arke emit --stage decide` prints all of it.
 */
import type { KernelIR, Node } from './node.ts'
import { origin, paramName } from './ops/index.ts'
import type { OpName } from './ops/table.ts'
import type { Site } from './site.ts'

/** An op or a parameter that a decision is about. It keeps no node, so that earlier stages can be freed. */
export interface Subject {
  readonly op: OpName
  /** The name of a parameter. */
  readonly name?: string
  readonly site: Site | undefined
}

export interface Decision {
  /** What the decision is about; absent if it is about the kernel. */
  readonly of?: Subject
  readonly what: string
  /** The subjects that end the sentence. */
  readonly others?: readonly Subject[]
}

export const subjectOf = ({ op, site }: Node): Subject => ({ op, site })

/** The tensor or shared tile that a reference belongs to. */
export function baseOf(ref: Node): Subject {
  const { base } = origin(ref)
  return base.op === 'param' ? { op: 'param', name: paramName(base), site: base.site } : subjectOf(base)
}

/** A subject, the way a reader finds it in the printed stages. */
export const named = ({ op, name, site }: Subject): string =>
  name ?? `${op}${site ? ` at ${String(site)}` : ''}`

export function withDecisions(ir: KernelIR, stage: string, decisions: readonly Decision[]): KernelIR {
  const before = ir.decisions ?? {}
  return { ...ir, decisions: { ...before, [stage]: [...(before[stage] ?? []), ...decisions] } }
}

/** The decisions of a stage as lines, each once. */
export function decisionLines({ decisions = {} }: KernelIR, stage: string): string[] {
  const lines = (decisions[stage] ?? []).map(({ of, what, others = [] }) => {
    const text = [what, ...(others.length > 0 ? [others.map(named).join(', ')] : [])].join(' ')
    return of ? `${named(of)}: ${text}` : text
  })
  return [...new Set(lines)]
}
