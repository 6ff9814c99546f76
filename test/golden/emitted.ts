/**
 * Emits every shipped kernel and every probe for every target, with all facts that specialise the code. The output does
 * not depend on the machine: the vector width of a processor and the features of WebAssembly are fixed, and source
 * lines are renumbered.
 *
 *   cuda     CUDA C++ and the recipe to launch it
 *   native   C++ and the data that the host needs, for processors with 4, 8 and 16 lanes
 *   wasm     the bytes and the same data, with and without relaxed SIMD
 */
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { walk, type KernelIR } from '../../src/ir/node.ts'
import { KernelError } from '../../src/ir/site.ts'
import { through } from '../../src/ir/stages.ts'
import { lowerKernel } from '../../src/targets/cpu/lower/lower.ts'
import type { CpuFacts } from '../../src/targets/cpu/facts.ts'
import { readClock } from '../../src/targets/cuda/readClock.ts'
import { renderCuda } from '../../src/targets/cuda/emit/emit.ts'
import {
  factsOf,
  type EmitFacts,
  type EmittedKernel,
  type TensorFacts,
} from '../../src/targets/cuda/emit/recipe.ts'
import { shapesOf } from '../../src/targets/cuda/facts.ts'
import { gpuStages, lower } from '../../src/targets/cuda/stages.ts'
import { defaultCaches, machineOf } from '../../src/targets/native/build.ts'
import { renderCpp } from '../../src/targets/native/render.ts'
import { wasmMachine } from '../../src/targets/wasm/engine.ts'
import { renderWasm } from '../../src/targets/wasm/render.ts'
import { opProbes } from './opProbes.ts'
import {
  exampleLaunches,
  shippedLaunches,
  whole,
  type GoldenTarget,
  type Launched,
  type Range,
} from './shippedLaunches.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
export const targets: readonly GoldenTarget[] = ['cuda', 'native', 'wasm']

export interface Emitted {
  readonly target: GoldenTarget
  readonly kernel: string
  readonly facts: string
  /**
   * The emitted contents, keyed by file ending. Recording and non-recording CPU code share one line of the golden file.
   * Code of one kernel for several GPU worlds also shares one line, except for kernels marked as thorough.
   */
  readonly contents: Readonly<Record<string, string | Uint8Array>>
  /** The IR of the kernel; undefined if the kernel is handwritten. */
  readonly ir: KernelIR | undefined
}

/** The line of the golden file without its hash. */
export const keyOf = ({ target, kernel, facts }: Emitted): string => `${target} ${kernel} ${facts}`

export function hashOf({ contents }: Emitted): string {
  const hash = createHash('sha256')
  for (const [ending, content] of Object.entries(contents)) hash.update(`${ending}\n`).update(content)
  return hash.digest('hex').slice(0, 16)
}

/** Emits all examples and probes, and the operations and collectives in `range`. */
export async function* allEmitted(range: Range = whole): AsyncGenerator<Emitted> {
  const clock = { cu: textOf(readClock) }
  yield { target: 'cuda', kernel: 'world/read_clock', facts: 'any', contents: clock, ir: undefined }
  const probes: readonly Launched[] = opProbes().map((probe) => ({
    ...{ meta: undefined, shapes: {}, packed: [], hostSignals: false, isThorough: false },
    ...probe,
  }))
  const others = [...(await exampleLaunches(root)), ...probes]
  for (const [turn, target] of targets.entries()) {
    const known = new Map<KernelIR, Set<string>>()
    let emitted = 0
    const named = new Map<string, number>()
    for (const launch of [...(await shippedLaunches(target, range)), ...others]) {
      const { kernel, ranks, meta, shapes, packed } = launch
      const ir = kernel.record({ world: ranks, meta })
      // A kernel that several operations launch is emitted once, under its first name.
      const tensors = Object.entries(shapes).map(([tensor, shape]) => [tensor, factsOf(shape)])
      const specialised = JSON.stringify(target === 'cuda' ? tensors : packed)
      const ofKernel = known.get(ir) ?? new Set()
      known.set(ir, ofKernel)
      if (ofKernel.has(specialised)) continue
      ofKernel.add(specialised)
      const count = (named.get(`${launch.name} ${ranks}`) ?? 0) + 1
      named.set(`${launch.name} ${ranks}`, count)
      const name = count === 1 ? launch.name : `${launch.name}#${count}`
      const isSkipped =
        range.isRotating &&
        !(target === 'cuda' && probes.includes(launch)) &&
        emitted++ % (3 * targets.length) !== turn
      if (isSkipped) continue
      for (const [facts, contents] of forms[target](ir, launch))
        yield { target, kernel: name, facts: `ranks=${ranks},${facts}`, contents, ir }
    }
  }
}

/** Facts about a world on which only few kernels depend. */
type WorldMore = Pick<EmitFacts, 'hostSignals' | 'scattered'>

type Form = readonly [facts: string, contents: Emitted['contents']]
const onOff = [false, true]
const recording = (record: boolean): string => `recording=${record ? 'on' : 'off'}`

/**
 * Combines the code that is emitted for several sets of facts into one line of the golden file. The contents for each
 * set of facts remain separate files.
 */
const together = (facts: string, all: readonly Form[]): Form => [
  facts,
  Object.fromEntries(
    all.flatMap(([own, contents]) =>
      Object.entries(contents).map(([ending, content]) => [`${own}.${ending}`, content]),
    ),
  ),
]

