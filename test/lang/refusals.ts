/**
 * Helpers for cases in which recording must fail: the line that is wrong ends in the comment `//!`, and the error must
 * be reported at that line. Types are silenced with `as never` where the compiler would have refused the case.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import {
  bf16,
  f32,
  flags,
  i32,
  kernel,
  KernelError,
  scalar,
  tensor,
  type Arguments,
  type Program,
} from 'arke'

export const params = {
  a: tensor(bf16, 2),
  c: tensor(f32, 2),
  v: tensor(f32, 1),
  counts: tensor(i32, 1),
  n: scalar(i32),
  ready: flags(),
  grid: flags(2),
}
type Body = (t: Program, args: Arguments<typeof params>) => unknown

/** The error that ends the recording of `body`. */
export function failure(body: Body): KernelError {
  try {
    kernel('broken', params, body as (t: Program, args: Arguments<typeof params>) => void).record({
      world: 2,
    })
  } catch (error) {
    if (error instanceof KernelError) return error
    throw error
  }
  throw new Error('it was recorded without an error')
}

/** The test cases of one file, which is given by its import.meta.url. */
export function cases(url: string) {
  const thisFile = fileURLToPath(url)
  const lines = readFileSync(thisFile, 'utf8').split('\n')
  /** The line of the first marker after the title of a case. */
  const markedLine = (title: string): number => {
    const start = lines.findIndex((line) => line.includes(`'${title}'`) || line.includes(`"${title}"`))
    const offset = lines.slice(start).findIndex((line) => line.trimEnd().endsWith('//!'))
    if (start < 0 || offset < 0) throw new Error(`no marked line after ${title}`)
    return start + offset + 1
  }
  const refuses = (title: string, body: Body, message: RegExp): void => {
    it(title, () => {
      const error = failure(body)
      expect(error.problem).toMatch(message)
      expect(error.site?.position).toMatchObject({ file: thisFile, line: markedLine(title) })
      expect(error.message).toContain(`${thisFile.slice(process.cwd().length + 1)}:${markedLine(title)}:`)
    })
  }
  /** The number of the line that ends in the comment `// words`. */
  const lineOf = (words: string): number => lines.findIndex((line) => line.endsWith(`// ${words}`)) + 1
  return { refuses, lineOf, thisFile }
}
