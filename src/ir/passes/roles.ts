/**
 * Builds one role's version of a pipelined block. The producer executes the nodes that its waits and copies need (its
 * slice). The consumer executes everything that was not moved to the producer. If polls of flags were moved to the
 * producer, the consumer executes only the nodes that it needs itself. The role `sequential` executes everything, with
 * pipelines as plain loops. Every loop around a pipeline carries the positions in the buffer rings, in addition to the
 * author's own state.
 */
import { attribute, walk, type Block, type Node } from '../node.ts'
import { leadingInputs, meetsRoles, opOf, stateBlocks, stateCount } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { Site } from '../site.ts'
import { valueType, type Type } from '../type.ts'
import { isProducerCopy, type Share, type Slice } from './slice.ts'

export interface Ring {
  readonly stages: number
  readonly pipelines: readonly Node[]
  /** The author's shared tiles, and the tiles with several stages that replace them. */
  readonly tiles: ReadonlyMap<Node, Node>
  readonly full: Node
  readonly empty: Node
}

/** The node of a block before which the producer waits until the consumer has reached the same node. */
export interface Handover {
  readonly before: Node
  readonly barrier: Node
}

/** The position in each buffer ring: its slot and its phase (the number of times it has wrapped around). */
type Positions = readonly Node[]

export class RoleBuilder {
  readonly #role: 'producer' | 'consumer' | 'sequential'
  readonly #into: Copier
  readonly #rings: readonly Ring[]
  readonly #slice: Slice | undefined
  /** The results of each control node in the new block, by index. */
  readonly #results = new Map<Node, ReadonlyMap<number, Node>>()

  constructor(
    role: 'producer' | 'consumer' | 'sequential',
    into: Copier,
    rings: readonly Ring[] = [],
    slice?: Slice,
  ) {
    this.#role = role
    this.#into = into
    this.#rings = rings
    this.#slice = slice
  }

  /** With a handover, the producer waits before the node `handover.before` until the consumer has reached that node. */
  build(block: Block, handover?: Handover): void {
    const start = this.#rings.flatMap(() => [this.#into.constant(0), this.#into.constant(0)])
    block.nodes.reduce<Positions>((positions, node) => {
      if (node === handover?.before) this.#handOver(handover)
      return this.#node(node, positions, undefined)
    }, start)
  }

  #handOver({ before: { site }, barrier }: Handover): void {
    const only = this.#into.emit('pick', [barrier, this.#into.constant(0)], {}, [], site)
    if (this.#role === 'producer')
      this.#into.emit('barrier.wait', [only, this.#into.constant(0)], {}, [], site)
    else this.#into.emit('barrier.arrive', [only], {}, [], site)
  }

  #nodes(block: Block, positions: Positions, full?: Node): Positions {
    return block.nodes.reduce((current, node) => this.#node(node, current, full), positions)
  }

  /**
   * Copies a node into the block of the role. Inside a pipeline, `full` is the barrier of the buffer slot that is being
   * filled.
   */
  #node(node: Node, positions: Positions, full: Node | undefined): Positions {
    const into = this.#into
    // A node that declares a shared tile or a barrier has already been copied to the top of the kernel.
    if (into.map.has(node) && node.type.kind === 'ref') return positions
    if (meetsRoles(node) && this.#role !== 'sequential') return positions // One role needs no barrier.
    if (this.#isLeftOut(node)) return positions
    if (node.op === 'result') {
      into.map.set(node, this.#results.get(node.inputs[0])!.get(attribute<number>(node, 'index'))!)
      return positions
    }
    if (node.op === 'pipeline') return this.#pipeline(node, positions)
    if (node.blocks.length > 0) return this.#control(node, positions, full)
    if (this.#role === 'producer' && isProducerCopy(node) && full)
      into.emit(
        'copy.async',
        [into.get(node.inputs[0]), into.get(node.inputs[1]), full],
        node.attributes,
        [],
        node.site,
      )
    else into.map.set(node, into.copyAsIs(node))
    return positions
  }

  /**
   * The nodes that a role executes. If undefined, the role executes all nodes (`sequential`), or all nodes that were
   * not moved to the producer (`consumer`).
   */
  get #share(): Share | undefined {
    return this.#role === 'producer' ? this.#slice : this.#slice?.consumer
  }

  #isLeftOut(node: Node): boolean {
    if (this.#role === 'consumer' && this.#slice?.moved.has(node)) return true
    return this.#share !== undefined && !this.#share.needed.has(node)
  }

  /** The indices of the state values that this role carries through a control node. */
  #kept(node: Node): readonly number[] {
    const all = Array.from({ length: stateCount(node) }, (_, i) => i)
    const share = this.#share
    return share ? all.filter((i) => share.keeps(node, i)) : all
  }

  #containsRing(node: Node): boolean {
    const inside = new Set(node.blocks.flatMap((block) => [...walk(block)]))
    return this.#rings.some((ring) => ring.pipelines.some((pipeline) => inside.has(pipeline)))
  }

