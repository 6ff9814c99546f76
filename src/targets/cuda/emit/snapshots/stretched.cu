// stretched, for 1 rank
// Assumes, for sm_90a:
//   x: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   y: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(128, 1) stretched(
    float* x,
    float* y,
    i32 x_dim0,
    i32 y_dim0,
    i32 y_dim1) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  kernel_before_ended();
  next_kernel_may_start();
  float loaded_f32[4];  // test/cuda/probes.ts:250
  #pragma unroll
  for (u32 i = 0; i < 4; i += 1) load_words<4>(loaded_f32, i, x + (i32)((u32)(i32)((u32)(i32)tile_row(i, thread) * 32u) + (u32)(i32)(thread / 32 % 4 * 8 + fragment_column(i, thread))));
  float row_max[2];  // test/cuda/probes.ts:251
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) row_max[i] = __int_as_float(0x7fffffff);
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) row_max[i / 2 % 2] = fmaxf(row_max[i / 2 % 2], loaded_f32[i]);
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) row_max[i] = across<1, 4>(row_max[i], [](float a, float b) { return fmaxf(a, b); });
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0) shared_store<float>(shared + 0 + (tile_row(i * 2, thread) * 4 + thread / 32 % 4) * 4, row_max[i]);
  __syncthreads();
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) { float total = __int_as_float(0x7fffffff); for (u32 w = 0; w < 4; ++w) total = fmaxf(total, shared_load<float>(shared + 0 + (tile_row(i * 2, thread) * 4 + w) * 4)); row_max[i] = total; }
  float sub[4];
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) sub[i] = (loaded_f32[i] - row_max[i / 2 % 2]);
  #pragma unroll
  for (u32 i = 0; i < 4; i += 1) store_words<4>(y + (0 * y_dim1 + (i32)((u32)(i32)((u32)(i32)tile_row(i, thread) * 32u) + (u32)(i32)(thread / 32 % 4 * 8 + fragment_column(i, thread)))), sub, i);
  float column_sum[2];  // test/cuda/probes.ts:252
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) column_sum[i] = 0.0f;
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) column_sum[i / 4 * 2 + i % 2] = column_sum[i / 4 * 2 + i % 2] + loaded_f32[i];
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) column_sum[i] = across<4, 32>(column_sum[i], [](float a, float b) { return a + b; });
  __syncthreads();
  #pragma unroll
  for (u32 i = 0; i < 2; i += 1) if (thread % 32 < 4 && thread < 128) store_words<4>(y + (1 * y_dim1 + (i32)(thread / 32 % 4 * 8 + (i / 2 * 8 + thread % 4 * 2 + i % 2))), column_sum, i);
  float loaded_f32_2[1];  // test/cuda/probes.ts:254
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) loaded_f32_2[i] = 0;
  #pragma unroll
  for (u32 i = 0; i < 1; i += 1) if ((i * 128 + thread) < 9 && (i32)(i * 128 + thread) < x_dim0) load_words<4>(loaded_f32_2, i, x + (i32)(i * 128 + thread));
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 9) shared_store<float>((shared + 256) + (((i * 128 + thread) / 1) + ((i * 128 + thread) % 1)) * 4, loaded_f32_2[i]);  // test/cuda/probes.ts:255
  __syncthreads();
  float moved[4];
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) moved[i] = (tile_row(i, thread) < 9 && fragment_column(i, thread) < 1) ? shared_load<float>((shared + 256) + (tile_row(i, thread) + fragment_column(i, thread)) * 4) : (float)0;
  float column_min[2];  // test/cuda/probes.ts:256
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) column_min[i] = __int_as_float(0x7fffffff);
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) if (tile_row(i, thread) < 9 && fragment_column(i, thread) < 1) column_min[i / 4 * 2 + i % 2] = fminf(column_min[i / 4 * 2 + i % 2], moved[i]);
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) column_min[i] = across<4, 32>(column_min[i], [](float a, float b) { return fminf(a, b); });
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) if (thread < 4 && (i / 2 * 8 + thread % 4 * 2 + i % 2) < 1) shared_store<float>((shared + 304) + ((i / 2 * 8 + thread % 4 * 2 + i % 2)) * 4, column_min[i]);  // test/cuda/probes.ts:257
  __syncthreads();
  const float stretched = shared_load<float>((shared + 304));
  float fragment[1];
  #pragma unroll
  for (u32 i = 0; i < 1; ++i) fragment[i] = stretched;
  #pragma unroll
  for (u32 i = 0; i < 1; i += 1) if ((i * 128 + thread) < 3 && 6 + (i32)((i * 128 + thread) / 1) < y_dim0) store_words<4>(y + ((6 + (i32)((i * 128 + thread) / 1)) * y_dim1 + (i32)((i * 128 + thread) % 1)), fragment, i);
  #pragma unroll
  for (u32 i = 0; i < 2; ++i) if (thread < 4 && (i / 2 * 8 + thread % 4 * 2 + i % 2) < 1) shared_store<float>((shared + 320) + ((i / 2 * 8 + thread % 4 * 2 + i % 2)) * 4, column_min[i]);
  __syncthreads();  // test/cuda/probes.ts:258
  const float stretched_2 = shared_load<float>((shared + 320));
  float add[4];
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) add[i] = (loaded_f32[i] + stretched_2);
  #pragma unroll
  for (u32 i = 0; i < 4; i += 2) if (32 < y_dim0) store_words<8>(y + ((32 + (i32)tile_row(i, thread)) * y_dim1 + (i32)(thread / 32 % 4 * 8 + fragment_column(i, thread))), add, i);
}
