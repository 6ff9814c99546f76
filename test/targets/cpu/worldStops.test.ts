/** Tests what aborts kernels on the real CPU targets, what the error says, and how the world continues after a reset. */
import type { Worker } from 'node:worker_threads'
import { flags, i32, kernel, openWorld, tensor, type OpenOptions, type Stall, type World } from 'arke'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { nodeThreads } from '../../../src/targets/cpu/node.ts'
import { poolOf } from '../../../src/targets/cpu/pool.ts'
import { nativeEngine } from '../../../src/targets/native/node.ts'
import { interrupted, signalled, type Outcome } from './interruptedProcess.ts'
import { stopOf } from './stopOf.ts'
import { long } from '../../long.ts'

const native = nativeEngine()
if ('unavailable' in native) console.warn(`skipped on native: ${native.unavailable}`)
const targets = 'unavailable' in native ? ['wasm'] : ['wasm', 'native']

const open = (
  target: string,
  options: Omit<OpenOptions, 'ranks'> & { ranks?: number } = {},
): Promise<World> => openWorld({ target, ranks: 2, workers: 1, heap: 1 << 20, ...options })

const waiting = kernel('waiting', { ready: flags(2) }, (t, { ready }) => {
  t.wait(ready.on(0).at([1, 2]))
})

/** In this kernel, rank 1 signals once, but rank 0 waits for two arrivals. */
const oneShort = kernel('oneShort', { ready: flags(0, { arrivals: 2 }) }, (t, { ready }) => {
  t.if(t.rank.eq(1), () => t.signal(ready.on(0)))
  t.if(t.rank.eq(0), () => t.wait(ready))
})

const forRank0 = kernel('forRank0', { ready: flags() }, (t, { ready }) => {
  t.if(t.rank.eq(9), () => t.signal(ready.on(0)))
})
const waits = kernel('waits', { ready: flags() }, (t, { ready }) => t.wait(ready))
const waitsFirst = kernel('waitsFirst', { ready: flags() }, (t, { ready }) => {
  t.wait(ready)
  t.signalAll(ready)
})

/** Rank 1 counts for a while; rank 0 waits for rank 1. */
const computing = kernel('computing', { x: tensor(i32, 1), ready: flags() }, (t, { x, ready }) => {
  t.if(
    t.rank.eq(1),
    () => {
      const rounds = t.load(x.at([0]))
      t.for(rounds, () =>
        t.for(rounds, () => {
          t.atomic.add(x.at([1]), 1)
        }),
      )
      t.signalAll(ready)
    },
    () => t.wait(ready),
  )
})

/** A kernel that polls a word on its own rank that no agent writes. */
const polling = kernel('polling', { x: tensor(i32, 1) }, (t, { x }) => {
  t.while(
    t.load(x.at([0]), { order: 'acquire' }),
    (seen) => seen.eq(0),
    () => t.load(x.at([0]), { order: 'acquire' }),
  )
})

/** In this kernel, rank 1 divides by the contents of `x`. The other ranks wait for rank 1. */
const dividing = kernel('dividing', { x: tensor(i32, 1), done: flags() }, (t, { x, done }) => {
  t.if(
    t.rank.eq(1),
    () => {
      t.store(x.at([0]), t.constant(i32, 7).div(t.load(x.at([0]))))
      t.signalAll(done)
    },
    () => t.wait(done),
  )
})

/** A kernel with a long loop without waits, whose trip count is not static. */
const counting = kernel('counting', { x: tensor(i32, 1) }, (t, { x }) => {
  const rounds = t.load(x.at([0]))
  t.for(rounds, () =>
    t.for(rounds, () => {
      t.atomic.add(x.at([1]), 1)
    }),
  )
})

const meeting = kernel('meeting', { arrived: flags(1), x: tensor(i32, 1) }, (t, { arrived, x }) => {
  t.signalAll(arrived.at([t.rank]))
  t.for(t.world, (source) => t.wait(arrived.at([source])))
  t.store(x.at([0]), t.rank.add(1))
})

/** Checks that all ranks run and synchronise again after a reset, in several launches. */
async function expectUsable(world: World): Promise<void> {
  await world.reset()
  const [x, arrived] = [world.zeros(i32, [1]), world.flags([world.ranks])]
  for (let n = 0; n < 20; n++) world.launch(meeting, { arrived, x }, { grid: 1 })
  for (const rank of world.localRanks) expect([...(await world.read(x, rank))]).toEqual([rank + 1])
  await world.close()
}

