/**
 * The litmus family: the textbook shapes, each crossed with ways to order its accesses and with placements of
 * its agents and scopes of its operations.
 *
 * A program's name is `shape+variant+layout`, for instance `MP+relAcq+ranks.system`.
 */

import { differentRanks, sameProgram, sameRank, splitRanks } from './program.ts'
import type {
  FenceOrder,
  LitmusAgent,
  LitmusProgram,
  LoadOrder,
  Op,
  Position,
  RmwKind,
  RmwOrder,
  Scope,
  StoreOrder,
} from './program.ts'

/** A member of the suite, with the coordinates it was generated from. */
export interface LitmusCase {
  readonly program: LitmusProgram
  readonly shape: string
  readonly variant: string
  readonly layout: string
  /** Whether every operation's scope includes every agent. */
  readonly covering: boolean
}

// ---------------------------------------------------------------------------------------------------------------
// Shapes

/** An access of a shape, still without order and scope. */
type Access =
  | { readonly kind: 'store'; readonly loc: string; readonly value: number; readonly data?: boolean }
  | { readonly kind: 'load'; readonly loc: string; readonly data?: boolean; readonly await?: number }
  | {
      readonly kind: 'rmw'
      readonly op: RmwKind
      readonly loc: string
      readonly value: number
      readonly expected?: number
      readonly await?: number
      /** The order it takes whatever the variant; without it, the variant's orders by `role`. */
      readonly order?: RmwOrder
      /** Which side of the synchronisation it stands on. */
      readonly role?: 'store' | 'load' | 'both'
    }

interface Shape {
  readonly name: string
  readonly locations: number
  readonly agents: readonly (readonly Access[])[]
  /** How many of the leading agents only write: these take the wide scope where a layout mixes scopes. */
  readonly writers: number
}

const store = (loc: string, value: number): Access => ({ kind: 'store', loc, value })
const load = (loc: string): Access => ({ kind: 'load', loc })
const dataStore = (loc: string, value: number): Access => ({ kind: 'store', loc, value, data: true })
const dataLoad = (loc: string): Access => ({ kind: 'load', loc, data: true })
const awaitLoad = (loc: string, value: number): Access => ({ kind: 'load', loc, await: value })

