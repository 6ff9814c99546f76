/** Tests that the axioms reproduce known results of the literature, on programs written by hand. */
import { describe, expect, it } from 'vitest'
import { enumerate } from './axiomatic.ts'
import { contains, differentRanks, outcomeKey, sameProgram, sameRank } from './program.ts'
import type {
  FenceOrder,
  LitmusProgram,
  LoadOrder,
  Op,
  Position,
  RmwOrder,
  Scope,
  StoreOrder,
} from './program.ts'
import { loadBuffering, loadBufferingExcluded } from './suite.ts'

const W = (loc: string, value: number, order: StoreOrder = 'relaxed', scope: Scope = 'system'): Op => ({
  kind: 'store',
  loc,
  value,
  order,
  scope,
})
const R = (loc: string, into: string, order: LoadOrder = 'relaxed', scope: Scope = 'system'): Op => ({
  kind: 'load',
  loc,
  into,
  order,
  scope,
})
const F = (order: FenceOrder, scope: Scope = 'system'): Op => ({ kind: 'fence', order, scope })
const add = (loc: string, value: number, into: string, order: RmwOrder, scope: Scope = 'system'): Op => ({
  kind: 'rmw',
  op: 'add',
  loc,
  value,
  into,
  order,
  scope,
})
const cas = (loc: string, expected: number, value: number, into: string, order: RmwOrder): Op => ({
  kind: 'rmw',
  op: 'cas',
  loc,
  value,
  expected,
  into,
  order,
  scope: 'system',
})

function program(codes: readonly (readonly Op[])[], positions?: readonly Position[]): LitmusProgram {
  const places = positions ?? differentRanks(codes.length)
  const used = new Set(codes.flat().flatMap((op) => (op.kind === 'fence' ? [] : [op.loc])))
  return {
    name: 'by hand',
    agents: codes.map((code, index) => ({ ...(places[index] as Position), code })),
    locations: ['x', 'y', 'z'].filter((name) => used.has(name)),
  }
}

const allows = (some: LitmusProgram, pattern: string): boolean => contains(enumerate(some).outcomes, pattern)

describe('outcomeKey', () => {
  it('names registers by agent and order, and locations by order', () => {
    expect(outcomeKey([[1], [], [0, 2]], [1, 2])).toBe('a0.r0=1 a2.r0=0 a2.r1=2 ; x=1 y=2')
    expect(outcomeKey([[], []], [3])).toBe('; x=3')
  })
})

