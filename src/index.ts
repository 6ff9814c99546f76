/** The entry point of Arke, which provides tile kernels with communication inside, written in TypeScript. */
// The declarations mention Symbol.asyncDispose, which the library of the target es2022 lacks.
/// <reference lib="esnext.disposable" preserve="true" />
export * from './lang/dtypes.ts'
export {
  flags,
  Kernel,
  kernel,
  scalar,
  tensor,
  type Arguments,
  type Meta,
  type Params,
} from './lang/kernel.ts'
export { type Program } from './lang/program.ts'
export {
  type Body as ControlBody,
  type FragmentShape,
  type Indices as LoopIndices,
  type Initial as InitialState,
  type RoleBody,
  type State as CarriedState,
  type Yielded as YieldedState,
} from './lang/options.ts'
export { type Counter, type Seed } from './lang/random.ts'
export {
  ceilDiv,
  type Barrier,
  type Barriers,
  type Flag,
  type Flags,
  type Ref,
  type Shared,
  type Tensor,
  type TileSpace,
} from './lang/tensor.ts'
export { type Fragment, type Index, type Scalar, type Value } from './lang/value.ts'
export { KernelError, type SourcePosition } from './ir/site.ts'
export { type DType, type StorageDType } from './ir/dtype.ts'

export {
  oneEach,
  programsPerProcessor,
  sharedOut,
  type CacheDomain,
  type Capabilities,
  type Device,
  type DeviceDescription,
  type Machine,
  type ProcessorLimits,
  type ProductLimits,
  type ProgramNeeds,
} from './world/machine.ts'
export { FindingsError, openWorld, type OpenOptions } from './world/open.ts'
export {
  expectClose,
  launchOf,
  type PrepareOptions,
  scenario,
  WorldError,
  WorldStopped,
  type AllocationOptions,
  type Allocator,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type PackedTensor,
  type PerRank,
  type RandomOptions,
  type Scenario,
  type ScenarioOptions,
  type StoppedWorker,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type SymmetricTensor,
  type TensorOptions,
  type Tolerance,
  type World,
} from './world/world.ts'
export { rememberMeasurements, type Measurement } from './operation/choice.ts'
export {
  defineOperation,
  type DefinedOptions,
  type ExtentsOf,
  type OperationContents,
  type OperationPlan,
  type OperationPoint,
  type OperationRecipe,
} from './operation/define.ts'
export type {
  OperandDType,
  Operation,
  OperationDefinition,
  OperationOptions,
  Step,
  TilingWorld,
  Traffic,
} from './operation/definition.ts'
export { scenariosOf, type OperationScenarioOptions } from './operation/scenarios.ts'
export type { DroppedPrints, OnPrint, Printed, PrintedValue } from './world/prints.ts'
export type { Stall } from './world/stops.ts'
export type { FlagSignals, PossibleSignal } from './world/signallers.ts'
export { explore, type Exploration, type ExploreOptions } from './targets/check/explore.ts'
export { formatFinding, type Finding, type FindingKind, type Party } from './targets/check/findings.ts'

export { recordedRun, type RecordedOptions, type RecordedRun } from './runs/recorded.ts'
export { writeChrome as chromeTrace, type ChromeOptions } from './timeline/chrome.ts'
export { ledgerTable } from './report/runs/recordedTable.ts'
export { reportPage, type RecordedReport, type ReportRun } from './report/runs/recordedPage.ts'
export type * from './types.ts'
