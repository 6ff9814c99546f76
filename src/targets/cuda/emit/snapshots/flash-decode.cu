// decodeToOwners, for 2 ranks; G = 64, D = 128, BN = 64, stages = 2, scale = 0.08838834764831845
// Assumes, for sm_90a:
//   q: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   k: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   v: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   lengths: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   out: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   inbox: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   stats: starts at a multiple of 16 bytes; extents are multiples of [4, 64, 128, 128]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) decodeToOwners(
    u16* q,
    i32* lengths,
    float* inbox,
    float* stats,
    i32 q_dim0,
    i32 q_dim1,
    i32 q_dim2,
    i32 q_dim3,
    i32 inbox_dim1,
    i32 inbox_dim2,
    i32 inbox_dim3,
    i32 stats_dim1,
    i32 stats_dim2,
    i32 stats_dim3,
    i32 arrived_dim1,
    i32 arrived_dim2,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap k_map_of_8_rows,
    const __grid_constant__ TensorMap k_map_of_1_row,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap v_map_of_8_rows,
    const __grid_constant__ TensorMap v_map_of_1_row,
    const __grid_constant__ TensorMap out_map,
    const __grid_constant__ TensorMap inbox_all_ranks_map,
    u32* arrived,
    u32* done,
    u32* arrived_epochs,
    u32* done_epochs,
    i32 rank,
    i64 heap_stride,
    u32* counters,
    Control* control) {
  extern __shared__ u8 shared_memory[];
  const u32 shared = (shared_address(shared_memory) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    tma_prefetch(k_map);
    tma_prefetch(k_map_of_8_rows);
    tma_prefetch(k_map_of_1_row);
    tma_prefetch(v_map);
    tma_prefetch(v_map_of_8_rows);
    tma_prefetch(v_map_of_1_row);
    tma_prefetch(out_map);
    tma_prefetch(inbox_all_ranks_map);
    for (u32 i = 0; i < 2; ++i) barrier_init(shared + 81920 + i * 8, 1);  // examples/13-decode-to-owners.ts:48
    for (u32 i = 0; i < 2; ++i) barrier_init(shared + 81936 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  if (thread == 32) { bring_near(done_epochs); bring_near(arrived_epochs); bring_near(control); bring_near(counters + 1); }
  kernel_before_ended();
  next_kernel_may_start();
  const bool is_stopped = thread == 0 && abort_raised(control);
  const u32 done_wait_epoch = *(volatile u32*)(done_epochs + 1) + 1;
  const u32 arrived_signal_epoch = *(volatile u32*)(arrived_epochs + 0) + 1;
  const u32 arrived_wait_epoch = *(volatile u32*)(arrived_epochs + 1) + 1;
  const u32 done_signal_epoch = *(volatile u32*)(done_epochs + 0) + 1;
  if (__syncthreads_or(is_stopped)) return;
  if (thread == 32 && last_program(counters + 1, gridDim.x)) {
    arrived_epochs[0] = arrived_signal_epoch;
    done_epochs[0] = done_signal_epoch;
    done_epochs[1] = done_wait_epoch;
    arrived_epochs[1] = arrived_wait_epoch;
  }
  const u32 k_tile = shared;  // examples/13-decode-to-owners.ts:39
  const u32 v_tile = shared + 32768;  // examples/13-decode-to-owners.ts:40
  const u32 full = shared + 81920;  // examples/13-decode-to-owners.ts:48
  const u32 empty = shared + 81936;
  if (threadIdx.x < 128) {  // producer
    if (threadIdx.x == 0) {
      u32 awaited_1 = 0;  // a bit for each of the first 32 flags that was waited for
      i32 slot = 0;  // examples/13-decode-to-owners.ts:42
      i32 phase = 0;
      const u32 tiles = (u32)q_dim0 * (u32)q_dim1;
      for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
        if (tile / (u32)(i32)gridDim.x % 64 == 63 && abort_raised(control)) { copies_arrive(); break; }
        const i32 i1 = (i32)(tile % (u32)q_dim1);
        const i32 i0 = (i32)((tile / (u32)q_dim1));
        const i32 loaded = *(lengths + (i0));  // examples/13-decode-to-owners.ts:44
        const i32 loaded_ceil_64 = (i32)((u32)loaded + 63u) / 64;  // examples/13-decode-to-owners.ts:49
        i32 slot_2 = slot;  // examples/13-decode-to-owners.ts:48
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < loaded_ceil_64; ++i0_2) {
          if (!barrier_await(empty + slot_2 * 8, (phase_2 - 1) & 1, control)) break;
          barrier_expect_bytes(full + slot_2 * 8, 16384);  // examples/13-decode-to-owners.ts:52
          const i32 rows_left = loaded - i0_2 * 64;
          if (rows_left >= 64) {
            tma_load_4d(k_tile + slot_2 * 16384, k_map, full + slot_2 * 8, 0, i0_2 * 64, i1, i0);
            tma_load_4d(k_tile + slot_2 * 16384 + 8192, k_map, full + slot_2 * 8, 64, i0_2 * 64, i1, i0);
          } else {
            #pragma unroll 1
            for (i32 row = 0; row < 64; row += 8) {
              if (row + 8 <= rows_left || row >= rows_left) {
                tma_load_4d(k_tile + slot_2 * 16384 + row * 128, k_map_of_8_rows, full + slot_2 * 8, 0, row < rows_left ? i0_2 * 64 + row : -8, i1, i0);
                tma_load_4d(k_tile + slot_2 * 16384 + 8192 + row * 128, k_map_of_8_rows, full + slot_2 * 8, 64, row < rows_left ? i0_2 * 64 + row : -8, i1, i0);
              } else {
                #pragma unroll 1
                for (i32 single = row; single < row + 8; ++single) {
                  tma_load_4d(k_tile + slot_2 * 16384 + single * 128, k_map_of_1_row, full + slot_2 * 8, 0, single < rows_left ? i0_2 * 64 + single : -1, i1, i0);
                  tma_load_4d(k_tile + slot_2 * 16384 + 8192 + single * 128, k_map_of_1_row, full + slot_2 * 8, 64, single < rows_left ? i0_2 * 64 + single : -1, i1, i0);
                }
              }
            }
          }
          barrier_expect_bytes(full + slot_2 * 8, 16384);  // examples/13-decode-to-owners.ts:53
          const i32 rows_left_2 = loaded - i0_2 * 64;
          if (rows_left_2 >= 64) {
            tma_load_4d(v_tile + slot_2 * 16384, v_map, full + slot_2 * 8, 0, i0_2 * 64, i1, i0);
            tma_load_4d(v_tile + slot_2 * 16384 + 8192, v_map, full + slot_2 * 8, 64, i0_2 * 64, i1, i0);
          } else {
            #pragma unroll 1
            for (i32 row = 0; row < 64; row += 8) {
              if (row + 8 <= rows_left_2 || row >= rows_left_2) {
                tma_load_4d(v_tile + slot_2 * 16384 + row * 128, v_map_of_8_rows, full + slot_2 * 8, 0, row < rows_left_2 ? i0_2 * 64 + row : -8, i1, i0);
                tma_load_4d(v_tile + slot_2 * 16384 + 8192 + row * 128, v_map_of_8_rows, full + slot_2 * 8, 64, row < rows_left_2 ? i0_2 * 64 + row : -8, i1, i0);
              } else {
                #pragma unroll 1
                for (i32 single = row; single < row + 8; ++single) {
                  tma_load_4d(v_tile + slot_2 * 16384 + single * 128, v_map_of_1_row, full + slot_2 * 8, 0, single < rows_left_2 ? i0_2 * 64 + single : -1, i1, i0);
                  tma_load_4d(v_tile + slot_2 * 16384 + 8192 + single * 128, v_map_of_1_row, full + slot_2 * 8, 64, single < rows_left_2 ? i0_2 * 64 + single : -1, i1, i0);
                }
              }
            }
          }
          barrier_arrive(full + slot_2 * 8);  // examples/13-decode-to-owners.ts:48
          const i32 slot_2_plus_1 = slot_2 + 1;
          const bool eq = slot_2_plus_1 == 2;
          slot_2 = eq ? 0 : slot_2_plus_1;
          phase_2 = eq ? (phase_2 + 1) : phase_2;
        }
        const u32 done_index = (u32)(i32)((u32)((i0 * q_dim1) + i1) % 2u);  // examples/13-decode-to-owners.ts:71
        if (done_index >= 32 || !(awaited_1 >> done_index & 1)) {
          flag_wait(done + (i32)((u32)((i0 * q_dim1) + i1) % 2u), (done_wait_epoch - 2), control, 1, rank);
          fence_async();
          if (done_index < 32) awaited_1 |= 1u << done_index;
        }
        slot = slot_2;
        phase = phase_2;
      }
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    u32 awaited_1 = 0;  // a bit for each of the first 32 flags that was waited for
    const u32* awaited_2 = 0;  // the last flag that was waited for
    const i32 cast = (i32)(arrived_signal_epoch % 2u);  // examples/13-decode-to-owners.ts:38
    i32 slot = 0;  // examples/13-decode-to-owners.ts:42
    i32 phase = 0;
    const u32 tiles = (u32)q_dim0 * (u32)q_dim1;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const i32 i1 = (i32)(tile % (u32)q_dim1);
      const i32 i0 = (i32)((tile / (u32)q_dim1));
      u32 loaded_bf16[32];  // examples/13-decode-to-owners.ts:43
      #pragma unroll
      for (u32 i = 0; i < 64; i += 2) load_words<4>(loaded_bf16, i / 2, q + (((i0 * q_dim1 + i1) * q_dim2 + (i32)(fragment_row(i, thread))) * q_dim3 + (i32)fragment_column(i, thread)));
      const i32 loaded = *(lengths + (i0));  // examples/13-decode-to-owners.ts:44
      const i32 loaded_ceil_64 = (i32)((u32)loaded + 63u) / 64;  // examples/13-decode-to-owners.ts:49
      float acc[64];  // examples/13-decode-to-owners.ts:48
      #pragma unroll
      for (u32 i = 0; i < 64; ++i) acc[i] = 0.0f;  // examples/13-decode-to-owners.ts:47
      float l[2];  // examples/13-decode-to-owners.ts:48
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) l[i] = 0.0f;  // examples/13-decode-to-owners.ts:47
      float m[2];  // examples/13-decode-to-owners.ts:48
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) m[i] = (-1.0000000150474662e+30f);  // examples/13-decode-to-owners.ts:47
      i32 slot_2 = slot;  // examples/13-decode-to-owners.ts:48
      i32 phase_2 = phase;
      for (i32 i0_2 = 0; i0_2 < loaded_ceil_64; ++i0_2) {
        barrier_await(full + slot_2 * 8, phase_2 & 1, control);
        float acc_2[32];  // examples/13-decode-to-owners.ts:55
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) acc_2[i] = 0.0f;
        fragment_fence(acc_2);
        wgmma_fence();
        {
          const u64 right0 = wgmma_operand<128>(k_tile + slot_2 * 16384, 16, 1024);
          #pragma unroll
          for (u32 step = 0; step < 8; ++step) {
            wgmma_m64n64k16_bf16_ra<0>(acc_2, part<4>(loaded_bf16, step * 4), right0 + (step / 4 * 512 + step % 4 * 2));
          }
        }
        wgmma_commit();
        wgmma_wait<0>();
        fragment_fence(acc_2);
        float mul[32];
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) mul[i] = (acc_2[i] * 0.127517431974411f);
        float select[32];  // examples/13-decode-to-owners.ts:56
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) select[i] = (((i32)((u32)(i32)fragment_column(i, thread) + (u32)(i0_2 * 64)) < loaded) ? mul[i] : (-1.0000000150474662e+30f));
        float row_max[2];  // examples/13-decode-to-owners.ts:57
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = __int_as_float(0x7fffffff);
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) row_max[i / 2 % 2] = fmaxf(row_max[i / 2 % 2], select[i]);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = across<1, 4>(row_max[i], [](float a, float b) { return fmaxf(a, b); });
        float max[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) max[i] = fmaxf(m[i], row_max[i]);
        float sub[32];  // examples/13-decode-to-owners.ts:58
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) sub[i] = (select[i] - max[i / 2 % 2]);
        float exp2[32];
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) exp2[i] = exp2f(sub[i]);
        float sub_2[2];  // examples/13-decode-to-owners.ts:59
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) sub_2[i] = (m[i] - max[i]);
        float exp2_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) exp2_2[i] = exp2f(sub_2[i]);
        float mul_2[2];  // examples/13-decode-to-owners.ts:62
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) mul_2[i] = (l[i] * exp2_2[i]);
        float row_sum[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_sum[i] = 0.0f;
        #pragma unroll
        for (u32 i = 0; i < 32; ++i) row_sum[i / 2 % 2] = row_sum[i / 2 % 2] + exp2[i];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_sum[i] = across<1, 4>(row_sum[i], [](float a, float b) { return a + b; });
        float add[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) add[i] = (mul_2[i] + row_sum[i]);
        u32 as_bf16[16];  // examples/13-decode-to-owners.ts:63
        #pragma unroll
        for (u32 p = 0; p < 16; ++p) as_bf16[p] = pack_bf16(exp2[2 * p], exp2[2 * p + 1]);
        float mul_3[64];
        #pragma unroll
        for (u32 i = 0; i < 64; ++i) mul_3[i] = (acc[i] * exp2_2[i / 2 % 2]);
        fragment_fence(mul_3);
        wgmma_fence();
        {
          const u64 right0 = wgmma_operand<128>(v_tile + slot_2 * 16384, 8192, 1024);
          #pragma unroll
          for (u32 step = 0; step < 4; ++step) {
            wgmma_m64n128k16_bf16_ra<1>(mul_3, part<4>(as_bf16, step * 4), right0 + step * 128);
          }
        }
        wgmma_commit();
        wgmma_wait<0>();
        fragment_fence(mul_3);
        __syncwarp();  // examples/13-decode-to-owners.ts:48
        if (thread % 32 == 0) barrier_arrive(empty + slot_2 * 8);
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 2;
        #pragma unroll
        for (u32 i = 0; i < 64; ++i) acc[i] = mul_3[i];  // examples/13-decode-to-owners.ts:63
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) l[i] = add[i];  // examples/13-decode-to-owners.ts:62
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) m[i] = max[i];  // examples/13-decode-to-owners.ts:57
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      const i32 i0_times_q_dim1_plus_i1 = (i0 * q_dim1) + i1;  // examples/13-decode-to-owners.ts:68
      const i32 i0_times_q_dim1_plus_i1_mod_2 = (i32)((u32)i0_times_q_dim1_plus_i1 % 2u);  // examples/13-decode-to-owners.ts:69
      const i32 add = ((rank * q_dim0) * q_dim1) + i0_times_q_dim1_plus_i1;  // examples/13-decode-to-owners.ts:70
      const u32 done_index = (u32)i0_times_q_dim1_plus_i1_mod_2;  // examples/13-decode-to-owners.ts:71
      if (done_index >= 32 || !(awaited_1 >> done_index & 1)) {
        if (thread == 0) flag_wait(done + i0_times_q_dim1_plus_i1_mod_2, (done_wait_epoch - 2), control, 1, rank);
        fence_async();
        group_barrier(2, 128);
        if (done_index < 32) awaited_1 |= 1u << done_index;
      }
      if (thread % 128 == 0) tma_store_wait_done<0>();
      group_barrier(2, 128);  // examples/13-decode-to-owners.ts:72
      #pragma unroll
      for (u32 box = 0; box < 4; ++box) {
        const u32 staging = shared + 65536 + box % 2 * 8192;
        if (thread % 128 == 0) tma_store_wait_read<1>();  // TMA has read the previous box in this staging buffer
        group_barrier(3, 128);
        stage_floats(staging, acc, box * 16, thread);
        fence_async_shared();
        group_barrier(3, 128);
        if (thread % 128 == 0) {
          tma_store_5d(inbox_all_ranks_map, staging, (i32)(box * 32), 0, add, cast, i0_times_q_dim1_plus_i1_mod_2);
          tma_store_commit();
        }
      }
      #pragma unroll
      for (u32 i = 0; i < 2; i += 1) if (thread % 4 == 0) store_words<4>(on_rank(stats, i0_times_q_dim1_plus_i1_mod_2 - rank, heap_stride) + (((cast * stats_dim1 + add) * stats_dim2 + 0) * stats_dim3 + (i32)(i / 2 * 64 + fragment_row(i % 2 * 2, thread))), m, i);  // examples/13-decode-to-owners.ts:73
      #pragma unroll
      for (u32 i = 0; i < 2; i += 1) if (thread % 4 == 0) store_words<4>(on_rank(stats, i0_times_q_dim1_plus_i1_mod_2 - rank, heap_stride) + (((cast * stats_dim1 + add) * stats_dim2 + 1) * stats_dim3 + (i32)(i / 2 * 64 + fragment_row(i % 2 * 2, thread))), l, i);  // examples/13-decode-to-owners.ts:74
      if (thread % 128 == 0) tma_store_wait_done<0>();
      group_barrier(2, 128);  // examples/13-decode-to-owners.ts:75
      if (thread == 0) flag_store(on_rank(arrived, i0_times_q_dim1_plus_i1_mod_2 - rank, heap_stride) + ((rank * arrived_dim1 + i0) * arrived_dim2 + i1), arrived_signal_epoch);
      slot = slot_2;
      phase = phase_2;
    }
    const i32 div = (i32)((u32)((q_dim0 * q_dim1) - rank) + 1u) / 2;  // examples/13-decode-to-owners.ts:82
    const u32 tiles_2 = (div > 0 ? (u32)div : 0u);  // examples/13-decode-to-owners.ts:83
    for (u32 tile = (i32)blockIdx.x; tile < tiles_2; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const i32 i0 = (i32)(tile);
      const i32 i0_times_2_plus_rank = (i0 * 2) + rank;  // examples/13-decode-to-owners.ts:84
      const i32 i0_times_2_plus_rank_over_q_dim1 = (i32)((u32)i0_times_2_plus_rank / (u32)q_dim1);  // examples/13-decode-to-owners.ts:85
      const i32 i0_times_2_plus_rank_mod_q_dim1 = (i32)((u32)i0_times_2_plus_rank % (u32)q_dim1);
      float acc[64];  // examples/13-decode-to-owners.ts:87
      #pragma unroll
      for (u32 i = 0; i < 64; ++i) acc[i] = 0.0f;  // examples/13-decode-to-owners.ts:86
      float l[2];  // examples/13-decode-to-owners.ts:87
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) l[i] = 0.0f;  // examples/13-decode-to-owners.ts:86
      float m[2];  // examples/13-decode-to-owners.ts:87
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) m[i] = (-1.0000000150474662e+30f);  // examples/13-decode-to-owners.ts:86
      for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {  // examples/13-decode-to-owners.ts:87
        const i32 add = ((i0_2 * q_dim0) * q_dim1) + i0_times_2_plus_rank;  // examples/13-decode-to-owners.ts:88
        const u32* arrived_flag = arrived + ((i0_2 * arrived_dim1 + i0_times_2_plus_rank_over_q_dim1) * arrived_dim2 + i0_times_2_plus_rank_mod_q_dim1);  // examples/13-decode-to-owners.ts:89
        if (arrived_flag != awaited_2) {
          if (thread == 0) flag_wait(arrived_flag, arrived_wait_epoch, control, 2, rank);
          fence_async();
          group_barrier(2, 128);
          awaited_2 = arrived_flag;
        }
        float loaded_f32[2];  // examples/13-decode-to-owners.ts:91
        #pragma unroll
        for (u32 i = 0; i < 2; i += 1) load_words<4>(loaded_f32, i, stats + (((cast * stats_dim1 + add) * stats_dim2 + 0) * stats_dim3 + (i32)(i / 2 * 64 + fragment_row(i % 2 * 2, thread))));
        float loaded_f32_2[2];  // examples/13-decode-to-owners.ts:92
        #pragma unroll
        for (u32 i = 0; i < 2; i += 1) load_words<4>(loaded_f32_2, i, stats + (((cast * stats_dim1 + add) * stats_dim2 + 1) * stats_dim3 + (i32)(i / 2 * 64 + fragment_row(i % 2 * 2, thread))));
        float loaded_f32_3[64];  // examples/13-decode-to-owners.ts:93
        #pragma unroll
        for (u32 i = 0; i < 64; i += 2) load_words<8>(loaded_f32_3, i, inbox + (((cast * inbox_dim1 + add) * inbox_dim2 + (i32)(fragment_row(i, thread))) * inbox_dim3 + (i32)fragment_column(i, thread)));
        float max[2];  // examples/13-decode-to-owners.ts:95
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) max[i] = fmaxf(m[i], loaded_f32[i]);
        float sub[2];  // examples/13-decode-to-owners.ts:96
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) sub[i] = (m[i] - max[i]);
        float exp2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) exp2[i] = exp2f(sub[i]);
        float sub_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) sub_2[i] = (loaded_f32[i] - max[i]);
        float exp2_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) exp2_2[i] = exp2f(sub_2[i]);
        float mul[2];  // examples/13-decode-to-owners.ts:99
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) mul[i] = (l[i] * exp2[i]);
        float mul_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) mul_2[i] = (loaded_f32_2[i] * exp2_2[i]);
        float add_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) add_2[i] = (mul[i] + mul_2[i]);
        float mul_3[64];  // examples/13-decode-to-owners.ts:100
        #pragma unroll
        for (u32 i = 0; i < 64; ++i) mul_3[i] = (acc[i] * exp2[i / 2 % 2]);
        float mul_4[64];
        #pragma unroll
        for (u32 i = 0; i < 64; ++i) mul_4[i] = (loaded_f32_3[i] * exp2_2[i / 2 % 2]);
        float add_3[64];
        #pragma unroll
        for (u32 i = 0; i < 64; ++i) add_3[i] = (mul_3[i] + mul_4[i]);
        #pragma unroll
        for (u32 i = 0; i < 64; ++i) acc[i] = add_3[i];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) l[i] = add_2[i];  // examples/13-decode-to-owners.ts:99
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) m[i] = max[i];  // examples/13-decode-to-owners.ts:95
      }
      bool gt[2];  // examples/13-decode-to-owners.ts:103
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) gt[i] = (l[i] > 0.0f);
      float select[2];  // examples/13-decode-to-owners.ts:104
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) select[i] = (gt[i] ? l[i] : 1.0f);
      float div_2[64];
      #pragma unroll
      for (u32 i = 0; i < 64; ++i) div_2[i] = (acc[i] / select[i / 2 % 2]);
      u32 as_bf16[32];  // examples/13-decode-to-owners.ts:105
      #pragma unroll
      for (u32 p = 0; p < 32; ++p) as_bf16[p] = pack_bf16(div_2[2 * p], div_2[2 * p + 1]);
      if (thread % 128 == 0) tma_store_wait_done<0>();
      group_barrier(2, 128);
      #pragma unroll
      for (u32 box = 0; box < 2; ++box) {
        const u32 staging = shared + 65536 + box % 2 * 8192;
        if (thread % 128 == 0) tma_store_wait_read<1>();  // TMA has read the previous box in this staging buffer
        group_barrier(3, 128);
        stage_halves(staging, as_bf16, box * 16, thread);
        fence_async_shared();
        group_barrier(3, 128);
        if (thread % 128 == 0) {
          tma_store_4d(out_map, staging, (i32)(box * 64), 0, i0_times_2_plus_rank_mod_q_dim1, i0_times_2_plus_rank_over_q_dim1);
          tma_store_commit();
        }
      }
    }
    if (thread % 128 == 0) tma_store_wait_done<0>();
    group_barrier(2, 128);  // examples/13-decode-to-owners.ts:107
    if (thread == 0) shared_store<u32>(shared + 81968, (u32)last_program(counters + 0, gridDim.x));
    group_barrier(2, 128);
    const u32 is_last = shared_load<u32>(shared + 81968);
    group_barrier(2, 128);
    if (is_last) {
      group_barrier(2, 128);
      group_barrier(2, 128);
      for (i32 i0 = thread; i0 < 2; i0 += 128) {
        flag_store(on_rank(done, (i32)((u32)(rank + i0) % 2u) - rank, heap_stride) + rank, done_signal_epoch);
      }
    }
  }
  __syncthreads();
}