/** In MP, S, WRC and ISA2 the accesses that a flag guards are marked as data: variants may make them weak. */
const shapes: readonly Shape[] = [
  {
    name: 'MP',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [load('y'), dataLoad('x')],
    ],
  },
  {
    name: 'SB',
    locations: 2,
    writers: 1,
    agents: [
      [store('x', 1), load('y')],
      [store('y', 1), load('x')],
    ],
  },
  {
    name: 'S',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 2), store('y', 1)],
      [load('y'), dataStore('x', 1)],
    ],
  },
  {
    name: 'R',
    locations: 2,
    writers: 1,
    agents: [
      [store('x', 1), store('y', 1)],
      [store('y', 2), load('x')],
    ],
  },
  {
    name: '2+2W',
    locations: 2,
    writers: 1,
    agents: [
      [store('x', 1), store('y', 2)],
      [store('y', 1), store('x', 2)],
    ],
  },
  {
    name: 'WRC',
    locations: 2,
    writers: 1,
    agents: [[dataStore('x', 1)], [dataLoad('x'), store('y', 1)], [load('y'), dataLoad('x')]],
  },
  {
    name: 'RWC',
    locations: 2,
    writers: 1,
    agents: [[store('x', 1)], [load('x'), load('y')], [store('y', 1), load('x')]],
  },
  {
    name: 'ISA2',
    locations: 3,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [load('y'), store('z', 1)],
      [load('z'), dataLoad('x')],
    ],
  },
  {
    name: 'IRIW',
    locations: 2,
    writers: 2,
    agents: [[store('x', 1)], [store('y', 1)], [load('x'), load('y')], [load('y'), load('x')]],
  },
  { name: 'CoRR', locations: 1, writers: 1, agents: [[store('x', 1)], [load('x'), load('x')]] },
  {
    name: 'CoRR2',
    locations: 1,
    writers: 2,
    agents: [[store('x', 1)], [store('x', 2)], [load('x'), load('x')], [load('x'), load('x')]],
  },
  { name: 'CoWR', locations: 1, writers: 1, agents: [[store('x', 1), load('x')], [store('x', 2)]] },
  { name: 'CoRW', locations: 1, writers: 1, agents: [[load('x'), store('x', 1)], [store('x', 2)]] },
  { name: 'CoWW', locations: 1, writers: 1, agents: [[store('x', 1), store('x', 2)], [store('x', 3)]] },
  {
    // The flag passes through a relaxed RMW, which continues the release sequence: 1 becomes 3, 0 becomes 2.
    name: 'MP-add',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [{ kind: 'rmw', op: 'add', loc: 'y', value: 2, order: 'relaxed' }],
      [load('y'), dataLoad('x')],
    ],
  },
  {
    // A relaxed store in place of the RMW does not continue the release sequence.
    name: 'MP-store',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [load('y'), store('y', 3)],
      [load('y'), dataLoad('x')],
    ],
  },
  {
    // Both sides of the flag are RMWs.
    name: 'MP-xchg',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), { kind: 'rmw', op: 'xchg', loc: 'y', value: 1, role: 'store' }],
      [{ kind: 'rmw', op: 'add', loc: 'y', value: 0, role: 'load' }, dataLoad('x')],
    ],
  },
  {
    // A lock handed over once: taken by 0 -> 1, given back as 2, taken again by 2 -> 3.
    name: 'MP-cas',
    locations: 2,
    writers: 1,
    agents: [
      [
        { kind: 'rmw', op: 'cas', loc: 'y', expected: 0, value: 1, role: 'load' },
        dataStore('x', 1),
        store('y', 2),
      ],
      [{ kind: 'rmw', op: 'cas', loc: 'y', expected: 2, value: 3, role: 'load' }, dataLoad('x')],
    ],
  },
  {
    // Store buffering with exchanges in place of the stores.
    name: 'SB-xchg',
    locations: 2,
    writers: 1,
    agents: [
      [{ kind: 'rmw', op: 'xchg', loc: 'x', value: 1, role: 'both' }, load('y')],
      [{ kind: 'rmw', op: 'xchg', loc: 'y', value: 1, role: 'both' }, load('x')],
    ],
  },
  {
    name: 'Inc2',
    locations: 1,
    writers: 1,
    agents: [
      [{ kind: 'rmw', op: 'add', loc: 'x', value: 1, role: 'both' }],
      [{ kind: 'rmw', op: 'add', loc: 'x', value: 1, role: 'both' }],
    ],
  },
  {
    name: 'Cas2',
    locations: 1,
    writers: 1,
    agents: [
      [{ kind: 'rmw', op: 'cas', loc: 'x', expected: 0, value: 1, role: 'both' }, load('x')],
      [{ kind: 'rmw', op: 'cas', loc: 'x', expected: 0, value: 2, role: 'both' }, load('x')],
    ],
  },
  {
    name: 'Add-store',
    locations: 1,
    writers: 1,
    agents: [[{ kind: 'rmw', op: 'add', loc: 'x', value: 1, role: 'both' }, load('x')], [store('x', 4)]],
  },
]

const lbShape: Shape = {
  name: 'LB',
  locations: 2,
  writers: 1,
  agents: [
    [load('x'), store('y', 1)],
    [load('y'), store('x', 1)],
  ],
}

