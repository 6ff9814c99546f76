/**
 * Lowers tile IR to Code, the intermediate language of the CPU targets. Entry 0 of the generated code, `run`, runs
 * programs of a launch until no program is left. The body of one program is a separate function. The last leader to
 * finish advances the epochs of the flag sets that the kernel signals and waits for.
 *
 *   plan       decides which fragments are stored and which are recomputed by their consumers
 *   frame      the layout of a program's memory
 *   views      tensors, tiles, elements and flags as addresses
 *   elements   one element of an operation; nest and fragments: loops over elements
 *   memory     loads and stores; lines and copies: whole rows; atomics
 *   control    loops and branches; state: their carried values; roles
 *   sync       flags and barriers; runtime: the functions that implement them
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type KernelIR, type Node } from '../../../ir/node.ts'
import { awaitsFlag, entryOf, mayWait, opOf, origin, type Facts, type OpWith } from '../../../ir/ops/index.ts'
import { through } from '../../../ir/stages.ts'
import { epochs, eventKind, launch as launchBlock, mostParams, slot as slotBlock } from '../abi.ts'
import { add, address, codeFunction, compare, i32, type Writer } from '../build.ts'
import type { CodeFunction, Local } from '../code.ts'
import type { Lowered } from '../executable.ts'
import { cpuHeader, type CpuFacts } from '../facts.ts'
import { cpuStages } from '../stages.ts'
import { KernelError } from '../../../ir/site.ts'
import { barriersOf, Lowering, refOf, Sites, type Shared } from './context.ts'
import { lowerBlock } from './control.ts'
import { panelBytes, rowsLayout } from './dot.ts'
import { FrameLayout } from './frame.ts'
import { borrowedTiles } from './borrowed.ts'
import { assignLayouts } from './layouts.ts'
import { packedTiles } from './packed.ts'
import { Plan } from './plan.ts'
import { closeRoles, memoryOf, openRoles, roleEntry, workersOf } from './roles.ts'
import { isStopped, makeRuntime } from './runtime.ts'
import { looks } from './sync.ts'
import { isOfGpu } from './views.ts'

export const lowerKernel = analysis('code of a CPU', codeOf, (ir) =>
  codeOf(ir, {
    machine: {
      name: 'wasm',
      lanes: 4,
      rows: 4,
      columns: 2,
      prefetches: false,
      l1: 32 * 1024,
      l2: 512 * 1024,
    },
  }),
)

function codeOf(recorded: KernelIR, options: CpuFacts): Lowered {
  const { machine } = options
  const ir = through(recorded, cpuStages, options)
  const { params } = ir.body
  if (params.length > mostParams)
    throw new KernelError(
      `${ir.name} has ${params.length} parameters; a kernel has at most ${mostParams}: combine several small tensors into one`,
      params[mostParams].site,
    )
  const borrowed = borrowedTiles(ir, options)
  const layouts = assignLayouts(ir, machine, borrowed)
  const shared: Shared = {
    ir,
    machine,
    options,
    plan: new Plan(ir),
    frame: new FrameLayout(),
    runtime: makeRuntime(),
    layouts,
    borrowed,
    packedTiles: packedTiles(ir, options, layouts),
    sites: new Sites(),
    declared: new Map(),
    published: new Map(),
    counterWords: 0,
  }
  declare(shared)
  const program = programFunction(shared)
  const run = runFunction(shared, program)
  const workers = workersOf(shared)
  const entries = [run, ...Array.from({ length: workers - 1 }, (_, i) => roleEntry(shared, i + 1))]
  const waiting = [...walk(ir.body)].find(mayWait)
  return {
    module: { name: ir.name, machine, entries, header: cpuHeader(ir, options) },
    roles: workers,
    frameBytes: shared.frame.bytes,
    counterWords: shared.counterWords,
    sites: shared.sites.list,
    messages: shared.sites.messages,
    params: params.map((param) => attribute<string>(param, 'name')),
    needsResidency: waiting && { site: waiting.site },
    unlike: options.record ? unlikeUnrecorded(ir, options, borrowed) : [],
  }
}

/**
 * The differences between the kernel that records events and the kernel without recording, each as a clause that names
 * the kernel.
 */
function unlikeUnrecorded(ir: KernelIR, options: CpuFacts, borrowed: ReadonlySet<Node>): string[] {
  const otherwise = borrowedTiles(ir, { ...options, record: false }).size
  const waits = [...walk(ir.body)].filter(awaitsFlag).length
  return [
    ...(otherwise > borrowed.size
      ? [
          `${ir.name} copies ${otherwise - borrowed.size} shared tiles from other ranks that matrix products read in place when nothing is recorded`,
        ]
      : []),
    ...(waits > 0
      ? [
          `${ir.name} reads a flag up to ${looks} times before it records that it waits (once when nothing is recorded)`,
        ]
      : []),
  ]
}

