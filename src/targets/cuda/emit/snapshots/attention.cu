// attention, for 1 rank; BM = 128, BN = 64, D = 64, stages = 2
// Assumes, for sm_90a:
//   q: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   k: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   v: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   out: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(384, 1) attention(
    u16* out,
    i32 q_dim0,
    i32 k_dim0,
    i32 out_dim0,
    i32 out_dim1,
    const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    u32 settled,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    tma_prefetch(q_map);
    tma_prefetch(k_map);
    tma_prefetch(v_map);
    for (u32 i = 0; i < 2; ++i) barrier_init(shared + 81920 + i * 8, 1);  // test/cuda/probes.ts:24
    for (u32 i = 0; i < 2; ++i) barrier_init(shared + 81936 + i * 8, 8);
    barrier_init_fence();
    fence_async_shared();
  }
  const bool is_early = threadIdx.x < 32 && settled != 0;  // true: the producer may copy before the previous kernel has ended
  if (!is_early) {
    kernel_before_ended();
    next_kernel_may_start();
  }
  if (threadIdx.x < 128) group_arrive(1, 384);
  else {
    group_barrier(1, 384);
  }
  const u32 tile = shared + 65536;  // test/cuda/probes.ts:21
  const u32 q_tile = shared;  // test/cuda/probes.ts:18
  const u32 k_tile = shared + 32768;  // test/cuda/probes.ts:19
  const u32 v_tile = shared + 49152;  // test/cuda/probes.ts:20
  const u32 full = shared + 81920;  // test/cuda/probes.ts:24
  const u32 empty = shared + 81936;
  if (threadIdx.x < 128) {  // producer
    registers_lower<56>();
    if (threadIdx.x == 0) {
      const i32 q_dim0_ceil_128 = (i32)((u32)(q_dim0 + 127) / 128u);  // test/cuda/probes.ts:22
      i32 slot = 0;
      i32 phase = 0;
      const u32 tiles = (u32)q_dim0_ceil_128;
      for (u32 tile_2 = (i32)blockIdx.x; tile_2 < tiles; tile_2 += (i32)gridDim.x) {
        if (tile_2 / (u32)(i32)gridDim.x % 64 == 63 && abort_raised(control)) { copies_arrive(); break; }
        const i32 i0 = (i32)(tile_2);
        const i32 k_dim0_ceil_64 = (i32)((u32)(k_dim0 + 63) / 64u);  // test/cuda/probes.ts:25
        i32 slot_2 = slot;  // test/cuda/probes.ts:24
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < k_dim0_ceil_64; ++i0_2) {
          if (!barrier_await(empty + slot_2 * 8, (phase_2 - 1) & 1, control)) break;
          barrier_expect_bytes(full + slot_2 * 8, 16384);  // test/cuda/probes.ts:28
          tma_load_2d(q_tile + slot_2 * 16384, q_map, full + slot_2 * 8, 0, i0 * 128);
          barrier_expect_bytes(full + slot_2 * 8, 8192);  // test/cuda/probes.ts:29
          tma_load_2d(k_tile + slot_2 * 8192, k_map, full + slot_2 * 8, 0, i0_2 * 64);
          barrier_expect_bytes(full + slot_2 * 8, 8192);  // test/cuda/probes.ts:30
          tma_load_2d(v_tile + slot_2 * 8192, v_map, full + slot_2 * 8, 0, i0_2 * 64);
          barrier_arrive(full + slot_2 * 8);  // test/cuda/probes.ts:24
          const i32 slot_2_plus_1 = slot_2 + 1;
          const bool eq = slot_2_plus_1 == 2;
          slot_2 = eq ? 0 : slot_2_plus_1;
          phase_2 = eq ? (phase_2 + 1) : phase_2;
        }
        slot = slot_2;
        phase = phase_2;
      }
    }
  } else if (threadIdx.x < 384) {  // consumer
    registers_raise<224>();
    const u32 thread = threadIdx.x - 128;
    const i32 q_dim0_ceil_128 = (i32)((u32)(q_dim0 + 127) / 128u);  // test/cuda/probes.ts:22
    i32 slot = 0;
    i32 phase = 0;
    const u32 tiles = (u32)q_dim0_ceil_128;
    for (u32 tile_2 = (i32)blockIdx.x; tile_2 < tiles; tile_2 += (i32)gridDim.x) {
      if (tile_2 / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 256, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const i32 i0 = (i32)(tile_2);
      const i32 k_dim0_ceil_64 = (i32)((u32)(k_dim0 + 63) / 64u);  // test/cuda/probes.ts:25
      float acc[32];  // test/cuda/probes.ts:24
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) acc[i] = 0.0f;  // test/cuda/probes.ts:23
      float l[2];  // test/cuda/probes.ts:24
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) l[i] = 0.0f;  // test/cuda/probes.ts:23
      float m[2];  // test/cuda/probes.ts:24
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) m[i] = (-1.0000000150474662e+30f);  // test/cuda/probes.ts:23
      i32 slot_2 = slot;  // test/cuda/probes.ts:24
      i32 phase_2 = phase;
      for (i32 i0_2 = 0; i0_2 < k_dim0_ceil_64; ++i0_2) {
        barrier_await(full + slot_2 * 8, phase_2 & 1, control);
        float acc_2[32];  // test/cuda/probes.ts:32
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) acc_2[i] = 0.0f;  // test/cuda/probes.ts:23
        fragment_fence(acc_2);  // test/cuda/probes.ts:32
        wgmma_fence();
        {
          const u64 right0 = wgmma_operand<128>(k_tile + slot_2 * 8192, 16, 1024);
          const u64 left0 = wgmma_operand<128>(q_tile + slot_2 * 16384 + (thread / 128 * 64) * 128, 16, 1024);
          #pragma unroll
          for (u32 step = 0; step < 4; ++step) {
            wgmma_m64n64k16_bf16<0, 0>(acc_2, left0 + step * 2, right0 + step * 2);
          }
        }
        wgmma_commit();
        wgmma_wait<0>();
        fragment_fence(acc_2);
        float mul[32];
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) mul[i] = (acc_2[i] * 0.1803368777036667f);
        float select[32];  // test/cuda/probes.ts:33
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) select[i] = (((i32)((u32)(i32)fragment_column(i, thread) + (u32)(i0_2 * 64)) < k_dim0) ? mul[i] : (-1.0000000150474662e+30f));
        float row_max[2];  // test/cuda/probes.ts:34
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = __int_as_float(0x7fffffff);
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) row_max[i / 2 % 2] = fmaxf(row_max[i / 2 % 2], select[i]);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = across<1, 4>(row_max[i], [](float a, float b) { return fmaxf(a, b); });
        float max[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) max[i] = fmaxf(m[i], row_max[i]);
        float sub[32];  // test/cuda/probes.ts:35
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) sub[i] = (select[i] - max[i / 2 % 2]);
        float exp2[32];
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) exp2[i] = exp2f(sub[i]);
        float sub_2[2];  // test/cuda/probes.ts:36
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) sub_2[i] = (m[i] - max[i]);
        float exp2_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) exp2_2[i] = exp2f(sub_2[i]);
        float mul_2[2];  // test/cuda/probes.ts:37
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) mul_2[i] = (l[i] * exp2_2[i]);
        float row_sum[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_sum[i] = 0.0f;
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) row_sum[i / 2 % 2] = row_sum[i / 2 % 2] + exp2[i];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_sum[i] = across<1, 4>(row_sum[i], [](float a, float b) { return a + b; });
        float add[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) add[i] = (mul_2[i] + row_sum[i]);
        u32 as_bf16[16];  // test/cuda/probes.ts:38
        #pragma unroll
        for (u32 p = 0; p < 16; ++p) as_bf16[p] = pack_bf16(exp2[2 * p], exp2[2 * p + 1]);
        float mul_3[32];
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) mul_3[i] = (acc[i] * exp2_2[i / 2 % 2]);
        fragment_fence(mul_3);
        wgmma_fence();
        {
          const u64 right0 = wgmma_operand<128>(v_tile + slot_2 * 8192, 8192, 1024);
          #pragma unroll
          for (u32 step = 0; step < 4; ++step) {
            wgmma_m64n64k16_bf16_ra<1>(mul_3, part<4>(as_bf16, step * 4), right0 + step * 128);
          }
        }
        wgmma_commit();
        wgmma_wait<0>();
        fragment_fence(mul_3);
        fence_async_shared();  // test/cuda/probes.ts:24
        __syncwarp();
        if (thread % 32 == 0) barrier_arrive(empty + slot_2 * 8);
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 2;
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) acc[i] = mul_3[i];  // test/cuda/probes.ts:38
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) l[i] = add[i];  // test/cuda/probes.ts:37
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) m[i] = max[i];  // test/cuda/probes.ts:34
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      float div[32];  // test/cuda/probes.ts:42
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) div[i] = (acc[i] / l[i / 2 % 2]);
      u32 as_bf16[16];
      #pragma unroll
      for (u32 p = 0; p < 16; ++p) as_bf16[p] = pack_bf16(div[2 * p], div[2 * p + 1]);
      group_barrier(2, 256);
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) shared_store<u16>(tile + ((thread / 128 * 64 + fragment_row(i, thread)) * 64 + fragment_column(i, thread)) * 2, half_at(as_bf16, i));
      group_barrier(2, 256);  // test/cuda/probes.ts:43
      #pragma unroll 4
      for (u32 chunk = thread; chunk < 1024; chunk += 256) {
        const u32 row = chunk / 8, column = chunk % 8 * 8;
        if (i0 * 128 < out_dim0) *((Chunk*)(out + ((i0 * 128 + (i32)row) * out_dim1 + (i32)column))) = shared_load<Chunk>(tile + (row * 64 + column) * 2);
      }
      slot = slot_2;
      phase = phase_2;
    }
  }
  __syncthreads();
}
