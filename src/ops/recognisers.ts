/**
 * The operations that the audit recognises. This list does not import the operations' kernels, because loading kernels
 * takes longer than a small audit.
 */
import type { Recogniser } from '../taxes/recognition.ts'
import { recogniseAllGatherGemm } from './allGatherGemm/recognise.ts'
import { recogniseFlashDecode } from './flashDecode/recognise.ts'
import { recogniseNormGatherGemm } from './normGatherGemm/recognise.ts'

export const recognisers: readonly Recogniser[] = [
  { name: 'allGatherGemm', recognise: recogniseAllGatherGemm },
  { name: 'flashDecode', recognise: recogniseFlashDecode },
  { name: 'normGatherGemm', recognise: recogniseNormGatherGemm },
]
