/**
 * Types that the types of the package mention. A library that exports a kernel and emits declarations has to name them: TypeScript
 * refuses with TS2883 what it cannot import from `arke`. test/cli/declarations.test.ts finds those that are missing here.
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
export type { LoopRange, PipelineOptions, WaitOptions } from './lang/program.ts'
export type { Access, Atomics, Masked, Operand } from './lang/access.ts'
export type { AnyValue, Carried } from './lang/carried.ts'
export type { Rows, TensorRank, Tuple } from './lang/tensor.ts'
export type { Matching, Only, Rank, Refused, Symbolic } from './lang/value.ts'
export type { ArithmeticDType, AtomicDType, DotDType, FloatDType, IntegerDType } from './ir/dtype.ts'
export type { Order, Scope } from './ir/ops/memory.ts'

// What a kernel is recorded as.
export type { Recorder } from './lang/recorder.ts'
export type { Site } from './ir/site.ts'
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

// What a world records, and what the checker is told.
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
export type { Signed, Unsigned } from './timeline/columns.ts'
export type { Cut } from './targets/check/findings.ts'
export type { Stage } from './targets/check/world.ts'

// What an operation is asked to recognise itself in.
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
