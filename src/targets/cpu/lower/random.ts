/** Lowers `random` to integer arithmetic. In a vector, each lane computes its own Philox block of random bits. */
import { philox } from '../../../ir/philox.ts'
import { add, binary, constant, mul, type Operand, use, type Writer } from '../build.ts'
import type { Expression } from '../code.ts'

type Counter = readonly [Operand, Operand, Operand, Operand]
type Key = readonly [Operand, Operand]

/**
 * Computes the 32-bit word number `word` of the Philox block of random bits for a counter. The file src/ir/philox.ts
 * defines the random numbers of the language.
 */
export function philoxWord(writer: Writer, word: number, counter: Counter, key: Key): Expression {
  const type = use(counter[0]).type as 'i32' | 'vi32'
  const number = (value: number): Expression => constant(type, value | 0)
  const [m, n] = philox.multipliers.map(number)
  const xor = (a: Operand, b: Operand): Expression => binary('xor', a, b)
  /** The words of the generator after a round, as expressions. */
  const round = (
    [a, b, c, d]: Counter,
    [low, high]: Key,
  ): [Expression, Expression, Expression, Expression] => [
    xor(xor(binary('mulHighU', c, n), b), low),
    mul(c, n),
    xor(xor(binary('mulHighU', a, m), d), high),
    mul(a, m),
  ]
  let words = counter
  let [low, high] = key
  for (let i = 1; i < philox.rounds; i++) {
    const [a, b, c, d] = round(words, [low, high])
    words = [writer.let('a', a), writer.let('b', b), writer.let('c', c), writer.let('d', d)]
    low = writer.let('low', add(low, number(philox.increments[0])))
    high = writer.let('high', add(high, number(philox.increments[1])))
  }
  return round(words, [low, high])[word]
}
