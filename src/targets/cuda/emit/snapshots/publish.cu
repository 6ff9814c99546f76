// publish, for 2 ranks; BM = 64, BN = 256
// Assumes, for sm_90a:
//   source: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off
extern "C" __global__ void __launch_bounds__(128, 1) publish(
    u16* source,
    u16* a,
    i32 source_dim0,
    i32 source_dim1,
    i32 a_dim0,
    i32 a_dim1,
    u32* ready,
    u32* done,
    u32* ready_epochs,
    u32* done_epochs,
    i32 rank,
    u32* counters,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 127) { bring_near(done_epochs); bring_near(ready_epochs); bring_near(control); bring_near(counters + 1); }
  kernel_before_ended();
  next_kernel_may_start();
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 done_wait_epoch = *(volatile u32*)(done_epochs + 1) + 1;
  const u32 ready_signal_epoch = *(volatile u32*)(ready_epochs + 0) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 127 && last_program(counters + 1, gridDim.x)) {
    ready_epochs[0] = ready_signal_epoch;
    done_epochs[1] = done_wait_epoch;
  }
  for (i32 i0 = thread; i0 < 2; i0 += 128) {  // src/ops/allGatherGemm/publish.ts:13
    flag_wait(done + i0, (done_wait_epoch - 1), control, 1, rank);
  }
  __syncthreads();
  const i32 a_dim0_ceil_64 = (i32)((u32)(a_dim0 + 63) / 64u);  // src/ops/allGatherGemm/publish.ts:14
  const i32 a_dim1_ceil_256 = (i32)((u32)(a_dim1 + 255) / 256u);
  const u32 tiles = (u32)a_dim0_ceil_64 * (u32)a_dim1_ceil_256;
  for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
    if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(0, 128, thread == 0 && abort_raised(control))) break;
    const i32 i1 = (i32)(tile % (u32)a_dim1_ceil_256);
    const i32 i0 = (i32)((tile / (u32)a_dim1_ceil_256));
    #pragma unroll 4
    for (u32 chunk = thread; chunk < 2048; chunk += 128) {
      const u32 row = chunk / 32, column = chunk % 32 * 8;
      if (i0 * 64 < source_dim0 && i1 * 256 < source_dim1 && i0 * 64 < a_dim0 && i1 * 256 < a_dim1) *((Chunk*)(a + ((i0 * 64 + (i32)row) * a_dim1 + i1 * 256 + (i32)column))) = *((Chunk*)(source + ((i0 * 64 + (i32)row) * source_dim1 + i1 * 256 + (i32)column)));
    }
  }
  __syncthreads();  // src/ops/allGatherGemm/publish.ts:15
  if (thread == 0) shared_store<u32>(shared + 0, (u32)last_program(counters + 0, gridDim.x));
  __syncthreads();
  const u32 is_last = shared_load<u32>(shared + 0);
  __syncthreads();
  if (is_last) {
    __syncthreads();
    if (thread == 0) flag_store(ready, ready_signal_epoch);
  }
}
