/**
 * Tests flag-in-data words, whose low two bits hold the epoch of a flag. Emitted kernels run on this CPU. Other tests
 * check in which cases a kernel uses flags instead of flag-in-data words.
 */
import { describe, expect, it } from 'vitest'
import { bf16, f32, i32 } from '../../src/lang/dtypes.ts'
import { flags, kernel, tensor, type Arguments, type Kernel } from '../../src/lang/kernel.ts'
import type { Program } from '../../src/lang/program.ts'
import type { Fragment } from '../../src/lang/value.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { peerOf, signalEach } from '../../src/ops/flashDecode/fusedForAll.ts'
import { combine, carryingParams, on, slotOf, store } from '../../src/ops/flashDecode/partials.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf } from '../../src/targets/cuda/emit/recipe.ts'
import { randomNumbers } from '../../src/operation/definition.ts'
import { openOnCpu, unavailable } from './onCpu/onCpu.ts'
import { itForSome } from '../long.ts'

const why = unavailable()
if (why) console.info(`emitted kernels cannot run on this machine: ${why}`)

const D = 128
const params = {
  x: tensor(f32, 3),
  out: tensor(f32, 4),
  ...carryingParams('arrived'),
  arrived: flags(3),
}
const sumsAlone = {
  x: tensor(f32, 3),
  out: tensor(f32, 4),
  sums: tensor(f32, 4, { carries: 'arrived' }),
  arrived: flags(3),
}
type Extra = (t: Program, part: { readonly sums: unknown }) => void

/**
 * Each rank sends the weighted softmax of its rows to all ranks, and all ranks combine them. Some ranks have no rows.
 */
const exchange = (G: number, alsoDoes: Extra = () => {}) =>
  kernel('exchange', params, (t, { x, out, sums, stats, arrived }) => {
    const slot = slotOf(t, arrived, 'signal')
    const [G_, meta] = [G, { G, D, splits: 1 }]
    t.persistent([1, 1], ([b, h]) => {
      const rows = t.load(x.pick(0).tile([0, 0], [G_, D]))
      const m = rows.maximum(1)
      const powers = rows.sub(m.expand(1)).exp2()
      const part = { m, l: powers.sum(1), acc: powers.mul(rows) }
      const peer = (step: typeof b) => t.rank.add(step).add(1).mod(t.world)
      t.for(t.world, (step) => store(t, on({ sums, stats }, peer(step)), slot, t.rank, part, meta))
      t.for(t.world, (step) => t.signal(arrived.on(peer(step)).at([t.rank, b, h])))
    })
    alsoDoes(t, { sums })
    combine(t, { sums, stats }, slot, out, meta, (part, b, h) => t.wait(arrived.at([part, b, h])), 'together')
  })

/**
 * A kernel in which each rank keeps its partial results (of several tiles and splits) in its own memory, from which all
 * ranks fetch them.
 */
const fetched = (G: number, splits = 1) =>
  kernel('fetched', params, (t, { x, out, sums, stats, arrived }) => {
    const slot = slotOf(t, arrived, 'signal')
    const meta = { G, D, splits }
    const [batch, heads] = [out.dim(0), out.dim(1)]
    t.persistent([splits, batch, heads], ([split, b, h]) => {
      const at = split.mul(batch).add(b).mul(heads).add(h)
      const rows = t.load(x.pick(at).tile([0, 0], [G, D]))
      const m = rows.maximum(1)
      const powers = rows.sub(m.expand(1)).exp2()
      store(t, { sums, stats }, slot, at, { m, l: powers.sum(1), acc: powers.mul(rows) }, meta)
      signalEach(t, arrived)(peerOf(t), t.rank.mul(splits).add(split), b, h)
    })
    combine(
      t,
      (part) => ({ from: on({ sums, stats }, part.div(splits)), part: part.mod(splits) }),
      slot,
      out,
      meta,
      (...at) => t.wait(arrived.at(at)),
      'together',
    )
  })

const sourceOf = (made: Kernel, facts = {} as object): string => {
  const [sums, stats] = [factsOf([2, 4, 8, D]), factsOf([2, 4, 2, 8])]
  const tensors = { x: factsOf([1, 8, D]), out: factsOf([1, 1, 8, D]), sums, stats }
  return emitCuda(lower(made.record({ world: 4 })), { tensors, ...facts }).source
}

