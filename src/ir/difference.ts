/**
 * Compares two forms of one kernel node by node. The two forms of the kernel were made from the same recorded kernel,
 * so a node and its counterpart have the same op, type and source position (the same object). In each block, the nodes
 * of the two forms are paired in order. The two nodes of a pair are compared by their attributes, operands and blocks,
 * and by the facts that the caller supplies about each node. A node without a counterpart in its block may have moved
 * to another position.
 */
import type { Block, Node } from './node.ts'
import type { Site } from './site.ts'
import { typeName } from './type.ts'

/** Texts about a node, by name, which the caller supplies so that the comparison includes them. */
export type Details = Readonly<Record<string, string | undefined>>

export type Difference =
  /** A node that exists in only one of the two forms of the kernel. */
  | { readonly kind: 'only here' | 'only there'; readonly node: Node }
  /** A node that exists in both forms of the kernel, at different positions. */
  | { readonly kind: 'moved'; readonly node: Node }
  /** An attribute or fact of a node, with its value in both forms of the kernel. */
  | {
      readonly kind: 'differs'
      readonly node: Node
      readonly what: string
      readonly here: string | undefined
      readonly there: string | undefined
    }

export function difference(
  [here, detailsHere]: readonly [Block, (node: Node) => Details],
  [there, detailsThere]: readonly [Block, (node: Node) => Details],
): readonly Difference[] {
  const found: Difference[] = []
  const counterparts = new Map<Node, Node>()
  const paired = new Set<Node>()
  const pair = (one: Node, other: Node): void => {
    counterparts.set(one, other)
    paired.add(other)
  }
  const keyOf = keys()

  /**
   * True if the operands of two nodes differ. An operand that has no counterpart in the other form of the kernel is
   * ignored, because it is reported separately.
   */
  const areOthers = (some: readonly Node[], others: readonly Node[]): boolean =>
    some.length !== others.length ||
    some.some((one, i) => {
      const expected = counterparts.get(one)
      return expected ? expected !== others[i] : paired.has(others[i])
    })

  const differs = (node: Node, what: string, one?: string, other?: string): void =>
    void found.push({ kind: 'differs', node, what, here: one, there: other })

  const compareNodes = (one: Node, other: Node): void => {
    if (areOthers(one.inputs, other.inputs)) differs(one, 'operands')
    const [own, others] = [
      { ...textsOf(one), ...detailsHere(one) },
      { ...textsOf(other), ...detailsThere(other) },
    ] as Record<string, string | undefined>[]
    for (const what of new Set([...Object.keys(own), ...Object.keys(others)]))
      if (own[what] !== others[what]) differs(one, what, own[what], others[what])
    pair(one, other)
    const count = Math.max(one.blocks.length, other.blocks.length)
    for (let i = 0; i < count; i++) {
      const [block, counterpart] = [one.blocks.at(i), other.blocks.at(i)]
      if (block && counterpart) compareBlocks(block, counterpart, one)
      else differs(one, 'blocks', String(one.blocks.length), String(other.blocks.length))
    }
  }

  const compareBlocks = (block: Block, counterpart: Block, owner: Node | undefined): void => {
    block.params.forEach((param, i) => {
      const other = counterpart.params.at(i)
      if (other) pair(param, other)
    })
    for (const [one, other] of aligned(block.nodes, counterpart.nodes, keyOf)) {
      if (one && other) compareNodes(one, other)
      else if (one) found.push({ kind: 'only here', node: one }, ...inside(one, 'only here'))
      else found.push({ kind: 'only there', node: other! }, ...inside(other!, 'only there'))
    }
    if (owner && areOthers(block.results, counterpart.results)) differs(owner, 'results')
  }

  compareBlocks(here, there, undefined)
  return withMoves(found, keyOf)
}

const inside = (node: Node, kind: 'only here' | 'only there'): Difference[] =>
  node.blocks.flatMap(({ nodes }) =>
    nodes.flatMap((inner) => [{ kind, node: inner }, ...inside(inner, kind)]),
  )

const textsOf = ({ attributes }: Node): Details =>
  Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  )

/** Returns a function that computes the same key for a node and its counterpart. */
function keys(): (node: Node) => string {
  const sites = new Map<Site | undefined, number>()
  const numberOf = (site: Site | undefined): number => {
    if (!sites.has(site)) sites.set(site, sites.size)
    return sites.get(site)!
  }
  return ({ op, type, site }) => `${op} ${typeName(type)} ${numberOf(site)}`
}

/** Aligns two sequences of nodes, in order, so that as many nodes as possible have a counterpart. */
function* aligned(
  here: readonly Node[],
  there: readonly Node[],
  keyOf: (node: Node) => string,
): Generator<readonly [Node | undefined, Node | undefined]> {
  const [own, others] = [here.map(keyOf), there.map(keyOf)]
  // The entry longest[i][j] is the largest number of pairs that can be formed, in order, from here[i..] and there[j..].
  const longest = Array.from({ length: own.length + 1 }, () => new Uint32Array(others.length + 1))
  for (let i = own.length - 1; i >= 0; i--)
    for (let j = others.length - 1; j >= 0; j--)
      longest[i][j] =
        own[i] === others[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1])
  let [i, j] = [0, 0]
  while (i < own.length || j < others.length) {
    if (i < own.length && j < others.length && own[i] === others[j]) yield [here[i++], there[j++]]
    else if (j === others.length || (i < own.length && longest[i + 1][j] >= longest[i][j + 1]))
      yield [here[i++], undefined]
    else yield [undefined, there[j++]]
  }
}

/** If both forms of the kernel have an unpaired node with the same key, the node has moved. */
function withMoves(found: readonly Difference[], keyOf: (node: Node) => string): readonly Difference[] {
  const left = new Map<string, Difference[]>()
  for (const one of found)
    if (one.kind === 'only there') {
      const key = keyOf(one.node)
      left.set(key, [...(left.get(key) ?? []), one])
    }
  const gone = new Set<Difference>()
  const moved = found.map((one): Difference => {
    const other = one.kind === 'only here' ? left.get(keyOf(one.node))?.pop() : undefined
    if (!other) return one
    gone.add(other)
    return { kind: 'moved', node: one.node }
  })
  return moved.filter((one) => !gone.has(one))
}
