/**
 * Tiles for NVIDIA H200 that were chosen by hand and not found by tuning. They go before those of h200.ts. Tuning scores a candidate by
 * single executions and by loops, half and half. Here single executions behind a gate alone decided, for Flash Decode between one part
 * for each head and even shares, and for the product between tiles of 64, 128 and 224 columns, over several processes
 * (docs/results-h200.md, "Where the rest goes"). An entry is to be deleted when `bench/gpu/tune.ts` has tuned its point again.
 */
import type { Table } from './tables.ts'

export const h200ByHand: Table = {
  'flashDecode bsp bf16 8x16': {
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 128, stages: 2, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=16384': { BN: 128, stages: 2, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=32768': { BN: 128, stages: 2, splits: 1 },
  },
  'flashDecode fused bf16 8x16': {
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 128, stages: 2, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=16384': { BN: 128, stages: 2, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=32768': { BN: 128, stages: 2, splits: 1 },
  },
  'flashDecode fused-coarse bf16 8x16': {
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 128, stages: 2, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=16384': { BN: 128, stages: 2, splits: 0 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=32768': { BN: 128, stages: 2, splits: 0 },
  },
  'gemm bf16 1x132': {
    'M=16 N=28672 K=8192': { BM: 16, BN: 128, BK: 64, stages: 5 },
  },
}
