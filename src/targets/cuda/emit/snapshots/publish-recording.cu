// publish, for 2 ranks; BM = 64, BN = 256
// Assumes, for sm_90a:
//   source: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: on
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
    Control* control,
    Log* event_log) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 127) { bring_near(done_epochs); bring_near(ready_epochs); bring_near(control); bring_near(counters + 1); }
  kernel_before_ended();
  next_kernel_may_start();
  if (thread == 0) program_begins(shared + 16, 1);
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 done_wait_epoch = *(volatile u32*)(done_epochs + 1) + 1;
  const u32 ready_signal_epoch = *(volatile u32*)(ready_epochs + 0) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 127 && last_program(counters + 1, gridDim.x)) {
    ready_epochs[0] = ready_signal_epoch;
    done_epochs[1] = done_wait_epoch;
  }
  u32 awaited_1 = 0;  // which of the first 32 flags were
  for (i32 i0 = 0; i0 < 2; ++i0) {  // src/ops/allGatherGemm/publish.ts:13
    const u32 done_index = (u32)i0;
    if (done_index >= 32 || !(awaited_1 >> done_index & 1)) {
      if (thread == 0) flag_wait_recorded(done + i0, (done_wait_epoch - 1), control, 1, rank, event_log, 0, shared + 48, 2u);
      __syncthreads();
      if (done_index < 32) awaited_1 |= 1u << done_index;
    }
  }
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
  __syncthreads();
  if (thread == 0) program_ends(event_log, shared + 16, 1u);
}
