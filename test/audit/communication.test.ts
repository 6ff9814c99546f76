/**
 * Communication kernels by their names, which are copied from traces and sources of the projects that define them, and
 * compute kernels whose names resemble them.
 */
import { describe, expect, it } from 'vitest'
import {
  collectiveOf,
  communicationLibraries,
  communicationLibrary,
  qualifiedName,
} from '../../src/audit/communication.ts'
import { readTraces } from '../../src/audit/open.ts'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { audit } from '../../src/taxes/audit.ts'
import { isSynchronising } from '../../src/taxes/calls.ts'
import { unknownCommunication } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'

const kernels: readonly (readonly [library: string, collective: string | null, kernel: string])[] = [
  ['nccl', 'allReduce', 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'],
  ['nccl', 'allReduce', 'ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)'],
  ['nccl', 'allReduce', 'ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f8e5m2(ncclSymkDevWorkArgs4K)'],
  ['nccl', null, 'ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)'],
  ['msccl', null, 'mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)'],
  ['mscclpp', null, 'void mscclpp::executionKernel<__half, mscclpp::LL16Packet>(int, __half*, __half*)'],
  ['mscclpp', 'allReduce', 'void mscclpp::collective::allreduceAllPairs<(mscclpp::ReduceOp)0, __half>(__half*)'],
  ['deep_ep', 'dispatch', 'void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*, float*)'],
  ['deep_ep', 'dispatch', 'void deep_ep::intranode::notify_dispatch<8>(int const*, int*)'],
  ['deep_ep', 'combine', '_ZN7deep_ep9intranode7combineIN13__nv_bfloat16ELi8EEEvPT_'],
  ['deep_ep', 'dispatch', 'void hybrid_ep::dispatch_kernel<unsigned char>(hybrid_ep::dispatch_kernel_param_t)'],
  ['pplx', 'dispatch', 'void a2a_dispatch_send_kernel<true, 16>(unsigned long, unsigned long)'],
  ['mori', 'dispatch', 'EpDispatchIntraNodeKernel_bf16'],
  ['nvshmem', 'barrier', 'void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)'],
  ['nvshmem', null, 'nvshmemi_proxy_rma_signal_entrypoint_blocking(void*, void*)'],
  ['rocshmem', 'reduce', 'void rocshmem_reduce_on_stream_kernel<float, (ROCSHMEM_OP)0>(long)'],
  ['vllm', 'allReduce', 'void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)'],
  ['sglang', 'allReduce', 'void sglang::cross_device_reduce_1stage<__half, 8>(sglang::RankData*)'],
  ['aiter', 'allReduce', 'void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8, false>(aiter::RankData*)'],
  ['quickreduce', 'allReduce', 'quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(__half const*)'],
  ['flashinfer', 'allReduce', 'void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>(int)'],
  ['trtllm', 'allReduce', 'void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true, false>(tensorrt_llm::kernels::AllReduceParams)'],
  ['trtllm', 'dispatch', 'moeA2ADispatchKernel(int const*, DispatchKernelPointers)'],
  ['trtllm', 'allReduce', 'void oneshotAllreduceFusionKernel<8, __nv_bfloat16, true, float4>(__nv_bfloat16*)'],
  ['userbuffers', 'allReduce', 'void userbuffers_fp16_sum_inplace_gpu_mc<4>(int, int, int)'],
  ['userbuffers', null, 'kuserbuffers_pushsend(int*, int*, int4*, int4*, int)'],
  ['symm_mem', 'allReduce', 'void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)'],
  ['symm_mem', 'allReduce', 'void multimem_all_reduce_kernel<float, 16>(float*, unsigned long, unsigned int**)'],
  ['symm_mem', 'allGather', 'void multimem_all_gather_kernel<16>(char*, char*, unsigned long)'],
  ['iris', 'allReduce', 'persistent_all_reduce_two_shot'],
  ['triton_dist', 'allReduce', 'allreduce_two_shot_multimem_intra_node_kernel'],
  ['custom', 'allReduce', 'void my_company::fused_all_reduce_rms_norm<8>(float*)'],
] // prettier-ignore

const compute = [
  'void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float)',
  'void at::native::(anonymous namespace)::CatArrayBatchedCopy_alignedK_contig<int>(int*)',
  'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel',
  'triton_poi_fused__to_copy_all_gather_into_tensor_wait_tensor_3',
  'triton_red_fused_all_reduce_native_layer_norm_0',
  'void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>>(float*)',
  'void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)',
  'void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(flash::Flash_fwd_params)',
  'vectorized_gather_kernel',
  'void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)',
  'void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)',
  'elementwise_broadcast_add',
]

describe('communication kernels', () => {
  it.each(kernels)('%s: %s by %s', (library, collective, kernel) => {
    expect([communicationLibrary(kernel), collectiveOf(kernel)]).toEqual([library, collective])
  })

  it.each(compute)('%s is compute', (kernel) => {
    expect(communicationLibrary(kernel)).toBeNull()
  })

  it('every library of the table has a kernel here, and every library but the last cites its sources', () => {
    const tested = new Set(kernels.map(([library]) => library))
    // RCCL's kernels have the names of NCCL's kernels, unless a tool has renamed them.
    const names = communicationLibraries.map(({ name }) => name).filter((name) => name !== 'rccl')
    expect(names.filter((name) => !tested.has(name))).toEqual([])
    for (const { name, sources } of communicationLibraries)
      expect(sources.length > 0, name).toBe(name !== 'custom')
  })

  it('a name is reduced to its qualified name', () => {
    expect(qualifiedName('void (anonymous namespace)::a::b<c>(d)')).toBe('a::b')
    expect(qualifiedName('_ZN12_GLOBAL__N_16kernelEv')).toBe('kernel')
    expect(qualifiedName('_Z6kernelPf')).toBe('kernel')
  })

  it('a kernel that is known by its name only neither aligns clocks nor is trusted to synchronise', () => {
    const call = { ...unknownCommunication, collective: 'allReduce' }
    expect(isSynchronising({ ...call, library: 'vllm' })).toBe(true)
    for (const library of ['custom', 'named by --comm'])
      expect(isSynchronising({ ...call, library })).toBe(false)
  })
})

describe('a job without known communication', () => {
  const folder = mkdtempSync(join(tmpdir(), 'arke-comm-'))
  const event = (name: string, ts: number) => ({
    ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts, dur: 5, args: { device: 0, stream: 7 },
  }) // prettier-ignore
  const paths = [0, 1].map((rank) => {
    const path = join(folder, `rank${rank}.json`)
    writeFileSync(
      path,
      JSON.stringify({ traceEvents: [event('gemm', 0), event('exchange_halo', 10), event('gemm', 20)] }),
    )
    return path
  })
  const warningsOf = async (communication?: string): Promise<string[]> => {
    const { timeline } = await readTraces(paths, { communication })
    const warnings = new Warnings()
    audit(timeline, warnings)
    return warnings
      .list()
      .filter((one) => one.class === 'communication')
      .map(({ message }) => message)
  }

  it('has a warning that names the option and the longest kernels', async () => {
    const [message] = await warningsOf()
    expect(message).toMatch(/^no kernel of this job of 2 ranks .* --comm REGEX.*: gemm, exchange_halo$/)
  })

  it('has none once the option names the kernels', async () => {
    expect(await warningsOf('exchange_')).toEqual([])
    rmSync(folder, { recursive: true })
  })
})
