/**
 * Flash Decode in two kernels, with the whole result on every rank: a large one attends and puts each partial result straight from
 * registers into every rank's inbox, a small one combines the tiles whose parts have arrived. On a GPU a multiprocessor has room for a
 * program of each, and when one has sent what it has, the next execution's takes its place and starts to copy its cache while this
 * one's results are combined; programs that did both would keep their shared memory until the end. So it was meant: on an H200 it is slower
 * than one kernel at every size that was measured (109 against 101 us at 8K tokens of one sequence a rank), so that it is no default.
 *
 *   arrived   [part, batch, kv head]: that partial result lies in the inbox
 *
 * Inboxes have two slots by epoch and need no credit: see fusedForAll.ts.
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import { attentionMeta } from './attention.ts'
import { attendAndSend, params, signalEach } from './fusedForAll.ts'
import { combine, partialParams, slotOf } from './partials.ts'

const { G, D, splits } = attentionMeta

export const sendingKernel = oncePer((dtype: OperandDType) => {
  const { out: _, ...tensors } = params(dtype)
  return kernel(
    'flashDecodeSending',
    { ...tensors, arrived: flags(3) },
    attentionMeta,
    (t, { arrived, ...cache }, meta) =>
      void attendAndSend(t, cache, meta, { arrived, sent: signalEach(t, arrived) }),
  )
})

export const receivingKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'flashDecodeReceiving',
    { ...partialParams, out: tensor(dtype, 4), arrived: flags(3) },
    { G, D, splits },
    (t, { arrived, out, ...inbox }, meta) => {
      combine(t, inbox, slotOf(t, arrived, 'wait'), out, meta, (...at) => t.wait(arrived.at(at)), 'together')
    },
  ),
)
