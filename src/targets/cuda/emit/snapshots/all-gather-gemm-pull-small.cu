// allGatherGemmPullK, for 2 ranks; BM = 64, BN = 64, BK = 32, stages = 3, aligned = false, ownRows = 0, ownColumns = 0
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) allGatherGemmPullK(
    i32 a_dim1,
    i32 c_dim0,
    i32 c_dim1,
    const __grid_constant__ TensorMap a_all_ranks_map,
    const __grid_constant__ TensorMap b_map,
    const __grid_constant__ TensorMap c_map,
    u32* ready,
    u32* done,
    u32* ready_epochs,
    u32* done_epochs,
    i32 rank,
    i64 heap_stride,
    u32* counters,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    tma_prefetch(a_all_ranks_map);
    tma_prefetch(b_map);
    tma_prefetch(c_map);
    for (u32 i = 0; i < 3; ++i) barrier_init(shared + 40960 + i * 8, 1);  // src/ops/gathered/product.ts:100
    for (u32 i = 0; i < 3; ++i) barrier_init(shared + 40984 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  if (thread == 32) { bring_near(ready_epochs); bring_near(done_epochs); bring_near(control); bring_near(counters + 1); }
  kernel_before_ended();
  next_kernel_may_start();
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 ready_wait_epoch = *(volatile u32*)(ready_epochs + 1) + 1;
  const u32 ready_signal_epoch = *(volatile u32*)(ready_epochs + 0) + 1;
  const u32 done_signal_epoch = *(volatile u32*)(done_epochs + 0) + 1;
  const u32 done_wait_epoch = *(volatile u32*)(done_epochs + 1) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 32 && last_program(counters + 1, gridDim.x)) {
    ready_epochs[0] = ready_signal_epoch;
    done_epochs[0] = done_signal_epoch;
    ready_epochs[1] = ready_wait_epoch;
    done_epochs[1] = done_wait_epoch;
  }
  const u32 b_tile = shared;  // src/ops/gathered/product.ts:68
  const u32 a_tile = shared + 12288;
  const u32 full = shared + 40960;  // src/ops/gathered/product.ts:100
  const u32 empty = shared + 40984;
  if (threadIdx.x < 128) {  // producer
    if (threadIdx.x == 0) {
      u32 awaited_1 = 0;  // a bit for each of the first 32 flags that was waited for
      const i32 c_dim0_ceil_64 = (i32)((u32)(c_dim0 + 63) / 64u);  // src/ops/gathered/product.ts:99
      const i32 c_dim1_ceil_64 = (i32)((u32)(c_dim1 + 63) / 64u);
      i32 slot = 0;
      i32 phase = 0;
      const u32 tiles = (u32)c_dim0_ceil_64 * (u32)c_dim1_ceil_64;
      for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
        if (tile / (u32)(i32)gridDim.x % 64 == 63 && abort_raised(control)) { copies_arrive(); break; }
        const TileIndex at = grouped_tile(tile, c_dim0_ceil_64, c_dim1_ceil_64, 8);
        const i32 i0 = at.row, i1 = at.column;
        const i32 a_dim1_ceil_32 = (i32)((u32)(a_dim1 + 31) / 32u);  // src/ops/gathered/product.ts:101
        i32 slot_2 = slot;  // src/ops/gathered/product.ts:100
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {
          i32 slot_3 = slot_2;
          i32 phase_3 = phase_2;
          for (i32 i1_2 = 0; i1_2 < a_dim1_ceil_32; ++i1_2) {
            if (!barrier_await(empty + slot_3 * 8, (phase_3 - 1) & 1, control)) break;
            const i32 rank_plus_i0_2_mod_2 = (i32)((u32)(rank + i0_2) % 2u);  // src/ops/gathered/product.ts:104
            barrier_expect_bytes(full + slot_3 * 8, 4096);  // src/ops/gathered/product.ts:106
            tma_load_2d(b_tile + slot_3 * 4096, b_map, full + slot_3 * 8, i1 * 64, (rank_plus_i0_2_mod_2 * a_dim1) + i1_2 * 32);
            if (rank_plus_i0_2_mod_2 != rank) {  // src/ops/allGatherGemm/pullInPlace.ts:25
              const u32 ready_index = (u32)rank_plus_i0_2_mod_2;
              if (ready_index >= 32 || !(awaited_1 >> ready_index & 1)) {
                flag_wait(ready + rank_plus_i0_2_mod_2, ready_wait_epoch, control, 1, rank);
                fence_async();
                if (ready_index < 32) awaited_1 |= 1u << ready_index;
              }
            }
            barrier_expect_bytes(full + slot_3 * 8, 4096);  // src/ops/allGatherGemm/pullInPlace.ts:26
            tma_load_3d(a_tile + slot_3 * 4096, a_all_ranks_map, full + slot_3 * 8, i1_2 * 32, i0 * 64, rank_plus_i0_2_mod_2);
            barrier_arrive(full + slot_3 * 8);  // src/ops/gathered/product.ts:100
            const i32 slot_3_plus_1 = slot_3 + 1;
            const bool eq = slot_3_plus_1 == 3;
            slot_3 = eq ? 0 : slot_3_plus_1;
            phase_3 = eq ? (phase_3 + 1) : phase_3;
          }
          slot_2 = slot_3;
          phase_2 = phase_3;
        }
        slot = slot_2;
        phase = phase_2;
      }
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    if ((i32)blockIdx.x == 0) {  // src/ops/meeting.ts:10
      group_barrier(2, 128);
      for (i32 i0 = thread; i0 < 2; i0 += 128) {
        flag_store(on_rank(ready, (i32)((u32)(rank + i0) % 2u) - rank, heap_stride) + rank, ready_signal_epoch);
      }
    }
    const i32 c_dim0_ceil_64 = (i32)((u32)(c_dim0 + 63) / 64u);  // src/ops/gathered/product.ts:99
    const i32 c_dim1_ceil_64 = (i32)((u32)(c_dim1 + 63) / 64u);
    i32 slot = 0;
    i32 phase = 0;
    const u32 tiles = (u32)c_dim0_ceil_64 * (u32)c_dim1_ceil_64;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const TileIndex at = grouped_tile(tile, c_dim0_ceil_64, c_dim1_ceil_64, 8);
      const i32 i0 = at.row, i1 = at.column;
      const i32 a_dim1_ceil_32 = (i32)((u32)(a_dim1 + 31) / 32u);  // src/ops/gathered/product.ts:101
      u32 to_hand_back = 0;
      float acc[32];  // src/ops/gathered/product.ts:100
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) acc[i] = 0.0f;  // src/ops/gathered/product.ts:102
      i32 slot_2 = slot;  // src/ops/gathered/product.ts:100
      i32 phase_2 = phase;
      fragment_fence(acc);
      for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {
        i32 slot_3 = slot_2;
        i32 phase_3 = phase_2;
        for (i32 i1_2 = 0; i1_2 < a_dim1_ceil_32; ++i1_2) {
          barrier_await(full + slot_3 * 8, phase_3 & 1, control);
          wgmma_fence();  // src/ops/gathered/product.ts:108
          {
            const u64 right0 = wgmma_operand<128>(b_tile + slot_3 * 4096, 4096, 1024);
            const u64 left0 = wgmma_operand<64>(a_tile + slot_3 * 4096, 16, 512);
            #pragma unroll
            for (u32 step = 0; step < 2; ++step) {
              wgmma_m64n64k16_bf16<0, 1>(acc, left0 + step * 2, right0 + step * 128);
            }
          }
          wgmma_commit();
          wgmma_wait<1>();  // waits until the previous matrix product has read its slot
          if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);  // src/ops/gathered/product.ts:100
          to_hand_back = empty + slot_3 * 8;
          const i32 slot_3_plus_1 = slot_3 + 1;
          const bool eq = slot_3_plus_1 == 3;
          slot_3 = eq ? 0 : slot_3_plus_1;
          phase_3 = eq ? (phase_3 + 1) : phase_3;
        }
        slot_2 = slot_3;
        phase_2 = phase_3;
      }
      wgmma_wait<0>();
      fragment_fence(acc);
      if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);
      u32 as_bf16[16];  // src/ops/gathered/product.ts:112
      #pragma unroll
      for (u32 p = 0; p < 16; ++p) as_bf16[p] = pack_bf16(acc[2 * p], acc[2 * p + 1]);
      if (thread % 128 == 0) tma_store_wait_read<0>();
      #pragma unroll
      for (u32 box = 0; box < 1; ++box) {
        const u32 staging = shared + 24576 + box % 2 * 8192;
        if (thread % 128 == 0) tma_store_wait_read<1>();  // TMA has read the previous box in this staging buffer
        group_barrier(3, 128);
        stage_halves(staging, as_bf16, box * 16, thread);
        fence_async_shared();
        group_barrier(3, 128);
        if (thread % 128 == 0) {
          tma_store_2d(c_map, staging, i1 * 64 + (i32)(box * 64), i0 * 64);
          tma_store_commit();
        }
      }
      slot = slot_2;
      phase = phase_2;
    }
    if (thread % 128 == 0) tma_store_wait_done<0>();
    group_barrier(2, 128);  // src/ops/meeting.ts:15
    if (thread == 0) shared_store<u32>(shared + 41024, (u32)last_program(counters + 0, gridDim.x));
    group_barrier(2, 128);
    const u32 is_last = shared_load<u32>(shared + 41024);
    group_barrier(2, 128);
    if (is_last) {
      group_barrier(2, 128);
      group_barrier(2, 128);  // src/ops/meeting.ts:16
      for (i32 i0 = thread; i0 < 2; i0 += 128) {
        flag_store(on_rank(done, (i32)((u32)(rank + i0) % 2u) - rank, heap_stride) + rank, done_signal_epoch);
      }
      for (i32 i0 = thread; i0 < 2; i0 += 128) {  // src/ops/meeting.ts:17
        flag_wait(done + i0, done_wait_epoch, control, 2, rank);
      }
      group_barrier(2, 128);
    }
  }
  __syncthreads();
}
