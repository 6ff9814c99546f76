/**
 * Every analysis rejects an op without a record, instead of treating it as an op without effects. Every function that
 * takes a kernel, or several of its nodes, must be an analysis or be called by one.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { analyses } from '../../src/ir/analysis.ts'
import { Node, type KernelIR } from '../../src/ir/node.ts'
import type { OpName } from '../../src/ir/ops/index.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { valueType, voidType } from '../../src/ir/type.ts'
import { f32, flags, kernel, tensor } from '../../src/index.ts'
const copying = kernel(
  'copying',
  { x: tensor(f32, 2), y: tensor(f32, 2), ready: flags() },
  (t, { x, y, ready }) => {
    const tile = t.shared(f32, [16, 16])
    const sum = t.pipeline([4], t.zeros(f32, [16, 16]), ([k], acc) => {
      t.wait(ready)
      t.copy(x.tile([k, 0], [16, 16]), tile)
      return t.dot(tile, tile, acc)
    })
    t.store(y.tile([0, 0], [16, 16]), sum)
    t.signal(ready)
  },
)

const root = resolve(import.meta.dirname, '../..')
const sources = readdirSync(resolve(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !/\.(test|d)\.ts$/.test(path))
  .map((path) => `src/${path}`)
const textOf = (path: string): string => readFileSync(resolve(root, path), 'utf8')

// Importing a module registers the analyses of the module.
const registering = sources.filter((path) => /= analysis\(/.test(textOf(path)))
for (const path of registering) await import(resolve(root, path))

/** True for a parameter that holds several nodes: a kernel, a block, or a list, set or map of nodes. */
const holdsNodes = ({ type }: ts.ParameterDeclaration): boolean =>
  type !== undefined && /\b(KernelIR|Block)\b|\bNode\b\s*(\[\]|[>,])/.test(type.getText())

/**
 * The exported functions of a file that take several nodes, and its classes with a public method that takes several
 * nodes.
 */