describe('message passing', () => {
  const stale = 'a1.r0=1 a1.r1=0'
  const flag = (store: StoreOrder, load: LoadOrder, scope: Scope = 'system'): Op[][] => [
    [W('x', 1, 'relaxed', scope), W('y', 1, store, scope)],
    [R('y', 'r0', load, scope), R('x', 'r1', 'relaxed', scope)],
  ]

  it('has all four outcomes when relaxed', () => {
    expect([...enumerate(program(flag('relaxed', 'relaxed'))).outcomes].sort()).toEqual([
      'a1.r0=0 a1.r1=0 ; x=1 y=1',
      'a1.r0=0 a1.r1=1 ; x=1 y=1',
      'a1.r0=1 a1.r1=0 ; x=1 y=1',
      'a1.r0=1 a1.r1=1 ; x=1 y=1',
    ])
  })

  it('needs release and acquire, both', () => {
    expect([...enumerate(program(flag('release', 'acquire'))).outcomes].sort()).toEqual([
      'a1.r0=0 a1.r1=0 ; x=1 y=1',
      'a1.r0=0 a1.r1=1 ; x=1 y=1',
      'a1.r0=1 a1.r1=1 ; x=1 y=1',
    ])
    expect(allows(program(flag('release', 'relaxed')), stale)).toBe(true)
    expect(allows(program(flag('relaxed', 'acquire')), stale)).toBe(true)
  })

  it('synchronises exactly where the scopes cover both agents', () => {
    const verdict = (scope: Scope, positions: Position[]): [boolean, boolean] => {
      const { outcomes, scopeRace } = enumerate(program(flag('release', 'acquire', scope), positions))
      return [contains(outcomes, stale), scopeRace]
    }
    expect(verdict('system', differentRanks(2))).toEqual([false, false])
    expect(verdict('device', differentRanks(2))).toEqual([true, true])
    expect(verdict('block', differentRanks(2))).toEqual([true, true])
    expect(verdict('system', sameRank(2))).toEqual([false, false])
    expect(verdict('device', sameRank(2))).toEqual([false, false])
    expect(verdict('block', sameRank(2))).toEqual([true, true])
    expect(verdict('block', sameProgram(2))).toEqual([false, false])
  })

  it('needs the scope of both sides', () => {
    const oneSided = program([
      [W('x', 1), W('y', 1, 'release', 'system')],
      [R('y', 'r0', 'acquire', 'device'), R('x', 'r1')],
    ])
    expect(allows(oneSided, stale)).toBe(true)
    expect(enumerate(oneSided).scopeRace).toBe(true)
  })

  it('works with fences, alone or on one side, and not with the wrong fence', () => {
    const fenced = (
      release: Op[],
      flagStore: StoreOrder,
      flagLoad: LoadOrder,
      acquire: Op[],
    ): LitmusProgram =>
      program([
        [W('x', 1), ...release, W('y', 1, flagStore)],
        [R('y', 'r0', flagLoad), ...acquire, R('x', 'r1')],
      ])
    expect(allows(fenced([F('release')], 'relaxed', 'relaxed', [F('acquire')]), stale)).toBe(false)
    expect(allows(fenced([F('release')], 'relaxed', 'acquire', []), stale)).toBe(false)
    expect(allows(fenced([], 'release', 'relaxed', [F('acquire')]), stale)).toBe(false)
    expect(allows(fenced([F('seqCst')], 'relaxed', 'relaxed', [F('seqCst')]), stale)).toBe(false)
    expect(allows(fenced([F('acqRel')], 'relaxed', 'relaxed', [F('acqRel')]), stale)).toBe(false)
    expect(allows(fenced([F('acquire')], 'relaxed', 'relaxed', [F('acquire')]), stale)).toBe(true)
    expect(allows(fenced([F('release')], 'relaxed', 'relaxed', [F('release')]), stale)).toBe(true)
    expect(allows(fenced([F('seqCst')], 'relaxed', 'relaxed', []), stale)).toBe(true)
    // A weak flag does not synchronise.
    expect(allows(fenced([F('release')], 'weak', 'relaxed', [F('acquire')]), stale)).toBe(true)
    // The scopes of the fences matter as well.
    expect(allows(fenced([F('release', 'device')], 'relaxed', 'relaxed', [F('acquire')]), stale)).toBe(true)
    expect(allows(fenced([F('release')], 'relaxed', 'relaxed', [F('acquire', 'device')]), stale)).toBe(true)
  })

  it('judges weak data by whether the flag was seen', () => {
    const weakData = (store: StoreOrder, load: LoadOrder, scope: Scope = 'system'): LitmusProgram =>
      program([
        [W('x', 1, 'weak'), W('y', 1, store, scope)],
        [R('y', 'r0', load, scope), R('x', 'r1', 'weak')],
      ])
    const good = enumerate(weakData('release', 'acquire'))
    expect(good.weakRace).toBe(true) // If the load of y does not read the flag's value 1, the load of x is unordered.
    expect(good.scopeRace).toBe(false)
    expect([...good.raceFreeOutcomes]).toEqual(['a1.r0=1 a1.r1=1 ; x=1 y=1'])
    const relaxed = enumerate(weakData('relaxed', 'relaxed'))
    expect(relaxed.raceFreeOutcomes.size).toBe(0)
    expect(relaxed.scopeRace).toBe(false)
    const narrow = enumerate(weakData('release', 'acquire', 'device'))
    expect(narrow.raceFreeOutcomes.size).toBe(0)
    expect(narrow.scopeRace).toBe(true)
  })

  it('is free of races when the reader waits for the flag', () => {
    const waiting = (order: LoadOrder): LitmusProgram =>
      program([
        [W('x', 1, 'weak'), W('y', 1, 'release')],
        [{ kind: 'load', loc: 'y', into: 'r0', order, scope: 'system', await: 1 }, R('x', 'r1', 'weak')],
      ])
    const good = enumerate(waiting('acquire'))
    expect([...good.outcomes]).toEqual(['a1.r0=1 a1.r1=1 ; x=1 y=1'])
    expect([good.weakRace, good.scopeRace]).toEqual([false, false])
    const bad = enumerate(waiting('relaxed'))
    expect(contains(bad.outcomes, stale)).toBe(true)
    expect([bad.weakRace, bad.scopeRace]).toEqual([true, false])
  })
})

