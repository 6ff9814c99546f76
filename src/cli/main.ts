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
  'write the output to a file instead of printing it; inputs are never overwritten',
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
    'Measure the three performance taxes of distributed LLM workloads in traces, and write, check and run kernels that remove them',
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
    'search all interleavings with at most this many preemptions',
    whole(0),
    checkDefaults.preemptions,
  )
  .option(
    '--limit <n>',
    'maximum number of interleavings in the search; 0 for no search',
    whole(0),
    checkDefaults.limit,
  )
  .addOption(
    new Option(
      '--stage <stage>',
      'check the kernels after one stage only (default: as recorded, and after the last stage of the target)',
    ).choices(allStages),
  )
  .addOption(
    new Option('--target <target>', 'the target whose last stage is checked (default: cuda)').choices(
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
  arke check kernel.ts --limit 0 --schedules 1 --seed 42    repeat one random schedule

A kernel is checked as written and after the last stage of the target, which determines the emitted code. The default target is an
H200 with all ranks on one device. Extents are those of the scenario's tensors. docs/memory-model.md lists the hardware effects that
the checker does not model.

Exits with 1 if anything was found, and with 2 if a scenario or a kernel could not be checked. Notes are not findings. Notes name,
for example, products that would not use the matrix unit of a GPU, and fragments that would not fit in its registers.`,
  )
  .action(async (files: string[], options: CheckCommand) => {
    if (options.limit === 0 && options.schedules === 0)
      throw new UsageError(
        '--limit 0 --schedules 0: nothing would be checked, neither by a search nor by random schedules; leave one of them out',
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
    'read profiler traces of a job: report the cost of each tax, the slowest rank, and what to fuse first',
  )
  .argument(
    '[path...]',
    'traces, folders or globs: PyTorch .json(.gz), Nsight Systems .sqlite, rocprofv3 .json',
  )
  .option('--steps <a..b>', 'only the steps from a to b, as numbered by the traced program')
  .option('--json', 'print one JSON document, and write no page unless --html is given')
  .option(...outOption)
  .option(
    '--html <file>',
    'the file of the page (default: arke-report.html; no page with --json or --compare)',
  )
  .option('--no-html', 'write no page')
  .option('--trace <file>', 'write one Chrome trace of all ranks with aligned clocks, for Perfetto')
  .option(
    '--compare <other>',
    'compare with a later audit, given as traces or as the output of --json; PATH may then be such an output, too',
  )
  .option('--rank <n>', 'the rank of a single trace that does not contain its rank', whole(0, 2 ** 31 - 1))
  .option(
    '--bandwidth <GB/s>',
    'memory bandwidth of the devices, for devices that Arke does not know',
    positive,
  )
  .option('--demo', 'generate and audit the traces of an 8-rank job in which one rank is slow')
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

docs/audit.md explains how to record a good trace. Exits with 2 and a one-line message if there is nothing to audit.`,
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
  .description('print the code of a kernel for a target, or the kernel after a stage')
  .argument(
    '<file>',
    'a file that exports kernels or operations (FILE#NAME selects one), or an operation such as all-gather-gemm',
  )
  .option('--kernel <name>', 'one kernel of the file (default: all)')
  .addOption(
    new Option(
      '--target <target>',
      'print the code that a target compiles; cuda: CUDA C++; native: C++; wasm: a readable form of the WebAssembly',
    ).choices(stagedTargets),
  )
  .addOption(
    new Option(
      '--stage <stage>',
      'print the kernel after a stage of the target (default: as written, or the code of --target)',
    ).choices(allStages),
  )
  .option('--extents <name=extents...>', 'cuda: extents of tensors, such as a=4096x4096 (default: 1024 each)')
  .option('--one-device', 'cuda: all ranks share one GPU (default)')
  .addOption(new Option('--several-devices', 'cuda: ranks may be on several GPUs').conflicts('oneDevice'))
  .option(
    '--packed [tensors...]',
    'native, wasm: tensors that are packed; for an operation: pack its weights',
  )
  .option('--this-cpu', 'native: for the processor of this computer (default: any with AVX2)')
  .option('--record', 'for a world that records')
  .option('--ranks <n>', 'world size for which the kernel is specialised, 1 to 64', ranks, 2)
  .option('--meta <key=value...>', "meta-parameters that differ from the kernel's defaults")
  .option('--variant <names>', 'for an operation: variants, separated by commas (default: all)')
  .option('--shape <extents>', 'for an operation: its extents, such as M=64,N=1024,K=2048')
  .option('--dtype <dtype>', 'for an operation: dtype of the operands, f32, f16 or bf16')
  .option(
    '--shard <axis>',
    'for an operation with several layouts: the axis along which inputs are sharded, K or M',
  )
  .option('--sites', 'append the source line to each operation')
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

For cuda and native, the printed code equals the code that a world compiles for the same facts, byte by byte. A comment in the code
states these facts. An operation is emitted for an H200 or for CPU threads. Notes on stderr name products that do not use the matrix
unit, and fragments that do not fit in registers.`,
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

/** Declares a command that runs an operation at one or more points. */
const operationCommand = (name: string, description: string): Command =>
  program
    .command(name)
    .description(description)
    .argument(
      '<operation>',
      'an operation such as all-gather-gemm (`arke operations` lists all), or a file that exports your own operations',
    )
    .option(
      '--operation <name>',
      'the operation to use, if the file exports several; FILE#NAME means the same',
    )
    .option('--variant <names>', 'variants, separated by commas', 'all')
    .option(
      '--target <target>',
      'native, wasm or cuda (default: native, or wasm if there is no C++ compiler)',
    )
    .option('--ranks <n>', 'world size, 1 to 64', ranks, 2)
    .option(
      '--shape <extents>',
      'extents, such as M=64,N=1024,K=2048 or KV=4096,batch=4 (default: a small shape)',
    )
    .option(
      '--dtype <dtype>',
      "dtype of the operands: f32, f16 or bf16 (default: the operation's default, usually f32)",
    )
    .option(
      '--shard <axis>',
      'axis along which inputs are sharded, K or M, for an operation with several layouts',
      'K',
    )
    .option(
      '--sweep <extent=values>',
      'measure several values of an extent: M=1..1024 by powers of two, or M=1,7,64',
    )

operationCommand(
  'bench',
  'measure the variants of an operation, from bulk synchronous to fused, and the cost of each tax',
)
  .option(
    '--skew <percentages>',
    'delay the last rank by these percentages of the time of the first variant',
    '0',
  )
  .option('--seconds <s>', 'how long to measure each point', positive, 3)
  .option('--no-pack', 'read weights in their original layout instead of packing them once')
  .option('--seed <s>', 'seed of the random inputs', whole(1, 2 ** 20), 1)
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .option('--trace <file>', 'write the recorded executions as a Chrome trace, for Perfetto or arke audit')
  .option('--report <file>', 'write a page with the variants side by side')
  .addHelpText(
    'after',
    `
Examples:
  arke bench all-gather-gemm
  arke bench all-gather-gemm --shape M=64,N=1024,K=2048 --skew 0,5,20 --report bench.html
  arke bench flash-decode --sweep KV=256..65536 --dtype bf16 --json --out decode.json

Every timed execution starts behind a gate on the device, which opens when all ranks have arrived and all work is enqueued. Variants
run interleaved. Before timing, outputs are compared with a float64 reference.`,
  )
  .action(async (argument: string, options: BenchCommand & Choosing) => {
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
  'find the fastest tiles of an operation on this machine, and store them for later runs',
)
  .option('--seconds <s>', 'how long to measure each variant of a point', positive, 3)
  .option('--seed <s>', 'seed of the random inputs', whole(1, 2 ** 20), 1)
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .option('--write <file.ts>', 'also write the table of this device as a source file')
  .addHelpText(
    'after',
    `
Examples:
  arke tune all-gather-gemm --sweep M=1..1024
  arke tune flash-decode --target cuda --ranks 8 --dtype bf16 --shape KV=32768 --variant bsp,fused

The results of all candidates are first compared with a float64 reference. The candidates then run interleaved, and the faster half
is kept until one candidate is left. If this candidate is faster than the default (statistically significant), it is stored in
tuned.json under ARKE_CACHE or ~/.cache/arke. With --target cuda, notes name products that do not use the matrix unit, and fragments
that do not fit in registers.`,
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
  .option('--target <target>', 'native, wasm or cuda (default: native, or wasm if there is no C++ compiler)')
  .option('--ranks <n>', "world size, 1 to 64 (default: the scenario's own)", ranks)
  .option(
    '--runs <n>',
    'recorded runs of each scenario, after a first run that compiles the kernels',
    whole(1, 1000),
    3,
  )
  .option('--json', 'print one JSON document')
  .option(...outOption)
  .option('--trace <file>', 'write the recorded executions as a Chrome trace, for Perfetto or arke audit')
  .option('--report <file>', 'write a page with the timelines and the ledgers')
  .addHelpText(
    'after',
    `
Examples:
  arke run examples/07-all-gather-gemm.ts
  arke run kernel.ts --target native --ranks 4 --report page.html
  arke run kernel.ts --scenario 'a chain of ranks' --ranks 4 --trace trace.json

The ledger describes the run of median length. Time in which the host waits or computes between launches is not counted. If a
scenario fails, the command prints the error with its source line and exits with 1.`,
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
  .description('list the targets, and why some are not available on this machine')
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
  .description('list the operations with their variants, extents and layouts')
  .addHelpText('after', '\nExample:\n  arke operations')
  .action(async () => {
    const { operationTable } = await import('./operations.ts')
    outputOf().print(operationTable())
  })

program
  .command('demo')
  .description(
    'take the tour: an audit, a race with its source line, and bulk synchronous against fused kernels',
  )
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
