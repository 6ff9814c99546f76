/** Tests how the command line prints error messages: the source position, and the number of lines. */
import { WorldStopped } from 'arke'
import { describe, expect, it } from 'vitest'
import { describeError } from '../../src/cli/errors.ts'
import { packageFile } from '../../src/files.ts'

const thrownAt = <E extends Error>(error: E, ...frames: string[]): E =>
  Object.assign(error, {
    stack: [`Error: ${error.message}`, ...frames.map((at) => `    at ${at}`)].join('\n'),
  })

describe('the position in front of an error', () => {
  it.each([
    ['async file:///home/author/gemm.ts:3:5', '/home/author/gemm.ts:3:5: no'],
    ['async run (file:///home/author/gemm.ts:3:5)', '/home/author/gemm.ts:3:5: no'],
    ['/home/author/gemm.ts:3:5', '/home/author/gemm.ts:3:5: no'],
  ])('is that of the frame %s', (frame, text) => {
    expect(describeError(thrownAt(new Error('no'), frame))).toBe(text)
  })

  it('is never in the code of Arke', () => {
    for (const path of ['dist/cli/main.js', 'src/cli/main.ts'])
      for (const frame of [`async ${packageFile(path)}:349:22`, `async run (${packageFile(path)}:1:2)`])
        expect(describeError(thrownAt(new Error('no'), frame))).toBe('no')
  })
})

it('keeps the lines of the error of a stopped world, and joins those of others', () => {
  const text = 'why\n  a.ts:1:2  rank 0 waits\n  ready is signalled'
  expect(describeError(thrownAt(new WorldStopped(text)))).toBe(`the world has stopped: ${text}`)
  expect(describeError(thrownAt(new Error('one\n  two')))).toBe('one two')
})
