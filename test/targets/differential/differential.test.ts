/**
 * Tests that random kernels return the same results on every target. Results are equal bit for bit if a kernel uses
 * only integers, copies and correctly rounded operations, and otherwise within the kernel's own error bound.
 * ARKE_KERNELS sets the number of kernels per class, and ARKE_SEED the seed.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { walk, type KernelIR, type Node } from '../../../src/ir/node.ts'
import { ops, origin, paramName, type OpName } from '../../../src/ir/ops/index.ts'
import type { ValueType } from '../../../src/ir/type.ts'
import { print } from '../../../src/ir/print.ts'
import { genes } from './choices.ts'
import { compareTargets, differenceOf, resultsOn, type Results } from './compare.ts'
import { generate, type Generated, type KernelClass } from './generator.ts'
import { Mutant, type Mutation } from './mutant.ts'
import { Refusals } from './refusals.ts'
import { realTargets } from './targets.ts'
import { itForRuns, long } from '../../long.ts'

/** The default number of kernels per target. On `native`, compiling each kernel takes half a second. */
const usual: Readonly<Record<string, number>> = { check: 40, wasm: 150, native: 25 }
const runsOn = (target: string): number => Number(process.env.ARKE_KERNELS ?? usual[target] ?? 25)
/** The number of kernels in the short tests. The long tests begin with the same kernels. */
const few: Readonly<Record<string, number>> = { check: 3, wasm: 8, native: 3 }
/** The number of kernels on overlapping groups. */
const onGroups: Readonly<Record<string, number>> = { check: 6, wasm: 25, native: 3 }
const seedOf = (seed: number): number => Number(process.env.ARKE_SEED ?? seed)
const real = await realTargets()

/** Kernels that the GPU emitter refuses are left out: at most one in ten, for the reasons in refusals.ts. */
async function expectSame(
  kind: KernelClass,
  targets: readonly string[],
  runs: number,
  seed: number,
): Promise<void> {
  const refusals = new Refusals()
  await fc.assert(
    fc.asyncProperty(genes(400), fc.nat(1000), async (list, inputs) => {
      const generated = generate(list, kind)
      let problem: string | undefined
      try {
        await compareTargets(generated, targets, inputs)
      } catch (error) {
        if (refusals.allows(error)) return
        problem = error instanceof Error ? error.message : String(error)
      }
      if (problem === undefined) return
      const ir = generated.kernel.record({ world: generated.shape.ranks })
      expect(`${problem}\n${JSON.stringify(generated.shape)}\n${print(ir)}`).toBe('the same results')
    }),
    // Shrinking runs a kernel hundreds of times, which takes minutes on a compiled target. Shrinking a failing kernel is therefore
    // optional.
    { seed, numRuns: runs, endOnFailure: process.env.ARKE_SHRINK !== '1' },
  )
  for (const [reason, count] of refusals.counts)
    console.info(`${count} of ${runs} kernels refused: ${reason}`)
  expect(refusals.total).toBeLessThanOrEqual(runs / 10)
}

describe.each(['exact', 'bounded'] as const)('%s kernels', (kind) => {
  const expectSameInChecker = (runs: number): Promise<void> =>
    expectSame(kind, ['check', 'check@2', 'check:lowered', 'check:order'], runs, seedOf(11))
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

for (const target of ['check', ...real]) {
  const name = `random kernels are the same on overlapping groups of ${target}`
  const all = onGroups[target] ?? 10
  const check = (runs: number): Promise<void> =>
    expectSame('exact', ['check', `${target}+groups`], runs, seedOf(31))
  if (target === 'native') it(name, long, () => check(all))
  else itForRuns(name, all, check)
}

describe('the generator', () => {
  const generated: KernelIR[] = []
  for (const kind of ['exact', 'bounded'] as const)
    for (const list of fc.sample(genes(400), { seed: 5, numRuns: 300 })) {
      const { kernel, shape } = generate(list, kind)
      generated.push(kernel.record({ world: shape.ranks }))
    }
  const nodes = generated.flatMap(({ body }) => [...walk(body)])

  it('uses every op that authors can write', () => {
    const used = new Set(nodes.flatMap(({ op, inputs }) => [op, ...inputs.map((input) => input.op)]))
    const written = (Object.keys(ops) as OpName[]).filter((op) => ops[op].inserted === 'recorded')
    expect(written.filter((op) => !used.has(op))).toEqual([])
  })

  const inside = (outer: OpName, inner: OpName): boolean =>
    nodes.some(
      ({ op, blocks }) =>
        op === outer && blocks.some((block) => [...walk(block)].some((one) => one.op === inner)),
    )
  const has = (op: OpName, is: (node: Node) => boolean) => () =>
    nodes.some((node) => node.op === op && is(node))
  const waitsFor = (name: string) => has('wait', (node) => paramName(origin(node.inputs[0]).base) === name)
  it.each<[string, () => boolean]>([
    ['clusters', has('persistent', ({ attributes }) => attributes.cluster !== undefined)],
    ['multicast copies', has('copy', ({ attributes }) => attributes.multicast !== undefined)],
    [
      'rounds that a symbol counts',
      has('wait', ({ inputs }) => inputs.length > 1 && inputs[1].op !== 'const'),
    ],
    ['signals of the host', waitsFor('go')],
    ['several signals of a flag', waitsFor('rounds')],
    ['arrivals that differ', has('last', ({ inputs }) => inputs.some(({ op }) => op === 'add'))],
    ['teams inside roles', () => inside('roles', 'teams')],
    ['pipelines inside roles', () => inside('roles', 'pipeline')],
    ['work for the last program of a loop', () => inside('persistent', 'last')],
  ])('uses %s', (_, isUsed) => expect(isUsed()).toBe(true))
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

  /** A mutation that replaces the result of an op by its first input. */
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
    'prints nothing': ['print', () => (node) => (node.op === 'print' ? 'drop' : undefined)],
  }

  /** Generated kernels, each with the memory contents that a correct implementation produces. */
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
