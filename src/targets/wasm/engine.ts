/**
 * Implements the engine of the wasm target: detects the runtime's WebAssembly features, compiles Code to bytes on the
 * host, and loads bytes in workers.
 */
import type { Entry } from '../cpu/abi.ts'
import type { CodeModule, Machine } from '../cpu/code.ts'
import type { Engine } from '../cpu/executable.ts'
import { Instructions, encodeModule } from './encode.ts'
import { renderWasm } from './render.ts'

/**
 * The machine for which the wasm target generates Code. If the microkernel had more rows or columns, V8 would spill
 * registers.
 */
export const wasmMachine: Machine = {
  name: 'wasm',
  lanes: 4,
  rows: 4,
  columns: 2,
  prefetches: false,
  l1: 32 << 10,
  l2: 512 << 10,
}

export interface WasmFeatures {
  readonly simd: boolean
  readonly threads: boolean
  readonly relaxedSimd: boolean
}

function validates(
  write: (code: Instructions) => void,
  memory?: { initial: number; maximum: number },
): boolean {
  const body = new Instructions()
  write(body)
  const type = { parameters: [], results: [] }
  const probe = { name: 'probe', type, locals: [], localNames: [], body }
  return WebAssembly.validate(
    encodeModule({ name: 'probe', imports: [], memory, functions: [probe], exports: [] }),
  )
}

/**
 * Tests the WebAssembly features of the runtime at every call, because a V8 flag may have been set since the last call.
 */
export function wasmFeatures(): WasmFeatures {
  const zero = new Uint8Array(16)
  const zeros = (code: Instructions): Instructions => code.op('v128_const').append(zero) && code
  return {
    simd: validates((code) => zeros(code).op('drop')),
    threads: validates((code) => code.op('atomic_fence').byte(0), { initial: 1, maximum: 1 }),
    relaxedSimd: validates((code) =>
      zeros(zeros(zeros(code)))
        .op('f32x4_relaxed_madd')
        .op('drop'),
    ),
  }
}

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index])

/** The FNV-1a hash of some bytes. */
function hash(bytes: Uint8Array): number {
  let value = 0x811c9dc5
  for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193)
  return value
}

/**
 * The engine that compiles Code on the host. Rendering takes less time than reading a file, so the engine caches
 * nothing on disk. For two modules with equal contents, the engine returns the same byte array, so that callers can
 * recognise executables that workers already have.
 */
export function wasmEngine(features: WasmFeatures = wasmFeatures()): Engine {
  for (const [has, what] of [
    [features.simd, 'SIMD'],
    [features.threads, 'threads and shared memory'],
  ] as const)
    if (!has)
      throw new Error(
        `this runtime's WebAssembly has no ${what}: use Node 20.19 or later, or a current browser`,
      )
  const rendered = new WeakMap<CodeModule, Uint8Array>()
  const contents = new Map<number, Uint8Array[]>()
  return {
    machine: wasmMachine,
    compile(module) {
      const known = rendered.get(module)
      if (known) return known
      const bytes = renderWasm(module, { relaxed: features.relaxedSimd })
      const key = hash(bytes)
      const others = contents.get(key) ?? []
      const kept = others.find((other) => sameBytes(other, bytes)) ?? bytes
      if (kept === bytes) contents.set(key, [...others, bytes])
      rendered.set(module, kept)
      return kept
    },
  }
}

/**
 * Loads WebAssembly executables in a worker thread. The result lists the entry points of an executable, one per role.
 * The argument `now` is the monotonic clock that all workers share, in nanoseconds.
 */
export function loadWasm(bytes: Uint8Array, memory: WebAssembly.Memory, now: () => number): Entry[] {
  // Bytes in shared memory may change while they are read, so engines may reject them. The bytes are therefore copied
  // first.
  const module = new WebAssembly.Module(bytes.slice())
  const { exports } = new WebAssembly.Instance(module, { env: { memory, now } })
  return Object.keys(exports).map((_, index) => exports[`entry${index}`] as Entry)
}
