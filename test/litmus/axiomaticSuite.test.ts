/**
 * The axioms on the generated family of programs: the outcomes that each variant excludes, the effect of scopes, and
 * that every interleaving is allowed.
 */
import { describe, expect, it } from 'vitest'
import { enumerate } from './axiomatic.ts'
import type { LitmusCase } from './cross.ts'
import { contains, outcomeKey, type LitmusProgram } from './program.ts'
import { randomPrograms } from './randomPrograms.ts'
import { awaitSuite, litmusSuite, loadBuffering } from './suite.ts'

/**
 * The weak outcome of each litmus shape, and the variants that exclude it if all scopes include each other's agents.
 */
const excluded: Record<string, { weak: string; by: string[] }> = {
  MP: { weak: 'a1.r0=1 a1.r1=0', by: ['relAcq', 'fences', 'seqCst', 'relFenceAcq', 'relAcqFence'] },
  SB: { weak: 'a0.r0=0 a1.r0=0', by: ['seqCst'] },
  S: { weak: 'a1.r0=1 x=2', by: ['relAcq', 'fences', 'seqCst', 'relFenceAcq', 'relAcqFence'] },
  R: { weak: 'a1.r0=0 y=2', by: ['seqCst'] },
  '2+2W': { weak: 'x=1 y=1', by: ['seqCst'] },
  WRC: { weak: 'a1.r0=1 a2.r0=1 a2.r1=0', by: ['relAcq', 'fences', 'seqCst', 'relFenceAcq', 'relAcqFence'] },
  RWC: { weak: 'a1.r0=1 a1.r1=0 a2.r0=0', by: ['seqCst'] },
  ISA2: { weak: 'a1.r0=1 a2.r0=1 a2.r1=0', by: ['relAcq', 'fences', 'seqCst', 'relFenceAcq', 'relAcqFence'] },
  IRIW: { weak: 'a2.r0=1 a2.r1=0 a3.r0=1 a3.r1=0', by: ['seqCst'] },
  'MP-add': {
    weak: 'a1.r0=1 a2.r0=3 a2.r1=0',
    by: ['relAcq', 'fences', 'seqCst', 'relFenceAcq', 'relAcqFence'],
  },
  // In `relAcq` and in the variants with fences, the middle agent's store also releases what this agent has acquired.
  'MP-store': { weak: 'a1.r0=1 a2.r0=3 a2.r1=0', by: ['relAcq', 'fences', 'seqCst'] },
  'MP-xchg': { weak: 'a0.r0=0 a1.r0=1 a1.r1=0', by: ['relAcq', 'fences', 'seqCst'] },
  'MP-cas': { weak: 'a0.r0=0 a1.r0=2 a1.r1=0', by: ['relAcq', 'fences', 'seqCst'] },
  'SB-xchg': { weak: 'a0.r1=0 a1.r1=0', by: ['seqCst'] },
}

/**
 * The outcomes of interleaving the agents step by step on one memory. Every outcome of interleaving the agents must be
 * consistent.
 */
function interleavings(some: LitmusProgram): Set<string> {
  const found = new Set<string>()
  const step = (
    counters: readonly number[],
    memory: ReadonlyMap<string, number>,
    registers: number[][],
  ): void => {
    let finished = true
    some.agents.forEach((agent, index) => {
      const op = agent.code[counters[index] ?? 0]
      if (op === undefined) return
      finished = false
      const next = counters.map((counter, other) => (other === index ? counter + 1 : counter))
      if (op.kind === 'fence') {
        step(next, memory, registers)
        return
      }
      const old = memory.get(op.loc) ?? 0
      if (op.kind !== 'store' && op.await !== undefined && op.await !== old) return
      const loaded =
        op.kind === 'store'
          ? registers
          : registers.map((values, other) => (other === index ? [...values, old] : values))
      const after = new Map(memory)
      if (op.kind === 'store') after.set(op.loc, op.value)
      else if (op.kind === 'rmw' && op.op === 'add') after.set(op.loc, old + op.value)
      else if (op.kind === 'rmw' && (op.op === 'xchg' || op.expected === old)) after.set(op.loc, op.value)
      step(next, after, loaded)
    })
    if (finished) {
      found.add(
        outcomeKey(
          registers,
          some.locations.map((loc) => memory.get(loc) ?? 0),
        ),
      )
    }
  }
  step(
    some.agents.map(() => 0),
    new Map(),
    some.agents.map(() => []),
  )
  return found
}

