#!/usr/bin/env node
/**
 * The `arke` command. Exit codes: 0 success, 1 findings, 2 the command or its input is wrong (with one line on stderr),
 * 130 ended by SIGINT, 143 ended by SIGTERM. The code of a command is loaded when the command is used.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Command, CommanderError, Option } from 'commander'
import { packageFile } from '../files.ts'
import { plain } from '../report/style.ts'
import type { AuditCommand } from './audit.ts'
import type { AnyOperation } from '../operation/definition.ts'
import type { BenchCommand } from './bench.ts'
import type { EmitOptions } from './emit.ts'
import { describeError, UsageError } from './errors.ts'
import { styleFor } from './colours.ts'
import { interruptible } from './interrupt.ts'
import type { Source } from './load.ts'
import { allStages, checkDefaults, checkedStages, expectStage, positive, whole } from './options.ts'
import { checkOutputs, Output } from './output.ts'
import { descriptions } from '../targets/descriptions.ts'
import { irStageNames, stagedTargets, stageNames, usualTarget, type StagedTarget } from '../targets/stages.ts'
import type { RunCommand } from './run.ts'
import type { TuneCommand } from './tune.ts'

const { version } = JSON.parse(readFileSync(fileURLToPath(packageFile('package.json')), 'utf8')) as {
  version: string
}
/** A closed pipe is not an error, because its reader may stop reading early. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 2))

const problem = (line: string): string => `${styleFor(process.stderr).bad('arke:')} ${line}`
const outputOf = ({ out, json }: { readonly out?: string; readonly json?: boolean } = {}): Output =>
  new Output(process.stdout, out, json ? plain : styleFor(process.stdout))
const outOption = [
  '--out <file>',
  'write the output to a file instead of printing it; never over an input',
] as const

/** Lists all commands with the first clause of their descriptions. */
function commandList(): string {
  const width = Math.max(...program.commands.map((command) => command.name().length))
  return [
    'Commands:',
    ...program.commands.map((one) => `  ${one.name().padEnd(width)}  ${one.description()}`),
  ].join('\n')
}

const ranks = whole(1, 64)
const program = new Command('arke')
program
  .description(
    'The three taxes of distributed LLM workloads: audit traces for them, and write, check and emit the kernels that remove them',
  )
  .version(version)
  .exitOverride()
  .configureOutput({
    outputError: (text, write) => {
      const line = text
        .replace(/^error: /, '')
        .replace('(Did you', '(did you')
        .trim()
        .replace(/\s*\n\s*/g, ' ')
      write(`${problem(line)}\n`)
      if (line.startsWith('unknown command')) write(`\n${commandList()}\n`)
    },
  })

