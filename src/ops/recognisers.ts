/** What the audit may recognise, without the kernels of the operations: those take longer to load than a small audit. */
import type { Recogniser } from '../taxes/recognition.ts'
import { recogniseAllGatherGemm } from './allGatherGemm/recognise.ts'
import { recogniseFlashDecode } from './flashDecode/recognise.ts'
import { recogniseNormGatherGemm } from './normGatherGemm/recognise.ts'

export const recognisers: readonly Recogniser[] = [
  { name: 'allGatherGemm', recognise: recogniseAllGatherGemm },
  { name: 'flashDecode', recognise: recogniseFlashDecode },
  { name: 'normGatherGemm', recognise: recogniseNormGatherGemm },
]
