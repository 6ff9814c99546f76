/**
 * Compares the traffic of kernels with sums worked out by hand. The elements of a tensor that a tile covers are the
 * overlap of two intervals, and a launch reads and writes the elements that its tiles cover. Every kernel is also
 * compared with its lowered form.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, i32, kernel, scalar, tensor, type Kernel } from 'arke'
import { walk, type KernelIR } from '../../src/ir/node.ts'
import { origin } from '../../src/ir/ops/index.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import {
  totalTraffic,
  traffic,
  type Binding,
  type LaunchBinding,
  type Traffic,
} from '../../src/ir/traffic.ts'

const nothing = { readLocal: 0, readRemote: 0, writtenLocal: 0, writtenRemote: 0 }
const noFlags = { signalledLocal: 0, signalledRemote: 0, waitedLocal: 0, waitedRemote: 0 }

const plain = ({ tensors, flags, unknown }: Traffic) => ({
  tensors: Object.fromEntries(tensors),
  flags: Object.fromEntries(flags),
  unknown: unknown.map(({ parameters, reason }) => ({ parameters, reason })),
})

/** Returns the traffic of a program after verifying that the lowered kernel has the same traffic. */
function of(ir: KernelIR, binding: Binding) {
  const result = plain(traffic(ir, binding))
  expect(plain(traffic(lower(ir), binding))).toEqual(result)
  return result
}
function ofLaunch(ir: KernelIR, launch: LaunchBinding) {
  const result = plain(totalTraffic(ir, launch))
  expect(plain(totalTraffic(lower(ir), launch))).toEqual(result)
  return result
}
const alone = { rank: 0, program: 0, programs: 1 }
const ceil = (a: number, b: number): number => Math.ceil(a / b)
/** The number of elements of tile `i` (of `size` elements) that are inside an extent. */
const covered = (i: number, size: number, extent: number): number =>
  Math.max(0, Math.min(extent, (i + 1) * size) - i * size)

const gemm = (BM: number, BN: number, BK: number, stages: number): Kernel =>
  kernel('gemm', { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) }, (t, { a, b, c }) => {
    const as = t.shared(bf16, [BM, BK])
    const bs = t.shared(bf16, [BK, BN])
    t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
      const acc = t.pipeline([a.dim(1).add(BK - 1).div(BK)], t.zeros(f32, [BM, BN]), ([k], acc) => {
        t.copy(a.tile([i, k], [BM, BK]), as)
        t.copy(b.tile([k, j], [BK, BN]), bs)
        return t.dot(as, bs, acc)
      }, { stages }) // prettier-ignore
      t.copy(acc, ci)
    })
  }) as Kernel

describe('a product on one rank', () => {
  const extent = fc.integer({ min: 1, max: 40 })
  const size = fc.integer({ min: 1, max: 16 })
  it('reads A once per column of tiles, B once per row of tiles, and writes C once', () => {
    fc.assert(
      fc.property(
        fc.record({
          M: extent,
          N: extent,
          K: extent,
          BM: size,
          BN: size,
          BK: size,
          programs: fc.integer({ min: 1, max: 5 }),
        }),
        ({ M, N, K, BM, BN, BK, programs }) => {
          const ir = gemm(BM, BN, BK, 2).record({ world: 1 })
          const total = ofLaunch(ir, { extents: { a: [M, K], b: [K, N], c: [M, N] }, programs })
          expect(total).toEqual({
            tensors: {
              a: { ...nothing, readLocal: 2 * M * K * ceil(N, BN) },
              b: { ...nothing, readLocal: 2 * K * N * ceil(M, BM) },
              c: { ...nothing, writtenLocal: 4 * M * N },
            },
            flags: {},
            unknown: [],
          })
        },
      ),
      { numRuns: 60 },
    )
  })
  it('is divided among programs tile by tile', () => {
    const [M, N, K, BM, BN, BK] = [20, 30, 10, 8, 8, 4]
    const ir = gemm(BM, BN, BK, 2).record({ world: 1 })
    const extents = { a: [M, K], b: [K, N], c: [M, N] }
    const columns = ceil(N, BN)
    for (const program of [0, 1, 2]) {
      const tiles = Array.from({ length: ceil(M, BM) * columns }, (_, tile) => tile).filter(
        (tile) => tile % 3 === program,
      )
      const height = (tile: number): number => covered(Math.floor(tile / columns), BM, M)
      const width = (tile: number): number => covered(tile % columns, BN, N)
      const sum = (f: (tile: number) => number): number => tiles.reduce((total, tile) => total + f(tile), 0)
      expect(of(ir, { extents, rank: 0, program, programs: 3 }).tensors).toEqual({
        a: { ...nothing, readLocal: sum((tile) => 2 * height(tile) * K) },
        b: { ...nothing, readLocal: sum((tile) => 2 * width(tile) * K) },
        c: { ...nothing, writtenLocal: sum((tile) => 4 * height(tile) * width(tile)) },
      })
    }
  })
})

