/** Tiles that were the fastest on NVIDIA H200, by setting and class of shapes. Written by tuning; do not edit. */
import type { Table } from './tables.ts'

export const h200: Table = {
  'allGatherGemm bsp K bf16 8x16': {
    'M=1 N=3584 K=8192': { BM: 16, BN: 64, BK: 128, stages: 5 },
    'M=16 N=3584 K=8192': { BM: 16, BN: 128, BK: 64, stages: 5 },
    'M=64 N=3584 K=8192': { BM: 64, BN: 256, BK: 64, stages: 4 },
    'M=256 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
  },
  'allGatherGemm pull K bf16 8x16': {
    'M=1 N=3584 K=8192': { BM: 16, BN: 256, BK: 128, stages: 3 },
    'M=16 N=3584 K=8192': { BM: 16, BN: 256, BK: 128, stages: 3 },
    'M=64 N=3584 K=8192': { BM: 64, BN: 128, BK: 128, stages: 4 },
    'M=256 N=3584 K=8192': { BM: 128, BN: 256, BK: 64, stages: 4 },
  },
}
