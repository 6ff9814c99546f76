/**
 * The ops at the start of a program in the last stage for a GPU. The ops for epochs and for the order of launches have
 * no effect, because the machine of the checker itself reads the epochs at the start of a launch, advances the epochs
 * at its end, and orders the launches of a stream. Barriers can be used only after one thread has initialised them and
 * the threads have synchronised.
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

/** In the checker, a launch is never aborted while it starts. */
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
