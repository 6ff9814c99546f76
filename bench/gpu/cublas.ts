// The vendor's GEMM as a baseline. The baseline is cuBLAS with its default algorithm, or the fastest algorithm that
// cuBLASLt proposes for a shape. The matrix product is row-major C = A x B of bf16 or f16 with f32 accumulation, on a
// given stream. cuBLASLt also computes C in f32.

import { bindChecked } from '../../src/targets/cuda/driver.ts'
import { openLibrary, toolkitFolders } from '../../src/targets/cuda/node.ts'
import type { Device } from '../../src/targets/cuda/runtime.ts'
import type { Stream } from '../../src/targets/cuda/stream.ts'

export interface Operands {
  readonly a: bigint
  readonly b: bigint
  readonly c: bigint
}

const P = 'void *'
const I = 'int32_t'
const U = 'uint64_t'
const BF16 = 14
const dataTypes = { bf16: BF16, f16: 2 } as const
const resultTypes = { ...dataTypes, f32: 0 } as const
const COMPUTE_F32 = 68
const WORKSPACE = 64 << 20
const one = new Float32Array([1, 0, 0, 0])
const zero = new Float32Array(4)

function open(names: readonly string[]) {
  const library = openLibrary(names, toolkitFolders())
  if (!library)
    throw new Error(`${names[0]} was not found: set CUDA_HOME to the folder of a toolkit that contains it`)
  return library
}

const failed = (call: string, code: number): Error => new Error(`${call} failed with status ${code}`)

/** Returns a function that enqueues cublasGemmEx with the library's own choice of algorithm. */
export function cublas(
  device: Device,
): (stream: Stream, x: Operands, M: number, N: number, K: number) => void {
  const library = open(['libcublas.so.13', 'libcublas.so.12', 'libcublas.so'])
  const calls = bindChecked(
    library,
    {
      cublasCreate_v2: [P],
      cublasSetStream_v2: [P, P],
      cublasSetWorkspace_v2: [P, P, U],
      cublasGemmEx: [P, I, I, I, I, I, P, P, I, I, P, I, I, P, P, I, I, I, I],
    },
    failed,
  )
  const handle = new BigUint64Array(1)
  calls.cublasCreate_v2(handle)
  const workspace = device.allocate(WORKSPACE)
  return (stream, { a, b, c }, M, N, K) => {
    device.makeCurrent(stream.context)
    calls.cublasSetStream_v2(handle[0], stream.handle)
    calls.cublasSetWorkspace_v2(handle[0], workspace, WORKSPACE)
    calls.cublasGemmEx(
      handle[0],
      0,
      0,
      N,
      M,
      K,
      one,
      b,
      BF16,
      N,
      a,
      BF16,
      K,
      zero,
      c,
      BF16,
      N,
      COMPUTE_F32,
      -1,
    )
  }
}

const ATTRIBUTE_SM_COUNT_TARGET = 15
const PREFERENCE_WORKSPACE = 1
const RESULT_BYTES = 96
const ALGORITHM_BYTES = 64

/** The shape and the element type of a matrix product. */
export interface Product {
  readonly M: number
  readonly N: number
  readonly K: number
  readonly dtype: keyof typeof dataTypes
  /** The dtype of the result matrix C, which is by default the dtype of the operands. */
  readonly result?: keyof typeof resultTypes
}

/**
 * The algorithms that cuBLASLt proposes for a product on the multiprocessors of a stream, in the order of their
 * expected speed.
 */
export interface Proposals {
  readonly count: number
  /** Enqueues the matrix product, computed with the n-th algorithm. */
  run(n: number, operands: Operands): void
  close(): void
}

type LightCalls = ReturnType<typeof bindLight>
let light: LightCalls | undefined

function bindLight() {
  return bindChecked(
    open(['libcublasLt.so.13', 'libcublasLt.so.12', 'libcublasLt.so']),
    {
      cublasLtCreate: [P],
      cublasLtDestroy: [P],
      cublasLtMatmulDescCreate: [P, I, I],
      cublasLtMatmulDescDestroy: [P],
      cublasLtMatmulDescSetAttribute: [P, I, P, U],
      cublasLtMatrixLayoutCreate: [P, I, U, U, 'int64_t'],
      cublasLtMatrixLayoutDestroy: [P],
      cublasLtMatmulPreferenceCreate: [P],
      cublasLtMatmulPreferenceDestroy: [P],
      cublasLtMatmulPreferenceSetAttribute: [P, I, P, U],
      cublasLtMatmulAlgoGetHeuristic: [P, P, P, P, P, P, P, I, P, P],
      cublasLtMatmul: [P, P, P, P, P, P, P, P, P, P, P, P, P, P, U, P],
    },
    failed,
  )
}