program
  .command('check')
  .description('run the scenarios in files under many schedules; find races, deadlocks and bad accesses')
  .argument('<file...>', 'files that export kernels and scenarios')
  .option('--scenario <name>', 'only the scenario of this name (default: all)')
  .option('--ranks <n>', "world size, 1 to 64 (default: the scenario's own)", ranks)
  .option(
    '--schedules <n>',
    'random schedules for each scenario, 0 for none',
    whole(0),
    checkDefaults.schedules,
  )
  .option('--seed <s>', 'seed of the first random schedule', whole(0, 2 ** 31 - 1), checkDefaults.seed)
  .option(
    '--preemptions <n>',
    'the search sees all interleavings with at most this many',
    whole(0),
    checkDefaults.preemptions,
  )
  .option(
    '--limit <n>',
    'interleavings after which the search stops, 0 for no search',
    whole(0),
    checkDefaults.limit,
  )
  .addOption(
    new Option(
      '--stage <stage>',
      'one form of the kernels: as written, or after a stage of the target (default: recorded, and the last one)',
    ).choices(allStages),
  )
  .addOption(
    new Option('--target <target>', 'the target whose last stage is explored (default: cuda)').choices(
      stagedTargets,
    ),
  )
  .option('--one-device', 'for cuda: all ranks share one GPU (default)')
  .addOption(new Option('--several-devices', 'for cuda: ranks may be on several GPUs').conflicts('oneDevice'))
  .option('--record', 'for a world that records')
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .addHelpText(
    'after',
    `
Examples:
  arke check examples/06-message-passing.ts
  arke check kernels/*.ts --ranks 8 --schedules 5000
  arke check kernel.ts --limit 0 --schedules 1 --seed 42    see one random schedule again

A kernel is checked as written and in the last stage of the target, from which its text is written. By default that is an H200 with
all ranks on one device. Extents are those of the scenario's tensors. docs/memory-model.md lists what of the hardware is not modelled.

Exits with 1 if anything was found, with 2 if a scenario or a kernel could not be checked. Notes are not findings: they say,
among others, which products would not use the matrix unit of a GPU, and which fragments would not fit in its registers.`,
  )
  .action(async (files: string[], options: CheckCommand) => {
    if (options.limit === 0 && options.schedules === 0)
      throw new UsageError(
        '--limit 0 --schedules 0: neither a search nor random schedules; leave one of them out',
      )
    const { target = usualTarget, stage, severalDevices } = options
    if (stage !== undefined) expectStage(target, stage, irStageNames(target))
    if (severalDevices && !descriptions[target].options.includes('severalDevices'))
      throw new UsageError(`--several-devices: ${target} kernels do not depend on it; leave it out`)
    checkOutputs({ out: options.out }, files)
    const output = outputOf(options)
    const { print, style } = output
    prepareForAuthor(options)
    const { check } = await import('./check.ts')
    const { load } = await import('./load.ts')
    const { Progress } = await import('./progress.ts')
    const report = await import('./report.ts')
    const sources: Source[] = []
    for (const file of files) sources.push(await load(file))
    const progress = new Progress(process.stderr)
    let isDone = false
    process.once('exit', (code) => {
      if (isDone || code !== 0) return
      process.stderr.write('arke: a scenario has ended the process; the results are incomplete\n')
      process.exitCode = 2
    })
    let heading = ''
    const stages = stage === undefined ? checkedStages(target) : [stage]
    const checked = await interruptible(async (interrupt) => {
      const found = await check(
        sources,
        { ...options, stages, interrupt },
        {
          onProgress: (run, schedules) =>
            progress.show(
              () => `${run.scenario}, ${run.ranks} ranks, ${report.stageOf(run)}: ${schedules} schedules`,
            ),
          onRun(run) {
            if (options.json) return
            progress.clear()
            const title = `${run.file}: ${run.scenario}`
            if (title !== heading) print(style.heading((heading = title)))
            print(`  ${report.runLine(run, style)}`)
            for (const found of run.findings) print(`\n${report.findingBlock(found, run, style)}\n`)
          },
        },
      )
      progress.clear()
      if (options.json) print(JSON.stringify(report.toJson(found, version), undefined, 2))
      else {
        for (const kernel of found.kernels) {
          for (const note of kernel.notes) print(`${style.warning('note:')} ${note}`)
          if (kernel.problem) process.stderr.write(`${problem(kernel.problem)}\n`)
          else if (kernel.scenarios.length === 0) print(report.unlaunchedNote(kernel))
        }
        print(report.closingLine(found, style))
      }
      await output.done(interrupt)
      return found
    })
    isDone = true
    const hasProblem = [...checked.runs, ...checked.kernels].some(({ problem }) => problem !== undefined)
    if (hasProblem) process.exitCode = 2
    if (checked.runs.some((run) => run.findings.length > 0)) process.exitCode = 1
  })

