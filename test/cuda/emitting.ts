/** Helpers for tests that emit kernels and examine the text. */
import { expect } from 'vitest'
import type { KernelIR } from '../../src/ir/node.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmitFacts, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'

const names =
  'a b c h q k v out x y sum sums total words turns source lengths inbox stats rows gathered scaled turned some'.split(
    ' ',
  )

type Options = Omit<EmitFacts, 'tensors'>

/** Emits a kernel in which all tensors have one shape. The emitter uses only the divisors of extents. */
export function emit(
  ir: KernelIR,
  shape: readonly number[] = [4096, 4096],
  options: Options = {},
): EmittedKernel {
  const tensors = Object.fromEntries(names.map((name) => [name, factsOf(shape)]))
  return emitCuda(lower(ir), { tensors, ...options })
}

/** The source of the kernel itself, without the device functions that it calls. */
export const bodyOf = ({ source, name }: EmittedKernel): string =>
  source.slice(source.indexOf(`// ${name}, for`))

/** The text from the first occurrence of `from` to the next occurrence of `to`. */
export function between(text: string, from: string, to: string): string {
  const start = text.indexOf(from)
  const end = text.indexOf(to, start + from.length)
  expect(Math.min(start, end), `${from} … ${to} in\n${text}`).toBeGreaterThan(0)
  return text.slice(start, end)
}
