/** The definitions of all operations in registry.ts, in the order of their names. */
import { isOperation, type OperationOptions } from '../operation/definition.ts'
import type { Recogniser } from '../taxes/recognition.ts'
import * as registry from './registry.ts'
import type { ShippedOperation } from './shipped.ts'

/** A ready-made operation of any kind. Each operation validates its own options. */
export type AnyDefinition = ShippedOperation<OperationOptions, unknown>

export const operations = Object.values(registry).filter((value: unknown) =>
  isOperation(value),
) as readonly unknown[] as readonly AnyDefinition[]

/** The command-line name of an operation, such as `all-gather-gemm`. */
export const commandName = ({ name }: Pick<AnyDefinition, 'name'>): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** The operations that the audit recognises in traces. */
export const recognisers: readonly Recogniser[] = operations.flatMap(({ name, recognise }) =>
  recognise ? { name, recognise } : [],
)
