/** Ready operations, every variant a kernel written in the language. */
export * from './collectives/index.ts'
export { allGatherGemm, allGatherGemmOperation, type AllGatherGemmOptions } from './allGatherGemm/index.ts'
export { flashDecode, flashDecodeOperation, type FlashDecodeOptions } from './flashDecode/index.ts'
export { gemm, gemmKernel } from './gemm.ts'
export { gemmInSharesKernel } from './gemmInShares.ts'
export { gemmTiles, type ProductShape, type Tiles } from './tiles.ts'
export { rememberMeasurements, type Measurement } from './choice.ts'
export type { OperandDType, Operation, OperationDefinition, Traffic } from './operation.ts'
