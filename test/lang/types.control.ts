/** Code that the types of control flow and of kernels must accept or reject; see types.ts. */
import {
  bf16,
  f16,
  f32,
  flags,
  i32,
  i8,
  kernel,
  tensor,
  u32,
  type Flags,
  type Fragment,
  type Kernel,
  type Program,
  type Ref,
  type Scalar,
  type Tensor,
} from 'arke'
import { exactly } from './types.ts'

export function control(
  t: Program,
  c: Tensor<'f32', 2>,
  n: Scalar<'i32'>,
  x: Scalar<'f32'>,
  acc: Fragment<'f32', 2>,
): void {
  t.for(n, (i) => exactly<Scalar<'i32'>>()(i))
  t.for({ from: 1, to: n, step: 2 }, (i) => void i)
  const sum = t.for(4, acc, (_, state) => state.add(1))
  exactly<Fragment<'f32', 2>>()(sum)
  const pair = t.for(4, [x, n], (i, [y, m]) => [y.add(1), m.add(i)])
  void pair[0].exp2()
  void pair[1].mod(2)
  const record = t.for(4, { x, n }, (_, state) => ({ x: state.x.add(1), n: state.n }))
  exactly<Scalar<'f32'>>()(record.x)
  const counted = t.while(
    n,
    (m) => m.gt(0),
    (m) => m.sub(1),
  )
  exactly<Scalar<'i32'>>()(counted)
  const chosen = t.if(
    n.gt(0),
    () => x,
    () => x.neg(),
  )
  exactly<Scalar<'f32'>>()(chosen)
  t.if(n.gt(0), () => t.barrier())
  t.if(n.gt(0), () => {
    t.atomic.add(c.at([0, 0]), 1)
  })
  t.if(
    n.gt(0),
    () => t.barrier(),
    () => t.fence('acquire'),
  )
  t.persistent(c.tiles([16, 32]), (tile, [i, j]) => {
    exactly<Ref<'f32', 2, 'global'>>()(tile)
    exactly<Scalar<'i32'>>()(i)
    exactly<Scalar<'i32'>>()(j)
  })
  t.persistent([n, 4, 2], ([i, j, k]) => void i.add(j).add(k))
  const dealt = t.persistent([n], x, ([i], state) => state.add(i.to(f32)))
  exactly<Scalar<'f32'>>()(dealt)
  const piped = t.pipeline([n, 4], acc, ([i], state) => state.add(i.to(f32)), { stages: 3 })
  exactly<Fragment<'f32', 2>>()(piped)
  t.pipeline([n], ([k]) => void k)
  t.pipeline([n], ([k]) => void k, { stages: 4 })
  t.roles({ load: () => t.barrier(), compute: { warps: 8, body: () => t.barrier() } })
  t.teams({ senders: { programs: 2, body: () => {} }, workers: { programs: 'rest', body: () => {} } })

  // @ts-expect-error the state is f32
  t.for(4, acc, (_, state) => state.to(bf16))
  // @ts-expect-error the state is a matrix
  t.for(4, acc, (_, state) => state.sum(1))
  // @ts-expect-error nothing is returned
  t.for(4, acc, (_, state) => void state)
  // @ts-expect-error only one of two state values is returned
  t.for(4, [x, n], (_, [y]) => [y])
  // @ts-expect-error a name of the state record is missing
  t.for(4, { x, n }, (_, state) => ({ x: state.x }))
  // @ts-expect-error a number cannot be carried state
  t.for(4, 0, (_, state) => state)
  // @ts-expect-error the bound of a loop is an integer
  t.for(x, (i) => void i)
  // @ts-expect-error a condition is bool
  t.if(n, () => t.barrier())
  // @ts-expect-error the branches differ
  t.if(n.gt(0), () => x, () => n) // prettier-ignore
  // @ts-expect-error one branch returns nothing
  t.if(n.gt(0), () => x, () => {}) // prettier-ignore
  // @ts-expect-error a condition is bool
  t.while(n, (m) => m, (m) => m.sub(1)) // prettier-ignore
  // @ts-expect-error the state is i32
  t.while(n, (m) => m.gt(0), (m) => m.to(f32)) // prettier-ignore
  // @ts-expect-error the space has one axis
  t.pipeline([n], ([i, j]) => void [i, j])
  // @ts-expect-error the state is f32
  t.pipeline([n], acc, (_, state) => state.to(f16))
  // @ts-expect-error memory cannot be carried state
  t.for(4, c, (_, state) => state)
  // @ts-expect-error a role must have a body
  t.roles({ load: 4 })
  // @ts-expect-error a team must have a size
  t.teams({ senders: { body: () => {} } })
}

export const meta = kernel(
  'meta',
  { c: tensor(f32, 2) },
  { BM: 16, name: 'x', fast: true },
  (t, { c }, meta) => {
    exactly<number>()(meta.BM)
    exactly<string>()(meta.name)
    exactly<boolean>()(meta.fast)
    t.store(c.tile([0, 0], [meta.BM, 8]), 0)
    // @ts-expect-error there is no such meta-parameter
    void meta.BK
  },
)
// A kernel with specific parameters is assignable to the general kernel type.
export const erased: Kernel = meta
exactly<boolean>()(meta.meta.fast)

// @ts-expect-error a meta-parameter is a number, a string or a boolean
export const badMeta = kernel('badMeta', {}, { shape: [1, 2] }, () => {})

export const unsigned = kernel('unsigned', { x: tensor(u32, 1), y: tensor(i8, 1) }, (t, { x, y }) => {
  t.store(x.at([0]), t.load(x.at([1])).shr(1))
  t.store(
    y.at([0]),
    t
      .load(y.at([1]))
      .to(i32)
      .add(1)
      .to(i8),
  )
})

export const inline = kernel(
  'inline',
  { ready: flags(), many: flags(1, { arrivals: 2 }) },
  (t, { ready, many }) => {
    exactly<Flags<0>>()(ready)
    exactly<Flags<1>>()(many)
    t.wait(ready)
  },
)