describe('release sequences', () => {
  const chain = (middle: readonly Op[], near = false): LitmusProgram =>
    program(
      [[W('x', 1), W('y', 1, 'release')], middle, [R('y', 'r0', 'acquire'), R('x', 'r1')]],
      near ? [...sameRank(2), { rank: 1, program: 0, role: 'w0' }] : undefined,
    )

  it('continue through a relaxed RMW', () => {
    const some = chain([add('y', 2, 'r0', 'relaxed')])
    expect(allows(some, 'a1.r0=1 a2.r0=3 a2.r1=1')).toBe(true)
    expect(allows(some, 'a1.r0=1 a2.r0=3 a2.r1=0')).toBe(false)
    // A read-modify-write that read the initial value is not in the release sequence.
    expect(allows(some, 'a1.r0=0 a2.r0=2 a2.r1=0')).toBe(true)
  })

  it('end at another store', () => {
    expect(allows(chain([R('y', 'r0'), W('y', 3)]), 'a1.r0=1 a2.r0=3 a2.r1=0')).toBe(true)
  })

  it('do not include later stores of the releasing agent', () => {
    const some = program([
      [W('x', 1), W('y', 1, 'release'), W('y', 2)],
      [R('y', 'r0', 'acquire'), R('x', 'r1')],
    ])
    expect(allows(some, 'a1.r0=1 a1.r1=0')).toBe(false)
    expect(allows(some, 'a1.r0=2 a1.r1=0')).toBe(true)
  })

  it('break at an RMW whose scope misses a neighbour', () => {
    expect(allows(chain([add('y', 2, 'r0', 'relaxed', 'device')], true), 'a1.r0=1 a2.r0=3 a2.r1=0')).toBe(
      true,
    )
    expect(allows(chain([add('y', 2, 'r0', 'relaxed', 'system')], true), 'a1.r0=1 a2.r0=3 a2.r1=0')).toBe(
      false,
    )
  })

  it('pass a lock from one agent to the next', () => {
    const lock = program([
      [cas('y', 0, 1, 'r0', 'acquire'), W('x', 1), W('y', 2, 'release')],
      [cas('y', 2, 3, 'r0', 'acquire'), R('x', 'r1')],
    ])
    expect(allows(lock, 'a1.r0=2 a1.r1=1')).toBe(true)
    expect(allows(lock, 'a1.r0=2 a1.r1=0')).toBe(false)
  })

  it('treat a failing cas as a read with the acquire part of its order', () => {
    const failing = (order: RmwOrder): LitmusProgram =>
      program([
        [W('x', 1), W('y', 1, 'release')],
        [cas('y', 7, 8, 'r0', order), R('x', 'r1')],
      ])
    expect(allows(failing('acquire'), 'a1.r0=1 a1.r1=0')).toBe(false)
    expect(allows(failing('acqRel'), 'a1.r0=1 a1.r1=0')).toBe(false)
    expect(allows(failing('release'), 'a1.r0=1 a1.r1=0')).toBe(true)
    expect(allows(failing('acquire'), 'y=8')).toBe(false)
  })
})

