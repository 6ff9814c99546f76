/** Declares the commands that take a file with kernels and scenarios: `check`, `emit` and `run`. */
import { Option, type Command } from 'commander'
import { descriptions } from '../targets/descriptions.ts'
import { irStageNames, stagedTargets, stageNames, usualTarget, type StagedTarget } from '../targets/stages.ts'
import {
  layoutOption,
  mostRanks,
  outOption,
  outputOf,
  prepareForAuthor,
  problem,
  ranks,
  shardOption,
  showSourcePositions,
  version,
} from './common.ts'
import type { EmitOptions } from './emit.ts'
import { UsageError } from './errors.ts'
import { interruptible } from './interrupt.ts'
import type { Source } from './load.ts'
import { checkDefaults, checkedStages, expectStage, members, whole } from './options.ts'
import { checkOutputs } from './output.ts'
import type { RunCommand } from './run.ts'
import { stageHelp } from './stageHelp.ts'

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
  readonly sharedBytes?: number
  readonly registers?: number
  readonly record?: boolean
  readonly json?: boolean
  readonly out?: string
}

/** The options of `check` that only some targets have. */
const gpuOptions = [
  ['severalDevices', '--several-devices'],
  ['sharedBytes', '--shared-bytes'],
  ['registers', '--registers'],
] as const

export function addCheck(program: Command): void {
  program
    .command('check')
    .description('run the scenarios in files under many schedules; find races, deadlocks and bad accesses')
    .argument('<file...>', 'files that export kernels and scenarios')
    .option('--scenario <name>', 'check only the scenario of this name (default: all)')
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
    .option(
      '--stage <stage>',
      'check the kernels after one stage only (default: as recorded, and after the last stage of the target)',
    )
    .addOption(
      new Option('--target <target>', 'the target whose last stage is checked (default: cuda)').choices(
        stagedTargets,
      ),
    )
    .option('--one-device', 'for cuda: all ranks share one GPU (default)')
    .addOption(
      new Option('--several-devices', 'for cuda: ranks may be on several GPUs').conflicts('oneDevice'),
    )
    .option('--shared-bytes <n>', 'for cuda: shared memory of a program (default: that of an H200)', whole(1))
    .option(
      '--registers <n>',
      'for cuda: registers of a multiprocessor (default: those of an H200)',
      whole(1),
    )
    .option(
      '--record',
      'check the kernels of a recording, which contain extra code that writes time stamps for the ledger',
    )
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
H200 with all ranks on one device. Extents are those of the scenario's tensors, and the host signals the flags that the scenario
allocates for it. docs/memory-model.md lists the hardware effects that
the checker does not model.

${stageHelp(irStageNames)}

Exits with 1 if anything was found, and with 2 if a scenario or a kernel could not be checked. Notes are not findings. Notes name,
for example, products that would not use the matrix unit of a GPU, and fragments that would not fit in its registers.`,
    )
    .action(async (files: string[], options: CheckCommand) => {
      if (options.limit === 0 && options.schedules === 0)
        throw new UsageError(
          '--limit 0 --schedules 0: nothing would be checked, neither by a search nor by random schedules; leave one of them out',
        )
      const { target = usualTarget, stage, severalDevices, sharedBytes, registers } = options
      if (stage !== undefined) expectStage(target, stage, irStageNames(target))
      const given = { severalDevices, sharedBytes, registers }
      for (const [name, option] of gpuOptions)
        if (given[name] && !descriptions[target].options.includes(name))
          throw new UsageError(`${option}: ${target} kernels do not depend on this option; leave it out`)
      checkOutputs({ out: options.out }, files)
      const output = outputOf(options)
      const { print, style } = output
      prepareForAuthor(options)
      const { check } = await import('./check.ts')
      const { load } = await import('./load.ts')
      const { printAbove, Progress } = await import('./progress.ts')
      const report = await import('./report.ts')
      const sources: Source[] = []
      for (const file of files) sources.push(await load(file))
      const progress = new Progress(process.stderr)
      let isDone = false
      process.once('exit', (code) => {
        if (isDone || code !== 0 || output.isClosed) return
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
            onPrint: printAbove(progress),
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
            else if (report.isUnlaunched(kernel, found)) print(report.unlaunchedNote(kernel))
          }
          if (report.isAnythingChecked(found)) print(report.closingLine(found, style))
        }
        await output.done(interrupt)
        return found
      })
      isDone = true
      const hasProblem = [...checked.runs, ...checked.kernels].some(({ problem }) => problem !== undefined)
      if (hasProblem) process.exitCode = 2
      if (checked.runs.some((run) => run.findings.length > 0)) process.exitCode = 1
    })
}

export function addEmit(program: Command): void {
  program
    .command('emit')
    .description('print the code of a kernel for a target, or the kernel after a stage')
    .argument(
      '<file>',
      'a file that exports kernels or operations (FILE#NAME selects one), or an operation such as all-gather-gemm',
    )
    .option('--kernel <name>', 'print one kernel of the file (default: all)')
    .addOption(
      new Option(
        '--target <target>',
        'print the code that a target compiles; cuda: CUDA C++; native: C++; wasm: a readable form of the WebAssembly',
      ).choices(stagedTargets),
    )
    .option(
      '--stage <stage>',
      'print the kernel after a stage of the target (default: as written, or the code of --target)',
    )
    .option(
      '--extents <name=extents...>',
      'cuda: extents of tensors, such as a=4096x4096 (default: 1024 each)',
    )
    .option('--one-device', 'cuda: all ranks share one GPU (default)')
    .addOption(new Option('--several-devices', 'cuda: ranks may be on several GPUs').conflicts('oneDevice'))
    .option(
      '--host-signals',
      'cuda: the host signals flags of the kernel (default: only kernels signal them)',
    )
    .option('--shared-bytes <n>', 'cuda: shared memory of a program (default: that of an H200)', whole(1))
    .option('--registers <n>', 'cuda: registers of a multiprocessor (default: those of an H200)', whole(1))
    .option(
      '--packed [tensors...]',
      'native, wasm: the named tensors are packed; for an operation, without names, its weights are packed',
    )
    .addOption(
      new Option(
        '--group <ranks>',
        'the ranks of the group that launches the kernel, such as 0,1,3 (default: the whole world)',
      )
        .argParser(members(mostRanks))
        .conflicts('ranks'),
    )
    .option(
      '--this-cpu',
      'native: code for the processor of this computer (default: for any processor with AVX2)',
    )
    .option(
      '--record',
      'print the kernels of a recording, which contain extra code that writes time stamps for the ledger',
    )
    .option('--ranks <n>', 'world size for which the kernel is specialised, 1 to 64', ranks, 2)
    .option('--meta <key=value...>', "meta-parameters that differ from the kernel's defaults")
    .option('--variant <names>', 'for an operation: variants, separated by commas (default: all)')
    .option('--shape <extents>', 'for an operation: its extents, such as M=64,N=1024,K=2048')
    .option('--dtype <dtype>', 'for an operation: dtype of the operands, f32, f16 or bf16')
    .option(...layoutOption)
    .option(...shardOption)
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

${stageHelp(stageNames)}

Without --stage, --target prints the code that is generated after the last stage.

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
}

export function addRun(program: Command): void {
  program
    .command('run')
    .description('run the scenarios of a file on real ranks, and print what the taxes cost each rank')
    .argument('<file>', 'a file that exports scenarios')
    .option('--scenario <name>', 'run only the scenario of this name (default: all)')
    .option(
      '--target <target>',
      'native, wasm or cuda (default: native, or wasm if there is no C++ compiler)',
    )
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
}
