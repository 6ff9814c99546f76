/**
 * Recognises communication kernels by their names: kernels of the collective libraries, and kernels of other programs
 * that move data between ranks themselves. This module also normalises the different spellings of collective names.
 *
 * A kernel that is recognised counts as communication. A communication kernel is used to align clocks and to find late
 * ranks (src/taxes) only if the traces show that no rank leaves the kernel early and that the kernel ends at the same
 * time on all ranks.
 */

import { type Communication, unknownCommunication } from '../timeline/timeline.ts'

/** How to recognise the communication kernels of one library. */
interface Library {
  readonly name: string
  /** Matches the qualified name of a kernel, without its return type, template arguments and parameters. */
  readonly kernels: RegExp
  /** The open-source projects, with file names, that define the communication kernels of the library. */
  readonly sources: readonly string[]
}

/**
 * The libraries of communication kernels. A kernel belongs to the first library in the list whose pattern matches its
 * name.
 */
export const communicationLibraries: readonly Library[] = [
  {
    name: 'deep_ep',
    // The layout and permutation kernels of an expert dispatch work on one rank.
    kernels: /\b(?:deep_?ep|hybrid_ep)::(?!.*(?:layout|permute|preprocess|scan))|^(?:deep_?ep)_(?!.*layout)/i,
    sources: [
      'deepseek-ai/DeepEP: csrc/kernels/intranode.cu, internode.cu, internode_ll.cu',
      'deepseek-ai/DeepEP: csrc/hybrid_ep/',
    ],
  },
  {
    name: 'pplx',
    kernels: /\ba2a_(?:dispatch|combine)_(?:send|recv)_kernel|\bpplx::/i,
    sources: ['perplexityai/pplx-garden: p2p-all-to-all/a2a-kernels/src/a2a/'],
  },
  {
    name: 'mori',
    kernels: /\bmori::|\bEp(?:Dispatch|Combine)\w*(?:Kernel|_body)/,
    sources: ['ROCm/mori: src/ops/dispatch_combine/'],
  },
  {
    name: 'rocshmem',
    kernels: /rocshmem|roc_shmem/i,
    sources: ['ROCm/rocSHMEM: src/'],
  },
  {
    name: 'nvshmem',
    kernels:
      /nvshmem|\b(?:barrier|sync|alltoall|broadcast|fcollect|rdxn|reduce|reducescatter|quiet)\w*_on_stream_kernel/i,
    sources: ['NVIDIA/nvshmem: src/host/stream/coll/, src/host/comm/rma.cu'],
  },
  {
    name: 'mscclpp',
    kernels: /\bmscclpp::/i,
    sources: ['microsoft/mscclpp: src/core/include/execution_kernel.hpp, apps/nccl/src/allreduce.hpp'],
  },
  {
    name: 'msccl',
    kernels: /^msccl(?:Kernel|Run)/i,
    sources: ['ROCm/rccl: src/device/msccl_kernel_impl.h (macro MSCCL_KERNEL_ENTRY_NAME)'],
  },
  {
    name: 'flashinfer',
    kernels: /\bflashinfer::(?:comm|trtllm_(?:mnnvl_)?(?:allreduce|moe_allreduce|alltoall)|mixed_comm)/i,
    sources: ['flashinfer-ai/flashinfer: include/flashinfer/comm/'],
  },
  {
    name: 'vllm',
    kernels: /\bvllm::(?:cross_device_reduce|.*all_?reduce)|^cross_device_reduce_[12]stage/i,
    sources: ['vllm-project/vllm: csrc/custom_all_reduce.cuh'],
  },
  {
    name: 'sglang',
    kernels: /\bsglang::(?:cross_device_reduce|.*all_?reduce)/i,
    sources: ['sgl-project/sglang: sgl-kernel/csrc/allreduce/custom_all_reduce.cuh'],
  },
  {
    name: 'aiter',
    kernels: /\baiter::(?:cross_device|.*all_?reduce|.*all_?gather|reduce_scatter_cross)/i,
    sources: ['ROCm/aiter: csrc/include/custom_all_reduce.cuh'],
  },
  {
    name: 'quickreduce',
    kernels: /\ballreduce_prototype_(?:one|two)shot/i,
    sources: [
      'vllm-project/vllm: csrc/quickreduce/quick_reduce.h',
      'ROCm/aiter: csrc/include/quick_all_reduce.cuh',
    ],
  },
  {
    name: 'trtllm',
    kernels:
      /\b(?:tensorrt_llm|trtllm)\w*::.*(?:all_?reduce|all_?gather|all_?to_?all|lamport|A2ADispatch|A2ACombine)|allreduce_fusion_kernel_(?:oneshot|twoshot)|\bmoeA2A(?:Dispatch|Combine)Kernel|\b(?:oneshot|twoshot)Allreduce\w*Kernel|\blowPrecision\w*AllReduceKernel/i,
    sources: [
      'NVIDIA/TensorRT-LLM: cpp/tensorrt_llm/kernels/customAllReduceKernels.cu',
      'NVIDIA/TensorRT-LLM: cpp/tensorrt_llm/kernels/communicationKernels/',
    ],
  },
  {
    name: 'userbuffers',
    kernels: /\b(?:k?userbuffers_\w+)/i,
    sources: [
      'NVIDIA/TransformerEngine: transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu',
    ],
  },
  {
    name: 'symm_mem',
    kernels:
      /(?:one|two)_shot_all_reduce|multimem_(?:all_gather|all_reduce|one_shot|two_shot)|symm_mem|\bc10d::.*(?:barrier|put_signal|wait_signal|allToAllV|exchangeSplitAndOffset|all_?reduce)/i,
    sources: [
      'pytorch/pytorch: torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu, nvshmem_extension.cu',
    ],
  },
  {
    name: 'iris',
    kernels:
      /\biris(?:::|_)|(?:^|_)iris_|\bpersistent_(?:all_reduce|all_gather|all_to_all|reduce_scatter)|^_device_barrier_kernel/i,
    sources: ['ROCm/iris: iris/ccl/triton/'],
  },
  {
    name: 'triton_dist',
    kernels: /(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier)\w*_(?:intra|inter)_node/i,
    sources: [
      'ByteDance-Seed/Triton-distributed: python/triton_dist/kernels/nvidia/allreduce.py, common_ops.py',
    ],
  },
  {
    name: 'rccl',
    kernels: /rccl/i,
    sources: ['ROCm/rccl: src/device/generate.py'],
  },
  {
    name: 'nccl',
    kernels: /\bnccl(?:Symk?)?(?:Dev)?Kernel|\bnccl_?(?:symm|all|reduce|send)|^nccl/i,
    sources: ['NVIDIA/nccl: src/device/generate.py, src/device/symmetric/generate.py'],
  },
  {
    // Custom kernels are usually named after the collective that they implement.
    name: 'custom',
    kernels: /all_?reduce|all_?gather|reduce_?scatter|all_?to_?all(?!\w*_offsets?)|\bcross_device_reduce/i,
    sources: [],
  },
]

