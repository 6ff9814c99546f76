/** Tests lowered control flow, carried state and flags; operations that the emitted code must not contain; aborts. */
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, i32, kernel, scalar, tensor, type World } from '../../../../src/index.ts'
import {
  control,
  event,
  eventKind,
  faultCode,
  slot as slotBlock,
  stopReason,
} from '../../../../src/targets/cpu/abi.ts'
import type { CodeFunction, Statement } from '../../../../src/targets/cpu/code.ts'
import { Harness, onBoth, platforms } from '../harness.ts'

describe.each(platforms())('lowered for $name', (platform) => {
  const expectSame = async (
    ranks: number,
    run: (world: World) => Promise<readonly Float64Array[]>,
  ): Promise<void> => {
    const { expected, actual } = await onBoth(platform, ranks, run)
    expect(actual).toEqual(expected)
  }

  describe('control flow', () => {
    it('loops with steps, while loops, branches that yield scalars and fragments', async () => {
      const program = kernel(
        'flow',
        { x: tensor(i32, 1), out: tensor(i32, 2), n: scalar(i32) },
        (t, { x, out, n }) => {
          const steps = t.for({ from: 1, to: n, step: t.load(x.at([0])) }, t.constant(i32, 0), (i, sum) =>
            sum.add(i),
          )
          const { a } = t.while(
            { a: n, n: t.constant(i32, 1) },
            ({ a }) => a.gt(1),
            ({ a, n: count }) => ({ a: a.mod(2).eq(0).select(a.div(2), a.mul(3).add(1)), n: count.add(1) }),
          )
          const chosen = t.if(
            n.gt(5),
            () => ({ f: t.arange(6), s: steps }),
            () => ({ f: t.full(i32, [6], 9), s: a }),
          )
          t.store(out.pick(0).tile([0], [6]), chosen.f.add(chosen.s))
          t.store(out.pick(1).tile([0], [6]), t.full(i32, [6], 1).mul(steps.add(a)))
        },
      )
      for (const n of [3, 10])
        await expectSame(1, async (world) => {
          const out = world.empty(i32, [2, 6])
          world.launch(program, { x: world.from(i32, [1], [2]), out, n }, { grid: 1 })
          return [await world.read(out, 0)]
        })
    })

    it('carries fragments that are exchanged or depend on each other through nested loops', async () => {
      const program = kernel('carried', { x: tensor(f32, 2), out: tensor(f32, 3) }, (t, { x, out }) => {
        const start = { a: t.load(x.tile([0, 0], [3, 5])), b: t.full(f32, [3, 5], 2), c: t.zeros(f32, [5]) }
        const end = t.for(5, start, (i, { a, b, c }) => ({
          a: b,
          b: a.add(c.expand(0).broadcast([3, 5])),
          c: t.for(2, c, (_, inner) => inner.add(a.sum(0))).sub(i.to(f32)),
        }))
        t.store(out.pick(0).tile([0, 0], [3, 5]), end.a)
        t.store(out.pick(1).tile([0, 0], [3, 5]), end.b.sub(end.c.expand(0).broadcast([3, 5])))
      })
      await expectSame(1, async (world) => {
        const x = world.from(
          f32,
          [3, 5],
          Array.from({ length: 15 }, (_, i) => i % 4),
        )
        const out = world.empty(f32, [2, 3, 5])
        world.launch(program, { x, out }, { grid: 1 })
        return [await world.read(out, 0)]
      })
    })

    it('teams, and the last program of each', async () => {
      const program = kernel('teams', { out: tensor(i32, 1), done: tensor(i32, 1) }, (t, { out, done }) => {
        const note = (from: number) => () => {
          t.persistent([4], ([i]) => t.store(out.at([i.add(from)]), t.program.mul(100).add(t.programs)))
          t.last(() => t.atomic.add(done.at([from / 4]), t.programs))
        }
        t.teams({ some: { programs: 2, body: note(0) }, rest: { programs: 'rest', body: note(4) } })
      })
      await expectSame(2, async (world) => {
        const [out, done] = [world.empty(i32, [8]), world.zeros(i32, [2])]
        for (let i = 0; i < 2; i++) world.launch(program, { out, done }, { grid: 5 })
        return [await world.read(out, 1), await world.read(done, 0), await world.read(done, 1)]
      })
    })

    it('advances epochs once per launch, for flags with one arrival and with several', async () => {
      const program = kernel(
        'epochs',
        { a: flags(1), b: flags(0, { arrivals: 3 }), out: tensor(i32, 1) },
        (t, { a, b, out }) => {
          t.signal(b)
          t.last(() => {
            t.signal(a.at([1]))
            t.wait(a.at([1]))
            t.wait(b)
            t.wait(a.at([0]), { lag: 5 })
            t.store(out.at([0]), t.epoch(a).to(i32).mul(10).add(t.epoch(b, 'wait').to(i32)))
          })
        },
      )
      await expectSame(2, async (world) => {
        const [a, b] = [world.flags([2]), world.flags([], { arrivals: 3 })]
        const out = world.empty(i32, [1])
        for (let i = 0; i < 3; i++) world.launch(program, { a, b, out }, { grid: 3 })
        return [await world.read(out, 0), await world.read(out, 1)]
      })
    })
  })

  const programOf = (entry: CodeFunction): CodeFunction => {
    const find = (statements: readonly Statement[]): CodeFunction | undefined => {
      for (const statement of statements) {
        if (statement.kind === 'call' && statement.function.name === 'program') return statement.function
        const inner = 'body' in statement ? find(statement.body) : undefined
        if (inner) return inner
      }
      return undefined
    }
    return find(entry.body)!
  }

  describe('emitted code', () => {
    it('accumulates products in place, without copying the accumulator in a loop', () => {
      const product = kernel(
        'product',
        { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
        (t, { a, b, c }) => {
          const [as, bs] = [t.shared(bf16, [8, 16]), t.shared(bf16, [16, 12])]
          const sum = t.pipeline([a.dim(1).div(16)], t.zeros(f32, [8, 12]), ([k], acc) => {
            t.copy(a.tile([0, k], [8, 16]), as)
            t.copy(b.tile([k, 0], [16, 12]), bs)
            return t.dot(as, bs, acc)
          })
          t.store(c.tile([0, 0], [8, 12]), sum)
        },
      )
      const { body } = programOf(new Harness(platform, 1).lower(product).module.entries[0])
      const loop = body.find((statement) => statement.kind === 'for')
      const kinds = loop?.kind === 'for' ? loop.body.map((statement) => statement.kind) : []
      expect(kinds.filter((kind) => kind === 'call')).toHaveLength(3)
      expect(
        kinds.filter((kind) => ['copyBytes', 'zeroBytes', 'load', 'store', 'for'].includes(kind)),
      ).toEqual([])
    })

    it('records programs and remote copies on request, and does not read the clock otherwise', () => {
      const program = kernel('recorded', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) => {
        t.copy(x.on(t.rank.add(1).mod(t.world)).tile([0], [4]), y.tile([0], [4]))
      })
      const harness = new Harness(platform, 2)
      expect(JSON.stringify(harness.lower(program).module.entries)).not.toContain('"now"')
      harness.record = true
      const events = 256 * 1024
      const slot = harness.slotOf(0)
      harness.words[(slot + slotBlock.events) >> 2] = events
      harness.words[(slot + slotBlock.eventCapacity) >> 2] = 3
      const x = harness.from('f32', [4], [1, 2, 3, 4])
      harness.launch(program, { x, y: harness.empty('f32', [4]) }, { grid: 2, ranks: [0] })
      expect(harness.words[(slot + slotBlock.eventCount) >> 2]).toBe(4)
      const field = (i: number, offset: number): number =>
        harness.words[(events + i * event.bytes + offset) >> 2]
      expect([0, 1, 2].map((i) => field(i, event.kind))).toEqual([
        eventKind.copy,
        eventKind.program,
        eventKind.copy,
      ])
      expect([field(0, event.who), field(0, event.what), field(1, event.who)]).toEqual([1, 16, 0])
      expect(field(3, event.kind)).toBe(0)
    })
  })

  describe('aborts', () => {
    it.each([
      ['divisionByZero', 0, 1],
      ['badStep', 1, 0],
      ['badRank', 1, 1],
    ] as const)('%s says who and where', (fault, divisor, step) => {
      const program = kernel('faulty', { x: tensor(i32, 1) }, (t, { x }) => {
        const [by, up] = [t.load(x.at([0])), t.load(x.at([1]))]
        const value = t.constant(i32, 6).div(by)
        t.for({ to: 3, step: up }, (i) => t.store(x.at([2]), value.add(i)))
        t.store(x.on(by.add(1)).at([2]), 0)
      })
      const harness = new Harness(platform, 2)
      harness.launch(program, { x: harness.from('i32', [3], [divisor, step, 0]) }, { grid: 1, ranks: [1] })
      expect(harness.returned).toEqual([-1])
      expect(harness.words[control.abort >> 2]).toBe(stopReason.fault)
      expect(harness.words[control.faulty >> 2]).toBe(2)
      const slot = harness.slotOf(1)
      expect(harness.words[(slot + slotBlock.fault) >> 2]).toBe(faultCode[fault])
      const site = harness.lower(program).sites[harness.words[(slot + slotBlock.site) >> 2]]
      expect(String(site)).toContain('control.test.ts')
    })

    it('leaves an infinite loop after an abort', () => {
      const program = kernel('endless', { x: tensor(i32, 1) }, (t, { x }) => {
        t.while(
          { n: t.constant(i32, 0) },
          ({ n }) => n.ge(0),
          ({ n }) => {
            t.store(x.at([0]), n)
            return { n: n.add(1).mod(7) }
          },
        )
      })
      const harness = new Harness(platform, 1)
      harness.words[control.abort >> 2] = stopReason.host
      harness.launch(program, { x: harness.zeros('i32', [1]) }, { grid: 1 })
      expect(harness.returned).toEqual([-1])
    })
  })
})
