/** Tests the orders that streams, events and the host's waits establish, and the orders that they do not establish. */
import { describe, expect, it } from 'vitest'
import { flags, i32, kernel, tensor } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { scenario, type Stream, type World } from '../../src/world/world.ts'

const write = kernel('write', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 7))
const add = kernel('add', { x: tensor(i32, 1), y: tensor(i32, 1) }, (t, { x, y }) =>
  t.store(y.at([0]), t.load(x.at([0])).add(t.load(y.at([0])))),
)
const wait = kernel('wait', { go: flags() }, (t, { go }) => t.wait(go))
const signal = kernel('signal', { go: flags() }, (t, { go }) => t.signal(go))
const both = kernel('both', { go: flags() }, (t, { go }) => {
  t.signal(go)
  t.wait(go)
})

async function findings(run: (world: World) => Promise<unknown>, residency?: number): Promise<string[]> {
  const subject = scenario('streams', { ranks: 1, residency }, run)
  const kinds = new Set<string>()
  for (const how of [{ preemptions: 2 }, { schedules: 50 }]) {
    const found = await explore(subject, { ranks: 1, ...how })
    for (const { kind } of found.findings) kinds.add(kind)
  }
  return [...kinds]
}

const streams = (world: World, count: number): Stream[] => Array.from({ length: count }, () => world.stream())

describe('events', () => {
  /**
   * `add` on the third stream reads what the first two streams write. The kernel `add` waits for the events of the
   * streams in `waits`.
   */
  const joined = (waits: readonly number[]) => async (world: World) => {
    const [first, second, third] = streams(world, 3)
    const x = world.zeros(i32, [1], { name: 'x' })
    const y = world.zeros(i32, [1], { name: 'y' })
    world.launch(write, { x }, { grid: 1, stream: first })
    world.launch(write, { x: y }, { grid: 1, stream: second })
    const events = [first.record(), second.record()]
    for (const at of waits) third.wait(events[at])
    world.launch(add, { x, y }, { grid: 1, stream: third })
    expect([...(await world.read(y, 0))]).toEqual([14])
  }

  it('accumulate: a stream that waits for two events follows both', async () => {
    expect(await findings(joined([0, 1]))).toEqual([])
    expect(await findings(joined([1, 0]))).toEqual([])
    expect(await findings(joined([0]))).toEqual(['race'])
    expect(await findings(joined([1]))).toEqual(['race'])
  })

  it('include the events that their stream waited for, even if nothing was launched there', async () => {
    const relayed = (relay: boolean) => async (world: World) => {
      const [first, second, third] = streams(world, 3)
      const x = world.zeros(i32, [1])
      world.launch(write, { x }, { grid: 1, stream: first })
      second.wait(first.record())
      if (relay) third.wait(second.record())
      world.launch(write, { x }, { grid: 1, stream: third })
      await world.synchronize()
    }
    expect(await findings(relayed(true))).toEqual([])
    expect(await findings(relayed(false))).toEqual(['race'])
  })

  it('order launches after the wait, and none before it', async () => {
    const run = async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const x = world.zeros(i32, [1])
      world.launch(write, { x }, { grid: 1, stream: second })
      world.launch(write, { x }, { grid: 1, stream: first })
      second.wait(first.record())
      await world.synchronize()
    }
    expect(await findings(run)).toEqual(['race'])
  })

  it('pass back and forth between two streams, and no launch is lost', async () => {
    const double = kernel('double', { x: tensor(i32, 1) }, (t, { x }) =>
      t.store(x.at([0]), t.load(x.at([0])).mul(2)),
    )
    const run = async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const x = world.full(i32, [1], 1)
      for (let i = 0; i < 5; i++) {
        for (const [stream, other] of [
          [first, second],
          [second, first],
        ]) {
          world.launch(double, { x }, { grid: 1, stream })
          other.wait(stream.record())
        }
      }
      expect([...(await world.read(x, 0))]).toEqual([2 ** 10])
    }
    expect(await findings(run)).toEqual([])
  })
})

describe('the default stream', () => {
  /** Launches `write` twice on one tensor: on the default stream and on another stream, in either order. */
  const passed = (from: 'default' | 'other', isOrdered: boolean) => async (world: World) => {
    const other = world.stream()
    const x = world.zeros(i32, [1])
    const [first, second] = from === 'default' ? [undefined, other] : [other, undefined]
    world.launch(write, { x }, { grid: 1, stream: first })
    if (isOrdered) (second ?? world.defaultStream).wait((first ?? world.defaultStream).record())
    world.launch(write, { x }, { grid: 1, stream: second })
    await world.synchronize()
  }

  it('records events and waits for them', async () => {
    for (const from of ['default', 'other'] as const) {
      expect(await findings(passed(from, true))).toEqual([])
      expect(await findings(passed(from, false))).toEqual(['race'])
    }
  })

  it('is the stream of launches that name none, in groups too', async () => {
    const run = async (world: World): Promise<void> => {
      expect(world.defaultStream.id).toBe(0)
      const x = world.zeros(i32, [1])
      const group = world.group([0])
      group.launch(write, { x }, { grid: 1, stream: group.defaultStream })
      await world.defaultStream.synchronize()
      group.launch(write, { x }, { grid: 1, stream: world.stream() })
      await group.synchronize()
    }
    expect(await findings(run)).toEqual([])
  })
})

