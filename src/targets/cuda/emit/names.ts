/** Converts the names that authors and renderers choose to C++ names that are unique per scope. */
import { lib } from './library.ts'

export class Names {
  #taken: Set<string>

  constructor(taken: Iterable<string> = []) {
    this.#taken = new Set([...reserved, ...taken])
  }

  take(base: string): string {
    const clean = base.replace(/\W+/g, '_').replace(/^(\d)/, '_$1')
    let name = clean
    for (let i = 2; this.#taken.has(name); i++) name = `${clean}_${i}`
    this.#taken.add(name)
    return name
  }

  /** Calls `body`. Names that are taken during the call are available again after the call. */
  scope<T>(body: () => T): T {
    const outer = this.#taken
    this.#taken = new Set(outer)
    try {
      return body()
    } finally {
      this.#taken = outer
    }
  }
}

/**
 * Returns the C++ function name of a kernel. The function name must differ from all types and from the functions of
 * CUDA and C. The name of a kernel may equal the name of a device function, because C++ distinguishes functions with
 * different parameters.
 */
export const kernelName = (name: string): string => (functions.has(name) ? name : new Names(known).take(name))

const functions: ReadonlySet<string> = new Set(
  Object.keys(lib).filter((name) => !/^[A-Z]|^[iu]\d+$/.test(name)),
)

const reserved = [
  // Functions and types that emitted text calls. A variable with the name of a function or type would hide the function
  // or type.
  ...Object.keys(lib),
  'threadIdx blockIdx gridDim blockDim atomicAdd atomicMax atomicCAS',
  'expf exp2f log2f logf sinf cosf erff powf floorf ceilf rintf sqrtf rsqrtf tanhf fabsf fminf fmaxf',
  // C++ keywords and the types of the device library.
  'alignas auto bool break case char class const continue default delete do double else enum extern float for if inline',
  'int long namespace new operator register return short signed sizeof static struct switch template this typedef typename',
  'union unsigned using void volatile while and bitand bitor compl not or xor u8 i8 u16 u32 u64 i32 i64',
  // Variables that every kernel declares, and index variables of loops in rendered statements.
  'thread rank control shared shared_memory heap_stride heap_places counters event_log settled is_early',
  'i p w chunk row single column box staging value total step octet right left0 left1 left2 left3 right0 right1 right2 right3',
].flatMap((line) => line.split(' '))

/** Functions that CUDA or its C library declares for every program. */
const known = [
  ...[
    'abs fabs fma fmin fmax fmod fdim min max remainder remquo modf frexp ldexp scalbn scalbln ilogb logb nan nextafter copysign',
    'exp exp2 exp10 expm1 log log2 log10 log1p pow sqrt rsqrt cbrt rcbrt hypot rhypot norm norm3d norm4d rnorm rnorm3d rnorm4d',
    'sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sincos sinpi cospi sincospi',
    'erf erfc erfinv erfcinv erfcx normcdf normcdfinv lgamma tgamma j0 j1 jn y0 y1 yn fdivide gamma drem significand',
    'ceil floor trunc round rint nearbyint lrint llrint lround llround roundeven isnan isinf isfinite signbit',
  ].flatMap((line) => line.split(' ').flatMap((name) => [name, `${name}f`, `${name}l`])),
  ...[
    'labs llabs llmin llmax ullmin ullmax umin umax malloc calloc realloc free alloca memcpy memmove memset memcmp memchr',
    'strlen strcpy strcmp strcat strchr strstr printf puts putc puts getc gets fopen fclose fread fwrite remove rename',
    'abort exit atexit assert system getenv rand srand random srandom qsort bsearch div ldiv atoi atol atof strtol strtod',
    'clock clock64 time difftime index rindex select nanosleep main swap',
  ].flatMap((line) => line.split(' ')),
]
