#!/usr/bin/env node
/**
 * Implements the `arke` command. The exit codes are: 0 success, 1 findings, 2 the command or its input is wrong (with
 * one line on stderr), 130 ended by SIGINT, 143 ended by SIGTERM. The code of a command is loaded when the command is
 * used.
 */
import { Command, CommanderError, Option } from 'commander'
import type { AuditCommand } from './audit.ts'
import { outOption, outputOf, problem, showSourcePositions, version } from './common.ts'
import { describeError, UsageError } from './errors.ts'
import { interruptible } from './interrupt.ts'
import { addCheck, addEmit, addRun } from './kernelCommands.ts'
import { addBench, addOperations, addTune } from './operationCommands.ts'
import { positive, regularExpression, whole } from './options.ts'
import { checkOutputs, writesFiles } from './output.ts'

/**
 * A closed pipe is not an error, because the reader of a pipe may stop reading before the end. A closed pipe ends a
 * command that only prints. A command that writes files continues, because its files are still needed.
 */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') process.exit(2)
  if (!writesFiles()) process.exit(0)
})

/** Lists all commands with the first clause of their descriptions. */
function commandList(): string {
  const width = Math.max(...program.commands.map((command) => command.name().length))
  return [
    'Commands:',
    ...program.commands.map((one) => `  ${one.name().padEnd(width)}  ${one.description()}`),
  ].join('\n')
}

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

addCheck(program)

const pageOptions = new Set<string>()
/** Refuses --html together with --no-html, because the parser would silently use the last of them. */
const pageOption = (given: string): void => {
  if (pageOptions.add(given).size > 1)
    throw new UsageError('--html and --no-html contradict each other; leave out one of them')
}

program
  .command('audit')
  .description(
    'read profiler traces of a job: report the cost of each tax, the slowest rank, and what to fuse first',
  )
  .argument(
    '[path...]',
    'traces, folders, globs or archives: PyTorch .json(.gz), Nsight Systems .sqlite, rocprofv3 .json, .tar(.gz), .zip',
  )
  .option('--steps <a..b>', 'only the steps from a to b, as numbered by the traced program')
  .option('--json', 'print one JSON document, and write no page unless --html is given')
  .option(...outOption)
  .option(
    '--html <file>',
    'the file of the page (default: arke-report.html; no page with --json or --compare)',
  )
  .option('--no-html', 'write no page')
  .on('option:html', () => pageOption('--html'))
  .on('option:no-html', () => pageOption('--no-html'))
  .option('--trace <file>', 'write one Chrome trace of all ranks with aligned clocks, for Perfetto')
  .option(
    '--compare <other>',
    'compare with a later audit, given as traces or as the output of --json; the earlier audit may also be the output of --json',
  )
  .option('--rank <n>', 'the rank of a single trace that does not contain its rank', whole(0, 2 ** 31 - 1))
  .option(
    '--bandwidth <GB/s>',
    'memory bandwidth of the devices, for devices that Arke does not know',
    positive,
  )
  .addOption(
    new Option(
      '--window <which>',
      'launched: leave out device work at the beginning whose launch was not recorded; all: keep it',
    ).choices(['launched', 'all']),
  )
  .option(
    '--csv <dir>',
    'also write tables as CSV files: ranks, steps, kernels, operators, collectives, fixes, …',
  )
  .option(
    '--comm <regex>',
    'kernels whose names match also count as communication, for libraries that Arke does not know',
    regularExpression,
  )
  .option(
    '--redact',
    'leave out the names of hosts, paths, users, Python frames and annotations in all outputs',
  )
  .option(
    '--unpack-limit <GB>',
    'the maximum size that is unpacked from archives (.tar, .tar.gz, .zip; default: 64 GB)',
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
  arke audit traces/ --csv tables/                    kernels, operators, collectives, … as CSV
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

addEmit(program)
addBench(program)
addTune(program)
addRun(program)

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

addOperations(program)

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

/**
 * For `help NAME` with an unknown NAME, Commander would print the help of all commands, so NAME is passed as the
 * command.
 */
function withoutUnknownHelp(args: readonly string[]): readonly string[] {
  const [first, name] = args
  const isUnknown =
    first === 'help' &&
    name !== undefined &&
    !/^-|^help$/.test(name) &&
    !program.commands.some((one) => one.name() === name)
  return isUnknown ? [name] : args
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
  else await program.parseAsync(withoutUnknownHelp(process.argv.slice(2)), { from: 'user' })
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else {
    process.stderr.write(`${problem(describeError(error))}\n`)
    process.exitCode = 2
  }
}