describe('a gathered product on several ranks', () => {
  it.each([1, 2, 4])('pulls all slices but its own from %i ranks', (world) => {
    const [M, N, K, B, slices] = [12, 10, 8, 4, 2]
    const pull = kernel(
      'pull',
      { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(bf16, 2), ready: flags(), done: flags(1) },
      (t, { a, b, c, ready, done }) => {
        const as = t.shared(bf16, [B, B])
        const bs = t.shared(bf16, [B, B])
        t.persistent(c.tiles([B, B]), (ci, [i, j]) => {
          const acc = t.pipeline([t.world, slices], t.zeros(f32, [B, B]), ([step, k], acc) => {
            const owner = t.rank.add(step).mod(t.world)
            t.wait(ready.on(owner))
            t.copy(a.on(owner).tile([i, k], [B, B]), as)
            t.copy(b.tile([owner.mul(slices).add(k), j], [B, B]), bs)
            return t.dot(as, bs, acc)
          })
          t.copy(acc.to(bf16), ci)
        })
        t.last(() => t.signalAll(done.at([t.rank])))
      },
    )
    const programs = 3
    const launch = { extents: { a: [M, K], b: [K * world, N], c: [M, N], done: [world] }, programs }
    const total = ofLaunch(pull.record({ world }), launch)
    const tiles = ceil(M, B) * ceil(N, B)
    const slice = 2 * M * K * ceil(N, B)
    expect(total).toEqual({
      tensors: {
        a: { ...nothing, readLocal: world * slice, readRemote: world * (world - 1) * slice },
        b: { ...nothing, readLocal: world * 2 * K * world * N * ceil(M, B) },
        c: { ...nothing, writtenLocal: world * 2 * M * N },
      },
      flags: {
        ready: {
          ...noFlags,
          waitedLocal: world * tiles * slices,
          waitedRemote: world * (world - 1) * tiles * slices,
        },
        done: { ...noFlags, signalledLocal: world, signalledRemote: world * (world - 1) },
      },
      unknown: [],
    })
  })

  it('a poll finds its flag reached, and counts as no wait', () => {
    const look = kernel(
      'look',
      { x: tensor(f32, 1), y: tensor(f32, 1), ready: flags() },
      (t, { x, y, ready }) => {
        const early = t.while(
          t.constant(i32, 0),
          (n) => t.reached(ready).not().and(n.lt(4)),
          (n) => {
            t.store(y.at([n]), 0)
            return n.add(1)
          },
        )
        t.for({ from: early, to: 4 }, (n) => t.store(y.at([n]), t.load(x.at([n]))))
      },
    )
    const binding = { extents: { x: [4], y: [4] }, rank: 0, program: 0, programs: 1 }
    expect(of(look.record({ world: 2 }), binding)).toEqual({
      tensors: { x: { ...nothing, readLocal: 16 }, y: { ...nothing, writtenLocal: 16 } },
      flags: { ready: noFlags },
      unknown: [],
    })
  })

  it('a push writes to other ranks, and on(this rank) is local', () => {
    const push = kernel(
      'push',
      { x: tensor(f32, 1), inbox: tensor(f32, 2), ready: flags(1) },
      (t, { x, inbox, ready }) => {
        t.for(t.world, (step) => {
          const to = t.rank.add(step).mod(t.world)
          t.copy(x.tile([0], [16]), inbox.on(to).pick(t.rank).tile([0], [16]))
          t.signal(ready.on(to).at([t.rank]))
        })
        t.wait(ready.at([0]))
        t.store(x.on(t.rank).at([0]), 1)
      },
    )
    const binding = { extents: { x: [10], inbox: [4, 12], ready: [4] }, rank: 2, program: 0, programs: 1 }
    expect(of(push.record({ world: 4 }), binding)).toEqual({
      tensors: {
        x: { ...nothing, readLocal: 4 * 10 * 4, writtenLocal: 4 },
        inbox: { ...nothing, writtenLocal: 10 * 4, writtenRemote: 3 * 10 * 4 },
      },
      flags: { ready: { ...noFlags, signalledLocal: 1, signalledRemote: 3, waitedLocal: 1 } },
      unknown: [],
    })
  })
})

