/** Tests of clusters: the order of work items, launches, and multicast copies in the checker. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { bf16, expectClose, explore, f32, i32, kernel, openWorld, scenario, tensor } from 'arke'

/** The number of the line of this file that contains a given string. */
const lineOf = (text: string): number =>
  readFileSync(fileURLToPath(import.meta.url), 'utf8')
    .split('\n')
    .findIndex((line) => line.includes(text)) + 1

/**
 * This kernel computes C = A x B with one tile per program. The programs of a cluster fetch each tile once, if `axes`
 * are correct.
 */
const product = kernel(
  'product',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  { BM: 8, BN: 8, BK: 8, rows: 2, columns: 1, axisOfA: 1, axisOfB: 0 },
  (t, { a, b, c }, { BM, BN, BK, rows, columns, axisOfA, axisOfB }) => {
    const as = t.shared(bf16, [BM, BK])
    const bs = t.shared(bf16, [BK, BN])
    t.persistent(
      c.tiles([BM, BN]),
      (tile, [i, j]) => {
        const steps = a.dim(1).div(BK)
        const sum = t.pipeline([steps], t.zeros(f32, [BM, BN]), ([k], acc) => {
          t.copy(a.tile([i, k], [BM, BK]), as, { multicast: axisOfA })
          t.copy(b.tile([k, j], [BK, BN]), bs, { multicast: axisOfB })
          return t.dot(as, bs, acc)
        })
        t.copy(sum, tile)
      },
      { cluster: [rows, columns] },
    )
  },
)

const multiply = (meta: Record<string, number>, [M, N, K]: readonly number[] = [32, 16, 16], grid = 4) =>
  scenario(`product ${JSON.stringify(meta)} of ${M} x ${N}`, { ranks: 1 }, async (world) => {
    const entry = (seed: number) => (i: number) => ((i * 7 + seed) % 5) - 2
    const left = Array.from({ length: M * K }, (_, i) => entry(1)(i))
    const right = Array.from({ length: K * N }, (_, i) => entry(3)(i))
    const a = world.from(bf16, [M, K], () => left, { name: 'a' })
    const b = world.from(bf16, [K, N], () => right, { name: 'b' })
    const c = world.empty(f32, [M, N], { name: 'c' })
    world.launch(product, { a, b, c }, { grid, meta })
    const expected = Array.from({ length: M * N }, (_, at) => {
      const [i, j] = [Math.floor(at / N), at % N]
      let sum = 0
      for (let k = 0; k < K; k++) sum += left[i * K + k] * right[k * N + j]
      return sum
    })
    expectClose(await world.read(c, 0), expected)
  })

describe('a kernel with clusters', () => {
  it.each([
    [{ rows: 2, columns: 1 }, [32, 16, 16]],
    [{ rows: 1, columns: 2 }, [32, 16, 16]],
    [{ rows: 2, columns: 2 }, [32, 16, 16]],
    [{ rows: 2, columns: 1 }, [20, 16, 16]],
    [{ rows: 2, columns: 2 }, [8, 24, 16]],
  ])('is correct as written: %j, M, N, K = %j', async (meta, extents) => {
    const { findings } = await explore(multiply(meta, extents), { ranks: 1, schedules: 4, stage: 'recorded' })
    expect(findings).toEqual([])
  })

  it('must multicast along the axis in which the elements are equal', async () => {
    const { findings } = await explore(multiply({ axisOfA: 0 }), {
      ranks: 1,
      schedules: 2,
      stage: 'recorded',
    })
    expect(findings[0].kind).toBe('multicast')
    expect(findings[0].parties[0].site?.toString()).toContain(`clusters.test.ts:${lineOf('axisOfA })')}`)
  })

  it('is launched in whole clusters', async () => {
    const world = await openWorld({ target: 'wasm', ranks: 1 })
    const [a, b] = [world.zeros(bf16, [16, 16]), world.zeros(bf16, [16, 16])]
    const c = world.empty(f32, [16, 16])
    expect(() => world.launch(product, { a, b, c }, { grid: 3 })).toThrow(
      'a grid of 3 programs on rank 0, in clusters of 2 x 1: it must be a multiple of 2',
    )
    world.launch(product, { a, b, c }, { grid: 'resident' })
    expectClose(await world.read(c, 0), new Array<number>(256).fill(0))
    await world.close()
  })

  it('takes its items in blocks', async () => {
    const order = kernel('order', { out: tensor(i32, 2) }, (t, { out }) =>
      t.persistent([3, 5], ([i, j]) => t.store(out.at([i, j]), t.program), { cluster: [2, 2] }),
    )
    const world = await openWorld({ target: 'wasm', ranks: 1 })
    const out = world.full(i32, [3, 5], -1)
    world.launch(order, { out }, { grid: 4 })
    const rows = [
      [0, 1, 0, 1, 0],
      [2, 3, 2, 3, 2],
      [0, 1, 0, 1, 0],
    ]
    expect([...(await world.read(out, 0))]).toEqual(rows.flat())
    await world.close()
  })

  it.each([
    ['one extent for each axis', [2], 'the cluster has 1 extents, but the space has 2 axes'],
    ['at most eight programs', [4, 4], '1 to 8 programs in all'],
    ['whole numbers', [0, 2], 'extents must be whole numbers'],
  ])('has %s', (_, cluster, message) => {
    const wrong = kernel('wrong', { x: tensor(f32, 2) }, (t, { x }) =>
      t.persistent(x.tiles([4, 4]), (tile) => t.store(tile, 1), { cluster }),
    )
    expect(() => wrong.record({ world: 1 })).toThrow(message)
  })

  it('has clusters of one shape', () => {
    const wrong = kernel('wrong', { x: tensor(f32, 2) }, (t, { x }) => {
      t.persistent(x.tiles([4, 4]), (tile) => t.store(tile, 1), { cluster: [2, 1] })
      t.persistent(x.tiles([4, 4]), (tile) => t.store(tile, 2), { cluster: [1, 2] })
    })
    expect(() => wrong.record({ world: 1 })).toThrow('all clusters of a launch must have the same shape')
  })

  it('multicasts whole tiles into shared memory inside a loop with clusters', () => {
    const body = (where: 'outside' | 'masked') =>
      kernel('wrong', { x: tensor(f32, 1) }, (t, { x }) => {
        const tile = t.shared(f32, [4])
        if (where === 'outside') t.copy(x.tile([0], [4]), tile, { multicast: 0 })
        else
          t.persistent(
            [4],
            ([i]) => t.copy(x.tile([i], [4]), tile, { multicast: 0, mask: t.arange(4).lt(2) }),
            { cluster: [2] },
          )
      })
    expect(() => body('outside').record({ world: 1 })).toThrow('inside t.persistent(…, { cluster })')
    expect(() => body('masked').record({ world: 1 })).toThrow('cannot have a mask')
  })
})

