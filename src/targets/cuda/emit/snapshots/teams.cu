// teams, for 2 ranks; B = 64
// Assumes, for sm_90a:
//   x: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   sum: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(128, 1) teams(
    float* x,
    float* sum,
    i32 x_dim1,
    i32 sum_dim1,
    u32* made,
    u32* made_epochs,
    i32 rank,
    i64 heap_stride,
    u32* counters,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 127) { bring_near(made_epochs); bring_near(control); bring_near(counters + 0); }
  kernel_before_ended();
  next_kernel_may_start();
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 made_signal_epoch = *(volatile u32*)(made_epochs + 0) + 1;
  const u32 made_wait_epoch = *(volatile u32*)(made_epochs + 1) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 127 && last_program(counters + 0, gridDim.x)) {
    made_epochs[0] = made_signal_epoch;
    made_epochs[1] = made_wait_epoch;
  }
  if ((i32)blockIdx.x < 2) {  // make
    const float cast = (float)(((i32)blockIdx.x + (rank * 2)) + 1);  // test/cuda/probes.ts:204
    for (i32 i0 = 0; i0 < 2; ++i0) {  // test/cuda/probes.ts:205
      __syncthreads();  // test/cuda/probes.ts:206
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) add_relaxed_sys_f32(on_rank(x, i0 - rank, heap_stride) + (((i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * x_dim1 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)), cast);
      __syncthreads();  // test/cuda/probes.ts:212
      if (thread == 0) flag_add(on_rank(made, i0 - rank, heap_stride) + rank, 1);
    }
  } else if (((i32)blockIdx.x - 2) < ((i32)gridDim.x - 2)) {  // add
    for (i32 i0 = thread; i0 < 2; i0 += 128) {  // test/cuda/probes.ts:219
      flag_wait(made + i0, made_wait_epoch * 2, control, 1, rank);
    }
    __syncthreads();
    float loaded_f32[32];  // test/cuda/probes.ts:220
    #pragma unroll
    for (u32 i = 0; i < 32; i += 4) load_words<16>(loaded_f32, i, x + (((i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * x_dim1 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)));
    float loaded_f32_2[32];  // test/cuda/probes.ts:221
    #pragma unroll
    for (u32 i = 0; i < 32; i += 4) load_words<16>(loaded_f32_2, i, sum + (((i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * sum_dim1 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)));
    float add[32];  // test/cuda/probes.ts:222
    #pragma unroll
    for (u32 i = 0; i < 32; ++i) add[i] = (loaded_f32_2[i] + loaded_f32[i]);
    #pragma unroll
    for (u32 i = 0; i < 32; i += 4) store_words<16>(sum + (((i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * sum_dim1 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)), add, i);
  }
}
