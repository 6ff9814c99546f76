/**
 * Defines the C++ prelude of rendered code: types, vectors with the machine's lanes, and operations whose semantics in
 * Code differ from the C++ operators. Every definition has a name and lists the definitions that it needs, so that a
 * module includes only those that it uses.
 *
 * Builtins are preferred over headers, because parsing headers takes longer than compiling a small kernel. Vector
 * operations without a builtin in both compilers are loops over lanes, which gcc and clang compile to a single
 * instruction.
 */

interface Piece {
  readonly needs?: readonly PieceName[]
  readonly text: (lanes: number) => string
}

/** Defines the vector type of an element type. */
const vector =
  (name: string, element: string, bytes: number) =>
  (lanes: number): string =>
    `typedef ${element} ${name} __attribute__((vector_size(${lanes * bytes})));`

/** Defines a function that computes `each` for every lane `i` in a loop. */
const byLane = (head: string, each: string) => (lanes: number) => `static inline vf32 ${head} {
  vf32 result;
  for (int i = 0; i < ${lanes}; ++i) result[i] = ${each};
  return result;
}`

/**
 * Computes the minimum or maximum, where -0 is less than 0. If one operand is NaN, the result is the other operand. The
 * bit operator `join` (or for the minimum, and for the maximum) yields the right zero for zeros of different sign.
 */
const bound = (name: 'min' | 'max', type: string, integer: string) => {
  const [order, join] = name === 'min' ? ['<', '|'] : ['>', '&']
  return () => `static inline ${type} ${name}(${type} a, ${type} b) {
  ${type} x = a == a ? a : b, y = b == b ? b : a;
  ${type} first = x ${order} y ? x : y, second = y ${order} x ? y : x;
  return bits<${type}>(bits<${integer}>(first) ${join} bits<${integer}>(second));
}`
}

const unsignedOf = { i32: 'u32', i64: 'u64' } as const

/**
 * Converts a float to an integer: by a cast within the range of the integer type, to the nearest bound outside the
 * range, and to 0 for a NaN. The bounds of the integer type are exact in every float type.
 */
function truncation(from: 'f32' | 'f64', to: 'i32' | 'i64', unsigned: boolean): string {
  const bits = to === 'i32' ? 32 : 64
  const name = unsigned ? unsignedOf[to] : to
  const suffix = from === 'f32' ? 'f' : ''
  const above = `0x1p${unsigned ? bits : bits - 1}${suffix}`
  const greatest = unsigned ? '-1' : `(${to})(~(u${bits})0 >> 1)`
  // Between -1 and 0, a cast to unsigned returns 0. In a conversion to unsigned, all values from -1 downwards become 0
  // as well.
  const below = unsigned ? `a > -1.0${suffix}` : `a >= -0x1p${bits - 1}${suffix}`
  const least = unsigned ? '0' : `a == a ? (${to})((u${bits})1 << ${bits - 1}) : 0`
  return `static inline ${to} truncate_${name}(${from} a) {
  if (a >= ${above}) return ${greatest};
  return ${below} ? (${to})(${name})a : ${least};
}`
}

const divisions = (type: 'i32' | 'i64', name: 'div' | 'rem') => () =>
  name === 'div'
    ? `static inline ${type} divide(${type} a, ${type} b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }`
    : `static inline ${type} remainder_of(${type} a, ${type} b) { return b == 0 || b == -1 ? 0 : a % b; }`
const unsignedDivisions = (type: 'i32' | 'i64', name: 'div' | 'rem') => () => {
  const unsigned = unsignedOf[type]
  const [call, operator] = name === 'div' ? ['divide_unsigned', '/'] : ['remainder_unsigned', '%']
  return `static inline ${type} ${call}(${type} a, ${type} b) { return b == 0 ? 0 : (${type})((${unsigned})a ${operator} (${unsigned})b); }`
}

/**
 * The compiler gcc splits a widening conversion into two instructions, so its builtin for the single instruction is
 * used. The compiler clang generates a single instruction without a builtin.
 */
