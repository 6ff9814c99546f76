/** Tests loads, stores, addresses and atomics of the intermediate language Code on the world's memory. */
import { describe, expect, test } from 'vitest'
import {
  address,
  codeFunction,
  constant,
  convert,
  extract,
  i32,
  lanes as laneNumbers,
  splat,
  step,
  stride,
  add,
  compare,
  type Operand,
  type Writer,
} from '../../../src/targets/cpu/build.ts'
import type { AtomicName, Local, MemoryKind, MemoryOrder } from '../../../src/targets/cpu/code.ts'
import { engineForTests, entryOf, load, moduleOf, sharedMemory } from './engine.ts'

const engine = engineForTests()
const from = 65536
const to = 2 * 65536
const slot = 3 * 65536

describe.skipIf(!engine)('memory', () => {
  const { lanes } = engine?.machine ?? { lanes: 4 }
  const memory = sharedMemory(8)
  const view = new DataView(memory.buffer)
  const bytes = new Uint8Array(memory.buffer)

  /** Runs the code that `write` generates once, on memory whose bytes are initialised to a pattern. */
  const run = (write: (w: Writer, launch: Local, frame: Local, slot: Local) => Operand | void): number => {
    for (let i = 0; i < 65536; i++) {
      bytes[from + i] = (i * 151 + 90) & 255
      bytes[to + i] = 0
      bytes[slot + i] = 0
    }
    const [entry] = load(engine!, moduleOf(engine!, 'memory', [entryOf(write)]), memory)
    return entry(from, to, slot)
  }

  test.each(['u8', 'i8', 'u16'] as const)('%s widens to i32, at any alignment', (kind) => {
    run((w, launch, frame) => w.store('i32', frame, w.load('x', 'i32', kind, launch, 3)))
    const right = {
      u8: view.getUint8(from + 3),
      i8: view.getInt8(from + 3),
      u16: view.getUint16(from + 3, true),
    }
    expect(view.getInt32(to, true)).toBe(right[kind])
  })

  test.each([
    ['i32', 'i32', 4],
    ['f32', 'f32', 4],
    ['i64', 'i64', 8],
  ] as const)('%s is loaded and stored whole, at any alignment', (type, kind, size) => {
    run((w, launch, frame) => w.store(kind, frame, w.load('x', type, kind, launch, 5), 1))
    expect([...bytes.slice(to, to + 1 + size)]).toEqual([0, ...bytes.slice(from + 5, from + 5 + size)])
  })

  test.each(['u8', 'i8', 'u16'] as const)('vectors of %s widen lane by lane', (kind) => {
    run((w, launch, frame) => w.store('i32', frame, w.load('x', 'vi32', kind, launch, 1)))
    const size = kind === 'u16' ? 2 : 1
    const right = Array.from({ length: lanes }, (_, lane) => {
      const at = from + 1 + lane * size
      return { u8: view.getUint8(at), i8: view.getInt8(at), u16: view.getUint16(at, true) }[kind]
    })
    expect([...new Int32Array(memory.buffer, to, lanes)]).toEqual(right)
  })

  test.each([
    ['u8', 1],
    ['i8', 1],
    ['u16', 2],
  ] as [MemoryKind, number][])(
    'vectors are stored as the low bits of %s and touch nothing behind',
    (kind, size) => {
      run((w, launch, frame) => w.store(kind, frame, w.load('x', 'vi32', 'i32', launch, 1), 1))
      const right = Array.from({ length: lanes }, (_, lane) => [
        ...bytes.slice(from + 1 + lane * 4, from + 1 + lane * 4 + size),
      ]).flat()
      expect([...bytes.slice(to, to + 1 + lanes * size + 64)]).toEqual([
        0,
        ...right,
        ...new Array<number>(64).fill(0),
      ])
    },
  )

  test.each([
    ['i32', 'u8', 1],
    ['i32', 'u16', 2],
    ['i64', 'i32', 4],
  ] as const)('a scalar %s is stored as the low bits of %s', (type, kind, size) => {
    run((w, launch, frame) => w.store(kind, frame, w.load('x', type, type, launch)))
    expect([...bytes.slice(to, to + 8)]).toEqual([
      ...bytes.slice(from, from + size),
      ...new Array<number>(8 - size).fill(0),
    ])
  })

  test('loadSplat, lanes and extract', () => {
    const result = run((w, launch, frame) => {
      w.store('f32', frame, w.loadSplat('x', 'vf32', launch, 4))
      w.store('i32', frame, add(w.loadSplat('y', 'vi32', launch, 8), laneNumbers), 256)
      w.store('i32', frame, splat(w.load('z', 'i32', 'u8', launch)), 512)
      return extract(w.let('numbers', laneNumbers), lanes - 1)
    })
    expect(result).toBe(lanes - 1)
    for (let lane = 0; lane < lanes; lane++) {
      expect(view.getUint32(to + lane * 4, true)).toBe(view.getUint32(from + 4, true))
      expect(view.getInt32(to + 256 + lane * 4, true)).toBe((view.getInt32(from + 8, true) + lane) | 0)
      expect(view.getInt32(to + 512 + lane * 4, true)).toBe(bytes[from])
    }
  })

  test('addresses with signed indices, launch-time strides and host-written pointers', () => {
    const result = run((w, launch, frame, at) => {
      const minus = w.let('minus', constant('i32', -3))
      const middle = w.let('middle', address(launch, 0, 1, 4096))
      w.store('u8', frame, w.load('x', 'i32', 'u8', address(middle, minus, 100, 7)), 0)
      const row = w.let('row', stride(w.let('width', i32(25)), 4))
      w.store('u8', frame, w.load('x', 'i32', 'u8', step(middle, minus, row)), 1)
      // Pointers are stored in memory as offsets.
      w.store('i64', at, constant('i64', from + 77), 8)
      w.store('u8', frame, w.load('x', 'i32', 'u8', w.loadPointer('host', at, 8)), 2)
      return compare('eq', address(launch, minus, 8), address(launch, 0, 1, -24))
    })
    expect([...bytes.slice(to, to + 3)]).toEqual([
      bytes[from + 4096 - 293],
      bytes[from + 4096 - 300],
      bytes[from + 77],
    ])
    expect(result).toBe(1)
  })

  test('copies and zeroes bytes, including zero bytes', () => {
    run((w, launch, frame) => {
      const count = w.let('count', i32(1001))
      w.copyBytes(address(frame, 0, 1, 1), launch, count)
      w.zeroBytes(address(frame, 0, 1, 500), i32(3))
      w.copyBytes(address(frame, 0, 1, 5000), launch, i32(0))
    })
    const right = [0, ...bytes.slice(from, from + 1001), 0]
    right.fill(0, 500, 503)
    expect([...bytes.slice(to, to + 1003)]).toEqual(right)
    expect(bytes[to + 5000]).toBe(0)
  })

  const meanings: Record<AtomicName, (a: bigint, b: bigint) => bigint> = {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    and: (a, b) => a & b,
    or: (a, b) => a | b,
    xor: (a, b) => a ^ b,
    exchange: (_, b) => b,
  }
  const orders: MemoryOrder[] = ['relaxed', 'acquire', 'release', 'acqRel', 'seqCst']

  const types = ['i32', 'i64'] as const

  test('atomics return the old value, in every order and width', () => {
    const names = Object.keys(meanings) as AtomicName[]
    const cases = names.flatMap((name) =>
      orders.flatMap((order) => types.map((type) => ({ name, order, type }))),
    )
    run((w, _, frame) => {
      cases.forEach(({ name, order, type }, index) => {
        const word = w.let('word', address(frame, 0, 1, index * 32))
        w.atomicStore(word, constant(type, 0x7ffffff3), order)
        w.store(type, word, w.atomic(name, word, constant(type, -10), order), 8)
        w.store(type, word, w.atomicLoad('after', type, word, order), 16)
        w.emit({ kind: 'fence', order })
      })
    })
    cases.forEach(({ name, type }, index) => {
      const width = type === 'i32' ? 32 : 64
      const read = (at: number): bigint =>
        type === 'i32' ? BigInt(view.getInt32(at, true)) : view.getBigInt64(at, true)
      expect(read(to + index * 32 + 8)).toBe(0x7ffffff3n)
      expect(read(to + index * 32 + 16)).toBe(BigInt.asIntN(width, meanings[name](0x7ffffff3n, -10n)))
    })
  })

  test('compareExchange writes only if it finds the expected value', () => {
    const cases = orders.flatMap((order) => types.map((type) => ({ order, type })))
    run((w, _, frame) => {
      cases.forEach(({ order, type }, index) => {
        const word = w.let('word', address(frame, 0, 1, index * 64))
        const exchange = (expected: number): Local =>
          w.compareExchange(word, constant(type, expected), constant(type, 9), order)
        w.atomicStore(word, constant(type, 5), order)
        w.store(type, word, exchange(4), 8)
        w.store(type, word, w.atomicLoad('now', type, word, order), 16)
        w.store(type, word, exchange(5), 24)
        w.store(type, word, w.atomicLoad('now', type, word, order), 32)
      })
    })
    cases.forEach((_, index) => {
      const found = [8, 16, 24, 32].map((at) => view.getInt32(to + index * 64 + at, true))
      expect(found).toEqual([5, 5, 5, 9])
    })
  })

  test('the clock is the same as that of process.hrtime', () => {
    const before = Number(process.hrtime.bigint())
    run((w, _, frame) => w.store('i64', frame, convert('bits', 'i64', { kind: 'now', type: 'f64' })))
    const now = view.getFloat64(to, true)
    expect(now).toBeGreaterThanOrEqual(before)
    expect(now).toBeLessThanOrEqual(Number(process.hrtime.bigint()))
  })

  test('pointers stay valid when the memory grows', () => {
    const growing = new WebAssembly.Memory({ initial: 4, maximum: 64, shared: true })
    const write = entryOf((w, launch) => w.store('i32', launch, i32(7)))
    const [entry] = load(engine!, moduleOf(engine!, 'growing', [write]), growing)
    growing.grow(60)
    entry(50 * 65536, 0, 0)
    expect(new DataView(growing.buffer).getInt32(50 * 65536, true)).toBe(7)
  })
})

test('rejects an entry whose signature is not (launch, frame, slot) to i32', () => {
  if (!engine) return
  const wrong = codeFunction('wrong', [['launch', 'ptr']], (w) => w.return(i32(0)), { result: 'i32' })
  expect(() => engine.source(moduleOf(engine, 'wrong', [wrong]))).toThrow(
    'an entry takes the pointers launch, frame and slot',
  )
})
