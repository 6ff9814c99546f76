/**
 * The worker's side of hand-written executables. The bytes of an executable are the source of a function that runs one
 * program.
 */
import {
  control,
  launch as launchOf,
  param,
  slot as slotOf,
  type Entry,
} from '../../../src/targets/cpu/abi.ts'

/** The variables that the source code of a hand-written executable can use. */
export interface Program {
  readonly words: Int32Array
  readonly program: number
  readonly rank: number
  readonly ranks: number
  /** The address of a rank's copy of a tensor or flag set. */
  readonly pointer: (index: number, rank: number) => number
  readonly scalar: (index: number) => number
  readonly aborted: () => boolean
  /** Writes a field of the worker's slot, its record in shared memory. */
  readonly note: (field: keyof typeof slotOf, value: number) => void
  readonly control: typeof control
  readonly sleep: (milliseconds: number) => void
  readonly now: () => number
  readonly record: (kind: number, site: number, start: number, end: number, who: number, what: number) => void
}

export function loadHandmade(bytes: Uint8Array, memory: WebAssembly.Memory, now: () => number): Entry[] {
  const words = new Int32Array(memory.buffer)
  const doubles = new Float64Array(memory.buffer)
  const idle = new Int32Array(new SharedArrayBuffer(4))
  const text = new TextDecoder().decode(bytes)
  const run = new Function('t', text) as (t: Program) => number | void
  const leader: Entry = (launch, _frame, slot) => {
    const field = (offset: number): number => (launch + offset) >>> 2
    for (;;) {
      const program = Atomics.add(words, field(launchOf.next), 1)
      if (program >= words[field(launchOf.grid)]) break
      words[(slot + slotOf.program) >>> 2] = program
      const result = run({
        words,
        program,
        rank: words[field(launchOf.rank)],
        ranks: words[field(launchOf.ranks)],
        pointer: (index, rank) =>
          (words[field(launchOf.params + index * param.bytes)] >>> 0) +
          rank * words[field(launchOf.heapStride)] * 65536,
        scalar: (index) => words[field(launchOf.params + index * param.bytes)],
        aborted: () => Atomics.load(words, control.abort >>> 2) !== 0,
        note: (name, value) => Atomics.store(words, (slot + slotOf[name]) >>> 2, value),
        control,
        sleep: (milliseconds) => void Atomics.wait(idle, 0, 0, milliseconds),
        now,
        record: (kind, site, start, end, who, what) => {
          const at = words[(slot + slotOf.eventCount) >>> 2]++
          const event = (words[(slot + slotOf.events) >>> 2] >>> 0) + at * 32
          words[event >>> 2] = kind
          words[(event + 4) >>> 2] = site
          doubles[(event + 8) / 8] = start
          doubles[(event + 16) / 8] = end
          words[(event + 24) >>> 2] = who
          words[(event + 28) >>> 2] = what
        },
      })
      if (result === -1) return -1
    }
    return Atomics.add(words, field(launchOf.finished), 1) + 1 === words[field(launchOf.leaders)] ? 1 : 0
  }
  return [leader]
}
