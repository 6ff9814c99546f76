/**
 * A world on which some ranks run ahead of others. The launches of a host program are passed to one rank at a time, in
 * a random order and with random pauses, so that some ranks are several launches ahead of others. Every rank still gets
 * its launches in order.
 */
import type { Kernel } from '../../src/lang/kernel.ts'
import type { LaunchOptions, World } from '../../src/world/world.ts'
import { randomNumbers } from '../targets/differential/choices.ts'

/**
 * The largest number of launches that a rank gets before another rank gets one. The number of launches is well below
 * the capacity of a queue.
 */
const mostAhead = 12

export function outOfStep(world: World, seed: number): World {
  const next = randomNumbers(seed)
  const below = (count: number): number => Math.floor(next() * count)
  let waiting: ((rank: number) => void)[] = []
  const preparing: (() => Promise<void>)[] = []

  async function handOut(): Promise<void> {
    const launches = waiting
    waiting = []
    // On a GPU a kernel may not be loaded while another kernel waits for a rank that is behind.
    for (const prepare of preparing.splice(0)) await prepare()
    const handed = new Array<number>(world.ranks).fill(0)
    for (;;) {
      const least = Math.min(...handed)
      if (least === launches.length) return
      const ready = handed.flatMap((count, rank) =>
        count < Math.min(launches.length, least + mostAhead) ? [rank] : [],
      )
      const rank = ready[below(ready.length)]
      for (let burst = 1 + below(6); burst > 0 && handed[rank] < launches.length; burst--)
        launches[handed[rank]++](rank)
      if (below(4) === 0) await new Promise((resolve) => setTimeout(resolve, below(3)))
    }
  }

  const launch = (kernel: Kernel, args: never, options: LaunchOptions): void => {
    waiting.push((rank) => world.launch(kernel, args, { ...options, ranks: [rank] }))
    if (world.target === 'cuda') preparing.push(() => world.prepare(kernel, { meta: options.meta, args }))
  }
  return new Proxy(world, {
    get(_, name) {
      if (name === 'launch') return launch
      const member: unknown = Reflect.get(world, name, world)
      if (typeof member !== 'function') return member
      const bound = member.bind(world) as (...given: unknown[]) => unknown
      if (name === 'read' || name === 'barrier' || name === 'synchronize' || name === 'pack')
        return async (...given: unknown[]) => {
          await handOut()
          return bound(...given)
        }
      return bound
    },
  })
}