describe('edges and masks', () => {
  const params = { x: tensor(f32, 2), y: tensor(f32, 2), v: tensor(i32, 1), n: scalar(i32) }
  const extents = { x: [10, 7], y: [5, 20], v: [9] }
  const binding = { ...alone, extents, scalars: { n: 3 } }

  it('a copy between tensors accesses only elements inside both', () => {
    const copy = kernel('copy', params, (t, { x, y }) =>
      t.copy(x.tile([1, 0], [8, 8]), y.tile([0, 2], [8, 8])),
    )
    // The loads cover x: rows 8 to 10, columns 0 to 7; and y: rows 0 to 5, columns 16 to 20.
    const bytes = 4 * Math.min(2, 5) * Math.min(7, 4)
    const { tensors } = of(copy.record({ world: 1 }), binding)
    expect(tensors).toMatchObject({ x: { readLocal: bytes }, y: { writtenLocal: bytes } })
  })
  it('tiles wholly outside access nothing', () => {
    const outside = kernel('outside', params, (t, { x, y }) => {
      t.store(x.tile([5, 0], [8, 8]), 1)
      t.store(x.tile([-1, 0], [8, 8]), 1)
      t.copy(x.tile([2, 0], [8, 8]), y.tile([0, 0], [8, 8]))
    })
    expect(of(outside.record({ world: 1 }), binding).tensors).toEqual({ x: nothing, y: nothing, v: nothing })
  })
  it('slices never extend beyond the tensor', () => {
    const sliced = kernel('sliced', params, (t, { x, n }) => {
      const part = x.slice(0, n, 4).slice(1, 2, 100)
      t.store(part.tile([0, 0], [8, 16]), 1)
      t.store(part.tile([0, 0], [3, 2]), 1)
      t.for(part.dim(0), () => t.store(part.at([0, 0]), 1))
    })
    const { tensors } = of(sliced.record({ world: 1 }), binding)
    expect(tensors.x.writtenLocal).toBe(4 * (4 * 5 + 3 * 2 + 4))
  })
  it('masks that can be computed count lane by lane', () => {
    const masked = kernel('masked', params, (t, { x, v, n }) => {
      const columns = t.arange(8).expand(0)
      const rows = t.arange(4).expand(1)
      t.store(x.tile([0, 0], [4, 8]), 1, { mask: columns.ge(n).and(rows.ne(1)) })
      t.atomic.add(v.at([t.arange(8)]), 1, { mask: t.arange(8).lt(n) })
      t.load(v.tile([0], [4]), { mask: t.arange(4).mod(2).eq(0), other: 1, order: 'relaxed' })
    })
    const { tensors } = of(masked.record({ world: 1 }), binding)
    expect(tensors.x).toEqual({ ...nothing, writtenLocal: 4 * 3 * 4 })
    expect(tensors.v).toEqual({ ...nothing, readLocal: 4 * (3 + 2), writtenLocal: 4 * 3 })
  })
  it('masks from data count all lanes', () => {
    const masked = kernel('masked', params, (t, { x, v }) => {
      const mask = t.load(v.tile([0], [4])).gt(0)
      t.store(x.at([t.arange(4), 0]), 1, { mask })
    })
    const result = of(masked.record({ world: 1 }), binding)
    expect(result.tensors).toMatchObject({ x: { writtenLocal: 16 }, v: { readLocal: 16 } })
    expect(result.unknown).toEqual([])
  })
  it('gathered rows count whatever their indices are, up to the last column', () => {
    const gathered = kernel('gathered', params, (t, { x, v }) => {
      const pages = t.load(v.tile([0], [4]))
      const s = t.shared(f32, [4, 4])
      t.pipeline([2], ([j]) => {
        t.copy(x.rows(pages).tile(j, 4), s)
        t.store(x.at([0, 0]), t.load(s.at([0, 0])))
      })
    })
    const ir = kernel('gathered', params, (t, { x, y, v }) => {
      const pages = t.load(v.tile([0], [4]))
      const s = t.shared(f32, [4, 4])
      t.pipeline([2], ([j]) => {
        t.copy(x.rows(pages).tile(j, 4), s)
        t.store(y.at([0, 0]), t.load(s.at([0, 0])))
      })
    }).record({ world: 1 })
    expect(lower(ir).notes).toEqual([])
    for (const form of [ir, gathered.record({ world: 1 })]) {
      const { tensors } = of(form, binding)
      expect(tensors.x.readLocal).toBe(4 * 4 * 7)
      expect(tensors.v.readLocal).toBe(4 * 4)
    }
  })
})

