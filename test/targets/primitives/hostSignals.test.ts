/** Tests signals of the host, and reads of the host that do not wait, while kernels run. */
import { describe, expect, it } from 'vitest'
import { flags, kernel, tensor, type World } from '../../../src/index.ts'
import { explore } from '../../../src/targets/check/explore.ts'
import { scenario, WorldStopped } from '../../../src/world/world.ts'
import { openWorld } from '../../../src/index.ts'
import { emitCuda } from '../../../src/targets/cuda/emit/emit.ts'
import { lower } from '../../../src/targets/cuda/stages.ts'
import { openOnCpu, unavailable } from '../../cuda/onCpu/onCpu.ts'
import { onWorld, range, targets } from './harness.ts'

const length = 9

/**
 * A kernel that answers the host: it waits for its signal, reads the data that the host wrote, and stores a word that
 * the host polls.
 */
const answer = kernel(
  'answer',
  { x: tensor('i32', 1), y: tensor('i32', 1), done: tensor('i32', 1), go: flags(1) },
  (t, { x, y, done, go }) => {
    t.wait(go.at([1]))
    const last = t.load(x.at([length - 1]))
    t.store(y.at([0]), last.mul(2).add(t.rank))
    t.atomic.xchg(done.at([0]), last, { order: 'release' })
  },
)

const allocate = (world: World) => ({
  x: world.zeros('i32', [length], { name: 'x' }),
  y: world.zeros('i32', [1], { name: 'y' }),
  done: world.zeros('i32', [1], { name: 'done' }),
  go: world.flags([2], { name: 'go', signaller: 'host' }),
})

/**
 * In each round, the host writes, signals, and polls until the kernel has answered. The host of this test never waits
 * for a launch.
 */
async function exchange(world: World, times: number): Promise<void> {
  const args = allocate(world)
  for (const _ of range(times)) world.launch(answer, args, { grid: 1 })
  for (const time of range(times))
    for (let rank = world.ranks - 1; rank >= 0; rank--) {
      const value = 10 * time + rank + 1
      world.write(
        args.x,
        rank,
        range(length).map((i) => (i === length - 1 ? value : 0)),
      )
      world.signal(args.go, rank, [1])
      while ((await world.peek(args.done, rank))[0] !== value);
      expect([...(await world.peek(args.y, rank))]).toEqual([2 * value + rank])
    }
  await world.synchronize()
}

describe.each(targets)('on %s', (target) => {
  it('a running kernel and the host answer each other', async () => {
    await onWorld(target, 3, (world) => exchange(world, 3))
  })

  it('a sleeping program is woken, and each launch consumes a signal', async () => {
    await onWorld(target, 1, async (world) => {
      const args = allocate(world)
      for (const time of [1, 2]) {
        world.launch(answer, args, { grid: 1 })
        if (target !== 'check') await new Promise((resolve) => setTimeout(resolve, 60))
        world.write(
          args.x,
          0,
          range(length).map(() => time),
        )
        world.signal(args.go, 0, [1])
        expect([...(await world.read(args.y, 0))]).toEqual([2 * time])
      }
    })
  })

  it('groups signal their own ranks', async () => {
    await onWorld(target, 3, (world) => exchange(world.group(target === 'cuda' ? [0, 2] : [2, 0]), 2))
  })

  it('refuses to share a flag set between the host and kernels', async () => {
    const signals = kernel('signals', { go: flags(1) }, (t, { go }) => t.signal(go.at([0])))
    await onWorld(target, 1, (world) => {
      const [byHost, byKernels] = [
        world.flags([2], { name: 'go', signaller: 'host' }),
        world.flags([2], { name: 'on' }),
      ]
      expect(() => world.launch(signals, { go: byHost }, { grid: 1 })).toThrow(
        'signals signals go, which only the host signals',
      )
      expect(() => world.signal(byKernels, 0, [0])).toThrow(
        "on is signalled by kernels, which count its epochs: allocate it with { signaller: 'host' }",
      )
      expect(() => world.signal(byHost, 0, [2])).toThrow('there is no flag [2] in go of shape [2]')
      expect(() => world.signal(byHost, 1, [0])).toThrow('there is no rank 1')
      return Promise.resolve()
    })
  })
})

