/**
 * Chooses the names of functions and local variables in C++: the names from Code, made unique and distinct from C++
 * keywords and the prelude's names.
 */

const reserved = [
  'alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double else enum',
  'explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not nullptr operator or',
  'private protected public register return short signed sizeof static struct switch template this throw true try typedef',
  'typeid typename union unsigned using virtual void volatile wchar_t while xor linux unix',
  // Names in the prelude and names that renderers emit.
  'i8 u8 u16 i32 u32 i64 u64 f32 f64 ptr vf32 vi32 vu32 vu16 vu8 vi8 load store bits widen_u8 widen_i8 widen_u16 splat',
  'lane_numbers sqrt floor nearest abs fma min max lesser greater magnitude divide remainder_of divide_unsigned remainder_unsigned truncate_i32',
  'truncate_u32 truncate_i64 truncate_u64 spin_pause steady_now sleep_on wake_all memory kernel',
].flatMap((line) => line.split(' '))

export class Names {
  readonly #taken: Set<string>

  constructor(outer?: Names) {
    this.#taken = new Set(outer ? outer.#taken : reserved)
  }

  /** The name `wanted` as a valid C++ identifier, with a numeric suffix if the name is already used. */
  take(wanted: string): string {
    // C++ reserves identifiers with two consecutive underscores.
    const clean = wanted.replace(/[\W_]+/g, '_').replace(/^_?(?=\d)|^_(?=.)/, 'n') || 'n'
    let name = clean
    for (let i = 2; this.#taken.has(name); i++) name = `${clean}_${i}`
    this.#taken.add(name)
    return name
  }
}
