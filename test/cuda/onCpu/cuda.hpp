// Runs emitted CUDA C++ on a CPU. Every thread of a program is a fiber. A fiber yields to the others at barriers and in loops that
// poll memory. The functions of this header replace the device functions that contain PTX.
#include <ucontext.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;

#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(threads, programs)
#define __shared__
#define __grid_constant__
#define __restrict__

namespace on_cpu {
struct Dim { u32 x; };
struct Meeting { u32 arrived = 0, phase = 0; bool any = false, said = false; };
struct Program {
  Dim at;
  std::vector<u8> shared;
  Meeting meetings[32], warps[32];
  u64 slots[1024];
};
/** A copy into shared memory that is in flight. It happens as late as possible: when the thread waits for it. */
struct Fetch { u32 to; const void* from; u32 bytes; bool inside; };
struct Fiber {
  ucontext_t context;
  std::vector<Fetch> fetches;
  std::vector<char> stack;
  Dim thread;
  Program* program;
  bool ended = false;
};
// Static, so that each kernel library has its own copy. Inline variables would be shared by all libraries of a process.
static Fiber* current;
static ucontext_t scheduler;
static Dim grid, block;

inline void yield() { swapcontext(&current->context, &scheduler); }
inline bool meet(Meeting& at, u32 threads, bool say = false) {
  const u32 phase = at.phase;
  at.any |= say;
  if (++at.arrived == threads) {
    at.arrived = 0, at.said = at.any, at.any = false, ++at.phase;
    yield();
  } else while (at.phase == phase) yield();
  return at.said;
}
inline u8* shared_at(u32 at) { return current->program->shared.data() + at; }
inline u32 warp() { return current->thread.x / 32; }
inline u32 warp_threads() { return block.x - warp() * 32 < 32 ? block.x - warp() * 32 : 32; }
}  // namespace on_cpu
#define threadIdx (on_cpu::current->thread)
#define blockIdx (on_cpu::current->program->at)
#define gridDim (on_cpu::grid)
#define blockDim (on_cpu::block)

inline void __syncthreads() { on_cpu::meet(on_cpu::current->program->meetings[0], on_cpu::block.x); }
inline bool __syncthreads_or(bool say) { return on_cpu::meet(on_cpu::current->program->meetings[0], on_cpu::block.x, say); }
inline void __syncwarp(u32 = 0) { on_cpu::meet(on_cpu::current->program->warps[on_cpu::warp()], on_cpu::warp_threads()); }
inline void __nanosleep(u32) { on_cpu::yield(); }
template <typename T> T __shfl_xor_sync(u32, T x, u32 apart) {
  u64* slots = on_cpu::current->program->slots;
  const u32 own = threadIdx.x, other = own ^ apart;
  memcpy(&slots[own], &x, sizeof x);
  __syncwarp();
  T theirs = x;
  if (other < on_cpu::block.x) memcpy(&theirs, &slots[other], sizeof x);
  __syncwarp();
  return theirs;
}
inline void group_barrier(u32 id, u32 threads) { on_cpu::meet(on_cpu::current->program->meetings[id], threads); }
inline bool group_any(u32 id, u32 threads, bool say) { return on_cpu::meet(on_cpu::current->program->meetings[id], threads, say); }

inline u32 shared_address(const void*) { return 0; }
inline void next_kernel_may_start() {}
inline void kernel_before_ended() {}
inline void bring_near(const void*) {}
inline void fence_async() {}
inline void fence_async_shared() {}
inline void copies_arrive() {}
template <typename T> T shared_load(u32 at) { T v; memcpy(&v, on_cpu::shared_at(at), sizeof v); return v; }
template <typename T> void shared_store(u32 at, T v) { memcpy(on_cpu::shared_at(at), &v, sizeof v); }

template <u32 Bytes> void fetch(u32 to, const void* from, bool inside) {
  if (to % Bytes != 0 || (std::uintptr_t)from % Bytes != 0) std::abort();
  memset(on_cpu::shared_at(to), 0xcd, Bytes);
  on_cpu::current->fetches.push_back({to, from, Bytes, inside});
}
inline void fetches_arrived() {
  on_cpu::yield();
  for (const auto& one : on_cpu::current->fetches)
    if (one.inside) memcpy(on_cpu::shared_at(one.to), one.from, one.bytes);
    else memset(on_cpu::shared_at(one.to), 0, one.bytes);
  on_cpu::current->fetches.clear();
}