function takingKernels(path: string): string[] {
  const text = textOf(path)
  if (!path.startsWith('src/ir/') && !/ir\/node\.ts'/.test(text)) return []
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const takes = ({ parameters }: ts.SignatureDeclaration): boolean => parameters.some(holdsNodes)
  const isExported = (node: ts.Statement): boolean =>
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
  const isPublic = (member: ts.ClassElement): boolean => !member.name || !ts.isPrivateIdentifier(member.name)
  return file.statements.filter(isExported).flatMap((node) => {
    if (ts.isFunctionDeclaration(node)) return takes(node) ? [node.name!.text] : []
    if (ts.isClassDeclaration(node)) {
      const members = node.members.filter((one) => isPublic(one) && ts.isFunctionLike(one) && takes(one))
      return members.length > 0 ? [node.name!.text] : []
    }
    if (!ts.isVariableStatement(node)) return []
    return node.declarationList.declarations.flatMap(({ name, initializer }) =>
      initializer && ts.isArrowFunction(initializer) && takes(initializer) ? [name.getText()] : [],
    )
  })
}

/** Functions that are not analyses themselves, each with the analysis to which it belongs or which it calls first. */
const parts: Readonly<Record<string, string>> = {
  'src/ir/passes/courier.ts soleRoles': 'courier',
  'src/ir/passes/elsewhere.ts elsewhere': 'courier',
  'src/ir/passes/obstacle.ts findObstacle': 'pipelines',
  'src/ir/passes/roles.ts RoleBuilder': 'pipelines',
  'src/ir/passes/slice.ts producerSlice': 'pipelines',
  'src/ir/passes/slice.ts standsBeforePipelines': 'pipelines',
  'src/ir/start.ts expectStart': 'verifier',
  'src/ir/start.ts hasStart': 'verifier',
  'src/ir/stages.ts lowerFor': 'pipelines',
  'src/ir/stages.ts through': 'verifier',
  'src/ir/traffic.ts totalTraffic': 'traffic',
  'src/ir/traffic.ts traffic': 'traffic',
  'src/ir/traffic.ts trafficOfCopies': 'traffic',
  'src/ir/traffic/execute.ts Execution': 'traffic',
  'src/targets/check/compiler.ts Compiler': 'code of the checker',
  'src/targets/cpu/backend.ts CpuBackend': 'code of a CPU',
  'src/targets/cpu/lower/borrowed.ts borrowedTiles': 'code of a CPU',
  'src/targets/cpu/lower/control.ts lowerBlock': 'code of a CPU',
  'src/targets/cpu/lower/fragments.ts overElements': 'code of a CPU',
  'src/targets/cpu/lower/fragments.ts withLoads': 'code of a CPU',
  'src/targets/cpu/lower/layouts.ts assignLayouts': 'code of a CPU',
  'src/targets/cpu/lower/nest.ts Nest': 'code of a CPU',
  'src/targets/cpu/lower/packed.ts packedTiles': 'code of a CPU',
  'src/targets/cpu/lower/plan.ts Plan': 'code of a CPU',
  'src/targets/cpu/lower/state.ts branchState': 'code of a CPU',
  'src/targets/cpu/lower/state.ts enterState': 'code of a CPU',
  'src/targets/cpu/lower/state.ts nextState': 'code of a CPU',
  'src/targets/cpu/lower/state.ts preferBranch': 'code of a CPU',
  'src/targets/cpu/lower/state.ts preferInPlace': 'code of a CPU',
  'src/targets/cpu/stages.ts atCpuStage': 'verifier',
  'src/targets/cpu/table.ts ExecutableTable': 'code of a CPU',
  'src/targets/cuda/emit/copies.ts CopyPlanner': 'tiles of a GPU',
  'src/targets/cuda/emit/decide.ts copiesIn': 'tiles of a GPU',
  'src/targets/cuda/emit/emission.ts Emission': 'text of CUDA',
  'src/targets/cuda/emit/hazards.ts Hazards': 'order of threads',
  'src/targets/cuda/emit/ordering.ts Ordering': 'order of threads',
  'src/targets/cuda/emit/orderStart.ts emitStart': 'order of threads',
  'src/targets/cuda/emit/params.ts Params': 'text of CUDA',
  'src/targets/cuda/emit/ranges.ts Ranges': 'decisions for a GPU',
  'src/targets/cuda/emit/scratch.ts planScratch': 'decisions for a GPU',
  'src/targets/cuda/emit/ranges.ts leadingParams': 'decisions for a GPU',
  'src/targets/cuda/emit/recorded.ts unlikeUnrecorded': 'decisions for a GPU',
  'src/targets/cuda/emit/render/index.ts renderBlock': 'text of CUDA',
  'src/targets/cuda/emit/render/start.ts startOf': 'text of CUDA',
  'src/targets/cuda/emit/render/places.ts engineCoordinates': 'text of CUDA',
  'src/targets/cuda/emit/uses.ts Uses': 'decisions for a GPU',
  'src/targets/cuda/executables.ts emittedFor': 'CUDA of a lowered kernel',
  'src/targets/cuda/facts.ts atStage': 'decisions for a GPU',
  'src/targets/cuda/emit/meetings.ts haveJustMet': 'order of threads',
  'src/targets/cuda/facts.ts shapesOf': 'prints',
  'src/targets/cuda/stages.ts lower': 'pipelines',
  'src/targets/gpu/backend.ts GpuBackend': 'launches on a GPU',
  'src/targets/gpu/executables.ts executableOf': 'launches on a GPU',
  'src/world/launchTraffic.ts givenTo': 'traffic',
  'src/world/launches.ts Launches': 'uses of parameters',
  'src/world/printBuffers.ts PrintBuffers': 'prints',
  'src/world/signallers.ts Signallers': 'uses of parameters',
}
/** The traversal itself, and the functions that make nodes, refuse an op without a record. */
const refusing = [
  'src/ir/node.ts walk',
  'src/ir/analysis.ts analysis',
  'src/ir/rewrite.ts Copier',
  'src/lang/control.ts ControlFlow',
  'src/lang/random.ts randomOf',
  'src/lang/recorder.ts Recorder',
]
/** Functions that store or compare nodes and do not depend on the meaning of ops. */
const holding = ['src/ir/node.ts Node', 'src/lang/carried.ts unflatten', 'src/ir/difference.ts difference']
/**
 * Functions that read parameters, tiles or decisions of a kernel and print names, and do not depend on the meaning of
 * ops.
 */
const printing = [
  'src/ir/print.ts print',
  'src/ir/decisions.ts withDecisions',
  'src/ir/decisions.ts decisionLines',
  'src/targets/cuda/emit/header.ts headerOf',
  'src/targets/cuda/emit/tiles.ts expectFits',
  'src/targets/cpu/facts.ts cpuHeader',
  'src/world/arguments.ts expectSignallers',
]

const unknown = 'mystery' as OpName

/** Yields the kernel with one node of an unknown op, in each of its blocks in turn. */
function* withUnknown(ir: KernelIR): Generator<KernelIR> {
  const visit = function* (block: KernelIR['body']): Generator<KernelIR['body']> {
    for (const type of [voidType, valueType('f32', [16, 16])]) {
      block.nodes.push(new Node(unknown, type, []))
      yield block
      block.nodes.pop()
    }
    for (const node of block.nodes) for (const inner of node.blocks) yield* visit(inner)
  }
  for (const _ of visit(ir.body)) yield { ...ir }
}

describe('analyses', () => {
  const recorded = copying.record({ world: 2 })

  it('are registered', () => {
    const definitions = registering.flatMap((path) => textOf(path).match(/= analysis\(/g) ?? [])
    expect(analyses.size).toBe(definitions.length)
    expect([...new Set(Object.values(parts))].filter((name) => !analyses.has(name))).toEqual([])
  })

  it('are all functions that take a kernel or several nodes, except parts of analyses', () => {
    // The CUDA emitter is one analysis, whose functions take its plan as an argument.
    const given = sources.flatMap((path) => takingKernels(path).map((name) => `${path} ${name}`))
    expect(given.sort()).toEqual([...Object.keys(parts), ...refusing, ...holding, ...printing].sort())
  })

  it.each([...analyses])('%s: refuses an op without a record', (_, analyse) => {
    for (const ir of [recorded, lower(recorded)])
      for (const broken of withUnknown(ir)) expect(() => analyse(broken)).toThrow(/mystery/)
  })
})
