/**
 * Small kernels that together use every op of the IR in every dtype that it supports, on operands of all fragment
 * layouts: scalars, vectors, broadcast scalars, values computed from indices, and matrices whose rows are reduced.
 */
import { dtypes, type DType, type DotDType, type StorageDType } from '../../src/ir/dtype.ts'
import { flags, kernel, scalar, tensor, type Kernel, type Meta } from '../../src/lang/kernel.ts'
import type { Program } from '../../src/lang/program.ts'
import { ceilDiv, type Tensor } from '../../src/lang/tensor.ts'
import type { Value } from '../../src/lang/value.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import * as probes from '../cuda/probes.ts'
import { call } from '../targets/differential/entries.ts'
import { generate } from '../targets/differential/generator.ts'

export interface Probe {
  readonly name: string
  readonly kernel: Pick<Kernel, 'record'>
  readonly ranks: number
  readonly meta?: Meta
  /** True if the host signals flags of the kernel. */
  readonly hostSignals?: true
}

const allDTypes = Object.keys(dtypes) as DType[]
const storage = allDTypes.filter((dtype): dtype is StorageDType => dtype !== 'bool')
const arithmetic = ['f32', 'i32', 'u32', 'i64'] as const
const B = 96

/** The dtype in which a probe kernel stores a value. Masks are stored as i32. */
const stored = (dtype: DType): StorageDType => (dtype === 'bool' ? 'i32' : dtype)
const asDType = (value: Value, dtype: DType): Value => (dtype === 'bool' ? call(value, 'ne', 0) : value)
const asStored = (value: Value): Value =>
  value.dtype === 'bool' ? (value as Value<'bool', 1>).to('i32') : value

interface Places {
  readonly x: Tensor<StorageDType, 2>
  readonly y: Tensor<StorageDType, 2>
  readonly out: Tensor<StorageDType, 2>
}

/** Applies `compute` to operands of every kind. */
function everywhere(
  t: Program,
  { x, y, out }: Places,
  dtype: DType,
  compute: (a: Value, b: Value) => Value,
): void {
  let row = 0
  const at = (from: Tensor<StorageDType, 2>, place: readonly unknown[]): Value =>
    asDType(t.load(from.at(place as [number, number])) as Value, dtype)
  const store = (value: Value): void => {
    const kept = asStored(value)
    if (kept.shape.length === 0) t.store(out.at([row++, 0]), kept as Value<StorageDType, 0>)
    else if (kept.shape.length === 1)
      t.store(out.at([row++, t.arange(kept.shape[0])]), kept as Value<StorageDType, 1>)
    else t.store(out.tile([row++, 1], [16, 24]), kept as Value<StorageDType, 2>)
  }
  const lanes = t.arange(B)
  const [a, b] = [at(x, [0, 0]), at(y, [0, 0])]
  const vector = at(x, [1, lanes])
  store(compute(a, b))
  store(compute(vector, at(y, [1, lanes])))
  store(compute(vector, b))
  store(compute(a.broadcast([B]), b.broadcast([B])))
  const indices = lanes.to(dtype === 'bool' ? 'i32' : dtype) as Value
  store(compute(asDType(indices, dtype), asDType(indices, dtype)))
  const matrix = (from: Tensor<StorageDType, 2>): Value =>
    asDType(t.load(from.tile([1, 2], [16, 24])) as Value, dtype)
  const whole = compute(matrix(x), matrix(y))
  store(whole)
  // Reducing the rows forces the layout of a matrix product's result.
  const numbers = whole.dtype === 'bool' ? whole.to('i32') : whole
  if (!dtypes[numbers.dtype].arithmetic) return
  const largest = call(numbers, 'maximum', 1) as Value<'f32', 1>
  store(call(numbers, 'sub', largest.expand(1)))
}

const params = (from: StorageDType, to: StorageDType) => ({
  x: tensor(from, 2),
  y: tensor(from, 2),
  out: tensor(to, 2),
})

