/**
 * Implements the native target on Node: finds the system's C++ compiler, builds libraries, caches them on disk, and
 * loads them in a worker. Of all files of the native target, only node.ts uses processes, files and koffi.
 *
 * `nativeEngine()` searches for a compiler and returns an engine, or the reason why none is available. The function
 * `Engine.compile` returns the path of a library as UTF-8. The function `loadNative` turns the path of a library into
 * entry points, in any worker of this process.
 *
 * The clock of kernels (`now`) is CLOCK_MONOTONIC in nanoseconds. In JavaScript, the clock of kernels is
 * `Number(process.hrtime.bigint())`, in any thread; `performance.now()` has another origin. Kernels sleep on futexes of
 * the operating system. `Atomics.notify` does not wake kernels that sleep on a futex, and such kernels do not wake
 * `Atomics.wait`. The function `wakeNative` wakes kernels from JavaScript.
 */
import { spawn, spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import type { Entry } from '../cpu/abi.ts'
import { nodeThreads } from '../cpu/node.ts'
import type { CodeModule } from '../cpu/code.ts'
import type { Engine } from '../cpu/executable.ts'
import { onInterrupt } from '../interrupts.ts'
import {
  compileArguments,
  contentKey,
  defaultCaches,
  laneCounts,
  machineOf,
  macroArguments,
  type Caches,
} from './build.ts'
import { sourceOf } from './render.ts'

type Koffi = typeof import('koffi').default
export type Environment = Readonly<Record<string, string | undefined>>

/** A compiler command with its first arguments, and the macros that it predefines for this processor. */
interface Compiler {
  readonly command: readonly string[]
  readonly macros: string
}

export interface NativeEngine extends Engine {
  /** The C++ source of a module, for human readers. */
  source(module: CodeModule): string
  /** The compiler command with its first arguments. */
  readonly compiler: string
}

export function nativeEngine(environment: Environment = process.env): NativeEngine | { unavailable: string } {
  if (process.platform === 'win32')
    return {
      unavailable:
        'native: Windows is not supported, because kernels need the vector extensions of gcc or clang',
    }
  try {
    findKoffi()
  } catch (error) {
    return { unavailable: `native: koffi, an optional dependency, cannot be loaded: ${messageOf(error)}` }
  }
  const compiler = findCompiler(environment)
  if ('unavailable' in compiler) return compiler
  const lanes = lanesFrom(environment)
  if (typeof lanes === 'object') return lanes
  const machine = machineOf(compiler.macros, readCaches(), lanes)
  const cache = new LibraryCache(cacheFolder(environment))
  const results = new Map<string, Uint8Array>()
  const keyOf = (source: string): string => contentKey(source, compiler.command, compiler.macros)
  const keep = (source: string, path: string): Uint8Array => {
    const result = new TextEncoder().encode(path)
    results.set(source, result)
    return result
  }
  return {
    machine,
    compiler: compiler.command.join(' '),
    source: sourceOf,
    compile(module) {
      const source = sourceOf(module)
      const known = results.get(source)
      if (known) return known
      const compile = (folder: string): void =>
        expectCompiled(module.name, run(commandOf(compiler, folder), folder), folder)
      return keep(source, cache.get(keyOf(source), source, compile))
    },
    async prepare(module) {
      const source = sourceOf(module)
      if (results.has(source)) return
      const compile = async (folder: string): Promise<void> =>
        expectCompiled(module.name, await runAsync(commandOf(compiler, folder), folder), folder)
      keep(source, await cache.build(keyOf(source), source, compile))
    },
    wake: wakeNative,
  }
}

/**
 * Returns the number of vector lanes that the environment variable ARKE_LANES sets. With ARKE_LANES, the code for other
 * processors can be tested on one computer.
 */
function lanesFrom(environment: Environment): number | undefined | { unavailable: string } {
  const text = environment['ARKE_LANES']
  if (!text) return undefined
  const lanes = laneCounts.find((count) => String(count) === text)
  return lanes ?? { unavailable: `native: ARKE_LANES=${text}: vectors have ${laneCounts.join(', ')} lanes` }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

function findCompiler(environment: Environment): Compiler | { unavailable: string } {
  // The environment variables ARKE_CXX and CXX may contain a command with arguments, such as `ccache g++`.
  const words = (text: string | undefined): string[] => text?.split(/\s+/).filter(Boolean) ?? []
  const forced = words(environment['ARKE_CXX'])
  const given = words(environment['CXX'])
  const candidates =
    forced.length > 0 ? [forced] : [...(given.length > 0 ? [given] : []), ['g++'], ['clang++'], ['c++']]
  const reasons: string[] = []
  for (const command of candidates) {
    const [program, ...first] = command
    const probe = spawnSync(program, [...first, ...macroArguments()], { encoding: 'utf8' })
    if (probe.error) reasons.push(`${program}: ${notFound(probe.error)}`)
    else if (probe.status !== 0)
      reasons.push(`${program}: ${firstLine(probe.stderr) || `exit ${probe.status}`}`)
    else if (!/^#define __LP64__ 1/m.test(probe.stdout)) reasons.push(`${program}: not for 64 bits`)
    else return { command, macros: probe.stdout }
  }
  const advice =
    forced.length > 0
      ? 'set ARKE_CXX to a C++ compiler, or remove it'
      : 'install g++ or clang++, or set ARKE_CXX to a C++ compiler'
  return { unavailable: `native: no C++ compiler (${reasons.join('; ')}): ${advice}` }
}

const notFound = (error: NodeJS.ErrnoException): string =>
  error.code === 'ENOENT' ? 'not found' : error.message
const firstLine = (text: string): string => text.trim().split('\n', 1)[0]

/** The command that builds `kernel.so` from `kernel.cpp` in the given folder. */
function commandOf({ command, macros }: Compiler, folder: string): string[] {
  return [...command, ...compileArguments(join(folder, sourceName), join(folder, libraryName), macros)]
}

/** The outcome of a compiler process: an exit status, a signal, or an error if it could not be started. */
interface Ran {
  readonly command: readonly string[]
  readonly status: number | null
  readonly signal: string | null
  readonly stderr: string
  readonly error?: Error
}

/** The compiler writes its temporary files into the build folder, so that removing the folder also removes them. */
const withTemporary = (folder: string): NodeJS.ProcessEnv => ({ ...process.env, TMPDIR: folder })

function run(command: readonly string[], folder: string): Ran {
  const [program, ...rest] = command
  return { command, ...spawnSync(program, rest, { encoding: 'utf8', env: withTemporary(folder) }) }
}

/** Runs the compiler without blocking this thread. A signal that ends this process also ends the compiler. */
function runAsync(command: readonly string[], folder: string): Promise<Ran> {
  const [program, ...rest] = command
  // The compiler gets its own process group, so that its child processes can be killed with it.
  const child = spawn(program, rest, {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: withTemporary(folder),
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = new Promise<Ran>((resolve) => {
    child.on('error', (error) => resolve({ command, status: null, signal: null, stderr, error }))
    child.on('close', (status, signal) => resolve({ command, status, signal, stderr }))
  })
  const kill = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // The compiler process has already ended.
    }
  }
  const stop = async (): Promise<void> => {
    kill()
    await ended
  }
  const exiting = (): void => {
    kill()
    removeFolder(folder)
  }
  return ended.finally(onInterrupt(stop, exiting))
}

/**
 * An error is thrown if the compilation failed. If the compiler rejected the source, the build folder is kept, because
 * the error message names it.
 */
function expectCompiled(name: string, ran: Ran, folder: string): void {
  if (!ran.error && ran.status === 0) return
  if (ran.signal !== null) {
    removeFolder(folder)
    throw new Error(`native: the compiler was killed by ${ran.signal} while building ${name}`)
  }
  const why = ran.error ? ran.error.message : ran.stderr.trim().split('\n').slice(0, 20).join('\n')
  throw new Error(`native: ${name} does not compile\n${why}\nwith: ${ran.command.join(' ')}`)
}

const removeFolder = (folder: string): void => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })

const sourceName = 'kernel.cpp'
const libraryName = 'kernel.so'
const sha256 = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex')

/**
 * The library cache on disk. Each library has its own folder, named by the hash of its inputs, with its source and its
 * hash. A folder is built under a temporary name and then renamed, so that several processes may build concurrently. A
 * cache folder whose content has a wrong hash is rebuilt.
 */
class LibraryCache {
  readonly #folder: string
  readonly #mostBytes: number

  constructor(folder: string, mostBytes = 256 * 1024 * 1024) {
    this.#folder = folder
    this.#mostBytes = mostBytes
  }

  /**
   * Returns the path of the library. If the library is missing, the function `compile` builds it in a folder that
   * contains the source, or throws an error.
   */
  get(key: string, source: string, compile: (folder: string) => void): string {
    const entry = this.#entryOf(key)
    if (!this.#find(entry)) {
      const aside = this.#begin(source)
      compile(aside)
      this.#finish(aside, entry)
    }
    return join(entry, libraryName)
  }

  /** Returns the path of a library like `get`, but for an asynchronous `compile`. */
  async build(key: string, source: string, compile: (folder: string) => Promise<void>): Promise<string> {
    const entry = this.#entryOf(key)
    if (!this.#find(entry)) {
      const aside = this.#begin(source)
      await compile(aside)
      this.#finish(aside, entry)
    }
    return join(entry, libraryName)
  }

  #entryOf(key: string): string {
    return join(this.#folder, sha256(key))
  }

  #find(entry: string): boolean {
    if (!isIntact(entry)) return false
    const now = new Date()
    utimesSync(entry, now, now)
    return true
  }

  #begin(source: string): string {
    const aside = this.#folderAside()
    writeFileSync(join(aside, sourceName), source)
    return aside
  }

  #finish(aside: string, entry: string): void {
    writeFileSync(join(aside, 'sha256'), sha256(readFileSync(join(aside, libraryName))))
    this.#place(aside, entry)
    this.#trim(entry)
  }

  #folderAside(): string {
    try {
      mkdirSync(this.#folder, { recursive: true })
      return mkdtempSync(join(this.#folder, 'building-'))
    } catch (error) {
      throw new Error(
        `native: cannot write compiled libraries to ${this.#folder}: ${messageOf(error)}: set ARKE_CACHE to a folder that can be written`,
        { cause: error },
      )
    }
  }

  #place(aside: string, entry: string): void {
    for (let attempt = 0; ; attempt++) {
      try {
        return renameSync(aside, entry)
      } catch (error) {
        // Another process has built the library faster, or the existing folder is broken. A broken cache folder is
        // moved away first.
        if (isIntact(entry)) return rmSync(aside, { recursive: true, force: true })
        if (attempt === 3) throw error
        const broken = mkdtempSync(join(this.#folder, 'broken-'))
        try {
          renameSync(entry, join(broken, 'entry'))
        } catch {
          // Another process has already removed the broken folder.
        }
        rmSync(broken, { recursive: true, force: true })
      }
    }
  }

  /**
   * Removes the least recently used libraries from the cache beyond the size limit. Libraries used within the last hour
   * are kept, because a process may be about to load them.
   */
  #trim(keep: string): void {
    const entries = readdirSync(this.#folder).flatMap((name) => {
      const path = join(this.#folder, name)
      try {
        const bytes = readdirSync(path).reduce((sum, file) => sum + statSync(join(path, file)).size, 0)
        return path === keep ? [] : [{ path, bytes, used: statSync(path).mtimeMs }]
      } catch {
        return []
      }
    })
    let total = entries.reduce((sum, { bytes }) => sum + bytes, 0)
    const hourAgo = Date.now() - 3_600_000
    for (const { path, bytes, used } of entries.sort((a, b) => a.used - b.used)) {
      if (total <= this.#mostBytes || used > hourAgo) return
      rmSync(path, { recursive: true, force: true })
      total -= bytes
    }
  }
}

function isIntact(entry: string): boolean {
  try {
    return (
      existsSync(entry) &&
      readFileSync(join(entry, 'sha256'), 'utf8') === sha256(readFileSync(join(entry, libraryName)))
    )
  } catch {
    return false
  }
}

function cacheFolder(environment: Environment): string {
  const forced = environment['ARKE_CACHE']
  if (forced) return join(forced, 'native')
  const caches = environment['XDG_CACHE_HOME']
  return join(caches ? caches : join(homedir(), '.cache'), 'arke', 'native')
}

/**
 * The cache sizes for which code is generated: those of the processor if they are known, and common sizes if they are
 * not.
 */
function readCaches(): Caches {
  const bytes = (level: number): number | undefined =>
    nodeThreads.caches.find((cache) => cache.level === level)?.bytes
  return { l1: bytes(1) ?? defaultCaches.l1, l2: bytes(2) ?? defaultCaches.l2 }
}

const require = createRequire(import.meta.url)
let koffi: Koffi | undefined
/** Loads koffi on first use, so that programs without native kernels do not pay for it. */
function findKoffi(): Koffi {
  return (koffi ??= require('koffi') as Koffi)
}

/** The entries of a compiled module, bound to the memory of its world. */
export function loadNative(bytes: Uint8Array, memory: WebAssembly.Memory): Entry[] {
  const path = new TextDecoder().decode(bytes)
  const ffi = findKoffi()
  let library: ReturnType<Koffi['load']>
  try {
    library = ffi.load(path)
  } catch (error) {
    throw new Error(`native: ${path} cannot be loaded: ${messageOf(error)}`, { cause: error })
  }
  const base = addressOf(memory)
  const count = ffi.decode(library.symbol('arke_entries', 'int32_t'), 'int32_t') as number
  return Array.from({ length: count }, (_, index): Entry => {
    const call = library.func(`entry${index}`, 'int32_t', ['int64_t', 'int64_t', 'int64_t', 'int64_t'])
    const entry: Entry = (launch, frame, slot) => call(base, launch, frame, slot) as number
    // The native code holds only the memory's address, so the entry keeps a reference to the memory object.
    return Object.assign(entry, { memory })
  })
}

/**
 * The address of a WebAssembly memory. The address of a WebAssembly memory never changes, because the memory is shared.
 * User-space addresses are safe integers.
 */
const addressOf = (memory: WebAssembly.Memory): number =>
  Number(findKoffi().address(new Uint8Array(memory.buffer)))

/**
 * Wakes kernels that sleep on the word at the given offset in the memory. On systems without futexes, kernels wake up
 * by timeout.
 */
export function wakeNative(memory: WebAssembly.Memory, offset: number): void {
  if (process.platform !== 'linux') return
  futex ??= findKoffi()
    .load(null)
    .func('syscall', 'long', ['long', 'int64_t', 'int', 'int', 'int64_t', 'int64_t', 'int'])
  futex(process.arch === 'arm64' ? 98 : 202, addressOf(memory) + offset, 129, 0x7fffffff, 0, 0, 0)
}
let futex: ReturnType<ReturnType<Koffi['load']>['func']> | undefined
