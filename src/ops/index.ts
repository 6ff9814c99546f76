/** Exports the ready-made operations. Every variant is a kernel written in the Arke language. */
export * from './collectives/index.ts'
export * from './registry.ts'
export { operations, type AnyDefinition } from './operations.ts'
export { gemm, gemmKernel } from './gemm.ts'
export { gemmTiles, type ProductShape, type Tiles } from './tiles.ts'
export { rememberMeasurements, type Measurement } from '../operation/choice.ts'
export type {
  OperandDType,
  Operation,
  OperationDefinition,
  OperationOptions,
  Step,
  TilingWorld,
  Traffic,
} from '../operation/definition.ts'
export type {
  CpuPoint,
  Form,
  GpuCell,
  GpuPoints,
  LibraryGoal,
  LibraryPoints,
  LibraryWork,
  Points,
  Setting,
  Without,
} from './points.ts'
export type { TilesFrom, Tiling } from '../tune/configurations.ts'
export type { Asked, Numbers } from '../tune/tables.ts'
// A program that imports only `arke/ops` gets declarations that name types of `arke`. TypeScript finds the entry `arke`
// because of the next line of this file.
export type { Kernel, World } from '../index.ts'
export type { ShippedOperation } from './shipped.ts'
export type { Drawing, Drawn, Elements, Sample } from './drawn.ts'
export type { Layout } from './points.ts'
