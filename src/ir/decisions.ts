/**
 * The decisions that compiler stages have made about a kernel, as data for a human reader. Each compiler pass adds its
 * decisions, under the name of its stage, to the kernel that it returns. No pass reads the decisions of another pass.
 * `arke emit --stage decide` prints all decisions.
 */
import type { KernelIR, Node } from './node.ts'
import { origin, paramName } from './ops/index.ts'
import type { OpName } from './ops/table.ts'
import type { Site } from './site.ts'

/**
 * An op or a parameter that a compiler stage's decision is about. The object keeps no reference to an IR node, so that
 * the IR of earlier stages can be freed.
 */
export interface Subject {
  readonly op: OpName
  /** The name of the parameter that the decision is about. */
  readonly name?: string
  readonly site: Site | undefined
}

export interface Decision {
  /** The op or parameter that the decision is about; absent if the decision is about the whole kernel. */
  readonly of?: Subject
  readonly what: string
  /** Further ops or parameters, which the sentence about the decision names at its end. */
  readonly others?: readonly Subject[]
}

export const subjectOf = ({ op, site }: Node): Subject => ({ op, site })

/** The tensor or shared tile to which a memory reference refers. */
export function baseOf(ref: Node): Subject {
  const { base } = origin(ref)
  return base.op === 'param' ? { op: 'param', name: paramName(base), site: base.site } : subjectOf(base)
}

/** The name of a decision's subject as it appears in the printed IR. */
export const named = ({ op, name, site }: Subject): string =>
  name ?? `${op}${site ? ` at ${String(site)}` : ''}`

export function withDecisions(ir: KernelIR, stage: string, decisions: readonly Decision[]): KernelIR {
  const before = ir.decisions ?? {}
  return { ...ir, decisions: { ...before, [stage]: [...(before[stage] ?? []), ...decisions] } }
}

/** The decisions of a compiler stage as lines of text, without duplicates. */
export function decisionLines({ decisions = {} }: KernelIR, stage: string): string[] {
  const lines = (decisions[stage] ?? []).map(({ of, what, others = [] }) => {
    const text = [what, ...(others.length > 0 ? [others.map(named).join(', ')] : [])].join(' ')
    return of ? `${named(of)}: ${text}` : text
  })
  return [...new Set(lines)]
}