  #control(node: Node, positions: Positions, full: Node | undefined): Positions {
    const into = this.#into
    const isIf = opOf(node).state === 'yielded'
    const kept = this.#kept(node)
    const carried = this.#containsRing(node) ? positions : []
    const inputs = node.inputs.slice(0, leadingInputs(node)).map((input) => into.get(input))
    const init = isIf ? [] : kept.map((i) => into.get(node.inputs[leadingInputs(node) + i]))
    const blocks = node.blocks.map((block) => {
      const leading = isIf ? block.params.length : block.params.length - stateCount(node)
      const params = [
        ...block.params.slice(0, leading),
        ...(isIf ? [] : kept.map((i) => block.params[leading + i])),
      ]
      const ringParams = isIf
        ? []
        : carried.map((_, i) => ({ type: valueType('i32'), name: i % 2 ? 'phase' : 'slot' }))
      const specs = params.map(paramLike)
      return into.block([...specs, ...ringParams], (fresh) => {
        params.forEach((param, i) => into.map.set(param, fresh[i]))
        const after = this.#nodes(block, isIf ? carried : fresh.slice(params.length), full)
        if (!stateBlocks(node).includes(block)) return block.results.map((result) => into.get(result))
        return [...kept.map((i) => into.get(block.results[i])), ...after]
      })
    })
    const made = into.emit(
      node.op,
      [...inputs, ...init, ...(isIf ? [] : carried)],
      node.attributes,
      blocks,
      node.site,
    )
    const result = (i: number): Node => into.emit('result', [made], { index: i }, [], node.site)
    this.#results.set(node, new Map(kept.map((old, now) => [old, result(now)])))
    return carried.length > 0 ? carried.map((_, i) => result(kept.length + i)) : positions
  }

  /** Lowers a pipeline to one `for` loop per axis, with the body in the innermost loop. */
  #pipeline(node: Node, positions: Positions): Positions {
    const into = this.#into
    const which = this.#rings.findIndex((ring) => ring.pipelines.includes(node))
    const ring: Ring | undefined = this.#rings[which]
    const axes = attribute<number>(node, 'axes')
    const body = node.blocks[0]
    const kept = this.#kept(node)
    const extents = node.inputs.slice(0, axes).map((extent) => into.get(extent))
    const level = (axis: number, indices: readonly Node[], state: readonly Node[]): readonly Node[] => {
      if (axis === axes) return this.#iteration(node, ring, indices, state, kept)
      const params = [
        paramLike(body.params[axis]),
        ...kept.map((i) => paramLike(body.params[axes + i])),
        ...(ring ? ['slot', 'phase'] : []).map((name) => ({ type: valueType('i32'), name })),
      ]
      const block = into.block(params, ([index, ...inner]) => level(axis + 1, [...indices, index], inner))
      const loop = into.emit(
        'for',
        [into.constant(0), extents[axis], into.constant(1), ...state],
        {},
        [block],
        node.site,
      )
      return state.map((_, i) => into.emit('result', [loop], { index: i }, [], node.site))
    }
    const position = ring ? positions.slice(2 * which, 2 * which + 2) : []
    const after = level(0, [], [...kept.map((i) => into.get(node.inputs[axes + i])), ...position])
    this.#results.set(node, new Map(kept.map((old, now) => [old, after[now]])))
    return ring
      ? positions.map((old, i) => (i >> 1 === which ? after[kept.length + (i & 1)] : old))
      : positions
  }

  #iteration(
    node: Node,
    ring: Ring | undefined,
    indices: readonly Node[],
    state: readonly Node[],
    kept: readonly number[],
  ): readonly Node[] {
    const into = this.#into
    const { site } = node
    const body = node.blocks[0]
    indices.forEach((index, i) => into.map.set(body.params[i], index))
    kept.forEach((i, now) => into.map.set(body.params[indices.length + i], state[now]))
    const results = (): Node[] => kept.map((i) => into.get(body.results[i]))
    if (!ring) {
      this.#nodes(body, [])
      return results()
    }
    const [slot, phase] = state.slice(-2)
    const full = into.emit('pick', [ring.full, slot], {}, [], site)
    const empty = into.emit('pick', [ring.empty, slot], {}, [], site)
    for (const [tile, staged] of ring.tiles)
      into.map.set(tile, into.emit('pick', [staged, slot], {}, [], tile.site))
    const fills = this.#role === 'producer'
    const awaited = fills ? into.emit('sub', [phase, into.constant(1)], {}, [], site) : phase
    into.emit('barrier.wait', [fills ? empty : full, awaited], {}, [], site)
    this.#nodes(body, [], full)
    into.emit('barrier.arrive', [fills ? full : empty], {}, [], site)
    return [...results(), ...this.#step(ring, slot, phase, site)]
  }

  /**
   * The next position in a buffer ring. Counting with a wrap-around is cheaper than a division, and easier for later
   * passes to recognise.
   */
  #step(ring: Ring, slot: Node, phase: Node, site: Site | undefined): readonly Node[] {
    const into = this.#into
    const one = into.constant(1)
    const next = into.emit('add', [slot, one], {}, [], site)
    const wraps = into.emit('eq', [next, into.constant(ring.stages)], {}, [], site)
    const round = into.emit('add', [phase, one], {}, [], site)
    return [
      into.emit('select', [wraps, into.constant(0), next], {}, [], site),
      into.emit('select', [wraps, round, phase], {}, [], site),
    ]
  }
}

function paramLike(param: Node): { type: Type; name: string; site: Site | undefined } {
  return { type: param.type, name: String(param.attributes.name), site: param.site }
}
