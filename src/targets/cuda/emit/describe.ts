/** Prints the decisions about a kernel that the renderers use (`arke emit --target cuda --stage decide`). */
import { baseOf, decisionLines, named } from '../../../ir/decisions.ts'
import { attribute, walk, type Node } from '../../../ir/node.ts'
import { copyOf, declaresBarriers, opOf } from '../../../ir/ops/index.ts'
import { typeName } from '../../../ir/type.ts'
import { programsPerProcessor } from '../../../world/machine.ts'
import { isFragment, isSplat } from './assign.ts'
import type { CopyPlan } from './copies.ts'
import { hardwareArrivals, type Decisions } from './decide.ts'
import { registersOf, type Group } from './groups.ts'
import { headerOf } from './header.ts'
import type { Layout } from './layout.ts'
import type { Product } from './products.ts'
import { cudaOnly } from '../../stages.ts'
import { deviceOf } from './recipe.ts'
import type { Epoch } from './start.ts'
import type { Region, Tile } from './tiles.ts'
import { wordOrder } from './words.ts'

export function describeDecisions(decisions: Decisions): string {
  const { ir, facts, notes } = decisions
  const stages = Object.keys(cudaOnly).map((stage) => [`stage ${stage}`, decisionLines(ir, stage)])
  const sections: Readonly<Record<string, readonly string[]>> = {
    'pipelines that are not roles': ir.notes ?? [],
    ...(Object.fromEntries(stages) as Record<string, readonly string[]>),
    'roles: threads that execute each block': roles(decisions),
    'layouts: the elements of each fragment that a thread holds': layouts(decisions),
    'copies and stores to or from tensors': copies(decisions),
    products: products(decisions),
    'shared memory, in bytes from its start': shared(decisions),
    loops: loops(decisions),
    'flag-in-data words': words(decisions),
    'start and end of a launch': launch(decisions),
  }
  const text = Object.entries(sections).map(([title, lines]) =>
    [title, ...(lines.length > 0 ? lines : ['none'])]
      .map((line, i) => (i === 0 ? line : `  ${line}`))
      .join('\n'),
  )
  return `${[headerOf(ir, facts, notes).join('\n'), ...text].join('\n\n')}\n`
}

export function roles({ roles, arrivers, ir, facts, sharedBytes }: Decisions): string[] {
  const needs = { threads: roles.block, sharedBytes, registersPerThread: roles.registers }
  // The compiler uses at most as many registers as allow one resident program per multiprocessor.
  const resident = Math.max(1, programsPerProcessor(deviceOf(facts), needs))
  const group = (one: Group): string => {
    const registers = `${registersOf(one, roles)} registers per thread`
    const changed = one.registers ? ` (setmaxnreg ${one.registers.change}s them)` : ''
    const who = one.solo ? `1 thread of ${plural(one.warps, 'warp')}` : plural(one.warps, 'warp')
    return `${one.name}: ${who} from thread ${one.first}; ${registers}${changed}; thread barrier ${one.barrier}`
  }
  const barriers = [...walk(ir.body)].filter(declaresBarriers)
  return [
    `${roles.block} threads per program; a multiprocessor has room for at least ${plural(resident, 'program')}`,
    ...[...roles.groups.values()].map(group),
    ...(roles.groups.size === 0 ? [group(roles.whole)] : []),
    ...barriers.map(
      (node) => `${named(node)}: ${plural(hardwareArrivals(node, { arrivers }), 'arrival')} per phase`,
    ),
  ]
}

export const layoutText = ({ kind, count, vector, spread }: Layout): string =>
  [
    kind,
    `${plural(count, 'element')} per thread`,
    ...(vector > 1 ? [`vectors of ${vector}`] : []),
    ...(spread ? [`${spread.rowWarps} x ${spread.columnWarps} warps`] : []),
  ].join(', ')

function layouts({ ir, layouts }: Decisions): string[] {
  const lines = [...walk(ir.body)]
    .filter((node) => isFragment(node) && !isSplat(node))
    .map((node) => `${named(node)}: ${typeName(node.type)}: ${layoutText(layouts.of(node))}`)
  return [...new Set(lines)]
}

export const copyText = (plan: CopyPlan): string => {
  if (plan.how === 'element') return 'by threads, one element at a time'
  if (plan.how === 'vector') return 'by threads, 16 bytes at a time'
  if (plan.how === 'chunks') return `by threads, ${plan.bytes} bytes at a time, in flight (cp.async)`
  const { map, boxes, bytes } = plan
  return `by TMA, ${plural(boxes.length, 'box', 'es')} of ${map.box.join(' x ')} elements, swizzle ${map.swizzle}, ${bytes} bytes`
}

function copies({ ir, copies, stores }: Decisions): string[] {
  return [...walk(ir.body)].flatMap((node) => {
    if (node.op === 'store' || opOf(node).completes === 'at drain') {
      const plan = stores.get(node)
      const how = plan ? copyText(plan) : 'by threads, from registers'
      return [`${named(node)} to ${named(baseOf(node.inputs[0]))}: ${how}`]
    }
    return copyOf(node) ? [`${named(node)}: ${copyText(copies.ofCopy(node))}`] : []
  })
}

