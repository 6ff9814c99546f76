/** Tests mistakes in operands that recording detects: dtypes, shapes, masks, orders and scopes, flags and barriers. */
import { describe } from 'vitest'
import { bf16, f32, i32, i64, u8, type Value } from 'arke'
import { cases } from './refusals.ts'

const { refuses } = cases(import.meta.url)

describe('dtypes and shapes', () => {
  refuses(
    'operands of different dtypes',
    (_, { n }) => {
      n.add(n.to(i64) as never) //!
    },
    /add: the operands differ: i32 and i64/,
  )
  refuses(
    'arithmetic on storage',
    (t, { a }) => {
      const x = t.load(a.tile([0, 0], [4, 4]))
      ;(x as never as Value<'f32', 2>).add(1) //!
    },
    /^add: is defined on f32, i32, u32, i64, not on bf16: cast first, x\.to\(f32\)$/,
  )
  refuses(
    'a reduction of storage',
    (t, { a }) => {
      const x = t.load(a.tile([0, 0], [4, 4]))
      ;(x as never as Value<'f32', 2>).sum(1) //!
    },
    /^reduce\.sum: is defined on .*, not on bf16: cast first, x\.to\(f32\)$/,
  )
  refuses(
    'an exponential of integers',
    (_, { n }) => {
      ;(n as never as Value<'f32', 0>).exp2() //!
    },
    /^exp2: is defined on f32, not on i32: cast first, x\.to\(f32\)$/,
  )
  refuses(
    'bits of floats',
    (t) => {
      ;(t.zeros(f32, [4]) as never as Value<'i32', 1>).shl(1) //!
    },
    /^shl: is defined on i32, u32, i64, not on f32: cast first, x\.to\(i32\)$/,
  )
  refuses(
    'arithmetic on masks',
    (_, { n }) => {
      ;(n.gt(0) as never as Value<'i32', 0>).add(1) //!
    },
    /^add: .*, not on bool: cast first, x\.to\(i32\)$/,
  )
  refuses(
    'memory as a choice',
    (_, { n, v }) => {
      n.gt(0).select(0, v.at([0]) as never) //!
    },
    /select: expected a number or a value, not Ref; load memory/,
  )
  refuses(
    'a fraction as a choice of integers',
    (_, { n }) => {
      n.gt(0).select(0.5, n) //!
    },
    /0\.5 is not a number of dtype i32/,
  )
  refuses(
    'shapes that cannot be broadcast together',
    (t) => {
      t.zeros(f32, [4]).add(t.zeros(f32, [5])) //!
    },
    /add: shapes \[4\] and \[5\] cannot be broadcast together; expand\(\)/,
  )
  refuses(
    'a product whose inner extents differ',
    (t) => {
      t.dot(t.shared(f32, [4, 8]), t.shared(f32, [4, 8]), t.zeros(f32, [4, 8])) //!
    },
    /dot: the inner extents differ: \[4x8\] x \[4x8\]/,
  )
  refuses(
    'a product of global memory',
    (t, { c }) => {
      t.dot(c.tile([0, 0], [4, 4]) as never, t.shared(f32, [4, 4]), t.zeros(f32, [4, 4])) //!
    },
    /operand 1 lies in global memory: copy the operand to a shared tile first/,
  )
  refuses(
    'a wrong accumulator',
    (t) => {
      const s = t.shared(bf16, [4, 4])
      t.dot(s, s, t.zeros(i32, [4, 4]) as never) //!
    },
    /the accumulator must be f32\[4x4\], not i32\[4x4\]/,
  )
  refuses(
    'a store of another dtype',
    (t, { a }) => {
      t.store(a.tile([0, 0], [4, 4]), t.zeros(f32, [4, 4]) as never) //!
    },
    /store: the value is f32, but the memory holds bf16: cast it, with \.to\(bf16\)/,
  )
  refuses(
    'a copy between shapes',
    (t, { a }) => {
      t.copy(a.tile([0, 0], [4, 4]), t.shared(bf16, [4, 8])) //!
    },
    /copy: the source has shape \[4x4\], but the target has shape \[4x8\]/,
  )
  refuses(
    'a copy between dtypes',
    (t, { a }) => {
      t.copy(a.tile([0, 0], [4, 4]), t.shared(f32, [4, 4]) as never) //!
    },
    /the source holds bf16, but the target holds f32: load, cast with \.to\(f32\) and store/,
  )
  refuses(
    'a dtype that does not exist',
    (_, { n }) => {
      n.to('f64' as never) //!
    },
    /cast: f64 is not a dtype; they are f32/,
  )
  refuses(
    'a constant of a dtype that does not exist',
    (t) => {
      t.constant('f64' as never, 1) //!
    },
    /f64 is not a dtype/,
  )
  refuses(
    'a constant that does not fit',
    (t) => {
      t.constant(u8, 256) //!
    },
    /256 does not fit u8, which holds 0 to 255/,
  )
  refuses(
    'a fraction as an index',
    (_, { v }) => {
      v.at([0.5]) //!
    },
    /0\.5 is not a number of dtype i32/,
  )
  refuses(
    'a float as an index',
    (t, { v }) => {
      v.at([t.constant(f32, 1) as never]) //!
    },
    /an index must be a scalar of i32 or i64, not f32/,
  )
  refuses(
    'memory as an operand',
    (_, { n, v }) => {
      n.add(v.at([0]) as never) //!
    },
    /add: expected a number or a value, not Ref; load memory/,
  )
  refuses(
    'nothing as an index',
    (_, { v }) => {
      v.tile([undefined as never], [4]) //!
    },
    /an index: expected a number or a value, not undefined/,
  )
  refuses(
    'a fragment of three axes',
    (t) => {
      t.full(f32, [2, 3, 4] as never, 0) //!
    },
    /a fragment of \[2x3x4\]: one to 2 extents/,
  )
  refuses(
    'an empty fragment',
    (t) => {
      t.arange(0) //!
    },
    /a fragment of \[0\].*at least 1/,
  )
  refuses(
    'a reduction without an axis',
    (t) => {
      t.zeros(f32, [2, 3]).sum() //!
    },
    /give the axis: axis 0 yields one number per column, axis 1 yields one number per row/,
  )
  refuses(
    'indices whose shapes cannot be broadcast together',
    (t, { c }) => {
      c.at([t.arange(3), t.arange(4)]) //!
    },
    /at: the shapes of the indices cannot be broadcast together; expand\(\)/,
  )
  refuses(
    'too few indices',
    (_, { c }) => {
      c.at([0] as never) //!
    },
    /at: takes 2 indices, has 1/,
  )
  refuses(
    'a tile of a wrong rank',
    (_, { c }) => {
      c.tile([0, 0], [4] as never) //!
    },
    /the tile has 1 axes, the tensor 2/,
  )
  refuses(
    'an axis outside a tensor',
    (_, { c }) => {
      c.dim(2) //!
    },
    /dim: axis 2 is outside tensor<f32,2>/,
  )
})

