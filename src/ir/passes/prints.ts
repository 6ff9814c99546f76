/**
 * The compiler stage `prints` replaces `print` by ordinary memory accesses. Each program reserves space in the print
 * buffer of its rank with an atomic addition, and stores the printed numbers in the reserved space. The stage `prints`
 * adds two parameters for the print buffer to the kernel. The two parameters refer to one buffer, once as u32 and once
 * as f32, because the IR does not reinterpret bits. A world passes the print buffers as arguments
 * (world/printBuffers.ts).
 */
import { analysis } from '../analysis.ts'
import { walk, type KernelIR, type Node } from '../node.ts'
import { Copier } from '../rewrite.ts'
import { tensorType, type ValueType } from '../type.ts'

/**
 * The layout of a rank's print buffer, in words. The word `used` counts the words that printed lines have reserved, and
 * `dropped` counts the lines that did not fit. Each line in the buffer consists of the number of its `print` op (from
 * 1), the number of the program, and one 32-bit word per printed number (two words for an i64).
 */
export const printBuffer = { used: 0, dropped: 1, lines: 2, words: 1 << 14, program: 1, numbers: 2 } as const

/** The parameters for the print buffer, which the stage adds after the kernel's own parameters. */
export const printParams = [
  { name: 'print_buffer', dtype: 'u32' },
  { name: 'print_buffer_f32', dtype: 'f32' },
] as const

/** The extents of each parameter for the print buffer. */
export const printShape: readonly number[] = [printBuffer.words]

/** The `print` nodes of a kernel, in the order of their numbers. */
export const printsOf = analysis('prints', (ir): readonly Node[] =>
  [...walk(ir.body)].filter(({ op }) => op === 'print'),
)

/** The number of words that a printed number occupies. */
export const wordsOf = (node: Node): number => ((node.type as ValueType).dtype === 'i64' ? 2 : 1)

/** The kernel with stores to a print buffer, or the kernel itself if it prints nothing. */
export const storePrints = analysis('buffers of prints', (ir: KernelIR): KernelIR => {
  const prints = printsOf(ir)
  if (prints.length === 0) return ir
  let [words, floats]: Node[] = []
  const copier = new Copier((node, to) => {
    if (node.op !== 'print') return undefined
    store(node, prints.indexOf(node) + 1, to, words, floats)
    return 'drop'
  })
  const own = ir.body.params.map(({ type, attributes, site }) => ({
    type,
    name: String(attributes.name),
    site,
  }))
  const params = [...own, ...printParams.map(({ name, dtype }) => ({ type: tensorType(dtype, 1), name }))]
  const body = copier.block(params, (fresh) => {
    ir.body.params.forEach((param, i) => copier.map.set(param, fresh[i]))
    ;[words, floats] = fresh.slice(own.length)
    copier.copyNodes(ir.body)
    return ir.body.results.map((result) => copier.get(result))
  })
  return { ...ir, body }
})

function store(node: Node, number: number, to: Copier, words: Node, floats: Node): void {
  const { site } = node
  const emit = (op: Parameters<Copier['emit']>[0], inputs: readonly Node[], attributes = {}): Node =>
    to.emit(op, inputs, attributes, [], site)
  const index = (value: number): Node => to.constant(value, site)
  const word = (value: number): Node => emit('const', [], { dtype: 'u32', value })
  const add = (place: number, by: number): Node =>
    emit('atomic.add', [emit('at', [words, index(place)]), word(by)], { order: 'relaxed', scope: 'device' })
  const size = printBuffer.numbers + node.inputs.reduce((sum, input) => sum + wordsOf(input), 0)
  const inputs = node.inputs.map((input) => to.get(input))
  const first = emit('add', [
    emit('cast', [add(printBuffer.used, size)], { dtype: 'i32' }),
    index(printBuffer.lines),
  ])
  const fits = emit('le', [first, index(printBuffer.words - size)])
  const put = (at: number, value: Node): void => {
    const { dtype } = value.type as ValueType
    const place = emit('at', [dtype === 'f32' ? floats : words, emit('add', [first, index(at)])])
    const stored = dtype === 'f32' || dtype === 'u32' ? value : emit('cast', [value], { dtype: 'u32' })
    emit('store', [place, stored])
  }
  const then = to.block([], () => {
    put(0, word(number))
    put(printBuffer.program, emit('program', []))
    let at: number = printBuffer.numbers
    for (const [i, input] of inputs.entries()) {
      put(at++, input)
      if (wordsOf(node.inputs[i]) === 1) continue
      put(at++, emit('shr', [input, emit('const', [], { dtype: 'i64', value: 32 })]))
    }
    return []
  })
  const otherwise = to.block([], () => {
    add(printBuffer.dropped, 1)
    return []
  })
  to.emit('if', [fits], {}, [then, otherwise], site)
}