export const instructions: Readonly<Record<Product, string>> = {
  wgmma: 'wgmma',
  swapped: 'wgmma of the transposed product',
  mma: 'mma.sync',
  elements: 'plain arithmetic, without the matrix unit',
}

function products({ products }: Decisions): string[] {
  return [...products].map(([dot, product]) => `${named(dot)}: ${instructions[product]}`)
}

export const tileText = ({ stages, rows, columns, span }: Tile): string =>
  `${stages} x ${rows} x ${columns}, ${span === 0 ? 'plain' : `swizzled by ${span} bytes`}`

function shared({ shared, tiles, record, sharedBytes }: Decisions): string[] {
  const line = (what: string, { at, bytes }: Region): string => `${at}: ${what}, ${plural(bytes, 'byte')}`
  const of = (map: ReadonlyMap<Node, Region>, what: (node: Node) => string): [number, string][] =>
    [...map].map(([node, region]) => [region.at, line(what(node), region)])
  const ofGroup = (map: ReadonlyMap<Group, Region>, what: string): [number, string][] =>
    [...map].map(([group, region]) => [region.at, line(`${what} of ${group.name}`, region)])
  const tile = (node: Node): string => `${named(node)}: ${tileText(tiles.get(node)!)}`
  const all = [
    ...of(shared.tiles, tile),
    ...of(shared.barriers, named),
    ...scratch(shared.scratch, line),
    ...ofGroup(shared.staging, 'staging of TMA stores'),
    ...ofGroup(shared.exchange, 'exchange'),
    ...(record ? ([[record.region.at, line('log', record.region)]] as [number, string][]) : []),
  ]
  return [
    ...all.sort(([a], [b]) => a - b).map(([, text]) => text),
    `${sharedBytes} bytes in total, including 1024 bytes to align the start`,
  ]
}

/**
 * Returns one line per region of scratch memory. Each line lists the nodes that use one region of scratch memory in
 * turn.
 */
function scratch(
  map: Decisions['scratch'],
  line: (what: string, region: Region) => string,
): [number, string][] {
  const regions = new Map([...map.values()].map((region) => [region.owner, region]))
  return [...regions.values()].map((region) => {
    const users = [...map].filter(([, { owner }]) => owner === region.owner).map(([node]) => named(node))
    const what = `exchange of ${users.join(', ')}${users.length > 1 ? ', in turn' : ''}`
    return [region.at, line(what, region)]
  })
}

function loops(decisions: Decisions): string[] {
  return [...walk(decisions.ir.body)].flatMap((node) => {
    const text = loopText(node, decisions)
    return text ? [`${named(node)}: ${text}`] : []
  })
}

/**
 * Returns a text that says by which factor a loop is unrolled, after how many iterations the loop polls the abort word,
 * and how many rows of tiles the loop groups. The text is empty if the loop is not unrolled, does not poll and does not
 * group tiles.
 */
export function loopText(node: Node, { loops, tileGroup }: Decisions): string {
  const [unrolled, polling] = [loops.unrolled.get(node), loops.polling.get(node)]
  const rows = node.op === 'persistent' && attribute<number>(node, 'axes') === 2 ? tileGroup(node) : 1
  return [
    ...(unrolled === undefined ? [] : [`unrolled by ${unrolled}`]),
    ...(polling === undefined ? [] : [`reads the abort word every ${polling} iterations`]),
    ...(rows > 1 ? [`processes tiles in groups of ${rows} rows`] : []),
  ].join('; ')
}

function words({ ir, loops, layouts, groupOf }: Decisions): string[] {
  return [...walk(ir.body)].flatMap((node) => {
    if (node.op === 'until')
      return [
        `${named(node)}: repeated by ${loops.together.has(node) ? 'all threads together' : 'each thread on its own'}`,
      ]
    if (node.op !== 'words.post' && node.op !== 'words.take') return []
    const value = node.op === 'words.post' ? node.inputs[2] : node
    if (!isFragment(value)) return [`${named(node)}: one word`]
    const turned = wordOrder(layouts.of(value), groupOf.get(node)!)
    return [`${named(node)}: words in ${turned ? 'the order of threads' : 'the order of elements'}`]
  })
}

export function launch({ early, clerk, start, isOpenEnded }: Decisions): string[] {
  const { epochs, advanced, waitLines } = start
  const of = (some: readonly Epoch[]): string =>
    some.map(({ flags, side }) => `${flags} (${side})`).join(', ') || 'none'
  return [
    early
      ? `${early.group.name} may copy ${early.reads.join(', ')} before the previous kernel has ended`
      : 'nothing is copied before the previous kernel has ended',
    isOpenEnded
      ? 'the next launch starts after this launch has ended, because a loop may poll memory for any length of time'
      : 'the next launch may start before this launch has ended (programmatic dependent launch)',
    waitLines.length > 0
      ? `programs read the abort word when they start; they report waits at ${waitLines.join(', ')}`
      : 'programs do not wait, and do not read the abort word when they start',
    `reads the epochs of flags: ${of(epochs)}`,
    `thread ${clerk} advances the epochs of flags: ${of(advanced)}`,
  ]
}

const plural = (count: number, what: string, ending = 's'): string =>
  `${count} ${what}${count === 1 ? '' : ending}`
