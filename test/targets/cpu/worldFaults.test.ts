/** Tests what aborts a world of CPU ranks, what the error says, and how the world continues after a reset. */
import { flags, i32, kernel, tensor, WorldError } from 'arke'
import { describe, expect, it } from 'vitest'
import { WorldStopped, type World } from '../../../src/world/world.ts'
import { nodeThreads } from '../../../src/targets/cpu/node.ts'
import type { Thread } from '../../../src/targets/cpu/threads.ts'
import { body, handmade, openHandmade } from './handmade.ts'
import { interrupted } from './interruptedProcess.ts'
import { stopOf } from './stopOf.ts'
import { long } from '../../long.ts'

const stuck = kernel('stuck', { ready: flags(2) }, (t, { ready }) => {
  t.wait(ready.on(0).at([0, 0]))
})
/** The recorded wait of the kernel is node 3, after the nodes for `ready`, for rank 0 and for the flag. */
const waitFor = (rank: string): string => `
  if (t.rank !== ${rank}) return
  t.note('site', 3); t.note('param', 0); t.note('owner', 0); t.note('index', 5); t.note('wanted', 1); t.note('value', 0)
  t.note('wait', 1)
  while (!t.aborted()) t.sleep(1)
  return -1`
body(stuck, waitFor('t.rank'))

