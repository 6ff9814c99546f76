/** A communication record in which only the kind of the collective is known. */
import { unknownCommunication, type Communication } from '../../src/timeline/timeline.ts'

export const plain: Communication = { ...unknownCommunication, collective: 'allReduce', library: 'nccl' }
