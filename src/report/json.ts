/** Writes JSON in chunks, since the text of a large document exceeds the maximum length of a string. */

/**
 * The maximum nesting depth at which objects are split into chunks. Each chunk holds several elements of an array,
 * since the elements of arrays are small.
 */
const DEPTH = 4
const ELEMENTS = 32
const PIECE = 1 << 16

/** Yields the text that `JSON.stringify` would return, in chunks of some tens of kilobytes. */
export function* jsonPieces(value: unknown): Generator<string> {
  let piece = ''
  for (const part of parts(value, DEPTH)) {
    piece += part
    if (piece.length < PIECE) continue
    yield piece
    piece = ''
  }
  if (piece !== '') yield piece
}

function* parts(value: unknown, depth: number): Generator<string> {
  if (depth === 0 || typeof value !== 'object' || value === null) {
    yield JSON.stringify(value) ?? 'null'
    return
  }
  let separator = ''
  if (isList(value)) {
    yield '['
    let some: unknown[] = []
    for (const one of value) {
      if (some.push(one) < ELEMENTS) continue
      yield separator + elements(some)
      separator = ','
      some = []
    }
    if (some.length > 0) yield separator + elements(some)
    yield ']'
    return
  }
  yield '{'
  for (const [key, one] of Object.entries(value)) {
    if (one === undefined) continue
    yield `${separator}${JSON.stringify(key)}:`
    yield* parts(one, depth - 1)
    separator = ','
  }
  yield '}'
}

/** True for an array, and for a list that creates its elements on demand. */
const isList = (value: object): value is Iterable<unknown> => Symbol.iterator in value

const elements = (some: readonly unknown[]): string => JSON.stringify(some).slice(1, -1)
