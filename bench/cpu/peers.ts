/**
 * Measures single-threaded f32 matrix products of other libraries: C[M, N] = A[M, K] x B[K, N]. If a library is not
 * installed, the benchmark prints the reason. `npm ci --prefix bench/cpu` installs the npm packages. OpenBLAS is in
 * Debian's package libopenblas0-pthread.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'

export interface Product {
  /** Computes the matrix product of a library once. The function `result` returns the computed matrix. */
  run(): void | Promise<void>
  result(): Float32Array | Promise<Float32Array>
  close(): void
}

export interface Peer {
  readonly name: string
  prepare(m: number, n: number, k: number, a: Float32Array, b: Float32Array): Promise<Product>
}

export type PeerOrReason = Peer | { readonly name: string; readonly absent: string }

const require = createRequire(import.meta.url)

function installed(name: string): string | undefined {
  try {
    return require.resolve(name)
  } catch {
    return undefined
  }
}

const load = async (path: string): Promise<unknown> => import(pathToFileURL(path).href)
const howToInstall = 'not installed: npm ci --prefix bench/cpu'

export function openBlas(): PeerOrReason {
  const name = 'OpenBLAS'
  const library = [
    process.env.ARKE_OPENBLAS,
    '/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0',
    '/usr/lib/x86_64-linux-gnu/libopenblas.so.0',
    '/usr/lib/aarch64-linux-gnu/libopenblas.so.0',
  ].find((path) => path !== undefined && existsSync(path))
  if (!library)
    return { name, absent: 'no libopenblas.so.0: install libopenblas0-pthread, or set ARKE_OPENBLAS' }
  const koffi = require('koffi') as typeof import('koffi')
  const blas = koffi.load(library)
  const threads = blas.func('void openblas_set_num_threads(int)')
  const sgemm = blas.func(
    'void cblas_sgemm(int, int, int, int, int, int, float, void*, int, void*, int, float, void*, int)',
  )
  const sgemv = blas.func(
    'void cblas_sgemv(int, int, int, int, float, void*, int, void*, int, float, void*, int)',
  )
  const [rowMajor, plain, transposed] = [101, 111, 112]
  return {
    name,
    prepare(m, n, k, a, b) {
      const c = new Float32Array(m * n)
      threads(1)
      const run =
        m === 1
          ? (): void => void sgemv(rowMajor, transposed, k, n, 1, b, n, a, 1, 0, c, 1)
          : (): void => void sgemm(rowMajor, plain, plain, m, n, k, 1, a, k, b, n, 0, c, n)
      return Promise.resolve({ run, result: () => c, close: () => undefined })
    },
  }
}

interface TensorFlow {
  setBackend(name: string): Promise<boolean>
  ready(): Promise<void>
  tensor2d(data: Float32Array, shape: readonly number[]): TensorFlowTensor
  matMul(a: TensorFlowTensor, b: TensorFlowTensor): TensorFlowTensor
}
interface TensorFlowTensor {
  dataSync(): Float32Array
  dispose(): void
}
interface TensorFlowWasm {
  setWasmPaths(path: string): void
  setThreadsCount(count: number): void
}

export async function tensorFlow(): Promise<PeerOrReason> {
  const name = 'tfjs-wasm'
  const core = installed('@tensorflow/tfjs-core')
  const backend = installed('@tensorflow/tfjs-backend-wasm')
  if (!core || !backend) return { name, absent: howToInstall }
  const tf = require(core) as TensorFlow
  const wasm = require(backend) as TensorFlowWasm
  wasm.setWasmPaths(`${dirname(backend)}/`)
  wasm.setThreadsCount(1)
  if (!(await tf.setBackend('wasm'))) return { name, absent: 'its wasm backend does not start here' }
  await tf.ready()
  return {
    name,
    prepare(m, n, k, a, b) {
      const [left, right] = [tf.tensor2d(a, [m, k]), tf.tensor2d(b, [k, n])]
      let product: TensorFlowTensor | undefined
      return Promise.resolve({
        run() {
          product?.dispose()
          product = tf.matMul(left, right)
        },
        result: () => product!.dataSync(),
        close: () => [left, right, product].forEach((tensor) => tensor?.dispose()),
      })
    },
  }
}

interface Onnx {
  env: { wasm: { numThreads: number; wasmPaths?: string } }
  InferenceSession: { create(model: Uint8Array, options: object): Promise<OnnxSession> }
  Tensor: new (type: string, data: Float32Array, shape: readonly number[]) => object
}
interface OnnxSession {
  run(inputs: Record<string, object>): Promise<Record<string, { data: Float32Array }>>
  release(): Promise<void>
}

