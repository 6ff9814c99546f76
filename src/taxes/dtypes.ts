/** Normalises the names of element types in PyTorch traces and NCCL metadata, and defines the sizes of the types. */

/**
 * The category of a numeric type, as in PyTorch's type promotion. The result of an operator has the widest category
 * among its tensors.
 */
type Category = 'boolean' | 'integer' | 'float' | 'complex'

export interface ElementType {
  readonly name: string
  readonly bytes: number
  readonly category: Category
}

const type = (name: string, bytes: number, category: Category): ElementType => ({ name, bytes, category })

const bfloat16 = type('bf16', 2, 'float')
export const float32 = type('f32', 4, 'float')
export const boolean = type('bool', 1, 'boolean')
const float16 = type('f16', 2, 'float')
const float64 = type('f64', 8, 'float')
const float8e4m3 = type('f8e4m3', 1, 'float')
const float8e5m2 = type('f8e5m2', 1, 'float')
const int8 = type('i8', 1, 'integer')
const uint8 = type('u8', 1, 'integer')
const int16 = type('i16', 2, 'integer')
const int32 = type('i32', 4, 'integer')
const int64 = type('i64', 8, 'integer')
const complex64 = type('c64', 8, 'complex')
const complex128 = type('c128', 16, 'complex')

const types: Readonly<Record<string, ElementType>> = {
  'c10::bfloat16': bfloat16,
  bfloat16,
  'c10::half': float16,
  half: float16,
  float16,
  float: float32,
  float32,
  double: float64,
  float64,
  'c10::float8_e4m3fn': float8e4m3,
  float8_e4m3fn: float8e4m3,
  'c10::float8_e4m3fnuz': type('f8e4m3fnuz', 1, 'float'),
  'c10::float8_e5m2': float8e5m2,
  float8_e5m2: float8e5m2,
  'c10::float8_e5m2fnuz': type('f8e5m2fnuz', 1, 'float'),
  'signed char': int8,
  char: int8,
  int8,
  'unsigned char': uint8,
  byte: uint8,
  uint8,
  short: int16,
  'short int': int16,
  int16,
  int: int32,
  int32,
  long: int64,
  'long int': int64,
  'long long': int64,
  int64,
  bool: boolean,
  boolean,
  'c10::complex<float>': complex64,
  complexfloat: complex64,
  'c10::complex<double>': complex128,
  complexdouble: complex128,
}

/**
 * The element type that has the name `written` in a trace. Returns null for operands that are not tensors (`Scalar`,
 * `ScalarList`, empty), for lists of tensors, and for unknown types.
 */
export function elementType(written: string): ElementType | null {
  const name = written.toLowerCase()
  return Object.hasOwn(types, name) ? types[name] : null
}

const width: Readonly<Record<Category, number>> = { boolean: 0, integer: 1, float: 2, complex: 3 }

/**
 * The result type of an operator with two operand types in PyTorch: the wider type, or `float32` for two different
 * 16-bit floating-point types. Returns null for other types of equal category and width.
 */
export function promote(a: ElementType, b: ElementType): ElementType | null {
  if (a === b) return a
  if (width[a.category] !== width[b.category]) return width[a.category] > width[b.category] ? a : b
  if (a.bytes !== b.bytes) return a.bytes > b.bytes ? a : b
  return a.bytes === 2 && a.category === 'float' ? float32 : null
}

/** True if the category of `a` is narrower than the category of `b`. */
export const isNarrower = (a: ElementType, b: ElementType): boolean => width[a.category] < width[b.category]
