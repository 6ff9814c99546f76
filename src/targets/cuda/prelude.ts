/**
 * The device functions that emitted CUDA C++ calls: barriers, bulk tensor copies, wgmma, flags. Contract:
 * `prelude(options)` returns all these device functions as records of self-contained CUDA C++ for sm_90a without any
 * #include. A kernel includes only the functions that it uses. Every device function is a thin, named wrapper of one
 * PTX instruction or a short fixed sequence. Shared memory is addressed by 32-bit shared-window addresses throughout.
 * The device functions do not depend on any particular kernel or operation.
 */
import { inline, type Declaration, type Library } from './declaration.ts'

/** The shape of a wgmma instruction to declare: m64 x n x k16, with an f32 result. */
export interface WgmmaShape {
  /** The number of columns of the result: a multiple of 8 from 8 to 256. */
  n: number
  dtype: 'bf16' | 'f16'
  /**
   * Says whether the left operand is in shared memory or in registers. The right operand is always in shared memory.
   */
  a: 'shared' | 'registers'
}

export interface PreludeOptions {
  wgmma?: readonly WgmmaShape[]
  /**
   * The scope in which flags, and the data that they publish, are visible: the whole system (default) or one device.
   */
  flagScope?: 'sys' | 'gpu'
}

/**
 * Returns the name of the device function for a wgmma shape, such as `wgmma_m64n256k16_bf16`, or
 * `wgmma_m64n64k16_f16_ra` if A is in registers.
 */
export function wgmmaName(shape: WgmmaShape): string {
  return `wgmma_m64n${shape.n}k16_${shape.dtype}${shape.a === 'registers' ? '_ra' : ''}`
}

/** Returns the declarations of the device library in the order in which a kernel includes them. */
export function prelude({ wgmma = [], flagScope = 'sys' }: PreludeOptions = {}): Library {
  const wrappers = Object.fromEntries(wgmma.map((shape) => [wgmmaName(shape), wgmmaWrapper(shape)]))
  return { ...TYPES, ...BARRIERS, ...TENSOR_COPIES, ...MATRIX, ...wrappers, ...flags(flagScope) }
}

/**
 * Returns the device function for one wgmma shape. The device function takes the accumulators (n / 2 floats per thread)
 * by reference. `TransposeA`/`TransposeB` is 1 if the operand A (or B) in shared memory is stored with a contiguous M
 * (or N) axis instead of a contiguous K axis.
 */
function wgmmaWrapper(shape: WgmmaShape): Declaration {
  const { n, dtype, a } = shape
  if (n % 8 !== 0 || n < 8 || n > 256) {
    throw new RangeError(`wgmma has no shape with n = ${n}: n must be a multiple of 8 from 8 to 256`)
  }
  const count = n / 2
  const registersA = a === 'registers'
  const d = (i: number) => `"+f"(d[${i}])`
  const rows = (items: string[], per: number, between: string) => {
    const lines: string[] = []
    for (let i = 0; i < items.length; i += per) lines.push(items.slice(i, i + per).join(', '))
    return lines.join(`,${between}`)
  }
  const operands = Array.from({ length: count }, (_, i) => `%${i}`)
  const next = (i: number) => `%${count + i}`
  const aText = registersA ? `{${[0, 1, 2, 3].map(next).join(', ')}}` : next(0)
  const bAt = registersA ? 4 : 1
  const template = registersA ? 'template <int TransposeB>' : 'template <int TransposeA, int TransposeB>'
  const parameters = registersA ? 'const u32 (&a)[4], u64 b' : 'u64 a, u64 b'
  const flags = registersA ? `1, 1, 1, ${next(5)}` : `1, 1, 1, ${next(2)}, ${next(3)}`
  const inputs = registersA
    ? '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TransposeB)'
    : '"l"(a), "l"(b), "n"(TransposeA), "n"(TransposeB)'
  const text = `${template}
${inline} void ${wgmmaName(shape)}(float (&d)[${count}], ${parameters}) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n${n}k16.f32.${dtype}.${dtype} {"
               "${rows(operands, 16, '"\n               "')}"
               "}, ${aText}, ${next(bAt)}, ${flags};"
               : ${rows(
                 operands.map((_, i) => d(i)),
                 6,
                 '\n                 ',
               )}
               : ${inputs});
}`
  return { uses: registersA ? ['u32', 'u64'] : ['u64'], text }
}