describe('a signal that never comes', () => {
  it("is reported as the host's, and a reset starts a new count", async () => {
    const world = await openWorld({ target: 'wasm', ranks: 1, timeout: 200, onStall: () => {} })
    const args = allocate(world)
    world.signal(args.go, 0, [1])
    world.launch(answer, args, { grid: 1 })
    await world.synchronize()
    world.launch(answer, args, { grid: 1 })
    const stopped = await world.synchronize().catch((error: unknown) => error)
    expect(stopped).toBeInstanceOf(WorldStopped)
    expect(String(stopped)).toContain('only the host signals go, with world.signal')
    expect(() => world.signal(args.go, 0, [1])).toThrow(WorldStopped)
    await world.reset()
    world.launch(answer, args, { grid: 1 })
    world.signal(args.go, 0, [1])
    await world.synchronize()
    await world.close()
  })
})

describe('the checker', () => {
  it('finds nothing in a correct exchange', async () => {
    const subject = scenario('host', { ranks: 1 }, (world) => exchange(world, 1))
    for (const how of [{ preemptions: 2 }, { schedules: 30 }])
      expect((await explore(subject, { ranks: 1, ...how })).findings).toEqual([])
  })

  it('reports a long read that is not ordered after the launch that writes', async () => {
    const fill = kernel('fill', { x: tensor('i32', 1) }, (t, { x }) => t.store(x.tile([0], [16]), 1))
    const subject = scenario('long', { ranks: 1 }, async (world) => {
      const x = world.zeros('i32', [16])
      world.launch(fill, { x }, { grid: 1 })
      await world.peek(x, 0)
      await world.synchronize()
      expect([...(await world.peek(x, 0))]).toEqual(range(16).map(() => 1))
    })
    const { findings } = await explore(subject, { ranks: 1, schedules: 5 })
    expect(findings.map(({ kind }) => kind)).toEqual(['race'])
  })

  it('specialises kernels for flags that the host signals', async () => {
    const seen: [string, boolean][] = []
    const idle = kernel('idle', { go: flags() }, (t, { go }) => t.signal(go))
    const subject = scenario('facts', { ranks: 1 }, async (world) => {
      world.launch(idle, { go: world.flags() }, { grid: 1 })
      await exchange(world, 1)
    })
    await explore(subject, {
      ranks: 1,
      schedules: 1,
      stage(recorded, _, isByHost) {
        seen.push([recorded.name, isByHost])
        return recorded
      },
    })
    expect(seen).toEqual([
      ['idle', false],
      ['answer', true],
    ])
  })

  it('reports a host that polls forever', async () => {
    const subject = scenario('forever', { ranks: 1 }, async (world) => {
      const x = world.zeros('i32', [1], { name: 'x' })
      while ((await world.peek(x, 0))[0] !== 1);
    })
    const { findings } = await explore(subject, { ranks: 1, schedules: 1 })
    expect(findings.map(({ kind, message }) => `${kind}: ${message}`)).toEqual([
      'livelock: the host reads x of rank 0 again and again, and no agent can change it any more',
    ])
  })
})

describe('on a GPU', () => {
  it('flags that the host signals have system scope, also on one device', () => {
    const text = (hostSignals?: true): string =>
      emitCuda(lower(answer.record({ world: 1 })), { tensors: {}, oneDevice: true, hostSignals }).source
    expect(text()).toMatch(/ld\.acquire\.gpu/)
    expect(text(true)).not.toMatch(/ld\.acquire\.gpu/)
    expect(text(true)).toMatch(/ld\.acquire\.sys/)
  })

  it.skipIf(unavailable())('the emitted text answers the host', { timeout: 60_000 }, async () => {
    const world = openOnCpu(2)
    await exchange(world, 2)
    await world.close()
  })
})