// An arrival barrier: the expected arrivals, the missing arrivals, and the parity of its phase.
struct OnCpuBarrier { u16 arrivals, missing; u32 phase; };
inline void barrier_init(u32 barrier, u32 arrivals) { shared_store(barrier, OnCpuBarrier{(u16)arrivals, (u16)arrivals, 0}); }
inline void barrier_init_fence() {}
inline void barrier_arrive(u32 barrier) {
  auto b = shared_load<OnCpuBarrier>(barrier);
  if (--b.missing == 0) b.missing = b.arrivals, b.phase ^= 1;
  shared_store(barrier, b);
}
inline bool barrier_try(u32 barrier, u32 phase) {
  if (shared_load<OnCpuBarrier>(barrier).phase != phase) return true;
  on_cpu::yield();
  return false;
}

inline u32 flag_load(const u32* flag) { on_cpu::yield(); return *flag; }
inline void flag_store(u32* flag, u32 value) { *flag = value; }
u32 carrying(float x, u32 epoch);
float carried(u32 word);
u32 unlike(u32 word, u32 epoch);
template <typename T> void post_word(T* to, u32 epoch, float x) { *(u32*)to = carrying(x, epoch); }
template <typename T> void take_word(const T* from, u32 epoch, u32& missing, float& x) {
  const u32 word = *(const u32*)from;
  if ((unlike(word, epoch) & 3) != 0) on_cpu::yield();
  missing |= unlike(word, epoch);
  x = carried(word);
}
inline void expect_aligned(const void* p) { if ((std::uintptr_t)p % 16 != 0) std::abort(); }
// Stores the words one by one and yields in between, so that other fibers can observe a partial store.
template <typename T> void post_words(T* to, u32 epoch, float x, float y, float z, float w) {
  expect_aligned(to);
  const float all[] = {x, y, z, w};
  for (u32 n = 0; n < 4; ++n) { post_word(to + n, epoch, all[n]); on_cpu::yield(); }
}
template <typename T> void take_words(const T* from, u32 epoch, u32& missing, float& x, float& y, float& z, float& w) {
  expect_aligned(from);
  float* const all[] = {&x, &y, &z, &w};
  for (u32 n = 0; n < 4; ++n) take_word(from + n, epoch, missing, *all[n]);
}
inline void flag_add(u32* flag, u32 value) { *flag += value; }
inline bool last_program(u32* counter, u32 programs) {
  if (++*counter != programs) return false;
  *counter = 0;
  return true;
}

inline bool last_arrival(u32* counter, u32 arrivals) {
  *counter = (*counter + 1) % arrivals;
  return *counter == 0;
}

inline float __uint_as_float(u32 x) { float f; memcpy(&f, &x, 4); return f; }
inline float __int_as_float(i32 x) { return __uint_as_float((u32)x); }
inline u32 __float_as_uint(float f) { u32 x; memcpy(&x, &f, 4); return x; }
inline i32 __float_as_int(float f) { return (i32)__float_as_uint(f); }
template <typename To> To to_whole(float x) {
  if (x != x) return 0;
  if (x <= (double)std::numeric_limits<To>::min()) return std::numeric_limits<To>::min();
  if (x >= (double)std::numeric_limits<To>::max()) return std::numeric_limits<To>::max();
  return (To)x;
}
inline u32 __float2uint_rz(float x) { return to_whole<u32>(x); }
inline i32 __float2int_rz(float x) { return to_whole<i32>(x); }
inline i64 __float2ll_rz(float x) { return to_whole<i64>(x); }
inline u32 atomicCAS(u32* at, u32 expected, u32 desired) {
  const u32 old = *at;
  if (old == expected) *at = desired;
  return old;
}
inline u32 __umulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