const TYPES = {
  u8: { uses: [], text: 'typedef unsigned char u8;' },
  u16: { uses: [], text: 'typedef unsigned short u16;' },
  u32: { uses: [], text: 'typedef unsigned int u32;' },
  u64: { uses: [], text: 'typedef unsigned long long u64;' },
  i32: { uses: [], text: 'typedef int i32;' },
  i64: { uses: [], text: 'typedef long long i64;' },
  TensorMap: { uses: ['u64'], text: 'struct alignas(64) TensorMap { u64 opaque[16]; };' },
  shared_address: {
    uses: ['u32', 'u64'],
    text: `${inline} u32 shared_address(const void* p) {
  u32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(p));
  return address;
}`,
  },
  next_kernel_may_start: {
    note: [
      `Lets the next kernel of the stream start before this kernel ends, if the host enabled programmatic dependent launch.`,
    ],
    uses: [],
    text: `${inline} void next_kernel_may_start() { asm volatile("griddepcontrol.launch_dependents;"); }`,
  },
  kernel_before_ended: {
    note: [`Waits until the previous kernel of the stream has ended and its writes are visible.`],
    uses: [],
    text: `${inline} void kernel_before_ended() { asm volatile("griddepcontrol.wait;" ::: "memory"); }`,
  },
  bring_near: {
    note: [`Prefetches the cache line at \`p\` into the L2 cache.`],
    uses: [],
    text: `${inline} void bring_near(const void* p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }`,
  },
  min_u32: { uses: ['u32'], text: `${inline} u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }` },
  pack_bf16: {
    note: [`Converts two floats to bf16 and packs them into one register, the first in the low half.`],
    uses: ['u32'],
    text: `${inline} u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}`,
  },
  registers_raise: {
    note: [
      `Changes the number of registers per thread of this warpgroup (setmaxnreg). Producers give up registers to consumers.`,
    ],
    uses: ['u32'],
    text: `template <int Count> ${inline} void registers_raise() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(Count)); }`,
  },
  registers_lower: {
    uses: ['u32'],
    text: `template <int Count> ${inline} void registers_lower() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(Count)); }`,
  },
  group_arrive: {
    note: [`Arrives at a named barrier of this program without waiting for the other threads.`],
    uses: ['u32'],
    text: `${inline} void group_arrive(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory"); }`,
  },
  group_barrier: {
    note: [
      `Synchronises \`threads\` threads of this program at a named barrier. Barrier 0 is for all threads of the program.`,
    ],
    uses: ['u32'],
    text: `${inline} void group_barrier(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }`,
  },
} as const satisfies Library

const BARRIERS = {
  barrier_init: {
    note: [
      `Initialises an mbarrier (8 bytes of shared memory at the shared-window address \`barrier\`) whose phases complete after`,
      `\`arrivals\` arrivals.`,
    ],
    uses: ['u32'],
    text: `${inline} void barrier_init(u32 barrier, u32 arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory"); }`,
  },
  barrier_init_fence: {
    uses: [],
    text: `${inline} void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }`,
  },
  barrier_arrive: {
    uses: ['u32'],
    text: `${inline} void barrier_arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory"); }`,
  },
  place_in_cluster: {
    note: [`Returns the rank of this program (thread block) in its cluster.`],
    uses: ['u32'],
    text: `${inline} u32 place_in_cluster() { u32 place; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(place)); return place; }`,
  },
  cluster_meet: {
    note: [`Synchronises all threads of all programs (thread blocks) of the cluster.`],
    uses: [],
    text: `${inline} void cluster_meet() { asm volatile("barrier.cluster.arrive.release.aligned;\\n\\tbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }`,
  },
  neighbour: {
    note: [
      `Returns the rank of the program that is \`step\` positions further along one axis of the cluster. The axis wraps around.`,
    ],
    uses: ['u32'],
    text: `${inline} u32 neighbour(u32 place, u32 step, u32 stride, u32 extent) {
  const u32 at = place / stride % extent;
  return place + ((at + step) % extent - at) * stride;
}`,
  },
  cluster_line: {
    note: [
      `Returns a multicast mask with one bit per program that is on the same line of one cluster axis as the program \`place\`.`,
    ],
    uses: ['u32', 'u16'],
    text: `${inline} u16 cluster_line(u32 place, u32 stride, u32 extent) {
  u32 line = 0;
  for (u32 i = 0; i < extent; ++i) line |= 1u << i * stride;
  return (u16)(line << (place - place / stride % extent * stride));
}`,
  },
  barrier_arrive_at: {
    note: [
      `Arrives at an mbarrier of the cluster's program \`place\`. The mbarrier has the same shared address in every program.`,
    ],
    uses: ['u32'],
    text: `${inline} void barrier_arrive_at(u32 barrier, u32 place) {
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
               :: "r"(barrier), "r"(place) : "memory");
}`,
  },
  barrier_try: {
    note: [
      `Returns true if the phase of parity \`phase\` has completed. A new mbarrier counts as having completed parity 1.`,
    ],
    uses: ['u32'],
    text: `${inline} bool barrier_try(u32 barrier, u32 phase) {
  u32 done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
  return done != 0;
}`,
  },
  cluster_barrier_try: {
    note: [
      `Returns true if the phase of parity \`phase\` has completed, for an mbarrier at which other programs of the cluster arrive.`,
    ],
    uses: ['u32'],
    text: `${inline} bool cluster_barrier_try(u32 barrier, u32 phase) {
  u32 done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
  return done != 0;
}`,
  },
  fence_async: {
    note: [`Orders ordinary memory accesses against accesses by TMA and wgmma (proxy fence).`],
    uses: [],
    text: `${inline} void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }`,
  },
  fence_async_shared: {
    uses: [],
    text: `${inline} void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }`,
  },
} as const satisfies Library

