/**
 * Lists the differences between the recording variant of a kernel and its normal variant, apart from the log. The last
 * IR stages of both variants are compared node by node (ir/difference.ts), with the decisions about each node. The
 * decisions about roles and launches are compared afterwards. A thread barrier that belongs to the log (attribute
 * `log`) does not count as a difference. Instead of the ops at the start of a program, the decisions about launches are
 * compared. The renderers emit the code that writes the log.
 */
import { named, subjectOf } from '../../../ir/decisions.ts'
import { difference, type Details, type Difference } from '../../../ir/difference.ts'
import type { KernelIR, Node } from '../../../ir/node.ts'
import { copyOf, isOfStart } from '../../../ir/ops/index.ts'
import { isFragment, isSplat } from './assign.ts'
import { atStage, LAST_STAGE } from '../facts.ts'
import { decide, type Decisions } from './decide.ts'
import { copyText, instructions, launch, layoutText, loopText, roles, tileText } from './describe.ts'
import type { EmitFacts } from './recipe.ts'

/**
 * Describes each difference between the recording and the normal variant of a kernel in a clause that names the kernel.
 * An empty list means that the recording and the normal variant differ only in the log.
 */
export function unlikeUnrecorded(recorded: KernelIR, facts: EmitFacts): readonly string[] {
  const [here, there] = [facts, { ...facts, record: false }].map((one) =>
    decide(atStage(recorded, LAST_STAGE, one), one),
  )
  const nodes = difference([here.ir.body, detailsIn(here)], [there.ir.body, detailsIn(there)]).filter(
    ({ node }) => node.attributes.log !== true && !isOfStart(node),
  )
  const { name } = recorded
  return [
    ...new Set([
      ...onlyOrMoved(nodes).map((clause) => `${name} ${clause}`),
      ...nodes.flatMap((one) => (one.kind === 'differs' ? [`${name}, ${changeOf(one)}`] : [])),
      ...changedLines(roles(here), roles(there)).map((clause) => `${name}: ${clause}`),
      ...changedLines(launch(here), launch(there)).map((clause) => `${name}: ${clause}`),
    ]),
  ]
}

/**
 * Returns the decisions about one node, without offsets in shared memory, which differ because the log needs shared
 * memory.
 */
const detailsIn =
  (decisions: Decisions) =>
  (node: Node): Details => {
    const { layouts, copies, stores, products, tiles } = decisions
    const store = stores.get(node)
    const product = products.get(node)
    const loop = loopText(node, decisions)
    const tile = tiles.get(node)
    return {
      ...(isFragment(node) && !isSplat(node) && { layout: layoutText(layouts.of(node)) }),
      ...(tile && { tile: tileText(tile) }),
      ...(!store && copyOf(node) && { 'the copy is made': copyText(copies.ofCopy(node)) }),
      ...(store && { 'the store is made': copyText(store) }),
      ...(product && { 'the instruction': instructions[product] }),
      ...(loop && { 'the loop is': loop }),
    }
  }

const verbs = {
  'only here': 'has these ops only when it records:',
  'only there': 'has these ops only when nothing is recorded:',
  moved: 'has these ops at another place when nothing is recorded:',
} as const

/** Returns one clause per kind of difference, with the names of the nodes that differ. */
function onlyOrMoved(all: readonly Difference[]): string[] {
  const groups = new Map<string, Map<string, number>>()
  for (const one of all) {
    if (one.kind === 'differs') continue
    const places = groups.get(verbs[one.kind]) ?? new Map<string, number>()
    groups.set(verbs[one.kind], places)
    const place = named(subjectOf(one.node))
    places.set(place, (places.get(place) ?? 0) + 1)
  }
  return [...groups].map(([verb, places]) => {
    const texts = [...places].map(([place, count]) => (count === 1 ? place : `${place} (${count} times)`))
    return `${verb} ${texts.join(', ')}`
  })
}

const changeOf = ({ node, what, here, there }: Extract<Difference, { kind: 'differs' }>): string =>
  here === undefined && there === undefined
    ? `${named(subjectOf(node))}: other ${what} when nothing is recorded`
    : `${named(subjectOf(node))}: ${what}: ${here ?? 'no'} (${there ?? 'no'} when nothing is recorded)`

/** Returns the lines that only the first list contains, combined with the lines that only the second list contains. */
function changedLines(here: readonly string[], there: readonly string[]): string[] {
  const [own, others] = [
    here.filter((line) => !there.includes(line)),
    there.filter((line) => !here.includes(line)),
  ]
  return Array.from(
    { length: Math.max(own.length, others.length) },
    (_, i) => `${own.at(i) ?? 'nothing'} (${others.at(i) ?? 'nothing'} when nothing is recorded)`,
  )
}
