/**
 * Plans flag-in-data words (as in NCCL's LL protocol): f32 words whose two lowest bits hold the epoch of the launch
 * that sent them. Flag-in-data words replace a flag. The sender of flag-in-data words needs no fence and no signal, and
 * the receiver does not poll a flag before it loads the data. The two lowest bits of a word are 1, 2 or 3, depending on
 * the epoch. The value 0 is not used, because memory is initially zero. A flag-in-data word in a slot belongs to the
 * current epoch, to the epoch two launches ago, or to the epoch four launches ago, and three different values of the
 * bits distinguish these epochs.
 *
 *   sender:    words.post(x)               replaces store(x); signal(flag)
 *   receiver:  until { x = words.take() }  replaces wait(flag); x = load()
 *
 * An `until` loop repeats one load, or a loop of loads and pure computations on the loaded values. The code in an
 * `until` loop has no effects except its loads. A kernel mostly waits in its first `until` loops, which usually load
 * few words. If flag-in-data words replace the signals and waits of a flag, only the updates of the flag's epochs
 * remain (`advance`).
 *
 * The order of a tile's elements in memory is private to the threads that store and load the tile. Matrices are stored
 * in thread order, with four consecutive words per thread.
 */
import { analysis } from '../../../ir/analysis.ts'
import { subjectOf, type Decision } from '../../../ir/decisions.ts'
import { walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { isPassive, isRemote, isStrong, opOf, origin, paramName, writtenRefs } from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import { isFragment, isSplat, type Layouts } from './assign.ts'
import { code, REGISTER, type Code } from './code.ts'
import type { Group } from './groups.ts'
import { blockedLayout, type Layout } from './layout.ts'
import type { Ranges } from './ranges.ts'
import { isFirstOfFilled, tileOf } from './views.ts'

export interface WordsPlan {
  /**
   * The reason why flag-in-data words do not replace the flags. If `obstacle` is defined, the plan has no other fields.
   */
  readonly obstacle?: undefined
  /** Maps each store and load of flag-in-data words to the parameter of the flag set that the words replace. */
  readonly accesses: ReadonlyMap<Node, Node>
  /** True if the node, a load or a loop of loads, is repeated until all its words have the current epoch. */
  isRepeated(node: Node): boolean
  /**
   * True if the node is a signal or a wait that flag-in-data words replace, or a loop or branch that contains only such
   * signals and waits.
   */
  isCarried(node: Node): boolean
}

/**
 * The order of the elements of a matrix in memory, and the register that holds the n-th element of a thread in this
 * order.
 */
export interface WordOrder {
  readonly order: Layout
  readonly register: (n: Code) => Code
}

/** Plans the flag-in-data words of a kernel, or returns the reason why its flags are not replaced. */
export const planWords = analysis('words with epochs', wordsIn)

function wordsIn(
  ir: KernelIR,
  layouts: Layouts,
  groupOf: ReadonlyMap<Node, Group>,
  ranges: Ranges,
): WordsPlan | { readonly obstacle: Decision } {
  const carried = new Map(Object.entries(ir.carried ?? {}))
  const stay = (why: string, ...nodes: readonly Node[]): { readonly obstacle: Decision } => ({
    obstacle: { what: `flag-in-data words are not used: ${why}`, others: nodes.map(subjectOf) },
  })
  if (carried.size === 0) return stay('no tensor carries epochs')
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
      // If ranks exchange a tensor without flag-in-data words, the flags may signal accesses to that tensor and must
      // stay.
      if (name !== undefined && flags === undefined && isRemote(ref))
        return stay(`the flags may also signal accesses to the tensor ${name}, for example this op:`, node)
      if (name === undefined || flags === undefined) continue
      const made = accessOf(node, ref, { layouts, group: groupOf.get(node)!, ranges })
      // A load must use the same element order as the store of another rank: all accesses to a tensor need the same
      // order.
      if (!made) return stay(`flag-in-data words do not support the following access to ${name}:`, node)
      if ((forms.get(name) ?? made.form) !== made.form)
        return stay(
          `the following access to ${name} has a different order of elements than other accesses:`,
          node,
        )
      forms.set(name, made.form)
      accesses.set(node, flagsOf.get(flags)!)
    }
  }
  const told = toldOf(nodes, new Set(carried.values()))
  const isUsed = (op: 'load' | 'store', name: string): boolean =>
    [...accesses.keys()].some((node) => node.op === op && paramName(origin(node.inputs[0]).base) === name)
  const names = [...carried.keys()]
  if (!told)
    return stay(
      'a flag is used by an op other than a plain signal or wait, or is never signalled or never waited for',
    )
  const unused = names.find((name) => !isUsed('load', name) || !isUsed('store', name))
  if (unused !== undefined) return stay(`the tensor ${unused} is not both stored and loaded`)

  const loads = [...accesses.keys()].filter(({ op }) => op === 'load')
  const repeated = new Set(nodes.filter((node) => isRepeatable(node, loads)))
  const isInside = new Set([...repeated].flatMap(withInside))
  const once = loads.find((load) => !repeated.has(load) && !isInside.has(load))
  if (once)
    return stay('the following load cannot be repeated, because the code around it has other effects:', once)
  return {
    accesses,
    isRepeated: (node) => repeated.has(node) && !isInside.has(node),
    isCarried: (node) => doesNothingBut(node, told),
  }
}