export async function onnx(): Promise<PeerOrReason> {
  const name = 'onnxruntime-web'
  if (!installed('onnxruntime-web')) return { name, absent: howToInstall }
  const ort = (await load(installed('onnxruntime-web/wasm') ?? installed('onnxruntime-web')!)) as Onnx
  ort.env.wasm.numThreads = 1
  return {
    name,
    async prepare(m, n, k, a, b) {
      const session = await ort.InferenceSession.create(matMulModel(m, n, k, b), {
        executionProviders: ['wasm'],
      })
      const input = new ort.Tensor('float32', a, [m, k])
      let output: Float32Array | undefined
      return {
        async run() {
          output = (await session.run({ a: input })).c.data
        },
        result: () => output!,
        close: () => void session.release(),
      }
    },
  }
}

/** An ONNX model with one MatMul, whose B is a weight that the runtime packs once. */
function matMulModel(m: number, n: number, k: number, b: Float32Array): Uint8Array {
  const varint = (value: number): number[] => {
    const bytes: number[] = []
    for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128)
    return [...bytes, value]
  }
  const number = (field: number, value: number): Uint8Array => Uint8Array.from([field << 3, ...varint(value)])
  const bytes = (field: number, content: Uint8Array): Uint8Array =>
    join(Uint8Array.from([(field << 3) | 2, ...varint(content.length)]), content)
  const text = (field: number, content: string): Uint8Array => bytes(field, new TextEncoder().encode(content))
  const shape = (extents: readonly number[]): Uint8Array =>
    join(...extents.map((extent) => bytes(1, number(1, extent))))
  const value = (field: number, name: string, extents: readonly number[]): Uint8Array =>
    bytes(field, join(text(1, name), bytes(2, bytes(1, join(number(1, 1), bytes(2, shape(extents)))))))
  const raw = new Uint8Array(b.buffer, b.byteOffset, b.byteLength)
  const weight = join(number(1, k), number(1, n), number(2, 1), text(8, 'b'), bytes(9, raw))
  const node = join(text(1, 'a'), text(1, 'b'), text(2, 'c'), text(3, 'product'), text(4, 'MatMul'))
  const graph = join(
    bytes(1, node),
    text(2, 'g'),
    bytes(5, weight),
    value(11, 'a', [m, k]),
    value(12, 'c', [m, n]),
  )
  return join(number(1, 8), bytes(7, graph), bytes(8, join(text(1, ''), number(2, 17))))
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}

interface Jax {
  init(device?: string): Promise<readonly string[]>
  defaultDevice(device: string): void
  numpy: {
    array(data: Float32Array): JaxArray
    matmul(a: JaxArray, b: JaxArray): JaxArray
  }
}
interface JaxArray {
  ref: JaxArray
  reshape(shape: readonly number[]): JaxArray
  data(): Promise<Float32Array>
  blockUntilReady(): Promise<JaxArray>
  dispose(): void
}

/**
 * Hides a global `Worker` that another library may have defined. If jax-js finds a global `Worker`, it assumes a
 * browser and starts threads.
 */
async function withoutWorkers<T>(act: () => Promise<T>): Promise<T> {
  const globals = globalThis as { Worker?: unknown }
  const { Worker } = globals
  globals.Worker = undefined
  try {
    return await act()
  } finally {
    globals.Worker = Worker
  }
}

export async function jax(): Promise<PeerOrReason> {
  const name = 'jax-js'
  const path = installed('@jax-js/jax')
  if (!path) return { name, absent: howToInstall }
  const library = (await load(path)) as Jax
  if (!(await withoutWorkers(() => library.init('wasm'))).includes('wasm'))
    return { name, absent: 'its wasm backend does not start here' }
  library.defaultDevice('wasm')
  const np = library.numpy
  return {
    name,
    prepare(m, n, k, a, b) {
      const [left, right] = [np.array(a).reshape([m, k]), np.array(b).reshape([k, n])]
      let product: JaxArray | undefined
      return Promise.resolve({
        async run() {
          product?.dispose()
          product = await withoutWorkers(() => np.matmul(left.ref, right.ref).blockUntilReady())
        },
        result: () => product!.ref.data(),
        close: () => [left, right, product].forEach((array) => array?.dispose()),
      })
    },
  }
}

export async function allPeers(): Promise<PeerOrReason[]> {
  const attempt = async (
    name: string,
    open: () => PeerOrReason | Promise<PeerOrReason>,
  ): Promise<PeerOrReason> => {
    try {
      return await open()
    } catch (error) {
      return { name, absent: error instanceof Error ? error.message : String(error) }
    }
  }
  return [
    await attempt('OpenBLAS', openBlas),
    await attempt('tfjs-wasm', tensorFlow),
    await attempt('onnxruntime-web', onnx),
    await attempt('jax-js', jax),
  ]
}
