// The vendor's GEMM as a baseline: cuBLAS as it comes, and the fastest of cuBLASLt's proposals for a shape.
// Contract: row-major bf16 C = A x B with f32 accumulation, on a given stream; nothing here is timed by itself.

import { bindChecked } from '../../src/targets/cuda/driver.ts'
import { openLibrary, toolkitFolders } from '../../src/targets/cuda/node.ts'
import type { Device, Stream } from '../../src/targets/cuda/runtime.ts'

export interface Operands {
  readonly a: bigint
  readonly b: bigint
  readonly c: bigint
}

const P = 'void *'
const I = 'int32_t'
const U = 'uint64_t'
const BF16 = 14
const COMPUTE_F32 = 68
const WORKSPACE = 64 << 20
const one = new Float32Array([1, 0, 0, 0])
const zero = new Float32Array(4)

function open(names: readonly string[]) {
  const library = openLibrary(names, toolkitFolders())
  if (!library) throw new Error(`${names[0]} was not found: set CUDA_HOME to a toolkit that has it`)
  return library
}

const failed = (call: string, code: number): Error => new Error(`${call} failed: ${code}`)

/** cublasGemmEx with its own choice of algorithm. */
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

/** The fastest of cuBLASLt's proposals for this shape on this stream's multiprocessors, timed apart from any evaluation. */
export function cublasLt(device: Device, stream: Stream, M: number, N: number, K: number, x: Operands) {
  const library = open(['libcublasLt.so.13', 'libcublasLt.so.12', 'libcublasLt.so'])
  const calls = bindChecked(
    library,
    {
      cublasLtCreate: [P],
      cublasLtMatmulDescCreate: [P, I, I],
      cublasLtMatmulDescSetAttribute: [P, I, P, U],
      cublasLtMatrixLayoutCreate: [P, I, U, U, 'int64_t'],
      cublasLtMatmulPreferenceCreate: [P],
      cublasLtMatmulPreferenceSetAttribute: [P, I, P, U],
      cublasLtMatmulAlgoGetHeuristic: [P, P, P, P, P, P, P, I, P, P],
      cublasLtMatmul: [P, P, P, P, P, P, P, P, P, P, P, P, P, P, U, P],
    },
    failed,
  )
  device.makeCurrent(stream.context)
  const made = (make: (out: BigUint64Array) => void): bigint => {
    const out = new BigUint64Array(1)
    make(out)
    return out[0]
  }
  const handle = made((out) => calls.cublasLtCreate(out))
  const operation = made((out) => calls.cublasLtMatmulDescCreate(out, COMPUTE_F32, 0))
  if (stream.sms < device.sms)
    calls.cublasLtMatmulDescSetAttribute(operation, ATTRIBUTE_SM_COUNT_TARGET, Int32Array.of(stream.sms), 4)
  const layout = (rows: number, columns: number): bigint =>
    made((out) => calls.cublasLtMatrixLayoutCreate(out, BF16, rows, columns, rows))
  const [lb, la, lc] = [layout(N, K), layout(K, M), layout(N, M)]
  const preference = made((out) => calls.cublasLtMatmulPreferenceCreate(out))
  calls.cublasLtMatmulPreferenceSetAttribute(
    preference,
    PREFERENCE_WORKSPACE,
    BigUint64Array.of(BigInt(WORKSPACE)),
    8,
  )
  const workspace = device.allocate(WORKSPACE)
  const results = new Uint8Array(RESULT_BYTES * 16)
  const count = new Int32Array(1)
  device.makeCurrent(stream.context)
  calls.cublasLtMatmulAlgoGetHeuristic(handle, operation, lb, la, lc, lc, preference, 16, results, count)
  const proposals = Array.from({ length: count[0] }, (_, i) =>
    results.slice(RESULT_BYTES * i, RESULT_BYTES * i + ALGORITHM_BYTES),
  )
  const run = (algorithm: Uint8Array, { a, b, c }: Operands): void => {
    device.makeCurrent(stream.context)
    calls.cublasLtMatmul(
      ...[
        handle,
        operation,
        one,
        b,
        lb,
        a,
        la,
        zero,
        c,
        lc,
        c,
        lc,
        algorithm,
        workspace,
        WORKSPACE,
        stream.handle,
      ],
    )
  }
  const begin = stream.createEvent()
  const end = stream.createEvent()
  const times = proposals.map((algorithm) => {
    try {
      const all: number[] = []
      for (let i = 0; i < 6; i++) {
        begin.record()
        for (let j = 0; j < 4; j++) run(algorithm, x)
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
  return (operands: Operands): void => run(proposals[best], operands)
}