describe('atomicity', () => {
  it('loses no increment, whatever the scopes', () => {
    for (const scope of ['block', 'system'] as const) {
      const { outcomes, scopeRace } = enumerate(
        program([[add('x', 1, 'r0', 'relaxed', scope)], [add('x', 1, 'r0', 'relaxed', scope)]]),
      )
      expect([...outcomes].sort()).toEqual(['a0.r0=0 a1.r0=1 ; x=2', 'a0.r0=1 a1.r0=0 ; x=2'])
      expect(scopeRace).toBe(scope === 'block')
    }
  })

  it('lets one cas win', () => {
    const { outcomes } = enumerate(
      program([[cas('x', 0, 1, 'r0', 'relaxed')], [cas('x', 0, 2, 'r0', 'relaxed')]]),
    )
    expect([...outcomes].sort()).toEqual(['a0.r0=0 a1.r0=1 ; x=1', 'a0.r0=2 a1.r0=0 ; x=2'])
  })

  it('puts no store between the halves of an RMW', () => {
    const { outcomes } = enumerate(program([[add('x', 1, 'r0', 'relaxed')], [W('x', 4)]]))
    expect([...outcomes].sort()).toEqual(['a0.r0=0 ; x=4', 'a0.r0=4 ; x=5'])
  })
})

describe('races', () => {
  it('need a write: a failing cas is only a read', () => {
    const { weakRace, scopeRace } = enumerate(
      program([[cas('x', 7, 8, 'r0', 'relaxed')], [R('x', 'r0', 'weak')]]),
    )
    expect([weakRace, scopeRace]).toEqual([false, false])
    expect(enumerate(program([[cas('x', 0, 8, 'r0', 'relaxed')], [R('x', 'r0', 'weak')]])).weakRace).toBe(
      true,
    )
  })

  it('do not involve the initial writes, nor two accesses of one agent', () => {
    const { weakRace, executions } = enumerate(program([[W('x', 1, 'weak'), R('x', 'r0', 'weak')], []]))
    expect([weakRace, executions]).toEqual([false, 1])
  })
})

describe('store buffering', () => {
  const both = 'a0.r0=0 a1.r0=0'
  const sb = (store: StoreOrder, fence: Op[], load: LoadOrder): LitmusProgram =>
    program([
      [W('x', 1, store), ...fence, R('y', 'r0', load)],
      [W('y', 1, store), ...fence, R('x', 'r0', load)],
    ])

  it('is excluded by seqCst fences only', () => {
    expect(allows(sb('relaxed', [], 'relaxed'), both)).toBe(true)
    expect(allows(sb('release', [], 'acquire'), both)).toBe(true)
    expect(allows(sb('release', [F('acqRel')], 'acquire'), both)).toBe(true)
    expect(allows(sb('relaxed', [F('seqCst')], 'relaxed'), both)).toBe(false)
    expect(allows(sb('weak', [F('seqCst')], 'weak'), both)).toBe(false)
    expect(allows(sb('relaxed', [F('seqCst', 'device')], 'relaxed'), both)).toBe(true)
  })

  it('needs the fence in both agents', () => {
    const oneSided = program([
      [W('x', 1), F('seqCst'), R('y', 'r0')],
      [W('y', 1), R('x', 'r0')],
    ])
    expect(allows(oneSided, both)).toBe(true)
  })
})

