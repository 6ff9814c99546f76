// looking, for 2 ranks; B = 64
// Assumes, for sm_90a:
//   x: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   y: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(128, 1) looking(
    float* x,
    float* y,
    i32 x_dim0,
    i32 x_dim1,
    i32 y_dim0,
    i32 y_dim1,
    u32* ready,
    u32* both,
    u32* ready_epochs,
    u32* both_epochs,
    i32 rank,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 127) { bring_near(ready_epochs); bring_near(both_epochs); }
  kernel_before_ended();
  next_kernel_may_start();
  const u32 ready_wait_epoch = *(volatile u32*)(ready_epochs + 1) + 1;
  const u32 both_wait_epoch = *(volatile u32*)(both_epochs + 1) + 1;
  const i32 y_dim0_ceil_64 = (i32)((u32)(y_dim0 + 63) / 64u);  // test/cuda/probes.ts:267
  const i32 y_dim1_ceil_64 = (i32)((u32)(y_dim1 + 63) / 64u);
  const u32 tiles = (u32)y_dim0_ceil_64 * (u32)y_dim1_ceil_64;
  for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
    if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(0, 128, thread == 0 && abort_raised(control))) break;
    const i32 i1 = (i32)(tile % (u32)y_dim1_ceil_64);
    const i32 i0 = (i32)((tile / (u32)y_dim1_ceil_64));
    if (thread == 0) shared_store<u32>(shared + 0, (u32)flag_reached(flag_load(ready + i0), ready_wait_epoch));  // test/cuda/probes.ts:269
    __syncthreads();
    const u32 is_reached = shared_load<u32>(shared + 0);
    __syncthreads();
    if (thread == 0) shared_store<u32>(shared + 0, (u32)flag_reached(flag_load(both), (both_wait_epoch - 1) * 2));
    __syncthreads();
    const u32 is_reached_2 = shared_load<u32>(shared + 0);
    __syncthreads();
    if ((is_reached != 0) & (is_reached_2 != 0)) {  // test/cuda/probes.ts:268
      float loaded_f32[32];  // test/cuda/probes.ts:270
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) loaded_f32[i] = 0;
      #pragma unroll
      for (u32 i = 0; i < 32; i += 4) if (i0 * 64 < x_dim0 && i1 * 64 < x_dim1) load_words<16>(loaded_f32, i, x + ((i0 * 64 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * x_dim1 + i1 * 64 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)));
      #pragma unroll
      for (u32 i = 0; i < 32; i += 4) if (i0 * 64 < y_dim0 && i1 * 64 < y_dim1) store_words<16>(y + ((i0 * 64 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * y_dim1 + i1 * 64 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)), loaded_f32, i);
    } else {
      float fragment[32];  // test/cuda/probes.ts:271
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) fragment[i] = 0.0f;
      #pragma unroll
      for (u32 i = 0; i < 32; i += 4) if (i0 * 64 < y_dim0 && i1 * 64 < y_dim1) store_words<16>(y + ((i0 * 64 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 64)) * y_dim1 + i1 * 64 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 64)), fragment, i);
    }
  }
}
