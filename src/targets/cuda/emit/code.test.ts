import { describe, expect, it } from 'vitest'

import {
  all,
  bare,
  cast,
  code,
  group,
  hasSum,
  integer,
  isWord,
  joined,
  opensWithGroup,
  operand,
  plain,
  plus,
  product,
  scaled,
  sum,
  valueOf,
  word,
} from './code.ts'
import { lib } from './library.ts'

describe('code', () => {
  it('keeps what its parts use', () => {
    const call = code`${lib.min_u32}(${code`${lib.tile_row}(i, thread)`}, 7)`
    expect(call.asText).toBe('min_u32(tile_row(i, thread), 7)')
    expect([...call.uses]).toEqual(['min_u32', 'tile_row'])
    expect([...joined([call, lib.part], ', ').uses]).toEqual(['min_u32', 'tile_row', 'part'])
    expect([...group(cast(lib.i32, call)).uses]).toEqual(['i32', 'min_u32', 'tile_row'])
  })

  it('cannot become text unnoticed', () => {
    expect(() => `${lib.min_u32 as unknown as string}(a, b)`).toThrow(
      'compose code with the tag `code`, not in a plain template literal: min_u32',
    )
  })

  it('omits zeros from sums and folds products of constants', () => {
    const a = word('a')
    expect(sum(integer(0), a)).toBe(a)
    expect(sum(a, cast(lib.i32, integer(0)))).toBe(a)
    expect(sum(a, integer(1)).asText).toBe('a + 1')
    expect(scaled(integer(3), 4).asText).toBe('12')
    expect(scaled(a, 4).asText).toBe('a * 4')
    expect(scaled(a, 1)).toBe(a)
    expect(scaled(integer(-3), 4).asText).toBe('-3 * 4')
  })

  it('knows its own parentheses', () => {
    const sums = plus(word('a'), word('b'))
    expect(bare(group(sums))).toBe(sums)
    // The text begins with a parenthesis of the left operand and ends with a parenthesis of the right operand.
    const two = product(group(sums), group(sums))
    expect(bare(two).asText).toBe('(a + b) * (a + b)')
    expect(operand(two).asText).toBe('((a + b) * (a + b))')
    expect(operand(group(sums)).asText).toBe('(a + b)')
    expect(operand(word('a')).asText).toBe('a')
    expect([group(sums), cast(lib.i32, sums), two, sums].map(opensWithGroup)).toEqual([
      true,
      true,
      true,
      false,
    ])
    expect([two, word('a'), code`f(${sums})`].map(hasSum)).toEqual([true, false, false])
  })

  it('derives from its constructor, not from its text, whether code is a single name or number', () => {
    expect(isWord(plain('a + b'))).toBe(false)
    expect([word('a'), integer(3)].every(isWord)).toBe(true)
    expect([integer(3), integer(-3), word('3u')].map(valueOf)).toEqual([3, undefined, undefined])
  })

  it('computes the width of code in columns from the widths of its leaves', () => {
    const a = word('a')
    const parts = [a, integer(-12), scaled(a, 12), plus(a, group(product(a, a))), cast(lib.i32, a)]
    for (const one of [...parts, joined(parts, ', '), code`f(${joined(parts, '; ')})[${7}]`])
      expect(one.columns).toBe(one.asText.length)
  })

  it('joins the defined conditions with `&&`, and returns undefined if no condition is defined', () => {
    expect(all([undefined, undefined])).toBeUndefined()
    expect(all([word('a'), undefined, word('b')])?.asText).toBe('a && b')
  })
})
