/** Records `t.random`, whose inputs are the 32-bit words of a seed and of a counter. */
import type { DType } from '../ir/dtype.ts'
import type { Node } from '../ir/node.ts'
import { KernelError, Site } from '../ir/site.ts'
import type { Recorder } from './recorder.ts'
import { constant, stretch, Value, type Rank } from './value.ts'

type Word<R extends Rank> = Value<'i32' | 'u32', R>

/** The seed of random numbers is a number below 2^53, or its lower 32 bits and optionally its upper 32 bits. */
export type Seed = number | Word<0> | readonly [low: number | Word<0>, high: number | Word<0>]

/**
 * A counter of random numbers: one to four words of 32 bits, the lowest first; missing words are 0. The first word of
 * the counter determines the shape of the result, and the other words are broadcast to this shape.
 */
export type Counter<R extends Rank> = Word<R> | readonly [Word<R>, ...(number | Word<0> | Word<NoInfer<R>>)[]]

const asList = <T>(given: T | readonly T[]): readonly T[] =>
  (Array.isArray(given) ? given : [given]) as readonly T[]

function wordsOf(recorder: Recorder, given: readonly unknown[], count: number, what: string): Value<'u32'>[] {
  const refuse = (why: string): never => {
    throw new KernelError(`random: ${what} ${why}`, Site.here())
  }
  if (given.length < 1 || given.length > count)
    refuse(`has ${given.length} words, but may have 1 to ${count}`)
  return Array.from({ length: count }, (_, i) => {
    const word = given[i] ?? 0
    if (typeof word === 'number') return constant(recorder, 'u32', word)
    if (word instanceof Value && (word.dtype === 'i32' || word.dtype === 'u32')) return word.to('u32')
    const dtype = word instanceof Value ? word.dtype : typeof word
    return refuse(`must consist of words of i32 or u32, not of ${dtype}: cast first, x.to(u32)`)
  })
}

/** The inputs of the op `random`: four words of the counter and two words of the key, all of the same shape. */
export function randomInputs(recorder: Recorder, seed: Seed, counter: Counter<Rank>): Node[] {
  const seeds = typeof seed === 'number' ? halves(seed) : asList<unknown>(seed)
  const words = [
    ...wordsOf(recorder, asList<unknown>(counter), 4, 'the counter'),
    ...wordsOf(recorder, seeds, 2, 'the seed'),
  ]
  return words.map((word) => stretch(word, words[0].shape).node)
}

/**
 * Emits the op `random` and converts the word `word` of each counter's block of random bits to the dtype. The argument
 * `inputs` is the result of the function `randomInputs`.
 */
export function randomOf<D extends 'u32' | 'f32', R extends Rank>(
  recorder: Recorder,
  dtype: D,
  inputs: readonly Node[],
  word: number,
): Value<D, R> {
  const bits = new Value<'u32', R>(recorder, recorder.emit('random', inputs, { word }))
  if (dtype === 'u32') return bits as Value<DType, R> as Value<D, R>
  if (dtype === 'f32')
    return bits
      .shr(8)
      .to('f32')
      .mul(2 ** -24) as Value<DType, R> as Value<D, R>
  throw new KernelError(`random: makes u32 or f32, not ${String(dtype)}`, Site.here())
}

function halves(seed: number): number[] {
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new KernelError(`random: the seed ${seed} is not an integer from 0 to 2^53 - 1`, Site.here())
  return [seed % 2 ** 32, Math.floor(seed / 2 ** 32)]
}
