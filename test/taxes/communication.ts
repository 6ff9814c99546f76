/** A collective of which a trace tells no more than what it is. */
import type { Communication } from '../../src/timeline/timeline.ts'

export const plain: Communication = {
  collective: 'allReduce',
  library: 'nccl',
  group: null,
  groupDescription: null,
  groupRanks: null,
  groupSize: null,
  communicator: null,
  dtype: null,
  elementsIn: null,
  elementsOut: null,
  source: null,
  destination: null,
}