/** Shared tiles and barriers exist until the end of the program, so their memory is never reused. */
function declare(shared: Shared): void {
  for (const node of walk(shared.ir.body))
    if (opOf(node).effect === 'declare' && !shared.packedTiles.has(node))
      shared.declared.set(node, shared.frame.take(entryOf(bytesOf, node)(shared, node)))
}

const bytesOf: Readonly<Record<OpWith<{ effect: 'declare' }>, (shared: Shared, node: Node) => number>> = {
  shared: ({ layouts, machine }, node) => panelBytes(refOf(node), layouts.get(node) ?? rowsLayout, machine),
  barriers: (_, node) => 4 * barriersOf(node).count,
  staging: (_, node) => isOfGpu(node),
  held: (_, node) => isOfGpu(node),
}

function programFunction(shared: Shared): CodeFunction {
  return codeFunction(
    'program',
    [
      ['launch', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
      ['memory', 'ptr'],
      ['program', 'i32'],
    ],
    (writer, launch, frame, slot, memory, program) => {
      const l = new Lowering(shared, writer, { launch, frame, slot, memory, program })
      lowerBlock(l, shared.ir.body)
      writer.return(i32(0))
      writer.statements.unshift(...l.prologue)
    },
    { result: 'i32', hot: true },
  )
}

function runFunction(shared: Shared, program: CodeFunction): CodeFunction {
  return codeFunction(
    'run',
    [
      ['launch', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
    ],
    (writer, launch, frame, slot) => {
      const memory = memoryOf(writer, frame)
      const grid = writer.load('grid', 'i32', 'i32', launch, launchBlock.grid)
      openRoles(shared, writer, launch, frame, memory)
      writer.loop(() => {
        const number = writer.atomic('add', address(launch, 0, 1, launchBlock.next), i32(1), 'relaxed')
        writer.if(compare('ge', number, grid), () => writer.break())
        writer.if(compare('ne', isStopped(writer, memory), i32(0)), () => writer.return(i32(-1)))
        writer.store('i32', slot, number, slotBlock.program)
        runProgram(shared, writer, program, [launch, frame, slot, memory, number])
      })
      closeRoles(shared, writer, frame, memory, slot)
      const before = writer.atomic('add', address(launch, 0, 1, launchBlock.finished), i32(1), 'acqRel')
      const leaders = writer.load('leaders', 'i32', 'i32', launch, launchBlock.leaders)
      writer.if(compare('lt', add(before, i32(1)), leaders), () => writer.return(i32(0)))
      advanceEpochs(shared, writer, launch, frame, slot, memory)
      writer.return(i32(1))
    },
    { result: 'i32' },
  )
}

function runProgram(shared: Shared, writer: Writer, program: CodeFunction, args: readonly Local[]): void {
  const now = (name: string): Local => writer.let(name, { kind: 'now', type: 'f64' })
  const start = shared.options.record ? now('start') : undefined
  const stopped = writer.call(program, ...args)
  writer.if(compare('ne', stopped!, i32(0)), () => writer.return(i32(-1)))
  if (!start) return
  const [, , slot, , number] = args
  writer.call(
    shared.runtime.recordEvent,
    slot,
    i32(eventKind.program),
    i32(0),
    start,
    now('end'),
    number,
    i32(0),
  )
}

/** Advances this rank's epochs of the flag sets that the launch has signalled or waited for. */
function advanceEpochs(
  shared: Shared,
  writer: Writer,
  launch: Local,
  frame: Local,
  slot: Local,
  memory: Local,
): void {
  const l = new Lowering(shared, writer, { launch, frame, slot, memory, program: slot })
  const nodes = [...walk(shared.ir.body)]
  const usedBy = (side: Facts['advances']): Set<Node> =>
    new Set(nodes.filter((node) => opOf(node).advances === side).map((node) => origin(node.inputs[0]).base))
  const body = writer.within(() => {
    for (const [side, flags] of [
      ['signalled', usedBy('signal')],
      ['waited', usedBy('wait')],
    ] as const)
      for (const param of flags) {
        const at = l.epochsOf(param)
        writer.store('i32', at, l.epoch(param, side), epochs[side])
      }
  })
  writer.statements.push(...l.prologue, ...body)
}
