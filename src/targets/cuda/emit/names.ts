/** Makes C++ names of the names that authors and renderers choose. Names are unique per scope. */

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

  /** Runs `body`. Names that are taken inside `body` are available again afterwards. */
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

const reserved = [
  // Keywords of C++, and types of the prelude.
  'alignas auto bool break case char class const continue default delete do double else enum extern float for if inline',
  'int long namespace new operator register return short signed sizeof static struct switch template this typedef typename',
  'union unsigned using void volatile while and bitand bitor compl not or xor u8 i8 u16 u32 u64 i32 i64',
  // Variables that every kernel declares, and variables of the short loops in rendered statements.
  'thread rank control shared shared_memory heap_stride counters event_log settled is_early',
  'i p w chunk row single column box staging value total step octet right left0 left1 left2 left3 right0 right1 right2 right3',
].flatMap((line) => line.split(' '))
