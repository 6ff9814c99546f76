/** Manages the buffers into which kernels print: one buffer per kernel on the heap of every rank. */
import type { KernelIR } from '../ir/node.ts'
import type { ValueType } from '../ir/type.ts'
import { printBuffer, printParams, printShape, printsOf, wordsOf } from '../ir/passes/prints.ts'
import type { HeapMemory, HeapTensor, Stored } from './backend.ts'
import { droppedPrints, inOrder, printed, type OnPrint, type Printed } from './prints.ts'

export class PrintBuffers {
  readonly #memory: HeapMemory
  readonly #ranks: readonly number[]
  readonly #onPrint: OnPrint
  readonly #allocate: (bytes: number) => number
  /** The heap offset of each kernel's print buffer. */
  readonly #offsets = new Map<KernelIR, number>()

  constructor(
    memory: HeapMemory,
    ranks: readonly number[],
    onPrint: OnPrint,
    allocate: (bytes: number) => number,
  ) {
    this.#memory = memory
    this.#ranks = ranks
    this.#onPrint = onPrint
    this.#allocate = allocate
  }

  /** The arguments for the parameters that the stage `prints` adds to a recorded kernel. */
  argumentsOf(recorded: KernelIR): Readonly<Record<string, Stored>> {
    if (printsOf(recorded).length === 0) return {}
    const bytes = 4 * printBuffer.words
    let offset = this.#offsets.get(recorded)
    if (offset === undefined) {
      this.#offsets.set(recorded, (offset = this.#allocate(bytes)))
      for (const rank of this.#ranks) this.#memory.fill(rank, offset, 'u32', printBuffer.words, 0)
    }
    const all = printParams.map(({ name, dtype }): [string, HeapTensor] => [
      name,
      { kind: 'tensor', dtype, shape: printShape, offset, bytes },
    ])
    return Object.fromEntries(all)
  }

  /** Reports the printed lines and empties the print buffers. No kernel may be running while print buffers are read. */
  drain(): void {
    const lines: Printed[] = []
    const dropped: ReturnType<typeof droppedPrints>[] = []
    for (const [ir, offset] of this.#offsets)
      for (const rank of this.#ranks) {
        const [used, lost] = this.#memory.read(rank, offset, 'u32', printBuffer.lines)
        if (used === 0) continue
        const count = Math.min(printBuffer.lines + used, printBuffer.words)
        lines.push(...this.#linesOf(ir, rank, offset, count))
        if (lost > 0) dropped.push(droppedPrints(ir.name, rank, lost))
        this.#memory.fill(rank, offset, 'u32', count, 0)
      }
    for (const line of [...inOrder(lines), ...dropped]) this.#onPrint(line)
  }

  #linesOf(ir: KernelIR, rank: number, offset: number, count: number): Printed[] {
    const words = this.#memory.read(rank, offset, 'u32', count)
    const floats = this.#memory.read(rank, offset, 'f32', count)
    const prints = printsOf(ir)
    const lines: Printed[] = []
    // A word with value 0 follows the last line in the print buffer.
    for (let at: number = printBuffer.lines; at < count && words[at] > 0;) {
      const node = prints[words[at] - 1]
      const program = words[at + printBuffer.program]
      at += printBuffer.numbers
      const numbers = node.inputs.map((input) => {
        const { dtype } = input.type as ValueType
        const word = words[at]
        const number =
          dtype === 'f32'
            ? floats[at]
            : dtype === 'i64'
              ? word + (words[at + 1] | 0) * 2 ** 32
              : dtype === 'i32'
                ? word | 0
                : word
        at += wordsOf(input)
        return number
      })
      lines.push(printed(node, ir.name, rank, program, numbers))
    }
    return lines
  }
}