/** Shapes whose loads of flags are spin loops, so that the data is only reached after synchronisation. */
const awaitShapes: readonly Shape[] = [
  {
    name: 'MP-await',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [awaitLoad('y', 1), dataLoad('x')],
    ],
  },
  {
    name: 'S-await',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 2), store('y', 1)],
      [awaitLoad('y', 1), dataStore('x', 1)],
    ],
  },
  {
    name: 'ISA2-await',
    locations: 3,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [awaitLoad('y', 1), store('z', 1)],
      [awaitLoad('z', 1), dataLoad('x')],
    ],
  },
  {
    name: 'MP-add-await',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1)],
      [{ kind: 'rmw', op: 'add', loc: 'y', value: 2, order: 'relaxed', await: 1 }],
      [awaitLoad('y', 3), dataLoad('x')],
    ],
  },
  {
    // Reuse of a buffer: full flag y one way, empty flag z the other way.
    name: 'Reuse-await',
    locations: 3,
    writers: 1,
    agents: [
      [dataStore('x', 1), store('y', 1), awaitLoad('z', 1), dataStore('x', 2)],
      [awaitLoad('y', 1), dataLoad('x'), store('z', 1)],
    ],
  },
  {
    // Arrival counter: the last reader waits for both increments.
    name: 'Count-await',
    locations: 3,
    writers: 2,
    agents: [
      [dataStore('x', 1), { kind: 'rmw', op: 'add', loc: 'z', value: 1, role: 'store' }],
      [dataStore('y', 1), { kind: 'rmw', op: 'add', loc: 'z', value: 1, role: 'store' }],
      [awaitLoad('z', 2), dataLoad('x'), dataLoad('y')],
    ],
  },
  {
    name: 'Lock-await',
    locations: 2,
    writers: 1,
    agents: [
      [
        { kind: 'rmw', op: 'cas', loc: 'y', expected: 0, value: 1, role: 'load', await: 0 },
        dataStore('x', 1),
        store('y', 0),
      ],
      [
        { kind: 'rmw', op: 'cas', loc: 'y', expected: 0, value: 1, role: 'load', await: 0 },
        dataLoad('x'),
        dataStore('x', 2),
        store('y', 0),
      ],
    ],
  },
]

// ---------------------------------------------------------------------------------------------------------------
// Variants

interface Variant {
  readonly name: string
  readonly store: StoreOrder
  readonly load: LoadOrder
  /** The fence between two consecutive accesses, by whether the earlier and the later one stores. */
  readonly fence?: (earlierStores: boolean, laterStores: boolean) => FenceOrder | undefined
  readonly weakData?: boolean
}

const variants: readonly Variant[] = [
  { name: 'relaxed', store: 'relaxed', load: 'relaxed' },
  { name: 'relAcq', store: 'release', load: 'acquire' },
  {
    name: 'fences',
    store: 'relaxed',
    load: 'relaxed',
    fence: (earlier, later) => (earlier === later ? (later ? 'release' : 'acquire') : 'acqRel'),
  },
  { name: 'seqCst', store: 'relaxed', load: 'relaxed', fence: () => 'seqCst' },
  { name: 'relOnly', store: 'release', load: 'relaxed' },
  { name: 'acqOnly', store: 'relaxed', load: 'acquire' },
]

/** One side by a fence, the other by the access: only of interest where the shape synchronises. */
const crossVariants: readonly Variant[] = [
  {
    name: 'relFenceAcq',
    store: 'relaxed',
    load: 'acquire',
    fence: (_, later) => (later ? 'release' : undefined),
  },
  {
    name: 'relAcqFence',
    store: 'release',
    load: 'relaxed',
    fence: (earlier) => (earlier ? undefined : 'acquire'),
  },
]

const crossed = new Set(['MP', 'S', 'WRC', 'ISA2', 'MP-add'])
const weakened = new Set(['MP', 'S', 'WRC', 'ISA2', 'MP-add', 'MP-cas'])

function weakDataVariant(variant: Variant): Variant {
  return { ...variant, name: `${variant.name}-weakData`, weakData: true }
}

// ---------------------------------------------------------------------------------------------------------------
// Layouts

interface Layout {
  readonly name: string
  readonly covering: boolean
  readonly least: number
  readonly positions: (count: number) => Position[]
  readonly scope: (agent: number, writers: number) => Scope
}

const layouts: readonly Layout[] = [
  { name: 'ranks.system', covering: true, least: 2, positions: differentRanks, scope: () => 'system' },
  { name: 'ranks.device', covering: false, least: 2, positions: differentRanks, scope: () => 'device' },
  { name: 'rank.device', covering: true, least: 2, positions: sameRank, scope: () => 'device' },
  { name: 'rank.block', covering: false, least: 2, positions: sameRank, scope: () => 'block' },
  { name: 'program.block', covering: true, least: 2, positions: sameProgram, scope: () => 'block' },
  {
    name: 'ranks.mixed',
    covering: false,
    least: 2,
    positions: differentRanks,
    scope: (agent, writers) => (agent < writers ? 'system' : 'device'),
  },
  {
    name: 'split.device',
    covering: false,
    least: 3,
    positions: (count) => splitRanks(count, 2),
    scope: () => 'device',
  },
]

