/** Runs functions of the intermediate language Code as wasm and, if there is a C++ compiler, as native code. */
import { codeFunction, i32, type Writer } from '../../../src/targets/cpu/build.ts'
import type { Local, Machine } from '../../../src/targets/cpu/code.ts'
import type { Engine } from '../../../src/targets/cpu/executable.ts'
import { loadNative, nativeEngine } from '../../../src/targets/native/node.ts'
import { loadWasm, wasmEngine } from '../../../src/targets/wasm/engine.ts'

export interface TestMachine {
  readonly name: string
  readonly machine: Machine
  /** Compiles functions that each work on the memory at `frame`, and returns a function that runs one of them by name. */
  compile<Name extends string>(pieces: Record<Name, Piece>): (name: Name) => void
}
export type Piece = (writer: Writer, machine: Machine, frame: Local) => void

const pages = 128
export const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
/** The address of the memory that the compiled functions use, aligned to a cache line. */
export const frame = 4096
export const capacity = pages * 65536 - frame

function machineOf(
  name: string,
  engine: Engine,
  load: (bytes: Uint8Array) => ((...at: number[]) => number)[],
): TestMachine {
  return {
    name,
    machine: engine.machine,
    compile(pieces) {
      const names = Object.keys(pieces) as (keyof typeof pieces)[]
      const entries = names.map((piece) =>
        codeFunction(
          'entry',
          [
            ['launch', 'ptr'],
            ['frame', 'ptr'],
            ['slot', 'ptr'],
          ],
          (writer, _launch, at) => {
            pieces[piece](writer, engine.machine, at)
            writer.return(i32(0))
          },
          { result: 'i32' },
        ),
      )
      const loaded = load(engine.compile({ name: 'test', machine: engine.machine, entries }))
      return (piece) => void loaded[names.indexOf(piece)](frame, frame, frame)
    },
  }
}

const native = nativeEngine()
if ('unavailable' in native) console.warn(`skipped on native: ${native.unavailable}`)

export const testMachines: readonly TestMachine[] = [
  machineOf('wasm', wasmEngine(), (bytes) => loadWasm(bytes, memory, () => 0)),
  ...('unavailable' in native ? [] : [machineOf('native', native, (bytes) => loadNative(bytes, memory))]),
]

/** Deterministic numbers in [0, 1). */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}
