/**
 * Generates a random kernel from a list of decisions, through the public language. The kernel is correct by
 * construction: every element has a single writer, remote inputs are read-only, mail is signalled before it is read,
 * and atomics commute. All targets must therefore agree: bit for bit, or within the bound that a store site allows.
 */
import { kernel, type Kernel, type Program, type Shared, type Tensor } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import { Builder, extents, type Shape, type Sites } from './builder.ts'
import { Choices } from './choices.ts'
import { controlSteps, declareProduct, exactPipeline, product } from './control.ts'
import type { Entry } from './entries.ts'
import { boundedSteps, exactSteps, type Step } from './expressions.ts'
import {
  afterArrivals,
  answer,
  clusterSize,
  declareWide,
  exchangeRounds,
  knownInteger,
  multicast,
  question,
  withRing,
} from './forms.ts'
import { moreBoundedSteps, moreExactSteps } from './more.ts'
import { loadSmall, memorySteps, storeEntry, tile as tileOf } from './memory.ts'
import { accumulated, allParams, commutative, params, storage, type Args, type Params } from './params.ts'

/**
 * `exact` kernels have no sums or products of floats and no transcendental functions, so their results are the same
 * bits everywhere.
 */
export type KernelClass = 'exact' | 'bounded'

export interface Generated {
  readonly kernel: Kernel<Params>
  readonly shape: Shape
  /** The allowed difference between targets per dtype and site. The differences are known once the kernel is recorded. */
  readonly sites: Sites
}

/** Generates the work on one item. */
type Body = (on: Builder) => void

/** The steps that a generated kernel may use: all, or only those from which the golden kernels are made. */
type Vocabulary = 'all' | 'golden'

/**
 * The structure of a generated kernel: work items alone; teams; mail between ranks; a last program that reads the sums
 * of all programs; teams or items inside a role; roles that share a ring of buffers; more work for the last of the
 * programs that arrive at an item; several rounds of an exchange; items that the host asks for; or items of clusters.
 */
type Mode = (typeof modes)[number]
const goldenModes = ['plain', 'teams', 'mail', 'last'] as const
const modes = [...goldenModes, 'roles', 'ring', 'arrivals', 'rounds', 'host', 'clusters'] as const
/** The modes in which programs of a kernel wait for other programs, or do the work of other programs. */
const communicating: readonly Mode[] = ['mail', 'arrivals', 'rounds', 'host']

export function generate(
  genes: readonly number[],
  kind: KernelClass,
  vocabulary: Vocabulary = 'all',
): Generated {
  const choices = new Choices(genes)
  const mode = choices.pick<Mode>(vocabulary === 'all' ? modes : goldenModes)
  const shape: Shape = {
    ranks: choices.between(1, 4),
    grid: choices.pick([1, 3, 2, 5]) * (mode === 'clusters' ? clusterSize : 1),
    items: choices.between(1, 4),
    rows: choices.between(5, 9),
    columns: choices.between(5, 11),
    height: choices.between(3, 8),
    width: choices.between(3, 8),
    communicates: communicating.includes(mode),
    last: mode === 'last',
    host: mode === 'host',
    launches: choices.between(1, 2),
  }
  const sites: Sites = new Map()
  // Each recording of the kernel reads the remaining decisions again. The generator makes one recording per world size.
  const rest = genes.slice(11)
  const declared = vocabulary === 'all' ? allParams : (params as typeof allParams)
  const made = kernel('generated', declared, (t, args) => {
    sites.clear()
    record(t, args, new Choices(rest), shape, sites, mode, kind, vocabulary)
  }) as unknown as Kernel<Params>
  made.record({ world: shape.ranks })
  return { kernel: made, shape, sites }
}

