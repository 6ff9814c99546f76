// moves, for 1 rank; R = 32, C = 24
// Assumes, for sm_90a:
//   x: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   rows: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   gathered: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   scaled: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   turned: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   sums: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   some: starts at a multiple of 16 bytes; extents are multiples of [32, 32]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
// note: test/cuda/probes.ts:117:24: this product of f32 values does not use the matrix unit on sm_90a, which multiplies bf16 and f16 here; it becomes scalar multiply-adds. Use bf16 or f16 operands
extern "C" __global__ void __launch_bounds__(128, 1) moves(
    float* x,
    i32* rows,
    float* gathered,
    float* scaled,
    float* turned,
    float* sums,
    float* some,
    i32 x_dim1,
    i32 rows_dim0,
    i32 gathered_dim0,
    i32 gathered_dim1,
    i32 scaled_dim0,
    i32 scaled_dim1,
    i32 turned_dim0,
    i32 turned_dim1,
    i32 sums_dim0,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  kernel_before_ended();
  next_kernel_may_start();
  const u32 x_tile = shared;  // test/cuda/probes.ts:111
  const i32 rows_dim0_ceil_32 = (i32)((u32)(rows_dim0 + 31) / 32u);  // test/cuda/probes.ts:112
  const u32 tiles = (u32)rows_dim0_ceil_32;
  for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
    if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(0, 128, thread == 0 && abort_raised(control))) break;
    const i32 i0 = (i32)(tile);
    i32 loaded_i32[1];  // test/cuda/probes.ts:113
    #pragma unroll
    for (u32 i = 0; i < 1; ++i) loaded_i32[i] = 0;
    #pragma unroll
    for (u32 i = 0; i < 1; i += 1) if ((i * 128 + thread) < 32 && i0 * 32 < rows_dim0) load_words<4>(loaded_i32, i, rows + (i0 * 32 + (i32)(i * 128 + thread)));
    __syncthreads();
    #pragma unroll
    for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 32) shared_store<i32>((shared + 3072) + ((i * 128 + thread)) * 4, loaded_i32[i]);
    __syncthreads();
    #pragma unroll 4
    for (u32 chunk = thread; chunk < 192; chunk += 128) {
      const u32 row = chunk / 6, column = chunk % 6 * 4;
      Chunk value = {};
      if ((i32)column < x_dim1) value = *((Chunk*)(x + ((shared_load<i32>(shared + 3072 + row * 4)) * x_dim1 + (i32)column)));
      shared_store<Chunk>(x_tile + (row * 24 + column) * 4, value);
    }
    __syncthreads();  // test/cuda/probes.ts:114
    float loaded_f32[12];
    #pragma unroll
    for (u32 i = 0; i < 12; ++i) loaded_f32[i] = shared_load<float>(x_tile + ((thread / 64 * 16 + tile_row(i, thread)) * 24 + fragment_column(i, thread)) * 4);
    #pragma unroll 4
    for (u32 chunk = thread; chunk < 192; chunk += 128) {  // test/cuda/probes.ts:115
      const u32 row = chunk / 6, column = chunk % 6 * 4;
      if (i0 * 32 < gathered_dim0 && (i32)column < gathered_dim1) *((Chunk*)(gathered + ((i0 * 32 + (i32)row) * gathered_dim1 + (i32)column))) = shared_load<Chunk>(x_tile + (row * 24 + column) * 4);
    }
    float column_sum[6];  // test/cuda/probes.ts:116
    #pragma unroll
    for (u32 i = 0; i < 6; ++i) column_sum[i] = 0.0f;
    #pragma unroll
    for (u32 i = 0; i < 12; ++i) column_sum[i / 4 * 2 + i % 2] = column_sum[i / 4 * 2 + i % 2] + loaded_f32[i];
    #pragma unroll
    for (u32 i = 0; i < 6; ++i) column_sum[i] = across<4, 32>(column_sum[i], [](float a, float b) { return a + b; });
    #pragma unroll
    for (u32 i = 0; i < 6; ++i) if (thread % 32 < 4) shared_store<float>(shared + 3200 + (thread / 64 * 24 + (i / 2 * 8 + thread % 4 * 2 + i % 2)) * 4, column_sum[i]);
    __syncthreads();
    #pragma unroll
    for (u32 i = 0; i < 6; ++i) { float total = 0.0f; for (u32 w = 0; w < 2; ++w) total = total + shared_load<float>(shared + 3200 + (w * 24 + (i / 2 * 8 + thread % 4 * 2 + i % 2)) * 4); column_sum[i] = total; }
    #pragma unroll
    for (u32 i = 0; i < 12; ++i) if (thread / 32 % 2 < 1) shared_store<float>((shared + 3392) + ((thread / 64 * 16 + tile_row(i, thread)) * 24 + fragment_column(i, thread)) * 4, loaded_f32[i]);  // test/cuda/probes.ts:114
    __syncthreads();  // test/cuda/probes.ts:117
    float moved[8];
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) moved[i] = ((i / 4 * 512 + thread * 4 + i % 4) < 768) ? shared_load<float>((shared + 3392) + (((i / 4 * 512 + thread * 4 + i % 4) % 32) * 24 + ((i / 4 * 512 + thread * 4 + i % 4) / 32)) * 4) : (float)0;
    #pragma unroll
    for (u32 i = 0; i < 12; ++i) if (thread / 32 % 2 < 1) shared_store<float>((shared + 7168) + ((thread / 64 * 16 + tile_row(i, thread)) * 24 + fragment_column(i, thread)) * 4, loaded_f32[i]);  // test/cuda/probes.ts:114
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) if ((i / 4 * 512 + thread * 4 + i % 4) < 768) shared_store<float>((shared + 7168 + 3072) + (((i / 4 * 512 + thread * 4 + i % 4) / 32) * 32 + ((i / 4 * 512 + thread * 4 + i % 4) % 32)) * 4, moved[i]);  // test/cuda/probes.ts:117
    __syncthreads();
    float acc[8];
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) acc[i] = 0.0f;
    #pragma unroll 2
    for (u32 step = 0; step < 24; ++step) {
      float left[2], right[4];
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) left[i] = shared_load<float>((shared + 7168) + ((thread / 64 * 16 + tile_row(i % 2 * 2, thread)) * 24 + step) * 4);
      #pragma unroll
      for (u32 i = 0; i < 4; ++i) right[i] = shared_load<float>((shared + 7168 + 3072) + (step * 32 + (thread / 32 % 2 * 16 + (i / 2 * 8 + thread % 4 * 2 + i % 2))) * 4);
      #pragma unroll
      for (u32 i = 0; i < 8; ++i) acc[i] = fmaf(left[i / 2 % 2], right[i / 4 * 2 + i % 2], acc[i]);
    }
    float row_sum[2];  // test/cuda/probes.ts:118
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) row_sum[i] = 0.0f;
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) row_sum[i / 2 % 2] = row_sum[i / 2 % 2] + acc[i];
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) row_sum[i] = across<1, 4>(row_sum[i], [](float a, float b) { return a + b; });
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0) shared_store<float>(shared + 13312 + ((thread / 64 * 16 + tile_row(i % 2 * 2, thread)) * 2 + thread / 32 % 2) * 4, row_sum[i]);
    __syncthreads();
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) { float total = 0.0f; for (u32 w = 0; w < 2; ++w) total = total + shared_load<float>(shared + 13312 + ((thread / 64 * 16 + tile_row(i % 2 * 2, thread)) * 2 + w) * 4); row_sum[i] = total; }
    float mul[8];  // test/cuda/probes.ts:119
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) mul[i] = (acc[i] * row_sum[i / 2 % 2]);
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && thread / 32 % 2 < 1) shared_store<float>((shared + 13568) + ((thread / 64 * 16 + tile_row(i % 2 * 2, thread))) * 4, row_sum[i]);
    __syncthreads();
    float moved_2[4];
    #pragma unroll
    for (u32 i = 0; i < 4; ++i) moved_2[i] = shared_load<float>((shared + 13568) + ((thread / 32 % 2 * 16 + (i / 2 * 8 + thread % 4 * 2 + i % 2))) * 4);
    float mul_2[8];
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) mul_2[i] = (mul[i] * moved_2[i / 4 * 2 + i % 2]);
    #pragma unroll
    for (u32 i = 0; i < 8; i += 2) if (i0 * 32 < scaled_dim0) store_words<8>(scaled + ((i0 * 32 + (i32)(thread / 64 * 16 + tile_row(i, thread))) * scaled_dim1 + (i32)(thread / 32 % 2 * 16 + fragment_column(i, thread))), mul_2, i);
    float mul_3[12];  // test/cuda/probes.ts:120
    #pragma unroll
    for (u32 i = 0; i < 12; ++i) mul_3[i] = (loaded_f32[i] * column_sum[i / 4 * 2 + i % 2]);
    #pragma unroll
    for (u32 i = 0; i < 12; ++i) if (thread / 32 % 2 < 1) shared_store<float>((shared + 13696) + ((thread / 64 * 16 + tile_row(i, thread)) * 24 + fragment_column(i, thread)) * 4, mul_3[i]);
    __syncthreads();
    float moved_3[8];
    #pragma unroll
    for (u32 i = 0; i < 8; ++i) moved_3[i] = ((i / 4 * 512 + thread * 4 + i % 4) < 768) ? shared_load<float>((shared + 13696) + (((i / 4 * 512 + thread * 4 + i % 4) % 32) * 24 + ((i / 4 * 512 + thread * 4 + i % 4) / 32)) * 4) : (float)0;
    #pragma unroll
    for (u32 i = 0; i < 8; i += 4) if ((i / 4 * 512 + thread * 4 + i % 4) < 768 && i0 * 24 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 32) < turned_dim0) store_words<16>(turned + ((i0 * 24 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 32)) * turned_dim1 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 32)), moved_3, i);
    #pragma unroll
    for (u32 i = 0; i < 1; ++i) if ((i * 128 + thread) < 24 && (((i32)(i * 128 + thread) % 2) == 0)) *(some + (i32)((u32)(i32)((u32)(i32)(0u - (u32)(i32)(i * 128 + thread)) + 23u) + (u32)(i0 * 24))) = *(sums + (i32)((u32)(i32)(i * 128 + thread) + (u32)(i0 * 24)));  // test/cuda/probes.ts:123
    __syncthreads();  // test/cuda/probes.ts:133
    #pragma unroll
    for (u32 i = 0; i < 6; i += 2) if (thread < 4 && i0 * 24 + (i32)(i / 2 * 8 + thread % 4 * 2 + i % 2) < sums_dim0) store_words<8>(sums + (i0 * 24 + (i32)(i / 2 * 8 + thread % 4 * 2 + i % 2)), column_sum, i);
  }
}
