/** Tiles that were the fastest on NVIDIA H200, by setting and class of shapes. Written by tuning; do not edit. */
import type { Table } from './tables.ts'

export const h200: Table = {
  'allGatherGemm bsp K bf16 8x16': {
    'M=1 N=3584 K=8192': { BM: 16, BN: 256, BK: 128, stages: 3 },
    'M=16 N=3584 K=8192': { BM: 16, BN: 128, BK: 64, stages: 5 },
    'M=32 N=3584 K=8192': { BM: 64, BN: 256, BK: 64, stages: 4 },
    'M=64 N=3584 K=8192': { BM: 64, BN: 256, BK: 64, stages: 4 },
    'M=128 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
    'M=256 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
    'M=1024 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
  },
  'allGatherGemm fused K bf16 8x16': {
    'M=1 N=3584 K=8192': { BM: 16, BN: 256, BK: 128, stages: 3 },
    'M=16 N=3584 K=8192': { BM: 16, BN: 128, BK: 64, stages: 5 },
    'M=32 N=3584 K=8192': { BM: 64, BN: 256, BK: 64, stages: 4 },
    'M=64 N=3584 K=8192': { BM: 64, BN: 256, BK: 64, stages: 4 },
    'M=128 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
    'M=256 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
    'M=1024 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
  },
  'allGatherGemm pull K bf16 8x16': {
    'M=1 N=3584 K=8192': { BM: 16, BN: 128, BK: 256, stages: 2 },
    'M=16 N=3584 K=8192': { BM: 16, BN: 128, BK: 256, stages: 2 },
    'M=32 N=3584 K=8192': { BM: 64, BN: 128, BK: 128, stages: 4 },
    'M=64 N=3584 K=8192': { BM: 64, BN: 128, BK: 128, stages: 4 },
    'M=128 N=3584 K=8192': { BM: 128, BN: 128, BK: 64, stages: 6 },
    'M=256 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
    'M=1024 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
  },
  'flashDecode bsp bf16 8x16': {
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 128, stages: 3, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=32768': { BN: 128, stages: 3, splits: 2 },
    'batch=4 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 128, stages: 3, splits: 1 },
  },
  'flashDecode fused bf16 1x132': {
    'batch=1 queryHeads=32 kvHeads=8 D=128 tokens=16384': { BN: 128, stages: 3, splits: 16 },
    'batch=1 queryHeads=32 kvHeads=8 D=128 tokens=131072': { BN: 128, stages: 3, splits: 16 },
  },
  'flashDecode fused bf16 8x16': {
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 64, stages: 3, splits: 1 },
    'batch=1 queryHeads=96 kvHeads=12 D=128 tokens=32768': { BN: 64, stages: 3, splits: 1 },
    'batch=4 queryHeads=96 kvHeads=12 D=128 tokens=8192': { BN: 128, stages: 3, splits: 1 },
  },
}
