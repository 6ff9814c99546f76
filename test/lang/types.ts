/**
 * Code that the language's types must accept or reject. `npm run typecheck` compiles this file, and it is never
 * executed. A line after `@ts-expect-error` must not compile, and every other line must.
 */
import {
  bf16,
  bool,
  ceilDiv,
  expectClose,
  f32,
  flags,
  i32,
  i64,
  scalar,
  tensor,
  type Arguments,
  type Flags,
  type Fragment,
  type Program,
  type Ref,
  type Scalar,
  type Shared,
  type Tensor,
  type Value,
} from 'arke'

/** Fails to compile unless the two types are the same. */
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
export const exactly =
  <A>() =>
  <B>(_value: B, ..._wrong: Equal<A, B> extends true ? [] : ['another type']): void => {}

export const params = {
  a: tensor(bf16, 2),
  b: tensor(bf16, 2),
  c: tensor(f32, 2),
  v: tensor(f32, 1),
  cube: tensor(bf16, 3),
  counts: tensor(i32, 1),
  n: scalar(i32),
  scale: scalar(f32),
  ready: flags(),
  grid: flags(2),
}

export function arguments_(args: Arguments<typeof params>): void {
  exactly<Tensor<'bf16', 2>>()(args.a)
  exactly<Tensor<'bf16', 3>>()(args.cube)
  exactly<Scalar<'i32'>>()(args.n)
  exactly<Value<'f32', 0>>()(args.scale)
  exactly<Flags<0>>()(args.ready)
  exactly<Flags<2>>()(args.grid)
  // @ts-expect-error there is no such argument
  void args.missing
}

// @ts-expect-error a mask is not stored
export const masks = tensor(bool, 1)
// @ts-expect-error a tensor has one to four axes
export const tooMany = tensor(f32, 5)
// @ts-expect-error a tensor has at least one axis
export const tooFew = tensor(f32, 0)
// @ts-expect-error f64 is not a dtype
export const noSuchDtype = tensor('f64', 1)
// @ts-expect-error a launch passes numbers of 32 or 64 bits
export const smallScalar = scalar(bf16)

export function arithmetic(
  x: Scalar<'f32'>,
  n: Scalar<'i32'>,
  row: Fragment<'f32', 1>,
  matrix: Fragment<'f32', 2>,
  half: Fragment<'bf16', 2>,
  mask: Fragment<'bool', 2>,
): void {
  exactly<Value<'f32', 0>>()(x.neg())
  const sum = matrix.add(matrix)
  exactly<Value<'f32', 2>>()(sum)
  const scaled = matrix.mul(x)
  exactly<Value<'f32', 2>>()(scaled)
  const turned = x.mul(matrix)
  exactly<Value<'f32', 2>>()(turned)
  const shifted = matrix.sub(1.5)
  exactly<Value<'f32', 2>>()(shifted)
  const less = row.lt(x)
  exactly<Value<'bool', 1>>()(less)
  const column = row.expand(1)
  exactly<Value<'f32', 2>>()(column)
  const stretched = matrix.add(row.expand(0))
  exactly<Value<'f32', 2>>()(stretched)
  const rows = matrix.sum(1)
  exactly<Value<'f32', 1>>()(rows)
  const total = row.maximum()
  exactly<Value<'f32', 0>>()(total)
  const cast = half.to(f32)
  exactly<Value<'f32', 2>>()(cast)
  const chosen = mask.select(matrix, -Infinity)
  exactly<Value<'f32', 2>>()(chosen)
  exactly<Value<'f32', 2>>()(mask.select(-Infinity, matrix))
  exactly<Value<'bf16', 2>>()(mask.select(0, half))
  exactly<Value<'i32', 2>>()(mask.select(n, 0))
  exactly<Value<'f32', 1>>()(n.gt(0).select(row, x))
  exactly<Value<'f32', 2>>()(mask.select(1, 0))
  const both = mask.and(matrix.gt(0))
  exactly<Value<'bool', 2>>()(both)
  const wide = x.broadcast([3, 4])
  exactly<Value<'f32', 2>>()(wide)
  n.add(1).mod(n).shl(2).xor(n).not().to(i64).div(3)

  // @ts-expect-error the dtypes differ
  matrix.add(half)
  // @ts-expect-error the dtypes differ
  x.add(n)
  // @ts-expect-error bf16 is storage: cast first
  half.add(half)
  // @ts-expect-error bf16 is storage: a number cannot be added either
  half.mul(2)
  // @ts-expect-error bf16 is storage: it cannot be compared
  half.lt(half)
  // @ts-expect-error bf16 is storage: it cannot be reduced
  half.sum(1)
  // @ts-expect-error a vector needs expand() before it is combined with a matrix
  matrix.add(row)
  // @ts-expect-error a vector on the right side needs expand(), too
  row.add(matrix)
  // @ts-expect-error a remainder is defined for integers only
  x.mod(2)
  // @ts-expect-error bit operations are defined for integers only
  x.and(x)
  // @ts-expect-error a shift is defined for integers only
  matrix.shl(1)
  // @ts-expect-error an exponential is defined for floats only
  n.exp2()
  // @ts-expect-error masks have no arithmetic
  mask.add(mask)
  // @ts-expect-error only a mask has select()
  matrix.select(matrix, matrix)
  // @ts-expect-error the two choices have different dtypes
  mask.select(matrix, half)
  // @ts-expect-error memory is loaded first
  mask.select(0, cast.node)
  // @ts-expect-error a vector is expanded first
  mask.select(0, row)
  // @ts-expect-error a matrix is not expanded
  matrix.expand(0)
  // @ts-expect-error a scalar cannot be expanded
  x.expand(0)
  // @ts-expect-error a vector cannot be transposed
  row.transpose()
  // @ts-expect-error f64 is not a dtype
  x.to('f64')
  // @ts-expect-error a symbolic scalar is not a JavaScript number
  void (n + 1) // eslint-disable-line arke/no-symbol-coercion
}

