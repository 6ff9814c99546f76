/** Declares the commands about operations: `bench`, `tune` and `operations`. */
import type { Command } from 'commander'
import type { AnyOperation } from '../operation/definition.ts'
import type { BenchCommand } from './bench.ts'
import { layoutOption, outOption, outputOf, prepareForAuthor, ranks, shardOption, version } from './common.ts'
import { UsageError } from './errors.ts'
import { interruptible } from './interrupt.ts'
import type { Source } from './load.ts'
import { positive, whole } from './options.ts'
import { checkOutputs } from './output.ts'
import type { TuneCommand } from './tune.ts'

interface Choosing {
  readonly operation?: string
  readonly scenario?: string
  readonly json?: boolean
  readonly out?: string
  readonly report?: string
  readonly trace?: string
  readonly write?: string
}

/**
 * Loads the operation that the user names for `bench` or `tune`. No output may overwrite the file that defines the
 * operation.
 */
async function operationFor(argument: string, options: Choosing): Promise<AnyOperation> {
  const { findOperation, splitName } = await import('./operationFile.ts')
  const { out, report, trace, write } = options
  checkOutputs({ out, report, trace, write }, [splitName(argument)[0]])
  prepareForAuthor(options)
  return (await findOperation(argument, options.operation)).operation
}

/** The options of `bench` and `tune` that describe points of an operation. */
const ofOperations = [
  'operation',
  'variant',
  'shape',
  'dtype',
  'layout',
  'shard',
  'sweep',
  'skew',
  'pack',
  'write',
]
/** The maximum number of runs of a scenario that `bench` measures. */
const mostRuns = 50

/**
 * The scenarios of a file that exports no operation, with the options for scenarios. If the argument does not name a
 * file of scenarios without an operation, the result is undefined.
 */
async function scenariosFor(
  argument: string,
  options: Choosing,
  command: Command,
): Promise<Source | undefined> {
  const { findScenarios, splitName } = await import('./operationFile.ts')
  const { out, report, trace, write, scenario } = options
  checkOutputs({ out, report, trace, write }, [splitName(argument)[0]])
  prepareForAuthor(options)
  const source = await findScenarios(argument)
  if (!source) {
    if (scenario === undefined) return undefined
    throw new UsageError(
      `--scenario ${scenario}: chooses a scenario of a file that exports no operation; leave it out`,
    )
  }
  const wrong = ofOperations.find((name) => isGiven(command, name))
  if (wrong !== undefined)
    throw new UsageError(
      `--${wrong === 'pack' ? 'no-pack' : wrong}: this option describes an operation, and ${argument} exports scenarios; leave it out`,
    )
  return source
}

const isGiven = (command: Command, name: string): boolean => command.getOptionValueSource(name) === 'cli'

/**
 * Measures the scenarios of a file without operations. Returns false if the argument is not a file without operations.
 */
async function benchedScenarios(
  argument: string,
  options: BenchCommand & Choosing,
  command: Command,
): Promise<boolean> {
  const source = await scenariosFor(argument, options, command)
  if (!source) return false
  if (isGiven(command, 'seed'))
    throw new UsageError(`--seed: scenarios choose their own inputs; leave it out`)
  const { runCommand } = await import('./run.ts')
  const { Progress } = await import('./progress.ts')
  const output = outputOf(options)
  const { scenario, target, seconds, json, out, report, trace } = options
  const asked = { scenario, target, seconds, json, out, report, trace, runs: mostRuns }
  const sized = { ...asked, ...(isGiven(command, 'ranks') && { ranks: options.ranks }) }
  const progress = new Progress(process.stderr)
  await interruptible(async (interrupt) => {
    const result = await runCommand(source, sized, version, output.print, progress, interrupt, output.style)
    await output.done(interrupt)
    if (result.scenarios.some(({ problem }) => problem !== undefined)) process.exitCode = 1
  })
  return true
}

