/** Tests kernels on several threads: shared counters, and sleeping until another thread wakes the kernel. */
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { add, compare, constant, i32 } from '../../../src/targets/cpu/build.ts'
import type { CodeFunction } from '../../../src/targets/cpu/code.ts'
import { wakeNative } from '../../../src/targets/native/node.ts'
import { engineForTests, entryOf, moduleOf, sharedMemory } from './engine.ts'

const engine = engineForTests()
const word = 65536

/** Runs an entry in a separate thread, which loads the library in the same way as a worker of a world. */
const program = `
const { parentPort, workerData } = require('node:worker_threads')
const koffi = require(workerData.koffi)
const base = Number(koffi.address(new Uint8Array(workerData.memory.buffer)))
const call = koffi.load(workerData.path).func('entry' + workerData.entry, 'int32_t', Array(4).fill('int64_t'))
parentPort.postMessage('ready')
parentPort.postMessage(call(base, ${word}, 0, 0))
`
function start(
  path: string,
  entry: number,
  memory: WebAssembly.Memory,
): { ready: Promise<void>; result: Promise<number> } {
  const koffi = createRequire(import.meta.url).resolve('koffi')
  const worker = new Worker(program, { eval: true, workerData: { path, entry, memory, koffi } })
  let ready!: () => void
  const result = new Promise<number>((resolve, reject) => {
    worker.on('message', (message: number | 'ready') => (message === 'ready' ? ready() : resolve(message)))
    worker.on('error', reject)
  })
  return { ready: new Promise<void>((resolve) => (ready = resolve)), result }
}

describe.skipIf(!engine)('threads', () => {
  const compiled = (...entries: CodeFunction[]): string =>
    new TextDecoder().decode(engine!.compile(moduleOf(engine!, 'threads', entries)))

  test('a counter loses no addition from three threads', async () => {
    const count = entryOf((w, launch) => {
      w.for('i', 0, 100_000, 1, () => void w.atomic('add', launch, i32(1), 'relaxed'))
    })
    const memory = sharedMemory(2)
    const path = compiled(count)
    await Promise.all([0, 1, 2].map(() => start(path, 0, memory).result))
    expect(new Int32Array(memory.buffer)[word / 4]).toBe(300_000)
  })

  /** Sleeps until a 32-bit word in memory is no longer 0, and returns the number of sleeps. */
  const sleeper = entryOf((w, launch) => {
    const turns = w.let('turns', i32(0))
    w.loop(() => {
      const seen = w.atomicLoad('seen', 'i32', launch, 'acquire')
      w.if(compare('ne', seen, i32(0)), () => w.break())
      w.set(turns, add(turns, i32(1)))
      // The timeout of a sleep is so long that the test would fail without a wake-up.
      w.emit({
        kind: 'sleep',
        at: { kind: 'local', type: 'ptr', local: launch },
        expected: i32(0),
        nanoseconds: constant('f64', 1e12),
      })
    })
    return turns
  })
  const waker = entryOf((w, launch) => {
    w.emit({ kind: 'pause' })
    w.atomicStore(launch, i32(1), 'release')
    w.emit({ kind: 'wake', at: { kind: 'local', type: 'ptr', local: launch } })
  })
  const pauseBeforeWaking = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50))

  test('a kernel that sleeps is woken by a kernel', async () => {
    const memory = sharedMemory(2)
    const path = compiled(sleeper, waker)
    const sleeping = start(path, 0, memory)
    await sleeping.ready
    await pauseBeforeWaking()
    await start(path, 1, memory).result
    expect(await sleeping.result).toBeGreaterThanOrEqual(0)
  })

  test('a kernel that sleeps is woken from JavaScript', async () => {
    const memory = sharedMemory(2)
    const sleeping = start(compiled(sleeper, waker), 0, memory)
    await sleeping.ready
    await pauseBeforeWaking()
    Atomics.store(new Int32Array(memory.buffer), word / 4, 1)
    wakeNative(memory, word)
    expect(await sleeping.result).toBeGreaterThanOrEqual(0)
  })

  test('a sleep ends at once if the word differs, and otherwise at its timeout', async () => {
    const memory = sharedMemory(2)
    const brief = entryOf((w, launch) => {
      const at = { kind: 'local', type: 'ptr', local: launch } as const
      w.emit({ kind: 'sleep', at, expected: i32(1), nanoseconds: constant('f64', 1e12) })
      w.emit({ kind: 'sleep', at, expected: i32(0), nanoseconds: constant('f64', 1e6) })
      w.emit({ kind: 'sleep', at, expected: i32(0), nanoseconds: constant('f64', 0) })
      return i32(3)
    })
    expect(await start(compiled(brief), 0, memory).result).toBe(3)
  })
})
