// Compiles CUDA C++ to machine code with NVRTC. Contract: `compileCuda(source)` returns a cubin for the requested
// architecture, or throws a CudaCompileError with the compiler's log and the source. `compileCuda` needs no device, no
// toolkit headers and no files.

import { bindChecked, CudaError } from './driver.ts'
import { openCompanions, openLibrary, toolkitFolders } from './node.ts'

class CudaCompileError extends Error {
  override readonly name = 'CudaCompileError'
  constructor(
    readonly program: string,
    readonly log: string,
    readonly source: string,
  ) {
    super(`NVRTC rejected ${program}:\n${log.trim()}`)
  }
}

export interface CompileOptions {
  /** The name of the source in the compiler's log. */
  name?: string
  /** The GPU architecture. Default: sm_90a. */
  architecture?: string
  /** Preprocessor macros to define, like the option -D on a command line. */
  define?: Readonly<Record<string, string | number>>
  /** True to include line information for profilers and debuggers. */
  lineInfo?: boolean
}

export interface Cubin {
  bytes: Uint8Array
  /** The warnings of the compiler, and the report of ptxas if there is one. */
  log: string
}

const P = 'void *'
const SIGNATURES = {
  nvrtcVersion: [P, P],
  nvrtcCreateProgram: [P, 'str', 'str', 'int32_t', P, P],
  nvrtcCompileProgram: [P, 'int32_t', 'str *'],
  nvrtcDestroyProgram: [P],
  nvrtcGetCUBINSize: [P, P],
  nvrtcGetCUBIN: [P, P],
  nvrtcGetProgramLogSize: [P, P],
  nvrtcGetProgramLog: [P, P],
} as const

type Nvrtc = ReturnType<typeof bindChecked<typeof SIGNATURES>> & { readonly libraryPath: string }

const NVRTC_ERROR_COMPILATION = 6
let loaded: Nvrtc | null | undefined

function loadNvrtc(): Nvrtc | null {
  if (loaded !== undefined) return loaded
  const names = ['libnvrtc.so', 'libnvrtc.so.13', 'libnvrtc.so.12']
  const library = openLibrary(names, toolkitFolders())
  if (!library) return (loaded = null)
  // NVRTC loads its companion library by name. If the companion is not on the loader's search path, NVRTC finds it only
  // if it is already loaded.
  openCompanions(library.path, /^libnvrtc-builtins\.so\.[\d.]+$/)
  const describe = library.bind('nvrtcGetErrorString', 'str', ['int32_t'])
  const calls = bindChecked(library, SIGNATURES, (call, code) => {
    const name = describe(code) as string
    return new CudaError(call, code, name, 'NVRTC')
  })
  return (loaded = Object.assign(calls, { libraryPath: library.path }))
}

function nvrtc(): Nvrtc {
  const library = loadNvrtc()
  if (!library) {
    throw new Error('libnvrtc was not found: install the CUDA toolkit, or set CUDA_HOME to its folder')
  }
  return library
}

/** Returns the path and version of NVRTC, or the reason why it cannot be used. */
export function findNvrtc():
  { available: true; version: string; libraryPath: string } | { available: false; reason: string } {
  try {
    const library = nvrtc()
    const major = new Int32Array(1)
    const minor = new Int32Array(1)
    library.nvrtcVersion(major, minor)
    return { available: true, version: `${major[0]}.${minor[0]}`, libraryPath: library.libraryPath }
  } catch (error) {
    return { available: false, reason: (error as Error).message }
  }
}

export function compileCuda(source: string, options: CompileOptions = {}): Cubin {
  const library = nvrtc()
  const name = options.name ?? 'kernel.cu'
  const flags = [`-arch=${options.architecture ?? 'sm_90a'}`, '-std=c++17', '-default-device']
  if (options.lineInfo) flags.push('-lineinfo')
  for (const [macro, value] of Object.entries(options.define ?? {})) flags.push(`-D${macro}=${value}`)

  const handle = new BigUint64Array(1)
  library.nvrtcCreateProgram(handle, source, name, 0, null, null)
  const program = handle[0]
  try {
    try {
      library.nvrtcCompileProgram(program, flags.length, flags)
    } catch (error) {
      if (error instanceof CudaError && error.code === NVRTC_ERROR_COMPILATION) {
        throw new CudaCompileError(name, programLog(library, program), source)
      }
      throw error
    }
    const size = new BigUint64Array(1)
    library.nvrtcGetCUBINSize(program, size)
    const bytes = new Uint8Array(Number(size[0]))
    library.nvrtcGetCUBIN(program, bytes)
    return { bytes, log: programLog(library, program) }
  } finally {
    library.nvrtcDestroyProgram(handle)
  }
}

function programLog(library: Nvrtc, program: bigint): string {
  const size = new BigUint64Array(1)
  library.nvrtcGetProgramLogSize(program, size)
  const text = new Uint8Array(Number(size[0]))
  library.nvrtcGetProgramLog(program, text)
  return new TextDecoder().decode(text.subarray(0, Math.max(0, text.length - 1)))
}