/** A kernel for one dtype that applies each operation and stores each result. */
function elementwise(
  name: string,
  dtype: DType,
  operations: Readonly<Record<string, (a: Value, b: Value) => Value>>,
  resultOf: (operation: string) => DType = () => dtype,
): Probe {
  const outs = Object.keys(operations).map((one) => [`out_${one}`, tensor(stored(resultOf(one)), 2)] as const)
  const from = { x: tensor(stored(dtype), 2), y: tensor(stored(dtype), 2) }
  const made = kernel('probe', { ...from, ...Object.fromEntries(outs) }, (t, args) => {
    for (const [one, compute] of Object.entries(operations)) {
      const { x, y, [`out_${one}`]: out } = args as unknown as Record<string, Places['x']>
      everywhere(t, { x, y, out }, dtype, compute)
    }
  })
  return { name: `ops/${name}/${dtype}`, kernel: made as unknown as Kernel, ranks: 2 }
}

const bits: readonly DType[] = ['i32', 'u32', 'i64', 'bool']
const integers: readonly DType[] = ['i32', 'u32', 'i64']
const unary: Readonly<Record<string, readonly DType[]>> = {
  ...{ neg: arithmetic, abs: ['f32', 'i32', 'i64'], not: bits },
  ...{ exp2: ['f32'], log2: ['f32'], sqrt: ['f32'], rsqrt: ['f32'], tanh: ['f32'], sigmoid: ['f32'] },
  ...{ exp: ['f32'], log: ['f32'], sin: ['f32'], cos: ['f32'], erf: ['f32'] },
  ...{ floor: ['f32'], ceil: ['f32'], round: ['f32'] },
}
const binary: Readonly<Record<string, readonly DType[]>> = {
  ...{ add: arithmetic, sub: arithmetic, mul: arithmetic, div: arithmetic, min: arithmetic, max: arithmetic },
  ...{ pow: ['f32'], mod: integers, shl: integers, shr: integers, and: bits, or: bits, xor: bits },
}

function values(): Probe[] {
  const comparisons = (dtype: DType): readonly string[] =>
    dtype === 'bool' ? ['eq', 'ne'] : ['eq', 'ne', 'lt', 'le', 'gt', 'ge']
  return [
    ...Object.entries(unary).flatMap(([op, of]) =>
      of.map((dtype) => elementwise(op, dtype, { [op]: (a) => call(a, op) })),
    ),
    ...Object.entries(binary).flatMap(([op, of]) =>
      of.map((dtype) => elementwise(op, dtype, { [op]: (a, b) => call(a, op, b) })),
    ),
    ...[...arithmetic, 'bool' as const].map((dtype) => {
      const all = comparisons(dtype).map((op) => [op, (a: Value, b: Value) => call(a, op, b)] as const)
      return elementwise('compare', dtype, Object.fromEntries(all), () => 'bool')
    }),
    ...allDTypes.map((dtype) => {
      const all = allDTypes.map((to) => [to, (a: Value) => a.to(to) as Value] as const)
      return elementwise('cast', dtype, Object.fromEntries(all), (to) => to as DType)
    }),
    ...allDTypes.map((dtype) =>
      elementwise('select', dtype, {
        select: (a, b) => call(dtype === 'bool' ? a : (a.to('f32') as Value<'f32', 0>).gt(0), 'select', a, b),
      }),
    ),
  ]
}

/** A probe kernel for sums, maxima and minima along each axis of vectors and matrices. */
function reductions(): Probe[] {
  return arithmetic.map((dtype) => ({
    name: `ops/reduce/${dtype}`,
    ranks: 2,
    kernel: kernel('reduce', params(dtype, dtype), (t, { x, y, out }) => {
      for (const [row, op] of ['sum', 'maximum', 'minimum'].entries()) {
        const matrix = t.load(x.tile([row, 0], [24, 16])) as Value
        t.store(out.at([row, t.arange(16)]), call(matrix, op, 0) as Value<typeof dtype, 1>)
        t.store(out.at([row, t.arange(24)]), call(matrix, op, 1) as Value<typeof dtype, 1>)
        const vector = t.load(y.at([row, t.arange(B)])) as Value
        t.store(out.at([row, 0]), call(vector, op) as Value<typeof dtype, 0>)
      }
    }),
  }))
}

