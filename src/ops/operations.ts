/** The definitions of all operations in registry.ts, in the order of their names. */
import type { OperationDefinition, OperationOptions } from './operation.ts'
import * as registry from './registry.ts'

/** An operation of any kind. Each operation validates its own options itself. */
export type AnyDefinition = OperationDefinition<OperationOptions, unknown>

const isDefinition = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'variants' in value && 'make' in value

export const operations = Object.values(registry).filter(
  isDefinition,
) as readonly unknown[] as readonly AnyDefinition[]

/** The command-line name of an operation, such as `all-gather-gemm`. */
export const commandName = ({ name }: Pick<AnyDefinition, 'name'>): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
