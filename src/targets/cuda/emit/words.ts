/**
 * Words that carry the epoch of the launch they were sent in, so that nobody need tell of them: no fence before a flag, no flag, and no look
 * at the flag before what it told of is loaded. Two bits of an f32 are its epoch's instead of its lowest ones. A slot's words are
 * of this epoch, or of the one two launches ago.
 *
 *   sender:    post(x with bits of the epoch)
 *   receiver:  again: missing = 0; x = take(missing); ...; if (any thread misses one) goto again
 *
 * What lies between `again` and the end is one load, or a loop of loads and of what is computed from them, and does nothing else. Loops
 * that look at few words come first as a rule, and are what waits.
 *
 * Where in a tile a thread puts its elements is nobody else's business: matrices lie in the order of threads, four words of each side by side.
 */
import { walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { ops, origin, writtenRefs } from '../../../ir/ops/index.ts'
import { isFragment, isSplat, type Layouts } from './assign.ts'
import type { Group } from './groups.ts'
import { blockedLayout, type Layout } from './layout.ts'

export interface WordsPlan {
  /** The flags that are not told, nor waited for. */
  readonly flags: ReadonlySet<string>
  /** How a store or a load goes, if its tensor carries epochs. */
  of(node: Node): WordsAccess | undefined
  /** What is executed again until all its words are there. */
  isRepeated(node: Node): boolean
  /** A signal or a wait for these flags, or a loop or branch that does nothing else: what it told is carried. */
  isCarried(node: Node): boolean
  /** Where the flags were waited for, in the source. */
  readonly waits: readonly Node[]
}

export interface WordsAccess {
  readonly flags: string
  /** Of matrices: in which order a thread's elements lie, and which register holds the n-th; undefined: as ever. */
  readonly turned: { readonly order: Layout; readonly register: (n: string) => string } | undefined
}

/** Undefined: there are none, or somebody uses them in a way that they are not for. */
export function planWords(
  ir: KernelIR,
  layouts: Layouts,
  groupOf: ReadonlyMap<Node, Group>,
): WordsPlan | undefined {
  const carried = new Map(Object.entries(ir.carried ?? {}))
  if (carried.size === 0) return undefined
  const nodes = [...walk(ir.body)]
  const flagsOf = (ref: Node): string | undefined => {
    const { base } = origin(ref)
    return base.op === 'param' ? carried.get(String(base.attributes.name)) : undefined
  }
  const flags = new Set(carried.values())
  const isOfFlags = (node: Node): boolean => flags.has(flagsName(node))
  const accesses = new Map<Node, WordsAccess>()
  const keys = new Map<string, string>()
  for (const node of nodes) {
    if (node.op === 'reached' && isOfFlags(node)) return undefined
    if (node.op === 'wait' && isOfFlags(node) && (node.attributes.lag !== 0 || node.attributes.unlessSettled))
      return undefined
    if (ops[node.op].effect === 'pure' || ops[node.op].effect === 'declare') continue
    const [ref] = [...node.inputs.filter((input) => input.type.kind === 'ref' && flagsOf(input))]
    if (!ref) continue
    const value = node.op === 'store' ? node.inputs[1] : node
    const isPlain =
      ['load', 'store'].includes(node.op) && node.inputs.length === (node.op === 'store' ? 2 : 1)
    if (!isPlain || node.attributes.order !== undefined || ref.op !== 'tile') return undefined
    if (!isFragment(value) || isSplat(value)) return undefined
    const layout = layouts.of(value)
    const turned = turnedOf(layout, groupOf.get(node)!)
    if (turned === 'not') return undefined
    // Whoever loads finds elements where another thread like it has put them.
    const name = String(origin(ref).base.attributes.name)
    const key = `${layout.key} ${groupOf.get(node)!.threads}`
    if (turned && (keys.get(name) ?? key) !== key) return undefined
    if (turned) keys.set(name, key)
    accesses.set(node, { flags: flagsOf(ref)!, turned })
  }
  const loads = [...accesses.keys()].filter(({ op }) => op === 'load')
  const repeated = new Set(nodes.filter((node) => isRepeatable(node, loads)))
  const isInside = new Set([...repeated].flatMap((node) => node.blocks.flatMap((block) => [...walk(block)])))
  if (loads.some((load) => !repeated.has(load) && !isInside.has(load))) return undefined
  const tells = (node: Node): boolean => (node.op === 'signal' || node.op === 'wait') && isOfFlags(node)
  const isCarried = (node: Node): boolean => {
    if (tells(node)) return true
    const inner = node.blocks.flatMap((block) => [...walk(block)])
    return (
      node.blocks.every(({ results }) => results.length === 0) &&
      inner.some(tells) &&
      inner.every((one) => tells(one) || one.blocks.length > 0 || ops[one.op].effect === 'pure')
    )
  }
  return {
    flags,
    of: (node) => accesses.get(node),
    isRepeated: (node) => repeated.has(node) && !isInside.has(node),
    isCarried,
    waits: nodes.filter((node) => node.op === 'wait' && isOfFlags(node)),
  }
}

/** Of a signal, a wait or a look. */
export function flagsName(node: Node): string {
  let [base] = node.inputs
  while (base?.op === 'on' || base?.op === 'at') base = base.inputs[0]
  return ['signal', 'wait', 'reached'].includes(node.op) ? String(base.attributes.name) : ''
}

/** A load, or a loop of loads, that can be executed once more. */
function isRepeatable(node: Node, loads: readonly Node[]): boolean {
  if (loads.includes(node)) return true
  const inner = node.op === 'for' ? [...walk(node.blocks[0] as Block)] : []
  return (
    inner.some((one) => loads.includes(one)) &&
    inner.every((one) => one.op === 'for' || isWeakLoad(one) || ops[one.op].effect === 'pure') &&
    inner.flatMap(writtenRefs).length === 0
  )
}

const isWeakLoad = ({ op, attributes }: Node): boolean => op === 'load' && attributes.order === undefined

/** The order of a matrix in which each thread has a whole number of four elements of its own; `not`: there is none. */
function turnedOf(layout: Layout, group: Group): WordsAccess['turned'] | 'not' {
  if (layout.kind === 'rows' || layout.kind === 'columns') return undefined
  if (layout.kind !== 'accumulator') return 'not'
  const order = blockedLayout(layout.shape, 4, group)
  const elements = layout.shape.reduce((product, extent) => product * extent, 1)
  const own = elements / group.threads
  if (layout.isFirst !== undefined || order.vector !== 4 || order.count !== own) return 'not'
  if (layout.exists('i') === undefined && layout.count === own) return { order, register: (n) => n }
  // Eight rows of sixteen: every second pair of registers is of none.
  const isHalf = layout.spread?.rowTiles === 1 && layout.shape[0] === 8 && layout.count === 2 * own
  return isHalf ? { order, register: (n) => `${n} / 2 * 4 + ${n} % 2` } : 'not'
}
