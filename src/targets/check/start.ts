/**
 * The ops at the start of a program in the last stage for a GPU. The machine of the checker reads epochs when a launch
 * starts, advances them when it ends, and orders the launches of a stream, so the ops for these have no effect. Barriers
 * can be used only after one thread has initialised them and the threads have synchronised.
 */
import type { ArrivalBarrier } from './barrier.ts'
import type { Maker } from './code.ts'

export const ordered: Maker = (node) => ({ node, sync: false, run: () => undefined })

export const barriers: Maker = (node, _, inputs) => ({
  node,
  sync: false,
  run({ registers }) {
    for (const register of inputs)
      for (const barrier of registers[register] as ArrivalBarrier[]) barrier.state = 'initialised'
  },
})

/** Launches of the checker are not aborted while they start. */
export const aborted: Maker = (node, out) => ({
  node,
  sync: false,
  run: ({ registers }) => void (registers[out] = 0),
})

export const meet: Maker = (node) => ({
  node,
  sync: false,
  run({ instance }) {
    for (const barrier of instance.barriers.flat())
      if (barrier.state === 'initialised') barrier.state = 'ready'
  },
})