function widening(name: 'u8' | 'i8' | 'u16', lanes: number): string {
  const letters = `pmov${name === 'i8' ? 'sx' : 'zx'}${name === 'u16' ? 'wd' : 'bd'}`
  const builtin = `__builtin_ia32_${letters}${lanes * 32}${lanes === 16 ? '_mask' : ''}`
  const feature = lanes === 16 ? '__AVX512F__' : lanes === 8 ? '__AVX2__' : '__SSE4_1__'
  const element = name === 'u16' ? 'short' : 'char'
  const held = name === 'u16' ? 2 : 1
  // The builtin of gcc takes a whole register and widens the lanes in the lower half of the register.
  const whole = Math.max(16, lanes * held)
  const part = lanes * held === 4 ? 'int' : 'long long'
  // Loads the bytes as one element, because inserting bytes into a zeroed vector would go through memory.
  const packed =
    whole === lanes * held
      ? 'whole packed = load<whole>(p);'
      : `${part} packed __attribute__((vector_size(16))) = {load<${part}>(p)};`
  const fill = lanes === 16 ? ', vi32{}, (unsigned short)-1' : ''
  return `static inline vi32 widen_${name}(const char* p) {
#if defined(${feature}) && __has_builtin(${builtin})
  typedef ${element} whole __attribute__((vector_size(${whole})));
  ${packed}
  return (vi32)${builtin}((whole)packed${fill});
#else
  return __builtin_convertvector(load<v${name}>(p), vi32);
#endif
}`
}

const numbers = (lanes: number, each: (lane: number) => string): string =>
  Array.from({ length: lanes }, (_, lane) => each(lane)).join(', ')

/** Older gcc versions have only their own shuffle builtin. Newer versions of gcc also have clang's shuffle builtin. */
function zipping(type: 'vf32' | 'vi32', half: 'first' | 'second', lanes: number): string {
  const from = half === 'first' ? 0 : lanes / 2
  const places = numbers(lanes, (lane) => String(from + (lane >> 1) + (lane % 2) * lanes))
  return `static inline ${type} zip_${half}(${type} a, ${type} b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, ${places});
#else
  return __builtin_shuffle(a, b, vi32{${places}});
#endif
}`
}

