/** JSON in pieces, since the text of a large document is longer than a string can be. */

/** How far objects are taken apart; arrays are given some elements at a time, which are small. */
const DEPTH = 4
const ELEMENTS = 32
const PIECE = 1 << 16

/** The text that `JSON.stringify` gives, in pieces of some tens of kilobytes. */
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
  if (Array.isArray(value)) {
    yield '['
    for (let at = 0; at < value.length; at += ELEMENTS) {
      yield separator + JSON.stringify(value.slice(at, at + ELEMENTS)).slice(1, -1)
      separator = ','
    }
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
