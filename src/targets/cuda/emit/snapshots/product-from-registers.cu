// product, for 1 rank; M = 16, N = 16, K = 16, left = registers, right = registers
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [16, 16]; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; extents are multiples of [16, 16]; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; extents are multiples of [16, 16]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(128, 1) product(
    u16* a,
    u16* b,
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
  const u32 b_tile = shared + 512;  // test/cuda/probes.ts:85
  #pragma unroll 4
  for (u32 chunk = thread; chunk < 32; chunk += 128) {  // test/cuda/probes.ts:86
    const u32 row = chunk / 2, column = chunk % 2 * 8;
    Chunk value = {};
    value = *((Chunk*)(a + (((i32)row) * a_dim1 + (i32)column)));
    shared_store<Chunk>(a_tile + (row * 16 + column) * 2, value);
  }
  #pragma unroll 4
  for (u32 chunk = thread; chunk < 32; chunk += 128) {  // test/cuda/probes.ts:87
    const u32 row = chunk / 2, column = chunk % 2 * 8;
    Chunk value = {};
    value = *((Chunk*)(b + (((i32)row) * b_dim1 + (i32)column)));
    shared_store<Chunk>(b_tile + (row * 16 + column) * 2, value);
  }
  __syncthreads();  // test/cuda/probes.ts:88
  u32 loaded_bf16[4];
  #pragma unroll
  for (u32 p = 0; p < 4; ++p) loaded_bf16[p] = pack_bits(shared_load<u16>(a_tile + (tile_row((2 * p), thread) * 16 + fragment_column((2 * p), thread)) * 2), shared_load<u16>(a_tile + ((tile_row((2 * p + 1), thread)) * 16 + fragment_column((2 * p + 1), thread)) * 2));
  u32 loaded_bf16_2[1];  // test/cuda/probes.ts:89
  #pragma unroll
  for (u32 p = 0; p < 1; ++p) loaded_bf16_2[p] = pack_bits(shared_load<u16>(b_tile + ((((2 * p) / 2 * 256 + thread * 2 + (2 * p) % 2) / 16) * 16 + (((2 * p) / 2 * 256 + thread * 2 + (2 * p) % 2) % 16)) * 2), shared_load<u16>(b_tile + ((((2 * p + 1) / 2 * 256 + thread * 2 + (2 * p + 1) % 2) / 16) * 16 + (((2 * p + 1) / 2 * 256 + thread * 2 + (2 * p + 1) % 2) % 16)) * 2));
  #pragma unroll
  for (u32 p = 0; p < 1; ++p) shared_store<u32>((shared + 1024) + swizzled<32, 16>((((2 * p) / 2 * 256 + thread * 2 + (2 * p) % 2) / 16), (((2 * p) / 2 * 256 + thread * 2 + (2 * p) % 2) % 16) * 2), loaded_bf16_2[p]);
  __syncthreads();  // test/cuda/probes.ts:90
  float acc[4];
  #pragma unroll
  for (u32 i = 0; i < 4; ++i) acc[i] = 0.0f;
  #pragma unroll
  for (u32 step = 0; step < 1; ++step) {
    #pragma unroll
    for (u32 octet = 0; octet < 1; ++octet) {
      u32 right[2];
      load_matrix_transposed_x2(right, (shared + 1024) + swizzled<32, 16>((step * 16 + thread % 16), (thread / 32 % 2 * 8 + octet * 8 + thread % 32 / 16 * 8) * 2));
      mma_bf16(part<4>(acc, octet * 4), part<4>(loaded_bf16, step * 4), right[0], right[1]);
    }
  }
  #pragma unroll
  for (u32 i = 0; i < 4; i += 2) if (thread < 64) store_words<8>(c + (((i32)tile_row(i, thread)) * c_dim1 + (i32)(thread / 32 % 2 * 8 + fragment_column(i, thread))), acc, i);
}
