/** A collective of which a trace tells no more than what it is. */
import { unknownCommunication, type Communication } from '../../src/timeline/timeline.ts'

export const plain: Communication = { ...unknownCommunication, collective: 'allReduce', library: 'nccl' }
