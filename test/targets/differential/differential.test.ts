/**
 * Random kernels return the same results on every target. Results are equal bit for bit if a kernel uses only integers,
 * copies and correctly rounded operations, and otherwise within the kernel's own error bound. ARKE_KERNELS sets the
 * number of kernels per class, and ARKE_SEED the seed.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { walk, type Node } from '../../../src/ir/node.ts'
import type { OpName } from '../../../src/ir/ops/index.ts'
import { KernelError } from '../../../src/ir/site.ts'
import type { ValueType } from '../../../src/ir/type.ts'
import { print } from '../../../src/ir/print.ts'
import { genes } from './choices.ts'
import { compareTargets, differenceOf, resultsOn, type Results } from './compare.ts'
import { generate, type Generated, type KernelClass } from './generator.ts'
import { Mutant, type Mutation } from './mutant.ts'
import { realTargets } from './targets.ts'
import { long } from '../../long.ts'

/** The default number of kernels per target. On `native`, compiling each kernel takes half a second. */
const usual: Readonly<Record<string, number>> = { check: 40, wasm: 150, native: 25 }
const runsOn = (target: string): number => Number(process.env.ARKE_KERNELS ?? usual[target] ?? 25)
const few: Readonly<Record<string, number>> = { check: 6, wasm: 25, native: 3 }
const seedOf = (seed: number): number => Number(process.env.ARKE_SEED ?? seed)
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
        // The GPU emitter rejects some kernels with a reason.
        if (targets.includes('cuda') && error instanceof KernelError) return
        const ir = generated.kernel.record({ world: generated.shape.ranks })
        const text = `${JSON.stringify(generated.shape)}\n${print(ir)}`
        throw new Error(`${error instanceof Error ? error.message : String(error)}\n${text}`, {
          cause: error,
        })
      }
    }),
    // Shrinking runs a kernel hundreds of times, which takes minutes on a compiled target. It is therefore optional.
    { seed, numRuns: runs, endOnFailure: process.env.ARKE_SHRINK !== '1' },
  )
}

describe.each(['exact', 'bounded'] as const)('%s kernels', (kind) => {
  const expectSameInChecker = (runs: number): Promise<void> =>
    expectSame(kind, ['check', 'check@2', 'check:lowered'], runs, seedOf(11))
  it('do not depend on the schedule, nor on whether their pipelines are lowered', long, () =>
    expectSameInChecker(runsOn('check')),
  )
  it('do not depend on the schedule, nor on whether their pipelines are lowered, a few', () =>
    expectSameInChecker(few.check))

  it.each(real)('are the same on %s as in the checker', { ...long, timeout: 1_800_000 }, (target) =>
    expectSame(kind, ['check', target], runsOn(target), seedOf(23)),
  )
  it.each(real.filter((target) => target in few))('a few are the same on %s as in the checker', (target) =>
    expectSame(kind, ['check', target], few[target], seedOf(23)),
  )
})

it.each(['check', 'wasm'])('random kernels are the same on a group of %s', (target) =>
  expectSame('exact', [target, `${target}+group`], few[target], seedOf(31)),
)

describe('the generator', () => {
  it('uses every language feature but barriers', () => {
    const used = new Set<string>()
    for (const kind of ['exact', 'bounded'] as const)
      for (const list of fc.sample(genes(400), { seed: 5, numRuns: 120 })) {
        const { kernel, shape } = generate(list, kind)
        for (const node of walk(kernel.record({ world: shape.ranks }).body)) used.add(node.op)
      }
    const expected =
      'const iota rank program programs neg abs not exp2 exp log2 log sin cos erf pow floor ceil round sqrt rsqrt tanh sigmoid add sub mul div mod min max and or xor ' +
      'shl shr eq ne lt le gt ge select cast reduce.sum reduce.max reduce.min argmax argmin cumsum reshape interleave random expand broadcast transpose dot on dim slice pick tile ' +
      'rows at shared load store copy copy.nbi quiet put.signal atomic.add atomic.and atomic.or atomic.xor atomic.min atomic.max signal wait for while if ' +
      'persistent pipeline teams roles last result epoch fence reached assert atomic.sub atomic.xchg atomic.cas'
    expect(expected.split(' ').filter((op) => !used.has(op))).toEqual([])
  })
})

