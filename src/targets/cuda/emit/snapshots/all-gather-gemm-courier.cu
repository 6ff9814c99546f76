// allGatherGemmFusedByShard, for 2 ranks; BM = 16, BN = 128, BK = 64, stages = 4, aligned = false, ownRows = 0, ownColumns = 0
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024, 1024, 1024]; at least 1 element
//   b: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024, 1024, 1024]; at least 1 element
//   c: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024, 1024, 1024]; at least 1 element
//   inbox: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024, 1024, 1024]; at least 1 element
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) allGatherGemmFusedByShard(
    u16* a,
    u16* c,
    u16* inbox,
    i32 a_dim0,
    i32 a_dim1,
    i32 c_dim0,
    i32 c_dim1,
    i32 inbox_dim1,
    i32 inbox_dim2,
    i32 inbox_dim3,
    const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map,
    const __grid_constant__ TensorMap inbox_map,
    u32* arrived,
    u32* arrived_epochs,
    i32 rank,
    i64 heap_stride,
    u32* counters,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    tma_prefetch(a_map);
    tma_prefetch(b_map);
    tma_prefetch(inbox_map);
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 73728 + i * 8, 1);  // src/ops/gathered/product.ts:100
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 73760 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  if (thread == 32) { bring_near(arrived_epochs); bring_near(control); bring_near(counters + 0); }
  kernel_before_ended();
  next_kernel_may_start();
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 arrived_wait_epoch = *(volatile u32*)(arrived_epochs + 1) + 1;
  const u32 arrived_signal_epoch = *(volatile u32*)(arrived_epochs + 0) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 32 && last_program(counters + 0, gridDim.x)) {
    arrived_epochs[0] = arrived_signal_epoch;
    arrived_epochs[1] = arrived_wait_epoch;
  }
  const u32 b_tile = shared;  // src/ops/gathered/product.ts:68
  const u32 a_tile = shared + 65536;
  const u32 full = shared + 73728;  // src/ops/gathered/product.ts:100
  const u32 empty = shared + 73760;
  if (threadIdx.x < 128) {  // producer, courier
    if (threadIdx.x == 0) {  // producer
      u32 awaited_1 = 0;  // a bit for each of the first 32 flags that was waited for
      const i32 cast = (i32)(arrived_wait_epoch % 2u);  // src/ops/allGatherGemm/fusedByShard.ts:77
      const i32 c_dim0_ceil_16 = (i32)((u32)(c_dim0 + 15) / 16u);  // src/ops/gathered/product.ts:99
      const i32 c_dim1_ceil_128 = (i32)((u32)(c_dim1 + 127) / 128u);
      i32 slot = 0;
      i32 phase = 0;
      const u32 tiles = (u32)c_dim0_ceil_16 * (u32)c_dim1_ceil_128;
      for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
        if (tile / (u32)(i32)gridDim.x % 64 == 63 && abort_raised(control)) { copies_arrive(); break; }
        const TileIndex at = grouped_tile(tile, c_dim0_ceil_16, c_dim1_ceil_128, 8);
        const i32 i0 = at.row, i1 = at.column;
        const i32 a_dim1_ceil_64 = (i32)((u32)(a_dim1 + 63) / 64u);  // src/ops/gathered/product.ts:101
        i32 slot_2 = slot;  // src/ops/gathered/product.ts:100
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {
          i32 slot_3 = slot_2;
          i32 phase_3 = phase_2;
          for (i32 i1_2 = 0; i1_2 < a_dim1_ceil_64; ++i1_2) {
            if (!barrier_await(empty + slot_3 * 8, (phase_3 - 1) & 1, control)) break;
            const i32 rank_plus_i0_2_mod_2 = (i32)((u32)(rank + i0_2) % 2u);  // src/ops/gathered/product.ts:104
            barrier_expect_bytes(full + slot_3 * 8, 16384);  // src/ops/gathered/product.ts:106
            tma_load_2d(b_tile + slot_3 * 16384, b_map, full + slot_3 * 8, i1 * 128, (rank_plus_i0_2_mod_2 * a_dim1) + i1_2 * 64);
            tma_load_2d(b_tile + slot_3 * 16384 + 8192, b_map, full + slot_3 * 8, i1 * 128 + 64, (rank_plus_i0_2_mod_2 * a_dim1) + i1_2 * 64);
            if (rank_plus_i0_2_mod_2 == rank) {  // src/ops/allGatherGemm/fusedByShard.ts:79
              barrier_expect_bytes(full + slot_3 * 8, 2048);  // src/ops/allGatherGemm/fusedByShard.ts:81
              tma_load_2d(a_tile + slot_3 * 2048, a_map, full + slot_3 * 8, i1_2 * 64, i0 * 16);
            } else {
              const u32 arrived_index = (u32)rank_plus_i0_2_mod_2;  // src/ops/allGatherGemm/fusedByShard.ts:83
              if (arrived_index >= 32 || !(awaited_1 >> arrived_index & 1)) {
                flag_wait(arrived + rank_plus_i0_2_mod_2, arrived_wait_epoch * 4, control, 1, rank);
                fence_async();
                if (arrived_index < 32) awaited_1 |= 1u << arrived_index;
              }
              barrier_expect_bytes(full + slot_3 * 8, 2048);  // src/ops/allGatherGemm/fusedByShard.ts:84
              tma_load_4d(a_tile + slot_3 * 2048, inbox_map, full + slot_3 * 8, i1_2 * 64, i0 * 16, rank_plus_i0_2_mod_2, cast);
            }
            barrier_arrive(full + slot_3 * 8);  // src/ops/gathered/product.ts:100
            const i32 slot_3_plus_1 = slot_3 + 1;
            const bool eq = slot_3_plus_1 == 4;
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
    if (threadIdx.x >= 64 && threadIdx.x < 128) {
      const u32 thread = threadIdx.x - 64;
      const i32 cast = (i32)(arrived_signal_epoch % 2u);  // src/ops/allGatherGemm/fusedByShard.ts:62
      const i32 a_dim1_ceil_256 = (i32)((u32)(a_dim1 + 255) / 256u);  // src/ops/allGatherGemm/fusedByShard.ts:65
      const i32 programs_minus_1_minus_program = ((i32)gridDim.x - 1) - (i32)blockIdx.x;  // src/ops/allGatherGemm/fusedByShard.ts:67
      const i32 mul = (i32)((u32)(a_dim0 + 15) / 16u) * a_dim1_ceil_256;  // src/ops/allGatherGemm/fusedByShard.ts:68
      for (i32 i0 = programs_minus_1_minus_program; i0 < mul; i0 += (i32)gridDim.x) {
        if ((u32)(i0 - programs_minus_1_minus_program) / (u32)(i32)gridDim.x % 1024 == 1023 && group_any(2, 64, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
        const i32 i0_over_a_dim1_ceil_256 = i0 / a_dim1_ceil_256;  // src/ops/allGatherGemm/fusedByShard.ts:69
        const i32 i0_mod_a_dim1_ceil_256 = i0 % a_dim1_ceil_256;
        u32 loaded_bf16[32];  // src/ops/allGatherGemm/fusedByShard.ts:71
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) loaded_bf16[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 64; i += 8) if (i0_over_a_dim1_ceil_256 * 16 < a_dim0 && i0_mod_a_dim1_ceil_256 * 256 < a_dim1) load_words<16>(loaded_bf16, i / 2, a + ((i64)(i0_over_a_dim1_ceil_256 * 16 + (i32)((i / 8 * 512 + thread * 8 + i % 8) / 256)) * a_dim1 + i0_mod_a_dim1_ceil_256 * 256 + (i32)((i / 8 * 512 + thread * 8 + i % 8) % 256)));
        for (i32 i0_2 = 0; i0_2 < 1; ++i0_2) {  // src/ops/allGatherGemm/fusedByShard.ts:72
          #pragma unroll
          for (u32 i = 0; i < 64; i += 8) if (i0_over_a_dim1_ceil_256 * 16 < inbox_dim2 && i0_mod_a_dim1_ceil_256 * 256 < inbox_dim3) store_words<16>(on_rank(inbox, (i32)((u32)((rank + i0_2) + 1) % 2u) - rank, heap_stride) + ((i64)(((i64)(((i64)(cast) * inbox_dim1 + rank)) * inbox_dim2 + i0_over_a_dim1_ceil_256 * 16 + (i32)((i / 8 * 512 + thread * 8 + i % 8) / 256))) * inbox_dim3 + i0_mod_a_dim1_ceil_256 * 256 + (i32)((i / 8 * 512 + thread * 8 + i % 8) % 256)), loaded_bf16, i / 2);  // src/ops/allGatherGemm/fusedByShard.ts:73
        }
        group_barrier(2, 64);  // src/ops/allGatherGemm/fusedByShard.ts:75
        for (i32 i0_2 = thread; i0_2 < 1; i0_2 += 64) {
          flag_add(on_rank(arrived, (i32)((u32)((rank + i0_2) + 1) % 2u) - rank, heap_stride) + rank, 1);
        }
      }
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    const i32 c_dim0_ceil_16 = (i32)((u32)(c_dim0 + 15) / 16u);  // src/ops/gathered/product.ts:99
    const i32 c_dim1_ceil_128 = (i32)((u32)(c_dim1 + 127) / 128u);
    i32 slot = 0;
    i32 phase = 0;
    const u32 tiles = (u32)c_dim0_ceil_16 * (u32)c_dim1_ceil_128;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(3, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const TileIndex at = grouped_tile(tile, c_dim0_ceil_16, c_dim1_ceil_128, 8);
      const i32 i0 = at.row, i1 = at.column;
      const i32 a_dim1_ceil_64 = (i32)((u32)(a_dim1 + 63) / 64u);  // src/ops/gathered/product.ts:101
      u32 to_hand_back = 0;
      float acc[16];  // src/ops/gathered/product.ts:100
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // src/ops/gathered/product.ts:102
      i32 slot_2 = slot;  // src/ops/gathered/product.ts:100
      i32 phase_2 = phase;
      fragment_fence(acc);
      for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {
        i32 slot_3 = slot_2;
        i32 phase_3 = phase_2;
        for (i32 i1_2 = 0; i1_2 < a_dim1_ceil_64; ++i1_2) {
          barrier_await(full + slot_3 * 8, phase_3 & 1, control);
          wgmma_fence();  // src/ops/gathered/product.ts:108
          {
            const u64 right0 = wgmma_operand<128>(a_tile + slot_3 * 2048, 16, 1024);
            const u64 left0 = wgmma_operand<128>(b_tile + slot_3 * 16384, 8192, 1024);
            const u64 left1 = wgmma_operand<128>(b_tile + slot_3 * 16384 + 8192, 8192, 1024);
            #pragma unroll
            for (u32 step = 0; step < 4; ++step) {
              wgmma_m64n16k16_bf16<1, 0>(part<8>(acc, 0), left0 + step * 128, right0 + step * 2);
              wgmma_m64n16k16_bf16<1, 0>(part<8>(acc, 8), left1 + step * 128, right0 + step * 2);
            }
          }
          wgmma_commit();
          wgmma_wait<1>();  // waits until the previous matrix product has read its slot
          if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);  // src/ops/gathered/product.ts:100
          to_hand_back = empty + slot_3 * 8;
          const i32 slot_3_plus_1 = slot_3 + 1;
          const bool eq = slot_3_plus_1 == 4;
          slot_3 = eq ? 0 : slot_3_plus_1;
          phase_3 = eq ? (phase_3 + 1) : phase_3;
        }
        slot_2 = slot_3;
        phase_2 = phase_3;
      }
      wgmma_wait<0>();
      fragment_fence(acc);
      if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);
      u32 as_bf16[8];  // src/ops/gathered/product.ts:112
      #pragma unroll
      for (u32 p = 0; p < 8; ++p) as_bf16[p] = pack_bf16(acc[2 * p], acc[2 * p + 1]);
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) if (i0 * 16 < c_dim0 && i1 * 128 < c_dim1) *(c + ((i64)(i0 * 16 + (i32)fragment_column(i % 8, thread)) * c_dim1 + i1 * 128 + (i32)(fragment_row(i % 8, thread) + i / 8 * 64))) = half_at(as_bf16, i);
      slot = slot_2;
      phase = phase_2;
    }
  }
  __syncthreads();
}
