/**
 * A producer in two strands, so that what is there already need not wait for what other ranks send, or the kernel before still
 * makes. The first copies the tensor of which most is copied, as a rule the weights; the second waits for flags and copies the rest. Both
 * arrive at a slot's barrier.
 *
 *   ahead:     wait(empty[slot], phase - 1); copy.async(b -> ring[slot], full[slot]); arrive(full[slot])
 *   producer:  wait(empty[slot], phase - 1); wait(flag); copy.async(a -> ring[slot], full[slot]); arrive(full[slot])
 *
 * A flag may also tell that the tensor was written. Then somebody writes it meanwhile, which whoever launches the kernel knows: the
 * first strand has the waits of the producer, too, to be executed unless nobody does (`unlessSettled`).
 */
import { analysis } from '../analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../node.ts'
import { bytesOf, isRemote, opOf, origin, writtenRefs } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { RefType } from '../type.ts'
import { verify } from '../verify.ts'
import { removeDead } from './dead.ts'

/**
 * `settled`: without the waits of the first strand. Undefined: there is no producer, or nothing that it could copy before it waits, or it
 * waits for no flag and none of its tensors is most of it.
 */
export const splitProducer = analysis('strands', withSplitProducer)

function withSplitProducer(ir: KernelIR, waits: 'kept' | 'settled' = 'kept'): KernelIR | undefined {
  const roles = soleRoles(ir.body)
  const producer = roles?.blocks.find((block) => [...walk(block)].every(isOfProducer))
  const ahead = producer && copiesAhead(ir.body, producer)
  if (!ahead) return undefined
  const full = new Set(
    [...walk(producer)].flatMap((node) => (node.op === 'barrier.arrive' ? [node.inputs[0].inputs[0]] : [])),
  )
  if ([...full].some((barriers) => barriers.attributes.ring !== 'full')) return undefined

  const first = (node: Node): Node | 'drop' | undefined => {
    if (node.op === 'copy.async' && !ahead.has(node)) return 'drop'
    if (node.op !== 'wait') return undefined
    return waits === 'settled' ? 'drop' : again(node, { unlessSettled: true })
  }
  const second = (node: Node): 'drop' | undefined => (ahead.has(node) ? 'drop' : undefined)
  let inStrand: (node: Node) => Node | 'drop' | undefined = () => undefined
  const copier = new Copier((node) => {
    if (full.has(node)) return again(node, { arrivals: 2 })
    return node === roles ? strands() : inStrand(node)
  })
  const again = ({ op, inputs, attributes, site }: Node, change: Node['attributes']): Node =>
    copier.emit(
      op,
      inputs.map((one) => copier.get(one)),
      { ...attributes, ...change },
      [],
      site,
    )
  const strands = (): Node => {
    const at = roles!.blocks.indexOf(producer)
    const names = [...attribute<readonly string[]>(roles!, 'names')]
    const warps = [...attribute<readonly number[]>(roles!, 'warps')]
    names.splice(at, 0, 'ahead')
    warps.splice(at, 1, 1, warps[at] - 1)
    const blocks = roles!.blocks.flatMap((block) => {
      if (block !== producer) return [copier.copyBlock(block)]
      const made = [first, second].map((which) => {
        inStrand = which
        return copier.copyBlock(block)
      })
      inStrand = () => undefined
      return made
    })
    const together = new Set(['ahead', names[at + 1], ...strandsOf(roles!)])
    return copier.emit('roles', [], { names, warps, strands: [...together] }, blocks, roles!.site)
  }
  const made = removeDead({ ...ir, body: copier.copyBlock(ir.body) })
  verify(made)
  return made
}

/** The roles that a producer was split into, and others that share its warpgroup, by name. */
export const strandsOf = (roles: Node): readonly string[] =>
  (roles.attributes.strands as readonly string[] | undefined) ?? []

/** The roles of a kernel that does nothing else. */
export function soleRoles(body: Block): Node | undefined {
  const [node, ...others] = body.nodes.filter((one) => !isPassive(one))
  return node?.op === 'roles' && others.length === 0 ? node : undefined
}

export const isPassive = (node: Node): boolean => ['pure', 'declare'].includes(opOf(node).effect)

/** Epochs are advanced by the kernel before. What other nodes than pure ones give is looked at where they stand. */
export const isOfEpochs = (node: Node): boolean =>
  node.op === 'epoch' || (isPassive(node) && node.inputs.some(isOfEpochs))

const isOfProducer = (node: Node): boolean =>
  isPassive(node) ||
  ['copy.async', 'wait', 'barrier.wait', 'barrier.arrive', 'for', 'while', 'if', 'persistent'].includes(
    node.op,
  ) ||
  (node.op === 'load' && node.attributes.order === undefined)

/**
 * Those of the one tensor, held by this rank and written by no program of the kernel, of which most is copied. What stands behind a wait
 * may be what the wait is for: whoever writes it would be held back until this kernel has ended, which waits for it.
 */
function copiesAhead(body: Block, producer: Block): ReadonlySet<Node> | undefined {
  const nodes = [...walk(producer)]
  const copies = nodes.filter(({ op }) => op === 'copy.async')
  const baseOf = (copy: Node): Node => origin(copy.inputs[0]).base
  const kept = new Set([...walk(body)].flatMap(writtenRefs).map((ref) => origin(ref).base))
  const behind = behindWaits(producer)
  for (const copy of copies)
    if (isRemote(copy.inputs[0]) || isOfEpochs(copy.inputs[0]) || behind.has(copy)) kept.add(baseOf(copy))
  const bytes = new Map<Node, number>()
  for (const copy of copies)
    bytes.set(baseOf(copy), (bytes.get(baseOf(copy)) ?? 0) + bytesOf(copy.inputs[1].type as RefType))
  const [most] = [...bytes].filter(([base]) => !kept.has(base)).sort(([, a], [, b]) => b - a)
  if (!most) return undefined
  const [tensor, own] = most
  const rest = [...bytes.values()].reduce((sum, one) => sum + one, 0) - own
  const isUseful = rest > 0 && (own > rest || nodes.some(({ op }) => op === 'wait'))
  return isUseful ? new Set(copies.filter((copy) => baseOf(copy) === tensor)) : undefined
}

/** What comes after a wait in program order, the order of a loop's first turn. */
function behindWaits(block: Block): ReadonlySet<Node> {
  const nodes = [...walk(block)]
  const first = nodes.findIndex(({ op }) => op === 'wait')
  return new Set(first < 0 ? [] : nodes.slice(first))
}
