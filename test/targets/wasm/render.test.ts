/** Tests the encoded bytes: numbers, names, compatibility with wabt, and compactness of the code. */
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import initWabt from 'wabt'
import type { CodeFunction, Local } from '../../../src/targets/cpu/code.ts'
import * as build from '../../../src/targets/cpu/build.ts'
import { Bytes } from '../../../src/targets/wasm/encode.ts'
import { wasmMachine } from '../../../src/targets/wasm/engine.ts'
import { renderWasm } from '../../../src/targets/wasm/render.ts'
import type { RenderOptions } from '../../../src/targets/wasm/render.ts'

let wabt: Awaited<ReturnType<typeof initWabt>>
beforeAll(async () => {
  wabt = await initWabt()
})

const render = (entry: CodeFunction, options?: RenderOptions): Uint8Array =>
  renderWasm({ name: 'example', machine: wasmMachine, entries: [entry] }, options)

function textOf(bytes: Uint8Array): string {
  const features = {
    simd: true,
    threads: true,
    bulk_memory: true,
    sat_float_to_int: true,
    relaxed_simd: true,
  }
  const module = wabt.readWasm(bytes, { readDebugNames: true, ...features })
  try {
    module.applyNames()
    return module.toText({ foldExprs: false, inlineExport: true })
  } finally {
    module.destroy()
  }
}

/** Computes c[row] += a[row] * b, for two rows and four columns at a time. */
const product = build.codeFunction(
  'product',
  [
    ['a', 'ptr'],
    ['b', 'ptr'],
    ['c', 'ptr'],
    ['k', 'i32'],
  ],
  (writer, a, b, c, k) => {
    const sums: Local[] = [0, 1].map((row) => writer.load(`sum${row}`, 'vf32', 'f32', c, row * 16))
    writer.for('p', 0, k, 1, (p) => {
      const columns = writer.load('columns', 'vf32', 'f32', build.address(b, p, 16))
      for (const row of [0, 1]) {
        const value = writer.loadSplat('value', 'vf32', build.address(a, p, 8), row * 4)
        writer.set(sums[row], build.fma(value, columns, sums[row]))
      }
    })
    for (const row of [0, 1])
      writer.store('f32', c, build.max(sums[row], build.constant('vf32', 0)), row * 16)
  },
)

describe('numbers', () => {
  const bytesOf = (write: (bytes: Bytes) => void): number[] => {
    const bytes = new Bytes()
    write(bytes)
    return [...bytes.view()]
  }

  test('LEB128 encodings as in its definition', () => {
    expect(bytesOf((bytes) => bytes.unsigned(624485))).toEqual([0xe5, 0x8e, 0x26])
    expect(bytesOf((bytes) => bytes.signed(-123456))).toEqual([0xc0, 0xbb, 0x78])
    expect(bytesOf((bytes) => bytes.signed(63))).toEqual([0x3f])
    expect(bytesOf((bytes) => bytes.signed(64))).toEqual([0xc0, 0x00])
    expect(bytesOf((bytes) => bytes.signed(-64))).toEqual([0x40])
    expect(bytesOf((bytes) => bytes.signed(-65))).toEqual([0xbf, 0x7f])
  })

  test('any safe integer can be decoded again', () => {
    const decode = (bytes: number[]): bigint =>
      bytes.reduce((sum, byte, i) => sum + (BigInt(byte & 0x7f) << BigInt(7 * i)), 0n)
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        const signed = bytesOf((bytes) => bytes.signed(value))
        expect(BigInt.asIntN(7 * signed.length, decode(signed))).toBe(BigInt(value))
        const size = Math.abs(value)
        expect(decode(bytesOf((bytes) => bytes.unsigned(size)))).toBe(BigInt(size))
      }),
      { seed: 9 },
    )
  })
})

