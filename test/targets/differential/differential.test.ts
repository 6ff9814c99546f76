/**
 * Random kernels give the same on every target: bit for bit where nothing but integers, copies and correctly rounded operations
 * is involved, within the kernel's own bound elsewhere. ARKE_KERNELS sets how many of each class are tried.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { walk, type Node } from '../../../src/ir/node.ts'
import type { OpName } from '../../../src/ir/ops/index.ts'
import { print } from '../../../src/ir/print.ts'
import { genes } from './choices.ts'
import { compareTargets, expectSameResults, resultsOn } from './compare.ts'
import { generate, type KernelClass } from './generator.ts'
import { Mutant, type Mutation } from './mutant.ts'
import { realTargets } from './targets.ts'

const numRuns = Number(process.env.ARKE_KERNELS ?? 60)
/** A compiler takes a second for each. */
const realRuns = Number(process.env.ARKE_KERNELS ?? 20)
const real = await realTargets()

async function expectSame(
  kind: KernelClass,
  targets: readonly string[],
  runs: number,
  seed: number,
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(genes(400), fc.nat(1000), async (list, inputs) => {
      const generated = generate(list, kind)
      try {
        await compareTargets(generated, targets, inputs)
      } catch (error) {
        const ir = generated.kernel.record({ world: generated.shape.ranks })
        const text = `${JSON.stringify(generated.shape)}\n${print(ir)}`
        throw new Error(`${error instanceof Error ? error.message : String(error)}\n${text}`, {
          cause: error,
        })
      }
    }),
    // Shrinking runs a kernel hundreds of times, which a compiled target takes minutes for: on demand.
    { seed, numRuns: runs, endOnFailure: process.env.ARKE_SHRINK !== '1' },
  )
}

describe.each(['exact', 'bounded'] as const)('%s kernels', (kind) => {
  it('do not depend on the schedule, nor on whether their pipelines are lowered', async () => {
    await expectSame(kind, ['check', 'check@2', 'check:lowered'], numRuns, 11)
  }, 300_000)

  it.skipIf(real.length === 0)(
    `are the same on ${real.join(' and ')} as in the checker`,
    async () => {
      await expectSame(kind, ['check', ...real], realRuns, 23)
    },
    600_000,
  )
})

describe('the generator', () => {
  it('uses all of the language that a kernel of one role can', () => {
    const used = new Set<string>()
    for (const kind of ['exact', 'bounded'] as const)
      for (const list of fc.sample(genes(400), { seed: 5, numRuns: 250 })) {
        const { kernel, shape } = generate(list, kind)
        for (const node of walk(kernel.record({ world: shape.ranks }).body)) used.add(node.op)
      }
    const expected =
      'const iota rank program programs neg abs not exp2 log2 sqrt rsqrt tanh sigmoid add sub mul div mod min max and or xor ' +
      'shl shr eq ne lt le gt ge select cast reduce.sum reduce.max reduce.min expand broadcast transpose dot on dim slice pick tile ' +
      'rows at shared load store copy atomic.add atomic.and atomic.or atomic.xor atomic.min atomic.max signal wait for while if ' +
      'persistent pipeline teams last result'
    expect(expected.split(' ').filter((op) => !used.has(op))).toEqual([])
  })
})

describe('a target that is wrong', () => {
  const confuse =
    (op: OpName, as: OpName): Mutation =>
    () =>
    (node, copier) =>
      node.op === op
        ? copier.emit(
            as,
            node.inputs.map((input) => copier.get(input)),
            node.attributes,
            [],
            node.site,
          )
        : undefined
  /** A load or store that takes part where its mask is off. */
  const ignoreMask =
    (op: OpName, inputs: number): Mutation =>
    () =>
    (node, copier) =>
      node.op === op && node.inputs.length > inputs
        ? copier.emit(
            op,
            node.inputs.slice(0, inputs).map((input) => copier.get(input)),
            node.attributes,
            [],
            node.site,
          )
        : undefined
  const drift: Mutation = () => (node: Node, copier) =>
    node.op === 'exp2'
      ? copier.emit('mul', [copier.get(node.inputs[0]), copier.get(node.inputs[0])])
      : undefined

  const mistakes: Readonly<Record<string, Mutation>> = {
    'adds where it should subtract': confuse('sub', 'add'),
    'compares with ≤ in place of <': confuse('lt', 'le'),
    'takes the smaller for the larger': confuse('max', 'min'),
    'divides where it should take a remainder': confuse('mod', 'div'),
    'shifts to the wrong side': confuse('shr', 'shl'),
    'confuses atomic or and and': confuse('atomic.or', 'atomic.and'),
    'reduces to the smallest': confuse('reduce.max', 'reduce.min'),
    'ignores the masks of stores': ignoreMask('store', 2),
    'ignores the masks of loads': ignoreMask('load', 1),
    'ignores the masks of copies': ignoreMask('copy', 2),
    'has another exp2': drift,
  }

  it.each(Object.entries(mistakes))('is found out: %s', async (_, mutation) => {
    let differs = false
    const lists = fc.sample(genes(400), { seed: 31, numRuns: 150 })
    for (const list of lists) {
      const right = generate(list, 'bounded')
      const wrong = { ...right, kernel: new Mutant(right.kernel, mutation) }
      try {
        expectSameResults(right, await resultsOn('check', right, 3), await resultsOn('check', wrong, 3), [
          'check',
          'wrong',
        ])
      } catch {
        differs = true
        break
      }
    }
    expect(differs).toBe(true)
  })
})
