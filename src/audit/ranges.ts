/** Classifies a range that a program marked (NVTX, ROCTx) by its text. */
import { Kind } from '../timeline/timeline.ts'

const step = /^(?:ProfilerStep\s?#\s?\d+|(?:train(?:ing)?[ _-]?)?(?:step|iter(?:ation)?)[ _:=#-]*\d+)$/i
/**
 * The text of an operator as PyTorch's `emit_nvtx` writes it: `aten::mm, seq = 1, op_id = 12, sizes = [[2, 3], []]`.
 */
const operator =
  /^(.*?), (?:seq|op_id) = \d+(?:, (?:seq|op_id) = \d+)*(?:, sizes = (\[.*?\])(?:, input_op_ids.*)?)?$/
/** Annotations that `emit_nvtx` writes as if they were operators. */
const annotation = /^(?:FSDP::|DistributedDataParallel|Optimizer\.|##)/

export interface Range {
  readonly kind: Kind
  readonly name: string
  /** The shapes of the operands, or null if the text does not contain them. */
  readonly shapes: readonly (readonly number[])[] | null
}

export function rangeOf(text: string): Range {
  const found = operator.exec(text)
  const name = found ? found[1] : text
  if (step.test(name)) return { kind: Kind.step, name, shapes: null }
  if (!found || annotation.test(name)) return { kind: Kind.annotation, name, shapes: null }
  return { kind: Kind.operator, name, shapes: shapesOf(found[2]) }
}

function shapesOf(text: string | undefined): number[][] | null {
  if (text === undefined) return null
  try {
    const shapes = JSON.parse(text) as unknown
    const isShape = (one: unknown): one is number[] => Array.isArray(one) && one.every(Number.isSafeInteger)
    return Array.isArray(shapes) && shapes.every(isShape) ? shapes : null
  } catch {
    return null
  }
}
