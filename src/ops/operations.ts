/** The definitions of all operations in registry.ts, in the order of their names. */
import type { OperationDefinition, OperationOptions } from './operation.ts'
import * as registry from './registry.ts'

/** Whoever enumerates operations knows them by what they have in common; each checks its own options. */
export type AnyDefinition = OperationDefinition<OperationOptions, unknown>

const isDefinition = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'variants' in value && 'make' in value

export const operations = Object.values(registry).filter(
  isDefinition,
) as readonly unknown[] as readonly AnyDefinition[]

/** As the command line calls it: `all-gather-gemm`. */
export const commandName = ({ name }: Pick<AnyDefinition, 'name'>): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
