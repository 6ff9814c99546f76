/**
 * Lists the differences between the recording variant of a kernel and its normal variant, apart from the log. The last
 * stages of both variants and their decisions are compared: ops with effects, accesses by TMA and the matrix unit,
 * roles, products, and copies that start before the previous kernel has ended.
 */
import { walk, type KernelIR } from '../../../ir/node.ts'
import { opOf, type OpName } from '../../../ir/ops/index.ts'
import { atStage, LAST_STAGE } from '../facts.ts'
import { decide, type Decisions } from './decide.ts'
import type { EmitFacts } from './recipe.ts'

/**
 * Describes each difference in a clause that names the kernel. An empty list means that both variants differ only in
 * the log.
 */
export function unlikeUnrecorded(recorded: KernelIR, facts: EmitFacts): readonly string[] {
  const [here, there] = [facts, { ...facts, record: false }].map((one) =>
    featuresOf(decide(atStage(recorded, LAST_STAGE, one), one)),
  )
  return [...new Set([...there.keys(), ...here.keys()])].flatMap((feature) => {
    const [now, otherwise] = [here.get(feature) ?? 0, there.get(feature) ?? 0]
    return now === otherwise
      ? []
      : [`${recorded.name} has ${now} ${feature} (${otherwise} when nothing is recorded)`]
  })
}

/** The features of a kernel that recording may change, each with its number of occurrences. */
function featuresOf(decisions: Decisions): ReadonlyMap<string, number> {
  const { ir, roles, copies, products, overlaps, early } = decisions
  const counts = new Map<string, number>()
  const count = (feature: string): void => void counts.set(feature, (counts.get(feature) ?? 0) + 1)
  for (const node of walk(ir.body)) {
    const { op, attributes } = node
    if (opOf(node).effect !== 'pure') count(words[op] ?? `\`${op}\` ops`)
    if (attributes.apart === true) count('loops of waits that threads divide among themselves')
    if (attributes.by === 'engine') count(`\`${op}\` ops by TMA or the matrix unit`)
    if (op === 'copy.async' || op === 'copy.nbi') count(`copies of kind "${copies.ofCopy(node).how}"`)
  }
  for (const { name, warps, threads } of roles.groups.values())
    count(`roles ${name} with ${warps} warps and ${threads} active threads`)
  for (const product of products.values()) count(`products of kind "${product}"`)
  for (const _ of overlaps) count('products in flight while the next one starts')
  if (early) count('roles that copy before the previous kernel has ended')
  return counts
}

const words: Partial<Record<OpName, string>> = {
  wait: 'waits for flags',
  signal: 'signals of flags',
  'words.take': 'loads of flag-in-data words',
  'words.post': 'stores of flag-in-data words',
  meet: 'thread barriers',
  'fence.async': 'fences before accesses by TMA or the matrix unit',
  drain: 'waits for TMA stores',
  operands: 'products that read operands from registers through shared memory',
  boxes: 'stores by TMA through staging',
}