const forms: Readonly<Record<GoldenTarget, (ir: KernelIR, launch: Launched) => readonly Form[]>> = {
  cuda(ir, { shapes, hostSignals, isThorough }) {
    const form = (oneDevice: boolean, isOdd: boolean, record: boolean, more: WorldMore = {}): Form => {
      const named = [
        oneDevice ? 'one-device' : 'several-devices',
        ...(isOdd ? ['odd-extents'] : []),
        record ? 'recorded' : 'recording=off',
        ...(more.hostSignals ? ['host-signals'] : []),
        ...(more.scattered ? ['scattered'] : []),
      ]
      const tensors = tensorFacts(ir, shapes, isOdd)
      return [named.join(','), cuda(ir, { tensors, oneDevice, record, ...more })]
    }
    if (hostSignals)
      return onOff.map((byHost) => form(true, false, false, byHost ? { hostSignals: true } : {}))
    if (!isThorough)
      return [together('plain-and-recorded', [form(false, false, false), form(true, true, true)])]
    return [
      ...onOff.flatMap((oneDevice) =>
        onOff.flatMap((isOdd) => onOff.map((record) => form(oneDevice, isOdd, record))),
      ),
      form(true, false, false, { scattered: true }),
    ]
  },
  native(ir, { packed, isThorough }) {
    const [usual, ...more] = processors
    return (isThorough ? [usual, ...more] : [usual]).map(([name, machine]) =>
      together(
        [name, ...packing(packed)].join(','),
        onOff.map((record): Form => {
          const options = { machine, record, packed: new Set(packed) }
          return [recording(record), cpu(ir, options, (module) => ({ cpp: renderCpp(module) }))]
        }),
      ),
    )
  },
  wasm(ir, { packed, isThorough }) {
    return (isThorough ? [true, false] : [true]).map((relaxed) =>
      together(
        [relaxed ? 'relaxed' : 'plain', ...packing(packed)].join(','),
        onOff.map((record): Form => {
          const options = { machine: wasmMachine, record, packed: new Set(packed) }
          const bytes = cpu(ir, options, (module) => ({ wasm: renderWasm(module, { relaxed }) }))
          return [recording(record), bytes]
        }),
      ),
    )
  },
}

const packing = (packed: readonly string[]): string[] =>
  packed.length > 0 ? [`packed=${packed.join('+')}`] : []

const processors = [
  ['avx2', machineOf('#define __AVX2__ 1\n#define __FMA__ 1', defaultCaches)],
  [
    'avx512',
    machineOf('#define __AVX512F__ 1\n#define __AVX512BW__ 1\n#define __AVX512VL__ 1', defaultCaches),
  ],
  ['sse', machineOf('', defaultCaches)],
  ['arm', machineOf('#define __aarch64__ 1', defaultCaches)],
] as const

/**
 * For each tensor, the facts for which code is specialised. A tensor without a given shape has extents of 1024; with
 * `isOdd`, all extents are odd.
 */
function tensorFacts(ir: KernelIR, shapes: Launched['shapes'], isOdd: boolean): Record<string, TensorFacts> {
  const all = Object.entries(shapesOf(ir, shapes)).map(([name, shape]): [string, TensorFacts] => {
    const known = factsOf(shape)
    return [name, isOdd ? { ...known, divisors: known.divisors.map(() => 1) } : known]
  })
  return Object.fromEntries(all)
}

/** The ops that occur in rendered GPU kernels. GPU stages insert ops that authors do not write. */
export const renderedOps = new Set<string>()

const cuda = (ir: KernelIR, facts: EmitFacts): Emitted['contents'] =>
  orRefusal(() => {
    const staged = through(lower(ir), gpuStages, facts)
    for (const { op } of walk(staged.body)) renderedOps.add(op)
    return { cu: textOf(renderCuda(staged, facts)) }
  })

const textOf = ({ source, code: _, ...recipe }: EmittedKernel): string =>
  withoutLines(`${source}\n${comment(recipe)}`)

function cpu(
  ir: KernelIR,
  options: CpuFacts,
  render: (module: ReturnType<typeof lowerKernel>['module']) => Emitted['contents'],
): Emitted['contents'] {
  return orRefusal(() => {
    // The text of `module` is compared separately, and `unlike` is a description that does not change the code.
    const { module, sites, needsResidency, messages, unlike: _, ...rest } = lowerKernel(ir, options)
    const lines = {
      ...(messages.length > 0 && { messages }),
      sites: sites.map(String),
      needsResidency: String(needsResidency?.site),
    }
    return { ...render(module), txt: withoutLines(comment({ ...rest, ...lines })) }
  })
}

/**
 * Returns the contents, or the message if the target refuses the kernel or fails, so that all other kernels are still
 * compared.
 */
function orRefusal(emit: () => Emitted['contents']): Emitted['contents'] {
  try {
    return emit()
  } catch (error) {
    const what = error instanceof KernelError ? 'refused' : 'failed'
    return { txt: withoutLines(`${what}: ${error instanceof Error ? error.message : String(error)}\n`) }
  }
}

const comment = (data: object): string =>
  Object.entries(data)
    .map(([name, value]) => `// ${name}: ${JSON.stringify(value)}\n`)
    .join('')

/**
 * Replaces line numbers by their rank within the file. With relative line numbers, a comment that moves lines changes
 * nothing, but a statement on a new line does.
 */
function withoutLines(text: string): string {
  const sites = /([\w./-]+\.ts):(\d+)(?::\d+)?/g
  const lines = new Map<string, number[]>()
  for (const [, file, line] of text.matchAll(sites)) {
    const known = lines.get(file) ?? []
    lines.set(file, [...new Set([...known, Number(line)])])
  }
  for (const known of lines.values()) known.sort((a, b) => a - b)
  return text.replace(
    sites,
    (_, file: string, line: string) =>
      `${file.replace(`${root}/`, '')}:#${lines.get(file)!.indexOf(Number(line)) + 1}`,
  )
}
