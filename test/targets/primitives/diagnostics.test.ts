/** Assertions on every target, and as CUDA C++ that runs on this CPU. */
import { describe, expect, it } from 'vitest'
import {
  explore,
  flags,
  i32,
  kernel,
  openWorld,
  scenario,
  tensor,
  WorldStopped,
  type World,
} from '../../../src/index.ts'
import { openOnCpu, unavailable } from '../../cuda/onCpu/onCpu.ts'
import { targets } from './harness.ts'

const cuda = 'cuda on this CPU'
const why = unavailable()
if (why) console.info(`emitted kernels cannot run on this machine: ${why}`)
const places = [...targets.filter((target) => target !== 'check'), ...(why ? [] : [cuda])]

/** The line of this file that contains a text. */
const lineOf = (error: Error): string => /diagnostics\.test\.ts:\d+:\d+/.exec(error.message)?.[0] ?? ''

async function run<T>(target: string, ranks: number, use: (world: World) => Promise<T>): Promise<T> {
  const world = target === cuda ? openOnCpu(ranks) : await openWorld({ target, ranks, workers: 4 })
  try {
    return await use(world)
  } finally {
    await world.close().catch(() => undefined)
  }
}

/** On rank 1, program 2 finds a number that is not positive, which every other program waits for. */
const positive = kernel(
  'positive',
  { x: tensor(i32, 2), ready: flags() },
  { waits: false, whole: false },
  (t, { x, ready }, { waits, whole }) => {
    const row = t.load(x.tile([t.program, 0], [1, 5]))
    const one = t.load(x.at([t.program, 3]))
    if (whole) t.assert(row.gt(0), 'every number is positive')
    else t.assert(one.gt(0), 'the number is positive')
    if (!waits) return
    t.if(t.program.eq(2), () => t.signal(ready.on(t.rank.add(1).mod(t.world))))
    t.wait(ready)
  },
)

async function launched(
  world: World,
  wrong: boolean,
  meta: { waits: boolean; whole: boolean },
): Promise<void> {
  const x = world.from(i32, [4, 5], (rank) =>
    Array.from({ length: 20 }, (_, i) => (wrong && rank === 1 && i === 13 ? -1 : i + 1)),
  )
  world.launch(positive, { x, ready: world.flags([], { name: 'ready' }) }, { grid: 4, meta })
  await world.synchronize()
}

const stopped = async (call: Promise<unknown>): Promise<WorldStopped> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof WorldStopped)) throw error ?? new Error('nothing was thrown')
  return error
}

describe.each(places)('an assertion on %s', (target) => {
  it.each([
    { waits: false, whole: false },
    { waits: true, whole: true },
  ])('stops all ranks and names the rank, the program, the line and the message: %j', async (meta) => {
    await run(target, 3, async (world) => {
      const error = await stopped(launched(world, true, meta))
      const [first] = error.workers
      expect(first).toMatchObject({
        rank: 1,
        program: 2,
        kernel: 'positive',
        what: `fails the assertion: ${meta.whole ? 'every number is positive' : 'the number is positive'}`,
      })
      expect(first.site).toContain(lineOf(error))
      expect(lineOf(error)).not.toBe('')
      expect((await stopped(world.barrier())).message).toBe(error.message)
      await world.reset()
      await launched(world, false, meta)
    })
  })

  it('does nothing while it holds', () =>
    run(target, 2, (world) => launched(world, false, { waits: true, whole: true })))
})

describe('an assertion in the checker', () => {
  const wrong = (is: boolean) =>
    scenario('positive', { ranks: 2 }, (world) => launched(world, is, { waits: true, whole: true }))

  it.each(['recorded', 'lowered'] as const)('is a finding of its own kind: %s', async (stage) => {
    const { findings } = await explore(wrong(true), { ranks: 2, schedules: 20, stage })
    expect(findings.map(({ kind, kernel, message }) => ({ kind, kernel, message }))).toEqual([
      { kind: 'assertion', kernel: 'positive', message: 'every number is positive' },
    ])
    expect(findings[0].parties[0]).toMatchObject({ what: 'fails the assertion' })
    expect(findings[0].parties[0].who).toBe('rank 1, program 2')
    expect(String(findings[0].parties[0].site)).toMatch(/diagnostics\.test\.ts:\d+/)
    expect((await explore(wrong(false), { ranks: 2, schedules: 20, stage })).findings).toEqual([])
  })

  it('ends a run of a world', () =>
    expect(run('check', 2, (world) => launched(world, true, { waits: false, whole: false }))).rejects.toThrow(
      /assertion in positive: the number is positive/,
    ))
})