describe('a function', () => {
  test('is compact and has readable names', () => {
    expect(textOf(render(product, { relaxed: true }))).toMatchInlineSnapshot(`
      "(module $example
        (type (;0;) (func (param i32 i32 i32 i32)))
        (import "env" "memory" (memory (;0;) 1 65536 shared))
        (func $product (export "entry0") (type 0) (param $a i32) (param $b i32) (param $c i32) (param $k i32)
          (local $sum0 v128) (local $sum1 v128) (local $columns v128) (local $value v128) (local $p i32)
          local.get $c
          v128.load
          local.set $sum0
          local.get $c
          v128.load offset=16
          local.set $sum1
          i32.const 0
          local.tee $p
          local.get $k
          i32.lt_s
          if  ;; label = @1
            loop  ;; label = @2
              local.get $b
              local.get $p
              i32.const 4
              i32.shl
              i32.add
              v128.load
              local.set $columns
              local.get $a
              local.get $p
              i32.const 3
              i32.shl
              i32.add
              v128.load32_splat
              local.tee $value
              local.get $columns
              local.get $sum0
              f32x4.relaxed_madd
              local.set $sum0
              local.get $a
              local.get $p
              i32.const 3
              i32.shl
              i32.add
              v128.load32_splat offset=4
              local.tee $value
              local.get $columns
              local.get $sum1
              f32x4.relaxed_madd
              local.set $sum1
              local.get $p
              i32.const 1
              i32.add
              local.tee $p
              local.get $k
              i32.lt_s
              br_if 0 (;@2;)
            end
          end
          local.get $c
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.get $sum0
          f32x4.pmax
          v128.store
          local.get $c
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.get $sum1
          f32x4.pmax
          v128.store offset=16))
      "
    `)
  })

  test('multiplies and adds separately without relaxed SIMD', () => {
    const text = textOf(render(product))
    expect(text).not.toContain('relaxed')
    expect(text.match(/f32x4\.mul\n\s+local\.get \S+\n\s+f32x4\.add/g)).toHaveLength(2)
  })

  test('uses immediate offsets in loads and stores if the addition cannot wrap', () => {
    const offsets = (offset: number, from: number | 'unknown'): string[] => {
      const code = build.codeFunction(
        'offsets',
        [
          ['at', 'ptr'],
          ['n', 'i32'],
        ],
        (writer, at, n) => {
          const start = from === 'unknown' ? n : from
          writer.for('i', start, n, 1, (i) => writer.store('i32', build.address(at, i, 4, offset), n))
        },
      )
      return textOf(render(code)).match(
        /(i32\.const -?\d+\n\s+i32\.add\n\s+local\.get \S+\n\s+)?i32\.store\S*( offset=\d+)?/g,
      ) as string[]
    }
    expect(offsets(64, 'unknown')).toEqual(['i32.store offset=64'])
    expect(offsets(100_000, 0)).toEqual(['i32.store offset=100000'])
    for (const [offset, from] of [
      [100_000, 'unknown'],
      [100_000, -1],
      [-4, 0],
    ] as const)
      expect(offsets(offset, from)[0]).toMatch(new RegExp(`i32.const ${offset}\\s+i32.add`))
  })
})

describe('a module', () => {
  const entry = (name: string, ...callees: CodeFunction[]): CodeFunction =>
    build.codeFunction(name, [], (writer) => callees.forEach((callee) => void writer.call(callee)))

  test('contains every function once and exports the entries in order', () => {
    const shared = entry('shared')
    const entries = [entry('first', shared, shared), entry('second', shared), shared]
    const bytes = renderWasm({ name: 'three', machine: wasmMachine, entries })
    const text = textOf(bytes)
    expect(text.match(/\(func \$\S+( \(export "\w+"\))?/g)).toEqual([
      '(func $shared (export "entry2")',
      '(func $first (export "entry0")',
      '(func $second (export "entry1")',
    ])
  })

  test('imports a memory with the given limits, and the clock only if it uses it', () => {
    const timed = build.codeFunction('timed', [], (writer) => writer.return({ kind: 'now', type: 'f64' }), {
      result: 'f64',
    })
    expect(textOf(render(entry('plain')))).not.toContain('"now"')
    const text = textOf(render(timed, { memory: { initial: 3, maximum: 500 } }))
    expect(text).toContain('(import "env" "memory" (memory (;0;) 3 500 shared))')
    expect(text).toContain('(import "env" "now"')
  })

  test('is rejected if it was lowered for another vector width', () => {
    const machine = { ...wasmMachine, lanes: 8 }
    expect(() => renderWasm({ name: 'wide', machine, entries: [] })).toThrow(
      'wide was lowered for vectors of 8 lanes',
    )
  })

  test('names functions in stack traces', () => {
    const inner = build.codeFunction('innermost', [], (writer) =>
      writer.store('i32', build.convert('bits', 'ptr', build.i32(-8)), build.i32(1)),
    )
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(render(entry('outermost', inner))), {
      env: { memory },
    })
    let stack = ''
    try {
      ;(exports.entry0 as () => void)()
    } catch (error) {
      stack = String((error as Error).stack)
    }
    expect(stack).toMatch(/innermost[\s\S]*outermost/)
  })
})
