/** Tests atomics, and sleeping and waking between threads. */
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import type { CodeFunction, Local } from '../../../src/targets/cpu/code.ts'
import * as build from '../../../src/targets/cpu/build.ts'
import { wasmMachine } from '../../../src/targets/wasm/engine.ts'
import { renderWasm } from '../../../src/targets/wasm/render.ts'
import { base, compile, data, memory } from './harness.ts'

const names = ['add', 'sub', 'and', 'or', 'xor', 'exchange'] as const
const expected = {
  add: (a: bigint, b: bigint) => a + b,
  sub: (a: bigint, b: bigint) => a - b,
  and: (a: bigint, b: bigint) => a & b,
  or: (a: bigint, b: bigint) => a | b,
  xor: (a: bigint, b: bigint) => a ^ b,
  exchange: (_: bigint, b: bigint) => b,
}

describe('on one thread', () => {
  test.each(names)('%s changes the word and returns its old value, for 4 and 8 bytes', (name) => {
    for (const type of ['i32', 'i64'] as const) {
      const code = build.codeFunction('change', [['at', 'ptr']], (writer, at) => {
        const amount = writer.load('amount', type, type, at, 8)
        writer.store(type, at, writer.atomic(name, build.address(at, 0, 1, 16), amount, 'acqRel'), 24)
        writer.emit({
          kind: 'atomic',
          name: 'add',
          at: build.use(at),
          value: build.constant(type, 1),
          order: 'relaxed',
        })
      })
      const run = compile(code)
      for (const [before, amount] of [
        [0n, 1n],
        [-1n, 0x0f0f0f0fn],
        [0x7fffffffn, 1n],
        [0x12345678n, -0x10n],
      ]) {
        data.setBigInt64(base, 5n, true)
        data.setBigInt64(base + 8, amount, true)
        data.setBigInt64(base + 16, before, true)
        run(base)
        const bits = type === 'i32' ? 32 : 64
        const read = (at: number): bigint =>
          type === 'i32' ? BigInt(data.getInt32(at, true)) : data.getBigInt64(at, true)
        expect(read(base + 16)).toBe(BigInt.asIntN(bits, expected[name](before, amount)))
        expect(read(base + 24)).toBe(BigInt.asIntN(bits, before))
        expect(read(base)).toBe(6n)
      }
    }
  })

  test('loads, stores, compare-exchange and fences of every order', () => {
    const code = build.codeFunction(
      'words',
      [
        ['at', 'ptr'],
        ['expected', 'i32'],
      ],
      (writer, at, wanted) => {
        const orders = ['relaxed', 'acquire', 'release', 'acqRel', 'seqCst'] as const
        for (const order of orders) writer.emit({ kind: 'fence', order })
        writer.emit({ kind: 'pause' })
        const found = writer.compareExchange(at, wanted, build.i32(99), 'acqRel')
        writer.atomicStore(build.address(at, 0, 1, 4), found, 'release')
        const long = writer.atomicLoad('long', 'i64', build.address(at, 0, 1, 8), 'acquire')
        writer.atomicStore(build.address(at, 0, 1, 16), long, 'release')
        writer.return(writer.atomicLoad('again', 'i32', at, 'acquire'))
      },
      { result: 'i32' },
    )
    const run = compile(code)
    data.setInt32(base, 7, true)
    data.setBigInt64(base + 8, 1n << 40n, true)
    expect(run(base, 8)).toBe(7)
    expect(data.getInt32(base + 4, true)).toBe(7)
    expect(data.getBigInt64(base + 16, true)).toBe(1n << 40n)
    expect(run(base, 7)).toBe(99)
    expect(data.getInt32(base + 4, true)).toBe(7)
  })

  test('a sleep ends at once if the word differs, and otherwise at its timeout', () => {
    const code = build.codeFunction(
      'sleep',
      [
        ['at', 'ptr'],
        ['expected', 'i32'],
      ],
      (writer, at, wanted) => {
        // A negative timeout counts as already passed. A negative timeout does not mean an infinite sleep.
        for (const nanoseconds of [1e6, 0, -5])
          writer.emit({
            kind: 'sleep',
            at: build.use(at),
            expected: build.use(wanted),
            nanoseconds: build.constant('f64', nanoseconds),
          })
        writer.return(build.i32(1))
      },
      { result: 'i32' },
    )
    data.setInt32(base, 3, true)
    const run = compile(code)
    expect([run(base, 3), run(base, 4)]).toEqual([1, 1])
  })
})

/** Runs entry point 0 of the code on several threads that share one memory. */
function onThreads(code: CodeFunction, calls: readonly number[][]): Promise<number[]> {
  const bytes = renderWasm({ name: 'threads', machine: wasmMachine, entries: [code] })
  const script = `
    const { parentPort, workerData: { bytes, memory, values } } = require('node:worker_threads')
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory, now: () => 0 } })
    parentPort.postMessage(exports.entry0(...values))`
  return Promise.all(
    calls.map(
      (values) =>
        new Promise<number>((resolve, reject) => {
          const worker = new Worker(script, { eval: true, workerData: { bytes, memory, values } })
          worker.once('message', resolve)
          worker.once('error', reject)
        }),
    ),
  )
}

describe('between threads', () => {
  const [at, times] = [
    ['at', 'ptr'],
    ['times', 'i32'],
  ] as const

  test('no addition is lost', async () => {
    const code = build.codeFunction(
      'count',
      [at, times],
      (writer, word, n) => {
        writer.for('i', 0, n, 1, () => {
          writer.atomic('add', word, build.i32(1), 'relaxed')
        })
        writer.return(build.i32(0))
      },
      { result: 'i32' },
    )
    data.setInt32(base, 0, true)
    await onThreads(code, [
      [base, 20_000],
      [base, 20_000],
    ])
    expect(data.getInt32(base, true)).toBe(40_000)
  })

  test('two threads that sleep and wake each other alternate', async () => {
    // The word 0 says which thread may proceed. In alternation, the first thread doubles word 1 and the second adds one
    // to it.
    const code = build.codeFunction(
      'turns',
      [at, times, ['me', 'i32']],
      (writer, word, n, me) => {
        const total = build.address(word, 0, 1, 4)
        writer.for('i', 0, n, 1, () => {
          writer.loop(() => {
            const turn = writer.atomicLoad('turn', 'i32', word, 'acquire')
            writer.if(build.compare('eq', turn, me), () => writer.break())
            writer.emit({
              kind: 'sleep',
              at: build.use(word),
              expected: build.use(turn),
              nanoseconds: build.constant('f64', Infinity),
            })
          })
          const sum: Local = writer.load('sum', 'i32', 'i32', total)
          writer.store('i32', total, build.select(me, build.add(sum, build.i32(1)), build.add(sum, sum)))
          writer.atomicStore(word, build.sub(build.i32(1), me), 'release')
          writer.emit({ kind: 'wake', at: build.use(word) })
        })
        writer.return(build.i32(0))
      },
      { result: 'i32' },
    )
    data.setInt32(base, 0, true)
    data.setInt32(base + 4, 1, true)
    await onThreads(code, [
      [base, 500, 0],
      [base, 500, 1],
    ])
    let sum = 1
    for (let i = 0; i < 500; i++) sum = (sum * 2 + 1) | 0
    expect(data.getInt32(base + 4, true)).toBe(sum)
  })
})
