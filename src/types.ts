/**
 * Exports the types that other exported types refer to. A library that exports a kernel and emits declarations must be
 * able to name these types. If a type is missing, TypeScript rejects the library with error TS2883. The test
 * test/cli/declarations.test.ts finds types that are missing here.
 */
export type {
  FlagsParam,
  MetaValue,
  NoMetaParameters,
  Param,
  ScalarParam,
  Specialisation,
  TensorParam,
} from './lang/kernel.ts'
export type {
  CopyOptions,
  LastOptions,
  LoopRange,
  PersistentOptions,
  PipelineOptions,
  WaitOptions,
} from './lang/options.ts'
export type { Access, Atomics, Masked, Operand } from './lang/access.ts'
export type { AnyValue, Carried } from './lang/carried.ts'
export type { Rows, TensorRank, Tuple } from './lang/tensor.ts'
export type { Matching, Only, Rank, Refused, Symbolic } from './lang/value.ts'
export type { ArithmeticDType, AtomicDType, DotDType, FloatDType, IntegerDType } from './ir/dtype.ts'
export type { Order, Scope } from './ir/ops/memory.ts'

// The types of the recorded form of a kernel.
export type { Recorder } from './lang/recorder.ts'
export type { Site } from './ir/site.ts'
export type { Decision, Subject } from './ir/decisions.ts'
export type { Attributes, AttributeValue, Block, KernelIR, Node } from './ir/node.ts'
export type { OpName } from './ir/ops/index.ts'
export type {
  BarriersType,
  FlagsType,
  RefType,
  Shape,
  Space,
  TensorType,
  Type,
  ValueType,
  VoidType,
} from './ir/type.ts'

// The types of the recordings that a world makes, and of the options of the checker.
export type {
  Communication,
  Events,
  Operands,
  RankTimeline,
  Sequence,
  TensorBytes,
  Timeline,
  Track,
} from './timeline/timeline.ts'
export type { Picture, RunLedger, RunLocality, RunPart, Span } from './runs/results.ts'
export type { Style } from './report/style.ts'
export type { Signed, Unsigned } from './timeline/columns.ts'
export type { Cut } from './targets/check/findings.ts'
export type { Stage } from './targets/check/stage.ts'

// The types of an operation's tile sizes.
export type { TilesFrom, Tiling } from './tune/configurations.ts'
export type { Asked, Growing, Numbers } from './tune/tables.ts'

// The types of the input and output of a function that recognises an operation in a trace.
export type { FoundChain, Recognised, Recogniser } from './taxes/recognition.ts'
export type {
  Attention,
  Computation,
  Norm,
  Product,
  Tensor as OperandTensor,
  Traffic as OperatorTraffic,
} from './taxes/shapes.ts'
export type { ElementType } from './taxes/dtypes.ts'
export type { FlagsOptions } from './world/world.ts'
export type { Chosen, Tunable } from './world/world.ts'
export type { Headline } from './report/headline.ts'
export type { ReportTable } from './report/runs/recordedPage.ts'