const pieces = {
  // C++ types of the prelude
  i8: { text: () => 'typedef signed char i8;' },
  u8: { text: () => 'typedef unsigned char u8;' },
  u16: { text: () => 'typedef unsigned short u16;' },
  i32: { text: () => 'typedef int i32;' },
  u32: { text: () => 'typedef unsigned int u32;' },
  i64: { text: () => 'typedef long long i64;' },
  u64: { text: () => 'typedef unsigned long long u64;' },
  f32: { text: () => 'typedef float f32;' },
  f64: { text: () => 'typedef double f64;' },
  ptr: { text: () => 'typedef char* ptr;' },
  vf32: { needs: ['f32'], text: vector('vf32', 'f32', 4) },
  vi32: { needs: ['i32'], text: vector('vi32', 'i32', 4) },
  vu32: { needs: ['u32'], text: vector('vu32', 'u32', 4) },
  vu64: { needs: ['u64'], text: vector('vu64', 'u64', 8) },
  vu16: { needs: ['u16'], text: vector('vu16', 'u16', 2) },
  vu8: { needs: ['u8'], text: vector('vu8', 'u8', 1) },
  vi8: { needs: ['i8'], text: vector('vi8', 'i8', 1) },

  // Unaligned memory accesses, and reinterpretation of bits as another type
  load: {
    text: () => `template <class T> static inline T load(const char* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}`,
  },
  store: {
    text: () =>
      'template <class T> static inline void store(char* p, T value) { __builtin_memcpy(p, &value, sizeof value); }',
  },
  bits: {
    text: () => `template <class T, class From> static inline T bits(From from) {
  static_assert(sizeof(T) == sizeof(From), "the same number of bits");
  T to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}`,
  },
  widen_u8: { needs: ['vi32', 'vu8', 'load'], text: (lanes) => widening('u8', lanes) },
  widen_i8: { needs: ['vi32', 'vi8', 'load'], text: (lanes) => widening('i8', lanes) },
  widen_u16: { needs: ['vi32', 'vu16', 'load'], text: (lanes) => widening('u16', lanes) },

  // C++ vector operations of the prelude
  splat_f32: {
    needs: ['vf32'],
    text: (lanes) => `static inline vf32 splat(f32 a) { return vf32{${numbers(lanes, () => 'a')}}; }`,
  },
  splat_i32: {
    needs: ['vi32'],
    text: (lanes) => `static inline vi32 splat(i32 a) { return vi32{${numbers(lanes, () => 'a')}}; }`,
  },
  lane_numbers: {
    needs: ['vi32'],
    text: (lanes) => `static const vi32 lane_numbers = {${numbers(lanes, String)}};`,
  },
  zip_first_vf32: { needs: ['vf32', 'vi32'], text: (lanes) => zipping('vf32', 'first', lanes) },
  zip_second_vf32: { needs: ['vf32', 'vi32'], text: (lanes) => zipping('vf32', 'second', lanes) },
  zip_first_vi32: { needs: ['vi32'], text: (lanes) => zipping('vi32', 'first', lanes) },
  zip_second_vi32: { needs: ['vi32'], text: (lanes) => zipping('vi32', 'second', lanes) },
  sqrt_vf32: { needs: ['vf32'], text: byLane('sqrt(vf32 a)', '__builtin_sqrtf(a[i])') },
  floor_vf32: { needs: ['vf32'], text: byLane('floor(vf32 a)', '__builtin_floorf(a[i])') },
  nearest_vf32: { needs: ['vf32'], text: byLane('nearest(vf32 a)', '__builtin_rintf(a[i])') },
  abs_vf32: {
    needs: ['vf32', 'vi32'],
    text: () => 'static inline vf32 abs(vf32 a) { return (vf32)((vi32)a & 0x7fffffff); }',
  },
  fma_f32: {
    needs: ['f32'],
    text: () => `#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#else
static inline f32 fma(f32 a, f32 b, f32 c) { return a * b + c; }
#endif`,
  },
  fma_vf32: {
    needs: ['vf32'],
    text: (lanes) => `#if __has_builtin(__builtin_elementwise_fma)
static inline vf32 fma(vf32 a, vf32 b, vf32 c) { return __builtin_elementwise_fma(a, b, c); }
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
${byLane('fma(vf32 a, vf32 b, vf32 c)', '__builtin_fmaf(a[i], b[i], c[i])')(lanes)}
#else
static inline vf32 fma(vf32 a, vf32 b, vf32 c) { return a * b + c; }
#endif`,
  },

  multiply_high_i32: {
    needs: ['i32', 'u32', 'u64'],
    text: () => 'static inline i32 multiply_high(i32 a, i32 b) { return (i32)((u64)(u32)a * (u32)b >> 32); }',
  },
  multiply_high_vi32: {
    needs: ['vi32', 'vu32', 'vu64'],
    text: () => `static inline vi32 multiply_high(vi32 a, vi32 b) {
  vu64 product = __builtin_convertvector((vu32)a, vu64) * __builtin_convertvector((vu32)b, vu64);
  return __builtin_convertvector(product >> 32, vi32);
}`,
  },

  // Computes min or max: returns the second operand unless the first is smaller (or larger). This way to compute min or
  // max is correct for integers, and for a float against a constant.
  lesser: { text: () => 'template <class T> static inline T lesser(T a, T b) { return a < b ? a : b; }' },
  greater: { text: () => 'template <class T> static inline T greater(T a, T b) { return a > b ? a : b; }' },
  magnitude: { text: () => 'template <class T> static inline T magnitude(T a) { return a < 0 ? -a : a; }' },

  // Operations whose edge cases are undefined or different in C++
  min_f32: { needs: ['f32', 'i32', 'bits'], text: bound('min', 'f32', 'i32') },
  max_f32: { needs: ['f32', 'i32', 'bits'], text: bound('max', 'f32', 'i32') },
  min_f64: { needs: ['f64', 'i64', 'bits'], text: bound('min', 'f64', 'i64') },
  max_f64: { needs: ['f64', 'i64', 'bits'], text: bound('max', 'f64', 'i64') },
  min_vf32: { needs: ['vf32', 'vi32', 'bits'], text: bound('min', 'vf32', 'vi32') },
  max_vf32: { needs: ['vf32', 'vi32', 'bits'], text: bound('max', 'vf32', 'vi32') },
  div_i32: { needs: ['i32'], text: divisions('i32', 'div') },
  div_i64: { needs: ['i64'], text: divisions('i64', 'div') },
  rem_i32: { needs: ['i32'], text: divisions('i32', 'rem') },
  rem_i64: { needs: ['i64'], text: divisions('i64', 'rem') },
  divU_i32: { needs: ['i32', 'u32'], text: unsignedDivisions('i32', 'div') },
  divU_i64: { needs: ['i64', 'u64'], text: unsignedDivisions('i64', 'div') },
  remU_i32: { needs: ['i32', 'u32'], text: unsignedDivisions('i32', 'rem') },
  remU_i64: { needs: ['i64', 'u64'], text: unsignedDivisions('i64', 'rem') },
  truncate_f32_i32: { needs: ['f32', 'i32', 'u32'], text: () => truncation('f32', 'i32', false) },
  truncate_f32_i64: { needs: ['f32', 'i64', 'u64'], text: () => truncation('f32', 'i64', false) },
  truncate_f64_i32: { needs: ['f64', 'i32', 'u32'], text: () => truncation('f64', 'i32', false) },
  truncate_f64_i64: { needs: ['f64', 'i64', 'u64'], text: () => truncation('f64', 'i64', false) },
  truncateU_f32_i32: { needs: ['f32', 'i32', 'u32'], text: () => truncation('f32', 'i32', true) },
  truncateU_f32_i64: { needs: ['f32', 'i64', 'u64'], text: () => truncation('f32', 'i64', true) },
  truncateU_f64_i32: { needs: ['f64', 'i32', 'u32'], text: () => truncation('f64', 'i32', true) },
  truncateU_f64_i64: { needs: ['f64', 'i64', 'u64'], text: () => truncation('f64', 'i64', true) },
  truncate_vf32: {
    needs: ['vf32', 'vi32'],
    text: () => `static inline vi32 truncate_i32(vf32 a) {
  vi32 inside = (a >= -0x1p31f) & (a < 0x1p31f);
  vi32 outside = a >= 0x1p31f ? vi32{} + 0x7fffffff : (vi32)(a < 0) & (vi32{} - 0x7fffffff - 1);
  return inside < 0 ? __builtin_convertvector((vf32)((vi32)a & inside), vi32) : outside;
}`,
  },
  truncateU_vf32: {
    needs: ['vf32', 'vi32', 'vu32'],
    text: () => `static inline vi32 truncate_u32(vf32 a) {
  vi32 inside = (a > -1.0f) & (a < 0x1p32f), upper = a >= 0x1p31f;
  vf32 lower = (vf32)((vi32)(upper < 0 ? a - 0x1p31f : a) & inside);
  vi32 whole = __builtin_convertvector(lower, vi32) ^ (upper & (vi32{} - 0x7fffffff - 1));
  return inside < 0 ? whole : (vi32)(a >= 0x1p32f);
}`,
  },

  // Thread operations: atomics, fences, sleeping
  pause: {
    text: () => `static inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}`,
  },
  now: {
    needs: ['f64'],
    text: () => `#include <time.h>
static inline f64 steady_now() {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (f64)((long long)at.tv_sec * 1000000000 + at.tv_nsec);
}`,
  },
  sleep: {
    needs: ['f64', 'i32'],
    text: () => `#if defined(__linux__)
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#else
#include <sched.h>
#endif
static void sleep_on(char* word, i32 expected, f64 nanoseconds) {
#if defined(__linux__)
  if (!(nanoseconds > 0)) return;
  f64 most = 1e18;
  long long whole = (long long)(nanoseconds < most ? nanoseconds : most);
  timespec time = {(time_t)(whole / 1000000000), (long)(whole % 1000000000)};
  syscall(SYS_futex, word, 128 /* wait, private */, expected, &time, nullptr, 0);
#else
  if (__atomic_load_n((i32*)word, __ATOMIC_ACQUIRE) == expected) sched_yield();
#endif
}`,
  },
  wake: {
    text: () => `#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
static void wake_all(char* word) {
#if defined(__linux__)
  syscall(SYS_futex, word, 129 /* wake, private */, 0x7fffffff, nullptr, nullptr, 0);
#endif
}`,
  },
} as const satisfies Record<string, { needs?: readonly string[]; text: (lanes: number) => string }>

export type PieceName = keyof typeof pieces

/** Returns the named definitions and the definitions that they need, in table order. */
export function prelude(used: ReadonlySet<PieceName>, lanes: number): string {
  const wanted = new Set<PieceName>()
  const want = (name: PieceName): void => {
    if (wanted.has(name)) return
    wanted.add(name)
    const piece: Piece = pieces[name]
    piece.needs?.forEach(want)
  }
  used.forEach(want)
  return (Object.keys(pieces) as PieceName[])
    .filter((name) => wanted.has(name))
    .map((name) => pieces[name].text(lanes))
    .join('\n')
}