inline float f16_to_f32(u16 bits) { _Float16 half; memcpy(&half, &bits, 2); return (float)half; }
inline u16 f32_to_f16(float x) {
  if (x != x) return 0x7fff;
  const _Float16 half = (_Float16)x;
  u16 bits;
  memcpy(&bits, &half, 2);
  return bits;
}
inline u16 on_cpu_bf16(float x) {
  if (x != x) return 0x7fff;
  const u32 bits = __float_as_uint(x);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline u32 pack_f16(float low, float high) { return f32_to_f16(low) | (u32)f32_to_f16(high) << 16; }
inline u32 pack_bf16(float low, float high) { return on_cpu_bf16(low) | (u32)on_cpu_bf16(high) << 16; }

// Returns the nearest of the 256 f8 values, ties to even. Larger values saturate, and NaN stays NaN.
template <u32 Mantissa, int Bias> double f8_value(u32 bits) {
  const int exponent = (int)(bits >> Mantissa & (0x7f >> Mantissa));
  const double fraction = (bits & ((1u << Mantissa) - 1)) / (double)(1u << Mantissa);
  const double size = exponent == 0 ? std::ldexp(fraction, 1 - Bias) : std::ldexp(1 + fraction, exponent - Bias);
  return bits & 0x80 ? -size : size;
}
template <u32 Mantissa, int Bias> u8 f8_of(float x, u32 largest) {
  const u32 sign = std::signbit(x) ? 0x80 : 0;
  if (x != x) return 0x7f;
  u32 best = 0;
  for (u32 bits = 0; bits <= largest; ++bits) {
    const double away = std::fabs(f8_value<Mantissa, Bias>(bits) - std::fabs((double)x));
    const double least = std::fabs(f8_value<Mantissa, Bias>(best) - std::fabs((double)x));
    if (away < least || (away == least && bits % 2 == 0)) best = bits;
  }
  return (u8)(sign | best);
}
inline float f8e4m3_to_f32(u8 bits) { return (bits & 0x7f) == 0x7f ? NAN : (float)f8_value<3, 7>(bits); }
inline u8 f32_to_f8e4m3(float x) { return f8_of<3, 7>(x, 0x7e); }
inline u8 f32_to_f8e5m2(float x) {
  const u8 bits = f8_of<2, 15>(x, 0x7b);
  return std::fabs(x) >= 61440.0f ? (u8)((bits & 0x80) | 0x7c) : bits;
}

// Launches.
namespace on_cpu {
struct Launch {
  Dim grid, block;
  std::vector<u64> params;
  std::vector<Program> programs;
  std::vector<Fiber> fibers;
  size_t left;
};
static void (*body)(const u64*);
static Launch* running;
inline void entry() {
  body(running->params.data());
  if (!current->fetches.empty()) std::abort();
  current->ended = true;
  --running->left;
  yield();
}
}  // namespace on_cpu
void on_cpu_kernel(const u64* params);
extern "C" {
void* on_cpu_start(u32 grid, u32 block, u32 shared, const u64* params, u32 count) {
  using namespace on_cpu;
  auto* launch = new Launch{{grid}, {block}, std::vector<u64>(params, params + count), std::vector<Program>(grid), std::vector<Fiber>(grid * block), grid * block};
  for (u32 n = 0; n < grid; ++n) launch->programs[n].at = {n}, launch->programs[n].shared.resize(shared + 2048, 0xcd);
  for (u32 n = 0; n < grid * block; ++n) {
    Fiber& fiber = launch->fibers[n];
    fiber.thread = {n % block};
    fiber.program = &launch->programs[n / block];
    fiber.stack.resize(64 * 1024);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
  }
  return launch;
}
/** Resumes every fiber, in up to 64 rounds. Returns 1 when all fibers have ended. */
u32 on_cpu_step(void* handle) {
  using namespace on_cpu;
  running = (Launch*)handle;
  body = on_cpu_kernel;
  grid = running->grid, block = running->block;
  for (int turns = 0; turns < 64 && running->left > 0; ++turns)
    for (Fiber& fiber : running->fibers) {
      if (fiber.ended) continue;
      current = &fiber;
      swapcontext(&scheduler, &fiber.context);
    }
  if (running->left > 0) return 0;
  delete running;
  return 1;
}
}
