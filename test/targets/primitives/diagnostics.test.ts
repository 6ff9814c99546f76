/** Tests assertions and printed values on every target, and as CUDA C++ that runs on this CPU. */
import { describe, expect, it } from 'vitest'
import {
  explore,
  flags,
  i32,
  kernel,
  bf16,
  f32,
  i64,
  scenario,
  tensor,
  WorldStopped,
  type DroppedPrints,
  type OnPrint,
  type Printed,
  type World,
} from '../../../src/index.ts'
import type { KernelIR } from '../../../src/ir/node.ts'
import { origin, paramName } from '../../../src/ir/ops/index.ts'
import { Copier } from '../../../src/ir/rewrite.ts'
import { lower } from '../../../src/targets/cuda/stages.ts'
import { atCpuStage } from '../../../src/targets/cpu/stages.ts'
import {
  atStage,
  LAST_STAGE,
  shapesOf,
  specialise,
  usualWorld,
  type Shapes,
} from '../../../src/targets/cuda/facts.ts'
import { itForSome, long } from '../../long.ts'
import { cudaOnCpu, onWorld, places } from './harness.ts'

const real = places.filter((target) => target !== 'check')

/** The line of this file that contains a given string. */
const lineOf = (error: Error): string => /diagnostics\.test\.ts:\d+:\d+/.exec(error.message)?.[0] ?? ''

/** Runs four programs per rank at once. */
const run = <T>(
  target: string,
  ranks: number,
  use: (world: World) => Promise<T>,
  onPrint?: OnPrint,
): Promise<T> => onWorld(target, ranks, use, { workers: 4, onPrint })

/** On rank 1, program 2 finds a number that is not positive, and every other program waits for that program. */
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

