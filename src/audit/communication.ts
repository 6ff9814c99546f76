/**
 * Recognises communication kernels by their names: kernels of the collective libraries, and kernels of other libraries
 * that move data between ranks themselves. This module also normalises the different spellings of collective names.
 */

import { type Communication, unknownCommunication } from '../timeline/timeline.ts'

const libraries: readonly (readonly [library: string, pattern: RegExp])[] = [
  ['deep_ep', /deep_?ep\b|deep_?ep::/i],
  ['nvshmem', /nvshmem/i],
  ['rocshmem', /rocshmem|roc_shmem/i],
  ['iris', /\biris(::|_)|(^|_)iris_/i],
  ['mscclpp', /mscclpp|\bmsccl/i],
  ['mori', /\bmori::/i],
  ['flashinfer', /flashinfer::(comm|trtllm_(allreduce|moe_allreduce|alltoall))/i],
  ['trtllm', /tensorrt_llm::.*(allreduce|all_reduce|alltoall|lamport)/i],
  ['vllm', /\bcross_device_reduce_[12]stage\b|vllm::.*all_?reduce/i],
  ['symm_mem', /(one|two)_shot_all_reduce|multimem_(all_gather|all_reduce|one_shot|two_shot)|symm_mem/i],
  ['rccl', /rccl/i],
  ['nccl', /\bnccl(Dev)?Kernel|\bnccl(DevKernel|Kernel|_?symm|_?all|_?reduce|_?send)|^nccl/i],
]

/** The library whose communication kernels have this name, or null if the kernel does not communicate. */
export function communicationLibrary(kernel: string): string | null {
  for (const [library, pattern] of libraries) if (pattern.test(kernel)) return library
  return null
}

const collectives: readonly (readonly [collective: string, pattern: RegExp])[] = [
  ['reduceScatter', /reduce_?scatter/],
  ['allReduce', /all_?reduce|cross_device_reduce/],
  ['allGather', /all_?gather/],
  ['allToAll', /all_?to_?all|alltoall/],
  ['broadcast', /broadcast/],
  ['sendRecv', /send_?recv|\bsend\b|\brecv\b/],
  ['barrier', /barrier/],
  ['dispatch', /dispatch/],
  ['combine', /combine/],
  ['reduce', /reduce(?!_?scatter)/],
]

/** The normalised name of the collective that a kernel name or a metadata field refers to, or null if it names none. */
export function collectiveOf(name: string): string | null {
  const text = name.toLowerCase()
  for (const [collective, pattern] of collectives) if (pattern.test(text)) return collective
  return null
}

/**
 * The communication record that can be derived from a kernel's name alone, or null if the kernel does not communicate.
 */
export function describeKernel(kernel: string): Communication | null {
  const library = communicationLibrary(kernel)
  if (library === null) return null
  return { ...unknownCommunication, collective: collectiveOf(kernel), library }
}
