/**
 * The ready operations: one line each. What enumerates operations (the command line, benchmarks, tests, docs) takes them from
 * operations.ts, which reads this file; `arke/ops` exports what it exports.
 */
export * from './allGatherGemm/index.ts'
export * from './flashDecode/index.ts'
export * from './normGatherGemm/index.ts'