describe('the host', () => {
  const waited =
    (how: (first: Stream, second: Stream) => Promise<void>) =>
    async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const x = world.zeros(i32, [1])
      world.launch(write, { x }, { grid: 1, stream: first })
      await how(first, second)
      world.launch(write, { x }, { grid: 1, stream: second })
      await world.synchronize()
    }

  it('is ordered after the stream that it waited for', async () => {
    expect(await findings(waited((first) => first.synchronize()))).toEqual([])
    expect(await findings(waited((first) => first.record().synchronize()))).toEqual([])
  })

  it('is not ordered after other streams', async () => {
    expect(await findings(waited((_, second) => second.synchronize()))).toEqual(['race'])
    expect(await findings(waited((_, second) => second.record().synchronize()))).toEqual(['race'])
  })

  it('is not ordered after launches that follow the event that it waited for', async () => {
    const run = async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const [x, y] = [world.zeros(i32, [1]), world.zeros(i32, [1])]
      world.launch(write, { x: y }, { grid: 1, stream: first })
      const event = first.record()
      world.launch(write, { x }, { grid: 1, stream: first })
      await event.synchronize()
      world.launch(write, { x }, { grid: 1, stream: second })
      await world.synchronize()
    }
    expect(await findings(run)).toEqual(['race'])
  })

  it('may wait for one stream while another waits for a launch that is still to come', async () => {
    const run = async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const [go, x] = [world.flags(), world.zeros(i32, [1])]
      world.launch(wait, { go }, { grid: 1, stream: first })
      world.launch(write, { x }, { grid: 1, stream: second })
      await second.synchronize()
      world.launch(signal, { go }, { grid: 1, stream: second })
      await world.synchronize()
    }
    expect(await findings(run)).toEqual([])
  })

  it('deadlocks if the stream that it waits for waits for a later launch', async () => {
    const run = async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const go = world.flags()
      world.launch(wait, { go }, { grid: 1, stream: first })
      await first.synchronize()
      world.launch(signal, { go }, { grid: 1, stream: second })
    }
    expect(await findings(run)).toEqual(['deadlock'])
  })
})

/**
 * Launches the kernel `both` on each of three streams with the same flags. `order` lists which launch waits for which
 * other launch.
 */
const chained =
  (order: readonly (readonly [waiter: number, signaller: number])[], sameFlags: boolean) =>
  async (world: World): Promise<void> => {
    const all = streams(world, 3)
    const sets = [world.flags(), world.flags(), world.flags()]
    all.forEach((stream, i) => {
      for (const [waiter, signaller] of order) if (waiter === i) stream.wait(all[signaller].record())
      world.launch(both, { go: sets[sameFlags ? 0 : i] }, { grid: 1, stream })
    })
    await world.synchronize()
  }

describe('launches that events order', () => {
  it('may use the same flags', async () => {
    expect(
      await findings(
        chained(
          [
            [1, 0],
            [2, 1],
          ],
          true,
        ),
      ),
    ).toEqual([])
    expect(await findings(chained([[2, 1]], true))).toEqual(['flag-reuse'])
    expect(
      await findings(
        chained(
          [
            [1, 0],
            [2, 0],
          ],
          true,
        ),
      ),
    ).toEqual(['flag-reuse'])
  })

  it('need not be resident at the same time', async () => {
    expect(
      await findings(
        chained(
          [
            [1, 0],
            [2, 1],
          ],
          false,
        ),
        1,
      ),
    ).toEqual([])
    // Two of the three launches run one after the other, so at most two launches run at the same time.
    expect(await findings(chained([[1, 0]], false), 2)).toEqual([])
    expect(await findings(chained([[1, 0]], false), 1)).toEqual(['residency'])
    expect(await findings(chained([], false), 2)).toEqual(['residency'])
    expect(await findings(chained([], false), 3)).toEqual([])
  })

  it('are not assumed to have ended because the host waited for another stream', async () => {
    const run = async (world: World): Promise<void> => {
      const [first, second] = streams(world, 2)
      const go = world.flags()
      world.launch(both, { go }, { grid: 1, stream: first })
      await second.synchronize()
      world.launch(both, { go }, { grid: 1, stream: second })
      await world.synchronize()
    }
    expect(await findings(run)).toEqual(['flag-reuse'])
  })
})
