/**
 * Tests the obstacles that turn a pipeline into a plain loop. Each obstacle must produce a note that names its lines,
 * and the results must be unchanged.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { f32, i32, type Program, type Scalar } from 'arke'
import { attribute, walk, type Node } from '../../src/ir/node.ts'
import { origin } from '../../src/ir/ops/index.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { count, lowered, ops, recorded, rolesOf, type Args } from './lowered.ts'

const lines = readFileSync(fileURLToPath(import.meta.url), 'utf8').split('\n')
const lineOf = (marker: string): string =>
  `obstacles.test.ts:${lines.findIndex((l) => l.endsWith(`// ${marker}`)) + 1}:`

const copyAndStore = (t: Program, { a, c }: Args, as: ReturnType<Program['shared']>, row = 0) =>
  t.pipeline([3], ([k]) => {
    t.copy(a.tile([row, k], [2, 2]), as as never)
    t.store(c.tile([row, k], [2, 2]), t.load(as) as never)
  })

describe('what a block does before its first pipeline', () => {
  const zeros = (t: Program) => t.zeros(f32, [2, 2])
  it.each<[string, string, (t: Program, args: Args) => void]>([
    ['a write of what the pipeline reads', 'store', (t, { a }) => t.store(a.tile([0, 1], [2, 2]), zeros(t))],
    [
      'a write of it on all ranks',
      'store',
      (t, { a }) => t.for(t.world, (rank) => t.store(a.on(rank).tile([0, 1], [2, 2]), zeros(t))),
    ],
    ['an acquire', 'load', (t, { counter }) => t.load(counter.at([0]), { order: 'acquire' })],
    ['a poll whose result is unused', 'reached', (t, { ready }) => t.reached(ready)],
  ])('is finished before the producer copies: %s', (_, op, prepare) => {
    const ir = lowered((t, args) => {
      const as = t.shared(f32, [2, 2])
      prepare(t, args)
      copyAndStore(t, args, as as never)
    })
    expect(ir.notes).toEqual([])
    const { producer, consumer } = rolesOf(ir)
    expect(count(producer, op)).toBe(0)
    expect(ops(producer)).toContain('copy.async')
    const isGate = (node: Node): boolean => attribute<number>(origin(node.inputs[0]).base, 'count') === 1
    const [waits, arrives] = [producer, consumer].map((role) =>
      [...walk(role)].flatMap((node, at) =>
        ['barrier.wait', 'barrier.arrive'].includes(node.op) && isGate(node) ? [at] : [],
      ),
    )
    expect([waits.length, arrives.length]).toEqual([1, 1])
    expect(waits[0]).toBeLessThan(ops(producer).indexOf('for'))
    expect(arrives[0]).toBeGreaterThan(ops(consumer).indexOf(op))
  })
  it('starts no later if the producer need not wait for it', () => {
    const ir = lowered((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.store(args.c.tile([1, 1], [2, 2]), zeros(t))
      copyAndStore(t, args, as as never)
    })
    expect(count(rolesOf(ir).consumer, 'barrier.arrive')).toBe(1)
  })
})

describe('obstacles', () => {
  /** Returns the note after verifying that the pipeline became a plain loop with the same results. */
  const obstacle = (body: (t: Program, args: Args) => void): string => {
    const ir = lowered(body)
    expect(ops(ir.body)).not.toContain('copy.async')
    expect(ir.notes).toHaveLength(1)
    return ir.notes![0]
  }
  it('a tile used outside', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => { // outside: pipeline
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      }) // prettier-ignore
      t.store(c.tile([1, 0], [2, 2]), t.load(as)) // outside: use
    })
    expect(note).toContain(`${lineOf('outside: pipeline')}`)
    expect(note).toMatch(
      /the pipeline runs without overlap: the shared tile that the pipeline fills is also used at/,
    )
    expect(note).toContain(lineOf('outside: use'))
  })
  it('a tensor that the pipeline reads and the block writes', () => {
    const note = obstacle((t, { a, n }) => {
      const as = t.shared(f32, [2, 2])
      t.for(n, (i) => {
        t.pipeline([2], ([k]) => {
          t.copy(a.tile([i, k], [2, 2]), as) // reads a
          t.store(a.tile([i, k.add(1)], [2, 2]), t.load(as)) // writes a
        })
      })
    })
    expect(note).toMatch(/the pipeline reads a \(.*\), which is written at/)
    expect(note).toContain(lineOf('reads a'))
    expect(note).toContain(lineOf('writes a'))
  })
  it('but not a tensor that is written only on other ranks', () => {
    const before = recorded((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.for(t.world - 1, (step) =>
        t.store(a.on(t.rank.add(step).add(1).mod(t.world)).tile([0, 0], [2, 2]), t.zeros(f32, [2, 2])),
      )
      copyAndStore(t, { a, c } as Args, as)
    })
    const { notes, body } = lower(before)
    expect(notes).toEqual([])
    expect(ops(body)).toContain('copy.async')
  })
  it.each([
    ['all ranks', (t: Program, step: Scalar) => t.rank.add(step).mod(t.world)],
    ['one step too far', (t: Program, step: Scalar) => t.rank.add(step).add(2).mod(t.world)],
    ['a rank that is not its own plus something', (t: Program, step: Scalar) => step.add(1).mod(t.world)],
  ])('but what is written to %s is one', (_, peer) => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.for(2, () => {
        t.for(t.world - 1, (step) => t.store(a.on(peer(t, step)).tile([0, 0], [2, 2]), t.zeros(f32, [2, 2])))
        copyAndStore(t, { a, c } as Args, as)
      })
    })
    expect(note).toMatch(/the pipeline reads a \(.*\), which is written at/)
  })
  it('a tensor that is written to other ranks and read from them', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      const peer = t.rank.add(1).mod(t.world)
      copyAndStore(t, { a: a.on(peer), c } as Args, as)
      t.store(a.on(peer).tile([0, 0], [2, 2]), t.zeros(f32, [2, 2]))
    })
    expect(note).toMatch(/the pipeline reads a \(.*\), which is written at/)
  })
  it('bounds that the block writes', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.for(args.n, (i) => {
        const size = t
          .load(args.counter.at([0]))
          .min(2)
          .add(1)
        t.pipeline([size], ([k]) => {
          t.copy(args.a.tile([0, k], [2, 2]), as)
          t.store(args.c.tile([0, k], [2, 2]), t.load(as))
        })
        t.store(args.counter.at([0]), i) // writes the bound
      })
    })
    expect(note).toMatch(/the pipeline reads counter/)
    expect(note).toContain(lineOf('writes the bound'))
  })
  it('a dependence on an atomic', () => {
    const note = obstacle((t, { a, c, counter }) => {
      const as = t.shared(f32, [2, 2])
      const row = t.atomic.add(counter.at([0]), 1) // atomic
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([row, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      })
    })
    expect(note).toMatch(/the copied data depend on atomic\.add at/)
    expect(note).toContain(lineOf('atomic'))
  })
  it('a dependence on a value that the consumer computes', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      const row = t.pipeline([3], t.constant(i32, 0), ([k], row) => {
        t.copy(a.tile([row, k], [2, 2]), as)
        return t.load(as).sum(0).sum().to(i32).and(1) // from the tile
      })
      t.store(c.at([0, row]), 1)
    })
    expect(note).toMatch(/depend on the load at .* from a shared tile that the pipeline itself fills/)
    expect(note).toContain(lineOf('from the tile'))
  })
  it('a dependence on a product', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      const acc = t.dot(t.full(f32, [2, 2], 1), t.full(f32, [2, 2], 0), t.zeros(f32, [2, 2])) // product
      const row = acc.sum(0).sum().to(i32)
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([row, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      })
    })
    expect(note).toMatch(/depend on dot at/)
    expect(note).toContain(lineOf('product'))
  })
  it('an acquire that only the consumer would execute', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.for(2, () => {
        t.load(args.counter.at([0]), { order: 'acquire' }) // acquire
        copyAndStore(t, args, as as never)
      })
    })
    expect(note).toMatch(/the copies might have to follow load at/)
    expect(note).toContain(lineOf('acquire'))
  })
  it('but not a relaxed load, nor an acquire after it', () => {
    const ir = lowered((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.load(args.counter.at([0]), { order: 'relaxed' })
      copyAndStore(t, args, as as never)
      t.fence('acquire')
    })
    expect(ir.notes).toEqual([])
  })
  it('a poll of a flag that decides both copies and stores, with any order', () => {
    for (const order of ['acquire', 'relaxed'] as const) {
      const note = obstacle((t, args) => {
        const as = t.shared(f32, [2, 2])
        t.if(t.reached(args.ready, { order }), () => copyAndStore(t, args, as as never)) // look
      })
      expect(note).toMatch(/both the copied data and the work of the consumer depend on reached at/)
      expect(note).toContain(lineOf('look'))
    }
  })
  it('but not a poll that decides only copies: the consumer does not execute it', () => {
    for (const order of ['acquire', 'relaxed'] as const) {
      const ir = lowered((t, { a, c, ready }) => {
        const as = t.shared(f32, [2, 2])
        const { sum } = t.pipeline(
          [3],
          { sum: t.zeros(f32, [2, 2]), row: t.constant(i32, 0), seen: t.constant(i32, 0) },
          ([k], { sum, row, seen }) => {
            const next = t.if(
              t.reached(ready, { order }),
              () => row.add(1).mod(2),
              () =>
                t.while(
                  row,
                  (at) => at.lt(1),
                  (at) => at.add(1),
                ),
            )
            t.copy(a.tile([next, k], [2, 2]), as)
            return { sum: sum.add(t.load(as)), row: next, seen: seen.add(next) }
          },
        )
        t.store(c.tile([0, 0], [2, 2]), sum)
      })
      expect(ir.notes).toEqual([])
      const { producer, consumer } = rolesOf(ir)
      expect([producer, consumer].map((role) => count(role, 'reached'))).toEqual([1, 0])
      expect([producer, consumer].map((role) => count(role, 'while'))).toEqual([1, 0])
      // Only the consumer's loop carries the sum, only the producer's the row, and no loop carries the polled result.
      const state = (role: typeof producer): unknown[] =>
        [...walk(role)]
          .find(({ op }) => op === 'for')!
          .blocks[0].params.map(({ attributes }) => attributes.name)
      expect(state(producer)).toEqual(['i0', 'row', 'slot', 'phase'])
      expect(state(consumer)).toEqual(['i0', 'sum', 'slot', 'phase'])
    }
  })
  it('nor a poll in a pipeline with an unused result, whose slots are still released', () => {
    const row = (t: Program, { ready }: Args): Scalar =>
      t.if(
        t.reached(ready, { order: 'relaxed' }),
        () => t.constant(i32, 1),
        () => t.constant(i32, 0),
      )
    for (const turns of [1, 5]) {
      const ir = lowered((t, args) => {
        const as = t.shared(f32, [2, 2])
        const sumOf = (at: () => Scalar | number) =>
          t.pipeline([turns], t.zeros(f32, [2, 2]), ([k], sum) => {
            t.copy(args.a.tile([at(), k], [2, 2]), as)
            return sum.add(t.load(as))
          })
        t.for(2, () => {
          sumOf(() => row(t, args).add(1))
          t.store(
            args.c.tile([0, 0], [2, 2]),
            sumOf(() => 0),
          )
        })
      })
      expect(ir.notes).toEqual([])
      const { producer, consumer } = rolesOf(ir)
      for (const role of [producer, consumer]) expect(count(role, 'barrier.wait')).toBe(2)
    }
  })
  it('an acquiring poll before the pipeline, even if only the producer needs the result', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      const turns = t.while(
        t.constant(i32, 0),
        () => t.reached(args.ready).not(), // look outside
        (n) => n.add(1).mod(2),
      )
      const first = t.load(args.b.tile([0, 0], [2, 2]))
      const sum = t.pipeline([3], first, ([k], acc) => {
        t.copy(args.a.tile([turns, k], [2, 2]), as)
        return acc.add(t.load(as))
      })
      t.store(args.c.tile([0, 0], [2, 2]), sum)
    })
    expect(note).toMatch(/the copies might have to follow reached at/)
    expect(note).toContain(lineOf('look outside'))
  })
  it('a signal before a poll: the poll may be repeated until other ranks have observed the signal', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([2], ([k]) => {
        t.signal(args.done.on(t.rank.add(1).mod(t.world))) // signal first
        const row = t.while(
          t.constant(i32, 0),
          () => t.reached(args.ready).not(),
          (n) => n.add(1).mod(2),
        )
        t.copy(args.a.tile([row, k], [2, 2]), as)
        t.store(args.c.tile([0, k], [2, 2]), t.load(as))
      })
    })
    expect(note).toMatch(/signal at .* precedes the poll at .* in the same iteration/)
    expect(note).toContain(lineOf('signal first'))
  })
  it('teams beside it, also without a pipeline of their own', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.teams({
        one: { programs: 1, body: () => t.store(args.c.tile([1, 0], [2, 2]), t.zeros(f32, [2, 2])) },
        others: { programs: 'rest', body: () => undefined },
      }) // teams beside
      copyAndStore(t, args, as as never)
    })
    expect(note).toMatch(/the teams at .* beside a pipeline/)
  })
  it('an acquiring poll before the pipeline whose result is unused', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.for(2, () => {
        t.reached(args.ready) // ordering look
        copyAndStore(t, args, as as never)
      })
    })
    expect(note).toMatch(/the copies might have to follow reached at/)
    expect(note).toContain(lineOf('ordering look'))
  })
  it('a copy in a loop inside', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([2], ([i]) => {
        t.for(3, (k) => {
          t.copy(a.tile([i, k], [2, 2]), as) // looped copy
          t.store(c.tile([i, k], [2, 2]), t.load(as))
        })
      })
    })
    expect(note).toMatch(/is in a loop inside the pipeline/)
    expect(note).toContain(lineOf('looped copy'))
  })
  it('a tile filled twice in an iteration', () => {
    const note = obstacle((t, { a, b, c }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([0, k], [2, 2]), as) // first fill
        t.store(c.tile([0, k], [2, 2]), t.load(as))
        t.copy(b.tile([k, 0], [2, 2]), as) // second fill
        t.store(c.tile([1, k], [2, 2]), t.load(as))
      })
    })
    expect(note).toMatch(/fills one shared tile twice/)
    expect(note).toContain(lineOf('first fill'))
    expect(note).toContain(lineOf('second fill'))
  })
  it('a tile filled in some iterations only', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.if(k.eq(0), () => t.copy(a.tile([0, k], [2, 2]), as))
        t.store(c.tile([0, k], [2, 2]), t.load(as)) // use of an old tile
      })
    })
    expect(note).toMatch(/used at .* without a copy before it in the same iteration/)
    expect(note).toContain(lineOf('use of an old tile'))
  })
  it('a tile used before it is filled', () => {
    const note = obstacle((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.store(as, 4) // overwritten
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      })
    })
    expect(note).toContain(lineOf('overwritten'))
  })
  it('a signal before a wait: a peer may wait for the signal before it answers', () => {
    const note = obstacle((t, { a, c, ready, done }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.signal(done) // request
        t.wait(ready) // answer
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      })
    })
    expect(note).toMatch(/signal at .* precedes the wait at/)
    expect(note).toContain(lineOf('request'))
    expect(note).toContain(lineOf('answer'))
  })
  it('roles of the author beside it', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      copyAndStore(t, args, as as never)
      t.roles({ one: () => t.store(args.c.at([5, 5]), 1) }) // roles
    })
    expect(note).toContain(lineOf('roles'))
  })
  it('a pipeline in a pipeline', () => {
    const note = obstacle((t, { a, c, n }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([n], ([i]) => {
        t.pipeline([3], ([k]) => {
          t.copy(a.tile([i, k], [2, 2]), as)
          t.store(c.tile([i, k], [2, 2]), t.load(as))
        })
      })
    })
    expect(note).toMatch(
      /a pipeline is inside another pipeline; use one pipeline over a space of several axes/,
    )
  })
  it('teams and a pipeline outside them', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      const bs = t.shared(f32, [2, 2])
      t.teams({ one: { programs: 'rest', body: () => void copyAndStore(t, args, as as never) } }) // teams
      copyAndStore(t, args, bs as never, 1)
    })
    expect(note).toMatch(/the teams at .* are in a loop or a branch, or beside a pipeline/)
    expect(note).toContain(lineOf('teams'))
  })
  it('last() around it', () => {
    const note = obstacle((t, args) => {
      const as = t.shared(f32, [2, 2])
      t.last(() => void copyAndStore(t, args, as as never)) // last
    })
    expect(note).toMatch(/its waits or copies are inside last\(\)/)
    expect(note).toContain(lineOf('last'))
  })
})
