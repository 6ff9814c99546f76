// transposedGemm, for 1 rank; BM = 128, BN = 64, BK = 64
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   sums: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) transposedGemm(
    u16* a,
    u16* b,
    float* sums,
    i32 a_dim0,
    i32 a_dim1,
    i32 b_dim0,
    i32 b_dim1,
    i32 c_dim0,
    i32 c_dim1,
    i32 sums_dim0,
    const __grid_constant__ TensorMap c_map,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  kernel_before_ended();
  next_kernel_may_start();
  const u32 a_tile = shared;  // test/cuda/probes.ts:54
  const u32 b_tile = shared + 16384;  // test/cuda/probes.ts:55
  const i32 c_dim0_ceil_128 = (i32)((u32)(c_dim0 + 127) / 128u);  // test/cuda/probes.ts:56
  const i32 c_dim1_ceil_64 = (i32)((u32)(c_dim1 + 63) / 64u);
  const u32 tiles = (u32)c_dim0_ceil_128 * (u32)c_dim1_ceil_64;
  for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
    if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(0, 256, thread == 0 && abort_raised(control))) break;
    const i32 i1 = (i32)(tile % (u32)c_dim1_ceil_64);
    const i32 i0 = (i32)((tile / (u32)c_dim1_ceil_64));
    const i32 a_dim0_ceil_64 = (i32)((u32)(a_dim0 + 63) / 64u);  // test/cuda/probes.ts:57
    float acc[32];
    #pragma unroll
    for (u32 i = 0; i < 32; ++i) acc[i] = 0.0f;
    for (i32 i0_2 = 0; i0_2 < a_dim0_ceil_64; ++i0_2) {
      if ((u32)i0_2 % 1024 == 1023 && group_any(0, 256, thread == 0 && abort_raised(control))) break;
      __syncthreads();  // test/cuda/probes.ts:58
      #pragma unroll 4
      for (u32 chunk = thread; chunk < 1024; chunk += 256) {
        const u32 row = chunk / 16, column = chunk % 16 * 8;
        Chunk value = {};
        if (i0_2 * 64 < a_dim0 && i0 * 128 < a_dim1) value = *((Chunk*)(a + ((i0_2 * 64 + (i32)row) * a_dim1 + i0 * 128 + (i32)column)));
        shared_store<Chunk>(a_tile + swizzled<128, 64>(row, column * 2), value);
      }
      #pragma unroll 4
      for (u32 chunk = thread; chunk < 512; chunk += 256) {  // test/cuda/probes.ts:59
        const u32 row = chunk / 8, column = chunk % 8 * 8;
        Chunk value = {};
        if (i0_2 * 64 < b_dim0 && i1 * 64 < b_dim1) value = *((Chunk*)(b + ((i0_2 * 64 + (i32)row) * b_dim1 + i1 * 64 + (i32)column)));
        shared_store<Chunk>(b_tile + swizzled<128, 64>(row, column * 2), value);
      }
      fence_async_shared();  // test/cuda/probes.ts:60
      __syncthreads();
      fragment_fence(acc);
      wgmma_fence();
      {
        const u64 right0 = wgmma_operand<128>(b_tile, 8192, 1024);
        const u64 left0 = wgmma_operand<128>(a_tile + ((thread / 128 * 64) / 64) * 8192, 8192, 1024);
        #pragma unroll
        for (u32 step = 0; step < 4; ++step) {
          wgmma_m64n64k16_bf16<1, 1>(acc, left0 + step * 128, right0 + step * 128);
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
      fragment_fence(acc);
    }
    #pragma unroll
    for (u32 box = 0; box < 2; ++box) {  // test/cuda/probes.ts:62
      const u32 staging = shared + 26624 + (thread / 128 * 2 + box % 2) * 8192;
      if (thread % 128 == 0) tma_store_wait_read<1>();  // TMA has read the previous box in this staging buffer
      group_barrier(1 + thread / 128, 128);
      stage_floats(staging, acc, box * 16, thread);
      fence_async_shared();
      group_barrier(1 + thread / 128, 128);
      if (thread % 128 == 0) {
        tma_store_2d(c_map, staging, i1 * 64 + (i32)(box * 32), i0 * 128 + (i32)(thread / 128 * 64));
        tma_store_commit();
      }
    }
    float column_sum[16];  // test/cuda/probes.ts:64
    #pragma unroll
    for (u32 i = 0; i < 16; ++i) column_sum[i] = 0.0f;
    #pragma unroll
    for (u32 i = 0; i < 32; ++i) column_sum[i / 4 * 2 + i % 2] = column_sum[i / 4 * 2 + i % 2] + acc[i];
    #pragma unroll
    for (u32 i = 0; i < 16; ++i) column_sum[i] = across<4, 32>(column_sum[i], [](float a, float b) { return a + b; });
    __syncthreads();
    #pragma unroll
    for (u32 i = 0; i < 16; ++i) if (thread % 32 < 4) shared_store<float>(shared + 24576 + (thread / 32 * 64 + (i / 2 * 8 + thread % 4 * 2 + i % 2)) * 4, column_sum[i]);
    __syncthreads();
    #pragma unroll
    for (u32 i = 0; i < 16; ++i) { float total = 0.0f; for (u32 w = 0; w < 8; ++w) total = total + shared_load<float>(shared + 24576 + (w * 64 + (i / 2 * 8 + thread % 4 * 2 + i % 2)) * 4); column_sum[i] = total; }
    #pragma unroll
    for (u32 i = 0; i < 16; ++i) if (thread < 4 && ((i32)((u32)(i32)(i / 2 * 8 + thread % 4 * 2 + i % 2) + (u32)(i1 * 64)) < sums_dim0)) add_relaxed_sys_f32(sums + (i32)((u32)(i32)(i / 2 * 8 + thread % 4 * 2 + i % 2) + (u32)(i1 * 64)), column_sum[i]);
  }
  if (thread % 128 == 0) tma_store_wait_done<0>();
}