// ---------------------------------------------------------------------------------------------------------------
// Generation

function rmwOrder(access: Extract<Access, { kind: 'rmw' }>, variant: Variant): RmwOrder {
  if (access.order !== undefined) return access.order
  const releases = variant.store === 'release' && access.role !== 'load'
  const acquires = variant.load === 'acquire' && access.role !== 'store'
  if (releases) return acquires ? 'acqRel' : 'release'
  return acquires ? 'acquire' : 'relaxed'
}

/** For the choice of fences an RMW counts as the side of the synchronisation it stands on. */
function stores(access: Access): boolean {
  return access.kind === 'store' || (access.kind === 'rmw' && access.role !== 'load')
}

function instantiate(code: readonly Access[], variant: Variant, scope: Scope): Op[] {
  const ops: Op[] = []
  let registers = 0
  let earlier: Access | undefined
  for (const access of code) {
    if (earlier !== undefined) {
      const order = variant.fence?.(stores(earlier), stores(access))
      if (order !== undefined) ops.push({ kind: 'fence', order, scope })
    }
    earlier = access
    if (access.kind === 'store') {
      const order = variant.weakData === true && access.data === true ? 'weak' : variant.store
      ops.push({ kind: 'store', loc: access.loc, value: access.value, order, scope })
      continue
    }
    const into = `r${registers++}`
    const awaited = access.await === undefined ? {} : { await: access.await }
    if (access.kind === 'load') {
      const order = variant.weakData === true && access.data === true ? 'weak' : variant.load
      ops.push({ kind: 'load', loc: access.loc, into, order, scope, ...awaited })
      continue
    }
    const { op, loc, value } = access
    const expected = access.expected === undefined ? {} : { expected: access.expected }
    ops.push({
      kind: 'rmw',
      op,
      loc,
      value,
      ...expected,
      into,
      order: rmwOrder(access, variant),
      scope,
      ...awaited,
    })
  }
  return ops
}

function build(shape: Shape, variant: Variant, layout: Layout): LitmusCase {
  const positions = layout.positions(shape.agents.length)
  const agents = shape.agents.map((code, index): LitmusAgent => {
    const position = positions[index]
    if (position === undefined) throw new Error(`no position for agent ${index} of ${shape.name}`)
    return { ...position, code: instantiate(code, variant, layout.scope(index, shape.writers)) }
  })
  return {
    program: {
      name: `${shape.name}+${variant.name}+${layout.name}`,
      agents,
      locations: ['x', 'y', 'z'].slice(0, shape.locations),
    },
    shape: shape.name,
    variant: variant.name,
    layout: layout.name,
    covering: layout.covering,
  }
}

function cross(shape: Shape, some: readonly Variant[]): LitmusCase[] {
  return some.flatMap((variant) =>
    layouts
      .filter((layout) => shape.agents.length >= layout.least)
      .map((layout) => build(shape, variant, layout)),
  )
}

function distinct(cases: readonly LitmusCase[]): LitmusCase[] {
  const seen = new Map<string, LitmusCase>()
  for (const item of cases) {
    const text = JSON.stringify([item.program.agents, item.program.locations])
    if (!seen.has(text)) seen.set(text, item)
  }
  return [...seen.values()]
}

const near: Position = { rank: 0, program: 0, role: 'w0' }
const beside: Position = { rank: 0, program: 0, role: 'w1' }
const far: Position = { rank: 1, program: 0, role: 'w0' }

function special(name: string, locations: readonly string[], agents: readonly LitmusAgent[]): LitmusCase {
  return {
    program: { name, agents, locations },
    shape: name,
    variant: 'special',
    layout: 'special',
    covering: false,
  }
}

