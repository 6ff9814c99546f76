/**
 * The reasons for which the GPU emitter may refuse a random kernel. If the emitter refuses a kernel for another reason,
 * the test fails.
 */
import { KernelError } from '../../../src/ir/site.ts'

const allowed = [
  /: reduce\.(?:sum|max|min): the reduced fragment is constant: compute the result when the kernel is recorded$/,
  /: if: both branches yield a constant fragment: yield scalars, and create the fragment afterwards$/,
]

export const unlisted = 'a random kernel was refused for a reason that is not on the list'

/** Counts the refused kernels by reason. */
export class Refusals {
  readonly counts = new Map<string, number>()

  /** The number of refused kernels. */
  get total(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0)
  }

  /** True if the error is a refusal for an allowed reason. A refusal for another reason is an error. */
  allows(error: unknown): boolean {
    if (!(error instanceof KernelError)) return false
    const [reason] = error.message.split('\n')
    if (!allowed.some((pattern) => pattern.test(reason)))
      throw new Error(`${unlisted}: ${reason}`, {
        cause: error,
      })
    const shown = reason.replace(/^.*?\.ts:\d+:\d+: /, '')
    this.counts.set(shown, (this.counts.get(shown) ?? 0) + 1)
    return true
  }
}
