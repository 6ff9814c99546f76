// decodeToOwners, for 2 ranks; G = 8, D = 128, BN = 64, stages = 4, scale = 0.08838834764831845
// Assumes, for sm_90a:
//   q: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   k: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   v: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   lengths: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   out: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   inbox: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   stats: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) decodeToOwners(
    u16* q,
    i32* lengths,
    u16* out,
    float* inbox,
    float* stats,
    i32 q_dim0,
    i32 q_dim1,
    i32 q_dim2,
    i32 q_dim3,
    i32 out_dim1,
    i32 out_dim2,
    i32 out_dim3,
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
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 133120 + i * 8, 1);  // examples/13-decode-to-owners.ts:48
    for (u32 i = 0; i < 4; ++i) barrier_init(shared + 133152 + i * 8, 4);
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
  const u32 v_tile = shared + 65536;  // examples/13-decode-to-owners.ts:40
  const u32 full = shared + 133120;  // examples/13-decode-to-owners.ts:48
  const u32 empty = shared + 133152;
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
          fence_async_shared();  // examples/13-decode-to-owners.ts:52
          barrier_expect_bytes(full + slot_2 * 8, 16384);
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
          const bool eq = slot_2_plus_1 == 4;
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
      for (u32 i = 0; i < 32; ++i) loaded_bf16[i] = 0;
      #pragma unroll
      for (u32 i = 0; i < 64; i += 2) if (tile_row(i, thread) < 8) load_words<4>(loaded_bf16, i / 2, q + (((i0 * q_dim1 + i1) * q_dim2 + (i32)tile_row(i, thread)) * q_dim3 + (i32)fragment_column(i, thread)));
      const i32 loaded = *(lengths + (i0));  // examples/13-decode-to-owners.ts:44
      const i32 loaded_ceil_64 = (i32)((u32)loaded + 63u) / 64;  // examples/13-decode-to-owners.ts:49
      float acc[16];  // examples/13-decode-to-owners.ts:48
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // examples/13-decode-to-owners.ts:47
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
        float acc_2[8];  // examples/13-decode-to-owners.ts:55
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) acc_2[i] = 0.0f;
        #pragma unroll
        for (u32 step = 0; step < 8; ++step) {
          #pragma unroll
          for (u32 octet = 0; octet < 2; octet += 2) {
            u32 right[4];
            load_matrix_x4(right, k_tile + slot_2 * 16384 + swizzled<128, 64>((thread / 32 % 4 * 16 + octet * 8 + thread % 8 + thread % 32 / 16 * 8), (step * 16 + thread / 8 % 2 * 8) * 2));
            mma_bf16(part<4>(acc_2, octet * 4), part<4>(loaded_bf16, step * 4), right[0], right[1]);
            mma_bf16(part<4>(acc_2, 4 + octet * 4), part<4>(loaded_bf16, step * 4), right[2], right[3]);
          }
        }
        float mul[8];
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) mul[i] = (acc_2[i] * 0.127517431974411f);
        float select[8];  // examples/13-decode-to-owners.ts:56
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) select[i] = (((i32)((u32)(i32)(thread / 32 % 4 * 16 + fragment_column(i, thread)) + (u32)(i0_2 * 64)) < loaded) ? mul[i] : (-1.0000000150474662e+30f));
        float row_max[2];  // examples/13-decode-to-owners.ts:57
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = __int_as_float(0x7fffffff);
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) if (tile_row(i, thread) < 8) row_max[i / 2 % 2] = fmaxf(row_max[i / 2 % 2], select[i]);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = across<1, 4>(row_max[i], [](float a, float b) { return fmaxf(a, b); });
        group_barrier(2, 128);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && tile_row(i * 2, thread) < 8) shared_store<float>(shared + 131072 + (tile_row(i * 2, thread) * 4 + thread / 32 % 4) * 4, row_max[i]);
        group_barrier(2, 128);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) { float total = __int_as_float(0x7fffffff); for (u32 w = 0; w < 4; ++w) total = fmaxf(total, shared_load<float>(shared + 131072 + (tile_row(i * 2, thread) * 4 + w) * 4)); row_max[i] = total; }
        float max[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) max[i] = fmaxf(m[i], row_max[i]);
        float sub[8];  // examples/13-decode-to-owners.ts:58
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) sub[i] = (select[i] - max[i / 2 % 2]);
        float exp2[8];
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) exp2[i] = exp2f(sub[i]);
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
        for (u32 i = 0; i < 8; ++i) if (tile_row(i, thread) < 8) row_sum[i / 2 % 2] = row_sum[i / 2 % 2] + exp2[i];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_sum[i] = across<1, 4>(row_sum[i], [](float a, float b) { return a + b; });
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && tile_row(i * 2, thread) < 8) shared_store<float>(shared + 131200 + (tile_row(i * 2, thread) * 4 + thread / 32 % 4) * 4, row_sum[i]);
        group_barrier(2, 128);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) { float total = 0.0f; for (u32 w = 0; w < 4; ++w) total = total + shared_load<float>(shared + 131200 + (tile_row(i * 2, thread) * 4 + w) * 4); row_sum[i] = total; }
        float add[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) add[i] = (mul_2[i] + row_sum[i]);
        u32 as_bf16[4];  // examples/13-decode-to-owners.ts:63
        #pragma unroll
        for (u32 p = 0; p < 4; ++p) as_bf16[p] = pack_bf16(exp2[2 * p], exp2[2 * p + 1]);
        float mul_3[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) mul_3[i] = (acc[i] * exp2_2[i / 2 % 2]);
        #pragma unroll
        for (u32 p = 0; p < 4; ++p) if (tile_row((2 * p), thread) < 8) shared_store<u32>((shared + 132096) + swizzled<128, 8>(tile_row((2 * p), thread), (thread / 32 % 4 * 16 + fragment_column((2 * p), thread)) * 2), as_bf16[p]);
        group_barrier(2, 128);
        #pragma unroll
        for (u32 step = 0; step < 4; ++step) {
          u32 left0[4];
          load_matrix_x4(left0, (shared + 132096) + swizzled<128, 8>(min_u32(thread % 16, 7), (step * 16 + thread % 32 / 16 * 8) * 2));
          #pragma unroll
          for (u32 octet = 0; octet < 4; octet += 2) {
            u32 right[4];
            load_matrix_transposed_x4(right, v_tile + slot_2 * 16384 + swizzled<128, 64>((step * 16 + thread % 16), (thread / 32 % 4 * 32 + octet * 8 + thread % 32 / 16 * 8) * 2));
            mma_bf16(part<4>(mul_3, octet * 4), left0, right[0], right[1]);
            mma_bf16(part<4>(mul_3, 4 + octet * 4), left0, right[2], right[3]);
          }
        }
        __syncwarp();  // examples/13-decode-to-owners.ts:48
        if (thread % 32 == 0) barrier_arrive(empty + slot_2 * 8);
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 4;
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) acc[i] = mul_3[i];  // examples/13-decode-to-owners.ts:63
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
      #pragma unroll
      for (u32 i = 0; i < 16; i += 2) if (tile_row(i, thread) < 8) store_words<8>(on_rank(inbox, i0_times_q_dim1_plus_i1_mod_2 - rank, heap_stride) + (((cast * inbox_dim1 + add) * inbox_dim2 + (i32)tile_row(i, thread)) * inbox_dim3 + (i32)(thread / 32 % 4 * 32 + fragment_column(i, thread))), acc, i);  // examples/13-decode-to-owners.ts:72
      #pragma unroll
      for (u32 i = 0; i < 2; i += 1) if (thread % 4 == 0 && thread < 32 && tile_row(i * 2, thread) < 8) store_words<4>(on_rank(stats, i0_times_q_dim1_plus_i1_mod_2 - rank, heap_stride) + (((cast * stats_dim1 + add) * stats_dim2 + 0) * stats_dim3 + (i32)tile_row(i * 2, thread)), m, i);  // examples/13-decode-to-owners.ts:73
      #pragma unroll
      for (u32 i = 0; i < 2; i += 1) if (thread % 4 == 0 && thread < 32 && tile_row(i * 2, thread) < 8) store_words<4>(on_rank(stats, i0_times_q_dim1_plus_i1_mod_2 - rank, heap_stride) + (((cast * stats_dim1 + add) * stats_dim2 + 1) * stats_dim3 + (i32)tile_row(i * 2, thread)), l, i);  // examples/13-decode-to-owners.ts:74
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
      float acc[16];  // examples/13-decode-to-owners.ts:87
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // examples/13-decode-to-owners.ts:86
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
          group_barrier(2, 128);
          awaited_2 = arrived_flag;
        }
        float loaded_f32[2];  // examples/13-decode-to-owners.ts:91
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) loaded_f32[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 2; i += 1) if (tile_row(i * 2, thread) < 8) load_words<4>(loaded_f32, i, stats + (((cast * stats_dim1 + add) * stats_dim2 + 0) * stats_dim3 + (i32)tile_row(i * 2, thread)));
        float loaded_f32_2[2];  // examples/13-decode-to-owners.ts:92
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) loaded_f32_2[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 2; i += 1) if (tile_row(i * 2, thread) < 8) load_words<4>(loaded_f32_2, i, stats + (((cast * stats_dim1 + add) * stats_dim2 + 1) * stats_dim3 + (i32)tile_row(i * 2, thread)));
        float loaded_f32_3[16];  // examples/13-decode-to-owners.ts:93
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) loaded_f32_3[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 16; i += 2) if (tile_row(i, thread) < 8) load_words<8>(loaded_f32_3, i, inbox + (((cast * inbox_dim1 + add) * inbox_dim2 + (i32)tile_row(i, thread)) * inbox_dim3 + (i32)(thread / 32 % 4 * 32 + fragment_column(i, thread))));
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
        float mul_3[16];  // examples/13-decode-to-owners.ts:100
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) mul_3[i] = (acc[i] * exp2[i / 2 % 2]);
        float mul_4[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) mul_4[i] = (loaded_f32_3[i] * exp2_2[i / 2 % 2]);
        float add_3[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) add_3[i] = (mul_3[i] + mul_4[i]);
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) acc[i] = add_3[i];
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
      float div_2[16];
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) div_2[i] = (acc[i] / select[i / 2 % 2]);
      u32 as_bf16[8];  // examples/13-decode-to-owners.ts:105
      #pragma unroll
      for (u32 p = 0; p < 8; ++p) as_bf16[p] = pack_bf16(div_2[2 * p], div_2[2 * p + 1]);
      #pragma unroll
      for (u32 i = 0; i < 16; i += 2) if (tile_row(i, thread) < 8) store_words<4>(out + (((i0_times_2_plus_rank_over_q_dim1 * out_dim1 + i0_times_2_plus_rank_mod_q_dim1) * out_dim2 + (i32)tile_row(i, thread)) * out_dim3 + (i32)(thread / 32 % 4 * 32 + fragment_column(i, thread))), as_bf16, i / 2);
    }
    group_barrier(2, 128);  // examples/13-decode-to-owners.ts:107
    if (thread == 0) shared_store<u32>(shared + 133200, (u32)last_program(counters + 0, gridDim.x));
    group_barrier(2, 128);
    const u32 is_last = shared_load<u32>(shared + 133200);
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
