// Finds the CUDA driver and calls it through koffi. Each driver function becomes a call that throws on failure.
// Contract: no library is loaded before `findCuda()`. On a machine without koffi, driver or device, `findCuda()`
// returns `available: false` and the reason. Handles and device pointers are bigints, except in launches.
// Out-parameters are typed arrays. This file contains no policy.

import { DeviceError } from '../gpu/device.ts'
import { canCallLibraries, openLibrary, setDefault, textAt, type Argument, type OpenLibrary } from './node.ts'

/** A failed CUDA call. `code` and `errorName` come from the CUDA library, e.g. 700 and CUDA_ERROR_ILLEGAL_ADDRESS. */
export class CudaError extends DeviceError {
  override readonly name = 'CudaError'
  constructor(
    readonly call: string,
    readonly code: number,
    readonly errorName: string,
    readonly description: string,
  ) {
    super(`${call} failed: ${errorName} (${code}): ${description}`)
  }
}

// The argument types of every driver function in use. Each driver function returns a CUresult. P is any pointer: a
// typed array or an address as bigint.
const P = 'void *'
const U32 = 'uint32_t'
const I32 = 'int32_t'
const U64 = 'uint64_t'
const SIGNATURES = {
  cuInit: [U32],
  cuDriverGetVersion: [P],
  cuDeviceGetCount: [P],
  cuDeviceGet: [P, I32],
  cuDeviceGetName: [P, I32, I32],
  cuDeviceGetAttribute: [P, I32, I32],
  cuDeviceTotalMem_v2: [P, I32],
  cuDeviceCanAccessPeer: [P, I32, I32],
  cuDevicePrimaryCtxRetain: [P, I32],
  cuDevicePrimaryCtxRelease_v2: [I32],
  cuCtxSetCurrent: [P],
  cuCtxSynchronize: [],
  cuMemAlloc_v2: [P, U64],
  cuMemFree_v2: [U64],
  cuMemGetAllocationGranularity: [P, P, I32],
  cuMemAddressReserve: [P, U64, U64, U64, U64],
  cuMemAddressFree: [U64, U64],
  cuMemCreate: [P, U64, P, U64],
  cuMemRelease: [U64],
  cuMemMap: [U64, U64, U64, U64, U64],
  cuMemUnmap: [U64, U64],
  cuMemSetAccess: [U64, U64, P, U64],
  cuMemHostAlloc: [P, U64, U32],
  cuMemFreeHost: [P],
  cuMemcpyHtoDAsync_v2: [U64, P, U64, P],
  cuMemcpyDtoHAsync_v2: [P, U64, U64, P],
  cuMemcpyDtoDAsync_v2: [U64, U64, U64, P],
  cuMemsetD8Async: [U64, 'uint8_t', U64, P],
  cuStreamCreate: [P, U32],
  cuStreamCreateWithPriority: [P, U32, I32],
  cuStreamDestroy_v2: [P],
  cuStreamSynchronize: [P],
  cuStreamQuery: [P],
  cuStreamWaitEvent: [P, P, U32],
  cuStreamWriteValue32_v2: [P, U64, U32, U32],
  cuStreamBeginCapture_v2: [P, I32],
  cuStreamEndCapture: [P, P],
  cuGraphInstantiateWithFlags: [P, P, U64],
  cuGraphLaunch: [P, P],
  cuGraphExecDestroy: [P],
  cuGraphDestroy: [P],
  cuEventCreate: [P, U32],
  cuEventDestroy_v2: [P],
  cuEventRecord: [P, P],
  cuEventSynchronize: [P],
  cuEventQuery: [P],
  cuEventElapsedTime: [P, P, P],
  cuLibraryLoadData: [P, P, P, P, U32, P, P, U32],
  cuLibraryGetKernel: [P, P, 'str'],
  cuKernelSetAttribute: [I32, I32, P, I32],
  cuKernelGetAttribute: [P, I32, P, I32],
  cuKernelGetFunction: [P, P],
  cuOccupancyMaxActiveBlocksPerMultiprocessor: [P, P, I32, U64],
  // A launch passes addresses as numbers, which cost less than bigints, because a launch is the most frequent call.
  cuLaunchKernelEx: [U64, U64, U64, U64],
  cuTensorMapEncodeTiled: [P, I32, U32, P, P, P, P, P, I32, I32, I32, I32],
  cuDeviceGetDevResource: [I32, P, I32],
  cuDevSmResourceSplitByCount: [P, P, P, P, U32, U32],
  cuDevResourceGenerateDesc: [P, P, U32],
  cuGreenCtxCreate: [P, P, I32, U32],
  cuGreenCtxDestroy: [P],
  cuGreenCtxStreamCreate: [P, P, U32, I32],
  cuCtxFromGreenCtx: [P, P],
} as const

export type DriverFunction = keyof typeof SIGNATURES

