// elements, for 1 rank; B = 256
// Assumes, for sm_90a:
//   x: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   y: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   total: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   words: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   turns: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(128, 1) elements(
    float* x,
    float* y,
    float* total_2,
    u32* words,
    i32* turns,
    i32 x_dim0,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 127) { bring_near(control); }
  kernel_before_ended();
  const bool is_stopped = thread == 0 && abort_raised(control);
  if (__syncthreads_or(is_stopped)) return;
  const u32 tile = shared;  // test/cuda/probes.ts:152
  const i32 x_dim0_ceil_256 = (i32)((u32)(x_dim0 + 255) / 256u);  // test/cuda/probes.ts:153
  const u32 tiles = (u32)x_dim0_ceil_256;
  for (u32 tile_2 = (i32)blockIdx.x; tile_2 < tiles; tile_2 += (i32)gridDim.x) {
    if (tile_2 / (u32)(i32)gridDim.x % 64 == 63 && group_any(0, 128, thread == 0 && abort_raised(control))) break;
    const i32 i0 = (i32)(tile_2);
    float loaded_f32[2];  // test/cuda/probes.ts:155
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) loaded_f32[i] = (((i32)((u32)(i32)(i / 2 * 256 + thread * 2 + i % 2) + (u32)(i0 * 256)) < x_dim0)) ? (*(x + (i32)((u32)(i32)(i / 2 * 256 + thread * 2 + i % 2) + (u32)(i0 * 256)))) : 0.0f;
    float mul[2];  // test/cuda/probes.ts:156
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) mul[i] = (loaded_f32[i] * 2.0f);
    __syncthreads();
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) shared_store<float>(tile + ((i / 2 * 256 + thread * 2 + i % 2)) * 4, mul[i]);
    __syncthreads();  // test/cuda/probes.ts:157
    float loaded_f32_2[2];
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) loaded_f32_2[i] = shared_load<float>(tile + ((i32)((u32)(i32)(0u - (u32)(i32)(i / 2 * 256 + thread * 2 + i % 2)) + 255u)) * 4);
    float add[2];  // test/cuda/probes.ts:165
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) add[i] = (loaded_f32_2[i] + loaded_f32[i]);
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) if (((i32)((u32)(i32)(i / 2 * 256 + thread * 2 + i % 2) + (u32)(i0 * 256)) < x_dim0)) *(y + (i32)((u32)(i32)(i / 2 * 256 + thread * 2 + i % 2) + (u32)(i0 * 256))) = add[i];
    float sum = 0.0f;  // test/cuda/probes.ts:166
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) sum = sum + loaded_f32[i];
    sum = across<1, 32>(sum, [](float a, float b) { return a + b; });
    if (thread % 32 == 0) shared_store<float>(shared + 1024 + thread / 32 * 4, sum);
    __syncthreads();
    sum = 0.0f;
    for (u32 w = 0; w < 4; ++w) sum = sum + shared_load<float>(shared + 1024 + w * 4);
    __syncthreads();
    if (thread == 0) add_relaxed_sys_f32(total_2 + (0), sum);
    float max = __int_as_float(0x7fffffff);  // test/cuda/probes.ts:167
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) max = fmaxf(max, loaded_f32[i]);
    max = across<1, 32>(max, [](float a, float b) { return fmaxf(a, b); });
    if (thread % 32 == 0) shared_store<float>(shared + 1024 + thread / 32 * 4, max);
    __syncthreads();
    max = __int_as_float(0x7fffffff);
    for (u32 w = 0; w < 4; ++w) max = fmaxf(max, shared_load<float>(shared + 1024 + w * 4));
    __syncthreads();
    if (thread == 0) max_relaxed_sys_f32(total_2 + (1), max);
    float min = __int_as_float(0x7fffffff);  // test/cuda/probes.ts:168
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) min = fminf(min, loaded_f32[i]);
    min = across<1, 32>(min, [](float a, float b) { return fminf(a, b); });
    if (thread % 32 == 0) shared_store<float>(shared + 1024 + thread / 32 * 4, min);
    __syncthreads();
    min = __int_as_float(0x7fffffff);
    for (u32 w = 0; w < 4; ++w) min = fminf(min, shared_load<float>(shared + 1024 + w * 4));
    __syncthreads();
    if (thread == 0) min_relaxed_sys_f32(total_2 + (2), min);
  }
  const u32 cast = (u32)(i32)blockIdx.x;  // test/cuda/probes.ts:170
  __syncthreads();  // test/cuda/probes.ts:171
  if (thread == 0) add_release_gpu_u32(words + (0), (cast + 1u));
  if (thread == 0) add_relaxed_sys_u32(words + (1), (u32)(0 - 1u));  // test/cuda/probes.ts:172
  const u32 shl = 1u << cast;  // test/cuda/probes.ts:173
  if (thread == 0) or_relaxed_sys_u32(words + (2), shl);
  if (thread == 0) xor_relaxed_sys_u32(words + (3), cast);  // test/cuda/probes.ts:174
  if (thread == 0) and_relaxed_sys_u32(words + (4), (~shl));  // test/cuda/probes.ts:175
  __syncthreads();  // test/cuda/probes.ts:176
  if (thread == 0) shared_store<u32>(shared + 1024, xchg_acq_rel_sys_u32(words + (5), 7u));
  __syncthreads();
  const u32 before_xchg = shared_load<u32>(shared + 1024);
  __syncthreads();
  if (before_xchg != 7u) {  // test/cuda/probes.ts:178
    __syncthreads();
    if (thread == 0) store_release_gpu_u32(words + (6), 1u);
  }
  u32 taken = 1u;  // test/cuda/probes.ts:180
  for (u32 turns_2 = 1;; ++turns_2) {
    if (!(taken != 0u)) break;
    if (turns_2 % 64 == 0 && group_any(0, 128, thread == 0 && abort_raised(control))) {
      if (thread == 0) tell_wait(control, 1, 0xffffffff, 0, 0);
      break;
    }
    if (thread == 0) shared_store<u32>(shared + 1024, cas_acquire_gpu_u32(words + (7), 0u, 1u));  // test/cuda/probes.ts:183
    __syncthreads();
    const u32 before_cas = shared_load<u32>(shared + 1024);
    __syncthreads();
    taken = before_cas;
  }
  const i32 loaded = *(turns + (0));  // test/cuda/probes.ts:185
  __syncthreads();  // test/cuda/probes.ts:186
  if (thread == 0) *(turns + (0)) = (i32)((u32)loaded + 1u);
  __syncthreads();  // test/cuda/probes.ts:187
  if (thread == 0) xchg_release_gpu_u32(words + (7), 0u);
  __syncthreads();  // test/cuda/probes.ts:188
  asm volatile("fence.sc.gpu;" ::: "memory");
  __syncthreads();
}
