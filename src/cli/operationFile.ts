/**
 * Finds the operation that the user names: a shipped operation, or an operation that a file exports. If a file exports
 * several operations, `FILE#NAME` or `--operation NAME` chooses one.
 */
import { existsSync } from 'node:fs'
import type { Kernel } from '../lang/kernel.ts'
import type { AnyOperation } from '../operation/definition.ts'
import { operationCalled, operationNamed, type LayoutOptions } from './benchOptions.ts'
import { UsageError } from './errors.ts'
import { isFileName, load, type Source } from './load.ts'

export interface Found {
  readonly operation: AnyOperation
  /** The file that exports the operation. The file is absent for a shipped operation. */
  readonly file?: string
}

/**
 * Loads a file that exports scenarios and no operations. If the argument names no such file, the result is undefined.
 */
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
 * Determines what `arke emit` prints: a shipped operation, an operation of a file, or the kernels of a file. `FILE#NAME`
 * selects one operation or one kernel; an operation comes before a kernel of the same name. If a file exports both
 * kernels and operations and the argument names none, an operation is printed if an option describes one.
 */
export async function emitted(
  argument: string,
  options: Readonly<Partial<Record<'variant' | 'shape' | 'dtype' | 'shard', string>>> &
    Pick<LayoutOptions, 'layout'>,
): Promise<{ readonly operation: AnyOperation } | { readonly source: Source }> {
  const shipped = existsSync(argument) ? undefined : operationNamed(argument)
  if (shipped) return { operation: shipped }
  if (!isFileName(argument) && !existsSync(argument)) return { operation: operationCalled(argument) }
  const [file, name] = splitName(argument)
  const source = await load(file)
  const { variant, shape, dtype, layout, shard } = options
  if (name !== undefined && !source.operations.some((one) => one.name === name))
    return { source: { ...source, kernels: [kernelIn(source, name)] } }
  const isDescribed = [name, variant, shape, dtype, layout, shard].some((one) => one !== undefined)
  return source.operations.length > 0 && (isDescribed || source.kernels.length === 0)
    ? { operation: operationIn(source, name) }
    : { source }
}

/** Splits `FILE#NAME`. */
export function splitName(argument: string): readonly [file: string, name: string | undefined] {
  const at = argument.lastIndexOf('#')
  return at < 0 ? [argument, undefined] : [argument.slice(0, at), argument.slice(at + 1)]
}

/** The kernel that `FILE#NAME` selects if the file has no operation of that name. */
function kernelIn({ file, kernels, operations }: Source, name: string): Kernel {
  const found = kernels.find((one) => one.name === name)
  if (found) return found
  const listed = (what: string, all: readonly { readonly name: string }[]): string[] =>
    all.length === 0 ? [] : [`${what} ${all.map((one) => one.name).join(', ')}`]
  const there = [...listed('the operations', operations), ...listed('the kernels', kernels)]
  throw new UsageError(
    `${file}: has no operation or kernel ${name}; it has ${there.join(' and ') || 'neither operations nor kernels'}`,
  )
}

/** The operation with that name, or the only operation of the file. */
function operationIn({ file, operations, scenarios }: Source, name: string | undefined): AnyOperation {
  if (operations.length === 0)
    throw new UsageError(
      scenarios.length > 0
        ? `${file}: exports scenarios and no operation; leave the name of an operation out`
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
