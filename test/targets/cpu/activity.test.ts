/**
 * Tests how the host finds out, from the state that workers keep in shared memory, whether all running programs wait or
 * one of them computes.
 */
import { expect, it } from 'vitest'
import { awaitQueue, slot as slotOf, waitKind, workerState } from '../../../src/targets/cpu/abi.ts'
import { activityOf } from '../../../src/targets/cpu/faults.ts'
import type { Queue, Worker } from '../../../src/targets/cpu/queue.ts'

interface Slot {
  readonly state: keyof typeof workerState
  readonly wait?: keyof typeof waitKind
  readonly executable?: number
}

const waits: Slot = { state: 'running', wait: 'flag' }
const computes: Slot = { state: 'running' }
const polls: Slot = { state: 'running', wait: 'loop' }
const idles: Slot = { state: 'idle' }

/** The activity of workers whose states are given: each list is one queue with a pending launch. */
function activity(...queues: readonly (readonly Slot[])[]): string {
  const stride = 256
  const words = new Int32Array((queues.flat().length * stride) / 4)
  let slot = -stride
  const workers = queues.flatMap((slots) => {
    const queue = { isIdle: false } as Queue
    return slots.map(({ state, wait = 'none', executable = 1 }) => {
      slot += stride
      words[(slot + slotOf.state) / 4] = workerState[state]
      words[(slot + slotOf.wait) / 4] = waitKind[wait]
      words[(slot + slotOf.executable) / 4] = executable
      return { queue, slot } as Worker
    })
  })
  return activityOf(words, workers)
}

it('is waiting if every running program waits for a flag', () => {
  expect(activity([waits], [waits])).toBe('waiting')
  expect(activity([waits, idles], [idles, waits])).toBe('waiting')
})

it('is computing if a program computes', () => {
  expect(activity([waits], [computes])).toBe('computing')
  expect(activity([waits, computes], [waits])).toBe('computing')
})

it('is computing while a rank has not started its launch', () => {
  expect(activity([waits], [idles])).toBe('computing')
  expect(activity([waits], [{ state: 'starting' }, idles])).toBe('computing')
})

it('is unknown if a program is in a loop that may poll', () => {
  expect(activity([waits], [polls])).toBe('unknown')
})

it('does not count the wait of a queue for another queue', () => {
  const follows: Slot = { state: 'running', executable: awaitQueue }
  expect(activity([waits], [follows])).toBe('waiting')
  expect(activity([follows], [computes])).toBe('computing')
})