const withInside = ({ blocks }: Node): readonly Node[] => blocks.flatMap((block) => [...walk(block)])

/**
 * Returns all signals and waits of the flag sets `flags`. Returns undefined if a flag is accessed by another op, never
 * signalled, or never waited for.
 */
function toldOf(nodes: readonly Node[], flags: ReadonlySet<string>): ReadonlySet<Node> | undefined {
  const told = nodes.filter((node) => flags.has(flagsName(node)))
  const isSimple = ({ op, inputs, attributes: { lag } }: Node): boolean =>
    op === 'signal' || (op === 'wait' && lag === 0 && inputs.length === 1)
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

/**
 * Returns the form (element order) of an access, which must be the same for all accesses to a tensor. Returns undefined
 * if the access cannot use flag-in-data words.
 */
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
  // In the order of threads, all elements must be inside the tensor, and each group of four elements starts at a
  // multiple of 16 bytes.
  if (!wordOrder(layout, group) || !view.shape.every((_, i) => isFirstOfFilled(view, i, ranges)))
    return undefined
  return { form: `${layout.key}, ${layout.shape.join(' x ')}, ${group.threads}` }
}

/**
 * Returns the name of the flag set whose flag a node signals, waits for or reads, or an empty string for other nodes.
 */
function flagsName(node: Node): string {
  const flag = node.inputs.find(({ type }) => type.kind === 'flags')
  return flag && !isPassive(node) ? paramName(origin(flag).base) : ''
}

/**
 * True if the node is a load, or a loop of loads without other effects, so that the node can be repeated without harm.
 */
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
 * Returns the memory order of a matrix in which each thread stores a whole number of groups of four elements, or
 * undefined if no such order exists. Layouts of kind `rows` and `columns` need no special memory order.
 */
export function wordOrder(layout: Layout, group: Group): WordOrder | undefined {
  if (layout.kind !== 'accumulator') return undefined
  const order = blockedLayout(layout.shape, 4, group)
  const elements = layout.shape.reduce((product, extent) => product * extent, 1)
  const own = elements / group.threads
  if (layout.isFirst !== undefined || order.vector !== 4 || order.count !== own) return undefined
  if (layout.exists(REGISTER) === undefined && layout.count === own) return { order, register: (n) => n }
  // The matrix has only 8 of the 16 rows of a tile, so every second pair of registers holds no element.
  const isHalf = layout.spread?.rowTiles === 1 && layout.shape[0] === 8 && layout.count === 2 * own
  return isHalf ? { order, register: (n) => code`${n} / 2 * 4 + ${n} % 2` } : undefined
}

/** Implements the stage `words`: rewrites the kernel as `planWords` has planned. */
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
    // The `result` nodes of a repeated loop now refer to `until`. A load has no `result` node, so a `result` node is
    // added.
    return node.blocks.length > 0 ? until : copier.emit('result', [until], { index: 0 }, [], node.site)
  }
  return { ...ir, body: copier.copyBlock(ir.body) }
}

/** Accesses to flag-in-data words are strong, because other ranks load the words while they are being stored. */
const strong = { order: 'relaxed', scope: 'system' } as const