/** The library name that is given to kernels that the option `--comm` declares to be communication. */
export const NAMED_LIBRARY = 'named by --comm'

/**
 * Compute kernels whose names contain the names of collectives. The compiler of PyTorch puts the names of operators
 * into the names of the kernels that it generates, and the names of PyTorch's own elementwise kernels contain functors.
 */
const notCommunication = /^triton_[a-z]{3}_fused|^at::native::|^cub::|^thrust::/

/**
 * The library to which a communication kernel with the given name belongs, or null if the kernel does not communicate.
 */
export function communicationLibrary(kernel: string, named: RegExp | null = null): string | null {
  if (named?.test(kernel)) return NAMED_LIBRARY
  const name = qualifiedName(kernel)
  if (notCommunication.test(name)) return null
  for (const { name: library, kernels } of communicationLibraries) if (kernels.test(name)) return library
  return null
}

/**
 * The qualified name of a kernel without its return type, template arguments and parameters, such as
 * `vllm::cross_device_reduce_1stage`. Of a mangled name, only the namespaces and the function name are demangled.
 */
export function qualifiedName(kernel: string): string {
  if (kernel.startsWith('_Z')) return demangled(kernel)
  const text = kernel.replaceAll('(anonymous namespace)::', '').replace(/^(?:static |void |__global__ )+/, '')
  const end = text.search(/[<([]/)
  return (end < 0 ? text : text.slice(0, end)).trim()
}

/** The identifiers of a mangled C++ name, which are preceded by their lengths. */
function demangled(kernel: string): string {
  const names: string[] = []
  let at = /^_ZN?K?(?:L(?=\d))?/.exec(kernel)?.[0].length ?? 0
  for (;;) {
    const length = /^L?(\d+)/.exec(kernel.slice(at))
    if (length === null) break
    const from = at + length[0].length
    const name = kernel.slice(from, from + Number(length[1]))
    if (name !== '_GLOBAL__N_1') names.push(name)
    at = from + Number(length[1])
    if (!kernel.startsWith('_ZN')) break
  }
  return names.length > 0 ? names.join('::') : kernel
}

const collectives: readonly (readonly [collective: string, pattern: RegExp])[] = [
  ['reduceScatter', /reduce_?scatter/],
  ['allReduce', /all_?reduce|cross_device_reduce|userbuffers\w*sum_inplace/],
  ['allGather', /all_?gather|fcollect/],
  ['allToAll', /all_?to_?all|alltoall/],
  ['broadcast', /broadcast/],
  ['sendRecv', /send_?recv|\bsend\b|\brecv\b/],
  ['barrier', /barrier/],
  ['dispatch', /dispatch/],
  ['combine', /combine/],
  ['reduce', /reduce(?!_?scatter)/],
]

/**
 * The normalised name of the collective that a kernel name or a metadata field refers to, or null if the text names no
 * collective.
 */
export function collectiveOf(name: string): string | null {
  const text = name.toLowerCase()
  for (const [collective, pattern] of collectives) if (pattern.test(text)) return collective
  return null
}

/**
 * The communication record that can be derived from a kernel's name alone, or null if the kernel does not communicate.
 */
export function describeKernel(kernel: string, named: RegExp | null = null): Communication | null {
  const library = communicationLibrary(kernel, named)
  if (library === null) return null
  return { ...unknownCommunication, collective: collectiveOf(kernel), library }
}
