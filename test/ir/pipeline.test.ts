/**
 * Tests the lowering of pipelines: the ring of buffers, the choice of a role for each node, and the positions in which
 * a pipeline may occur.
 */
import { describe, expect, it } from 'vitest'
import { bf16, f32, i32, kernel, tensor, type Program } from 'arke'
import { walk, type Block, type KernelIR, type Node } from '../../src/ir/node.ts'
import { print } from '../../src/ir/print.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { count, lowered, ops, rolesOf, type Args } from './lowered.ts'

describe('the ring', () => {
  it('of a small product', () => {
    const ir = lowered((t, { a, b, c, ready }) => {
      const as = t.shared(f32, [2, 4])
      const bs = t.shared(f32, [4, 2])
      t.persistent(c.tiles([2, 2]), (ci, [i, j]) => {
        const acc = t.pipeline(
          [3],
          t.zeros(f32, [2, 2]),
          ([k], acc) => {
            t.wait(ready)
            t.copy(a.tile([i, k], [2, 4]), as)
            t.copy(b.tile([k, j], [4, 2]), bs)
            return t.dot(as, bs, acc)
          },
          { stages: 3 },
        )
        t.copy(acc, ci)
      })
    })
    expect(ir.notes).toEqual([])
    expect(print(ir)).toMatchInlineSnapshot(`
      "kernel k(a: tensor<f32,2>, b: tensor<f32,2>, c: tensor<f32,2>, offsets: tensor<i32,1>, counter: tensor<i32,1>, n: i32, ready: flag, done: flag)  // lowered, world=2
        %0 = shared(dtype=f32, shape=[3,2,4]): shared<f32[3x2x4]>
        %1 = shared(dtype=f32, shape=[3,4,2]): shared<f32[3x4x2]>
        %2 = barriers(count=3, arrivals=1, ring=full): barriers<3>
        %3 = barriers(count=3, arrivals=1, ring=empty): barriers<3>
        roles(names=[producer,consumer], warps=[4,4], duties=[producer,consumer])
          producer() {
            %4 = dim(c, axis=0): i32
            %5 = add(%4, 1): i32
            %6 = div(%5, 2): i32
            %7 = dim(c, axis=1): i32
            %8 = add(%7, 1): i32
            %9 = div(%8, 2): i32
            %10 = program(): i32
            %11 = programs(): i32
            persistent(%10, %11, %6, %9, 0, 0, axes=2)
              do(i0: i32, i1: i32, slot: i32, phase: i32) {
                %12 = for(0, 3, 1, slot, phase)
                  do(i0.1: i32, slot.1: i32, phase.1: i32) {
                    %13 = pick(%2, slot.1): barrier
                    %14 = pick(%3, slot.1): barrier
                    %15 = pick(%0, slot.1): shared<f32[2x4]>
                    %16 = pick(%1, slot.1): shared<f32[4x2]>
                    %17 = sub(phase.1, 1): i32
                    barrier.wait(%14, %17)
                    wait(ready, order=acquire, scope=system, lag=0)
                    %18 = tile(a, i0, i0.1, shape=[2,4]): global<f32[2x4]>
                    copy.async(%18, %15, %13)
                    %19 = tile(b, i0.1, i1, shape=[4,2]): global<f32[4x2]>
                    copy.async(%19, %16, %13)
                    barrier.arrive(%13)
                    %20 = add(slot.1, 1): i32
                    %21 = eq(%20, 3): bool
                    %22 = add(phase.1, 1): i32
                    %23 = select(%21, 0, %20): i32
                    %24 = select(%21, %22, phase.1): i32
                    yield %23, %24
                  }
                %25 = result %12(index=0): i32
                %26 = result %12(index=1): i32
                yield %25, %26
              }
          }
          consumer() {
            %27 = dim(c, axis=0): i32
            %28 = add(%27, 1): i32
            %29 = div(%28, 2): i32
            %30 = dim(c, axis=1): i32
            %31 = add(%30, 1): i32
            %32 = div(%31, 2): i32
            %33 = program(): i32
            %34 = programs(): i32
            persistent(%33, %34, %29, %32, 0, 0, axes=2)
              do(i0.2: i32, i1.1: i32, slot.2: i32, phase.2: i32) {
                %35 = tile(c, i0.2, i1.1, shape=[2,2]): global<f32[2x2]>
                %36 = broadcast(0, shape=[2,2]): f32[2x2]
                %37 = for(0, 3, 1, %36, slot.2, phase.2)
                  do(i0.3: i32, state0: f32[2x2], slot.3: i32, phase.3: i32) {
                    %38 = pick(%2, slot.3): barrier
                    %39 = pick(%3, slot.3): barrier
                    %40 = pick(%0, slot.3): shared<f32[2x4]>
                    %41 = pick(%1, slot.3): shared<f32[4x2]>
                    barrier.wait(%38, phase.3)
                    %42 = dot(%40, %41, state0): f32[2x2]
                    barrier.arrive(%39)
                    %43 = add(slot.3, 1): i32
                    %44 = eq(%43, 3): bool
                    %45 = add(phase.3, 1): i32
                    %46 = select(%44, 0, %43): i32
                    %47 = select(%44, %45, phase.3): i32
                    yield %42, %46, %47
                  }
                %48 = result %37(index=0): f32[2x2]
                %49 = result %37(index=1): i32
                %50 = result %37(index=2): i32
                store(%35, %48)
                yield %49, %50
              }
          }
      "
    `)
  })

  it('has one slot when there is one stage', () => {
    const ir = lowered((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      }, { stages: 1 }) // prettier-ignore
    })
    const [ring] = ir.body.nodes.filter((node) => node.op === 'shared')
    expect(ring.attributes.shape).toEqual([1, 2, 2])
  })

  it('is shared by pipelines that share tiles, with the most stages of them', () => {
    const ir = lowered((t, { a, b, c }) => {
      const as = t.shared(f32, [2, 2])
      const bs = t.shared(f32, [2, 2])
      const cs = t.shared(f32, [2, 2])
      const first = t.pipeline([3], t.zeros(f32, [2, 2]), ([k], sum) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        return sum.add(t.load(as))
      })
      const second = t.pipeline([2], first, ([k], sum) => {
        t.copy(a.tile([1, k], [2, 2]), as)
        t.copy(b.tile([k, 0], [2, 2]), bs)
        return t.dot(as, bs, sum)
      }, { stages: 4 }) // prettier-ignore
      const third = t.pipeline([2], second, ([k], sum) => {
        t.copy(b.tile([k, 1], [2, 2]), cs)
        return sum.add(t.load(cs))
      })
      t.store(c.tile([0, 0], [2, 2]), third)
    })
    expect(ir.notes).toEqual([])
    const shapes = ir.body.nodes.filter((node) => node.op === 'shared').map((node) => node.attributes.shape)
    expect(shapes).toEqual([[4, 2, 2], [4, 2, 2], [2, 2, 2]]) // prettier-ignore
    const counts = ir.body.nodes.filter((node) => node.op === 'barriers').map((node) => node.attributes.count)
    expect(counts).toEqual([4, 4, 2, 2])
  })

  it('takes the place of the tile: the one of the author is gone', () => {
    const ir = lowered((t, { a, c }) => {
      const as = t.shared(f32, [2, 2])
      const other = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(other, t.load(as.transpose()))
        t.store(c.tile([0, k], [2, 2]), t.load(other))
      })
    })
    const shapes = ir.body.nodes.filter((node) => node.op === 'shared').map((node) => node.attributes.shape)
    expect(shapes).toEqual([[2, 2], [2, 2, 2]]) // prettier-ignore
  })
})

