/** Tests that a view that exceeds its tensor or world is reported where it is used, not where it is made. */
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, i32, kernel, tensor, u32, type Arguments, type Program } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding, type Finding } from '../../src/targets/check/findings.ts'
import { scenario, type World } from '../../src/world/world.ts'

const params = { x: tensor(f32, 2), v: tensor(f32, 1), go: flags(1) }
type Body = (t: Program, args: Arguments<typeof params>) => void

async function findings(body: Body): Promise<readonly Finding[]> {
  const subject = kernel('views', params, body)
  const run = scenario('views', { ranks: 2 }, async (world) => {
    const x = world.zeros(f32, [8, 8], { name: 'x' })
    const v = world.zeros(f32, [8], { name: 'v' })
    world.launch(subject, { x, v, go: world.flags([2], { name: 'go' }) }, { grid: 1 })
    await world.synchronize()
  })
  return (await explore(run, { ranks: 2, preemptions: 0 })).findings
}

/**
 * Each test case makes a view that is wrong on rank 0 or on both ranks, and passes it to `use`, which may access it.
 */
const wrong: Record<string, readonly [message: string, body: (use: boolean) => Body]> = {
  'a rank that is not there': [
    'there is no rank -1 in a world of 2',
    (use) =>
      (t, { v }) => {
        const left = v.on(t.rank.sub(1)).at([0])
        t.if(use ? t.rank.ge(0) : t.rank.gt(0), () => t.store(left, 1))
      },
  ],
  'the flags of a rank that is not there': [
    'there is no rank -1 in a world of 2',
    (use) =>
      (t, { go }) => {
        const left = go.on(t.rank.sub(1)).at([0])
        t.if(use ? t.rank.ge(0) : t.rank.gt(0), () => t.signal(left))
      },
  ],
  'a tile outside': [
    'tile [2, 0] of 4 x 4 is wholly outside x, which is 8 x 8',
    (use) =>
      (t, { x, v }) => {
        const next = x.tile([t.rank.mul(2), 0], [4, 4])
        t.if(use ? t.rank.ge(0) : t.rank.eq(0), () => t.store(v.at([0]), t.load(next).sum(0).sum(0)))
      },
  ],
  'a slice outside': [
    'the slice [6, 12) of axis 0 of x exceeds its extent 8',
    (use) =>
      (t, { x, v }) => {
        const part = x.slice(0, t.rank.mul(6), 6).tile([0, 0], [2, 2])
        t.if(use ? t.rank.ge(0) : t.rank.eq(0), () => t.store(v.at([0]), t.load(part).sum(0).sum(0)))
      },
  ],
  'a flag outside': [
    'flag [3] is outside go, which is 2',
    (use) =>
      (t, { go }) => {
        const flag = go.at([t.rank.mul(3)])
        t.if(use ? t.rank.ge(0) : t.rank.eq(0), () => t.signal(flag))
      },
  ],
  'a plane outside': [
    'index 5 is outside shared tile, which has extent 2',
    (use) =>
      (t, { x }) => {
        const ring = t.shared(f32, [2, 4, 4])
        const plane = ring.pick(t.rank.mul(5))
        t.if(use ? t.rank.ge(0) : t.rank.eq(0), () => t.copy(x.tile([0, 0], [4, 4]), plane))
      },
  ],
}

describe.each(Object.entries(wrong))('%s', (_, [message, body]) => {
  it('is not reported if it is never used', async () => {
    expect((await findings(body(false))).map(formatFinding)).toEqual([])
  })

  it('is reported with the lines of the view and of its use', async () => {
    const [found, ...rest] = await findings(body(true))
    expect(rest).toEqual([])
    expect(found.kind).toBe('out-of-bounds')
    expect(found.message).toContain(message)
    expect(found.parties.map(({ site }) => site?.position?.line)).toHaveLength(2)
  })
})

it('a wrong view is not reported if a mask excludes all lanes', async () => {
  const body: Body = (t, { v }) => {
    const left = v.on(t.rank.sub(1)).at([t.arange(4)])
    t.store(left, t.arange(4).to(f32), { mask: t.arange(4).lt(t.rank.mul(4)) })
  }
  expect((await findings(body)).map(formatFinding)).toEqual([])
})

describe('a word that the host writes while a kernel polls it', () => {
  const poll = kernel(
    'poll',
    { go: tensor(u32, 1), data: tensor(bf16, 1), out: tensor(bf16, 1) },
    { order: 'acquire' as 'acquire' | 'weak' },
    (t, { go, data, out }, { order }) => {
      t.while(
        t.constant(u32, 0),
        (seen) => seen.eq(0),
        () => t.load(go.at([0]), order === 'weak' ? {} : { order }),
      )
      t.copy(data.tile([0], [8]), out.tile([0], [8]))
    },
  )
  const numbers = [1, 2, 3, 4, 5, 6, 7, 8]
  const polled =
    (order: 'acquire' | 'weak', host: (world: World, write: Record<'go' | 'data', () => void>) => void) =>
    async (): Promise<string[]> => {
      const kinds = new Set<string>()
      for (const how of [{ preemptions: 2 }, { schedules: 100 }]) {
        const subject = scenario('polled', { ranks: 2 }, async (world) => {
          const go = world.zeros(u32, [1], { name: 'go' })
          const data = world.zeros(bf16, [8], { name: 'data' })
          const out = world.empty(bf16, [8])
          world.launch(poll, { go, data, out }, { grid: 1, meta: { order } })
          host(world, {
            go: () => [0, 1].forEach((rank) => world.write(go, rank, [1])),
            data: () => [0, 1].forEach((rank) => world.write(data, rank, numbers)),
          })
          for (const rank of [0, 1]) expect([...(await world.read(out, rank))]).toEqual(numbers)
        })
        const { findings, results } = await explore(subject, { ranks: 2, ...how })
        for (const { kind } of findings) kinds.add(kind)
        if (findings.length === 0) expect(results.length).toBeGreaterThan(0)
      }
      return [...kinds]
    }

  it('does not race, and earlier writes of the host may be read', async () => {
    const run = polled('acquire', (_, write) => {
      write.data()
      write.go()
    })
    expect(await run()).toEqual([])
  })

  it('must be written last', async () => {
    const run = polled('acquire', (_, write) => {
      write.go()
      write.data()
    })
    expect(await run()).toEqual(['race'])
  })

  it('must be polled by loads with an order', async () => {
    const run = polled('weak', (_, write) => {
      write.data()
      write.go()
    })
    expect(await run()).toEqual(['race'])
  })

  it('must be written at all', async () => {
    expect(await polled('acquire', (_, write) => write.data())()).toEqual(['deadlock'])
  })

  it('is more than a word where the write is longer than four of them', async () => {
    const watch = kernel('watch', { go: tensor(i32, 1) }, (t, { go }) => {
      t.while(
        t.constant(i32, 0),
        (seen) => seen.eq(0),
        () => t.load(go.at([0]), { order: 'acquire' }),
      )
    })
    const written = (count: number) =>
      explore(
        scenario('watch', { ranks: 1 }, async (world) => {
          const go = world.zeros(i32, [count])
          world.launch(watch, { go }, { grid: 1 })
          world.write(go, 0, new Array<number>(count).fill(1))
          await world.synchronize()
        }),
        { ranks: 1, preemptions: 1 },
      )
    expect((await written(4)).findings).toEqual([])
    expect((await written(5)).findings.map(({ kind }) => kind)).toEqual(['race'])
  })
})