/** A probe kernel for argmax, argmin, running sums, reshaping and interleaving, of vectors and of matrices in every layout. */
function gatherings(): Probe[] {
  return arithmetic.map((dtype) => ({
    name: `ops/gathered/${dtype}`,
    ranks: 2,
    kernel: kernel(
      'gathered',
      { ...params(dtype, dtype), indices: tensor('i32', 2) },
      (t, { x, y, out, indices }) => {
        const matrix = t.load(x.tile([0, 0], [24, 16])) as Value<'i32', 2>
        const vector = t.load(y.at([0, t.arange(B)])) as Value as Value<'i32', 1>
        const rows = matrix.sub(matrix.maximum(1).expand(1))
        for (const [row, op] of (['argmax', 'argmin'] as const).entries()) {
          t.store(indices.at([row, t.arange(16)]), matrix[op](0))
          t.store(indices.at([row, t.arange(24)]), rows[op](1))
          t.store(indices.at([row, 0]), vector[op]())
        }
        const put = (value: Value<'i32', 2>): void =>
          t.store(out.tile([1, 1], value.shape as readonly [number, number]), value as never)
        for (const axis of [0, 1]) put(rows.cumsum(axis))
        put(matrix.reshape([16, 24]))
        put(vector.cumsum().reshape([8, 12]))
        put(matrix.interleave(rows))
        t.store(out.at([3, t.arange(2 * B)]), vector.interleave(vector) as never)
      },
    ) as never,
  }))
}

/** Random words and numbers, with counters that are scalars, vectors and matrices, from indices and from memory. */
function randomNumbers(): Probe[] {
  const params = { x: tensor('i32', 2), words: tensor('u32', 2), out: tensor('f32', 2) }
  const made = kernel('randomNumbers', params, (t, { x, words, out }) => {
    const lanes = t.arange(B)
    const seed = t.load(x.at([0, 0]))
    t.store(words.at([0, 0]), t.random('u32', 1, t.rank))
    t.store(words.at([1, lanes]), t.random('u32', [seed, 2], t.load(x.at([1, lanes]))))
    t.store(words.at([2, lanes]), t.random('u32', 2 ** 40, lanes))
    const [a, b, c, d] = t.random4('f32', seed, [t.load(x.tile([1, 2], [16, 24])), 0, t.rank])
    t.store(out.tile([0, 0], [16, 24]), a.add(b).add(c).add(d))
    const at = t.arange(16).mul(24).expand(1).add(t.arange(24).expand(0))
    const drawn = t.random('f32', 7, at)
    t.store(out.tile([1, 1], [16, 24]), drawn.sub(drawn.maximum(1).expand(1)))
  })
  return [{ name: 'ops/random', kernel: made as never, ranks: 2 }]
}

/** A probe kernel for flags that the host may signal, awaited and asked for without waiting. */
function hostSignals(): Probe[] {
  const made = kernel('answer', { x: tensor('i32', 1), go: flags(1) }, (t, { x, go }) => {
    t.wait(go.at([0]))
    t.if(t.reached(go.at([1])), () => t.store(x.at([0]), t.load(x.at([1]))))
  })
  return [{ name: 'facts/host-signals', kernel: made, ranks: 2, hostSignals: true }]
}

/** A probe kernel for assertions and printed values, in roles as well. */
function diagnostics(): Probe[] {
  const params = { x: tensor('f32', 2), n: scalar('i64') }
  const made = kernel('diagnostics', params, (t, { x, n }) => {
    const tile = t.load(x.tile([0, 0], [16, 24]))
    t.assert(tile.gt(0), 'all are positive')
    t.assert(n.lt(9), 'n is below 9')
    t.print('tile', tile, n, tile.sum(1).gt(1), t.rank)
    t.roles({
      one: { warps: 4, body: () => t.print('n', n) },
      other: { warps: 4, body: () => t.assert(t.load(x.at([1, t.arange(B)])).lt(7), 'all are below 7') },
    })
  })
  return [{ name: 'ops/diagnostics', kernel: made, ranks: 2 }]
}