describe.each(targets)('%s', (target) => {
  // The world that stops is the same on both targets; on native, the short tests cover what its engine does.
  const longOnNative = target === 'native' ? long : {}

  it('reports the rank and source line of a wait for a flag that nobody signals', async () => {
    const world = await open(target, { ranks: 3, timeout: 300 })
    const ready = world.flags([2, 4], { name: 'ready' })
    world.launch(waiting, { ready }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.reason).toBe('no launch has ended for 300 ms while launches were pending')
    expect(stop.workers).toHaveLength(3)
    expect(stop.message).toMatch(
      /worldStops\.test\.ts:\d+:\d+ {2}rank 2, program 0 of waiting waits for ready\[1, 2\] on rank 0: it is 0, 1 is wanted/,
    )
    await expectUsable(world)
  })

  it('says that no launched kernel signals the flag', longOnNative, async () => {
    const world = await open(target, { timeout: 300 })
    const ready = world.flags([2, 4], { name: 'ready' })
    world.launch(waiting, { ready }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.signals).toEqual([{ flag: 'ready', signals: [] }])
    expect(stop.message).toMatch(/\n {2}no launched kernel signals ready$/)
    await world.close()
  })

  it(
    'says who could have signalled the flag, at which line, and what became of them',
    longOnNative,
    async () => {
      const world = await open(target, { ranks: 3, timeout: 300 })
      const ready = world.flags([], { name: 'ready' })
      world.launch(forRank0, { ready }, { grid: 1, ranks: [0] })
      await world.synchronize()
      world.launch(waitsFirst, { ready }, { grid: 1, ranks: [1] })
      world.launch(waits, { ready }, { grid: 1, ranks: [2] })
      world.launch(forRank0, { ready }, { grid: 1, ranks: [2] })
      const { signals, message } = await stopOf(world.synchronize())
      const [{ flag, signals: found }] = signals
      expect(flag).toBe('ready')
      const line = /\S*worldStops\.test\.ts:\d+:\d+/
      for (const { site } of found) expect(String(site)).toMatch(line)
      const states = found.map(
        ({ kernel, ranks, what }) => `${kernel} on ${ranks.join()}: ${what.replace(line, 'LINE')}`,
      )
      expect(states).toEqual([
        'forRank0 on 0: has ended',
        'waitsFirst on 1: waits itself at LINE',
        'forRank0 on 2: has not started, because it follows waits on its stream',
      ])
      expect(message).toMatch(
        /\n {2}ready is signalled at .*worldStops\.test\.ts:\d+:\d+ by forRank0; on rank 0 it has ended\n/,
      )
      await expectUsable(world)
    },
  )

  describe('without a timeout of its own', () => {
    // The host's clock and timers are fake; the threads are real.
    beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
    afterEach(() => void vi.useRealTimers())
    const briefly = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

    it('reports a missing signal after 3 s, and stops after 10 s', longOnNative, async () => {
      const stalls: Stall[] = []
      const world = await open(target, { onStall: (stall) => stalls.push(stall) })
      const ready = world.flags([2, 4], { name: 'ready' })
      world.launch(waiting, { ready }, { grid: 1 })
      const stopped = stopOf(world.synchronize())
      let isOver = false
      void stopped.then(() => (isOver = true))
      while (!isOver) {
        vi.advanceTimersByTime(250)
        await briefly()
      }
      const stop = await stopped
      expect(stop.reason).toBe('no launch has ended for 10000 ms while launches were pending')
      expect(stalls.map(({ waited, timeout }) => ({ waited, timeout }))).toEqual([
        { waited: 3000, timeout: 10_000 },
      ])
      expect(stalls[0].workers).toEqual(stop.workers)
      expect(stalls[0].message).toMatch(
        /^rank 0, program 0 of waiting has waited 3 s at .*worldStops\.test\.ts:\d+:\d+ for ready\[1, 2\] on rank 0, and 1 more wait; no launched kernel signals ready; the world stops after 10 s without progress \(timeout\)$/,
      )
      await expectUsable(world)
    })

    it('prints the report on stderr unless told otherwise', longOnNative, async () => {
      const warn = vi.spyOn(console, 'warn').mockReturnValue()
      const world = await open(target, { onStall: undefined })
      world.launch(waiting, { ready: world.flags([2, 4], { name: 'ready' }) }, { grid: 1 })
      const stopped = stopOf(world.synchronize())
      while (warn.mock.calls.length === 0) {
        vi.advanceTimersByTime(250)
        await briefly()
      }
      expect(warn.mock.calls[0][0]).toMatch(/^arke: rank 0, program 0 of waiting has waited 3 s at /)
      warn.mockRestore()
      vi.advanceTimersByTime(10_000)
      await stopped
      await world.close()
    })

    it('never stops a program that computes, though others wait for it', async () => {
      // The clock jumps by ten minutes. The test repeats the launch until rank 1 computes both before and after the
      // jump.
      for (let rounds = 2000, isTried = false; !isTried; rounds *= 2) {
        const stalls: Stall[] = []
        const world = await open(target, { onStall: (stall) => stalls.push(stall) })
        const x = world.from(i32, [2], [rounds, 0])
        const additions = async (): Promise<number> => (await world.peek(x, 1))[1]
        world.launch(computing, { x, ready: world.flags() }, { grid: 1 })
        const done = world.synchronize()
        while ((await additions()) === 0) await briefly()
        vi.advanceTimersByTime(600_000)
        isTried = (await additions()) < rounds ** 2
        if (isTried) expect(stalls).toEqual([])
        await done
        expect([...(await world.read(x, 1))]).toEqual([rounds, rounds ** 2])
        await world.close()
        expect(rounds, 'rank 1 ends before the clock has advanced').toBeLessThan(32_000)
      }
    })
  })

  it('reports the value of a flag that too few ranks signal', longOnNative, async () => {
    const world = await open(target, { timeout: 300 })
    const ready = world.flags([], { name: 'ready', arrivals: 2 })
    world.launch(oneShort, { ready }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.workers.map(({ rank, flag }) => ({ rank, flag }))).toEqual([
      { rank: 0, flag: { name: 'ready', rank: 0, value: 1, wanted: 2 } },
    ])
    await expectUsable(world)
  })

  it('ends a polling loop', longOnNative, async () => {
    const world = await open(target, { timeout: 300 })
    world.launch(polling, { x: world.zeros(i32, [1], { name: 'x' }) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.workers.map(({ rank, program, what }) => ({ rank, program, what }))).toEqual(
      [0, 1].map((rank) => ({ rank, program: 0, what: 'is in a loop that has not ended' })),
    )
    for (const { site } of stop.workers) expect(site).toMatch(/worldStops\.test\.ts:\d+:\d+/)
    await expectUsable(world)
  })

  it('ends a loop that computes', async () => {
    const world = await open(target, { timeout: 300 })
    world.launch(counting, { x: world.from(i32, [2], [2 ** 30, 0]) }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.workers.map(({ kernel, what }) => ({ kernel, what }))).toEqual([
      { kernel: 'counting', what: 'was computing' },
      { kernel: 'counting', what: 'was computing' },
    ])
    await expectUsable(world)
  })

  it('aborts all ranks if one divides by zero', async () => {
    const world = await open(target, { ranks: 3 })
    world.launch(dividing, { x: world.zeros(i32, [1]), done: world.flags() }, { grid: 1 })
    const stop = await stopOf(world.synchronize())
    expect(stop.reason).toBe('a kernel raised a fault')
    expect(stop.workers[0]).toMatchObject({
      rank: 1,
      program: 0,
      kernel: 'dividing',
      what: 'divides by zero',
    })
    expect(stop.workers[0].site).toMatch(/worldStops\.test\.ts:\d+:\d+/)
    await expectUsable(world)
  })

  it('aborts all ranks if a thread is terminated from outside, and replaces the thread', async () => {
    // Terminates all idle threads of the pool first, so that the threads of this world are known.
    const pool = poolOf(nodeThreads)
    while (pool.idle > 0) void pool.thread().terminate()
    const start = vi.spyOn(nodeThreads, 'start')
    const world = await open(target)
    const threads = start.mock.results.map(({ value }) => value as { worker(): Worker })
    start.mockRestore()
    const x = world.zeros(i32, [1])
    await world.prepare(polling)
    // Node cannot terminate a thread that runs native code, so on `native` an idle thread is terminated. The last idle
    // thread serves rank 0.
    world.launch(polling, { x }, { grid: 1, ranks: target === 'native' ? [1] : [0, 1] })
    const stopped = stopOf(world.synchronize())
    await threads[1].worker().terminate()
    expect((await stopped).reason).toMatch(/a worker of rank \d died: it ended with code 1/)
    await expectUsable(world)
  })

  it('can be closed instead', longOnNative, async () => {
    const world = await open(target, { timeout: 200 })
    world.launch(waiting, { ready: world.flags([2, 4]) }, { grid: 1 })
    await stopOf(world.synchronize())
    await world.close()
    expect(() => world.zeros(i32, [1])).toThrow('the world is closed')
  })

  describe('a process', longOnNative, () => {
    const run = (mode: string): Promise<Outcome> => interrupted('interruptedKernel.ts', target, mode)

    it('ends when its world is closed and it has nothing else to do', long, async () => {
      expect(await run('leaving')).toEqual({ code: 0, signal: null, output: 'filled 2\n' })
    })

    it('that is interrupted ends as it would without a world', long, async () => {
      expect(await run('alone')).toMatchObject({ code: null, signal: 'SIGINT' })
    })

    it('that is terminated ends as it would without a world', long, async () => {
      const outcome = await signalled('SIGTERM', 'interruptedKernel.ts', target, 'alone')
      expect(outcome).toMatchObject({ code: null, signal: 'SIGTERM' })
    })

    it('that exits while a kernel waits ends at once', long, async () => {
      expect(await run('exiting')).toEqual({ code: 5, signal: null, output: 'filled 2\n' })
    })

    it('that listens for interrupts receives a report of what its ranks did', async () => {
      const { code, output } = await run('listening')
      expect(output).toMatch(/the world has stopped: interrupted\n/)
      expect(output).toMatch(/rank 1, program 0 of stuck waits for ready on rank 1: it is 0, 1 is wanted/)
      expect(code).toBe(3)
    })
  })
})