const sorted = (outcomes: Iterable<string>): string[] => [...outcomes].sort()
const results = new Map<string, ReturnType<typeof enumerate>>()
function resultOf(item: LitmusCase): ReturnType<typeof enumerate> {
  const known = results.get(item.program.name) ?? enumerate(item.program)
  results.set(item.program.name, known)
  return known
}
function find(shape: string, variant: string, layout: string): LitmusCase | undefined {
  return litmusSuite.find(
    (item) => item.shape === shape && item.variant === variant && item.layout === layout,
  )
}

describe('the suite', () => {
  it('has unique names', () => {
    const all = [...litmusSuite, ...awaitSuite, ...loadBuffering]
    expect(new Set(all.map((item) => item.program.name)).size).toBe(all.length)
  })

  it.each(Object.keys(excluded))('%s has its weak outcome exactly if no rule excludes it', (shape) => {
    const { weak, by } = excluded[shape] as { weak: string; by: string[] }
    const members = litmusSuite.filter((item) => item.shape === shape && item.covering)
    expect(members.length).toBeGreaterThan(0)
    for (const item of members) {
      const base = item.variant.replace('-weakData', '')
      // The shape WRC synchronises on y even if its accesses to x are weak, so weak data accesses change nothing.
      expect(contains(resultOf(item).outcomes, weak), item.program.name).toBe(!by.includes(base))
    }
  })

  it('depends only on whether scopes cover each other, not on which scopes they are', () => {
    for (const item of litmusSuite.filter((some) => some.layout === 'ranks.system')) {
      for (const layout of ['rank.device', 'program.block']) {
        const other = find(item.shape, item.variant, layout)
        expect(other, item.program.name).toBeDefined()
        if (other === undefined) continue
        expect(sorted(resultOf(other).outcomes), other.program.name).toEqual(sorted(resultOf(item).outcomes))
        expect(resultOf(other).executions).toBe(resultOf(item).executions)
        expect(sorted(resultOf(other).raceFreeOutcomes)).toEqual(sorted(resultOf(item).raceFreeOutcomes))
      }
    }
  })

  it('has the relaxed outcomes, and races, if no scope covers the other agents', () => {
    for (const item of litmusSuite.filter((some) => ['ranks.device', 'rank.block'].includes(some.layout))) {
      const relaxed = find(item.shape, 'relaxed', 'ranks.system')
      expect(relaxed).toBeDefined()
      if (relaxed === undefined) continue
      expect(sorted(resultOf(item).outcomes), item.program.name).toEqual(sorted(resultOf(relaxed).outcomes))
      expect(resultOf(item).weakRace || resultOf(item).scopeRace, item.program.name).toBe(true)
    }
  })

  it('reports a scope race only without coverage, and a weak race only with weak accesses', () => {
    for (const item of [...litmusSuite, ...awaitSuite]) {
      const result = resultOf(item)
      if (item.covering) expect(result.scopeRace, item.program.name).toBe(false)
      const weak = item.program.agents.some((agent) =>
        agent.code.some((op) => op.kind !== 'fence' && op.order === 'weak'),
      )
      if (!weak) expect(result.weakRace, item.program.name).toBe(false)
    }
  })

  it('accepts every interleaving', () => {
    for (const { program: some } of [...litmusSuite, ...awaitSuite, ...loadBuffering]) {
      const { outcomes } = enumerate(some)
      for (const outcome of interleavings(some))
        expect(outcomes.has(outcome), `${some.name}: ${outcome}`).toBe(true)
    }
  })

  it('is sequentially consistent with a covering seqCst fence between any two accesses', () => {
    for (const item of litmusSuite.filter((some) => some.covering && some.variant === 'seqCst')) {
      expect(sorted(resultOf(item).outcomes), item.program.name).toEqual(sorted(interleavings(item.program)))
    }
  })

  it('is free of races if waiting for a flag synchronises', () => {
    for (const item of awaitSuite) {
      const result = resultOf(item)
      const good = item.covering && /^(relAcq|fences|seqCst)-/.test(item.variant)
      expect(!result.weakRace && !result.scopeRace, item.program.name).toBe(good)
      // In a program without races, weak accesses have the outcomes of an interleaving of the agents.
      if (good)
        expect(sorted(result.outcomes), item.program.name).toEqual(sorted(interleavings(item.program)))
    }
  })
})

describe('random programs', () => {
  it('accept every interleaving, and are the same for the same seed', () => {
    const programs = randomPrograms(300, 1)
    expect(randomPrograms(300, 1)).toEqual(programs)
    for (const some of programs) {
      const { outcomes } = enumerate(some)
      for (const outcome of interleavings(some))
        expect(outcomes.has(outcome), `${some.name}: ${outcome}`).toBe(true)
    }
  })
})
