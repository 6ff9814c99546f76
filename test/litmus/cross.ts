/**
 * Combines a shape with a variant (how its accesses are ordered) and a layout (the placement and scopes of its
 * agents) into a program.
 */
import { differentRanks, sameProgram, sameRank, splitRanks } from './program.ts'
import type {
  FenceOrder,
  LitmusAgent,
  LitmusProgram,
  LoadOrder,
  Op,
  Position,
  RmwOrder,
  Scope,
  StoreOrder,
} from './program.ts'
import type { Access, Shape } from './shapes.ts'

/** A program of the suite, with the shape, variant and layout it was generated from. */
export interface LitmusCase {
  readonly program: LitmusProgram
  readonly shape: string
  readonly variant: string
  readonly layout: string
  /** True if every operation's scope includes every agent. */
  readonly covering: boolean
}

interface Variant {
  readonly name: string
  readonly store: StoreOrder
  readonly load: LoadOrder
  /**
   * The fence between two consecutive accesses. The choice of the fence depends on whether the access before it and the
   * access after it are stores.
   */
  readonly fence?: (earlierStores: boolean, laterStores: boolean) => FenceOrder | undefined
  readonly weakData?: boolean
}

export const variants: readonly Variant[] = [
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

/**
 * Variants in which one side synchronises with a fence and the other with the access itself. Variants that combine a
 * fence with an ordered access matter only for shapes that synchronise.
 */
export const crossVariants: readonly Variant[] = [
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

export function weakDataVariant(variant: Variant): Variant {
  return { ...variant, name: `${variant.name}-weakData`, weakData: true }
}

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

function rmwOrder(access: Extract<Access, { kind: 'rmw' }>, variant: Variant): RmwOrder {
  if (access.order !== undefined) return access.order
  const releases = variant.store === 'release' && access.role !== 'load'
  const acquires = variant.load === 'acquire' && access.role !== 'store'
  if (releases) return acquires ? 'acqRel' : 'release'
  return acquires ? 'acquire' : 'relaxed'
}

/**
 * True if the access counts as a store when fences are chosen. A read-modify-write counts as a store unless its role is
 * that of a load.
 */
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

export function cross(shape: Shape, some: readonly Variant[]): LitmusCase[] {
  return some.flatMap((variant) =>
    layouts
      .filter((layout) => shape.agents.length >= layout.least)
      .map((layout) => build(shape, variant, layout)),
  )
}