describe('control flow', () => {
  const params = { x: tensor(f32, 1), n: scalar(i32), ready: flags() }
  const at = (n: number, place = alone): Binding => ({ ...place, extents: { x: [64] }, scalars: { n } })

  it('loops with steps, branches, whiles and carried state', () => {
    const loops = kernel('loops', params, (t, { x, n }) => {
      t.for({ from: 2, to: n, step: 3 }, (i) => {
        t.if(
          i.mod(2).eq(0),
          () => t.store(x.tile([0], [4]), 1),
          () => t.store(x.tile([0], [8]), 1),
        )
      })
      const left = t.while(
        n,
        (m) => m.gt(4),
        (m) => {
          t.store(x.at([m]), 1)
          return m.sub(2)
        },
      )
      t.for(left, () => t.load(x.at([0]), { order: 'relaxed' }))
    })
    // The loop has the states i = 2, 5, 8, 11; m = 12, 10, 8, 6; left = 4.
    const { tensors } = of(loops.record({ world: 1 }), at(12))
    expect(tensors.x).toEqual({ ...nothing, writtenLocal: 4 * (4 + 8 + 4 + 8 + 4), readLocal: 4 * 4 })
  })
  it('loops inside loops that depend on the outer index, on state, on the program and on the rank', () => {
    const nested = kernel('nested', params, (t, { x, n }) => {
      t.for(n, t.constant(i32, 0), (i, before) => {
        t.for(i, (j) => t.store(x.on(j.mod(2)).tile([i.add(j)], [4]), 1))
        t.for(before, () => t.if(t.program.gt(i), () => t.store(x.tile([t.rank], [3]), 1)))
        return before.add(i).mod(3)
      })
    })
    const ir = nested.record({ world: 2 })
    for (const rank of [0, 1])
      for (const program of [0, 2, 5]) {
        const written = { local: 0, remote: 0 }
        let before = 0
        for (let i = 0; i < 7; i++) {
          for (let j = 0; j < i; j++)
            written[j % 2 === rank ? 'local' : 'remote'] += 4 * covered(i + j, 4, 30)
          for (let j = 0; j < before; j++) if (program > i) written.local += 4 * covered(rank, 3, 30)
          before = (before + i) % 3
        }
        const binding = { rank, program, programs: 6, extents: { x: [30] }, scalars: { n: 7 } }
        expect(of(ir, binding).tensors.x).toEqual({
          ...nothing,
          writtenLocal: written.local,
          writtenRemote: written.remote,
        })
      }
    const launch = { extents: { x: [30] }, scalars: { n: (rank: number) => 3 + rank }, programs: 4 }
    const parts = [0, 1].flatMap((rank) =>
      [0, 1, 2, 3].map((program) =>
        of(ir, { ...launch, rank, program, programs: 4, scalars: { n: 3 + rank } }),
      ),
    )
    const sum = (key: 'writtenLocal' | 'writtenRemote'): number =>
      parts.reduce((total, { tensors }) => total + tensors.x[key], 0)
    expect(ofLaunch(ir, launch).tensors.x).toEqual({
      ...nothing,
      writtenLocal: sum('writtenLocal'),
      writtenRemote: sum('writtenRemote'),
    })
  })
  it('teams number their programs anew, and last is counted once', () => {
    const teams = kernel('teams', params, (t, { x, n }) => {
      t.teams({
        few: { programs: n, body: () => t.store(x.tile([t.program], [8]), 1) },
        many: { programs: 'rest', body: () => t.persistent([10], () => t.store(x.at([0]), 1)) },
      })
      t.last(() => t.store(x.tile([0], [16]), 1))
    })
    const ir = teams.record({ world: 2 })
    const total = ofLaunch(ir, { extents: { x: [12] }, scalars: { n: (rank) => rank + 1 }, programs: 5 })
    // Rank 0 has a team of one program, and rank 1 a team of two; the teams' tiles cover 8 and 8 + 4 of 12 elements.
    expect(total.tensors.x.writtenLocal).toBe(4 * (8 + 10 + 12 + (12 + 10 + 12)))
    const byProgram = [0, 1, 2].map((program) =>
      of(ir, { ...at(2), extents: { x: [12] }, rank: 0, program, programs: 3 }),
    )
    expect(byProgram.map(({ tensors }) => tensors.x.writtenLocal)).toEqual([4 * 8, 4 * 4, 4 * (10 + 12)])
  })
  it('roles of the author add up', () => {
    const roles = kernel('roles', params, (t, { x }) => {
      t.roles({ one: () => t.store(x.tile([0], [4]), 1), two: () => t.store(x.tile([1], [4]), 1) })
    })
    expect(of(roles.record({ world: 1 }), at(0)).tensors.x.writtenLocal).toBe(4 * 8)
  })
  it('programs may differ by rank', () => {
    const each = kernel('each', params, (t, { x }) => t.store(x.on(0).at([0]), 1))
    const launch = { extents: { x: [4] }, scalars: { n: 0 }, programs: (rank: number) => rank + 1 }
    expect(ofLaunch(each.record({ world: 3 }), launch).tensors.x).toEqual({
      ...nothing,
      writtenLocal: 4,
      writtenRemote: 4 * (2 + 3),
    })
  })
  it('an epoch that is given decides, and one that is not is unknown', () => {
    const parity = kernel('parity', params, (t, { x, ready }) => {
      t.if(t.epoch(ready).mod(2).eq(0), () => t.store(x.tile([0], [8]), 1))
    })
    const ir = parity.record({ world: 1 })
    expect(of(ir, { ...at(0), epochs: { ready: 4 } }).tensors.x.writtenLocal).toBe(32)
    expect(of(ir, { ...at(0), epochs: { ready: 5 } }).tensors.x.writtenLocal).toBe(0)
    expect(of(ir, at(0)).unknown).toEqual([
      { parameters: ['x'], reason: 'the condition depends on loaded data' },
    ])
  })
  it('dead loads are no traffic', () => {
    const dead = kernel('dead', params, (t, { x }) => void t.load(x.tile([0], [8])))
    expect(of(dead.record({ world: 1 }), at(0)).tensors.x).toEqual(nothing)
  })
  it('a wait and a page that both roles of a pipeline need count once', () => {
    const paged = kernel(
      'paged',
      { x: tensor(f32, 2), y: tensor(f32, 1), pages: tensor(i32, 1), ready: flags() },
      (t, { x, y, pages, ready }) => {
        const s = t.shared(f32, [4])
        t.wait(ready)
        const page = t.load(pages.at([0]))
        t.pipeline([3], ([k]) => {
          t.copy(x.pick(page).tile([k], [4]), s)
          t.store(y.at([page]), t.load(s.at([0])))
        })
      },
    )
    const ir = paged.record({ world: 1 })
    expect(lower(ir).notes).toEqual([])
    const loadsOfPages = [...walk(lower(ir).body)].filter(
      ({ op, inputs: [from] }) => op === 'load' && origin(from).base.attributes.name === 'pages',
    )
    expect(loadsOfPages).toHaveLength(2)
    const result = of(ir, { ...alone, extents: { x: [4, 12], y: [8], pages: [1] } })
    expect(result.flags.ready).toEqual({ ...noFlags, waitedLocal: 1 })
    expect(result.tensors).toMatchObject({
      pages: { readLocal: 4 },
      x: { readLocal: 3 * 16 },
      y: { writtenLocal: 3 * 4 },
    })
  })
})