program
  .command('audit')
  .description(
    'read profiler traces of a job: what the three taxes cost, who made whom wait, what to fuse first',
  )
  .argument(
    '[path...]',
    'traces, folders or globs: PyTorch .json(.gz), Nsight Systems .sqlite, rocprofv3 .json',
  )
  .option('--steps <a..b>', 'only these steps, both included, by the numbers that the program gave them')
  .option('--json', 'print one JSON document, and write no page unless --html is given')
  .option(...outOption)
  .option('--html <file>', 'where the page goes (default: arke-report.html; none with --json and --compare)')
  .option('--no-html', 'write no page')
  .option('--trace <file>', 'write all ranks on one clock as a Chrome trace, for Perfetto')
  .option(
    '--compare <other>',
    'set another audit beside it, which came after: traces or the output of --json, as PATH may be here',
  )
  .option('--rank <n>', 'the rank of a single trace that does not tell it', whole(0, 2 ** 31 - 1))
  .option('--bandwidth <GB/s>', "of the devices' memory, where Arke does not know the device", positive)
  .option('--demo', 'make the traces of an 8-rank job with a planted straggler, and audit those')
  .addHelpText(
    'after',
    `
Examples:
  arke audit --demo
  arke audit traces/                                  all ranks of a job
  arke audit 'run7/rank*.json.gz' --steps 5..8
  arke audit before/ --compare after/
  arke audit trace.json.gz --json --out before.json
  arke audit before.json --compare after.json

docs/audit.md says how to record a good trace. Exits with 2 and one line if there is nothing to audit.`,
  )
  .action(async (paths: string[], options: AuditCommand) => {
    const { auditCommand } = await import('./audit.ts')
    const { Progress } = await import('./progress.ts')
    const output = outputOf(options)
    const { print, pour, style } = output
    const progress = new Progress(process.stderr)
    await interruptible(async (interrupt) => {
      await auditCommand(paths, options, version, print, progress, pour, interrupt, style)
      await output.done(interrupt)
    })
  })

program
  .command('emit')
  .description('print what a kernel becomes')
  .argument(
    '<file>',
    'a file that exports kernels or operations (FILE#NAME is one of these), or an operation such as all-gather-gemm',
  )
  .option('--kernel <name>', 'one of its kernels (default: all)')
  .addOption(
    new Option(
      '--target <target>',
      'the text that a target compiles; cuda: CUDA C++; native: C++; wasm: the code that becomes WebAssembly',
    ).choices(stagedTargets),
  )
  .addOption(
    new Option(
      '--stage <stage>',
      'the kernel after a stage of the target (default: as written, or the text of --target)',
    ).choices(allStages),
  )
  .option('--extents <name=extents...>', 'cuda: extents of tensors, such as a=4096x4096 (default: 1024 each)')
  .option('--one-device', 'cuda: all ranks share one GPU (default)')
  .addOption(new Option('--several-devices', 'cuda: ranks may be on several GPUs').conflicts('oneDevice'))
  .option('--packed [tensors...]', 'native, wasm: tensors that are packed; of an operation, its weights')
  .option('--this-cpu', 'native: for the processor of this computer (default: any with AVX2)')
  .option('--record', 'for a world that records')
  .option('--ranks <n>', 'world size it is specialised for, 1 to 64', ranks, 2)
  .option('--meta <key=value...>', "meta-parameters that differ from the kernel's defaults")
  .option('--variant <names>', 'of an operation: which variants, with commas between (default: all)')
  .option('--shape <extents>', 'of an operation: such as M=64,N=1024,K=2048')
  .option('--dtype <dtype>', 'of an operation: f32, f16 or bf16')
  .option('--shard <axis>', 'of an operation with several layouts: K or M')
  .option('--sites', "append the author's line to each operation")
  .option(...outOption)
  .addHelpText(
    'after',
    `
Examples:
  arke emit examples/06-message-passing.ts
  arke emit examples/07-all-gather-gemm.ts --kernel allGatherGemm --stage lowered --meta BM=64 BN=64
  arke emit examples/07-all-gather-gemm.ts --target cuda --extents a=4096x1024 b=8192x4096
  arke emit examples/07-all-gather-gemm.ts --target cuda --stage decide
  arke emit all-gather-gemm --variant fused --shape M=16,N=3584,K=8192 --dtype bf16 --ranks 8 --target cuda

Stages:
${stagedTargets.map((target) => `  ${target.padEnd(7)} ${stageNames(target).join(', ')}, text`).join('\n')}

The text of cuda and native is what a world compiles for the same facts, byte by byte, and states these facts in a comment. An
operation is emitted for an H200 or for CPU threads. Notes, also on stderr, say which products do not use the matrix unit and which
fragments do not fit in registers.`,
  )
  .action(async (file: string, options: EmitOptions & { readonly out?: string }) => {
    showSourcePositions()
    const { out, ...rest } = options
    const { emit, emitOperation } = await import('./emit.ts')
    const { emitted } = await import('./operationFile.ts')
    checkOutputs({ out }, [file.split('#')[0]])
    const output = outputOf({ out })
    const found = await emitted(file, rest)
    const { text, notes } =
      'operation' in found ? await emitOperation(found.operation, rest) : emit(found.source, rest)
    for (const note of notes) process.stderr.write(`note: ${note}\n`)
    await output.pour([text])
    await output.done()
  })