describe('who executes what', () => {
  it('waits and copies are the producer’s, arithmetic, stores and signals the consumer’s', () => {
    const ir = lowered((t, { a, c, ready, done }) => {
      const as = t.shared(f32, [2, 2])
      t.pipeline([3], ([k]) => {
        t.wait(ready)
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as).mul(2))
        t.signal(done)
      })
    })
    const { producer, consumer } = rolesOf(ir)
    expect([count(producer, 'wait'), count(producer, 'copy.async'), count(producer, 'store')]).toEqual([
      1, 1, 0,
    ])
    expect([count(consumer, 'wait'), count(consumer, 'copy.async'), count(consumer, 'store')]).toEqual([
      0, 0, 1,
    ])
    expect([count(producer, 'signal'), count(consumer, 'signal')]).toEqual([0, 1])
    expect([count(producer, 'mul'), count(consumer, 'mul')]).toEqual([0, 1])
  })

  it('ragged bounds are loaded by both', () => {
    const ir = lowered((t, { a, c, offsets }) => {
      const as = t.shared(f32, [1, 2])
      t.persistent([4], ([e]) => {
        const from = t.load(offsets.at([e]))
        const size = t.load(offsets.at([e.add(1)])).sub(from)
        const sum = t.pipeline([size], t.zeros(f32, [1, 2]), ([k], sum) => {
          t.copy(a.tile([from.add(k), 0], [1, 2]), as)
          return sum.add(t.load(as))
        })
        t.store(c.tile([e, 0], [1, 2]), sum)
      })
    })
    expect(ir.notes).toEqual([])
    const { producer, consumer } = rolesOf(ir)
    expect([count(producer, 'load'), count(consumer, 'load')]).toEqual([2, 3])
  })

  it('a page table read inside the pipeline is read by the producer alone', () => {
    const ir = lowered((t, { a, c, offsets }) => {
      const as = t.shared(f32, [1, 2])
      t.pipeline([4], ([k]) => {
        const page = t.load(offsets.at([k]))
        t.copy(a.tile([page, 0], [1, 2]), as)
        t.store(c.tile([k, 0], [1, 2]), t.load(as))
      })
    })
    expect(ir.notes).toEqual([])
    const { producer, consumer } = rolesOf(ir)
    expect([count(producer, 'load'), count(consumer, 'load')]).toEqual([1, 1])
  })

  it('gathered rows, by indices that both compute', () => {
    const ir = lowered((t, { a, c, offsets }) => {
      const as = t.shared(f32, [4, 2])
      const rows = t.load(offsets.tile([0], [4]))
      t.pipeline([5], ([k]) => {
        t.copy(a.rows(rows).tile(k, 2), as)
        t.atomic.add(c.at([0, k]), t.load(as).sum(0).sum())
      })
    })
    expect(ir.notes).toEqual([])
    expect(count(rolesOf(ir).producer, 'load')).toBe(1)
  })

  it('waits before a pipeline are made by both, those after it by the consumer', () => {
    const ir = lowered((t, { a, c, ready, done }) => {
      const as = t.shared(f32, [2, 2])
      t.wait(ready)
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        t.store(c.tile([0, k], [2, 2]), t.load(as))
      })
      t.wait(done)
    })
    const { producer, consumer } = rolesOf(ir)
    const waited = (block: Block): unknown[] =>
      [...walk(block)].filter((node) => node.op === 'wait').map((node) => node.inputs[0].attributes.name)
    expect(waited(producer)).toEqual(['ready'])
    expect(waited(consumer)).toEqual(['ready', 'done'])
  })

  it('a wait after a pipeline is before the next turn of a loop', () => {
    const ir = lowered((t, { a, c, ready, n }) => {
      const as = t.shared(f32, [2, 2])
      t.for(n, (i) => {
        t.pipeline([2], ([k]) => {
          t.copy(a.tile([i, k], [2, 2]), as)
          t.store(c.tile([i, k], [2, 2]), t.load(as))
        })
        t.if(i.lt(n.sub(1)), () => t.wait(ready))
      })
    })
    const { producer, consumer } = rolesOf(ir)
    expect([count(producer, 'wait'), count(consumer, 'wait')]).toEqual([1, 1])
    expect(count(producer, 'if')).toBe(1)
  })

  it('state that the producer needs is carried by it, other state is not', () => {
    const ir = lowered((t, { a, c, offsets, n }) => {
      const as = t.shared(f32, [1, 2])
      const [sum] = t.for(n, [t.zeros(f32, [1, 2]), t.constant(i32, 0)], (i, [sum, row]) => {
        const next = row.add(t.load(offsets.at([i]))).mod(5)
        const inner = t.pipeline([2, 2], sum, ([j, k], sum) => {
          t.copy(a.tile([next.add(j).mod(6), k], [1, 2]), as)
          return sum.add(t.load(as))
        })
        return [inner, next]
      })
      t.store(c.tile([0, 0], [1, 2]), sum)
    })
    expect(ir.notes).toEqual([])
    const { producer, consumer } = rolesOf(ir)
    const outer = (block: Block): Node => block.nodes.find((node) => node.op === 'for')!
    const state = (block: Block): string[] =>
      outer(block).blocks[0].params.map((param) => String(param.attributes.name))
    expect(state(producer)).toEqual(['i0', 'state1', 'slot', 'phase'])
    expect(state(consumer)).toEqual(['i0', 'state0', 'state1', 'slot', 'phase'])
  })

  it('state of the pipeline itself that decides what is copied', () => {
    const ir = lowered((t, { a, c, offsets }) => {
      const as = t.shared(f32, [1, 2])
      const [row, sum] = t.pipeline([4], [t.constant(i32, 0), t.zeros(f32, [1, 2])], ([k], [row, sum]) => {
        t.copy(a.tile([row, 0], [1, 2]), as)
        return [row.add(t.load(offsets.at([k]))).mod(6), sum.add(t.load(as))]
      })
      t.store(c.tile([row.mod(2), 0], [1, 2]), sum)
    })
    expect(ir.notes).toEqual([])
  })

  it('a masked copy and what it fills stay with the consumer', () => {
    const ir = lowered((t, { a, b, c }) => {
      const as = t.shared(f32, [2, 2])
      const bs = t.shared(f32, [2, 2])
      const mask = t.arange(2).expand(0).lt(1)
      t.store(bs, 0)
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        t.copy(b.tile([k, 0], [2, 2]), bs, { mask })
        t.store(c.tile([0, k], [2, 2]), t.load(as).add(t.load(bs)))
      })
    })
    expect(ir.notes).toEqual([])
    const { producer, consumer } = rolesOf(ir)
    expect([count(producer, 'copy.async'), count(consumer, 'copy')]).toEqual([1, 1])
  })
})