const TENSOR_COPIES = {
  tma_prefetch: {
    uses: ['TensorMap'],
    text: `${inline} void tma_prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory"); }`,
  },
  tma_store_commit: {
    uses: [],
    text: `${inline} void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }`,
  },
  tma_store_wait_read: {
    note: [
      `Waits until at most \`Pending\` groups of bulk stores of this thread have not read all of their shared memory yet.`,
    ],
    uses: [],
    text: `template <int Pending> ${inline} void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(Pending) : "memory"); }`,
  },
  tma_store_wait_done: {
    note: [`Waits until at most \`Pending\` groups of bulk stores of this thread are not complete yet.`],
    uses: [],
    text: `template <int Pending> ${inline} void tma_store_wait_done() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(Pending) : "memory"); }`,
  },
} as const satisfies Library

const MATRIX = {
  wgmma_operand: {
    note: [
      `Returns the wgmma descriptor of an operand in shared memory. The operand's tile is aligned to 1024 bytes, and its lines`,
      `of \`Span\` (128, 64 or 32) bytes have the swizzle of that size. If K is contiguous, a line belongs to one row of M (or N):`,
      `\`leading\` is ignored, and \`stride\` is the distance in bytes between blocks of 8 rows. If M (or N) is contiguous, a line`,
      `belongs to one k: \`leading\` is the distance in bytes between adjacent panels of \`Span\` bytes along M (or N), and \`stride\``,
      `is the distance in bytes between blocks of 8 k.`,
    ],
    uses: ['u32', 'u64'],
    text: `template <u32 Span> ${inline} u64 wgmma_operand(u32 address, u32 leading, u32 stride) {
  const u64 swizzle = Span == 128 ? 1 : Span == 64 ? 2 : 3;
  return (u64)((address & 0x3ffffu) >> 4) | ((u64)(leading >> 4) << 16) | ((u64)(stride >> 4) << 32) | (swizzle << 62);
}`,
  },
  wgmma_fence: {
    uses: [],
    text: `${inline} void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }`,
  },
  wgmma_commit: {
    uses: [],
    text: `${inline} void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }`,
  },
  wgmma_wait: {
    uses: [],
    text: `template <int Pending> ${inline} void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(Pending) : "memory"); }`,
  },
  fragment_fence: {
    note: [
      `Prevents the compiler from moving reads of a fragment before a wgmma_wait, or writes of it after a wgmma_fence.`,
    ],
    uses: [],
    text: `template <int Count> ${inline} void fragment_fence(float (&d)[Count]) {
  #pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}`,
  },
  mma_bf16: {
    note: [`Computes D += A x B on one warp. D is 16 x 8, and K is 16.`],
    uses: ['u32'],
    text: `${inline} void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}`,
  },
  mma_f16: {
    uses: ['u32'],
    text: `${inline} void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}`,
  },
  load_matrix_x4: {
    note: [
      `ldmatrix loads four (x4) or two (x2) 8x8 blocks of 16-bit elements, with one row address per thread. The transposed`,
      `functions transpose each block while they load it.`,
    ],
    uses: ['u32'],
    text: `${inline} void load_matrix_x4(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}`,
  },
  load_matrix_transposed_x4: {
    uses: ['u32'],
    text: `${inline} void load_matrix_transposed_x4(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}`,
  },
  load_matrix_x2: {
    uses: ['u32'],
    text: `${inline} void load_matrix_x2(u32 (&x)[2], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(address) : "memory");
}`,
  },
  load_matrix_transposed_x2: {
    uses: ['u32'],
    text: `${inline} void load_matrix_transposed_x2(u32 (&x)[2], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(address) : "memory");
}`,
  },
  store_matrix_x4: {
    uses: ['u32'],
    text: `${inline} void store_matrix_x4(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}`,
  },
} as const satisfies Library

