/**
 * Random corruptions of bytes, reproducible by a seed: damage such as storage, transport and other programs cause, and
 * worse.
 */
import { gzipSync } from 'node:zlib'
import { random } from './trace.ts'

export type Draw = ReturnType<typeof random>

interface Mutation {
  readonly name: string
  apply(bytes: Buffer, draw: Draw, other: Uint8Array): Buffer
}

const piece = (bytes: Uint8Array, draw: Draw, most: number): [from: number, to: number] => {
  const from = draw(bytes.length + 1)
  return [from, Math.min(bytes.length, from + 1 + draw(most))]
}

const insert = (bytes: Buffer, at: number, what: Uint8Array): Buffer =>
  Buffer.concat([bytes.subarray(0, at), what, bytes.subarray(at)])

const injections = [
  '"', '{', '}', '[', ']', ',', ':', '\\', '\\u', '\0', '\n', 'null', 'NaN', '-', 'e999', '{"ph": "X"', '"traceEvents": [',
  ']}{"traceEvents": [', '/*', '\ufeff', '{}'.repeat(50), '['.repeat(3000), '"dur": -1,', '"ts": 0,', '"args": {',
] // prettier-ignore

const numbers = [
  '0', '-1', '1e308', '-1e308', '1e-300', '9007199254740993', '18446744073709551616', '-0', '0.0000001', '2147483648', '1e15',
  '4294967295', '9'.repeat(310), '"7"', 'null', 'true', '[]', '{}', '-9223372036854775808', '0x10', '1.', '.5', '00',
] // prettier-ignore

const mutations: readonly Mutation[] = [
  {
    name: 'flip bits',
    apply: (bytes, draw) => {
      for (let i = 1 + draw(20); i > 0 && bytes.length > 0; i--) bytes[draw(bytes.length)] ^= 1 << draw(8)
      return bytes
    },
  },
  {
    name: 'set bytes',
    apply: (bytes, draw) => {
      const [from, to] = piece(bytes, draw, 64)
      for (let i = from; i < to; i++) bytes[i] = draw(256)
      return bytes
    },
  },
  {
    name: 'delete',
    apply: (bytes, draw) => {
      const [from, to] = piece(bytes, draw, draw(4) === 0 ? 20_000 : 200)
      return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)])
    },
  },
  {
    name: 'repeat',
    apply: (bytes, draw) => {
      const [from, to] = piece(bytes, draw, 5000)
      const copies = Array.from({ length: 1 + draw(5) }, () => bytes.subarray(from, to))
      return insert(bytes, draw(2) === 0 ? to : draw(bytes.length + 1), Buffer.concat(copies))
    },
  },
  {
    name: 'swap',
    apply: (bytes, draw) => {
      const cuts = [draw(bytes.length + 1), draw(bytes.length + 1), draw(bytes.length + 1)].sort(
        (a, b) => a - b,
      )
      const [a, b, c] = cuts
      return Buffer.concat([
        bytes.subarray(0, a),
        bytes.subarray(b, c),
        bytes.subarray(a, b),
        bytes.subarray(c),
      ])
    },
  },
  { name: 'truncate', apply: (bytes, draw) => Buffer.from(bytes.subarray(0, draw(bytes.length + 1))) },
  {
    name: 'splice',
    apply: (bytes, draw, other) => {
      const [from, to] = piece(other, draw, 20_000)
      return insert(bytes, draw(bytes.length + 1), other.subarray(from, to))
    },
  },
  {
    name: 'cross',
    apply: (bytes, draw, other) =>
      Buffer.concat([bytes.subarray(0, draw(bytes.length + 1)), other.subarray(draw(other.length + 1))]),
  },
  {
    name: 'inject',
    apply: (bytes, draw) => {
      for (let i = 1 + draw(4); i > 0; i--)
        bytes = insert(bytes, draw(bytes.length + 1), Buffer.from(injections[draw(injections.length)]))
      return bytes
    },
  },
  {
    name: 'numbers',
    apply: (bytes, draw) =>
      replaceTokens(bytes, draw, /-?\d+(\.\d+)?/g, (some) => numbers[some(numbers.length)]),
  },
  {
    name: 'digits',
    apply: (bytes, draw) => {
      for (let i = 1 + draw(60); i > 0; i--) {
        let at = draw(bytes.length + 1)
        while (at < bytes.length && (bytes[at] < 0x30 || bytes[at] > 0x39)) at++
        if (at < bytes.length) bytes[at] = 0x30 + draw(10)
      }
      return bytes
    },
  },
  {
    name: 'times',
    apply: (bytes, draw) =>
      replaceTokens(bytes, draw, /"(?:ts|dur|start_timestamp|end_timestamp)":\s*[-\d.]+/g, (some, token) =>
        token.replace(/[-\d.]+$/, () => numbers[some(numbers.length)]),
      ),
  },
  {
    name: 'keys',
    apply: (bytes, draw) =>
      replaceTokens(
        bytes,
        draw,
        /"[\w ]+":/g,
        (some) =>
          `"${['ph', 'ts', 'dur', 'cat', 'args', 'pid', 'stream', 'correlation', 'Seq', 'x'][some(10)]}":`,
      ),
  },
  {
    name: 'zero',
    apply: (bytes, draw) => {
      const [from, to] = piece(bytes, draw, 8192)
      return bytes.fill(0, from, to)
    },
  },
]

/** Replaces some of the tokens after a random position. */
function replaceTokens(
  bytes: Buffer,
  draw: Draw,
  pattern: RegExp,
  by: (draw: Draw, token: string) => string,
): Buffer {
  const from = draw(bytes.length + 1)
  const to = Math.min(bytes.length, from + 20_000)
  const often = 1 + draw(20)
  const text = bytes
    .toString('latin1', from, to)
    .replace(pattern, (token) => (draw(often) === 0 ? by(draw, token) : token))
  return Buffer.concat([bytes.subarray(0, from), Buffer.from(text, 'latin1'), bytes.subarray(to)])
}

/** Corrupts a copy of the bytes, compressed or not. Returns the bytes and a description of the damage. */
export function corrupt(
  bytes: Uint8Array,
  other: Uint8Array,
  draw: Draw,
): { bytes: Uint8Array; how: string } {
  const how: string[] = []
  const some = (target: Buffer): Buffer => {
    for (let i = 1 + draw(3); i > 0; i--) {
      const mutation = mutations[draw(mutations.length)]
      how.push(mutation.name)
      target = mutation.apply(target, draw, other)
    }
    return target
  }
  const form = draw(10)
  if (form < 6) return { bytes: some(Buffer.from(bytes)), how: how.join(', ') }
  if (form < 8) {
    const packed = gzipSync(some(Buffer.from(bytes)), { level: 1 })
    return { bytes: packed, how: `${how.join(', ')}; gzip` }
  }
  return { bytes: some(gzipSync(bytes, { level: 1 })), how: `gzip; ${how.join(', ')}` }
}
