/** Defines what a ready-made operation has in addition to the common interface, for tests, benchmarks and the audit. */
import type { OperationDefinition, OperationOptions } from '../operation/definition.ts'
import type { Recogniser } from '../taxes/recognition.ts'
import type { Points } from './points.ts'

export interface ShippedOperation<Options extends OperationOptions, Contents> extends OperationDefinition<
  Options,
  Contents
> {
  /** The shapes and options at which tests and benchmarks run the operation. */
  readonly points: Points<Options, Contents>
  /**
   * The settings of `arke demo`: extents that differ from the defaults, and how late one rank is, in percent of an
   * execution.
   */
  readonly demo?: { readonly shape: Partial<Options['shape']>; readonly skews: readonly number[] }
  /** Returns the options of this operation if a chain of kernels in a trace computes the same result. */
  readonly recognise?: Recogniser['recognise']
}