const flags = (scope: 'sys' | 'gpu') =>
  ({
    flag_load: {
      note: [
        `Loads a flag with acquire semantics. The value of a flag is an epoch, a 32-bit counter that may wrap around.`,
      ],
      uses: ['u32'],
      text: `${inline} u32 flag_load(const u32* flag) {
  u32 value;
  asm volatile("ld.acquire.${scope}.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}`,
    },
    flag_store: {
      uses: ['u32'],
      text: `${inline} void flag_store(u32* flag, u32 value) { asm volatile("st.release.${scope}.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory"); }`,
    },
    flag_add: {
      uses: ['u32'],
      text: `${inline} void flag_add(u32* flag, u32 value) { asm volatile("red.release.${scope}.global.add.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory"); }`,
    },
    flag_reached: {
      note: [
        `Returns true if the flag's value is the wanted epoch or a later one. The subtraction allows the counter to wrap around.`,
      ],
      uses: ['u32', 'i32'],
      text: `${inline} bool flag_reached(u32 value, u32 wanted) { return (i32)(value - wanted) >= 0; }`,
    },
    carrying: {
      note: [
        `Returns the bits of \`x\` with the epoch in the low two bits, as 1, 2 or 3 (flag-in-data, as in NCCL's LL protocol).`,
      ],
      uses: ['u32'],
      text: `${inline} u32 carrying(float x, u32 epoch) { return (__float_as_uint(x) & ~3u) | (epoch % 3u + 1u); }`,
    },
    unlike: {
      note: [`Returns a word whose low two bits are zero only if \`word\` carries the given epoch.`],
      uses: ['u32'],
      text: `${inline} u32 unlike(u32 word, u32 epoch) { return word ^ (epoch % 3u + 1u); }`,
    },
    carried: {
      note: [`Returns the f32 value of a flag-in-data word, without the two bits of the epoch.`],
      uses: ['u32'],
      text: `${inline} float carried(u32 word) { return __uint_as_float(word & ~3u); }`,
    },
    post_word: {
      uses: ['u32', 'carrying'],
      text: `${inline} void post_word(float* to, u32 epoch, float x) {
  asm volatile("st.relaxed.${scope}.global.u32 [%0], %1;" :: "l"(to), "r"(carrying(x, epoch)) : "memory");
}`,
    },
    post_words: {
      uses: ['u32', 'carrying'],
      text: `${inline} void post_words(float* to, u32 epoch, float x, float y, float z, float w) {
  asm volatile("st.relaxed.${scope}.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(to), "r"(carrying(x, epoch)), "r"(carrying(y, epoch)), "r"(carrying(z, epoch)), "r"(carrying(w, epoch)) : "memory");
}`,
    },
    take_word: {
      note: [
        `Loads one f32 from a flag-in-data word. Sets one of the low two bits of \`missing\` if the word carries another epoch.`,
      ],
      uses: ['u32', 'unlike', 'carried'],
      text: `${inline} void take_word(const float* from, u32 epoch, u32& missing, float& x) {
  u32 a;
  asm volatile("ld.relaxed.${scope}.global.u32 %0, [%1];" : "=r"(a) : "l"(from) : "memory");
  missing |= unlike(a, epoch);
  x = carried(a);
}`,
    },
    take_words: {
      note: [
        `Loads four f32 from flag-in-data words. Sets one of the low two bits of \`missing\` if a word carries another epoch.`,
      ],
      uses: ['u32', 'unlike', 'carried'],
      text: `${inline} void take_words(const float* from, u32 epoch, u32& missing, float& x, float& y, float& z, float& w) {
  u32 a, b, c, d;
  asm volatile("ld.relaxed.${scope}.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
  missing |= unlike(a, epoch) | unlike(b, epoch) | unlike(c, epoch) | unlike(d, epoch);
  x = carried(a); y = carried(b); z = carried(c); w = carried(d);
}`,
    },
    WaitRecord: {
      note: [
        `Describes a wait that was in progress when the launch was aborted. \`site\` is the number of the wait's source line, and`,
        `\`owner\` is the rank of the flag, or 0xffffffff if the program did not wait for a flag.`,
      ],
      uses: ['u32'],
      text: `struct WaitRecord { u32 site; u32 owner; u32 value; u32 wanted; };`,
    },
    Control: {
      note: [
        `The control block of a rank, in memory that host and device share: the abort word, the number of wait records, and one`,
        `wait record per program.`,
      ],
      uses: ['u32', 'WaitRecord'],
      text: `struct Control { u32 abort; u32 records; u32 unused[2]; WaitRecord waits[1]; };`,
    },
    abort_raised: {
      note: [`Returns true if the host or a failed assertion has aborted the launch.`],
      uses: ['Control', 'u32'],
      text: `${inline} bool abort_raised(const Control* control) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(&control->abort) : "memory");
  return value != 0;
}`,
    },
    tell_wait: {
      note: [
        `Writes the wait record of a program whose launch is aborted. Only the first record of a program is kept, except that a`,
        `wait for a flag replaces a wait at an mbarrier: the flag is the cause, and the mbarrier only waits for another role.`,
      ],
      uses: ['Control', 'u32', 'WaitRecord'],
      text: `${inline} void tell_wait(Control* control, u32 site, u32 owner, u32 value, u32 wanted) {
  const bool is_flag = owner != 0xffffffff;
  if (!is_flag) __nanosleep(20000);
  volatile WaitRecord* record = (volatile WaitRecord*)&control->waits[blockIdx.x];
  if (blockIdx.x >= control->records || (record->site != 0 && (!is_flag || record->owner != 0xffffffff))) return;
  record->owner = owner;
  record->value = value;
  record->wanted = wanted;
  asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(&record->site), "r"(site) : "memory");
}`,
    },
    Failure: {
      note: [
        `The first 16 bytes of a Control: the number of the first assertion that failed, and the program in which it failed.`,
      ],
      uses: ['u32'],
      text: `struct Failure { u32 abort; u32 records; u32 assertion; u32 program; };`,
    },
    assertion_failed: {
      note: [
        `Reports a failed assertion. The control block keeps the first failure of a launch. The launch is aborted, so that no`,
        `program waits for the one that failed. The program continues, and the host discards its results.`,
      ],
      uses: ['u32', 'Control', 'Failure'],
      text: `${inline} void assertion_failed(Control* control, u32 assertion) {
  Failure* failure = (Failure*)control;
  if (atomicCAS(&failure->assertion, 0u, assertion) == 0) *(volatile u32*)&failure->program = blockIdx.x;
  *(volatile u32*)&failure->abort = 1;
}`,
    },
    flag_wait: {
      note: [
        `Polls a flag until it has reached the wanted epoch, then returns true. Returns false if the launch is aborted: the program`,
        `then continues without waiting, and the host discards its results. Reading the abort word, which is in host memory, takes`,
        `microseconds in which the flag is not polled. The loop therefore reads the abort word only after every 256 polls.`,
      ],
      uses: ['u32', 'Control', 'flag_load', 'flag_reached', 'abort_raised', 'tell_wait'],
      text: `${inline} bool flag_wait(const u32* flag, u32 wanted, Control* control, u32 site, u32 owner) {
  for (u32 spins = 1;; ++spins) {
    const u32 value = flag_load(flag);
    if (flag_reached(value, wanted)) return true;
    if (spins % 256 == 0 && abort_raised(control)) {
      tell_wait(control, site, owner, value, wanted);
      return false;
    }
  }
}`,
    },
    last_program: {
      note: [
        `Returns true in exactly one program of the launch: the last one that calls this function. All writes that the other`,
        `programs made before their calls are then visible to that program. One thread per program calls this function, after a`,
        `barrier of the program. The last call resets the counter to zero for the next launch.`,
      ],
      uses: ['u32'],
      text: `${inline} bool last_program(u32* counter, u32 programs) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  if (before + 1 != programs) return false;
  *counter = 0;
  return true;
}`,
    },
    last_arrival: {
      note: [
        `Returns true for the last of \`arrivals\` calls. All writes that other programs made before their calls are then visible`,
        `to the caller. One thread per program calls this function, after a barrier of the program. The atomic operation itself`,
        `resets the counter to zero, because calls that belong to the next count may follow immediately.`,
      ],
      uses: ['u32'],
      text: `${inline} bool last_arrival(u32* counter, u32 arrivals) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(arrivals - 1) : "memory");
  return before + 1 == arrivals;
}`,
    },
  }) as const satisfies Library

/**
 * The declarations that do not depend on the matrix products of a kernel. The names of the fixed declarations are the
 * same for all options of `prelude`.
 */
export const fixedPrelude = { ...TYPES, ...BARRIERS, ...TENSOR_COPIES, ...MATRIX, ...flags('sys') }
