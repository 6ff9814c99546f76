// bytes, for 1 rank
// Assumes, for sm_90a:
//   x: starts at a multiple of 16 bytes; extents are multiples of [128]; 1 to 2^31 - 1 elements
//   y: starts at a multiple of 16 bytes; extents are multiples of [128]; 1 to 2^31 - 1 elements
//   out: starts at a multiple of 16 bytes; extents are multiples of [128]; 1 to 2^31 - 1 elements
//   sums: starts at a multiple of 16 bytes; extents are multiples of [128]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(128, 1) bytes(
    float* x,
    i8* y,
    u8* out,
    i64* sums) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  kernel_before_ended();
  next_kernel_may_start();
  float loaded_f32[1];  // test/cuda/probes.ts:238
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) loaded_f32[i] = 0;
  #pragma unroll
  for (u32 i = 0; i < 1; i += 1) if ((i * 128 + thread) < 64) load_words<4>(loaded_f32, i, x + (i32)(i * 128 + thread));
  i8 as_i8[1];  // test/cuda/probes.ts:239
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) as_i8[i] = f32_to_i8(loaded_f32[i]);
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 64) store_relaxed_cta_i8(y + (i32)(i * 128 + thread), as_i8[i]);
  u8 as_u8[1];  // test/cuda/probes.ts:240
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) as_u8[i] = f32_to_u8(loaded_f32[i]);
  __syncthreads();
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 64) store_release_sys_u8(out + (i32)(i * 128 + thread), as_u8[i]);
  i64 as_i64[1];  // test/cuda/probes.ts:241
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) as_i64[i] = f32_to_i64(loaded_f32[i]);
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 64) *(sums + (i32)(i * 128 + thread)) = as_i64[i];
  if (thread == 0) shared_store<i8>(shared + 0, load_acquire_sys_i8(y + (0)));  // test/cuda/probes.ts:242
  __syncthreads();
  const i8 loaded = shared_load<i8>(shared + 0);
  __syncthreads();
  if (thread == 0) *(y + (64)) = loaded;
  u8 loaded_u8[1];  // test/cuda/probes.ts:243
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) loaded_u8[i] = ((i * 128 + thread) < 64) ? load_relaxed_sys_u8(out + (i32)(i * 128 + thread)) : (u8)0;
  i64 as_i64_2[1];
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) as_i64_2[i] = ((i64)loaded_u8[i]);
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 64) *(sums + (i32)(i * 128 + thread)) = as_i64_2[i];
}
