/** Tests warnings by class and kind: no warning is repeated, none is lost, and the list is bounded. */
import { describe, expect, it } from 'vitest'
import { Warnings } from '../../src/timeline/warnings.ts'

describe('warnings', () => {
  it('of one kind keep the first message and a count', () => {
    const warnings = new Warnings()
    warnings.add('time', () => 'event a has no time')
    warnings.add('time', () => 'event b has no time', 4)
    expect(warnings.list()).toEqual([{ class: 'time', message: 'event a has no time', count: 5 }])
  })

  it('of one kind format their message only once', () => {
    const warnings = new Warnings()
    let called = 0
    for (let i = 0; i < 100; i++) warnings.add('garbage', () => `text ${++called}`)
    expect(called).toBe(1)
  })

  it('of two kinds of one class are both listed, each with its count', () => {
    const warnings = new Warnings()
    warnings.add('steps', () => 'rank 1 has no step 3', 1, 'absent')
    warnings.add('clock', () => 'clocks disagree')
    warnings.add('steps', () => 'ranks 0 and 1 differ', 1, 'different')
    warnings.add('steps', () => 'rank 2 has no step 3', 1, 'absent')
    expect(warnings.list()).toEqual([
      { class: 'steps', message: 'rank 1 has no step 3', count: 2 },
      { class: 'steps', message: 'ranks 0 and 1 differ', count: 1 },
      { class: 'clock', message: 'clocks disagree', count: 1 },
    ])
  })

  it('beyond the eighth kind of a class are counted with the eighth', () => {
    const warnings = new Warnings()
    for (let kind = 0; kind < 20; kind++) warnings.add('garbage', () => `kind ${kind}`, 2, `${kind}`)
    warnings.add('garbage', () => 'kind 3', 1, '3')
    expect(warnings.list().map(({ message, count }) => [message, count])).toEqual(
      Array.from({ length: 8 }, (_, kind) => [`kind ${kind}`, kind === 7 ? 26 : kind === 3 ? 3 : 2]),
    )
  })
})