describe('three and four agents', () => {
  it('a relaxed relay between two seqCst fences fixes their order', () => {
    // The agent in the middle neither acquires nor releases. The order of the fences must nonetheless agree with program
    // order and reads-from, which puts the first before the last. C++20 leaves the order of the fences open in this program.
    const relay = (first: FenceOrder, last: FenceOrder): LitmusProgram =>
      program([
        [W('x', 1), F(first), W('y', 1)],
        [R('y', 'r0'), W('z', 1)],
        [R('z', 'r0'), F(last), R('x', 'r1')],
      ])
    const lost = 'a1.r0=1 a2.r0=1 a2.r1=0'
    expect(allows(relay('seqCst', 'seqCst'), lost)).toBe(false)
    expect(allows(relay('acqRel', 'acqRel'), lost)).toBe(true)
    expect(allows(relay('seqCst', 'acqRel'), lost)).toBe(true)
  })

  it('IRIW: only seqCst fences between the loads make the writes appear in one order', () => {
    const split = 'a2.r0=1 a2.r1=0 a3.r0=1 a3.r1=0'
    const iriw = (store: StoreOrder, load: LoadOrder, fence: Op[]): LitmusProgram =>
      program([
        [W('x', 1, store)],
        [W('y', 1, store)],
        [R('x', 'r0', load), ...fence, R('y', 'r1', load)],
        [R('y', 'r0', load), ...fence, R('x', 'r1', load)],
      ])
    expect(allows(iriw('relaxed', 'relaxed', []), split)).toBe(true)
    expect(allows(iriw('release', 'acquire', []), split)).toBe(true)
    expect(allows(iriw('release', 'acquire', [F('acqRel')]), split)).toBe(true)
    expect(allows(iriw('relaxed', 'relaxed', [F('seqCst')]), split)).toBe(false)
    expect(allows(iriw('relaxed', 'relaxed', [F('seqCst', 'device')]), split)).toBe(true)
    expect(enumerate(iriw('release', 'acquire', [])).outcomes.size).toBe(16)
    expect(enumerate(iriw('relaxed', 'relaxed', [F('seqCst')])).outcomes.size).toBe(15)
  })

  it('WRC: release and acquire are cumulative', () => {
    const lost = 'a1.r0=1 a2.r0=1 a2.r1=0'
    const wrc = (first: StoreOrder, seen: LoadOrder, store: StoreOrder, load: LoadOrder): LitmusProgram =>
      program([
        [W('x', 1, first)],
        [R('x', 'r0', seen), W('y', 1, store)],
        [R('y', 'r0', load), R('x', 'r1')],
      ])
    expect(allows(wrc('relaxed', 'relaxed', 'relaxed', 'relaxed'), lost)).toBe(true)
    expect(allows(wrc('release', 'acquire', 'release', 'acquire'), lost)).toBe(false)
    // Coherence orders the two loads of x, so the outcome is excluded without synchronisation on x.
    expect(allows(wrc('relaxed', 'relaxed', 'release', 'acquire'), lost)).toBe(false)
    expect(allows(wrc('release', 'acquire', 'relaxed', 'acquire'), lost)).toBe(true)
    expect(allows(wrc('release', 'acquire', 'release', 'relaxed'), lost)).toBe(true)
  })

  it('RWC: release and acquire do not suffice, seqCst fences do', () => {
    const weak = 'a1.r0=1 a1.r1=0 a2.r0=0'
    const rwc = (store: StoreOrder, load: LoadOrder, fence: Op[]): LitmusProgram =>
      program([
        [W('x', 1, store)],
        [R('x', 'r0', load), ...fence, R('y', 'r1', load)],
        [W('y', 1, store), ...fence, R('x', 'r0', load)],
      ])
    expect(allows(rwc('relaxed', 'relaxed', []), weak)).toBe(true)
    expect(allows(rwc('release', 'acquire', []), weak)).toBe(true)
    expect(allows(rwc('release', 'acquire', [F('acqRel')]), weak)).toBe(true)
    expect(allows(rwc('relaxed', 'relaxed', [F('seqCst')]), weak)).toBe(false)
  })

  it('ISA2: synchronisation composes across different scopes', () => {
    const places: Position[] = [...sameProgram(2), { rank: 1, program: 0, role: 'w0' }]
    const isa2 = (first: Scope, second: Scope): LitmusProgram =>
      program(
        [
          [W('x', 1), W('y', 1, 'release', first)],
          [R('y', 'r0', 'acquire', first), W('z', 1, 'release', second)],
          [R('z', 'r0', 'acquire', second), R('x', 'r1')],
        ],
        places,
      )
    const lost = 'a1.r0=1 a2.r0=1 a2.r1=0'
    expect(allows(isa2('block', 'system'), lost)).toBe(false)
    expect(allows(isa2('block', 'device'), lost)).toBe(true)
  })
})

