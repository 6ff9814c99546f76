// The functions of Node that the CUDA target uses: koffi, shared libraries, memory outside the JavaScript heap, and
// files of the compile cache. Contract: this is the only file of the target that imports from Node. Libraries are
// loaded on first use.

import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import process from 'node:process'

type Koffi = typeof import('koffi').default

/** A value that can be passed to a library function: number, handle, memory to read or fill, string or null. */
export type Argument = number | bigint | ArrayBufferView | string | readonly string[] | null

/** Sets an environment variable, unless it is already set. */
export function setDefault(variable: string, value: string): void {
  process.env[variable] ??= value
}

/** Returns the number in an environment variable, or undefined if the variable is not set. */
export function numberFrom(variable: string): number | undefined {
  const text = process.env[variable]
  return text ? Number(text) : undefined
}

/** True if koffi is installed. */
export const canCallLibraries = (): boolean => loadKoffi() !== null

/** Returns the C string at an address. */
export const textAt = (address: bigint): string => koffi().decode.string(address)

export interface OpenLibrary {
  readonly path: string
  bind(name: string, result: string, types: readonly string[]): (...args: Argument[]) => unknown
}

/** Opens the first library that loads: first each name as the system resolves it, then each name in each folder. */
export function openLibrary(names: readonly string[], folders: readonly string[]): OpenLibrary | undefined {
  const paths = [
    ...names,
    ...folders.flatMap((folder) => names.map((name) => join(folder, name)).filter(existsSync)),
  ]
  for (const path of paths) {
    try {
      const library = koffi().load(path)
      return {
        path,
        bind(name, result, types) {
          try {
            return library.func(name, result, [...types])
          } catch {
            throw new Error(`${path} has no function ${name}: install a newer version of this library`)
          }
        },
      }
    } catch {
      // If the library file is missing, or is built for another machine, the loop tries the next path.
    }
  }
  return undefined
}

/** Opens the libraries that are in the same folder as `libraryPath` and whose file names match `names`. */
export function openCompanions(libraryPath: string, names: RegExp): void {
  if (!isAbsolute(libraryPath)) return
  const folder = dirname(libraryPath)
  for (const name of readdirSync(folder)) if (names.test(name)) openLibrary([join(folder, name)], [])
}

/**
 * The folders that usually contain toolkit libraries (NVRTC, cuBLAS), newest toolkit first, including those of Python
 * wheels.
 */
export function toolkitFolders(): string[] {
  const folders: string[] = []
  const under = (base: string, pattern: RegExp) =>
    existsSync(base)
      ? readdirSync(base)
          .filter((name) => pattern.test(name))
          .sort()
          .reverse()
          .map((name) => join(base, name))
      : []
  for (const home of [process.env.CUDA_HOME, process.env.CUDA_PATH, ...under('/usr/local', /^cuda/)]) {
    if (home) folders.push(join(home, 'lib64'), join(home, 'targets/x86_64-linux/lib'))
  }
  const environments = [process.env.VIRTUAL_ENV, process.env.CONDA_PREFIX]
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder && existsSync(join(folder, 'python3'))) environments.push(dirname(safeRealPath(folder)))
  }
  for (const environment of new Set(environments)) {
    if (!environment) continue
    for (const python of under(join(environment, 'lib'), /^python3/)) {
      for (const part of under(join(python, 'site-packages', 'nvidia'), /./)) folders.push(join(part, 'lib'))
    }
  }
  return [...new Set(folders)].filter(existsSync)
}

function safeRealPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

let loadedKoffi: Koffi | null | undefined

function loadKoffi(): Koffi | null {
  if (loadedKoffi === undefined) {
    try {
      loadedKoffi = createRequire(import.meta.url)('koffi') as Koffi
    } catch {
      loadedKoffi = null
    }
  }
  return loadedKoffi
}

function koffi(): Koffi {
  const loaded = loadKoffi()
  if (!loaded) throw new Error('the optional package koffi is not installed: npm install koffi')
  return loaded
}

/**
 * A block of memory outside the JavaScript heap at a fixed address, aligned to 128 bytes. `view` shows its contents.
 */
export class NativeBlock {
  readonly address: bigint
  readonly view: ArrayBuffer
  private allocation: bigint | null

  constructor(bytes: number) {
    this.allocation = koffi().alloc('uint8_t', bytes + 128) as bigint
    this.address = (this.allocation + 127n) & ~127n
    this.view = koffi().view(this.address, bytes)
  }

  free(): void {
    if (this.allocation !== null) koffi().free(this.allocation)
    this.allocation = null
  }
}

/** Returns a view of host memory that a library owns, e.g. pinned memory. The memory must outlive the view. */
export function viewNative(address: bigint, bytes: number): ArrayBuffer {
  return koffi().view(address, bytes)
}

/**
 * Returns the cached bytes of a key from disk, or creates them with `make` and stores them. A file of the compile cache
 * begins with the SHA-256 hash of its content. A file is written under another name and renamed, so that several
 * processes may write the cache concurrently. If the cache folder cannot be written, nothing is cached.
 */
export function keptOnDisk(key: string, make: () => Uint8Array): Uint8Array {
  const sha256 = (content: string | Uint8Array): Buffer => createHash('sha256').update(content).digest()
  const folder = cacheFolder()
  const path = join(folder, `${sha256(key).toString('hex')}.cubin`)
  try {
    const kept = readFileSync(path)
    const content = new Uint8Array(kept.subarray(32))
    if (sha256(content).equals(kept.subarray(0, 32))) return content
  } catch {
    // The cache file does not exist yet.
  }
  const made = make()
  try {
    mkdirSync(folder, { recursive: true })
    const aside = `${path}.${process.pid}`
    writeFileSync(aside, Buffer.concat([sha256(made), made]))
    renameSync(aside, path)
  } catch {
    // The cache folder is not writable. The next process has to compile the kernel again.
  }
  return made
}

function cacheFolder(): string {
  const forced = process.env['ARKE_CACHE']
  if (forced) return join(forced, 'cuda')
  const caches = process.env['XDG_CACHE_HOME']
  return join(caches ? caches : join(homedir(), '.cache'), 'arke', 'cuda')
}