export function counts(n: Scalar<'i32'>, wide: Scalar<'i64'>): void {
  exactly<number>()(ceilDiv(10, 3))
  exactly<Scalar<'i32'>>()(ceilDiv(n, 3))
  exactly<Scalar<'i32'>>()(ceilDiv(n, n))
  exactly<Scalar<'i32'>>()(ceilDiv(10, n))
  // @ts-expect-error extents are i32
  ceilDiv(wide, 3)
}

export function comparisons(actual: Float64Array, expected: readonly number[]): void {
  expectClose(actual, expected)
  expectClose(actual, expected, { atol: 1e-3 })
  expectClose(actual, expected, { atol: 1e-3, rtol: 1e-2 })
  // @ts-expect-error absolute or relative?
  expectClose(actual, expected, 1e-3)
  // @ts-expect-error no such tolerance
  expectClose(actual, expected, { tol: 1e-3 })
}

export function products(
  t: Program,
  as: Shared<'bf16', 2>,
  hs: Shared<'f16', 2>,
  bytes: Shared<'i8', 2>,
  half: Fragment<'bf16', 2>,
  acc: Fragment<'f32', 2>,
  counts: Fragment<'i32', 2>,
  line: Shared<'bf16', 1>,
): void {
  const sum = t.dot(as, as.transpose(), acc)
  exactly<Value<'f32', 2>>()(sum)
  t.dot(half, as, acc)
  t.dot(as, half.transpose(), acc)
  const exact = t.dot(bytes, bytes, counts)
  exactly<Value<'i32', 2>>()(exact)
  // @ts-expect-error the operands have different dtypes
  t.dot(as, hs, acc)
  // @ts-expect-error the operands have different dtypes
  t.dot(half, hs, acc)
  // @ts-expect-error products of bf16 are summed in f32
  t.dot(as, as, counts)
  // @ts-expect-error products of bf16 are summed in f32
  t.dot(as, as, half)
  // @ts-expect-error products of i8 are summed in i32
  t.dot(bytes, bytes, acc)
  // @ts-expect-error the matrix unit does not support i32
  t.dot(counts, counts, counts)
  // @ts-expect-error an operand has two axes
  t.dot(line, as, acc)
  // @ts-expect-error the accumulator has two axes
  t.dot(as, as, acc.sum(1))
}

