/** A native engine with its own cache folder for tests, or undefined with the reason printed once. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { Entry } from '../../../src/targets/cpu/abi.ts'
import { codeFunction, i32, type Operand, type Writer } from '../../../src/targets/cpu/build.ts'
import type { CodeFunction, CodeModule, Local } from '../../../src/targets/cpu/code.ts'
import { loadNative, nativeEngine, type NativeEngine } from '../../../src/targets/native/node.ts'

export function cacheForTests(): string {
  const folder = mkdtempSync(join(tmpdir(), 'arke-native-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The engine on this machine. If there is no compiler, the function prints the reason and returns undefined. */
export function engineForTests(cache = cacheForTests()): NativeEngine | undefined {
  const engine = nativeEngine({ ...process.env, ARKE_CACHE: cache })
  if (!('unavailable' in engine)) return engine
  console.warn(`skipped: ${engine.unavailable}`)
  return undefined
}

export const moduleOf = (
  engine: NativeEngine,
  name: string,
  entries: readonly CodeFunction[],
  lanes = engine.machine.lanes,
): CodeModule => ({ name, machine: { ...engine.machine, lanes }, entries })

export const sharedMemory = (pages = 80): WebAssembly.Memory =>
  new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })

export const load = (engine: NativeEngine, module: CodeModule, memory: WebAssembly.Memory): Entry[] =>
  loadNative(engine.compile(module), memory)

/** An entry point with the given body, which returns the body's result, or 0 if the body has none. */
export const entryOf = (
  write: (w: Writer, launch: Local, frame: Local, slot: Local) => Operand | void,
  name = 'entry',
): CodeFunction =>
  codeFunction(
    name,
    [
      ['launch', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
    ],
    (w, launch, frame, slot) => w.return(write(w, launch, frame, slot) ?? i32(0)),
    { result: 'i32' },
  )
