import { describe, expect, it } from 'vitest'
import { flags, i32, kernel, tensor, type Kernel } from '../../../index.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, usualWorld } from '../facts.ts'
import { decide, type Decisions } from './decide.ts'
import { describeDecisions } from './describe.ts'
import { renderCuda } from './emit.ts'

function decided(one: Kernel): { readonly plans: Decisions; readonly text: string } {
  const recorded = one.record({ world: 2 })
  const facts = specialise(usualWorld, shapesOf(recorded))
  const last = atStage(recorded, LAST_STAGE, facts)
  return { plans: decide(last, facts), text: renderCuda(last, facts).source }
}

const params = { x: tensor(i32, 1), looked: flags(), awaited: flags(1), told: flags() }

describe('the start of a program', () => {
  const all = kernel('all', params, (t, { x, looked, awaited, told }) => {
    t.store(x.at([0]), t.epoch(looked).to('i32'))
    t.wait(awaited.at([t.rank]))
    t.signal(told)
  })

  it('reads the epochs that ops use, and advances the epochs of the flags that ops signal or wait for', () => {
    const { plans, text } = decided(all as unknown as Kernel)
    expect(plans.start.epochs).toEqual([
      { flags: 'looked', side: 'signal' },
      { flags: 'awaited', side: 'wait' },
      { flags: 'told', side: 'signal' },
    ])
    expect(plans.start.advanced).toEqual([
      { flags: 'told', side: 'signal' },
      { flags: 'awaited', side: 'wait' },
    ])
    expect(text.match(/\w+_epochs\[\d\] = \w+;/g)).toEqual([
      'told_epochs[0] = told_signal_epoch;',
      'awaited_epochs[1] = awaited_wait_epoch;',
    ])
  })

  it('reads the abort word if a program may wait, and reports the line of the wait', () => {
    const { plans, text } = decided(all as unknown as Kernel)
    expect(plans.start.waitLines).toEqual([expect.stringMatching(/start\.test\.ts:\d+$/)])
    expect(text).toContain('is_stopped')
    const quiet = kernel('quiet', params, (t, { x, told }) => {
      t.store(x.at([0]), 1)
      t.signal(told)
    })
    const other = decided(quiet as unknown as Kernel)
    expect(other.plans.start.waitLines).toEqual([])
    expect(other.text).not.toContain('is_stopped')
  })

  it('is printed with the decisions', () => {
    const text = describeDecisions(decided(all as unknown as Kernel).plans)
    expect(text).toContain('reads the epochs of flags: looked (signal), awaited (wait), told (signal)')
    expect(text).toMatch(/advances the epochs of flags: told \(signal\), awaited \(wait\)/)
    expect(text).toMatch(
      /programs read the abort word when they start; they report waits at \S*start\.test\.ts:\d+/,
    )
  })
})

describe('programmatic dependent launch', () => {
  const looping = (isOpenEnded: boolean): Kernel =>
    kernel('looping', params, (t, { x }) => {
      if (isOpenEnded)
        t.while(
          t.constant(i32, 0),
          (n) => n.lt(t.load(x.at([0]))),
          (n) => n.add(1),
        )
      else t.for(x.dim(0), (i) => t.store(x.at([i]), 1))
    }) as unknown as Kernel

  it.each([false, true])(
    'lets the next launch start early unless a loop may poll memory for any length of time (it may: %s)',
    (isOpenEnded) => {
      const { plans, text } = decided(looping(isOpenEnded))
      expect(plans.isOpenEnded).toBe(isOpenEnded)
      expect(text.includes('next_kernel_may_start();')).toBe(!isOpenEnded)
      expect(plans.loops.polling.size).toBe(1)
    },
  )
})