export function proposalsOf(
  stream: Stream,
  { M, N, K, dtype, result = dtype }: Product,
  most = 8,
): Proposals {
  const calls = (light ??= bindLight())
  const { device } = stream
  const workspace = device.allocate(WORKSPACE)
  const destroy: (() => void)[] = [() => device.free(workspace)]
  device.makeCurrent(stream.context)
  const made = (make: (out: BigUint64Array) => void, drop: (handle: bigint) => void): bigint => {
    const out = new BigUint64Array(1)
    make(out)
    const [handle] = out
    destroy.push(() => drop(handle))
    return handle
  }
  const handle = made(calls.cublasLtCreate, calls.cublasLtDestroy)
  const operation = made(
    (out) => calls.cublasLtMatmulDescCreate(out, COMPUTE_F32, 0),
    calls.cublasLtMatmulDescDestroy,
  )
  if (stream.processors < device.processors)
    calls.cublasLtMatmulDescSetAttribute(
      operation,
      ATTRIBUTE_SM_COUNT_TARGET,
      Int32Array.of(stream.processors),
      4,
    )
  const layout = (rows: number, columns: number, type: keyof typeof resultTypes = dtype): bigint =>
    made(
      (out) => calls.cublasLtMatrixLayoutCreate(out, resultTypes[type], rows, columns, rows),
      calls.cublasLtMatrixLayoutDestroy,
    )
  // cuBLASLt uses column-major matrices, so it computes the transposed product.
  const [lb, la, lc] = [layout(N, K), layout(K, M), layout(N, M, result)]
  const preference = made(calls.cublasLtMatmulPreferenceCreate, calls.cublasLtMatmulPreferenceDestroy)
  const bytes = BigUint64Array.of(BigInt(WORKSPACE))
  calls.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, bytes, 8)
  const results = new Uint8Array(RESULT_BYTES * most)
  const count = new Int32Array(1)
  calls.cublasLtMatmulAlgoGetHeuristic(handle, operation, lb, la, lc, lc, preference, most, results, count)
  const algorithms = Array.from({ length: count[0] }, (_, i) =>
    results.slice(RESULT_BYTES * i, RESULT_BYTES * i + ALGORITHM_BYTES),
  )
  return {
    count: algorithms.length,
    run(n, { a, b, c }) {
      device.makeCurrent(stream.context)
      const operands = [one, b, lb, a, la, zero, c, lc, c, lc]
      calls.cublasLtMatmul(
        ...[handle, operation, ...operands, algorithms[n], workspace, WORKSPACE, stream.handle],
      )
    },
    close() {
      device.makeCurrent(stream.context)
      for (const drop of destroy.reverse()) drop()
    },
  }
}

/**
 * Times up to 16 algorithms that cuBLASLt proposes for this bf16 shape on the stream's multiprocessors, and returns the
 * fastest one. The time for selecting the algorithm is not part of any measurement.
 */
export function cublasLt(_device: Device, stream: Stream, M: number, N: number, K: number, x: Operands) {
  const proposals = proposalsOf(stream, { M, N, K, dtype: 'bf16' }, 16)
  const begin = stream.createEvent()
  const end = stream.createEvent()
  const times = Array.from({ length: proposals.count }, (_, n) => {
    try {
      const all: number[] = []
      for (let i = 0; i < 6; i++) {
        begin.record()
        for (let j = 0; j < 4; j++) proposals.run(n, x)
        end.record()
        end.synchronize()
        all.push(end.millisecondsSince(begin) / 4)
      }
      return all.sort((p, q) => p - q)[3]
    } catch {
      return Infinity
    }
  })
  const best = times.indexOf(Math.min(...times))
  return (operands: Operands): void => proposals.run(best, operands)
}