interface Choosing {
  readonly operation?: string
  readonly json?: boolean
  readonly out?: string
  readonly report?: string
  readonly trace?: string
  readonly write?: string
}

/** The operation that `bench` or `tune` is given by name or in a file, which no output may overwrite. */
async function operationFor(argument: string, options: Choosing): Promise<AnyOperation> {
  const { findOperation, splitName } = await import('./operationFile.ts')
  const { out, report, trace, write } = options
  checkOutputs({ out, report, trace, write }, [splitName(argument)[0]])
  prepareForAuthor(options)
  return (await findOperation(argument, options.operation)).operation
}

/** The options of `bench` that describe points of an operation. */
const ofOperations = ['operation', 'variant', 'shape', 'dtype', 'shard', 'sweep', 'skew', 'pack', 'seed']
/** The most runs of a scenario that `bench` measures. */
const mostRuns = 50

/** Measures the scenarios of a file that exports no operation. Returns false for any other argument. */
async function benchedScenarios(
  argument: string,
  options: BenchCommand & Choosing,
  command: Command,
): Promise<boolean> {
  const { findScenarios, splitName } = await import('./operationFile.ts')
  checkOutputs({ out: options.out, report: options.report, trace: options.trace }, [splitName(argument)[0]])
  prepareForAuthor(options)
  const source = await findScenarios(argument)
  if (!source) return false
  const isGiven = (name: string): boolean => command.getOptionValueSource(name) === 'cli'
  const wrong = ofOperations.find(isGiven)
  if (wrong !== undefined)
    throw new UsageError(
      `--${wrong === 'pack' ? 'no-pack' : wrong}: describes an operation, and ${argument} exports scenarios; leave it out`,
    )
  const { runCommand } = await import('./run.ts')
  const { Progress } = await import('./progress.ts')
  const output = outputOf(options)
  const { target, seconds, json, out, report, trace } = options
  const asked = { target, seconds, json, out, report, trace, runs: mostRuns }
  const sized = { ...asked, ...(isGiven('ranks') && { ranks: options.ranks }) }
  const progress = new Progress(process.stderr)
  await interruptible(async (interrupt) => {
    const result = await runCommand(source, sized, version, output.print, progress, interrupt, output.style)
    await output.done(interrupt)
    if (result.scenarios.some(({ problem }) => problem !== undefined)) process.exitCode = 1
  })
  return true
}

/** Declares a command that runs an operation at one or more points. */
const operationCommand = (name: string, description: string): Command =>
  program
    .command(name)
    .description(description)
    .argument(
      '<operation>',
      'such as all-gather-gemm, of which `arke operations` has the list; or a file that exports operations of your own',
    )
    .option('--operation <name>', 'of a file with several operations: which one; FILE#NAME means the same')
    .option('--variant <names>', 'which variants, with commas between', 'all')
    .option('--target <target>', 'where it runs (default: native, or wasm where there is no compiler)')
    .option('--ranks <n>', 'world size, 1 to 64', ranks, 2)
    .option('--shape <extents>', 'such as M=64,N=1024,K=2048 or KV=4096,batch=4 (default: one to look at)')
    .option(
      '--dtype <dtype>',
      "of the operands: f32, f16 or bf16 (default: the operation's own, usually f32)",
    )
    .option('--shard <axis>', 'where inputs are cut, of an operation with several layouts: K or M', 'K')
    .option('--sweep <extent=values>', 'a point for each: M=1..1024 by powers of two, or M=1,7,64')

