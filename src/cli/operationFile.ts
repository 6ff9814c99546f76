/**
 * Finds the operation that a command is given: the name of a shipped operation, or a file that exports operations. Of a
 * file with several operations, `FILE#NAME` or `--operation NAME` chooses one.
 */
import { existsSync } from 'node:fs'
import type { AnyOperation } from '../operation/definition.ts'
import { operationCalled, operationNamed, type LayoutOptions } from './benchOptions.ts'
import { UsageError } from './errors.ts'
import { isFileName, load, type Source } from './load.ts'

export interface Found {
  readonly operation: AnyOperation
  /** The file that exports the operation. Absent for a shipped operation. */
  readonly file?: string
}

/** A file that exports scenarios and no operations, which are measured as they are. */
export async function findScenarios(argument: string): Promise<Source | undefined> {
  if (!isFileName(argument) || argument.includes('#')) return undefined
  const source = await load(argument)
  return source.operations.length === 0 && source.scenarios.length > 0 ? source : undefined
}

export async function findOperation(argument: string, wanted: string | undefined): Promise<Found> {
  if (!isFileName(argument)) {
    if (wanted !== undefined)
      throw new UsageError(
        `--operation ${wanted}: chooses an operation of a file, and ${argument} is not a file; leave it out`,
      )
    return { operation: operationCalled(argument) }
  }
  const [file, named] = splitName(argument)
  if (named !== undefined && wanted !== undefined && named !== wanted)
    throw new UsageError(`${argument} --operation ${wanted}: two operations are named; leave one out`)
  return { operation: operationIn(await load(file), wanted ?? named), file }
}

/**
 * What `arke emit` prints: a shipped operation, an operation of a file, or the kernels of a file. A file with both is
 * meant as an operation if the argument names one, or if an option describes one.
 */
export async function emitted(
  argument: string,
  options: Readonly<Partial<Record<'variant' | 'shape' | 'dtype' | 'shard', string>>> &
    Pick<LayoutOptions, 'layout'>,
): Promise<{ readonly operation: AnyOperation } | { readonly source: Source }> {
  const shipped = existsSync(argument) ? undefined : operationNamed(argument)
  if (shipped) return { operation: shipped }
  const [file, name] = splitName(argument)
  const source = await load(file)
  const { variant, shape, dtype, layout, shard } = options
  const isDescribed = [name, variant, shape, dtype, layout, shard].some((one) => one !== undefined)
  const isMeant = name !== undefined || source.kernels.length === 0 || isDescribed
  return isMeant && (source.operations.length > 0 || name !== undefined)
    ? { operation: operationIn(source, name) }
    : { source }
}

/** Splits `FILE#NAME`. */
export function splitName(argument: string): readonly [file: string, name: string | undefined] {
  const at = argument.lastIndexOf('#')
  return at < 0 ? [argument, undefined] : [argument.slice(0, at), argument.slice(at + 1)]
}

/** The operation of that name, or the only one. */
function operationIn({ file, operations, scenarios }: Source, name: string | undefined): AnyOperation {
  if (operations.length === 0)
    throw new UsageError(
      scenarios.length > 0
        ? `${file}: exports scenarios, which have no tiles to choose among; measure them with arke bench ${file}, or define an operation with variants`
        : `${file}: exports no operation; export what defineOperation(…) returns`,
    )
  const names = operations.map((one) => one.name)
  const twice = names.find((one, at) => names.indexOf(one) !== at)
  if (twice !== undefined)
    throw new UsageError(`${file}: exports two operations named ${twice}; give each its own name`)
  if (name === undefined && operations.length > 1)
    throw new UsageError(
      `${file}: has several operations: choose one with --operation, of ${names.join(', ')}`,
    )
  const found = operations.find((one) => name === undefined || one.name === name)
  if (!found) throw new UsageError(`${file}: has no operation ${name}; it has ${names.join(', ')}`)
  return found
}
