/**
 * Random chains of ops whose elements pass between threads, in loops and branches, on a GPU with too little shared memory
 * for separate scratch memory. The emitted text runs on this CPU thread by thread and must agree with the checker.
 */
import fc from 'fast-check'
import { describe, expect } from 'vitest'
import { f32, i32 } from '../../src/lang/dtypes.ts'
import { kernel, tensor } from '../../src/lang/kernel.ts'
import type { Program } from '../../src/lang/program.ts'
import type { Value } from '../../src/lang/value.ts'
import { openWorld } from '../../src/world/open.ts'
import type { World } from '../../src/world/world.ts'
import { itForSome } from '../long.ts'
import { openOnCpu, unavailable } from './onCpu/onCpu.ts'

const side = 16
type Tile = Value<'i32', 2>
type Step = (t: Program, x: Tile) => Tile

const steps: Readonly<Record<string, Step>> = {
  sums: (_, x) => x.cumsum(1).and(1023),
  sumsDown: (_, x) => x.cumsum(0).and(1023),
  transposed: (_, x) => x.transpose().add(1),
  reshaped: (_, x) => x.reshape([4, 64]).add(2).reshape([side, side]),
  best: (_, x) => x.add(x.argmax(1).expand(1)),
  worst: (_, x) => x.sub(x.argmin(0).expand(0)),
  turns: (_, x) =>
    x
      .interleave(x.neg())
      .reshape([2 * side, side])
      .maximum(0)
      .expand(0)
      .add(x),
  // The operands pass through shared memory. The sums are small integers, which f32 holds exactly.
  product(t, x) {
    const small = x.and(7).to(f32)
    return t.dot(small, small.add(1), t.zeros(f32, [side, side])).to(i32)
  },
  most: (_, x) => x.xor(x.maximum(1).expand(1)),
}
const chain = (names: readonly string[]): Step => {
  return (t, x) => names.reduce((value, name) => steps[name](t, value), x)
}
const names = fc.array(fc.constantFrom(...Object.keys(steps)), { minLength: 2, maxLength: 4 })

interface Chains {
  readonly before: readonly string[]
  readonly looped: readonly string[]
  readonly one: readonly string[]
  readonly other: readonly string[]
}

const made = ({ before, looped, one, other }: Chains) =>
  kernel('chains', { x: tensor(i32, 2), y: tensor(i32, 2) }, (t, { x, y }) => {
    const first = chain(before)(t, t.load(x.tile([0, 0], [side, side])))
    const last = t.for(3, first, (k, value) =>
      t.if(
        k.mod(2).eq(0),
        () => chain(one)(t, chain(looped)(t, value)),
        () => chain(other)(t, value),
      ),
    )
    t.store(y.tile([0, 0], [side, side]), last)
  })

async function resultOn(world: World, subject: ReturnType<typeof made>): Promise<number[]> {
  try {
    const x = world.from(
      i32,
      [side, side],
      Array.from({ length: side * side }, (_, i) => (i * 37) % 101),
    )
    const y = world.empty(i32, [side, side])
    world.launch(subject, { x, y }, { grid: 1 })
    return [...(await world.read(y, 0))]
  } finally {
    await world.close()
  }
}

describe.skipIf(unavailable() !== undefined)('scratch memory that is used in turn', () => {
  itForSome([1, 12], (runs) => runs === 1)('does not change the results of %i random chains', (runs) =>
    fc.assert(
      fc.asyncProperty(
        fc.record({ before: names, looped: names, one: names, other: names }),
        async (chains) => {
          const subject = made(chains)
          const expected = await resultOn(await openWorld({ target: 'check', ranks: 1 }), subject)
          let apart = 0
          const onApart = openOnCpu(1, { onEmitted: ({ sharedBytes }) => (apart = sharedBytes) })
          expect(await resultOn(onApart, subject)).toEqual(expected)
          let inTurn = 0
          const options = {
            sharedBytes: apart - 1,
            onEmitted: ({ sharedBytes }: { readonly sharedBytes: number }) => (inTurn = sharedBytes),
          }
          expect(await resultOn(openOnCpu(1, options), subject)).toEqual(expected)
          expect(inTurn).toBeLessThan(apart)
        },
      ),
      { seed: Number(process.env.ARKE_SEED ?? 43), numRuns: runs },
    ),
  )
})