operationCommand(
  'bench',
  'measure the variants of an operation, bulk synchronous to fused, and what the taxes cost each',
)
  .option(
    '--skew <percentages>',
    'start the last rank so late, in percent of the time of the first variant',
    '0',
  )
  .option('--seconds <s>', 'how long to measure each point', positive, 3)
  .option('--no-pack', 'read weights as they lie instead of packing them once')
  .option('--seed <s>', 'of the inputs', whole(1, 2 ** 20), 1)
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .option('--trace <file>', 'write what was recorded as a Chrome trace, for Perfetto or arke audit')
  .option('--report <file>', 'write a page with the variants side by side')
  .addHelpText(
    'after',
    `
Examples:
  arke bench all-gather-gemm
  arke bench all-gather-gemm --shape M=64,N=1024,K=2048 --skew 0,5,20 --report bench.html
  arke bench flash-decode --sweep KV=256..65536 --dtype bf16 --json --out decode.json
  arke bench mine.ts --ranks 4 --report mine.html     its operation, or else its scenarios

Every timed execution starts behind a gate on the device, when all ranks are there and all is enqueued. Variants take turns;
outputs are compared with a float64 reference first.`,
  )
  .action(async (argument: string, options: BenchCommand & Choosing, command: Command) => {
    if (await benchedScenarios(argument, options, command)) return
    const { benchCommand } = await import('./bench.ts')
    const { Progress } = await import('./progress.ts')
    const operation = await operationFor(argument, options)
    const output = outputOf(options)
    const { print, style } = output
    const progress = new Progress(process.stderr)
    await interruptible(async (interrupt) => {
      await benchCommand(operation, options, version, print, progress, interrupt, style)
      await output.done(interrupt)
    })
  })

operationCommand(
  'tune',
  'find the fastest tiles of an operation on this machine, and keep them for whoever uses it here',
)
  .option('--seconds <s>', 'how long to measure each variant of a point', positive, 3)
  .option('--seed <s>', 'of the inputs', whole(1, 2 ** 20), 1)
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .option('--write <file.ts>', 'write the table of this device as a source file, too')
  .addHelpText(
    'after',
    `
Examples:
  arke tune all-gather-gemm --sweep M=1..1024
  arke tune flash-decode --target cuda --ranks 8 --dtype bf16 --shape KV=32768 --variant bsp,fused

Candidates are compared with a float64 reference first; then they take turns behind a gate, and the faster half goes on, until one
is left. It takes the place of the default where it is faster beyond doubt, in tuned.json under ARKE_CACHE or ~/.cache/arke.
With --target cuda, notes say which products of the chosen kernels do not use the matrix unit and which fragments do not fit in
registers.`,
  )
  .action(async (argument: string, options: TuneCommand & Choosing) => {
    const { tuneCommand } = await import('./tune.ts')
    const { Progress } = await import('./progress.ts')
    const operation = await operationFor(argument, options)
    const output = outputOf(options)
    const { print, style } = output
    const progress = new Progress(process.stderr)
    await interruptible(async (interrupt) => {
      await tuneCommand(operation, options, version, print, progress, interrupt, style)
      await output.done(interrupt)
    })
  })