export function places(
  t: Program,
  a: Tensor<'bf16', 2>,
  v: Tensor<'f32', 1>,
  cube: Tensor<'bf16', 3>,
  i: Scalar<'i32'>,
  indices: Fragment<'i32', 1>,
): void {
  const tile = a.tile([i, 0], [16, 32])
  exactly<Ref<'bf16', 2, 'global'>>()(tile)
  const line = v.tile([i], [16])
  exactly<Ref<'f32', 1, 'global'>>()(line)
  const page = cube.pick(i)
  exactly<Tensor<'bf16', 2>>()(page)
  const one = a.at([i, 3])
  exactly<Ref<'bf16', 0, 'global'>>()(one)
  const some = a.at([indices, 3])
  exactly<Ref<'bf16', 1, 'global'>>()(some)
  const square = a.at([indices.expand(1), indices.expand(0)])
  exactly<Ref<'bf16', 2, 'global'>>()(square)
  const gathered = a.rows(indices).tile(0, 64)
  exactly<Ref<'bf16', 2, 'global'>>()(gathered)
  const remote = a.on(t.rank.add(1)).slice(0, i, 16)
  exactly<Tensor<'bf16', 2>>()(remote)
  cube.at([i, i, i])

  // @ts-expect-error a tile of a matrix has two indices
  a.tile([i], [16, 32])
  // @ts-expect-error a tile of a matrix has two extents
  a.tile([i, i], [16])
  // @ts-expect-error a tile of a vector has one index
  v.tile([i, i], [16, 16])
  // @ts-expect-error only tensors with one or two axes have tile()
  cube.tile([i, i, i], [1, 16, 16])
  // @ts-expect-error only tensors with one or two axes have tiles()
  cube.tiles([1, 16, 16])
  // @ts-expect-error two indices
  a.at([i])
  // @ts-expect-error three indices
  cube.at([i, i])
  // @ts-expect-error an index is an integer
  a.at([i, t.constant(f32, 1)])
  // @ts-expect-error rows are gathered from a matrix
  v.rows(indices)
  // @ts-expect-error rows are gathered by a vector of indices
  a.rows(i)
  // @ts-expect-error a vector has only one axis, so pick() is not allowed
  v.pick(i)
  // @ts-expect-error an extent of a tile is a number
  a.tile([i, i], [i, 16])
}

export function memory(
  t: Program,
  a: Tensor<'bf16', 2>,
  c: Tensor<'f32', 2>,
  v: Tensor<'f32', 1>,
  as: Shared<'bf16', 2>,
  hs: Shared<'f16', 2>,
  acc: Fragment<'f32', 2>,
  mask: Fragment<'bool', 2>,
  short: Fragment<'bool', 1>,
): void {
  const tile = a.tile([0, 0], [16, 16])
  const out = c.tile([0, 0], [16, 16])
  const loaded = t.load(tile)
  exactly<Value<'bf16', 2>>()(loaded)
  const single = t.load(v.at([3]), { order: 'acquire', scope: 'device' })
  exactly<Value<'f32', 0>>()(single)
  t.load(tile, { mask, other: 0 })
  t.load(out, { mask, other: acc })
  t.store(out, acc, { mask })
  t.store(out, 0)
  t.store(out, t.constant(f32, 1))
  t.store(v.at([0]), 1, { order: 'release', scope: 'system' })
  t.copy(tile, as)
  t.copy(as, tile)
  t.copy(tile, a.on(1).tile([0, 0], [16, 16]), { mask })
  t.copy(acc, out)
  t.copy(acc.to(bf16), as)
  t.get(a.on(1).tile([0, 0], [16, 16]), as)
  t.put(as, a.on(1).tile([0, 0], [16, 16]))
  const staged = t.shared(bf16, [2, 16, 16])
  exactly<Shared<'bf16', 3>>()(staged)
  const stage = staged.pick(0)
  exactly<Shared<'bf16', 2>>()(stage)
  const full = t.barriers(2)
  t.copyAsync(tile, stage, full.at(0))
  t.copyAsync(stage, tile)
  t.getNbi(tile, stage)
  t.quiet({ reads: true })

  // @ts-expect-error the dtypes differ: cast
  t.store(tile, acc)
  // @ts-expect-error the ranks differ
  t.store(out, acc.sum(1))
  // @ts-expect-error the ranks differ
  t.store(v.tile([0], [16]), acc)
  // @ts-expect-error the dtypes differ
  t.copy(tile, hs)
  // @ts-expect-error the dtypes differ
  t.copy(acc, tile)
  // @ts-expect-error the ranks differ
  t.copy(v.tile([0], [16]), out)
  // @ts-expect-error the mask has another rank
  t.store(out, acc, { mask: short })
  // @ts-expect-error a mask is bool
  t.store(out, acc, { mask: acc })
  // @ts-expect-error `other` has another dtype
  t.load(tile, { mask, other: acc })
  // @ts-expect-error get reads global memory
  t.get(as, as)
  // @ts-expect-error put writes global memory
  t.put(as, as)
  // @ts-expect-error the target of an asynchronous copy is in shared memory
  t.copyAsync(tile, tile, full.at(0))
  // @ts-expect-error without a barrier, an asynchronous copy goes from shared to global memory
  t.copyAsync(tile, stage)
  // @ts-expect-error put writes global memory
  t.putNbi(tile, stage)
  // @ts-expect-error a put with a signal takes a flag
  t.putSignal(stage, tile)
  // @ts-expect-error an asynchronous copy takes one barrier, not an array
  t.copyAsync(tile, stage, full)
  // @ts-expect-error no such scope
  t.load(tile, { order: 'acquire', scope: 'cluster' })
  // @ts-expect-error no such order
  t.load(tile, { order: 'strong' })
  // @ts-expect-error a tensor is not a reference to elements
  t.load(a)
  // @ts-expect-error a shared tile has one to three extents
  t.shared(bf16, [1, 2, 3, 4])
  // @ts-expect-error a mask is not stored
  t.shared(bool, [4])
  // @ts-expect-error a fragment has at most two axes
  t.zeros(f32, [2, 3, 4])
  // @ts-expect-error a fragment has at most two axes
  t.full(f32, [2, 3, 4], 1)
}

