/**
 * Words that carry the epoch of the launch they were sent in, so that nobody need tell of them: no fence before a flag, no flag, and no look
 * at the flag before what it told of is loaded. The two lowest bits of an f32 are 1, 2 or 3 by epoch, never 0, which is what memory begins
 * with. A slot's words are of this epoch, or of the one two launches ago, or four.
 *
 *   sender:    words.post(x)              in the place of store(x); signal(flag)
 *   receiver:  until { x = words.take() }  in the place of wait(flag); x = load()
 *
 * What `until` executes again is one load, or a loop of loads and of what is computed from them, and does nothing else. Loops
 * that look at few words come first as a rule, and are what waits. Of signals and waits only their epochs are left (`advance`).
 *
 * Where in a tile a thread puts its elements is nobody else's business: matrices lie in the order of threads, four words of each side by side.
 */
import { analysis } from '../../../ir/analysis.ts'
import { walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { isPassive, isRemote, isStrong, opOf, origin, paramName, writtenRefs } from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import { isFragment, isSplat, type Layouts } from './assign.ts'
import type { Group } from './groups.ts'
import { blockedLayout, type Layout } from './layout.ts'
import type { Ranges } from './ranges.ts'
import { isFirstOfFilled, tileOf } from './views.ts'

export interface WordsPlan {
  /** Stores and loads of tensors whose words carry epochs, and the flags that they are of. */
  readonly accesses: ReadonlyMap<Node, Node>
  /** What is executed again until all its words are there. */
  isRepeated(node: Node): boolean
  /** A signal or a wait for these flags, or a loop or branch that does nothing else: what it told is carried. */
  isCarried(node: Node): boolean
}

/** In which order the elements of a matrix lie, and which register of a thread holds its n-th. */
export interface WordOrder {
  readonly order: Layout
  readonly register: (n: string) => string
}

/** Undefined: there are none, or somebody uses them in a way that they are not for. */
export const planWords = analysis('words with epochs', wordsIn)

function wordsIn(
  ir: KernelIR,
  layouts: Layouts,
  groupOf: ReadonlyMap<Node, Group>,
  ranges: Ranges,
): WordsPlan | undefined {
  const carried = new Map(Object.entries(ir.carried ?? {}))
  if (carried.size === 0) return undefined
  const nodes = [...walk(ir.body)]
  const accesses = new Map<Node, Node>()
  const flagsOf = new Map(ir.body.params.map((param) => [paramName(param), param]))
  const forms = new Map<string, string>()
  for (const node of nodes) {
    if (isPassive(node)) continue
    for (const ref of node.inputs.filter(({ type }) => type.kind === 'ref')) {
      const { base } = origin(ref)
      const name = base.op === 'param' ? paramName(base) : undefined
      const flags = name === undefined ? undefined : carried.get(name)
      // What else ranks exchange, the flags may tell of as well.
      if (name !== undefined && flags === undefined && isRemote(ref)) return undefined
      if (name === undefined || flags === undefined) continue
      const made = accessOf(node, ref, { layouts, group: groupOf.get(node)!, ranges })
      // Whoever loads finds elements where another thread like it has put them.
      if (!made || (forms.get(name) ?? made.form) !== made.form) return undefined
      forms.set(name, made.form)
      accesses.set(node, flagsOf.get(flags)!)
    }
  }
  const told = toldOf(nodes, new Set(carried.values()))
  const isUsed = (op: 'load' | 'store', name: string): boolean =>
    [...accesses.keys()].some((node) => node.op === op && paramName(origin(node.inputs[0]).base) === name)
  const names = [...carried.keys()]
  if (!told || !names.every((name) => isUsed('load', name) && isUsed('store', name))) return undefined

  const loads = [...accesses.keys()].filter(({ op }) => op === 'load')
  const repeated = new Set(nodes.filter((node) => isRepeatable(node, loads)))
  const isInside = new Set([...repeated].flatMap(withInside))
  if (loads.some((load) => !repeated.has(load) && !isInside.has(load))) return undefined
  return {
    accesses,
    isRepeated: (node) => repeated.has(node) && !isInside.has(node),
    isCarried: (node) => doesNothingBut(node, told),
  }
}

const withInside = ({ blocks }: Node): readonly Node[] => blocks.flatMap((block) => [...walk(block)])

/** All signals and waits of these flags; undefined: some are looked at otherwise, or never told, or never waited for. */
function toldOf(nodes: readonly Node[], flags: ReadonlySet<string>): ReadonlySet<Node> | undefined {
  const told = nodes.filter((node) => flags.has(flagsName(node)))
  const isSimple = ({ op, attributes: { lag } }: Node): boolean =>
    op === 'signal' || (op === 'wait' && lag === 0)
  const isBoth = [...flags].every((name) =>
    (['signal', 'wait'] as const).every((op) =>
      told.some((node) => node.op === op && flagsName(node) === name),
    ),
  )
  return isBoth && told.every(isSimple) ? new Set(told) : undefined
}

function doesNothingBut(node: Node, told: ReadonlySet<Node>): boolean {
  if (told.has(node)) return true
  const inside = withInside(node)
  return (
    node.blocks.every(({ results }) => results.length === 0) &&
    inside.some((one) => told.has(one)) &&
    inside.every((one) => told.has(one) || one.blocks.length > 0 || isPassive(one))
  )
}

interface Around {
  readonly layouts: Layouts
  readonly group: Group
  readonly ranges: Ranges
}

/** Undefined: words cannot be had that way. Accesses of one tensor have one form. */
function accessOf(
  node: Node,
  ref: Node,
  { layouts, group, ranges }: Around,
): { readonly form: string } | undefined {
  const value = node.op === 'store' ? node.inputs[1] : node
  const inputs = { load: 1, store: 2 }[node.op as string]
  if (node.inputs.length !== inputs || node.attributes.order !== undefined || ref.op !== 'tile')
    return undefined
  if (!isFragment(value) || isSplat(value)) return undefined
  const layout = layouts.of(value)
  if (liesAsEver(layout)) return { form: 'as ever' }
  const view = tileOf(ref)
  // No element is outside, and four side by side begin at a multiple of sixteen bytes.
  if (!wordOrder(layout, group) || !view.shape.every((_, i) => isFirstOfFilled(view, i, ranges)))
    return undefined
  return { form: `${layout.key}, ${layout.shape.join(' x ')}, ${group.threads}` }
}

/** The flag set of a node that signals, waits for or reads a flag; empty for other nodes. */
function flagsName(node: Node): string {
  const flag = node.inputs.find(({ type }) => type.kind === 'flags')
  return flag && !isPassive(node) ? paramName(origin(flag).base) : ''
}

/** A load, or a loop of loads, that can be executed once more. */
function isRepeatable(node: Node, loads: readonly Node[]): boolean {
  if (loads.includes(node)) return true
  const inner = node.op === 'for' ? [...walk(node.blocks[0] as Block)] : []
  return (
    inner.some((one) => loads.includes(one)) &&
    inner.every((one) => one.op === 'for' || isWeakLoad(one) || opOf(one).effect === 'pure') &&
    inner.flatMap(writtenRefs).length === 0
  )
}

const isWeakLoad = (node: Node): boolean => node.op === 'load' && !isStrong(node)

const liesAsEver = ({ kind }: Layout): boolean => kind === 'rows' || kind === 'columns'

/**
 * The order of a matrix in which each thread has a whole number of four elements of its own; undefined: there is none, and what lies in
 * rows or columns needs none.
 */
export function wordOrder(layout: Layout, group: Group): WordOrder | undefined {
  if (layout.kind !== 'accumulator') return undefined
  const order = blockedLayout(layout.shape, 4, group)
  const elements = layout.shape.reduce((product, extent) => product * extent, 1)
  const own = elements / group.threads
  if (layout.isFirst !== undefined || order.vector !== 4 || order.count !== own) return undefined
  if (layout.exists('i') === undefined && layout.count === own) return { order, register: (n) => n }
  // Eight rows of sixteen: every second pair of registers is of none.
  const isHalf = layout.spread?.rowTiles === 1 && layout.shape[0] === 8 && layout.count === 2 * own
  return isHalf ? { order, register: (n) => `${n} / 2 * 4 + ${n} % 2` } : undefined
}

/** The stage `words`: what the plan says, as ops. */
export const carryEpochs = analysis('epochs in words', withEpochs)

function withEpochs(ir: KernelIR, { accesses, isRepeated, isCarried }: WordsPlan): KernelIR {
  const copier: Copier = new Copier((node) => {
    if (isCarried(node)) {
      for (const one of [node, ...withInside(node)])
        if (one.op === 'signal' || one.op === 'wait')
          copier.emit(`advance.${one.op}`, [copier.get(origin(one.inputs[0]).base)], {}, [], one.site)
      return 'drop'
    }
    return isRepeated(node) ? again(node) : asWords(node)
  })
  const asWords = (node: Node): Node | undefined => {
    const flags = accesses.get(node)
    if (!flags) return undefined
    const [ref, ...values] = node.inputs.map((input) => copier.get(input))
    const op = node.op === 'store' ? 'words.post' : 'words.take'
    return copier.emit(op, [ref, copier.get(flags), ...values], strong, [], node.site)
  }
  const again = (node: Node): Node => {
    const body = copier.block([], () => {
      const made = asWords(node) ?? copier.copyAsIs(node)
      const [yielded] = node.blocks
      return yielded ? yielded.results.map((_, index) => copier.emit('result', [made], { index })) : [made]
    })
    const until = copier.emit('until', [], {}, [body], node.site)
    // Who asks for a result of a loop asks `until`; a load is its own.
    return node.blocks.length > 0 ? until : copier.emit('result', [until], { index: 0 }, [], node.site)
  }
  return { ...ir, body: copier.copyBlock(ir.body) }
}

/** Others look at words while they are written. */
const strong = { order: 'relaxed', scope: 'system' } as const