/** Tiles, shared tiles, gathered rows, masks, slices and accesses to other ranks, for every storage dtype. */
function moves(): Probe[] {
  return storage.map((dtype) => ({
    name: `ops/move/${dtype}`,
    ranks: 2,
    kernel: kernel(
      'move',
      {
        x: tensor(dtype, 2),
        out: tensor(dtype, 2),
        deep: tensor(dtype, 3),
        rows: tensor('i32', 1),
        n: scalar('i32'),
      },
      (t, { x, out, deep, rows, n }) => {
        const tile = t.shared(dtype, [32, 16])
        const line = t.shared(dtype, [64])
        t.persistent(out.tiles([32, 16]), (place, [i, j]) => {
          t.copy(x.tile([i, j], [32, 16]), tile)
          t.copy(tile, place)
          t.store(place, t.load(tile))
          t.store(out.tile([j, i], [16, 32]), t.load(tile.transpose()))
          t.store(out.tile([j, i], [16, 32]), t.load(tile).transpose())
          t.copy(x.rows(t.load(rows.tile([i], [32]))).tile(0, 16), tile)
          t.copy(deep.pick(i).slice(0, n, x.dim(0)).tile([i, j], [32, 16]), tile)
          t.get(x.on(t.rank.add(1).mod(t.world)).tile([i, j], [32, 16]), tile)
          t.put(tile, out.on(0).tile([j, i], [32, 16]))
        })
        const lanes = t.arange(64)
        t.copy(x.pick(0).tile([0], [64]), line)
        const mask = lanes.lt(n)
        t.store(out.at([1, lanes]), t.load(x.at([0, lanes]), { mask, other: 0 }), { mask })
        t.copy(x.at([0, lanes]), out.at([2, lanes.mul(2)]), { mask })
        t.store(out.at([3, lanes]), t.load(line))
      },
    ),
  }))
}

const scopes = ['block', 'device', 'system'] as const

/** A probe kernel for element accesses with every memory order and scope. */
function orders(): Probe[] {
  return storage.map((dtype) => ({
    name: `ops/order/${dtype}`,
    ranks: 2,
    kernel: kernel('order', { x: tensor(dtype, 1), out: tensor(dtype, 1) }, (t, { x, out }) => {
      for (const scope of scopes) {
        const lanes = t.arange(32)
        for (const order of ['relaxed', 'acquire'] as const) {
          t.store(out.at([0]), t.load(x.at([0]), { order, scope }))
          t.store(out.at([lanes]), t.load(x.at([lanes]), { order, scope, mask: lanes.lt(9) }))
        }
        for (const order of ['relaxed', 'release'] as const) {
          t.store(out.at([0]), t.load(x.at([1])), { order, scope })
          t.store(out.on(0).at([lanes]), t.load(x.at([lanes])), { order, scope })
        }
      }
    }),
  }))
}

const atomicOps = ['add', 'sub', 'xchg', 'min', 'max', 'and', 'or', 'xor', 'cas'] as const