describe('unknown traffic', () => {
  const params = { x: tensor(f32, 2), y: tensor(f32, 2), sizes: tensor(i32, 1), ready: flags(1) }
  const binding: Binding = { ...alone, extents: { x: [16, 4], y: [16, 4], sizes: [8], ready: [4] } }

  it('a bound from data: everything inside is named, everything outside is exact', () => {
    const ragged = kernel('ragged', params, (t, { x, y, sizes, ready }) => {
      const s = t.shared(f32, [4, 4])
      t.persistent([4], ([e]) => {
        const size = t.load(sizes.at([e]))
        t.pipeline([size], ([k]) => {
          t.copy(x.tile([k, 0], [4, 4]), s)
          t.store(y.tile([e, 0], [4, 4]), t.load(s))
        })
        t.signal(ready.at([e]))
      })
    })
    const ir = ragged.record({ world: 1 })
    expect(lower(ir).notes).toEqual([])
    for (const form of [ir, lower(ir)]) {
      const { tensors, flags, unknown } = traffic(form, binding)
      expect(tensors.get('x')).toEqual(nothing)
      expect(tensors.get('y')).toEqual(nothing)
      expect(tensors.get('sizes')).toEqual({ ...nothing, readLocal: 16 })
      expect(flags.get('ready')).toEqual({ ...noFlags, signalledLocal: 4 })
      expect([...new Set(unknown.flatMap((one) => one.parameters))].sort()).toEqual(['x', 'y'])
      for (const one of unknown) {
        expect(one.reason).toBe('the number of iterations depends on loaded data')
        expect(one.site?.position?.file).toMatch(/traffic\.test\.ts$/)
      }
    }
  })
  it('a branch, a place and an owner from data', () => {
    const guess = kernel('guess', params, (t, { x, y, sizes, ready }) => {
      const value = t.load(sizes.at([0]))
      t.if(value.gt(0), () => t.store(x.tile([0, 0], [4, 4]), 1))
      t.store(y.tile([value, 0], [4, 4]), 1)
      t.store(x.on(value).at([0, 0]), 1)
      t.signal(ready.on(value).at([0]))
      t.signal(ready.at([value]))
      t.store(y.pick(value).tile([0], [4]), 1)
    })
    expect(of(guess.record({ world: 2 }), binding)).toEqual({
      tensors: { x: nothing, y: { ...nothing, writtenLocal: 16 }, sizes: { ...nothing, readLocal: 4 } },
      flags: { ready: { ...noFlags, signalledLocal: 1 } },
      unknown: [
        { parameters: ['x'], reason: 'the condition depends on loaded data' },
        { parameters: ['y'], reason: 'the address depends on loaded data' },
        { parameters: ['x'], reason: 'the owner rank depends on loaded data' },
        { parameters: ['ready'], reason: 'the rank of the flag depends on loaded data' },
      ],
    })
  })
  it('a loop whose end depends on data', () => {
    const spin = kernel('spin', params, (t, { x, sizes }) => {
      t.while(
        t.constant(i32, 0),
        (seen) => seen.eq(0),
        () => t.load(sizes.at([0]), { order: 'acquire' }),
      )
      t.store(x.at([0, 0]), 1)
    })
    const result = of(spin.record({ world: 1 }), binding)
    expect(result.unknown).toEqual([
      { parameters: ['sizes'], reason: 'the number of iterations depends on loaded data' },
    ])
    expect(result.tensors.x.writtenLocal).toBe(4)
  })
  it('a branch on data without traffic inside is not listed', () => {
    const quiet = kernel('quiet', params, (t, { x, sizes }) => {
      const n = t.load(sizes.at([0]))
      const sum = t.for(n, t.constant(f32, 0), (i, sum) => sum.add(i.to(f32)))
      t.store(x.at([0, 0]), sum)
    })
    expect(of(quiet.record({ world: 1 }), binding).unknown).toEqual([])
  })
  it('is named once in a sum', () => {
    const ir = kernel('many', params, (t, { x, sizes }) => {
      t.for(t.load(sizes.at([0])), () => t.store(x.at([0, 0]), 1))
    }).record({ world: 2 })
    expect(ofLaunch(ir, { ...binding, programs: 3 }).unknown).toHaveLength(1)
  })
  it('a binding that leaves something out is refused', () => {
    const ir = kernel('needs', { x: tensor(f32, 2), n: scalar(i32) }, (t, { x, n }) => {
      t.store(x.at([n, 0]), 1)
    }).record({ world: 1 })
    expect(() => traffic(ir, { ...alone, extents: { x: [4] }, scalars: { n: 1 } })).toThrow(
      /x has 2 axes.*1 extents/,
    )
    expect(() => traffic(ir, { ...alone, extents: {}, scalars: { n: 1 } })).toThrow(/x has 2 axes.*0 extents/)
    expect(() => traffic(ir, { ...alone, extents: { x: [4, 4] } })).toThrow(/no value for n/)
  })
})
