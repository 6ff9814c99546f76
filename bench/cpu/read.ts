/**
 * Reads memory on this thread as fast as one core can. The function computes eight vector sums over a memory range, in
 * native code if there is a compiler, and otherwise in wasm. The measured time is a lower bound for every kernel that
 * must read that many bytes.
 */
import { add, address, codeFunction, constant, i32 } from '../../src/targets/cpu/build.ts'
import type { CodeModule, Local, Machine } from '../../src/targets/cpu/code.ts'
import { loadNative, nativeEngine } from '../../src/targets/native/node.ts'
import { loadWasm, wasmEngine } from '../../src/targets/wasm/engine.ts'

const unroll = 8

function reader(machine: Machine, bytes: number): CodeModule {
  const vector = machine.lanes * 4
  const entry = codeFunction(
    'read',
    [
      ['from', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
    ],
    (writer, from) => {
      const sums: Local[] = Array.from({ length: unroll }, (_, i) =>
        writer.let(`sum${i}`, constant('vi32', 0)),
      )
      writer.for('i', 0, bytes / (vector * unroll), 1, (i) => {
        const at = writer.let('at', address(from, i, vector * unroll))
        const loaded = sums.map((_, n) => writer.load(`x${n}`, 'vi32', 'i32', at, n * vector))
        sums.forEach((sum, n) => writer.set(sum, add(sum, loaded[n])))
      })
      writer.store('i32', from, sums.map((sum) => sum as Parameters<typeof add>[0]).reduce(add))
      writer.return(i32(0))
    },
    { result: 'i32' },
  )
  return { name: 'read', machine, entries: [entry] }
}

/** Returns a function that reads `bytes` bytes once per call. */
export function plainRead(bytes: number): () => void {
  const start = 65536
  const pages = bytes / 65536 + 2
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  new Int32Array(memory.buffer).fill(1)
  const native = nativeEngine()
  const [entry] =
    'unavailable' in native
      ? loadWasm(wasmEngine().compile(reader(wasmEngine().machine, bytes)), memory, () => performance.now())
      : loadNative(native.compile(reader(native.machine, bytes)), memory)
  return () => void entry(start, 0, 0)
}