function atomics(): Probe[] {
  return arithmetic.flatMap((dtype) =>
    atomicOps.flatMap((op) => {
      if (dtype === 'f32' && ['and', 'or', 'xor', 'cas'].includes(op)) return []
      const made = kernel('atomic', { x: tensor(dtype, 1), out: tensor(dtype, 1) }, (t, { x, out }) => {
        type Atomic = (place: unknown, ...rest: unknown[]) => Value<typeof dtype, 1>
        const atomic = (t.atomic[op] as unknown as Atomic).bind(t.atomic)
        const operands = op === 'cas' ? [1, 2] : [3]
        const lanes = t.arange(48)
        for (const scope of scopes)
          for (const order of ['relaxed', 'acquire', 'release', 'acqRel'] as const) {
            atomic(x.at([0]), ...operands, { order, scope })
            t.store(
              out.at([0]),
              atomic(x.at([1]), ...operands, { order, scope }) as Value as Value<typeof dtype, 0>,
            )
          }
        atomic(x.on(0).at([lanes]), ...operands, { mask: lanes.lt(7) })
        t.store(out.at([lanes]), atomic(x.at([lanes]), ...operands))
      })
      return [{ name: `ops/atomic-${op}/${dtype}`, kernel: made, ranks: 2 }]
    }),
  )
}

/** Matrix products whose programs share tiles along one axis of a cluster, or along both axes. */
function clusters(): Probe[] {
  return [
    { CM: 2, CN: 1 },
    { CM: 2, CN: 2 },
  ].map(({ CM, CN }) => ({
    name: `ops/clusters/${CM}x${CN}`,
    kernel: gemmKernel('bf16'),
    ranks: 1,
    meta: { BM: 128, BN: 64, BK: 64, stages: 3, CM, CN },
  }))
}

const dotDTypes: readonly DotDType[] = ['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8']
const dotShapes = [
  { M: 16, N: 16, K: 16 },
  { M: 8, N: 64, K: 64 },
  { M: 24, N: 20, K: 24 },
  { M: 128, N: 64, K: 32 },
]

const operandPlaces = [
  ['shared', 'shared'],
  ['transposed', 'registers'],
  ['registers', 'transposed'],
] as const

function dots(): Probe[] {
  return dotDTypes.flatMap((dtype) =>
    dotShapes.flatMap(({ M, N, K }) =>
      operandPlaces.map(([left, right]) => ({
        name: `ops/dot-${M}x${N}x${K}/${dtype}/${left}-${right}`,
        kernel: probes.productOf(dtype),
        ranks: 1,
        meta: { M, N, K, left, right },
      })),
    ),
  )
}

/** Loops and branches that carry scalars and fragments of every arithmetic dtype, and every way to leave them. */
function control(): Probe[] {
  return arithmetic.map((dtype) => ({
    name: `ops/control/${dtype}`,
    ranks: 2,
    kernel: kernel(
      'control',
      { x: tensor(dtype, 2), out: tensor(dtype, 2), n: scalar('i32') },
      (t, { x, out, n }) => {
        const place = out.tile([0, 0], [16, 16])
        const start = { one: t.load(x.at([0, 0])), all: t.load(x.tile([0, 0], [16, 16])) }
        type State = { readonly one: Value<typeof dtype, 0>; readonly all: Value<typeof dtype, 2> }
        const next = ({ one, all }: State) => ({
          one: call(one, 'add', 1) as Value<typeof dtype, 0>,
          all: call(all, 'add', one) as Value<typeof dtype, 2>,
        })
        const looped = t.for({ from: 1, to: n, step: 3 }, start, (_, state) => next(state))
        const ended = t.while(looped, ({ one }) => call(one, 'lt', 9) as Value<'bool', 0>, next)
        const chosen = t.if(
          n.gt(3),
          () => ended,
          () => next(ended),
        )
        t.store(place, chosen.all)
        t.store(out.at([17, 0]), chosen.one)
        const counted = t.persistent([n, 3], start, (_, state) => next(state))
        t.store(place, counted.all)
        const swapped = t.for(n, { a: start.all, b: counted.all }, (_, { a, b }) => ({ a: b, b: a }))
        t.store(place, swapped.a)
        t.last(() => t.store(place, swapped.b))
      },
    ),
  }))
}