/** The functions of the CUDA driver, by their exported names. A driver function that fails throws a CudaError. */
export type Driver = { readonly [F in DriverFunction]: (...args: Argument[]) => void }

/**
 * The result of a driver query about work that has not ended yet. If a query has this result, `isReady` returns false
 * and does not throw.
 */
export const CUDA_ERROR_NOT_READY = 600

export interface CudaFound {
  available: true
  driver: Driver
  /** The highest CUDA version that the driver supports, e.g. 13000. */
  driverVersion: number
  deviceCount: number
  libraryPath: string
}

export interface CudaMissing {
  available: false
  /** A sentence for the user that says which requirement is missing and how to satisfy it. */
  reason: string
}

let found: CudaFound | CudaMissing | undefined

/** The first call looks for the CUDA driver. Later calls of `findCuda` return the result of the first call. */
export function findCuda(): CudaFound | CudaMissing {
  return (found ??= lookForCuda())
}

function lookForCuda(): CudaFound | CudaMissing {
  const missing = (reason: string): CudaMissing => ({ available: false, reason })
  if (!canCallLibraries()) return missing('the optional package koffi is not installed: npm install koffi')
  const library = openLibrary(
    ['libcuda.so.1', 'libcuda.so', 'nvcuda.dll'],
    [
      '/usr/local/nvidia/lib64',
      '/usr/lib/x86_64-linux-gnu',
      '/usr/lib/aarch64-linux-gnu',
      '/usr/lib64',
      '/usr/lib/wsl/lib',
    ],
  )
  if (!library) return missing('no NVIDIA driver: libcuda.so.1 was not found')
  // With lazy module loading, a load could block behind kernels that wait for each other. Two streams that share a
  // hardware queue could also block each other.
  setDefault('CUDA_MODULE_LOADING', 'EAGER')
  setDefault('CUDA_DEVICE_MAX_CONNECTIONS', '32')
  // The host blocks when a launch queue is full. With a full launch queue, the host would block forever if the running
  // kernels wait for the host, so the queues are made longer.
  setDefault('CUDA_SCALE_LAUNCH_QUEUES', '4x')
  const driver = bindDriver(library)
  try {
    const number = new Int32Array(1)
    driver.cuInit(0)
    driver.cuDriverGetVersion(number)
    const driverVersion = number[0]
    driver.cuDeviceGetCount(number)
    if (number[0] === 0) return missing('the NVIDIA driver is installed but reports no device')
    return { available: true, driver, driverVersion, deviceCount: number[0], libraryPath: library.path }
  } catch (error) {
    return missing(`the NVIDIA driver is installed but cannot be initialised: ${(error as Error).message}`)
  }
}

function bindDriver(library: OpenLibrary): Driver {
  const text = (getter: 'cuGetErrorName' | 'cuGetErrorString') => {
    const call = library.bind(getter, I32, [I32, P])
    return (code: number) => {
      const pointer = new BigUint64Array(1)
      return call(code, pointer) === 0 ? textAt(pointer[0]) : 'unknown'
    }
  }
  const errorName = text('cuGetErrorName')
  const errorString = text('cuGetErrorString')
  return bindChecked(
    library,
    SIGNATURES,
    (call, code) => new CudaError(call, code, errorName(code), errorString(code)),
  )
}

/**
 * Returns checked functions for a table of library functions; each library function is bound at its first call. A
 * library function whose result is not 0 throws the error that `failure` returns.
 */
export function bindChecked<T extends Record<string, readonly string[]>>(
  library: OpenLibrary,
  signatures: T,
  failure: (call: string, code: number) => Error,
): { readonly [F in keyof T]: (...args: Argument[]) => void } {
  const bound: Record<string, (...args: Argument[]) => void> = {}
  for (const [name, types] of Object.entries(signatures)) {
    bound[name] = (...args) => {
      const call = library.bind(name, I32, types)
      const check = (code: unknown): void => {
        if (code !== 0) throw failure(name, code as number)
      }
      // Calls with four arguments, such as launches, avoid the allocation of an argument array.
      bound[name] =
        types.length === 4 ? (a, b, c, d) => check(call(a, b, c, d)) : (...later) => check(call(...later))
      bound[name](...args)
    }
  }
  return bound as { readonly [F in keyof T]: (...args: Argument[]) => void }
}

/** Calls a function with an out-parameter for a handle or an address, and returns the value that the function wrote. */
export function readHandle(call: (out: BigUint64Array) => void): bigint {
  const out = new BigUint64Array(1)
  call(out)
  return out[0]
}

export function readInt(call: (out: Int32Array) => void): number {
  const out = new Int32Array(1)
  call(out)
  return out[0]
}

/** Returns true if a driver query reports that the queried work has ended. */
export function isReady(query: () => void): boolean {
  try {
    query()
    return true
  } catch (error) {
    if (error instanceof CudaError && error.code === CUDA_ERROR_NOT_READY) return false
    throw error
  }
}
