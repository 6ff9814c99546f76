/**
 * The device functions that emitted kernels call, in addition to those in `prelude.ts`: fragments, shared memory,
 * mbarriers and staging. Each device function is a record of its text and of the names of the declarations that it
 * uses.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { philox } from '../../../ir/philox.ts'
import { inline, type Library } from '../declaration.ts'

const hex = (word: number): string => `0x${word.toString(16)}u`

export const COMMON = {
  i8: { uses: [], text: 'typedef signed char i8;' },
  Chunk: { uses: ['u32'], text: 'struct alignas(16) Chunk { u32 word[4]; };' },
  bf16_to_f32: {
    uses: ['u16', 'u32'],
    text: `${inline} float bf16_to_f32(u16 bits) { return __uint_as_float((u32)bits << 16); }`,
  },
  f32_to_bf16: {
    uses: ['u16', 'pack_bf16'],
    text: `${inline} u16 f32_to_bf16(float x) { return (u16)pack_bf16(x, 0.0f); }`,
  },
  f16_to_f32: {
    uses: ['u16'],
    text: `${inline} float f16_to_f32(u16 bits) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }`,
  },
  f32_to_f16: {
    uses: ['u16'],
    text: `${inline} u16 f32_to_f16(float x) { u16 bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); return bits; }`,
  },
  pack_f16: {
    uses: ['u32'],
    text: `${inline} u32 pack_f16(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}`,
  },
  f8e4m3_to_f32: {
    note: [`Converts an 8-bit float (e4m3) to f32. The conversion passes through f16, which is exact.`],
    uses: ['u8', 'u32', 'u16', 'f16_to_f32'],
    text: `${inline} float f8e4m3_to_f32(u8 bits) {
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)bits));
  return f16_to_f32((u16)halves);
}`,
  },
  f32_to_f8e4m3: {
    uses: ['u8', 'u16'],
    text: `${inline} u8 f32_to_f8e4m3(float x) { u16 bits; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(x)); return (u8)bits; }`,
  },
  f8e5m2_to_f32: {
    note: [`Converts an 8-bit float (e5m2) to f32. An e5m2 number is the upper byte of an f16 number.`],
    uses: ['u8', 'f16_to_f32', 'u16'],
    text: `${inline} float f8e5m2_to_f32(u8 bits) { return f16_to_f32((u16)(bits << 8)); }`,
  },
  f32_to_f8e5m2: {
    note: [
      `Converts f32 to e5m2. Numbers that round beyond the largest finite e5m2 number become infinite, whereas the`,
      `instruction would return the largest finite number.`,
    ],
    uses: ['u8', 'u16'],
    text: `${inline} u8 f32_to_f8e5m2(float x) {
  u16 bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(x));
  return fabsf(x) >= 61440.0f ? (u8)(bits & 0x80 | 0x7c) : (u8)bits;
}`,
  },
  f32_to_i8: {
    note: [
      `Conversions to integers round towards zero, return the nearest integer of the type for numbers out of range, and return`,
      `0 for NaN. The hardware conversion to 32 bits has these properties already.`,
    ],
    uses: ['i8', 'i32'],
    text: `${inline} i8 f32_to_i8(float x) { const i32 whole = __float2int_rz(x); return (i8)(whole < -128 ? -128 : whole > 127 ? 127 : whole); }`,
  },
  f32_to_u8: {
    uses: ['u8', 'u32'],
    text: `${inline} u8 f32_to_u8(float x) { const u32 whole = __float2uint_rz(x); return (u8)(whole > 255 ? 255 : whole); }`,
  },
  f32_to_i64: {
    uses: ['i64'],
    text: `${inline} i64 f32_to_i64(float x) {
  const i64 whole = x == x ? __float2ll_rz(x) : 0, most = ${dtypes.i64.max}ll;
  return whole < -most ? -most : whole > most ? most : whole;
}`,
  },
  pack_bits: {
    uses: ['u32', 'u16'],
    text: `${inline} u32 pack_bits(u16 low, u16 high) { return (u32)low | (u32)high << 16; }`,
  },
  sigmoid_f32: {
    uses: [],
    text: `${inline} float sigmoid_f32(float x) {
  const float e = expf(-fabsf(x)); // at most 1, and never infinite
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}`,
  },
  philox: {
    note: [
      `Returns one word of the random block that Philox4x32-${philox.rounds} computes from the counter (a, b, c, d) and the key`,
      `(low, high).`,
    ],
    uses: ['u32'],
    text: `template <int Word> ${inline} u32 philox(u32 a, u32 b, u32 c, u32 d, u32 low, u32 high) {
  #pragma unroll
  for (int round = 0; round < ${philox.rounds}; ++round) {
    const u32 left = ${hex(philox.multipliers[0])} * a, left_high = __umulhi(${hex(philox.multipliers[0])}, a);
    const u32 right = ${hex(philox.multipliers[1])} * c, right_high = __umulhi(${hex(philox.multipliers[1])}, c);
    a = right_high ^ b ^ low, b = right, c = left_high ^ d ^ high, d = left;
    low += ${hex(philox.increments[0])}, high += ${hex(philox.increments[1])};
  }
  return Word == 0 ? a : Word == 1 ? b : Word == 2 ? c : d;
}`,
  },
  TileIndex: {
    note: [`The position of an output tile, in units of tiles.`],
    uses: ['i32'],
    text: `struct TileIndex { i32 row, column; };`,
  },
  grouped_tile: {
    note: [
      `Returns the position of tile \`index\` of \`rows\` x \`columns\` tiles. Consecutive indices walk through \`group\` rows of tiles,`,
      `column by column, so that programs that run at the same time share operand tiles in the L2 cache.`,
    ],
    uses: ['TileIndex', 'u32', 'min_u32', 'i32'],
    text: `${inline} TileIndex grouped_tile(u32 index, u32 rows, u32 columns, u32 group) {
  const u32 first = index / (group * columns) * group;
  const u32 height = min_u32(group, rows - first);
  const u32 inside = index - first * columns;
  return { (i32)(first + inside % height), (i32)(inside / height) };
}`,
  },
  Places: {
    note: [
      `The position of each rank's heap in the world. Used for groups whose ranks are not at a constant distance.`,
    ],
    uses: ['i32'],
    text: `template <int Ranks> struct Places { i32 of[Ranks]; };`,
  },
  on_rank: {
    note: [
      `Returns the address on another rank that corresponds to \`p\` on this rank. \`ranks_further\` is the distance of their heaps.`,
    ],
    uses: ['i32', 'i64', 'u8'],
    text: `template <typename T> ${inline} T* on_rank(T* p, i32 ranks_further, i64 heap_stride) { return (T*)((u8*)p + ranks_further * heap_stride); }`,
  },
  tile_row: {
    note: [
      `Returns the row, 0 to 15, of the thread's element \`i\` in a result of mma.sync, which belongs to one warp.`,
    ],
    uses: ['u32'],
    text: `${inline} u32 tile_row(u32 i, u32 thread) { return thread % 32 / 4 + i / 2 % 2 * 8; }`,
  },
  fragment_row: {
    note: [
      `Returns the row, 0 to 63, of the thread's element \`i\` in a result of wgmma, which belongs to one warpgroup.`,
    ],
    uses: ['u32'],
    text: `${inline} u32 fragment_row(u32 i, u32 thread) { return thread % 128 / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }`,
  },
  fragment_column: {
    note: [`Returns the column of the thread's element \`i\` in a result of mma.sync or wgmma.`],
    uses: ['u32'],
    text: `${inline} u32 fragment_column(u32 i, u32 thread) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }`,
  },
  half_at: {
    note: [`Returns element \`i\` of a fragment of 16-bit elements. A register holds two of them.`],
    uses: ['u16', 'u32'],
    text: `template <int Count> ${inline} u16 half_at(const u32 (&x)[Count], u32 i) { return (u16)(i % 2 == 0 ? x[i / 2] : x[i / 2] >> 16); }`,
  },
  part: {
    note: [`Returns \`Count\` elements of the array \`x\`, beginning with element \`first\`, as an array.`],
    uses: ['u32'],
    text: `template <int Count, typename T, int Total> ${inline} T (&part(T (&x)[Total], u32 first))[Count] { return reinterpret_cast<T (&)[Count]>(x[first]); }`,
  },
  swizzled: {
    note: [
      `Returns the offset in bytes of an element in a swizzled tile in shared memory. The tile consists of panels that are`,
      `\`Span\` bytes wide, and the 16-byte chunks of each row of a panel are permuted in the format of TMA and wgmma.`,
    ],
    uses: ['u32'],
    text: `template <u32 Span, u32 Rows> ${inline} u32 swizzled(u32 row, u32 byte) {
  const u32 at = byte / Span * (Rows * Span) + row * Span + byte % Span;
  return at ^ (at / 128 % (Span / 16) * 16);
}`,
  },
  shared_load: {
    uses: ['u32', 'u8', 'u16', 'u64'],
    text: `template <typename T> ${inline} T shared_load(u32 at) {
  if constexpr (sizeof(T) == 1) { u32 v; asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(at) : "memory"); u8 b = (u8)v; return *(T*)&b; }
  else if constexpr (sizeof(T) == 2) { u16 v; asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory"); return *(T*)&v; }
  else if constexpr (sizeof(T) == 4) { u32 v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory"); return *(T*)&v; }
  else if constexpr (sizeof(T) == 8) { u64 v; asm volatile("ld.shared.u64 %0, [%1];" : "=l"(v) : "r"(at) : "memory"); return *(T*)&v; }
  else { T v; asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "r"(at) : "memory"); return v; }
}`,
  },
  shared_store: {
    uses: ['u32', 'u8', 'u16', 'u64'],
    text: `template <typename T> ${inline} void shared_store(u32 at, T v) {
  if constexpr (sizeof(T) == 1) asm volatile("st.shared.u8 [%0], %1;" :: "r"(at), "r"((u32)*(u8*)&v) : "memory");
  else if constexpr (sizeof(T) == 2) asm volatile("st.shared.u16 [%0], %1;" :: "r"(at), "h"(*(u16*)&v) : "memory");
  else if constexpr (sizeof(T) == 4) asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(*(u32*)&v) : "memory");
  else if constexpr (sizeof(T) == 8) asm volatile("st.shared.u64 [%0], %1;" :: "r"(at), "l"(*(u64*)&v) : "memory");
  else asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
}`,
  },
  fetch: {
    note: [
      `Starts a copy (cp.async) of \`Bytes\` bytes from global to shared memory. Writes zeros if \`inside\` is false, which is the`,
      `case outside the tensor.`,
    ],
    uses: ['u32'],
    text: `template <u32 Bytes> ${inline} void fetch(u32 to, const void* from, bool inside) {
  const u32 bytes = inside ? Bytes : 0;
  if constexpr (Bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(to), "l"(from), "n"(Bytes), "r"(bytes) : "memory");
}`,
  },
  fetches_arrived: {
    note: [`Waits until all cp.async copies of this thread are complete.`],
    uses: [],
    text: `${inline} void fetches_arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }`,
  },
  best_of_line: {
    note: [
      `Returns the index of the largest (or smallest) element of a row or column in shared memory. NaN wins over numbers, and`,
      `the lowest index wins among equal elements.`,
    ],
    uses: ['i32', 'u32', 'shared_load'],
    text: `template <typename T, bool Largest> ${inline} i32 best_of_line(u32 at, u32 step, u32 extent) {
  T best = shared_load<T>(at);
  i32 index = 0;
  for (u32 k = 1; k < extent; ++k) {
    const T next = shared_load<T>(at + k * step);
    if (best == best && (next != next || (Largest ? next > best : next < best))) best = next, index = (i32)k;
  }
  return index;
}`,
  },
  scan_line: {
    note: [`Computes the inclusive prefix sums of a row or column in shared memory, in place.`],
    uses: ['u32', 'shared_load', 'shared_store'],
    text: `template <typename T, typename F> ${inline} void scan_line(u32 at, u32 step, u32 extent, F add) {
  T total = shared_load<T>(at);
  for (u32 k = 1; k < extent; ++k) shared_store<T>(at + k * step, total = add(total, shared_load<T>(at + k * step)));
}`,
  },
  load_words: {
    note: [
      `Loads \`Bytes\` contiguous bytes into the registers \`at\`, \`at + 1\`, ... of a fragment, 4 bytes per register.`,
    ],
    uses: ['u32', 'Chunk', 'u64'],
    text: `template <u32 Bytes, typename T, int Count> ${inline} void load_words(T (&x)[Count], u32 at, const void* from) {
  if constexpr (Bytes == 16) { const Chunk c = *(const Chunk*)from; for (u32 j = 0; j < 4; ++j) x[at + j] = *(const T*)&c.word[j]; }
  else if constexpr (Bytes == 8) { const u64 c = *(const u64*)from; const u32 a = (u32)c, b = (u32)(c >> 32); x[at] = *(const T*)&a; x[at + 1] = *(const T*)&b; }
  else { x[at] = *(const T*)from; }
}`,
  },
  store_words: {
    note: [
      `Stores the registers \`at\`, \`at + 1\`, ... of a fragment to \`Bytes\` contiguous bytes, 4 bytes per register.`,
    ],
    uses: ['u32', 'Chunk', 'u64'],
    text: `template <u32 Bytes, typename T, int Count> ${inline} void store_words(void* to, const T (&x)[Count], u32 at) {
  if constexpr (Bytes == 16) { Chunk c; for (u32 j = 0; j < 4; ++j) c.word[j] = *(const u32*)&x[at + j]; *(Chunk*)to = c; }
  else if constexpr (Bytes == 8) { const u64 c = *(const u32*)&x[at] | (u64)*(const u32*)&x[at + 1] << 32; *(u64*)to = c; }
  else { *(u32*)to = *(const u32*)&x[at]; }
}`,
  },
  barrier_expect_bytes: {
    note: [
      `Makes the current phase of an mbarrier wait for \`bytes\` more bytes, which TMA copies will deliver.`,
    ],
    uses: ['u32'],
    text: `${inline} void barrier_expect_bytes(u32 barrier, u32 bytes) { asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory"); }`,
  },
  barrier_await: {
    note: [
      `Waits until the mbarrier's phase of the given parity has completed. Returns false if the launch is aborted.`,
    ],
    uses: ['u32', 'Control', 'barrier_try', 'abort_raised'],
    text: `${inline} bool barrier_await(u32 barrier, u32 parity, const Control* control) {
  for (u32 tries = 1; !barrier_try(barrier, parity); ++tries)
    if (tries % 1024 == 0 && abort_raised(control)) return false;
  return true;
}`,
  },
  cluster_barrier_await: {
    note: [
      `Waits for an mbarrier at which other programs of the cluster arrive. Returns false if the launch is aborted.`,
    ],
    uses: ['u32', 'Control', 'cluster_barrier_try', 'abort_raised'],
    text: `${inline} bool cluster_barrier_await(u32 barrier, u32 parity, const Control* control) {
  for (u32 tries = 1; !cluster_barrier_try(barrier, parity); ++tries)
    if (tries % 1024 == 0 && abort_raised(control)) return false;
  return true;
}`,
  },
  copies_arrive: {
    note: [
      `Sleeps for 100 us, so that copies in flight into the shared memory of an aborted program complete before it ends.`,
    ],
    uses: [],
    text: `${inline} void copies_arrive() { __nanosleep(100000); }`,
  },
  group_any: {
    note: [
      `Returns true on all threads of the group if \`say\` is true on at least one of them. Synchronises the threads.`,
    ],
    uses: ['u32'],
    text: `${inline} bool group_any(u32 id, u32 threads, bool say) {
  u32 any;
  asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %3, 0; barrier.cta.red.or.aligned.pred q, %1, %2, p; selp.u32 %0, 1, 0, q; }"
               : "=r"(any) : "r"(id), "r"(threads), "r"((u32)say) : "memory");
  return any != 0;
}`,
  },
  across: {
    note: [
      `Combines a value over threads of a warp with a sum, maximum or minimum. Thread numbers differ by Step, 2 Step, ... < Width.`,
    ],
    uses: ['u32'],
    text: `template <u32 Step, u32 Width, typename T, typename F> ${inline} T across(T x, F combine) {
  #pragma unroll
  for (u32 apart = Step; apart < Width; apart *= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}`,
  },
} as const satisfies Library

/**
 * Functions that write a box of 64 rows x 128 bytes to shared memory in the 128-byte swizzle. Each loop iteration of
 * such a function stores four 8x8 blocks of 16-bit elements, or two floats.
 */