describe.each(real)('an assertion on %s', (target) => {
  const metas = [
    { waits: false, whole: false },
    { waits: true, whole: true },
  ]
  // As CUDA C++ on this CPU, where compiling takes long, the short tests have one case.
  itForSome(metas, ({ waits }) => !waits || target !== cudaOnCpu)(
    'stops all ranks and names the rank, the program, the line and the message: %j',
    async (meta) => {
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
    },
  )

  it('does nothing while it holds', target === cudaOnCpu ? long : {}, () =>
    run(target, 2, (world) => launched(world, false, { waits: true, whole: true })),
  )
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

/** Prints scalars and fragments of several dtypes, in a branch and in a loop. */
const talkative = kernel(
  'talkative',
  { x: tensor(f32, 2), halves: tensor(bf16, 1), big: tensor(i64, 1) },
  (t, { x, halves, big }) => {
    const tile = t.load(x.tile([t.program, 0], [2, 6]))
    t.print('who', t.rank, t.program, t.load(halves.at([2])))
    t.print('tile', tile, tile.gt(3), t.load(halves.tile([0], [4])))
    t.if(t.program.eq(1), () => t.for(2, (i) => t.print('loop', i, t.load(big.at([i])))))
  },
)

async function talk(world: World): Promise<void> {
  const args = {
    x: world.from(f32, [4, 6], (rank) => [
      NaN,
      -Infinity,
      ...Array.from({ length: 22 }, (_, i) => rank + i / 10),
    ]),
    halves: world.from(bf16, [4], [0.5, -2, -0, 1]),
    big: world.from(i64, [2], [2 ** 40 + 7, -(2 ** 35) - 1]),
  }
  world.launch(talkative, args, { grid: 2 })
  await world.synchronize()
}

/** The lines that a rank should print, computed in plain TypeScript. */
function said(rank: number): string[] {
  const x = [NaN, -Infinity, ...Array.from({ length: 22 }, (_, i) => rank + i / 10)].map((one) => String(one))
  // A sum that extracts an element from a fragment loses the sign of a zero.
  const halves = '[0.5, -2, 0, 1]'
  const tile = (first: number): string => {
    const shown = x.slice(first, first + 8)
    const above = shown.map((one) => String(Number(one) > 3))
    return `tile [${shown.join(', ')}, …] [${above.join(', ')}, …] ${halves}`
  }
  const of = (program: number, line: string): string =>
    `rank ${rank}, program ${program} of talkative: ${line}`
  return [
    of(0, `who ${rank} 0 -0`),
    of(0, tile(0)),
    of(1, `who ${rank} 1 -0`),
    of(1, tile(12)),
    of(1, `loop 0 ${2 ** 40 + 7}`),
    of(1, `loop 1 ${-(2 ** 35) - 1}`),
  ]
}

const withoutSite = ({ message }: { message: string }): string => message.replace(/^.*?\.ts:\d+:\d+ {2}/, '')

describe.each(places)('printing on %s', (target) => {
  it('reports values with rank, program and line, in a fixed order', async () => {
    const lines: (Printed | DroppedPrints)[] = []
    await run(
      target,
      2,
      async (world) => {
        await talk(world)
        expect(lines.map(withoutSite)).toEqual([0, 1].flatMap(said))
        lines.length = 0
        await talk(world)
      },
      (line) => void lines.push(line),
    )
    expect(lines.map(withoutSite)).toEqual([0, 1].flatMap(said))
    const [who] = lines as Printed[]
    expect(who).toMatchObject({ rank: 0, program: 0, kernel: 'talkative', label: 'who' })
    expect(who.site).toMatch(/diagnostics\.test\.ts:\d+/)
    expect(who.values).toEqual([
      { dtype: 'i32', shape: [], elements: [0] },
      { dtype: 'i32', shape: [], elements: [0] },
      { dtype: 'bf16', shape: [], elements: [-0] },
    ])
  })
})

const endless = kernel('endless', { x: tensor(i32, 1) }, (t, { x }) => {
  t.for(6000, (i) => t.print('i', i))
  t.print('x', t.load(x.at([0])))
  t.assert(t.rank.eq(0), 'this is rank 0')
})

describe.each(real)('a full buffer on %s', (target) => {
  const option = target === 'wasm' ? {} : long
  it('keeps the first lines and counts the others, also when the world stops', option, async () => {
    const lines: (Printed | DroppedPrints)[] = []
    await run(
      target,
      2,
      async (world) => {
        world.launch(endless, { x: world.zeros(i32, [1]) }, { grid: 1 })
        await stopped(world.synchronize())
      },
      (line) => void lines.push(line),
    )
    const kept = lines.filter((line): line is Printed => 'label' in line)
    const dropped = lines.filter((line): line is DroppedPrints => 'dropped' in line)
    // Rank 0 may have been stopped before it printed everything.
    const own = kept.filter(({ rank }) => rank === 1)
    expect(own.length).toBeGreaterThan(1000)
    expect(own.map(({ values }) => values[0].elements[0])).toEqual(own.map((_, i) => i))
    expect(dropped.find(({ rank }) => rank === 1)?.dropped).toBe(6001 - own.length)
  })
})

describe('exploring a scenario', () => {
  it('prints once, for the first schedule', async () => {
    const lines: string[] = []
    const talks = scenario('talks', { ranks: 2 }, talk)
    const options = {
      ranks: 2,
      schedules: 5,
      onPrint: (line: { message: string }) => void lines.push(withoutSite(line)),
    }
    await explore(talks, options)
    expect(lines).toEqual([0, 1].flatMap(said))
  })

  const gpu = (recorded: KernelIR, shapes: Shapes) =>
    atStage(recorded, LAST_STAGE, specialise(usualWorld, shapesOf(recorded, shapes)))
  const stages = [
    ['lowered', 'lowered'],
    ['complete of a CPU', (recorded: KernelIR) => atCpuStage(recorded, 'complete')],
    ['order of a GPU', gpu],
  ] as const

  it.each(stages)('executes the stores of prints after the stage %s', async (_, stage) => {
    const talks = scenario('talks', { ranks: 2 }, talk)
    const { findings, schedules } = await explore(talks, { ranks: 2, stage, preemptions: 1, limit: 40 })
    expect(findings).toEqual([])
    expect(schedules).toBe(40)
    // The programs of the two ranks reserve space in separate buffers, to which no other program writes.
    const writes = new Set<string>()
    const unordered = (recorded: KernelIR, shapes: Shapes): KernelIR => {
      const ir = typeof stage === 'string' ? lower(recorded) : stage(recorded, shapes)
      const copier: Copier = new Copier((node) => {
        if (node.op === 'store') writes.add(paramName(origin(node.inputs[0]).base))
        if (node.op !== 'atomic.add') return undefined
        return copier.emit('load', [copier.get(node.inputs[0])], {}, [], node.site)
      })
      return { ...ir, body: copier.copyBlock(ir.body) }
    }
    const broken = await explore(talks, { ranks: 2, stage: unordered, schedules: 20 })
    expect([...writes].sort()).toEqual(['print_buffer', 'print_buffer_f32'])
    expect(broken.findings.map(({ kind }) => kind)).toContain('race')
  })
})