/** Tunes the scenarios of a file without operations. Returns false if the argument is not a file without operations. */
async function tunedScenarios(
  argument: string,
  options: TuneCommand & Choosing,
  command: Command,
): Promise<boolean> {
  const source = await scenariosFor(argument, options, command)
  if (!source) return false
  const { tuneScenarios } = await import('./tuneScenarios.ts')
  const { Progress } = await import('./progress.ts')
  const output = outputOf(options)
  const { scenario, target, seconds, seed, json, out, report } = options
  const asked = { scenario, target, seconds, seed, json, out, report }
  const sized = { ...asked, ...(isGiven(command, 'ranks') && { ranks: options.ranks }) }
  const progress = new Progress(process.stderr)
  await interruptible(async (interrupt) => {
    await tuneScenarios(source, sized, version, output.print, progress, interrupt, output.style)
    await output.done(interrupt)
  })
  return true
}

/** Declares a command that runs an operation at one or more points. */
const operationCommand = (program: Command, name: string, description: string): Command =>
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
    .option(...layoutOption)
    .option(...shardOption)
    .option(
      '--sweep <extent=values>',
      'measure several values of an extent: M=1..1024 by powers of two, or M=1,7,64',
    )

export function addBench(program: Command): void {
  operationCommand(
    program,
    'bench',
    'measure the variants of an operation, from bulk synchronous to fused, and the cost of each tax',
  )
    .option(
      '--skew <percentages>',
      'delay the start of the last rank by these percentages of the time of the first variant',
      '0',
    )
    .option(
      '--scenario <name>',
      'measure only the scenario of this name, of a file that exports scenarios and no operation (default: all)',
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
  arke bench mine.ts --ranks 4 --report mine.html     measures the operation of the file, or its scenarios if it exports no operation

Every timed execution starts behind a gate on the device, which opens when all ranks have arrived and all work is enqueued. Variants
run interleaved. Before timing, outputs are compared with a float64 reference.`,
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
}

export function addTune(program: Command): void {
  operationCommand(
    program,
    'tune',
    'find the fastest tiles of an operation on this machine, and store them for later runs',
  )
    .option('--seconds <s>', 'how long to measure each variant of a point', positive, 3)
    .option('--seed <s>', 'seed of the random inputs', whole(1, 2 ** 20), 1)
    .option(
      '--scenario <name>',
      'tune only the scenario of this name, of a file that exports scenarios and no operation (default: all)',
    )
    .option('--json', 'print one JSON document')
    .option(...outOption)
    .option(
      '--report <file>',
      'write a page with the ledgers of the default and of the best tiles, side by side',
    )
    .option(
      '--write <file.ts>',
      'also write the table of tile sizes for this device, with the tuned tiles, as a TypeScript file',
    )
    .addHelpText(
      'after',
      `
Examples:
  arke tune all-gather-gemm --sweep M=1..1024
  arke tune flash-decode --target cuda --ranks 8 --dtype bf16 --shape KV=32768 --variant bsp,fused
  arke tune mine.ts --report tuned.html     its operation, or else the numbers that its scenarios name

The results of all candidates are first compared with a float64 reference. The candidates then run interleaved, and the faster half
is kept until one candidate is left. If this candidate is faster than the default (statistically significant), it is stored in
tuned.json under ARKE_CACHE or ~/.cache/arke. Otherwise the default is stored there, in place of an earlier result. The default and the best tiles are then recorded, for their ledgers. A scenario with
{ tune: { BLOCK: [64, 128] } } is tuned in the same way, and arke run and arke bench use the numbers. With --target cuda, notes name products that do not use the matrix unit, and fragments
that do not fit in registers.`,
    )
    .action(async (argument: string, options: TuneCommand & Choosing, command: Command) => {
      if (await tunedScenarios(argument, options, command)) return
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
}

export function addOperations(program: Command): void {
  program
    .command('operations')
    .description('list the operations with their variants, extents and layouts')
    .option('--json', 'print one JSON document')
    .option(...outOption)
    .addHelpText('after', '\nExamples:\n  arke operations\n  arke operations --json --out operations.json')
    .action(async (options: { readonly json?: boolean; readonly out?: string }) => {
      const { operationDocument, operationTable } = await import('./operations.ts')
      checkOutputs({ out: options.out })
      const output = outputOf(options)
      output.print(options.json ? JSON.stringify(operationDocument(version), undefined, 2) : operationTable())
      await output.done()
    })
}
