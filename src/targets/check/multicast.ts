/**
 * Checks copies that the programs of a cluster make together (multicast). In the recorded kernel, each program of the
 * cluster copies the tile itself. The programs of a cluster must copy the same elements, because a GPU may fetch the
 * elements once for all programs. The checker therefore compares the n-th execution of a multicast copy in one program
 * with the n-th execution in the other programs.
 */
import { alongOf, extentsOf, sizeOf } from '../../ir/clusters.ts'
import { attribute, type Node } from '../../ir/node.ts'
import { partyOf, accessOf, type Places } from './access.ts'
import { describe, type Agent } from './agent.ts'
import type { Launch } from './launch.ts'
import type { Machine } from './machine.ts'

interface Copied {
  readonly by: Agent
  readonly from: Places
  /** The number of programs of the cluster that have not made this copy yet. */
  missing: number
}

export class Multicasts {
  /**
   * How often each program has executed each multicast copy (`executed`), and the first program's copy, with which the
   * copies of the cluster's other programs are compared (`copied`).
   */
  readonly #launches = new WeakMap<
    Launch,
    { readonly executed: Map<string, number>; readonly copied: Map<string, Copied> }
  >()
  readonly #numbers = new WeakMap<Node, number>()
  #next = 0

  /**
   * Compares a multicast copy with the corresponding copies of the other programs of the cluster along the copy's axis.
   */
  note(agent: Agent, machine: Machine, node: Node, from: Places): void {
    if (node.attributes.multicast === undefined) return
    let known = this.#launches.get(agent.launch)
    if (!known) this.#launches.set(agent.launch, (known = { executed: new Map(), copied: new Map() }))
    const cluster = extentsOf(node)
    const size = sizeOf(cluster)
    const line = alongOf(cluster, attribute<number>(node, 'multicast'), agent.program % size)
    const copy = `${this.#number(node)}/${agent.rank}`
    const own = `${copy}/${agent.program}`
    const nth = known.executed.get(own) ?? 0
    known.executed.set(own, nth + 1)
    const key = `${copy}/${Math.floor(agent.program / size)}/${line[0]}/${nth}`
    const other = known.copied.get(key)
    if (!other) {
      known.copied.set(key, { by: agent, from, missing: line.length - 1 })
      return
    }
    if (--other.missing === 0) known.copied.delete(key)
    if (isSame(other.from, from)) return
    machine.report({
      kind: 'multicast',
      kernel: agent.launch.kernel,
      message: `${describe(other.by)} and ${describe(agent)} are in one cluster and multicast different elements`,
      parties: [other, { by: agent, from }].map((one) =>
        partyOf(accessOf(one.by, node), `copies ${nameOf(one.from)}`),
      ),
    })
  }

  #number(node: Node): number {
    let number = this.#numbers.get(node)
    if (number === undefined) this.#numbers.set(node, (number = this.#next++))
    return number
  }
}

const isSame = (a: Places, b: Places): boolean =>
  a.buffer === b.buffer && a.index.length === b.index.length && a.index.every((at, i) => at === b.index[i])

/** Describes the elements that a copy reads by the first of them, for example "from b[0, 8] of rank 1". */
function nameOf({ buffer, index }: Places): string {
  const first = index.find((at) => at >= 0)
  return first === undefined ? `nothing of ${buffer.name}` : `from ${buffer.describe(first)}`
}
