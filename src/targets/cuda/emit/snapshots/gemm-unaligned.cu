// gemm, for 1 rank; BM = 64, BN = 64, BK = 32, stages = 3, CM = 1, CN = 1
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; any extents; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; any extents; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; any extents; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) gemm(
    u16* a,
    u16* b,
    u16* c,
    i32 a_dim0,
    i32 a_dim1,
    i32 b_dim0,
    i32 b_dim1,
    i32 c_dim0,
    i32 c_dim1,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    for (u32 i = 0; i < 3; ++i) barrier_init(shared + 24576 + i * 8, 4);  // src/ops/gemm.ts:33
    for (u32 i = 0; i < 3; ++i) barrier_init(shared + 24600 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  kernel_before_ended();
  next_kernel_may_start();
  __syncthreads();
  const u32 a_tile = shared;  // src/ops/gemm.ts:28
  const u32 b_tile = shared + 12288;  // src/ops/gemm.ts:29
  const u32 full = shared + 24576;  // src/ops/gemm.ts:33
  const u32 empty = shared + 24600;
  if (threadIdx.x < 128) {  // producer
    const u32 thread = threadIdx.x;
    const i32 c_dim0_ceil_64 = (i32)((u32)(c_dim0 + 63) / 64u);  // src/ops/gemm.ts:30
    const i32 c_dim1_ceil_64 = (i32)((u32)(c_dim1 + 63) / 64u);
    i32 slot = 0;
    i32 phase = 0;
    const u32 tiles = (u32)c_dim0_ceil_64 * (u32)c_dim1_ceil_64;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(1, 128, thread == 0 && abort_raised(control))) break;
      const TileIndex at = grouped_tile(tile, c_dim0_ceil_64, c_dim1_ceil_64, 8);
      const i32 i0 = at.row, i1 = at.column;
      const i32 a_dim1_ceil_32 = (i32)((u32)(a_dim1 + 31) / 32u);  // src/ops/gemm.ts:34
      i32 slot_2 = slot;  // src/ops/gemm.ts:33
      i32 phase_2 = phase;
      for (i32 i0_2 = 0; i0_2 < a_dim1_ceil_32; ++i0_2) {
        barrier_await(empty + slot_2 * 8, (phase_2 - 1) & 1, control);
        #pragma unroll 4
        for (u32 chunk = thread; chunk < 2048; chunk += 128) {  // src/ops/gemm.ts:37
          const u32 row = chunk / 32, column = chunk % 32;
          u16 value = {};
          if (i0 * 64 + (i32)row < a_dim0 && i0_2 * 32 + (i32)column < a_dim1) value = *(a + ((i0 * 64 + (i32)row) * a_dim1 + i0_2 * 32 + (i32)column));
          shared_store<u16>(a_tile + slot_2 * 4096 + swizzled<64, 64>(row, column * 2), value);
        }
        fence_async_shared();
        #pragma unroll 4
        for (u32 chunk = thread; chunk < 2048; chunk += 128) {  // src/ops/gemm.ts:38
          const u32 row = chunk / 64, column = chunk % 64;
          u16 value = {};
          if (i0_2 * 32 + (i32)row < b_dim0 && i1 * 64 + (i32)column < b_dim1) value = *(b + ((i0_2 * 32 + (i32)row) * b_dim1 + i1 * 64 + (i32)column));
          shared_store<u16>(b_tile + slot_2 * 4096 + swizzled<128, 32>(row, column * 2), value);
        }
        fence_async_shared();
        __syncwarp();  // src/ops/gemm.ts:33
        if (thread % 32 == 0) barrier_arrive(full + slot_2 * 8);
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 3;
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      slot = slot_2;
      phase = phase_2;
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    const i32 c_dim0_ceil_64 = (i32)((u32)(c_dim0 + 63) / 64u);  // src/ops/gemm.ts:30
    const i32 c_dim1_ceil_64 = (i32)((u32)(c_dim1 + 63) / 64u);
    i32 slot = 0;
    i32 phase = 0;
    const u32 tiles = (u32)c_dim0_ceil_64 * (u32)c_dim1_ceil_64;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) break;
      const TileIndex at = grouped_tile(tile, c_dim0_ceil_64, c_dim1_ceil_64, 8);
      const i32 i0 = at.row, i1 = at.column;
      const i32 a_dim1_ceil_32 = (i32)((u32)(a_dim1 + 31) / 32u);  // src/ops/gemm.ts:34
      u32 to_hand_back = 0;
      float acc[32];  // src/ops/gemm.ts:33
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) acc[i] = 0.0f;  // src/ops/gemm.ts:35
      i32 slot_2 = slot;  // src/ops/gemm.ts:33
      i32 phase_2 = phase;
      fragment_fence(acc);
      for (i32 i0_2 = 0; i0_2 < a_dim1_ceil_32; ++i0_2) {
        barrier_await(full + slot_2 * 8, phase_2 & 1, control);
        wgmma_fence();  // src/ops/gemm.ts:39
        {
          const u64 right0 = wgmma_operand<128>(b_tile + slot_2 * 4096, 4096, 1024);
          const u64 left0 = wgmma_operand<64>(a_tile + slot_2 * 4096, 16, 512);
          #pragma unroll
          for (u32 step = 0; step < 2; ++step) {
            wgmma_m64n64k16_bf16<0, 1>(acc, left0 + step * 2, right0 + step * 128);
          }
        }
        wgmma_commit();
        wgmma_wait<1>();  // waits until the previous matrix product has read its slot
        if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);  // src/ops/gemm.ts:33
        to_hand_back = empty + slot_2 * 8;
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 3;
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      wgmma_wait<0>();
      fragment_fence(acc);
      if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);
      u32 as_bf16[16];  // src/ops/gemm.ts:43
      #pragma unroll
      for (u32 p = 0; p < 16; ++p) as_bf16[p] = pack_bf16(acc[2 * p], acc[2 * p + 1]);
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) if (i0 * 64 + (i32)(fragment_row(i, thread)) < c_dim0 && i1 * 64 + (i32)fragment_column(i, thread) < c_dim1) *(c + ((i0 * 64 + (i32)(fragment_row(i, thread))) * c_dim1 + i1 * 64 + (i32)fragment_column(i, thread))) = half_at(as_bf16, i);
      slot = slot_2;
      phase = phase_2;
    }
  }
  __syncthreads();
}
