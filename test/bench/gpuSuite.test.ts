/**
 * Tests the replacement of vitest that runs on a GPU: every matcher accepts values for which it holds and rejects
 * others.
 */
import { describe, expect, it } from 'vitest'
import { expect as expectOnGpu, runCase } from '../../bench/gpu/suite.ts'

type Name = Exclude<keyof ReturnType<typeof expectOnGpu>, 'not' | 'rejects'>
const throws = (message: string) => () => {
  throw new RangeError(message)
}

/** A matcher, values that the matcher accepts and rejects, and the expected value. */
const matchers: readonly (readonly [Name, right: unknown, wrong: unknown, expected: unknown])[] = [
  ['toEqual', [1, { a: 2 }], [1, { a: 3 }], [1, { a: 2 }]],
  ['toEqual', [0], [-0], [0]],
  ['toBe', NaN, 1, NaN],
  ['toBeLessThanOrEqual', 3, 4, 3],
  ['toBeLessThanOrEqual', 3, NaN, 3],
  ['toBeGreaterThan', 4, 3, 3],
  ['toContain', 'a word', 'nothing', 'word'],
  ['toContain', [1, 2], [1], 2],
  ['toMatch', 'line 12', 'line x', /\d+/],
  ['toMatchObject', { a: [{ b: 1, c: 2 }] }, { a: [{ b: 2, c: 2 }] }, { a: [{ b: 1 }] }],
  ['toMatchObject', { a: [1] }, { a: [1, 2] }, { a: [1] }],
  ['toMatchObject', { a: 1 }, undefined, { a: 1 }],
  ['toBeInstanceOf', new RangeError(), new Error(), RangeError],
  ['toThrow', throws('no rank 2'), throws('no rank 3'), 'rank 2'],
  ['toThrow', throws('no rank 2'), throws('no rank'), /rank \d/],
  ['toThrow', throws(''), () => undefined, RangeError],
]

describe('the suite for a GPU', () => {
  it.each(matchers)('%s accepts %o and rejects %o', (name, right, wrong, expected) => {
    const [accept, reject] = [right, wrong].map((actual) => expectOnGpu(actual, 'about it'))
    accept[name](expected as never)
    expect(() => reject[name](expected as never)).toThrow(/^about it: /)
    reject.not[name](expected as never)
    expect(() => accept.not[name](expected as never)).toThrow(/^about it: /)
  })

  it('reports an error with its causes', async () => {
    const run = () => {
      throw new Error('property failed', { cause: new Error('rank 1 differs') })
    }
    expect(await runCase({ name: 'random', run })).toMatchObject({
      outcome: 'failed',
      why: 'property failed\nrank 1 differs',
    })
  })

  it('waits for rejections', async () => {
    await expectOnGpu(Promise.reject(new Error('no rank'))).rejects.toThrow('no rank')
    await expect(expectOnGpu(Promise.resolve()).rejects.toThrow()).rejects.toThrow('nothing was thrown')
    await expect(expectOnGpu(Promise.reject(new Error('no'))).rejects.toThrow('rank')).rejects.toThrow(
      'the error is no',
    )
  })
})
