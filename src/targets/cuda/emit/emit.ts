/**
 * Translates lowered IR to CUDA C++: source text and the recipe to launch the kernel. This file makes no driver calls.
 * The same IR and facts produce the same text.
 *
 * This file writes the frame of the kernel: parameters, shared memory, mbarriers and flag epochs. The last program of a
 * rank to start advances the epochs. The renderers in `render/` write everything else. Each renderer uses only its own
 * op and the decisions of `decide.ts`.
 */
import { extentsOf, sizeOf } from '../../../ir/clusters.ts'
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type KernelIR, type Node } from '../../../ir/node.ts'
import { declaresBarriers } from '../../../ir/ops/index.ts'
import { KernelError } from '../../../ir/site.ts'
import { through } from '../../../ir/stages.ts'
import { gpuStages } from '../stages.ts'
import { code, joined, type Code } from './code.ts'
import { expectAgreement } from './agreement.ts'
import type { EarlyPlan } from './early.ts'
import { Emission } from './emission.ts'
import { headerOf } from './header.ts'
import { lib, libraryOf, usedOf } from './library.ts'
import { decide, writtenBases } from './decide.ts'
import { ARCHITECTURE, type EmitFacts, type EmittedKernel } from './recipe.ts'
import { renderBlock } from './render/index.ts'
import type { Epoch } from './start.ts'
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
  const { start: atStart } = plans
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
    signals: flagsOf(atStart.advanced, 'signal'),
    waits: flagsOf(atStart.advanced, 'wait'),
    waitSites: atStart.waitLines,
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
 * Writes the setup that every program executes before its first statement: addresses, mbarriers and epochs. Memory
 * accesses start after `griddepcontrol.wait`, when the previous kernel has ended and its writes are visible. The next
 * kernel of the stream may then start (programmatic dependent launch), unless this kernel is open-ended: it may poll for
 * any length of time, and a next kernel that started early would occupy multiprocessors meanwhile.
 */
function prologue(emission: Emission): void {
  const { out, plans, params } = emission
  const { early, clerk, start, isOpenEnded } = plans
  out.line(code`extern __shared__ ${lib.u8} shared_memory[];`)
  out.line(code`const u32 shared = (${lib.shared_address}(shared_memory) + 1023) & ~1023u;`)
  out.line('const u32 thread = threadIdx.x;')
  const barriers = [...walk(plans.ir.body)].filter(declaresBarriers)
  if (barriers.length > 0) initialise(barriers, emission)
  // A program of a cluster must not end before the other programs, which may still copy into its shared memory. A
  // program of a cluster therefore does not return early when the launch is aborted. Each wait of the program ends when
  // the wait finds the abort word set.
  const canWait = start.waitLines.length > 0 && clusterText(plans.ir) === ''
  const counter = start.advanced.length > 0 ? params.counter() : undefined
  const begin = (): void => {
    out.line(code`${lib.kernel_before_ended}();`)
    if (!isOpenEnded) out.line(code`${lib.next_kernel_may_start}();`)
  }
  bringNear(clerk, [...(canWait ? [params.control] : []), ...(counter ? [counter] : [])], emission)
  if (early) {
    const settled = params.settled([early.reads])
    const isSettled = code`threadIdx.x < 32 && ${settled} != 0`
    out.line(
      code`const bool is_early = ${isSettled};  // true: the ${early.group.name} may copy before the previous kernel has ended`,
    )
    out.block('if (!is_early)', begin)
  } else begin()
  emission.recorder?.begins()
  // In an aborted world, nobody would signal the flags that this kernel waits for.
  if (canWait)
    out.line(
      code`const bool is_stopped = thread == ${early?.threads ?? 0} && ${lib.abort_raised}(${params.control});`,
    )
  for (const { flags, side } of start.epochs)
    out.line(
      code`const u32 ${emission.epoch(flags, side)} = *(volatile u32*)(${params.epochs(flags)} + ${side === 'signal' ? 0 : 1}) + 1;`,
    )
  const isMeeting =
    canWait ||
    barriers.length > 0 ||
    start.advanced.length > 0 ||
    (emission.recorder && plans.roles.groups.size > 0)
  if (early) meetBehind(early, canWait, counter ? clerk : undefined, emission)
  else if (isMeeting) out.line(canWait ? 'if (__syncthreads_or(is_stopped)) return;' : '__syncthreads();')
  if (!counter) return
  // When the last program reaches this line, all programs have read the epochs, so the epochs may be advanced.
  const isLast = code`thread == ${clerk} && ${lib.last_program}(${counter}, gridDim.x)`
  out.block(code`if (${isLast})`, () => {
    for (const { flags, side } of start.advanced)
      out.line(code`${params.epochs(flags)}[${side === 'signal' ? 0 : 1}] = ${emission.epoch(flags, side)};`)
  })
}

/**
 * Prefetches into L2 the words that every program reads first. Other data may have evicted these words since the last
 * launch.
 */
function bringNear(thread: number, others: readonly Code[], { out, params, plans }: Emission): void {
  const sets = new Set(plans.start.epochs.map(({ flags }) => flags))
  const words = [...[...sets].map((flags) => params.epochs(flags)), ...others]
  if (words.length === 0) return
  const calls = words.map((one) => code`${lib.bring_near}(${one});`)
  out.line(code`if (thread == ${thread}) { ${joined(calls, ' ')} }`)
}

/**
 * Synchronises all threads except the threads of the early role's warpgroup, which only arrive at the thread barrier
 * and continue. The early role's own barrier is used, because threads that continue may soon arrive at the next
 * barrier. A courier role (an idle warp that sends data) in the same warpgroup may continue, too, because it uses no
 * mbarriers. A courier role waits for no flags, so it need not know whether the world was aborted.
 */
function meetBehind(
  { group: { branch, barrier }, threads }: EarlyPlan,
  canWait: boolean,
  clerk: number | undefined,
  { out, plans }: Emission,
): void {
  const { block, groups } = plans.roles
  // The warp that advances the epochs waits until all threads have read them.
  const first = clerk !== undefined && clerk < threads ? code`threadIdx.x / 32 == ${clerk / 32}` : undefined
  if (first) out.line(code`if (${first}) ${lib.group_barrier}(${barrier}, ${block});`)
  out.line(
    code`${first ? 'else ' : ''}if (threadIdx.x < ${threads}) ${lib.group_arrive}(${barrier}, ${block});`,
  )
  out.block('else', () => {
    out.line(code`${lib.group_barrier}(${barrier}, ${block});`)
    if (!canWait) return
    const [other] = [...groups.values()].filter((group) => group.branch !== branch)
    const isAnyStopped = code`${lib.group_any}(${other.barrier}, ${block - threads}, is_stopped)`
    out.line(code`if (${isAnyStopped}) { ${lib.copies_arrive}(); return; }`)
  })
}

function initialise(barriers: readonly Node[], { out, plans, params }: Emission): void {
  out.block('if (thread == 0)', () => {
    for (const map of params.maps) out.line(code`${lib.tma_prefetch}(${map});`)
    for (const node of barriers) {
      const { at } = plans.shared.barriers.get(node)!
      const arrivals = attribute<number>(node, 'arrivals') * (plans.arrivers.get(node) ?? 1)
      out.line(
        code`for (u32 i = 0; i < ${attribute<number>(node, 'count')}; ++i) ${lib.barrier_init}(shared + ${at} + i * 8, ${arrivals});`,
        node.site,
      )
    }
    out.line(code`${lib.barrier_init_fence}();`)
    out.line(code`${lib.fence_async_shared}();`)
  })
}