describe('memory and synchronisation', () => {
  refuses(
    'a mask of another shape',
    (t, { v }) => {
      t.load(v.tile([0], [8]), { mask: t.arange(4).lt(2) }) //!
    },
    /bool\[4\] cannot be broadcast to \[8\]/,
  )
  refuses(
    'a mask of another dtype',
    (t, { v }) => {
      t.load(v.tile([0], [8]), { mask: t.arange(8) as never }) //!
    },
    /load: the mask must be bool, not i32\[8\]/,
  )
  refuses(
    '`other` without a mask',
    (t, { v }) => {
      t.load(v.tile([0], [8]), { other: 1 }) //!
    },
    /pass a mask as well/,
  )
  refuses(
    'a weak access with a scope',
    (t, { v }) => {
      t.load(v.at([0]), { scope: 'device' }) //!
    },
    /an access without an order has no scope: give an order too, or leave the scope out/,
  )
  refuses(
    'a load that releases',
    (t, { v }) => {
      t.load(v.at([0]), { order: 'release' }) //!
    },
    /load: order release is not one of weak, relaxed, acquire/,
  )
  refuses(
    'a store that acquires',
    (t, { v }) => {
      t.store(v.at([0]), 1, { order: 'acquire' }) //!
    },
    /store: order acquire is not one of weak, relaxed, release/,
  )
  refuses(
    'an unknown scope',
    (t, { ready }) => {
      t.signal(ready, { scope: 'cluster' as never }) //!
    },
    /signal: scope cluster is not one of block, device, system/,
  )
  refuses(
    'compare-and-swap of floats',
    (t, { v }) => {
      t.atomic.cas(v.at([0]) as never, 0, 1) //!
    },
    /atomic\.cas: is defined on i32, u32, i64, not on f32/,
  )
  refuses(
    'a signal to a set of flags',
    (t, { grid }) => {
      t.signal(grid as never) //!
    },
    /signal: needs one flag of the flags<2>: choose it with \.at\(\[…\]\)/,
  )
  refuses(
    'too few indices of a flag',
    (t, { grid }) => {
      t.wait(grid.at([0] as never)) //!
    },
    /at: takes 2 indices, has 1/,
  )
  refuses(
    'a wait with a fractional lag',
    (t, { ready }) => {
      t.wait(ready, { lag: 0.5 }) //!
    },
    /wait: lag 0\.5 is not a whole number of launches/,
  )
  refuses(
    'a poll of a set of flags',
    (t, { grid }) => {
      t.reached(grid as never) //!
    },
    /reached: needs one flag of the flags<2>: choose it with \.at\(\[…\]\)/,
  )
  refuses(
    'a poll with a fractional lag',
    (t, { ready }) => {
      t.reached(ready, { lag: 0.5 }) //!
    },
    /reached: lag 0\.5 is not a whole number of launches/,
  )
  refuses(
    'a poll with release order',
    (t, { ready }) => {
      t.reached(ready, { order: 'release' }) //!
    },
    /reached: order release is not one of acquire, relaxed/,
  )
  refuses(
    'a barrier without a phase',
    (t) => {
      t.wait(t.barriers(1).at(0), undefined as never) //!
    },
    /an index: expected a number or a value, not undefined/,
  )
  refuses(
    'an array of barriers',
    (t) => {
      t.arrive(t.barriers(2) as never) //!
    },
    /needs one barrier, not barriers<2>: choose it with \.at\(i\)/,
  )
  refuses(
    'a relaxed fence',
    (t) => {
      t.fence('relaxed' as never) //!
    },
    /fence: order relaxed is not one of acquire, release, acqRel, seqCst/,
  )
})
