/**
 * Translates lowered IR to CUDA C++: source text and the recipe to launch the kernel. This file makes no driver calls.
 * The same IR and facts produce the same text.
 *
 * This file writes the signature of the kernel and the address of its shared memory. The renderers in `render/` write
 * everything else. Each renderer uses only its own op and the decisions of `decide.ts`.
 */
import { extentsOf, sizeOf } from '../../../ir/clusters.ts'
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type KernelIR } from '../../../ir/node.ts'
import { KernelError } from '../../../ir/site.ts'
import { through } from '../../../ir/stages.ts'
import { gpuStages } from '../stages.ts'
import { code, joined, type Code } from './code.ts'
import { expectAgreement } from './agreement.ts'
import { Emission } from './emission.ts'
import { headerOf } from './header.ts'
import { lib, libraryOf, usedOf } from './library.ts'
import { decide, writtenBases } from './decide.ts'
import { ARCHITECTURE, type EmitFacts, type EmittedKernel } from './recipe.ts'
import { renderBlock } from './render/index.ts'
import { renderStart, startOf } from './render/start.ts'
import { epochsAt, type Epoch } from './start.ts'
import { kernelName } from './names.ts'
import type { Line } from './writer.ts'

export const emitCuda = analysis('CUDA of a lowered kernel', emitted)

function emitted(given: KernelIR, facts: EmitFacts): EmittedKernel {
  if (given.stage !== 'lowered')
    throw new KernelError(`${given.name} is ${given.stage}: lower() it before emitting CUDA`)
  return renderCuda(through(given, gpuStages, facts), facts)
}

/** Renders a kernel as CUDA C++. The argument must be the IR of the last stage for the given facts. */
export const renderCuda = analysis('text of CUDA', rendered)

function rendered(ir: KernelIR, facts: EmitFacts): EmittedKernel {
  const plans = decide(ir, facts)
  expectAgreement(plans)
  const advanced = epochsAt(startOf(ir.body).get('start.advance'))
  const emission = new Emission(plans, renderBlock)
  for (const param of ir.body.params)
    if (param.type.kind === 'value')
      emission.setScalar(param, emission.params.scalar(attribute<string>(param, 'name')))
  const body = emission.out.aside(() =>
    emission.within(plans.roles.whole, () => renderBlock(ir.body, emission)),
  )
  const end = emission.out.aside(() => emission.recorder?.ends())
  const start = emission.out.aside(() => prologue(emission))
  const { block } = plans.roles
  const name = kernelName(ir.name)
  const params = emission.params.all
  const declarations = joined(
    params.map(({ type, name }) => code`    ${type} ${name}`),
    ',\n',
  )
  const head = code`extern "C" __global__ void ${clusterText(ir)}__launch_bounds__(${block}, 1) ${name}(\n${declarations}) {`
  const textBy = (ofLine: (line: Line) => Code): Code =>
    joined([head, ...[...start, ...body, ...end].map(ofLine), '}\n'], '\n')
  const commented = textBy(({ text, comment }) => code`${text}${comment}`)
  const library = libraryOf({
    wgmma: emission.wgmma,
    flagScope: facts.oneDevice && !facts.hostSignals ? 'gpu' : 'sys',
  })
  const available = { ...library, ...Object.fromEntries(emission.functions) }
  const declared = usedOf(available, commented.uses)
  const written = new Set([...walk(ir.body)].flatMap(writtenBases))
  return {
    name,
    source: [declared, ...headerOf(ir, facts, plans.notes), commented.asText].join('\n'),
    code: [declared, textBy(({ text }) => text).asText].join('\n'),
    architecture: ARCHITECTURE,
    block,
    sharedBytes: plans.sharedBytes,
    params: params.map(({ recipe }) => recipe),
    writes: ir.body.params.filter((param) => written.has(param)).map((param) => emission.paramName(param)),
    signals: flagsOf(advanced, 'signal'),
    waits: flagsOf(advanced, 'wait'),
    waitSites: plans.start.waitLines,
    ...(emission.assertions.length > 0 && { assertions: emission.assertions }),
    notes: plans.notes,
    ...(emission.recorder && { recordedSites: emission.recorder.sites }),
  }
}

/**
 * Returns the `__cluster_dims__` attribute of the kernel. The programs of a cluster have consecutive numbers on the
 * only axis of the grid.
 */
function clusterText(ir: KernelIR): string {
  const meeting = ir.body.nodes.find(({ op }) => op === 'cluster.meet')
  return meeting ? `__cluster_dims__(${sizeOf(extentsOf(meeting))}, 1, 1) ` : ''
}

const flagsOf = (epochs: readonly Epoch[], side: Epoch['side']): string[] =>
  epochs.filter((one) => one.side === side).map(({ flags }) => flags)

/**
 * Writes what every program executes before its first statement: the addresses of shared memory, and the ops at the
 * start of the kernel.
 */
function prologue(emission: Emission): void {
  const { out } = emission
  out.line(code`extern __shared__ ${lib.u8} shared_memory[];`)
  out.line(code`const u32 shared = (${lib.shared_address}(shared_memory) + 1023) & ~1023u;`)
  out.line('const u32 thread = threadIdx.x;')
  renderStart(emission)
}
