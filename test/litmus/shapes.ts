/**
 * The textbook shapes of litmus programs: which agent accesses which location, without orders, scopes and placement.
 */
import type { RmwKind, RmwOrder } from './program.ts'

/** An access of a shape, without order and scope. */
export type Access =
  | { readonly kind: 'store'; readonly loc: string; readonly value: number; readonly data?: boolean }
  | { readonly kind: 'load'; readonly loc: string; readonly data?: boolean; readonly await?: number }
  | {
      readonly kind: 'rmw'
      readonly op: RmwKind
      readonly loc: string
      readonly value: number
      readonly expected?: number
      readonly await?: number
      /**
       * The memory order in all variants. If the order is absent, the variant chooses the order according to `role`.
       */
      readonly order?: RmwOrder
      /** The role of the access in a synchronisation: it releases (store), acquires (load), or does both. */
      readonly role?: 'store' | 'load' | 'both'
    }

export interface Shape {
  readonly name: string
  readonly locations: number
  readonly agents: readonly (readonly Access[])[]
  /** The number of leading agents that only write; layouts that mix scopes give these agents the wide scope. */
  readonly writers: number
}

const store = (loc: string, value: number): Access => ({ kind: 'store', loc, value })
const load = (loc: string): Access => ({ kind: 'load', loc })
const dataStore = (loc: string, value: number): Access => ({ kind: 'store', loc, value, data: true })
const dataLoad = (loc: string): Access => ({ kind: 'load', loc, data: true })
const awaitLoad = (loc: string, value: number): Access => ({ kind: 'load', loc, await: value })

/**
 * In MP, S, WRC and ISA2, the accesses that a flag guards are marked as data. Some variants make the data accesses weak.
 */
export const shapes: readonly Shape[] = [
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
    // A relaxed RMW of the flag continues the release sequence: the value 1 becomes 3, and 0 becomes 2.
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
    // In this shape, both sides of the flag are read-modify-writes.
    name: 'MP-xchg',
    locations: 2,
    writers: 1,
    agents: [
      [dataStore('x', 1), { kind: 'rmw', op: 'xchg', loc: 'y', value: 1, role: 'store' }],
      [{ kind: 'rmw', op: 'add', loc: 'y', value: 0, role: 'load' }, dataLoad('x')],
    ],
  },
  {
    // A lock that is passed on once: one agent takes it (0 -> 1) and releases it as 2, and the other takes it (2 ->
    // 3).
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

export const lbShape: Shape = {
  name: 'LB',
  locations: 2,
  writers: 1,
  agents: [
    [load('x'), store('y', 1)],
    [load('y'), store('x', 1)],
  ],
}

/** Shapes whose loads of flags are spin loops, so that the data are accessed only after synchronisation. */
export const awaitShapes: readonly Shape[] = [
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
    // A shape in which a buffer is reused: flag y says that the buffer is full, and flag z says that it is empty.
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
