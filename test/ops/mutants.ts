/**
 * Operations with one error in their synchronisation, made in the recorded kernels. The errors are: each signal or wait
 * removed, each signal weakened, each credit requested one launch too late, and each epoch ignored.
 */
import { expect } from 'vitest'
import type { KernelIR, Node } from '../../src/ir/node.ts'
import { walk } from '../../src/ir/node.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { verify } from '../../src/ir/verify.ts'
import type { Kernel, Meta, Params } from '../../src/lang/kernel.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding, type Finding } from '../../src/targets/check/findings.ts'
import type { LaunchArguments, LaunchOptions, Scenario, World } from '../../src/world/world.ts'

type Rewrite = (node: Node, copier: Copier) => Node | 'drop'

interface Mistake {
  readonly name: string
  readonly applies: (node: Node) => boolean
  readonly rewrite: Rewrite
}

const withAttributes =
  (attributes: (node: Node) => Node['attributes']): Rewrite =>
  (node, copier) =>
    copier.emit(
      node.op,
      node.inputs.map((input) => copier.get(input)),
      { ...node.attributes, ...attributes(node) },
      [],
      node.site,
    )

const mistakes: readonly Mistake[] = [
  { name: 'no signal', applies: ({ op }) => op === 'signal', rewrite: () => 'drop' },
  { name: 'no wait', applies: ({ op }) => op === 'wait', rewrite: () => 'drop' },
  {
    name: 'relaxed signal',
    applies: ({ op }) => op === 'signal',
    rewrite: withAttributes(() => ({ order: 'relaxed' })),
  },
  {
    name: 'signal at device scope',
    applies: ({ op }) => op === 'signal',
    rewrite: withAttributes(() => ({ scope: 'device' })),
  },
  {
    name: 'a launch too late',
    applies: ({ op }) => op === 'wait',
    rewrite: withAttributes(({ attributes }) => ({ lag: (attributes.lag as number) + 1 })),
  },
  {
    name: 'one slot for all epochs',
    applies: ({ op }) => op === 'epoch',
    rewrite: (node, copier) => copier.emit('const', [], { dtype: 'u32', value: 0 }, [], node.site),
  },
]

/** One error in one kernel, applied to all nodes that come from the same source line. */
interface Mutant {
  readonly name: string
  readonly kernel: string
  readonly place: string
  readonly rewrite: Rewrite
  readonly applies: (node: Node) => boolean
}

const placeOf = (node: Node): string => String(node.site?.position?.line ?? node.site)

/** All mutants of the kernels that a scenario launches. A mutant that ignores an epoch changes all kernels at once. */
async function mutantsOf(subject: Scenario): Promise<Mutant[]> {
  const kernels = new Map<string, KernelIR>()
  const [ranks] = subject.ranks
  const watched = watching(subject, (kernel, ir) => {
    if (kernel.name !== 'rewrite') kernels.set(kernel.name, ir)
    return ir
  })
  await explore(watched, { ranks, schedules: 1 })
  return [...kernels].flatMap(([kernel, ir]) =>
    mistakes.flatMap(({ name, applies, rewrite }) => {
      const places = new Set([...walk(ir.body)].filter(applies).map(placeOf))
      return [...places].map((place) => ({ name, kernel, place, rewrite, applies }))
    }),
  )
}

/** The kinds of findings that each error may cause. */
const symptoms: Readonly<Record<string, readonly string[]>> = {
  'no signal': ['deadlock'],
  'no wait': ['race', 'uninitialised'],
  'relaxed signal': ['race'],
  'signal at device scope': ['scope-race'],
  'a launch too late': ['race', 'uninitialised'],
  'one slot for all epochs': ['race'],
}

/**
 * Expects that the checker finds every mutant of a scenario, with the right kind of finding, as recorded and as
 * lowered. `harmless` names errors that leave this scenario correct.
 */
export async function expectFound(subject: Scenario, harmless: readonly string[] = []): Promise<void> {
  const mutants = (await mutantsOf(subject)).filter(({ name }) => !harmless.includes(name))
  expect(mutants.length).toBeGreaterThan(4)
  for (const mutant of mutants)
    for (const finding of await findingsOf(subject, mutant)) {
      const title = `${mutant.kernel}, line ${mutant.place}: ${mutant.name}`
      expect(
        symptoms[mutant.name],
        `${title}: ${finding ? formatFinding(finding) : 'nothing found'}`,
      ).toContain(finding?.kind)
    }
}

/** The first finding of each stage, or undefined if the checker finds nothing. */
async function findingsOf(subject: Scenario, mutant: Mutant): Promise<(Finding | undefined)[]> {
  const [ranks] = subject.ranks
  const everywhere = mutant.name === 'one slot for all epochs'
  const mutated = watching(subject, (kernel, ir) =>
    kernel.name === mutant.kernel || (everywhere && kernel.name !== 'rewrite')
      ? mutate(ir, mutant, everywhere)
      : ir,
  )
  const first: (Finding | undefined)[] = []
  for (const stage of ['recorded', 'lowered'] as const) {
    const random = await explore(mutated, { ranks, stage, schedules: 200 })
    first.push(
      random.findings[0] ??
        (await explore(mutated, { ranks, stage, preemptions: 2, limit: 400 })).findings[0],
    )
  }
  return first
}

const mutated = new WeakMap<KernelIR, Map<string, KernelIR>>()

function mutate(ir: KernelIR, mutant: Mutant, everywhere: boolean): KernelIR {
  const known = mutated.get(ir) ?? new Map<string, KernelIR>()
  mutated.set(ir, known)
  const key = `${mutant.name} ${everywhere ? '' : mutant.place}`
  let made = known.get(key)
  if (!made) {
    const copier = new Copier((node, copier) =>
      mutant.applies(node) && (everywhere || placeOf(node) === mutant.place)
        ? mutant.rewrite(node, copier)
        : undefined,
    )
    made = { ...ir, body: copier.copyBlock(ir.body) }
    verify(made)
    known.set(key, made)
  }
  return made
}

/** Returns the scenario with `look` called for every recorded kernel. The function `look` may return another kernel. */
function watching(subject: Scenario, look: (kernel: Kernel, ir: KernelIR) => KernelIR): Scenario {
  const run = (world: World): Promise<unknown> => {
    const launch = world.launch.bind(world)
    world.launch = <P extends Params, M extends Meta>(
      kernel: Kernel<P, M>,
      args: LaunchArguments<P>,
      options: LaunchOptions<M>,
    ): void => {
      const record: Kernel<P, M>['record'] = (specialisation) =>
        look(kernel as unknown as Kernel, kernel.record(specialisation))
      launch(Object.create(kernel, { record: { value: record } }) as Kernel<P, M>, args, options)
    }
    return subject.run(world)
  }
  return { ...subject, run }
}