/** Flags, fences, barriers, roles and teams with all their options. */
function synchronisation(): Probe[] {
  const flagged = kernel(
    'flagged',
    { x: tensor('f32', 2), one: flags(), many: flags(2, { arrivals: 3 }) },
    (t, { x, one, many }) => {
      for (const scope of scopes) {
        for (const order of ['acquire', 'release', 'acqRel', 'seqCst'] as const) t.fence(order, scope)
        for (const order of ['release', 'relaxed'] as const) t.signal(one.on(1), { order, scope })
        for (const order of ['acquire', 'relaxed'] as const) {
          t.wait(many.at([t.rank, 0]), { order, scope, lag: 2 })
          t.if(t.reached(one, { order, scope, lag: 1 }), () => t.store(x.at([0, 0]), 1))
        }
      }
      t.signalAll(many.at([t.rank, 1]))
      t.for(t.world, (peer) => t.wait(many.at([peer, 1])))
      t.store(x.at([0, 1]), t.epoch(one).add(t.epoch(many, 'wait')).to('f32'))
    },
  )
  const roles = kernel('roles', { x: tensor('bf16', 2), out: tensor('f32', 2) }, (t, { x, out }) => {
    const tile = t.shared('bf16', [2, 64, 64])
    const [full, empty] = [t.barriers(2), t.barriers(2)]
    const count = ceilDiv(x.dim(0), 64)
    t.roles({
      load: {
        warps: 4,
        body: () =>
          t.for(count, (i) => {
            t.wait(empty.at(i.mod(2)), i.div(2).sub(1))
            t.copyAsync(x.tile([i, 0], [64, 64]), tile.pick(i.mod(2)), full.at(i.mod(2)))
            t.arrive(full.at(i.mod(2)))
          }),
      },
      multiply: {
        warps: 8,
        body: () => {
          const sum = t.for(count, t.zeros('f32', [64, 64]), (i, acc) => {
            t.wait(full.at(i.mod(2)), i.div(2))
            const slot = tile.pick(i.mod(2))
            const next = t.dot(slot, slot.transpose(), acc)
            t.arrive(empty.at(i.mod(2)))
            return next
          })
          t.store(out.tile([0, 0], [64, 64]), sum)
        },
      },
    })
  })
  const meeting = kernel('meeting', { x: tensor('f32', 2) }, (t, { x }) => {
    t.roles({
      first: { warps: 2, body: () => (t.store(x.at([0, 0]), 1), t.barrier()) },
      second: { warps: 6, body: () => (t.barrier(), t.store(x.at([0, 1]), t.load(x.at([0, 0])))) },
    })
  })
  const counted = kernel(
    'counted',
    { x: tensor('f32', 2), one: flags(), many: flags(1, { arrivals: 3 }) },
    (t, { x, one, many }) => {
      t.signal(one.on(1))
      t.wait(one, { atLeast: 1 })
      t.for(3, (k) => {
        t.signal(many.on(1).at([0]))
        t.wait(many.at([0]), { atLeast: k.add(1) })
        t.wait(many.at([0]), { atLeast: k, lag: 1, order: 'relaxed', scope: 'device' })
        t.if(t.reached(many.at([1]), { atLeast: k, lag: 2 }), () => t.store(x.at([0, k]), 1))
      })
    },
  )
  return [flagged, roles, meeting, counted].map((made) => ({
    name: `ops/${made.name}`,
    kernel: made as never,
    ranks: 2,
  }))
}