export const STAGING = {
  stage_halves: {
    note: [
      `Writes one box of a fragment, 64 rows of 128 bytes, to its staging buffer in shared memory. \`first\` is the first register`,
      `of the box.`,
    ],
    uses: ['u32', 'store_matrix_x4'],
    text: `template <int Count> ${inline} void stage_halves(u32 staging, const u32 (&x)[Count], u32 first, u32 thread) {
  const u32 row = thread % 128 / 32 * 16 + thread % 16;
  #pragma unroll
  for (u32 g = 0; g < 8; g += 2) {
    const u32 p = first + g * 2;
    store_matrix_x4(staging + row * 128 + ((g + thread % 32 / 16) ^ (row % 8)) * 16, x[p], x[p + 1], x[p + 2], x[p + 3]);
  }
}`,
  },
  stage_floats: {
    uses: ['u32', 'swizzled', 'fragment_row', 'fragment_column', 'shared_store', 'u64'],
    text: `template <int Count> ${inline} void stage_floats(u32 staging, const float (&x)[Count], u32 first, u32 thread) {
  #pragma unroll
  for (u32 i = 0; i < 16; i += 2) {
    const u32 at = staging + swizzled<128, 64>(fragment_row(i, thread), fragment_column(i, thread) * 4);
    shared_store(at, (u64)__float_as_uint(x[first + i]) | (u64)__float_as_uint(x[first + i + 1]) << 32);
  }
}`,
  },
} as const satisfies Library