export function atomics(
  t: Program,
  counts: Tensor<'i32', 1>,
  sums: Tensor<'f32', 1>,
  halves: Tensor<'bf16', 1>,
  lanes: Fragment<'i32', 1>,
): void {
  const before = t.atomic.add(counts.at([0]), 1)
  exactly<Value<'i32', 0>>()(before)
  const each = t.atomic.max(counts.at([lanes]), lanes, { order: 'acqRel', scope: 'device' })
  exactly<Value<'i32', 1>>()(each)
  t.atomic.add(sums.at([lanes]), 0.5, { mask: lanes.lt(4) })
  t.atomic.cas(counts.at([0]), 0, 1)
  t.atomic.xchg(sums.at([0]), 2)
  t.atomic.or(counts.at([0]), 1)
  // @ts-expect-error compare-and-swap is defined for integers only
  t.atomic.cas(sums.at([0]), 0, 1)
  // @ts-expect-error bit operations are defined for integers only
  t.atomic.xor(sums.at([0]), 1)
  // @ts-expect-error bf16 has no atomics
  t.atomic.add(halves.at([0]), 1)
  // @ts-expect-error the operand has another dtype
  t.atomic.add(sums.at([lanes]), lanes)
  // @ts-expect-error the operand has another rank
  t.atomic.add(counts.at([0]), lanes)
}

export function synchronisation(t: Program, ready: Flags<0>, grid: Flags<2>, i: Scalar<'i32'>): void {
  t.signal(ready)
  t.signal(ready.on(i), { order: 'relaxed', scope: 'device' })
  t.wait(grid.on(1).at([i, 0]), { lag: 1 })
  exactly<Value<'bool', 0>>()(t.reached(grid.on(1).at([i, 0]), { lag: 1, scope: 'device' }))
  // @ts-expect-error one flag of the set
  t.reached(grid)
  t.signalAll(grid.at([t.rank, 0]))
  const epoch = t.epoch(grid)
  exactly<Value<'u32', 0>>()(epoch)
  const full = t.barriers(3)
  t.wait(full.at(i), 0)
  t.arrive(full.at(0))
  t.fence('seqCst', 'device')
  // @ts-expect-error one flag of the set
  t.signal(grid)
  // @ts-expect-error two indices
  grid.at([i])
  // @ts-expect-error no indices
  ready.at([i])
  // @ts-expect-error a wait for a barrier needs a phase
  t.wait(full.at(0))
  // @ts-expect-error arrive takes one barrier, not an array
  t.arrive(full)
  // @ts-expect-error a flag is not a barrier
  t.arrive(ready)
  // @ts-expect-error a barrier is not a flag
  t.signal(full.at(0))
  // @ts-expect-error a relaxed fence does nothing
  t.fence('relaxed')
  // @ts-expect-error no such scope
  t.signal(ready, { scope: 'cluster' })
  // @ts-expect-error a set has at most three axes
  flags(4)
}
export function randoms(t: Program, row: Value<'i32', 1>, n: Scalar<'i32'>, square: Value<'i32', 2>): void {
  exactly<Value<'f32', 1>>()(t.random(f32, 7, row))
  // The first element of the counter determines the number of axes of the result; the other elements are scalars or
  // have as many axes.
  exactly<Value<'f32', 2>>()(t.random(f32, 7, [row, n]).expand(1))
  exactly<Value<'f32', 1>>()(t.random(f32, [n, 7], [row, n, 3, row]))
  exactly<Value<'f32', 2>>()(t.random(f32, n, [square, n]))
  exactly<Value<'f32', 0>>()(t.random(f32, 7, [n, n]))
  exactly<Value<'f32', 1>>()(t.random4(f32, 7, [row, n])[3])
  // @ts-expect-error a scalar first, so that the vector does not fit
  t.random(f32, 7, [n, row])
  // @ts-expect-error a matrix does not fit a vector
  t.random(f32, 7, [row, square])
}