describe('flag-in-data words', () => {
  it('replace flags, their fences and the polls of flags', () => {
    const source = sourceOf(exchange(8))
    expect(source).toMatch(/post_words\(.*take_word\(.*take_words\(/s)
    expect(source).not.toMatch(/flag_store|flag_wait/)
    // The epochs of senders and receivers advance.
    expect(source).toMatch(/arrived_epochs\[0\] = .*arrived_epochs\[1\] = /s)
  })

  it('are polled on the rank that stored them', () => {
    const source = sourceOf(fetched(8))
    expect(source).toMatch(/post_words\(sums \+.*take_words\(on_rank\(sums, \w+ - rank, heap_stride\) \+/s)
    expect(source).not.toMatch(/flag_store|flag_wait|post_words\(on_rank/)
  })

  it.each([
    ['where waits are written down', exchange(8), { record: true }],
    [
      'if a kernel copies a tile of the tensor',
      exchange(8, (t, { sums }) => {
        const place = sums as Parameters<typeof store>[1]['sums']
        t.copy(place.pick(0).pick(0).tile([0, 0], [8, D]), t.shared(f32, [8, D]))
      }),
      {},
    ],
  ])('are not used %s', (_, made, facts) => {
    expect(sourceOf(made, facts)).toMatch(/flag_store.*flag_wait/s)
  })

  type Body = (t: Program, args: Arguments<typeof sumsAlone>) => void
  const rowsOf: (...given: Parameters<Body>) => Fragment<'f32', 2> = (t, { x }) => {
    const rows = t.load(x.pick(0).tile([0, 0], [8, D]))
    return rows.sub(rows.maximum(1).expand(1))
  }
  const show: (given: Parameters<Body>, shown: Fragment<'f32', 2>) => void = ([t, { out }], shown) =>
    t.store(out.pick(0).pick(0).tile([0, 0], [8, D]), shown.sub(shown.maximum(1).expand(1)))
  const sent: Body = (t, args) => {
    const { sums, arrived } = args
    t.store(sums.on(t.rank.add(1).mod(t.world)).pick(0).pick(t.rank).tile([0, 0], [8, D]), rowsOf(t, args))
    t.signal(arrived.on(t.rank.add(1).mod(t.world)).at([t.rank, 0, 0]))
  }
  const received: Body = (t, args) => {
    t.wait(args.arrived.at([0, 0, 0]))
    show([t, args], t.load(args.sums.pick(0).pick(0).tile([0, 0], [8, D])))
  }
  const both =
    (more: Body): Body =>
    (t, args) => {
      sent(t, args)
      more(t, args)
      received(t, args)
    }

  type Case = readonly [what: string, isHad: boolean, body: Body, shape?: readonly number[]]
  const cases: readonly Case[] = [
    ['a tensor that is sent and received', true, both(() => {})],
    [
      'a poll of a flag',
      false,
      both((t, { arrived, out }) =>
        t.if(t.reached(arrived.at([0, 0, 0])), () => t.store(out.at([0, 0, 0, 0]), 1)),
      ),
    ],
    [
      'a wait for an earlier launch',
      false,
      both((t, { arrived }) => t.wait(arrived.at([0, 0, 0]), { lag: 1 })),
    ],
    ['a sender alone', false, sent],
    ['a receiver alone', false, received],
    ['a tile that crosses the end of rows', false, both(() => {}), [2, 4, 8, 100]],
    ['a tile that crosses the last row', false, both(() => {}), [2, 4, 5, D]],
    ['rows that are not aligned', false, both(() => {}), [2, 4, 8, 130]],
    [
      'a tile of another shape',
      false,
      both((t, { sums, out }) => {
        const tall = t.load(sums.pick(0).pick(0).tile([0, 0], [16, D]))
        t.store(out.pick(0).pick(0).tile([0, 0], [16, D]), tall.sub(tall.maximum(1).expand(1)))
      }),
    ],
    [
      'another tensor that is sent, which the flags may also signal',
      false,
      both((t, { x }) => t.store(x.on(t.rank.add(1).mod(t.world)).at([0, 0, 0]), 1)),
    ],
  ]
  it.each(cases.map(([what, ...rest]) => ({ what, rest })))('are had for $what, or not', ({ rest }) => {
    const [isHad, body, shape = [2, 4, 8, D]] = rest
    const made = kernel('made', sumsAlone, body)
    const tensors = { x: factsOf([1, 8, D]), out: factsOf([1, 1, 16, D]), sums: factsOf(shape) }
    const { source } = emitCuda(lower(made.record({ world: 4 })), { tensors })
    expect(/post_word|take_word/.test(source)).toBe(isHad)
    expect(/flag_store|flag_wait/.test(source)).toBe(!isHad)
  })

  it('are of f32 alone, and of flags that there are', () => {
    expect(() => tensor(bf16, 2, { carries: 'arrived' })).toThrow('must have dtype f32, not bf16')
    const wrong = kernel('wrong', { x: tensor(f32, 1, { carries: 'y' }), y: tensor(i32, 1) }, () => {})
    expect(() => wrong.record({ world: 1 })).toThrow(
      'the tensor x carries y, which must be a flags parameter of the kernel with one arrival',
    )
  })
})

describe.skipIf(why !== undefined)('words that carry epochs, on this CPU', () => {
  const exchanges = [
    ['sent', 1, 8, exchange(8)],
    ['sent', 2, 8, exchange(8)],
    ['sent', 4, 8, exchange(8)],
    ['sent', 3, 16, exchange(16)],
    ['fetched', 1, 8, fetched(8)],
    ['fetched', 4, 8, fetched(8)],
    ['fetched', 3, 16, fetched(16)],
  ] as const
  itForSome(exchanges, ([how, ranks]) => how === 'fetched' && ranks === 4)(
    'are all there, %s on %i ranks, %i rows',
    async ([, ranks, G, made]) => {
      const world = openOnCpu(ranks)
      const out = world.zeros(f32, [1, 1, G, D])
      const x = world.zeros(f32, [1, G, D])
      const inbox = { sums: world.zeros(f32, [2, ranks, G, D]), stats: world.zeros(f32, [2, ranks, 2, G]) }
      const arrived = world.flags([ranks, 1, 1])
      for (let launch = 0; launch < 7; launch++) {
        const rows = Array.from({ length: ranks }, (_, rank) =>
          randomNumbers('f32', G * D, 100 * launch + 10 * rank + G).map((number) => 4 * number),
        )
        rows.forEach((own, rank) => world.write(x, rank, own))
        world.launch(made, { x, out, ...inbox, arrived }, { grid: 1 })
        for (let rank = 0; rank < ranks; rank++) {
          const found = await world.read(out, rank)
          for (let i = 0; i < G * D; i++) {
            const row = Math.floor(i / D)
            const all = rows.map((own) => own.subarray(row * D, (row + 1) * D))
            const sum = all.reduce((total, own) => total + own.reduce((a, v) => a + 2 ** v, 0), 0)
            const wanted = all.reduce((total, own) => total + 2 ** own[i % D] * own[i % D], 0) / sum
            expect(Math.abs(found[i] - wanted), `launch ${launch}, rank ${rank}, ${i}`).toBeLessThan(2e-6)
          }
        }
      }
      await world.close()
    },
  )

  const parted = [
    { ranks: 3, splits: 2, batch: 2, heads: 1, grid: 1 },
    { ranks: 2, splits: 3, batch: 1, heads: 2, grid: 2 },
    { ranks: 4, splits: 2, batch: 3, heads: 1, grid: 5 },
    { ranks: 1, splits: 2, batch: 1, heads: 1, grid: 3 },
  ]
  itForSome(parted, ({ ranks }) => ranks === 2)(
    'are fetched, of several parts and tiles: %o',
    async ({ ranks, splits, batch, heads, grid }) => {
      const [G, tiles] = [8, batch * heads]
      const made = fetched(G, splits)
      const world = openOnCpu(ranks)
      const x = world.zeros(f32, [splits * tiles, G, D])
      const out = world.zeros(f32, [batch, heads, G, D])
      const outbox = {
        sums: world.zeros(f32, [2, splits * tiles, G, D]),
        stats: world.zeros(f32, [2, splits * tiles, 2, G]),
      }
      const arrived = world.flags([ranks * splits, batch, heads])
      for (let launch = 0; launch < 9; launch++) {
        const rows = Array.from({ length: ranks }, (_, rank) =>
          randomNumbers('f32', splits * tiles * G * D, 100 * launch + rank + 1).map((number) => 4 * number),
        )
        rows.forEach((own, rank) => world.write(x, rank, own))
        world.launch(made, { x, out, ...outbox, arrived }, { grid })
        const wanted = Float64Array.from({ length: tiles * G * D }, (_, i) => {
          const [row, column] = [Math.floor(i / D), i % D]
          const parts = rows.flatMap((own) =>
            Array.from({ length: splits }, (_, split) => {
              const from = (split * tiles * G + row) * D
              return own.subarray(from, from + D)
            }),
          )
          const sum = parts.reduce((total, part) => total + part.reduce((a, v) => a + 2 ** v, 0), 0)
          return parts.reduce((total, part) => total + 2 ** part[column] * part[column], 0) / sum
        })
        for (let rank = 0; rank < ranks; rank++) {
          const found = await world.read(out, rank)
          const worst = Math.max(...found.map((value, i) => Math.abs(value - wanted[i])))
          expect(worst, `launch ${launch}, rank ${rank}`).toBeLessThan(2e-6)
        }
      }
      await world.close()
    },
  )

  it('are distinguished from the zeros of a new inbox, for every epoch', async () => {
    const [ranks, G] = [2, 8]
    const made = exchange(G)
    const world = openOnCpu(ranks)
    const [x, out] = [world.zeros(f32, [1, G, D]), world.zeros(f32, [1, 1, G, D])]
    const arrived = world.flags([ranks, 1, 1])
    for (let launch = 1; launch <= 9; launch++) {
      const inbox = { sums: world.zeros(f32, [2, ranks, G, D]), stats: world.zeros(f32, [2, ranks, 2, G]) }
      for (let rank = 0; rank < ranks; rank++) world.write(x, rank, new Float32Array(G * D).fill(launch))
      world.launch(made, { x, out, ...inbox, arrived }, { grid: 1 })
      for (let rank = 0; rank < ranks; rank++)
        for (const value of await world.read(out, rank)) expect(value).toBeCloseTo(launch / D, 5)
    }
    await world.close()
  })

  it.each([
    ['by each thread alone', false],
    ['by all threads, which compute a reduction together', true],
  ])('are added to the accumulator exactly once if polled repeatedly %s', async (_, isTogether) => {
    const adding = kernel('adding', sumsAlone, (t, { x, out, sums, arrived }) => {
      const slot = slotOf(t, arrived, 'signal')
      const rows = t.load(x.pick(0).tile([0, 0], [8, D]))
      const own = rows.sub(rows.maximum(1).expand(1))
      const peer = (step: typeof slot) => t.rank.add(step).add(1).mod(t.world)
      t.for(t.world, (step) => t.store(sums.on(peer(step)).pick(slot).pick(t.rank).tile([0, 0], [8, D]), own))
      t.for(t.world, (step) => t.signal(arrived.on(peer(step)).at([t.rank, 0, 0])))
      t.for(t.world, (part) => t.wait(arrived.at([part, 0, 0])))
      const total = t.for(t.world, own, (part, total) => {
        const sent = t.load(sums.pick(slot).pick(part).tile([0, 0], [8, D]))
        // The maximum of every row is 0.
        return total.add(isTogether ? sent.sub(sent.maximum(1).expand(1)) : sent)
      })
      t.store(out.pick(0).pick(0).tile([0, 0], [8, D]), total)
    })
    const ranks = 3
    const source = sourceOf(adding)
    expect(source).toContain('take_words')
    expect(/if \(group_any\(.*missing_1/.test(source)).toBe(isTogether)
    const world = openOnCpu(ranks)
    const [x, out] = [world.zeros(f32, [1, 8, D]), world.zeros(f32, [1, 1, 8, D])]
    const inbox = { sums: world.zeros(f32, [2, ranks, 8, D]) }
    const arrived = world.flags([ranks, 1, 1])
    for (let launch = 0; launch < 5; launch++) {
      // The values are integers, whose low two mantissa bits are 0, so the epoch bits do not change them.
      const rows = Array.from({ length: ranks }, (_, rank) =>
        Float32Array.from({ length: 8 * D }, (_, i) => (i * (rank + 3) + launch) % 17),
      )
      rows.forEach((own, rank) => world.write(x, rank, own))
      world.launch(adding, { x, out, ...inbox, arrived }, { grid: 1 })
      const lowered = rows.map((own) =>
        own.map((value, i) => value - Math.max(...own.subarray(i - (i % D), i - (i % D) + D))),
      )
      for (let rank = 0; rank < ranks; rank++)
        expect([...(await world.read(out, rank))], `launch ${launch}, rank ${rank}`).toEqual(
          [...lowered[rank]].map((own, i) => lowered.reduce((sum, one) => sum + one[i], own)),
        )
    }
    await world.close()
  })
})
