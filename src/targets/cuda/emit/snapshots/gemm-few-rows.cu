// gemm, for 1 rank; BM = 16, BN = 128, BK = 64, stages = 4, CM = 1, CN = 1
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) gemm(
    u16* c,
    i32 a_dim1,
    i32 c_dim0,
    i32 c_dim1,
    const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map,
    u32 settled,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    tma_prefetch(a_map);
    tma_prefetch(b_map);
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 73728 + i * 8, 1);  // src/ops/gemm.ts:33
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 73760 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  const bool is_early = threadIdx.x < 32 && settled != 0;  // true: the producer may copy before the previous kernel has ended
  if (!is_early) {
    kernel_before_ended();
    next_kernel_may_start();
  }
  if (threadIdx.x < 128) group_arrive(1, 256);
  else {
    group_barrier(1, 256);
  }
  const u32 a_tile = shared;  // src/ops/gemm.ts:28
  const u32 b_tile = shared + 8192;  // src/ops/gemm.ts:29
  const u32 full = shared + 73728;  // src/ops/gemm.ts:33
  const u32 empty = shared + 73760;
  if (threadIdx.x < 128) {  // producer
    if (threadIdx.x == 0) {
      const i32 c_dim0_ceil_16 = (i32)((u32)(c_dim0 + 15) / 16u);  // src/ops/gemm.ts:30
      const i32 c_dim1_ceil_128 = (i32)((u32)(c_dim1 + 127) / 128u);
      i32 slot = 0;
      i32 phase = 0;
      const u32 tiles = (u32)c_dim0_ceil_16 * (u32)c_dim1_ceil_128;
      for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
        if (tile / (u32)(i32)gridDim.x % 64 == 63 && abort_raised(control)) { copies_arrive(); break; }
        const TileIndex at = grouped_tile(tile, c_dim0_ceil_16, c_dim1_ceil_128, 8);
        const i32 i0 = at.row, i1 = at.column;
        const i32 a_dim1_ceil_64 = (i32)((u32)(a_dim1 + 63) / 64u);  // src/ops/gemm.ts:34
        i32 slot_2 = slot;  // src/ops/gemm.ts:33
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < a_dim1_ceil_64; ++i0_2) {
          if (!barrier_await(empty + slot_2 * 8, (phase_2 - 1) & 1, control)) break;
          barrier_expect_bytes(full + slot_2 * 8, 2048);  // src/ops/gemm.ts:37
          tma_load_2d(a_tile + slot_2 * 2048, a_map, full + slot_2 * 8, i0_2 * 64, i0 * 16);
          barrier_expect_bytes(full + slot_2 * 8, 16384);  // src/ops/gemm.ts:38
          tma_load_2d(b_tile + slot_2 * 16384, b_map, full + slot_2 * 8, i1 * 128, i0_2 * 64);
          tma_load_2d(b_tile + slot_2 * 16384 + 8192, b_map, full + slot_2 * 8, i1 * 128 + 64, i0_2 * 64);
          barrier_arrive(full + slot_2 * 8);  // src/ops/gemm.ts:33
          const i32 slot_2_plus_1 = slot_2 + 1;
          const bool eq = slot_2_plus_1 == 4;
          slot_2 = eq ? 0 : slot_2_plus_1;
          phase_2 = eq ? (phase_2 + 1) : phase_2;
        }
        slot = slot_2;
        phase = phase_2;
      }
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    const i32 c_dim0_ceil_16 = (i32)((u32)(c_dim0 + 15) / 16u);  // src/ops/gemm.ts:30
    const i32 c_dim1_ceil_128 = (i32)((u32)(c_dim1 + 127) / 128u);
    i32 slot = 0;
    i32 phase = 0;
    const u32 tiles = (u32)c_dim0_ceil_16 * (u32)c_dim1_ceil_128;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const TileIndex at = grouped_tile(tile, c_dim0_ceil_16, c_dim1_ceil_128, 8);
      const i32 i0 = at.row, i1 = at.column;
      const i32 a_dim1_ceil_64 = (i32)((u32)(a_dim1 + 63) / 64u);  // src/ops/gemm.ts:34
      u32 to_hand_back = 0;
      float acc[16];  // src/ops/gemm.ts:33
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // src/ops/gemm.ts:35
      i32 slot_2 = slot;  // src/ops/gemm.ts:33
      i32 phase_2 = phase;
      fragment_fence(acc);
      for (i32 i0_2 = 0; i0_2 < a_dim1_ceil_64; ++i0_2) {
        barrier_await(full + slot_2 * 8, phase_2 & 1, control);
        wgmma_fence();  // src/ops/gemm.ts:39
        {
          const u64 right0 = wgmma_operand<128>(a_tile + slot_2 * 2048, 16, 1024);
          const u64 left0 = wgmma_operand<128>(b_tile + slot_2 * 16384, 8192, 1024);
          const u64 left1 = wgmma_operand<128>(b_tile + slot_2 * 16384 + 8192, 8192, 1024);
          #pragma unroll
          for (u32 step = 0; step < 4; ++step) {
            wgmma_m64n16k16_bf16<1, 0>(part<8>(acc, 0), left0 + step * 128, right0 + step * 2);
            wgmma_m64n16k16_bf16<1, 0>(part<8>(acc, 8), left1 + step * 128, right0 + step * 2);
          }
        }
        wgmma_commit();
        wgmma_wait<1>();  // waits until the previous matrix product has read its slot
        if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);  // src/ops/gemm.ts:33
        to_hand_back = empty + slot_2 * 8;
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 4;
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      wgmma_wait<0>();
      fragment_fence(acc);
      if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);
      u32 as_bf16[8];  // src/ops/gemm.ts:43
      #pragma unroll
      for (u32 p = 0; p < 8; ++p) as_bf16[p] = pack_bf16(acc[2 * p], acc[2 * p + 1]);
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) if (i0 * 16 < c_dim0 && i1 * 128 < c_dim1) *(c + ((i0 * 16 + (i32)fragment_column(i % 8, thread)) * c_dim1 + i1 * 128 + (i32)(fragment_row(i % 8, thread) + i / 8 * 64))) = half_at(as_bf16, i);
      slot = slot_2;
      phase = phase_2;
    }
  }
  __syncthreads();
}