const endless = kernel('endless', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
body(endless, "t.note('wait', 2); while (!t.aborted()) ; return -1")

const deaf = kernel('deaf', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
body(deaf, 'if (t.rank === 1) for (;;) ;')

const throwing = kernel('throwing', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
body(
  throwing,
  "if (t.rank === 1) throw new Error('no such entry'); while (!t.aborted()) t.sleep(1); return -1",
)

const dividing = kernel('dividing', { x: tensor(i32, 1) }, (t, { x }) => {
  t.store(x.at([0]), t.load(x.at([0])).div(0))
})
body(
  dividing,
  `if (t.rank === 1) { t.note('fault', 1); t.note('site', 0); Atomics.compareExchange(t.words, t.control.abort >>> 2, 0, 2); return -1 }
   while (!t.aborted()) t.sleep(1); return -1`,
)

const fill = kernel('fill', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
body(fill, 't.words[t.pointer(0, t.rank) >>> 2] = t.rank + 1')

/** Checks that the world works again after a reset, on all ranks. */
async function expectUsable(world: World): Promise<void> {
  await world.reset()
  const x = world.zeros(i32, [1])
  for (let n = 0; n < 3; n++) world.launch(fill, { x }, { grid: 1 })
  for (const rank of world.localRanks) expect([...(await world.read(x, rank))]).toEqual([rank + 1])
  await world.close()
}

describe('the watchdog', () => {
  it('reports the waiting rank, its source line, the flag and the value waited for', async () => {
    const world = openHandmade({ ranks: 3, timeout: 200 })
    const ready = world.flags([2, 4], { name: 'ready' })
    world.launch(stuck, { ready }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.reason).toBe('no launch has ended for 200 ms while launches were pending')
    expect(stop.workers.map(({ rank, kernel, program, flag }) => ({ rank, kernel, program, flag }))).toEqual(
      [0, 1, 2].map((rank) => ({
        rank,
        kernel: 'stuck',
        program: 0,
        flag: { name: 'ready[1, 1]', rank: 0, value: 0, wanted: 1 },
      })),
    )
    expect(stop.message).toMatch(
      /worldFaults\.test\.ts:\d+:\d+ {2}rank 1, program 0 of stuck waits for ready\[1, 1\] on rank 0: it is 0, 1 is wanted/,
    )
    await expectUsable(world)
  })

  it('makes every call throw the same error until the world is reset', async () => {
    const world = openHandmade({ ranks: 2, timeout: 100 })
    const [x, ready] = [world.zeros(i32, [1]), world.flags([1, 1])]
    world.launch(stuck, { ready }, { grid: 1 })
    await stopOf(world.read(x, 0))
    await stopOf(world.barrier())
    expect(() => world.launch(fill, { x }, { grid: 1 })).toThrow(WorldStopped)
    await expectUsable(world)
  })

  it('ends loops that only poll the abort word', async () => {
    const world = openHandmade({ ranks: 2, timeout: 100 })
    world.launch(endless, { x: world.zeros(i32, [1]) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.workers.map(({ rank, what }) => [rank, what])).toEqual([
      [0, 'is in a loop that has not ended'],
      [1, 'is in a loop that has not ended'],
    ])
    await expectUsable(world)
  })

  it('ends and replaces a worker that does not stop', async () => {
    const world = openHandmade({ ranks: 2, timeout: 100 })
    world.launch(deaf, { x: world.zeros(i32, [1]) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.workers.map(({ rank, what }) => [rank, what])).toEqual([[1, 'was computing']])
    await expectUsable(world)
  })

  it('does not fire during long work as long as launches end', async () => {
    const nap = kernel('nap', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
    body(nap, 't.sleep(60)')
    const world = openHandmade({ ranks: 1, timeout: 400 })
    const x = world.zeros(i32, [1])
    for (let n = 0; n < 12; n++) world.launch(nap, { x }, { grid: 1 })
    await world.synchronize()
    await world.close()
  })

  it('fires while the host waits for room in a queue', async () => {
    const world = openHandmade({ ranks: 1, timeout: 100 })
    const ready = world.flags([1, 1])
    expect(() => {
      for (let n = 0; n < 100; n++) world.launch(stuck, { ready }, { grid: 1 })
    }).toThrow(WorldError)
    await stopOf(world.synchronize())
    await expectUsable(world)
  })
})

describe('a fault', () => {
  it('of a kernel stops all ranks and names the line', async () => {
    const world = openHandmade({ ranks: 2 })
    world.launch(dividing, { x: world.zeros(i32, [1]) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.reason).toBe('a kernel raised a fault')
    expect(stop.workers[0]).toMatchObject({ rank: 1, kernel: 'dividing', what: 'divides by zero' })
    expect(stop.workers[0].site).toMatch(/worldFaults\.test\.ts:\d+:\d+/)
    await expectUsable(world)
  })

  it('of a worker says what it threw', async () => {
    const world = openHandmade({ ranks: 2 })
    world.launch(throwing, { x: world.zeros(i32, [1]) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.reason).toBe('a worker of rank 1 failed: Error: no such entry')
    expect(stop.workers[0]).toMatchObject({ rank: 1, what: 'failed: Error: no such entry' })
    await expectUsable(world)
  })

  it('is raised if a worker cannot load an executable', async () => {
    const loader = { ...handmade.loader, name: 'nothingOfThatName' }
    const world = openHandmade({ ranks: 1 }, { ...handmade, loader })
    world.launch(fill, { x: world.zeros(i32, [1]) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.reason).toMatch(/a worker of rank 0 failed: TypeError/)
    await world.close()
  })
})

describe('a worker that dies', () => {
  it('stops the world, and is replaced by a reset', async () => {
    // After a thread has died, the world uses new threads, and no threads that other worlds used.
    const started: Thread[] = []
    const start = (): Thread => {
      const thread = nodeThreads.start()
      started.push(thread)
      return thread
    }
    const world = openHandmade({ ranks: 2 }, { ...handmade, threads: { ...nodeThreads, start } })
    const x = world.zeros(i32, [1])
    world.launch(fill, { x }, { grid: 1 })
    await world.synchronize()
    world.launch(endless, { x }, { grid: 1 })
    const waiting = stopOf(world.synchronize())
    // The thread is terminated from outside, without the world's knowledge.
    await (started[1] as unknown as { worker(): { terminate(): Promise<number> } }).worker().terminate()
    expect((await waiting).reason).toMatch(/a worker of rank \d died: it ended with code 1/)
    await expectUsable(world)
  })
})

describe('closing a world that has stopped', () => {
  it('throws the reason if no call has thrown it yet', async () => {
    const world = openHandmade({ ranks: 2, timeout: 100 })
    world.launch(stuck, { ready: world.flags([1, 1]) }, { grid: 1 })
    await stopOf(world.close())
    await world.close()
  })

  it('does not throw otherwise', async () => {
    const world = openHandmade({ ranks: 2, timeout: 100 })
    world.launch(stuck, { ready: world.flags([1, 1]) }, { grid: 1 })
    await stopOf(world.synchronize())
    await world.close()
  })
})

describe('an interrupt', () => {
  it('ends the process as it would without a world', async () => {
    expect(await interrupted('interrupted.ts', 'plain')).toEqual({
      code: null,
      signal: 'SIGINT',
      output: 'launched\n',
    })
  })

  it('is left to the program if the program listens for it, too', long, async () => {
    expect(await interrupted('interrupted.ts', 'listening')).toEqual({
      code: 3,
      signal: null,
      output: 'launched\nthe world has stopped: interrupted\n',
    })
  })
})
