/**
 * Defines what the declarations of the commands share: the version, the streams for output and problems, and options
 * that several commands have.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../files.ts'
import { plain } from '../report/style.ts'
import { styleFor } from './colours.ts'
import { whole } from './options.ts'
import { Output } from './output.ts'

export const { version } = JSON.parse(readFileSync(fileURLToPath(packageFile('package.json')), 'utf8')) as {
  version: string
}
export const problem = (line: string): string => `${styleFor(process.stderr).bad('arke:')} ${line}`
export const outputOf = ({ out, json }: { readonly out?: string; readonly json?: boolean } = {}): Output =>
  new Output(process.stdout, out, json ? plain : styleFor(process.stdout))
export const layoutOption = [
  '--layout <name=value...>',
  'the layout of the inputs, for an operation with several layouts (`arke operations`)',
] as const
export const shardOption = ['--shard <axis>', 'short for --layout shard=AXIS'] as const
export const outOption = [
  '--out <file>',
  'write the output to a file instead of printing it; inputs are never overwritten',
] as const

export const mostRanks = 64
export const ranks = whole(1, mostRanks)
/**
 * Enables source maps, so that errors and findings show positions in the author's source and not in compiled code.
 * With source maps, loading each module takes longer.
 */
export function showSourcePositions(): void {
  process.setSourceMapsEnabled(true)
  // An error deep inside a world has more of Arke's stack frames above the author's frame than Node keeps by default.
  Error.stackTraceLimit = 30
}

/**
 * Prepares the process to run the author's code: errors show source positions, and output of the author's code cannot
 * get into a JSON document on stdout.
 */
export function prepareForAuthor({ json }: { readonly json?: boolean }): void {
  showSourcePositions()
  if (json) console.log = console.info = console.debug = console.error
}