/** Probes of copies in flight (by TMA from plain and swizzled tiles, by a one-thread role, by threads) and of puts with signals. */
function inFlight(): Probe[] {
  const sent = kernel(
    'sent',
    { x: tensor('f32', 2), y: tensor('bf16', 2), out: tensor('f32', 2), told: flags() },
    (t, { x, y, out, told }) => {
      const peer = t.rank.add(1).mod(t.world)
      const buffers = t.shared('f32', [2, 16, 32])
      const swizzled = t.shared('bf16', [64, 64])
      t.for(ceilDiv(x.dim(0), 16), (i) => {
        t.store(buffers.pick(i.mod(2)), t.load(x.tile([i, 0], [16, 32])).mul(2))
        t.quiet({ reads: true })
        t.copyAsync(buffers.pick(i.mod(2)), out.on(peer).tile([i, 0], [16, 32]))
      })
      t.copy(y.tile([0, 0], [64, 64]), swizzled)
      t.copyAsync(swizzled, y.on(peer).tile([1, 0], [64, 64]))
      const squares = t.dot(swizzled, swizzled.transpose(), t.zeros('f32', [64, 64]))
      t.quiet()
      t.copyAsync(swizzled, y.on(peer).slice(0, 64, x.dim(0)).tile([0, 0], [64, 64]))
      t.store(out.tile([1, 1], [64, 64]), squares)
      t.quiet()
      t.putSignal(x.tile([0, 0], [16, 32]), out.on(peer).tile([0, 3], [16, 32]), told.on(peer))
    },
  )
  const storedByRole = kernel(
    'storedByRole',
    { x: tensor('f32', 2), out: tensor('f32', 2) },
    (t, { x, out }) => {
      const ring = t.shared('f32', [2, 16, 32])
      const [full, empty] = [t.barriers(2), t.barriers(2)]
      const count = ceilDiv(x.dim(0), 16)
      t.roles({
        fill: () =>
          t.for(count, (i) => {
            t.wait(empty.at(i.mod(2)), i.div(2).sub(1))
            t.store(ring.pick(i.mod(2)), t.load(x.tile([i, 0], [16, 32])).add(1))
            t.arrive(full.at(i.mod(2)))
          }),
        store: {
          warps: 1,
          body: () =>
            t.for(count, (i) => {
              t.wait(full.at(i.mod(2)), i.div(2))
              t.copyAsync(ring.pick(i.mod(2)), out.tile([i, 0], [16, 32]))
              t.quiet({ reads: true })
              t.arrive(empty.at(i.mod(2)))
            }),
        },
      })
    },
  )
  const exchanged = kernel(
    'exchanged',
    { x: tensor('f32', 1), out: tensor('f32', 1), told: flags(1, { arrivals: 2 }) },
    (t, { x, out, told }) => {
      const peer = t.rank.add(1).mod(t.world)
      const tile = t.shared('f32', [6])
      t.putNbi(x.tile([0], [6]), out.on(peer).tile([0], [6]), { mask: t.arange(6).lt(4) })
      t.getNbi(x.on(peer).tile([1], [6]), tile)
      t.quiet()
      t.copyAsync(tile, out.tile([1], [6]))
      t.quiet({ reads: true })
      const mask = t.arange(6).ge(2)
      t.putSignal(x.tile([2], [6]), out.on(peer).tile([2], [6]), told.on(peer).at([0]), {
        mask,
        scope: 'device',
      })
    },
  )
  return [sent, storedByRole, exchanged].map((made) => ({
    name: `inFlight/${made.name}`,
    kernel: made as never,
    ranks: 2,
  }))
}

/** Random kernels of the differential tests, for combinations that no handwritten probe has. */
function random(): Probe[] {
  let state = 1
  const gene = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 12
  return (['exact', 'bounded'] as const).flatMap((kind) =>
    Array.from({ length: 24 }, (_, n) => {
      const { kernel, shape } = generate(
        Array.from({ length: 300 }, () => gene() % 5040),
        kind,
        'golden',
      )
      return { name: `random/${kind}-${n}`, kernel: kernel as never, ranks: shape.ranks }
    }),
  )
}

export function opProbes(): Probe[] {
  const { attention, transposedGemm, moves: moving, elements, teams, bytes, stretched, looking } = probes
  const written = { attention, transposedGemm, moving, elements, teams, bytes, stretched, looking }
  return [
    ...Object.entries(written).map(([name, made]) => ({
      name: `probes/${name}`,
      kernel: made as never,
      ranks: 2,
    })),
    ...[
      values,
      reductions,
      gatherings,
      randomNumbers,
      diagnostics,
      hostSignals,
      moves,
      orders,
      atomics,
      dots,
      clusters,
      control,
      synchronisation,
      inFlight,
      random,
    ].flatMap((make) => make()),
  ]
}
