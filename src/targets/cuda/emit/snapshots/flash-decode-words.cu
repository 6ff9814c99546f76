// flashDecodeFusedForAll, for 2 ranks; G = 8, D = 128, BN = 64, stages = 2, scale = 0.08838834764831845, splits = 1, programs = 0
// Assumes, for sm_90a:
//   q: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   k: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   v: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   lengths: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   out: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   sums: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   stats: starts at a multiple of 16 bytes; extents are multiples of [4, 8, 128, 128]; 1 to 2^31 - 1 elements
//   ranks: may be on several devices; recording: off; flag-in-data words may replace flags
extern "C" __global__ void __launch_bounds__(256, 1) flashDecodeFusedForAll(
    u16* q,
    i32* lengths,
    u16* out,
    float* sums,
    float* stats,
    i32 q_dim0,
    i32 q_dim1,
    i32 q_dim2,
    i32 q_dim3,
    i32 out_dim0,
    i32 out_dim1,
    i32 out_dim2,
    i32 out_dim3,
    i32 sums_dim1,
    i32 sums_dim2,
    i32 sums_dim3,
    i32 stats_dim1,
    i32 stats_dim2,
    i32 stats_dim3,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap k_map_of_8_rows,
    const __grid_constant__ TensorMap k_map_of_1_row,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap v_map_of_8_rows,
    const __grid_constant__ TensorMap v_map_of_1_row,
    u32* arrived_epochs,
    i32 rank,
    i64 heap_stride,
    u32* counters,
    u32 settled,
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
    for (u32 i = 0; i < 2; ++i) barrier_init(shared + 67584 + i * 8, 1);  // src/ops/flashDecode/attention.ts:99
    for (u32 i = 0; i < 2; ++i) barrier_init(shared + 67600 + i * 8, 4);
    barrier_init_fence();
    fence_async_shared();
  }
  if (thread == 32) { bring_near(arrived_epochs); bring_near(control); bring_near(counters + 0); }
  const bool is_early = threadIdx.x < 32 && settled != 0;  // true: the producer may copy before the previous kernel has ended
  if (!is_early) {
    kernel_before_ended();
    next_kernel_may_start();
  }
  const bool is_stopped = thread == 128 && abort_raised(control);
  const u32 arrived_signal_epoch = *(volatile u32*)(arrived_epochs + 0) + 1;
  const u32 arrived_wait_epoch = *(volatile u32*)(arrived_epochs + 1) + 1;
  if (threadIdx.x / 32 == 1) group_barrier(1, 256);
  else if (threadIdx.x < 128) group_arrive(1, 256);
  else {
    group_barrier(1, 256);
    if (group_any(2, 128, is_stopped)) { copies_arrive(); return; }
  }
  if (thread == 32 && last_program(counters + 0, gridDim.x)) {
    arrived_epochs[0] = arrived_signal_epoch;
    arrived_epochs[1] = arrived_wait_epoch;
  }
  const u32 k_tile = shared;  // src/ops/flashDecode/attention.ts:90
  const u32 v_tile = shared + 32768;  // src/ops/flashDecode/attention.ts:91
  const u32 full = shared + 67584;  // src/ops/flashDecode/attention.ts:99
  const u32 empty = shared + 67600;
  if (threadIdx.x < 128) {  // producer
    if (threadIdx.x == 0) {
      i32 slot = 0;  // src/ops/flashDecode/parts.ts:28
      i32 phase = 0;
      const u32 tiles = (u32)1 * (u32)q_dim0 * (u32)q_dim1;
      for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
        if (tile / (u32)(i32)gridDim.x % 64 == 63 && abort_raised(control)) { copies_arrive(); break; }
        const i32 i2 = (i32)(tile % (u32)q_dim1);
        const i32 i1 = (i32)((tile / (u32)q_dim1) % (u32)q_dim0);
        const i32 loaded = load_relaxed_gpu_i32(lengths + (i1));  // src/ops/flashDecode/attention.ts:95
        const i32 loaded_ceil_64 = (i32)((u32)loaded + 63u) / 64;  // src/ops/flashDecode/attention.ts:100
        i32 slot_2 = slot;  // src/ops/flashDecode/attention.ts:99
        i32 phase_2 = phase;
        for (i32 i0_2 = 0; i0_2 < loaded_ceil_64; ++i0_2) {
          if (!barrier_await(empty + slot_2 * 8, (phase_2 - 1) & 1, control)) break;
          fence_async_shared();  // src/ops/flashDecode/attention.ts:103
          barrier_expect_bytes(full + slot_2 * 8, 16384);
          const i32 rows_left = loaded - i0_2 * 64;
          if (rows_left >= 64) {
            tma_load_4d(k_tile + slot_2 * 16384, k_map, full + slot_2 * 8, 0, i0_2 * 64, i2, i1);
            tma_load_4d(k_tile + slot_2 * 16384 + 8192, k_map, full + slot_2 * 8, 64, i0_2 * 64, i2, i1);
          } else {
            #pragma unroll 1
            for (i32 row = 0; row < 64; row += 8) {
              if (row + 8 <= rows_left || row >= rows_left) {
                tma_load_4d(k_tile + slot_2 * 16384 + row * 128, k_map_of_8_rows, full + slot_2 * 8, 0, row < rows_left ? i0_2 * 64 + row : -8, i2, i1);
                tma_load_4d(k_tile + slot_2 * 16384 + 8192 + row * 128, k_map_of_8_rows, full + slot_2 * 8, 64, row < rows_left ? i0_2 * 64 + row : -8, i2, i1);
              } else {
                #pragma unroll 1
                for (i32 single = row; single < row + 8; ++single) {
                  tma_load_4d(k_tile + slot_2 * 16384 + single * 128, k_map_of_1_row, full + slot_2 * 8, 0, single < rows_left ? i0_2 * 64 + single : -1, i2, i1);
                  tma_load_4d(k_tile + slot_2 * 16384 + 8192 + single * 128, k_map_of_1_row, full + slot_2 * 8, 64, single < rows_left ? i0_2 * 64 + single : -1, i2, i1);
                }
              }
            }
          }
          barrier_expect_bytes(full + slot_2 * 8, 16384);  // src/ops/flashDecode/attention.ts:104
          const i32 rows_left_2 = loaded - i0_2 * 64;
          if (rows_left_2 >= 64) {
            tma_load_4d(v_tile + slot_2 * 16384, v_map, full + slot_2 * 8, 0, i0_2 * 64, i2, i1);
            tma_load_4d(v_tile + slot_2 * 16384 + 8192, v_map, full + slot_2 * 8, 64, i0_2 * 64, i2, i1);
          } else {
            #pragma unroll 1
            for (i32 row = 0; row < 64; row += 8) {
              if (row + 8 <= rows_left_2 || row >= rows_left_2) {
                tma_load_4d(v_tile + slot_2 * 16384 + row * 128, v_map_of_8_rows, full + slot_2 * 8, 0, row < rows_left_2 ? i0_2 * 64 + row : -8, i2, i1);
                tma_load_4d(v_tile + slot_2 * 16384 + 8192 + row * 128, v_map_of_8_rows, full + slot_2 * 8, 64, row < rows_left_2 ? i0_2 * 64 + row : -8, i2, i1);
              } else {
                #pragma unroll 1
                for (i32 single = row; single < row + 8; ++single) {
                  tma_load_4d(v_tile + slot_2 * 16384 + single * 128, v_map_of_1_row, full + slot_2 * 8, 0, single < rows_left_2 ? i0_2 * 64 + single : -1, i2, i1);
                  tma_load_4d(v_tile + slot_2 * 16384 + 8192 + single * 128, v_map_of_1_row, full + slot_2 * 8, 64, single < rows_left_2 ? i0_2 * 64 + single : -1, i2, i1);
                }
              }
            }
          }
          barrier_arrive(full + slot_2 * 8);  // src/ops/flashDecode/attention.ts:99
          const i32 slot_2_plus_1 = slot_2 + 1;
          const bool eq = slot_2_plus_1 == 2;
          slot_2 = eq ? 0 : slot_2_plus_1;
          phase_2 = eq ? (phase_2 + 1) : phase_2;
        }
        slot = slot_2;
        phase = phase_2;
      }
    }
  } else if (threadIdx.x < 256) {  // consumer
    const u32 thread = threadIdx.x - 128;
    const i32 cast = (i32)(arrived_signal_epoch % 2u);  // src/ops/flashDecode/partials.ts:34
    i32 slot = 0;  // src/ops/flashDecode/parts.ts:28
    i32 phase = 0;
    const u32 tiles = (u32)1 * (u32)q_dim0 * (u32)q_dim1;
    for (u32 tile = (i32)blockIdx.x; tile < tiles; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const i32 i2 = (i32)(tile % (u32)q_dim1);
      const i32 i1 = (i32)((tile / (u32)q_dim1) % (u32)q_dim0);
      const i32 i0 = (i32)(((tile / (u32)q_dim1) / (u32)q_dim0));
      u32 loaded_bf16[32];  // src/ops/flashDecode/attention.ts:93
      #pragma unroll
      for (u32 i = 0; i < 32; ++i) loaded_bf16[i] = 0;
      #pragma unroll
      for (u32 i = 0; i < 64; i += 2) if (tile_row(i, thread) < 8) load_words<4>(loaded_bf16, i / 2, q + (((i1 * q_dim1 + i2) * q_dim2 + (i32)tile_row(i, thread)) * q_dim3 + (i32)fragment_column(i, thread)));
      const i32 loaded = *(lengths + (i1));  // src/ops/flashDecode/attention.ts:95
      const i32 loaded_ceil_64 = (i32)((u32)loaded + 63u) / 64;  // src/ops/flashDecode/attention.ts:100
      float acc[16];  // src/ops/flashDecode/attention.ts:99
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // src/ops/flashDecode/attention.ts:55
      float l[2];  // src/ops/flashDecode/attention.ts:99
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) l[i] = 0.0f;  // src/ops/flashDecode/attention.ts:55
      float m[2];  // src/ops/flashDecode/attention.ts:99
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) m[i] = (-1.0000000150474662e+30f);  // src/ops/flashDecode/attention.ts:55
      i32 slot_2 = slot;  // src/ops/flashDecode/attention.ts:99
      i32 phase_2 = phase;
      for (i32 i0_2 = 0; i0_2 < loaded_ceil_64; ++i0_2) {
        barrier_await(full + slot_2 * 8, phase_2 & 1, control);
        float acc_2[8];  // src/ops/flashDecode/attention.ts:106
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
        float select[8];  // src/ops/flashDecode/attention.ts:107
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) select[i] = (((i32)((u32)(i32)(thread / 32 % 4 * 16 + fragment_column(i, thread)) + (u32)(i0_2 * 64)) < loaded) ? mul[i] : (-1.0000000150474662e+30f));
        float row_max[2];  // src/ops/flashDecode/attention.ts:108
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = __int_as_float(0x7fffffff);
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) if (tile_row(i, thread) < 8) row_max[i / 2 % 2] = fmaxf(row_max[i / 2 % 2], select[i]);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) row_max[i] = across<1, 4>(row_max[i], [](float a, float b) { return fmaxf(a, b); });
        group_barrier(2, 128);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && tile_row(i * 2, thread) < 8) shared_store<float>(shared + 65536 + (tile_row(i * 2, thread) * 4 + thread / 32 % 4) * 4, row_max[i]);
        group_barrier(2, 128);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) { float total = __int_as_float(0x7fffffff); for (u32 w = 0; w < 4; ++w) total = fmaxf(total, shared_load<float>(shared + 65536 + (tile_row(i * 2, thread) * 4 + w) * 4)); row_max[i] = total; }
        float max[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) max[i] = fmaxf(m[i], row_max[i]);
        float sub[8];  // src/ops/flashDecode/attention.ts:109
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) sub[i] = (select[i] - max[i / 2 % 2]);
        float exp2[8];
        #pragma unroll
        for (u32 i = 0; i < 8; ++i) exp2[i] = exp2f(sub[i]);
        float sub_2[2];  // src/ops/flashDecode/attention.ts:110
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) sub_2[i] = (m[i] - max[i]);
        float exp2_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) exp2_2[i] = exp2f(sub_2[i]);
        float mul_2[2];  // src/ops/flashDecode/attention.ts:113
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
        for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && tile_row(i * 2, thread) < 8) shared_store<float>(shared + 65664 + (tile_row(i * 2, thread) * 4 + thread / 32 % 4) * 4, row_sum[i]);
        group_barrier(2, 128);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) { float total = 0.0f; for (u32 w = 0; w < 4; ++w) total = total + shared_load<float>(shared + 65664 + (tile_row(i * 2, thread) * 4 + w) * 4); row_sum[i] = total; }
        float add[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) add[i] = (mul_2[i] + row_sum[i]);
        u32 as_bf16[4];  // src/ops/flashDecode/attention.ts:114
        #pragma unroll
        for (u32 p = 0; p < 4; ++p) as_bf16[p] = pack_bf16(exp2[2 * p], exp2[2 * p + 1]);
        float mul_3[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) mul_3[i] = (acc[i] * exp2_2[i / 2 % 2]);
        #pragma unroll
        for (u32 p = 0; p < 4; ++p) if (tile_row((2 * p), thread) < 8) shared_store<u32>((shared + 66560) + swizzled<128, 8>(tile_row((2 * p), thread), (thread / 32 % 4 * 16 + fragment_column((2 * p), thread)) * 2), as_bf16[p]);
        group_barrier(2, 128);
        #pragma unroll
        for (u32 step = 0; step < 4; ++step) {
          u32 left0[4];
          load_matrix_x4(left0, (shared + 66560) + swizzled<128, 8>(min_u32(thread % 16, 7), (step * 16 + thread % 32 / 16 * 8) * 2));
          #pragma unroll
          for (u32 octet = 0; octet < 4; octet += 2) {
            u32 right[4];
            load_matrix_transposed_x4(right, v_tile + slot_2 * 16384 + swizzled<128, 64>((step * 16 + thread % 16), (thread / 32 % 4 * 32 + octet * 8 + thread % 32 / 16 * 8) * 2));
            mma_bf16(part<4>(mul_3, octet * 4), left0, right[0], right[1]);
            mma_bf16(part<4>(mul_3, 4 + octet * 4), left0, right[2], right[3]);
          }
        }
        __syncwarp();  // src/ops/flashDecode/attention.ts:99
        if (thread % 32 == 0) barrier_arrive(empty + slot_2 * 8);
        const i32 slot_2_plus_1 = slot_2 + 1;
        const bool eq = slot_2_plus_1 == 2;
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) acc[i] = mul_3[i];  // src/ops/flashDecode/attention.ts:114
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) l[i] = add[i];  // src/ops/flashDecode/attention.ts:113
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) m[i] = max[i];  // src/ops/flashDecode/attention.ts:108
        slot_2 = eq ? 0 : slot_2_plus_1;
        phase_2 = eq ? (phase_2 + 1) : phase_2;
      }
      const i32 rank_plus_i0 = rank + i0;  // src/ops/flashDecode/fusedForAll.ts:68
      #pragma unroll 16
      for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {  // src/ops/flashDecode/fusedForAll.ts:76
        const i32 rank_plus_i0_2_plus_1_mod_2 = (i32)((u32)((rank + i0_2) + 1) % 2u);  // src/ops/flashDecode/fusedForAll.ts:52
        const i32 add = (((rank_plus_i0 * q_dim0) + i1) * q_dim1) + i2;  // src/ops/flashDecode/fusedForAll.ts:77
        #pragma unroll
        for (u32 i = 0; i < 8; i += 4) post_words(on_rank(sums, rank_plus_i0_2_plus_1_mod_2 - rank, heap_stride) + (((cast * sums_dim1 + add) * sums_dim2 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 128)) * sums_dim3 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 128)), arrived_signal_epoch, acc[(i + 0) / 2 * 4 + (i + 0) % 2], acc[(i + 1) / 2 * 4 + (i + 1) % 2], acc[(i + 2) / 2 * 4 + (i + 2) % 2], acc[(i + 3) / 2 * 4 + (i + 3) % 2]);  // src/ops/flashDecode/partials.ts:61
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && thread < 32 && tile_row(i * 2, thread) < 8) post_word(on_rank(stats, rank_plus_i0_2_plus_1_mod_2 - rank, heap_stride) + (((cast * stats_dim1 + add) * stats_dim2 + 0) * stats_dim3 + (i32)tile_row(i * 2, thread)), arrived_signal_epoch, m[i]);  // src/ops/flashDecode/partials.ts:62
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (thread % 4 == 0 && thread < 32 && tile_row(i * 2, thread) < 8) post_word(on_rank(stats, rank_plus_i0_2_plus_1_mod_2 - rank, heap_stride) + (((cast * stats_dim1 + add) * stats_dim2 + 1) * stats_dim3 + (i32)tile_row(i * 2, thread)), arrived_signal_epoch, l[i]);  // src/ops/flashDecode/partials.ts:63
      }
      slot = slot_2;
      phase = phase_2;
    }
    const u32 tiles_2 = (u32)out_dim0 * (u32)out_dim1;  // src/ops/flashDecode/partials.ts:105
    for (u32 tile = (i32)blockIdx.x; tile < tiles_2; tile += (i32)gridDim.x) {
      if (tile / (u32)(i32)gridDim.x % 64 == 63 && group_any(2, 128, thread == 0 && abort_raised(control))) { copies_arrive(); break; }
      const i32 i1 = (i32)(tile % (u32)out_dim1);
      const i32 i0 = (i32)((tile / (u32)out_dim1));
      u32 tries_1 = 0;  // src/ops/flashDecode/partials.ts:140
      again_1:
      u32 missing_1 = 0;
      float state0[2];
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) state0[i] = (-1.0000000150474662e+30f);  // src/ops/flashDecode/attention.ts:55
      #pragma unroll 8
      for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {  // src/ops/flashDecode/partials.ts:140
        float taken[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) taken[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) take_word(stats + (((cast * stats_dim1 + ((((i0_2 * out_dim0) + i0) * out_dim1) + i1)) * stats_dim2 + 0) * stats_dim3 + (i32)tile_row(i * 2, thread)), arrived_wait_epoch, missing_1, taken[i]);
        float max[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) max[i] = fmaxf(state0[i], taken[i]);
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) state0[i] = max[i];
      }
      if ((missing_1 & 3) != 0) {
        if (++tries_1 % 256 != 0 || !abort_raised(control)) goto again_1;
        tell_wait(control, 1, rank, arrived_wait_epoch - 1, arrived_wait_epoch);
      }
      u32 tries_2 = 0;  // src/ops/flashDecode/partials.ts:141
      again_2:
      u32 missing_2 = 0;
      float acc[16];
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) acc[i] = 0.0f;  // src/ops/flashDecode/attention.ts:55
      float l[2];  // src/ops/flashDecode/partials.ts:141
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) l[i] = 0.0f;  // src/ops/flashDecode/attention.ts:55
      #pragma unroll 8
      for (i32 i0_2 = 0; i0_2 < 2; ++i0_2) {  // src/ops/flashDecode/partials.ts:141
        const i32 add = (((i0_2 * out_dim0) + i0) * out_dim1) + i1;  // src/ops/flashDecode/partials.ts:126
        float taken[2];  // src/ops/flashDecode/partials.ts:143
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) taken[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) take_word(stats + (((cast * stats_dim1 + add) * stats_dim2 + 0) * stats_dim3 + (i32)tile_row(i * 2, thread)), arrived_wait_epoch, missing_2, taken[i]);
        float sub[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) sub[i] = (taken[i] - state0[i]);
        float exp2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) exp2[i] = exp2f(sub[i]);
        float taken_2[2];  // src/ops/flashDecode/partials.ts:145
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) taken_2[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) if (tile_row(i * 2, thread) < 8) take_word(stats + (((cast * stats_dim1 + add) * stats_dim2 + 1) * stats_dim3 + (i32)tile_row(i * 2, thread)), arrived_wait_epoch, missing_2, taken_2[i]);
        float mul[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) mul[i] = (taken_2[i] * exp2[i]);
        float add_2[2];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) add_2[i] = (l[i] + mul[i]);
        float taken_3[16];  // src/ops/flashDecode/partials.ts:146
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) taken_3[i] = 0;
        #pragma unroll
        for (u32 i = 0; i < 8; i += 4) take_words(sums + (((cast * sums_dim1 + add) * sums_dim2 + (i32)((i / 4 * 512 + thread * 4 + i % 4) / 128)) * sums_dim3 + (i32)((i / 4 * 512 + thread * 4 + i % 4) % 128)), arrived_wait_epoch, missing_2, taken_3[(i + 0) / 2 * 4 + (i + 0) % 2], taken_3[(i + 1) / 2 * 4 + (i + 1) % 2], taken_3[(i + 2) / 2 * 4 + (i + 2) % 2], taken_3[(i + 3) / 2 * 4 + (i + 3) % 2]);
        float mul_2[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) mul_2[i] = (taken_3[i] * exp2[i / 2 % 2]);
        float add_3[16];
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) add_3[i] = (acc[i] + mul_2[i]);
        #pragma unroll
        for (u32 i = 0; i < 16; ++i) acc[i] = add_3[i];
        #pragma unroll
        for (u32 i = 0; i < 2; ++i) l[i] = add_2[i];  // src/ops/flashDecode/partials.ts:145
      }
      if ((missing_2 & 3) != 0) {
        if (++tries_2 % 256 != 0 || !abort_raised(control)) goto again_2;
        tell_wait(control, 1, rank, arrived_wait_epoch - 1, arrived_wait_epoch);
      }
      bool gt[2];  // src/ops/flashDecode/attention.ts:156
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) gt[i] = (l[i] > 0.0f);
      float select[2];
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) select[i] = (gt[i] ? l[i] : 1.0f);
      float div[2];
      #pragma unroll
      for (u32 i = 0; i < 2; ++i) div[i] = (1.0f / select[i]);
      float mul[16];
      #pragma unroll
      for (u32 i = 0; i < 16; ++i) mul[i] = (acc[i] * div[i / 2 % 2]);
      u32 as_bf16[8];  // src/ops/flashDecode/partials.ts:107
      #pragma unroll
      for (u32 p = 0; p < 8; ++p) as_bf16[p] = pack_bf16(mul[2 * p], mul[2 * p + 1]);
      #pragma unroll
      for (u32 i = 0; i < 16; i += 2) if (tile_row(i, thread) < 8) store_words<4>(out + (((i0 * out_dim1 + i1) * out_dim2 + (i32)tile_row(i, thread)) * out_dim3 + (i32)(thread / 32 % 4 * 32 + fragment_column(i, thread))), as_bf16, i / 2);
    }
  }
  __syncthreads();
}
