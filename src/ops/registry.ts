/**
 * The registry of ready-made operations, with one line per operation. The command line, benchmarks, tests and docs
 * enumerate operations through operations.ts, which reads this file. `arke/ops` exports everything that this file
 * exports.
 */
export * from './allGatherGemm/index.ts'
export * from './flashDecode/index.ts'
export * from './gemmReduceScatter/index.ts'
export * from './normGatherGemm/index.ts'