/** Programs whose agents use different scopes for different links. */
const specials: readonly LitmusCase[] = [
  // Synchronisation is transitive across scopes: a block link followed by a system link.
  special(
    'ISA2.block-then-system',
    ['x', 'y', 'z'],
    [
      {
        ...near,
        code: [
          { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
          { kind: 'store', loc: 'y', value: 1, order: 'release', scope: 'block' },
        ],
      },
      {
        ...beside,
        code: [
          { kind: 'load', loc: 'y', into: 'r0', order: 'acquire', scope: 'block' },
          { kind: 'store', loc: 'z', value: 1, order: 'release', scope: 'system' },
        ],
      },
      {
        ...far,
        code: [
          { kind: 'load', loc: 'z', into: 'r0', order: 'acquire', scope: 'system' },
          { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
        ],
      },
    ],
  ),
  // The RMW's narrow scope breaks the release sequence although writer and reader cover each other.
  ...(['device', 'system'] as const).map((scope) =>
    special(
      `MP-add.${scope}-link`,
      ['x', 'y'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
            { kind: 'store', loc: 'y', value: 1, order: 'release', scope: 'system' },
          ],
        },
        {
          ...beside,
          code: [{ kind: 'rmw', op: 'add', loc: 'y', value: 2, into: 'r0', order: 'relaxed', scope }],
        },
        {
          ...far,
          code: [
            { kind: 'load', loc: 'y', into: 'r0', order: 'acquire', scope: 'system' },
            { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
          ],
        },
      ],
    ),
  ),
  // The flag itself is morally strong, but the fences' scopes decide whether there is synchronisation.
  ...(['device', 'system'] as const).map((scope) =>
    special(
      `MP.system-flag+${scope}-fences`,
      ['x', 'y'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
            { kind: 'fence', order: 'release', scope },
            { kind: 'store', loc: 'y', value: 1, order: 'relaxed', scope: 'system' },
          ],
        },
        {
          ...far,
          code: [
            { kind: 'load', loc: 'y', into: 'r0', order: 'relaxed', scope: 'system' },
            { kind: 'fence', order: 'acquire', scope },
            { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
          ],
        },
      ],
    ),
  ),
  // The fences cover, but the flag accesses do not: nothing is observed.
  special(
    'MP.device-flag+system-fences',
    ['x', 'y'],
    [
      {
        ...near,
        code: [
          { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
          { kind: 'fence', order: 'release', scope: 'system' },
          { kind: 'store', loc: 'y', value: 1, order: 'relaxed', scope: 'device' },
        ],
      },
      {
        ...far,
        code: [
          { kind: 'load', loc: 'y', into: 'r0', order: 'relaxed', scope: 'device' },
          { kind: 'fence', order: 'acquire', scope: 'system' },
          { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
        ],
      },
    ],
  ),
  // The middle agent neither acquires nor releases, yet its accesses fix the order of the seqCst fences.
  ...(['acqRel', 'seqCst'] as const).map((order) =>
    special(
      `ISA2.relaxed-relay+${order}-ends`,
      ['x', 'y', 'z'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
            { kind: 'fence', order, scope: 'system' },
            { kind: 'store', loc: 'y', value: 1, order: 'relaxed', scope: 'system' },
          ],
        },
        {
          ...beside,
          code: [
            { kind: 'load', loc: 'y', into: 'r0', order: 'relaxed', scope: 'system' },
            { kind: 'store', loc: 'z', value: 1, order: 'relaxed', scope: 'system' },
          ],
        },
        {
          ...far,
          code: [
            { kind: 'load', loc: 'z', into: 'r0', order: 'relaxed', scope: 'system' },
            { kind: 'fence', order, scope: 'system' },
            { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
          ],
        },
      ],
    ),
  ),
  // seqCst fences order the accesses around them whatever those accesses' scopes, even weak ones.
  ...(['device', 'system'] as const).map((scope) =>
    special(
      `SB.weak+${scope}-seqCst`,
      ['x', 'y'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'weak', scope: 'system' },
            { kind: 'fence', order: 'seqCst', scope },
            { kind: 'load', loc: 'y', into: 'r0', order: 'weak', scope: 'system' },
          ],
        },
        {
          ...far,
          code: [
            { kind: 'store', loc: 'y', value: 1, order: 'weak', scope: 'system' },
            { kind: 'fence', order: 'seqCst', scope },
            { kind: 'load', loc: 'x', into: 'r0', order: 'weak', scope: 'system' },
          ],
        },
      ],
    ),
  ),
]