describe('shapes that end in a coherence order', () => {
  it('2+2W: only seqCst fences exclude that both first stores come last', () => {
    const weak = 'x=1 y=1'
    const shape = (order: StoreOrder, fence: Op[]): LitmusProgram =>
      program([
        [W('x', 1, order), ...fence, W('y', 2, order)],
        [W('y', 1, order), ...fence, W('x', 2, order)],
      ])
    expect(allows(shape('relaxed', []), weak)).toBe(true)
    expect(allows(shape('release', []), weak)).toBe(true)
    expect(allows(shape('relaxed', [F('release')]), weak)).toBe(true)
    expect(allows(shape('relaxed', [F('acqRel')]), weak)).toBe(true)
    expect(allows(shape('relaxed', [F('seqCst')]), weak)).toBe(false)
  })

  it('S: release and acquire suffice', () => {
    const weak = 'a1.r0=1 x=2'
    const shape = (store: StoreOrder, load: LoadOrder): LitmusProgram =>
      program([
        [W('x', 2), W('y', 1, store)],
        [R('y', 'r0', load), W('x', 1)],
      ])
    expect(allows(shape('relaxed', 'relaxed'), weak)).toBe(true)
    expect(allows(shape('release', 'acquire'), weak)).toBe(false)
    expect(allows(shape('release', 'relaxed'), weak)).toBe(true)
    expect(allows(shape('relaxed', 'acquire'), weak)).toBe(true)
  })

  it('R: release and acquire do not suffice, seqCst fences do', () => {
    const weak = 'a1.r0=0 y=2'
    const shape = (store: StoreOrder, load: LoadOrder, fence: Op[]): LitmusProgram =>
      program([
        [W('x', 1, store), ...fence, W('y', 1, store)],
        [W('y', 2, store), ...fence, R('x', 'r0', load)],
      ])
    expect(allows(shape('relaxed', 'relaxed', []), weak)).toBe(true)
    expect(allows(shape('release', 'acquire', []), weak)).toBe(true)
    expect(allows(shape('release', 'acquire', [F('acqRel')]), weak)).toBe(true)
    expect(allows(shape('relaxed', 'relaxed', [F('seqCst')]), weak)).toBe(false)
  })
})

describe('coherence of one location', () => {
  // Coherence also holds for weak accesses and for scopes that do not include each other's agents.
  const kinds: [StoreOrder & LoadOrder, Scope][] = [
    ['weak', 'system'],
    ['relaxed', 'system'],
    ['relaxed', 'block'],
  ]

  it.each(kinds)('%s at %s scope', (order, scope) => {
    const w = (value: number): Op => W('x', value, order, scope)
    const r = (into: string): Op => R('x', into, order, scope)
    const corr = program([[w(1)], [r('r0'), r('r1')]])
    expect(allows(corr, 'a1.r0=0 a1.r1=1')).toBe(true)
    expect(allows(corr, 'a1.r0=1 a1.r1=0')).toBe(false)

    const corr2 = program([[w(1)], [w(2)], [r('r0'), r('r1')], [r('r0'), r('r1')]])
    expect(allows(corr2, 'a2.r0=1 a2.r1=2 a3.r0=1 a3.r1=2')).toBe(true)
    expect(allows(corr2, 'a2.r0=1 a2.r1=2 a3.r0=2 a3.r1=1')).toBe(false)

    const cowr = program([[w(1), r('r0')], [w(2)]])
    expect([...enumerate(cowr).outcomes].sort()).toEqual(['a0.r0=1 ; x=1', 'a0.r0=1 ; x=2', 'a0.r0=2 ; x=2'])

    const corw = program([[r('r0'), w(1)], [w(2)]])
    expect([...enumerate(corw).outcomes].sort()).toEqual(['a0.r0=0 ; x=1', 'a0.r0=0 ; x=2', 'a0.r0=2 ; x=1'])

    const coww = program([[w(1), w(2)], [w(3)]])
    expect([...enumerate(coww).outcomes].sort()).toEqual(['; x=2', '; x=3'])
  })
})

describe('load buffering', () => {
  it('never happens', () => {
    expect(loadBuffering.length).toBeGreaterThan(0)
    for (const { program: some } of loadBuffering) {
      expect(allows(some, loadBufferingExcluded), some.name).toBe(false)
      expect(allows(some, 'a0.r0=0 a1.r0=0'), some.name).toBe(true)
    }
  })
})