describe('a target with a bug', () => {
  const confuse = (op: OpName, as: OpName): readonly [OpName, Mutation] => [
    op,
    () => (node, copier) =>
      node.op === op
        ? copier.emit(
            as,
            node.inputs.map((input) => copier.get(input)),
            node.attributes,
            [],
            node.site,
          )
        : undefined,
  ]
  /** A mutation that ignores the mask of a load or store. */
  const ignoreMask = (op: OpName, inputs: number): readonly [OpName, Mutation] => [
    op,
    () => (node, copier) =>
      node.op === op && node.inputs.length > inputs
        ? copier.emit(
            op,
            node.inputs.slice(0, inputs).map((input) => copier.get(input)),
            node.attributes,
            [],
            node.site,
          )
        : undefined,
  ]
  const drift: Mutation = () => (node: Node, copier) =>
    node.op === 'exp2'
      ? copier.emit('mul', [copier.get(node.inputs[0]), copier.get(node.inputs[0])])
      : undefined

  /** A mutation that replaces an op by its first input. */
  const forget =
    (op: OpName): Mutation =>
    () =>
    (node: Node, copier) =>
      node.op === op ? copier.get(node.inputs[0]) : undefined
  /** A mutation that swaps the inputs of an op. */
  const swapped =
    (op: OpName): Mutation =>
    () =>
    (node: Node, copier) =>
      node.op === op
        ? copier.emit(
            op,
            node.inputs.map((input) => copier.get(input)).reverse(),
            node.attributes,
            [],
            node.site,
          )
        : undefined

  /** A mutation that transposes what it reshapes, so that a matrix is read along its columns. */
  const columnMajor: Mutation = () => (node: Node, copier) => {
    const [from] = node.inputs
    if (node.op !== 'reshape' || (from.type as ValueType).shape.length !== 2) return undefined
    const { op, attributes, blocks, site } = node
    return copier.emit(op, [copier.emit('transpose', [copier.get(from)])], attributes, blocks, site)
  }
  const anotherWord: Mutation = () => (node: Node, copier) =>
    node.op === 'random'
      ? copier.emit(
          'random',
          node.inputs.map((input) => copier.get(input)),
          { word: (Number(node.attributes.word) + 1) % 4 },
        )
      : undefined

  const mistakes: Readonly<Record<string, readonly [OpName, Mutation]>> = {
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
    'ignores the masks of copies in flight': ignoreMask('copy.nbi', 2),
    'has another exp2': ['exp2', drift],
    'finds the smallest for the largest': confuse('argmax', 'argmin'),
    'does not add up': ['cumsum', forget('cumsum')],
    'swaps what it interleaves': ['interleave', swapped('interleave')],
    'has the sine for the cosine': confuse('cos', 'sin'),
    'rounds down where it should round to nearest': confuse('round', 'floor'),
    'has another base of logarithms': confuse('log', 'log2'),
    'has another base of exponentials': confuse('exp', 'exp2'),
    'has the cosine for the sine': confuse('sin', 'cos'),
    'has the hyperbolic tangent for the error function': confuse('erf', 'tanh'),
    'swaps base and exponent': ['pow', swapped('pow')],
    'rounds up where it should round down': confuse('floor', 'ceil'),
    'rounds down where it should round up': confuse('ceil', 'floor'),
    'finds the largest for the smallest': confuse('argmin', 'argmax'),
    'reshapes in column-major order': ['reshape', columnMajor],
    'confuses the words of a random block': ['random', anotherWord],
    'swaps counter and key': ['random', swapped('random')],
  }

  /** Kernels with the memory contents that a correct implementation produces. */
  const kernels: { readonly right: Generated; readonly ops: ReadonlySet<string>; results?: Results }[] = []
  const lists = fc.sample(genes(400), { seed: 31, numRuns: 400 })
  const kernelAt = (at: number) =>
    (kernels[at] ??= (() => {
      const right = generate(lists[at], 'bounded')
      const ir = right.kernel.record({ world: right.shape.ranks })
      return { right, ops: new Set([...walk(ir.body)].map(({ op }) => op)) }
    })())

  it.each(Object.entries(mistakes))('is detected by its results: %s', async (_, [op, mutation]) => {
    let difference: string | undefined
    for (let at = 0; at < lists.length && difference === undefined; at++) {
      const one = kernelAt(at)
      if (!one.ops.has(op)) continue
      const wrong = { ...one.right, kernel: new Mutant(one.right.kernel, mutation) }
      // A mutation that aborts the kernel is detected without a comparison.
      const got = await resultsOn('check', wrong, 3).catch(() => undefined)
      if (!got) continue
      one.results ??= await resultsOn('check', one.right, 3)
      difference = differenceOf(one.right, one.results, got, ['check', 'wrong'])
    }
    expect(difference).toMatch(/wrong has/)
  })
})