describe('where a pipeline stands', () => {
  const body = (
    t: Program,
    { a, c }: Args,
    as: ReturnType<typeof tile>,
    row: Parameters<Program['for']>[0],
  ) =>
    t.pipeline([3], ([k]) => {
      t.copy(a.tile([row as never, k], [2, 2]), as)
      t.store(c.tile([row as never, k], [2, 2]), t.load(as))
    })
  const tile = (t: Program) => t.shared(f32, [2, 2])

  it('at the top, its results used after it', () => {
    const ir = lowered((t, { a, c }) => {
      const as = tile(t)
      const sum = t.pipeline([5], t.zeros(f32, [2, 2]), ([k], sum) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        return sum.add(t.load(as))
      })
      t.store(c.tile([0, 0], [2, 2]), sum.mul(3))
    })
    expect(ir.notes).toEqual([])
  })
  it('over a nested space', () => {
    const ir = lowered((t, { a, c, n }) => {
      const as = tile(t)
      const sum = t.pipeline([n, 2, 5], t.zeros(f32, [2, 2]), ([i, j, k], sum) => {
        t.copy(a.tile([i, k], [2, 2]), as)
        return sum.add(t.load(as).mul(j.add(1).to(f32)))
      })
      t.store(c.tile([0, 0], [2, 2]), sum)
    })
    expect(ir.notes).toEqual([])
    expect(count(rolesOf(ir).producer, 'for')).toBe(3)
  })
  it('over an empty space', () => {
    lowered((t, { a, c, n }) => {
      const as = tile(t)
      const sum = t.pipeline([n.sub(3)], t.full(f32, [2, 2], 5), ([k], sum) => {
        t.copy(a.tile([0, k], [2, 2]), as)
        return sum.add(t.load(as))
      })
      t.store(c.tile([0, 0], [2, 2]), sum)
    })
  })
  it('in a branch', () => {
    const ir = lowered((t, args) => {
      const as = tile(t)
      t.for(args.n, (i) => {
        t.if(
          i.mod(2).eq(0),
          () => body(t, args, as, i),
          () => t.store(args.c.tile([i, 0], [2, 2]), 9),
        )
      })
    })
    expect(ir.notes).toEqual([])
    expect(count(rolesOf(ir).producer, 'if')).toBe(1)
  })
  it('in both branches, with values', () => {
    const ir = lowered((t, { a, c, n }) => {
      const as = tile(t)
      const sum = (row: number) =>
        t.pipeline([3], t.zeros(f32, [2, 2]), ([k], sum) => {
          t.copy(a.tile([row, k], [2, 2]), as)
          return sum.add(t.load(as))
        })
      t.for(n, (i) => {
        const chosen = t.if(
          i.eq(1),
          () => sum(0),
          () => sum(1),
        )
        t.store(c.tile([i, 0], [2, 2]), chosen)
      })
    })
    expect(ir.notes).toEqual([])
  })
  it('in a while', () => {
    const ir = lowered((t, args) => {
      const as = tile(t)
      t.while(
        args.n,
        (left) => left.gt(0),
        (left) => {
          body(t, args, as, left.sub(1))
          return left.sub(1)
        },
      )
    })
    expect(ir.notes).toEqual([])
    expect(count(rolesOf(ir).producer, 'while')).toBe(1)
  })
  it('in a team, which gets roles of its own', () => {
    const ir = lowered((t, args) => {
      const as = tile(t)
      t.teams({
        workers: { programs: 1, body: () => t.persistent([3], ([i]) => body(t, args, as, i)) },
        senders: { programs: 'rest', body: () => t.store(args.c.at([0, 0]), 1) },
      })
    })
    expect(ir.notes).toEqual([])
    const [teams] = ir.body.nodes.filter((node) => node.op === 'teams')
    expect(ops(teams.blocks[0]).slice(0, 1)).toEqual(['roles'])
    expect(ops(teams.blocks[1])).not.toContain('roles')
  })
  it('in two teams, with tiles of their own', () => {
    const ir = lowered((t, args) => {
      const [as, bs] = [tile(t), tile(t)]
      t.teams({
        even: { programs: 1, body: () => body(t, args, as, 0) },
        odd: { programs: 'rest', body: () => body(t, args, bs, 1) },
      })
    })
    expect(ir.notes).toEqual([])
    expect(count(ir.body, 'roles')).toBe(2)
  })
  it('twice in a row, and twice around', () => {
    const ir = lowered((t, args) => {
      const as = tile(t)
      t.for(args.n, (i) => {
        body(t, args, as, i)
        body(t, args, as, i)
      })
    })
    expect(ir.notes).toEqual([])
    expect(ir.body.nodes.filter((node) => node.op === 'barriers')).toHaveLength(2)
  })
  it('with a branch inside that both fills and uses a tile', () => {
    const ir = lowered((t, { a, c, n }) => {
      const as = tile(t)
      t.pipeline([3], ([k]) => {
        t.if(k.ne(n.sub(2)), () => {
          t.copy(a.tile([0, k], [2, 2]), as)
          t.store(c.tile([0, k], [2, 2]), t.load(as))
        })
      })
    })
    expect(ir.notes).toEqual([])
  })
  it('without copies and waits it is a plain loop, and no roles are made', () => {
    const ir = lowered((t, { c }) => {
      t.last(() => {
        t.pipeline([3], ([k]) => t.store(c.at([0, k]), 1))
      })
    })
    expect(ir.notes).toEqual([])
    expect(ops(ir.body)).not.toContain('roles')
  })
  it('in last() without copies, beside one that copies', () => {
    const ir = lowered((t, args) => {
      const as = tile(t)
      body(t, args, as, 0)
      t.last(() => {
        t.pipeline([3], ([k]) => t.store(args.c.at([5, k]), 1))
      })
    })
    expect(ir.notes).toEqual([])
    expect(count(rolesOf(ir).consumer, 'last')).toBe(1)
  })
})

describe('warps', () => {
  const product = (rows: number): KernelIR =>
    lower(
      kernel('product', { a: tensor(bf16, 2), c: tensor(f32, 2) }, (t, { a, c }) => {
        const as = t.shared(bf16, [rows, 16])
        const acc = t.pipeline([4], t.zeros(f32, [rows, rows]), ([k], acc) => {
          t.copy(a.tile([0, k], [rows, 16]), as)
          return t.dot(as, as.transpose(), acc)
        })
        t.copy(acc, c.tile([0, 0], [rows, rows]))
      }).record({ world: 1 }),
    )
  it('two warpgroups of consumers for 128 rows, one for fewer', () => {
    const warps = (ir: KernelIR): unknown =>
      ir.body.nodes.find((node) => node.op === 'roles')!.attributes.warps
    expect(warps(product(128))).toEqual([4, 8])
    expect(warps(product(64))).toEqual([4, 4])
  })
})
