// gemmInShares, for 1 rank; BM = 16, BN = 128, BK = 64, stages = 4
// Assumes, for sm_90a:
//   a: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   b: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   c: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   sums: starts at a multiple of 16 bytes; extents are multiples of [1024, 1024]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off
extern "C" __global__ void __launch_bounds__(256, 1) gemmInShares(
    u16* c,
    float* sums,
    i32 a_dim1,
    i32 c_dim0,
    i32 c_dim1,
    i32 sums_dim1,
    i32 sums_dim2,
    const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map,
    u32* ready,
    u32* ready_epochs,
    i32 rank,
    u32* counters,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    tma_prefetch(a_map);
    tma_prefetch(b_map);
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 73728 + i * 8, 1);  // src/ops/gemmInShares.ts:48
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 73760 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  if (thread == 32) { bring_near(ready_epochs); bring_near(control); bring_near(counters + 0); }
  kernel_before_ended();
  next_kernel_may_start();
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 ready_wait_epoch = *(volatile u32*)(ready_epochs + 1) + 1;
  const u32 ready_signal_epoch = *(volatile u32*)(ready_epochs + 0) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 32 && last_program(counters + 0, gridDim.x)) {
    ready_epochs[0] = ready_signal_epoch;
    ready_epochs[1] = ready_wait_epoch;
  }
  const u32 a_tile = shared;  // src/ops/gemmInShares.ts:36
  const u32 b_tile = shared + 8192;  // src/ops/gemmInShares.ts:37
  const u32 full = shared + 73728;  // src/ops/gemmInShares.ts:48
  const u32 empty = shared + 73760;
  if (threadIdx.x < 128) {  // producer
    if (threadIdx.x == 0) {
      u32 awaited_1 = 0;  // which of the first 32 flags were
      const i32 a_dim1_ceil_64 = (i32)((u32)(a_dim1 + 63) / 64u);  // src/ops/gemmInShares.ts:38
      const i32 c_dim1_ceil_128 = (i32)((u32)(c_dim1 + 127) / 128u);  // src/ops/gemmInShares.ts:39
      const i32 mul = (i32)((u32)(c_dim0 + 15) / 16u) * c_dim1_ceil_128;  // src/ops/gemmInShares.ts:40
      const i32 mul_2 = mul * a_dim1_ceil_64;
      const i32 div = ((mul_2 + (i32)gridDim.x) - 1) / (i32)gridDim.x;  // src/ops/gemmInShares.ts:41
      const i32 min = (i32)((u32)(i32)blockIdx.x * (u32)div) < mul_2 ? (i32)((u32)(i32)blockIdx.x * (u32)div) : mul_2;  // src/ops/gemmInShares.ts:42
      const i32 min_2 = (i32)((u32)min + (u32)div) < mul_2 ? (i32)((u32)min + (u32)div) : mul_2;  // src/ops/gemmInShares.ts:43
      const i32 min_over_a_dim1_ceil_64 = min / a_dim1_ceil_64;  // src/ops/gemmInShares.ts:44
      const i32 div_2 = ((i32)((u32)min_2 + (u32)a_dim1_ceil_64) - 1) / a_dim1_ceil_64;
      i32 slot = 0;
      i32 phase = 0;
      for (i32 i0 = min_over_a_dim1_ceil_64; i0 < div_2; ++i0) {
        if ((u32)(i0 - min_over_a_dim1_ceil_64) % 1024 == 1023 && abort_raised(control)) { copies_arrive(); break; }
        const i32 i0_over_c_dim1_ceil_128 = i0 / c_dim1_ceil_128;  // src/ops/gemmInShares.ts:45
        const i32 i0_mod_c_dim1_ceil_128 = i0 % c_dim1_ceil_128;
        const i32 i0_times_a_dim1_ceil_64 = (i32)((u32)i0 * (u32)a_dim1_ceil_64);  // src/ops/gemmInShares.ts:46
        const i32 max = (min - i0_times_a_dim1_ceil_64) > 0 ? (min - i0_times_a_dim1_ceil_64) : 0;  // src/ops/gemmInShares.ts:47
        const i32 min_3 = (min_2 - i0_times_a_dim1_ceil_64) < a_dim1_ceil_64 ? (min_2 - i0_times_a_dim1_ceil_64) : a_dim1_ceil_64;  // src/ops/gemmInShares.ts:49
        const i32 min_3_minus_max = min_3 - max;
        i32 slot_2 = slot;  // src/ops/gemmInShares.ts:48
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < min_3_minus_max; ++i0_2) {
          if (!barrier_await(empty + slot_2 * 8, (phase_2 - 1) & 1, control)) break;
          const i32 max_plus_i0_2 = max + i0_2;  // src/ops/gemmInShares.ts:52
          barrier_expect_bytes(full + slot_2 * 8, 2048);  // src/ops/gemmInShares.ts:53
          tma_load_2d(a_tile + slot_2 * 2048, a_map, full + slot_2 * 8, max_plus_i0_2 * 64, i0_over_c_dim1_ceil_128 * 16);
          barrier_expect_bytes(full + slot_2 * 8, 16384);  // src/ops/gemmInShares.ts:54
          tma_load_2d(b_tile + slot_2 * 16384, b_map, full + slot_2 * 8, i0_mod_c_dim1_ceil_128 * 128, max_plus_i0_2 * 64);
          tma_load_2d(b_tile + slot_2 * 16384 + 8192, b_map, full + slot_2 * 8, i0_mod_c_dim1_ceil_128 * 128 + 64, max_plus_i0_2 * 64);
          barrier_arrive(full + slot_2 * 8);  // src/ops/gemmInShares.ts:48
          const i32 slot_2_plus_1 = slot_2 + 1;
          const bool eq = slot_2_plus_1 == 4;
          slot_2 = eq ? 0 : slot_2_plus_1;
          phase_2 = eq ? (phase_2 + 1) : phase_2;
        }
        if (!(max > 0)) {  // src/ops/gemmInShares.ts:59
          const i32 add = (i32)((u32)i0_times_a_dim1_ceil_64 + (u32)a_dim1_ceil_64);  // src/ops/gemmInShares.ts:66
          const i32 program_plus_1 = (i32)blockIdx.x + 1;  // src/ops/gemmInShares.ts:67
          const i32 add_2 = (i32)((u32)((add - 1) / div) + 1u);
          for (i32 i0_2 = program_plus_1; i0_2 < add_2; ++i0_2) {
            if ((u32)(i0_2 - program_plus_1) % 1024 == 1023 && abort_raised(control)) { copies_arrive(); break; }
            const u32 ready_index = (u32)i0_2;  // src/ops/gemmInShares.ts:68
            if (ready_index >= 32 || !(awaited_1 >> ready_index & 1)) {
              flag_wait(ready + i0_2, ready_wait_epoch, control, 1, rank);
              fence_async();
              if (ready_index < 32) awaited_1 |= 1u << ready_index;
            }
          }
        }
        slot = slot_2;
        phase = phase_2;
      }
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    u32 awaited_1 = 0;  // which of the first 32 flags were
    const i32 a_dim1_ceil_64 = (i32)((u32)(a_dim1 + 63) / 64u);  // src/ops/gemmInShares.ts:38
    const i32 c_dim1_ceil_128 = (i32)((u32)(c_dim1 + 127) / 128u);  // src/ops/gemmInShares.ts:39
    const i32 mul = (i32)((u32)(c_dim0 + 15) / 16u) * c_dim1_ceil_128;  // src/ops/gemmInShares.ts:40
    const i32 mul_2 = mul * a_dim1_ceil_64;
    const i32 div = ((mul_2 + (i32)gridDim.x) - 1) / (i32)gridDim.x;  // src/ops/gemmInShares.ts:41
    const i32 min = (i32)((u32)(i32)blockIdx.x * (u32)div) < mul_2 ? (i32)((u32)(i32)blockIdx.x * (u32)div) : mul_2;  // src/ops/gemmInShares.ts:42
    const i32 min_2 = (i32)((u32)min + (u32)div) < mul_2 ? (i32)((u32)min + (u32)div) : mul_2;  // src/ops/gemmInShares.ts:43
    const i32 min_over_a_dim1_ceil_64 = min / a_dim1_ceil_64;  // src/ops/gemmInShares.ts:44
    const i32 div_2 = ((i32)((u32)min_2 + (u32)a_dim1_ceil_64) - 1) / a_dim1_ceil_64;
    i32 slot = 0;
    i32 phase = 0;
    for (i32 i0 = min_over_a_dim1_ceil_64; i0 < div_2; ++i0) {
      if ((u32)(i0 - min_over_a_dim1_ceil_64) % 1024 == 1023 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const i32 i0_times_a_dim1_ceil_64 = (i32)((u32)i0 * (u32)a_dim1_ceil_64);  // src/ops/gemmInShares.ts:46
      const i32 max = (min - i0_times_a_dim1_ceil_64) > 0 ? (min - i0_times_a_dim1_ceil_64) : 0;  // src/ops/gemmInShares.ts:47
      const i32 min_3 = (min_2 - i0_times_a_dim1_ceil_64) < a_dim1_ceil_64 ? (min_2 - i0_times_a_dim1_ceil_64) : a_dim1_ceil_64;  // src/ops/gemmInShares.ts:49
      const i32 min_3_minus_max = min_3 - max;
      float acc[16];  // src/ops/gemmInShares.ts:48
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // src/ops/gemmInShares.ts:50
      i32 slot_2 = slot;  // src/ops/gemmInShares.ts:48
      i32 phase_2 = phase;
      fragment_fence(acc);
      u32 to_hand_back = 0;
      for (i32 i0_2 = 0; i0_2 < min_3_minus_max; ++i0_2) {
        barrier_await(full + slot_2 * 8, phase_2 & 1, control);
        wgmma_fence();  // src/ops/gemmInShares.ts:55
        {
          const u64 right0 = wgmma_operand<128>(a_tile + slot_2 * 2048, 16, 1024);
          const u64 left0 = wgmma_operand<128>(b_tile + slot_2 * 16384, 8192, 1024);
          const u64 left1 = wgmma_operand<128>(b_tile + slot_2 * 16384 + 8192, 8192, 1024);
          #pragma unroll
          for (u32 step = 0; step < 4; ++step) {
            wgmma_m64n16k16_bf16<1, 0>(part<8>(acc, 0), left0 + step * 128, right0 + step * 2);
            wgmma_m64n16k16_bf16<1, 0>(part<8>(acc, 8), left1 + step * 128, right0 + step * 2);
          }
        }
        wgmma_commit();
        wgmma_wait<1>();  // the product of the iteration before has read its slot
        if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);  // src/ops/gemmInShares.ts:48
        to_hand_back = empty + slot_2 * 8;
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 4;
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      wgmma_wait<0>();
      fragment_fence(acc);
      if (thread % 32 == 0 && to_hand_back != 0) barrier_arrive(to_hand_back);
      if (max > 0) {  // src/ops/gemmInShares.ts:59
        group_barrier(2, 128);  // src/ops/gemmInShares.ts:62
        #pragma unroll
        for (u32 i = 0; i < 16; i += 1) if ((i32)(fragment_row(i % 8, thread) + i / 8 * 64) < sums_dim2) store_words<4>(sums + ((((i32)blockIdx.x) * sums_dim1 + (i32)fragment_column(i % 8, thread)) * sums_dim2 + (i32)(fragment_row(i % 8, thread) + i / 8 * 64)), acc, i);
        group_barrier(2, 128);  // src/ops/gemmInShares.ts:63
        if (thread == 0) flag_store(ready + (i32)blockIdx.x, ready_signal_epoch);
      } else {
        const i32 add = (i32)((u32)i0_times_a_dim1_ceil_64 + (u32)a_dim1_ceil_64);  // src/ops/gemmInShares.ts:66
        const i32 program_plus_1 = (i32)blockIdx.x + 1;  // src/ops/gemmInShares.ts:67
        const i32 add_2 = (i32)((u32)((add - 1) / div) + 1u);
        float acc_2[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) acc_2[i] = acc[i];  // src/ops/gemmInShares.ts:48
        for (i32 i0_2 = program_plus_1; i0_2 < add_2; ++i0_2) {  // src/ops/gemmInShares.ts:67
          if ((u32)(i0_2 - program_plus_1) % 1024 == 1023 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
          const u32 ready_index = (u32)i0_2;  // src/ops/gemmInShares.ts:68
          if (ready_index >= 32 || !(awaited_1 >> ready_index & 1)) {
            if (thread == 0) flag_wait(ready + i0_2, ready_wait_epoch, control, 1, rank);
            fence_async();
            group_barrier(2, 128);
            if (ready_index < 32) awaited_1 |= 1u << ready_index;
          }
          group_barrier(2, 128);  // src/ops/gemmInShares.ts:69
          float loaded_f32[16];
          #pragma unroll
          for (u32 i = 0; i < 16; ++i) loaded_f32[i] = 0;
          #pragma unroll
          for (u32 i = 0; i < 16; i += 1) if ((i32)(fragment_row(i % 8, thread) + i / 8 * 64) < sums_dim2) load_words<4>(loaded_f32, i, sums + ((i0_2 * sums_dim1 + (i32)fragment_column(i % 8, thread)) * sums_dim2 + (i32)(fragment_row(i % 8, thread) + i / 8 * 64)));
          float add_3[16];
          #pragma unroll
          for (u32 i = 0; i < 16; ++i) add_3[i] = (acc_2[i] + loaded_f32[i]);
          #pragma unroll
          for (u32 i = 0; i < 16; ++i) acc_2[i] = add_3[i];
        }
        u32 as_bf16[8];  // src/ops/gemmInShares.ts:71
        #pragma unroll
        for (u32 p = 0; p < 8; ++p) as_bf16[p] = pack_bf16(acc_2[2 * p], acc_2[2 * p + 1]);
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) if ((i0 / c_dim1_ceil_128) * 16 < c_dim0 && (i0 % c_dim1_ceil_128) * 128 < c_dim1) *(c + (((i0 / c_dim1_ceil_128) * 16 + (i32)fragment_column(i % 8, thread)) * c_dim1 + (i0 % c_dim1_ceil_128) * 128 + (i32)(fragment_row(i % 8, thread) + i / 8 * 64))) = half_at(as_bf16, i);
      }
      slot = slot_2;
      phase = phase_2;
    }
  }
  __syncthreads();
}