program
  .command('run')
  .description('run the scenarios of a file on real ranks, and print what the taxes cost each rank')
  .argument('<file>', 'a file that exports scenarios')
  .option('--scenario <name>', 'only the scenario of this name (default: all)')
  .option('--target <target>', 'where it runs (default: native, or wasm where there is no compiler)')
  .option('--ranks <n>', "world size, 1 to 64 (default: the scenario's own)", ranks)
  .option('--runs <n>', 'recorded runs of each scenario, after one that compiles', whole(1, 1000), 3)
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .option('--trace <file>', 'write what was recorded as a Chrome trace, for Perfetto or arke audit')
  .option('--report <file>', 'write a page with the timelines and the ledgers')
  .addHelpText(
    'after',
    `
Examples:
  arke run examples/07-all-gather-gemm.ts
  arke run kernel.ts --target native --ranks 4 --report page.html
  arke run kernel.ts --scenario 'a chain of ranks' --ranks 4 --trace trace.json

The ledger is that of the run of median length. Time in which the host waits or computes between launches is not counted. Exits with
1 if a scenario fails, with its error and its line.`,
  )
  .action(async (file: string, options: RunCommand) => {
    checkOutputs({ out: options.out, report: options.report, trace: options.trace }, [file])
    prepareForAuthor(options)
    const { runCommand } = await import('./run.ts')
    const { load } = await import('./load.ts')
    const { Progress } = await import('./progress.ts')
    const source = await load(file)
    const output = outputOf(options)
    const { print, style } = output
    const progress = new Progress(process.stderr)
    const { scenarios } = await interruptible(async (interrupt) => {
      const result = await runCommand(source, options, version, print, progress, interrupt, style)
      await output.done(interrupt)
      return result
    })
    if (scenarios.some(({ problem }) => problem !== undefined)) process.exitCode = 1
  })

program
  .command('targets')
  .description('list the targets, and why one cannot be used here')
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .addHelpText('after', '\nExamples:\n  arke targets\n  arke targets --json --out targets.json')
  .action(async (options: { readonly json?: boolean; readonly out?: string }) => {
    const { targetStatus, targetTable } = await import('./targets.ts')
    checkOutputs({ out: options.out })
    const output = outputOf(options)
    const targets = await targetStatus()
    if (options.json) output.print(JSON.stringify({ arke: version, targets }, undefined, 2))
    else output.print(targetTable(targets, output.style))
    await output.done()
  })

program
  .command('operations')
  .description('list the operations, with what bench and tune take: variants, extents and layouts')
  .addHelpText('after', '\nExample:\n  arke operations')
  .action(async () => {
    const { operationTable } = await import('./operations.ts')
    outputOf().print(operationTable())
  })

program
  .command('demo')
  .description('see a race caught at its line, then operations on CPU ranks, bulk synchronous against fused')
  .addHelpText('after', '\nExample:\n  arke demo')
  .action(async () => {
    showSourcePositions()
    const { demo } = await import('./demo.ts')
    const { Progress } = await import('./progress.ts')
    const progress = new Progress(process.stderr)
    if (!(await interruptible((interrupt) => demo(outputOf().print, progress, version, interrupt))))
      process.exitCode = 1
  })

interface CheckCommand {
  readonly scenario?: string
  readonly ranks?: number
  readonly schedules: number
  readonly seed: number
  readonly preemptions: number
  readonly limit: number
  readonly stage?: string
  readonly target?: StagedTarget
  readonly severalDevices?: boolean
  readonly record?: boolean
  readonly json?: boolean
  readonly out?: string
}
/**
 * Enables source maps, so that errors and findings show positions in the author's source and not in compiled code. This
 * costs time for each loaded module.
 */
function showSourcePositions(): void {
  process.setSourceMapsEnabled(true)
  // An error deep inside a world has more of Arke's stack frames above the author's frame than Node keeps by default.
  Error.stackTraceLimit = 30
}

/** Prepares for code of the author: positions in errors, and no output of that code in a JSON document on stdout. */
function prepareForAuthor({ json }: { readonly json?: boolean }): void {
  showSourcePositions()
  if (json) console.log = console.info = console.debug = console.error
}

// Reports an error of the author's code that nothing catches as one line instead of a stack trace.
const told = new Set<string>()
const tell = (reason: unknown): void => {
  const line = `${problem(describeError(reason))}\n`
  if (!told.has(line)) process.stderr.write(line)
  told.add(line)
  process.exitCode ||= 2
}
process.on('unhandledRejection', tell)
process.on('uncaughtException', tell)

try {
  if (process.argv.length <= 2) program.outputHelp()
  else await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else {
    process.stderr.write(`${problem(describeError(error))}\n`)
    process.exitCode = 2
  }
}