/** The whole family, without load buffering and without spin loops. Names are unique. */
export const litmusSuite: readonly LitmusCase[] = distinct([
  ...shapes.flatMap((shape) => [
    ...cross(shape, variants),
    ...(crossed.has(shape.name) ? cross(shape, crossVariants) : []),
    ...(weakened.has(shape.name) ? cross(shape, variants.map(weakDataVariant)) : []),
  ]),
  ...specials,
])

/**
 * Programs whose loads or RMWs carry `await`, all with weak data: these can be free of races. An enumerator that
 * does not know spin loops may leave them out.
 */
export const awaitSuite: readonly LitmusCase[] = distinct(
  awaitShapes.flatMap((shape) => cross(shape, variants.map(weakDataVariant))),
)

/**
 * Load buffering. The outcome in which both loads read 1 needs a cycle of program order and reads-from, which the
 * model excludes for every order and scope, although hardware and the PTX axioms may allow it for relaxed and
 * weak accesses. An implementation that never executes a load late cannot show it either, so the shape stands
 * apart as a documented exclusion.
 */
export const loadBuffering: readonly LitmusCase[] = distinct(cross(lbShape, variants))

/** The registers of the outcome that load buffering would add. */
export const loadBufferingExcluded = 'a0.r0=1 a1.r0=1'

// ---------------------------------------------------------------------------------------------------------------
// Random programs

/** A small generator of uniform 32-bit numbers, so that a seed names the same programs everywhere. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/**
 * Small programs with arbitrary mixes of orders, scopes and placements, for comparing enumerators beyond the
 * textbook shapes. Two to four agents, two locations, at most `maxOps` operations, at most five of them reads.
 */
export function randomPrograms(count: number, seed: number, maxOps = 8): LitmusProgram[] {
  const below = generator(seed)
  const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T
  const places: readonly Position[] = [
    { rank: 0, program: 0, role: 'w0' },
    { rank: 0, program: 0, role: 'w1' },
    { rank: 0, program: 1, role: 'w0' },
    { rank: 1, program: 0, role: 'w0' },
  ]
  const scopes: readonly Scope[] = ['block', 'device', 'system', 'system', 'system']

  return Array.from({ length: count }, (_, index): LitmusProgram => {
    const free = [...places]
    const agents = Array.from({ length: 2 + below(3) }, () => {
      const [position] = free.splice(below(free.length), 1)
      return { ...(position as Position), code: [] as Op[], registers: 0 }
    })
    let reads = 0
    let value = 0
    for (let left = agents.length + below(maxOps - agents.length + 1); left > 0; left--) {
      const agent = pick(agents)
      const loc = pick(['x', 'y'])
      const scope = pick(scopes)
      const kind = pick(['store', 'store', 'load', 'load', 'load', 'rmw', 'fence', 'fence'] as const)
      if (kind === 'fence') {
        agent.code.push({
          kind,
          order: pick(['acquire', 'release', 'acqRel', 'seqCst', 'seqCst'] as const),
          scope,
        })
      } else if (kind === 'store' || reads === 5) {
        const order = pick(['weak', 'relaxed', 'release', 'release'] as const)
        agent.code.push({ kind: 'store', loc, value: ++value, order, scope })
      } else if (kind === 'load') {
        reads += 1
        const order = pick(['weak', 'relaxed', 'acquire', 'acquire'] as const)
        agent.code.push({ kind, loc, into: `r${agent.registers++}`, order, scope })
      } else {
        reads += 1
        const op = pick(['xchg', 'add', 'cas'] as const)
        const expected = op === 'cas' ? { expected: below(value + 1) } : {}
        const order = pick(['relaxed', 'acquire', 'release', 'acqRel'] as const)
        const into = `r${agent.registers++}`
        agent.code.push({ kind, op, loc, value: ++value, ...expected, into, order, scope })
      }
    }
    return {
      name: `random-${seed}-${index}`,
      agents: agents.map(({ rank, program, role, code }) => ({ rank, program, role, code })),
      locations: ['x', 'y'],
    }
  })
}