const onGpu = (recorded: KernelIR, shapes: Shapes): KernelIR =>
  atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))

/** The kernel as lowered for a GPU, in which `change` gives a node other attributes or drops the node. */
const changed =
  (change: (node: Node) => Node['attributes'] | 'drop' | undefined) =>
  (recorded: KernelIR, shapes: Shapes): KernelIR => {
    const ir = onGpu(recorded, shapes)
    const copier: Copier = new Copier((node) => {
      const attributes = change(node)
      if (attributes === undefined || attributes === 'drop') return attributes
      const inputs = node.inputs.map((input) => copier.get(input))
      return copier.emit(
        node.op,
        inputs,
        attributes,
        node.blocks.map((block) => copier.copyBlock(block)),
        node.site,
      )
    })
    return { ...ir, body: copier.copyBlock(ir.body) }
  }

const tiles = { BM: 16, BN: 16, BK: 32 }
const extents = [64, 64, 96]
const explored = (meta: Record<string, number>, stage: typeof onGpu = onGpu, schedules = 6) =>
  explore(multiply({ ...tiles, ...meta }, extents, 8), { ranks: 1, schedules, stage })

describe('on a GPU, a cluster', () => {
  it.each([
    { rows: 2, columns: 1 },
    { rows: 1, columns: 2 },
    { rows: 2, columns: 2 },
    { rows: 4, columns: 2 },
  ])('fetches tiles in parts: %j', async (meta) => {
    const { findings } = await explored(meta)
    expect(findings).toEqual([])
    const recorded = product.record({ world: 1, meta: { ...tiles, ...meta } })
    const [M, N, K] = extents
    const ir = onGpu(recorded, { a: [M, K], b: [K, N], c: [M, N] })
    const parts = [...walk(ir.body)].map(({ attributes }) => attributes.parts).filter((one) => one)
    expect(parts).toEqual([meta.columns, meta.rows].filter((one) => one > 1))
  })

  it.each([
    ['the tiles do not fill whole clusters', [48, 64, 96]],
    ['the rows of a tile start anywhere', [64, 60, 96]],
  ])('fetches every tile for itself where %s', (_, [M, N, K]) => {
    const recorded = product.record({ world: 1, meta: tiles })
    const ops = [...walk(onGpu(recorded, { a: [M, K], b: [K, N], c: [M, N] }).body)]
    expect(ops.filter(({ attributes }) => attributes.parts)).toEqual([])
    expect(ops.filter(({ op }) => op === 'cluster.meet')).toEqual([])
  })

  // A kernel in which the programs of a cluster synchronise twice. The change is applied to each program's code once.
  let [starts, ends] = [0, 0]
  const isMeeting = ({ op }: Node): boolean => op === 'cluster.meet'
  it.each<[string, string, Parameters<typeof changed>[0]]>([
    [
      'releases a slot to itself only',
      'deadlock',
      ({ op, attributes }) =>
        op === 'barrier.arrive' && attributes.multicast ? { ...attributes, multicast: undefined } : undefined,
    ],
    [
      'waits for its own consumer only',
      'race',
      ({ op, attributes }) =>
        op === 'barriers' && attributes.cluster ? { ...attributes, arrivals: 1 } : undefined,
    ],
    ['does not meet at the start', 'race', (node) => (isMeeting(node) && !starts++ ? 'drop' : undefined)],
    ['does not meet at the end', 'race', (node) => (isMeeting(node) && ends++ % 2 ? 'drop' : undefined)],
    [
      'waits for more parts than there are',
      'deadlock',
      ({ attributes }) => (attributes.parts ? { ...attributes, parts: 4 } : undefined),
    ],
  ])('that %s is found: %s', async (_, kind, change) => {
    const { findings } = await explored({ rows: 2, columns: 1 }, changed(change), 20)
    expect(findings.map((one) => one.kind)).toContain(kind)
  })
})