function record(
  t: Program,
  args: Args,
  choices: Choices,
  shape: Shape,
  sites: Sites,
  mode: Mode,
  kind: KernelClass,
  vocabulary: Vocabulary,
): void {
  const tile = (dtype: StorageDType): Shared<StorageDType, 2> =>
    t.shared(dtype, [choices.pick(extents), choices.pick(extents)])
  const shared = [tile(choices.pick(storage)), tile(choices.pick(storage))]
  const form = kind === 'bounded' || choices.rarely(3) ? declareProduct({ t, choices }) : undefined
  const integers = t.shared('i32', [choices.pick(extents), choices.pick(extents)])
  const wide = mode === 'clusters' ? declareWide(t) : undefined
  const ring = mode === 'ring' ? t.shared('i32', [choices.between(1, 3), 4, 4]) : undefined

  const steps = (on: Builder, count: number): void => {
    for (let i = 0; i < count; i++) choices.pick(menu)(on)
  }
  const menu: Step[] = [
    ...exactSteps,
    ...memorySteps,
    ...memorySteps,
    ...controlSteps(steps),
    exactPipeline(integers),
  ]
  if (form && (kind === 'bounded' || form.dtype === 'i8')) menu.push(product(form))
  if (kind === 'bounded') menu.push(loadSmall, ...boundedSteps, ...boundedSteps)
  if (vocabulary === 'all') {
    menu.push(...moreExactSteps)
    if (kind === 'bounded') menu.push(...moreBoundedSteps, ...moreBoundedSteps)
  }

  if (wide) menu.push(multicast(wide), multicast(wide), multicast(wide))

  const body: Body = (on) => {
    const asked = mode === 'host' ? question(on) : undefined
    memorySteps[0](on)
    if (kind === 'bounded') loadSmall(on)
    steps(on, choices.between(1, 14))
    if (mode === 'mail') mail(on, vocabulary)
    if (mode === 'rounds') exchangeRounds(on)
    if (wide) multicast(wide)(on)
    steps(on, choices.below(5))
    for (const one of new Set([...on.unused().reverse(), ...on.pool.slice(-5)])) storeEntry(on, one)
    if (asked) answer(on, asked)
  }
  const items =
    (from: number, count: number, given: readonly Entry[] = []) =>
    (): void => {
      // A GPU shares tiles in a cluster only if the divisors of extents show that the items fill whole clusters.
      const space = [wide ? args.asked.dim(0) : count]
      t.persistent(
        space,
        ([i]) => {
          const on = new Builder({ t, args, choices, shape, sites, shared, item: i.add(from) })
          for (const value of given) on.add(value)
          body(on)
        },
        wide ? { cluster: [clusterSize] } : {},
      )
    }
  const inTeams = (): void =>
    t.teams({
      first: { programs: 1, body: items(0, 1) },
      rest: { programs: 'rest', body: items(1, shape.items - 1) },
    })
  if (mode === 'teams') inTeams()
  else if (mode === 'roles')
    t.roles({
      counts: () => t.atomic.add(args.accumulate_i32.at([commutative.indexOf('add'), 0]), 1),
      // A pipeline inside a role is split into roles of its own, unless the role also has teams.
      works: choices.below(2) === 0 ? inTeams : items(0, shape.items),
    })
  else if (ring) withRing(t, args, choices, ring, (given) => items(0, shape.items, given)())
  else if (mode === 'arrivals')
    afterArrivals(t, choices, shape.items, (item) =>
      body(new Builder({ t, args, choices, shape, sites, shared, item })),
    )
  else items(0, shape.items)()
  if (mode === 'last')
    t.last(() => {
      const on = new Builder({ t, args, choices, shape, sites, shared, item: t.constant('i32', 0) })
      for (const dtype of accumulated) {
        const all = (args[`accumulate_${dtype}`] as unknown as Tensor<'i32', 2>).tile([0, 0], [6, 5])
        storeEntry(on, { value: t.load(all), dtype, shape: [6, 5], magnitude: Infinity, error: 0 })
      }
    })
}

/**
 * Writes, signals, waits and reads from a neighbour, once per item. Programs process items in order, so no program
 * waits for an item that it processes after the current item.
 */
function mail(on: Builder, vocabulary: Vocabulary): void {
  const { t, choices, item } = on
  const { mail, ready } = on.args
  const shape = [choices.pick(extents), choices.pick(extents)] as const
  const value = knownInteger(on) ?? item.add(t.rank)
  const to = mail.pick(item).tile([0, 0], shape)
  if (vocabulary === 'all' && choices.below(2) === 0)
    t.putSignal(tileOf(on, on.input('i32'), shape) as never, to, ready.at([item]))
  else {
    t.store(to, value)
    t.signal(ready.at([item]))
  }
  const peer = on.peer()
  const flag = ready.on(peer).at([item])
  const how = vocabulary === 'all' && choices.rarely(2) ? { atLeast: 1 } : {}
  t.wait(flag, how)
  // After the wait, the condition is true on every target.
  if (vocabulary === 'all' && choices.rarely(2)) on.add(t.reached(flag, how))
  on.add(t.load(mail.on(peer).pick(item).tile([0, 0], shape)))
}
