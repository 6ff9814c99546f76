// product, for 1 rank; M = 16, N = 16, K = 16, left = shared, right = transposed
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [16, 16]; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; extents are multiples of [16, 16]; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; extents are multiples of [16, 16]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
// note: test/cuda/probes.ts:90:41: this product of f8e4m3 values does not use the matrix unit on sm_90a, which multiplies bf16 and f16 here; it becomes scalar multiply-adds. Use bf16 or f16 operands
extern "C" __global__ void __launch_bounds__(128, 1) product(
    u8* a,
    u8* b,
    float* c,
    i32 a_dim1,
    i32 b_dim1,
    i32 c_dim1) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  kernel_before_ended();
  next_kernel_may_start();
  const u32 a_tile = shared;  // test/cuda/probes.ts:84
  const u32 b_tile = shared + 256;  // test/cuda/probes.ts:85
  #pragma unroll 4
  for (u32 chunk = thread; chunk < 16; chunk += 128) {  // test/cuda/probes.ts:86
    const u32 row = chunk / 1, column = chunk % 1 * 16;
    Chunk value = {};
    value = *((Chunk*)(a + (((i32)row) * a_dim1 + (i32)column)));
    shared_store<Chunk>(a_tile + (row * 16 + column), value);
  }
  #pragma unroll 4
  for (u32 chunk = thread; chunk < 16; chunk += 128) {  // test/cuda/probes.ts:87
    const u32 row = chunk / 1, column = chunk % 1 * 16;
    Chunk value = {};
    value = *((Chunk*)(b + (((i32)row) * b_dim1 + (i32)column)));
    shared_store<Chunk>(b_tile + (row * 16 + column), value);
  }
  __syncthreads();  // test/cuda/probes.ts:90
  float acc[4];
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) acc[i] = 0.0f;
  #pragma unroll 2
  for (u32 step = 0; step < 16; ++step) {
    float left[2], right[2];
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) left[i] = f8e4m3_to_f32(shared_load<u8>(a_tile + (tile_row(i * 2, thread) * 16 + step)));
    #pragma unroll
    for (u32 i = 0; i < 2; ++i) right[i] = f8e4m3_to_f32(shared_load<u8>(b_tile + ((thread / 32 % 2 * 8 + (i / 2 * 8 + thread % 4 * 2 + i % 2)) * 16 + step)));
    #pragma unroll
    for (u32 i = 0; i < 4; ++i) acc[i] = fmaf(left[i / 2 % 2], right[i / 4 * 2 + i % 2], acc[i]);
  }
  #pragma unroll
  for (u32 i = 0; i < 4; i += 2) if (thread < 64) store_words<8>(c + (((i32)tile_row(i, thread)) * c_dim1 + (i32)(thread / 32 % 2 * 8 + fragment_column(i, thread))), acc, i);
}
