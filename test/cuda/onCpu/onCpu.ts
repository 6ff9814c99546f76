/**
 * Worlds of the CUDA target whose kernels run on this CPU. A C++ compiler compiles the emitted CUDA C++, with cuda.hpp
 * replacing the functions that contain PTX, and the fake driver runs it. Kernels that use the TMA or the tensor cores
 * are not supported.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import type { EmittedKernel } from '../../../src/targets/cuda/emit/recipe.ts'
import { Device } from '../../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../../src/targets/cuda/world.ts'
import type { OnPrint } from '../../../src/world/prints.ts'
import { fakeDriver, type FakeKernel, type FakeLaunch } from '../fakeDriver.ts'

const compiler = process.env.ARKE_CXX ?? 'g++'
const header = fileURLToPath(new URL('./cuda.hpp', import.meta.url))

/** The reason why kernels cannot run on this machine, or undefined. */
export const unavailable = (): string | undefined =>
  spawnSync(compiler, ['--version']).status === 0 ? undefined : `the compiler ${compiler} was not found`

/** Thrown for a kernel that uses a GPU feature which this emulation does not support. */
export class NotOnCpu extends Error {}

const definition =
  /^(?:template <[^\n]*>\s*)?__device__ __forceinline__ ([\w ]+[ *&]+)(\w+)\(([^\n]*?)\) \{(?:[^\n]*\}$|[\s\S]*?^\})/gm

const operations: Readonly<Record<string, string>> = {
  ...{ add: 'old + v', and: 'old & v', or: 'old | v', xor: 'old ^ v', exchange: 'v', xchg: 'v' },
  ...{ min: 'v < old ? v : old', max: 'v > old ? v : old' },
  ...{ store: 'v', cas: 'old == expected ? desired : old', load: 'old' },
}

/** Replaces functions that contain PTX by C++. Removes functions that the header cuda.hpp defines. */
function translated(source: string): string {
  return source.replace(definition, (text: string, result: string, name: string, params: string) => {
    if (!text.includes('asm')) return text
    const operation = operations[name.split('_')[0]]
    if (operation && /_(?:relaxed|acquire|release|acq_rel)_/.test(name)) {
      const type = /\b(\w+)\* at/.exec(params)?.[1] ?? result.trim()
      const isShared = params.includes('u32 at')
      const old = isShared ? `shared_load<${type}>(at)` : '*at'
      const put = isShared ? 'shared_store(at, (decltype(old))(next));' : '*at = next;'
      const value = result.trim() === 'void' ? '' : 'return old;'
      // A load may be part of a polling loop, so it lets other fibers run first.
      const body = name.startsWith('load')
        ? `on_cpu::yield(); return ${old};`
        : `const auto old = ${old}; const auto next = ${operation}; ${put} ${value}`
      return `inline ${result}${name}(${params}) { ${body} }`
    }
    if (name === 'abort_raised')
      return `inline bool abort_raised(const Control* control) { return control->abort != 0; }`
    if (name === 'tell_wait') return 'inline void tell_wait(Control*, u32, u32, u32, u32) {}'
    return ''
  })
}

/** The size of each parameter in bytes, a multiple of 8. */
const sizesOf = ({ params }: EmittedKernel): number[] =>
  params.map((param) => (param.kind === 'places' ? 8 * Math.ceil(param.ranks / 2) : 8))

/** A C++ function that calls the kernel with its parameters, which are stored one after another. */
function callOf(emitted: EmittedKernel): string {
  const { name, source, params } = emitted
  const sizes = sizesOf(emitted)
  const wordOf = (n: number): number => sizes.slice(0, n).reduce((sum, size) => sum + size / 8, 0)
  const signature = source.slice(source.indexOf(` ${name}(\n`) + name.length + 3)
  const types = signature
    .slice(0, signature.indexOf(') {'))
    .split(',\n')
    .map((line) => line.trim().replace(/\s*\b\w+$/, ''))
  if (types.length !== params.length)
    throw new Error(`${name}: ${types.length} parameters were found, but ${params.length} were expected`)
  const values = types.map((type, n) => `*(const std::remove_const_t<${type}>*)(params + ${wordOf(n)})`)
  return `void on_cpu_kernel(const u64* params) { ${name}(${values.join(', ')}); }`
}

/**
 * Compiles a kernel together with the header. Throws NotOnCpu if the kernel calls a function that the header does not
 * define.
 */
function compiled(emitted: EmittedKernel): { readonly kernel: FakeKernel; close: () => void } {
  const text = emitted.source.slice(emitted.source.indexOf('extern "C"'))
  const missing = /\b(?:tma_\w+|w?g?mma_\w+|load_matrix\w*|registers_\w+|group_arrive)\(/.exec(text)
  if (missing) throw new NotOnCpu(missing[0])
  const folder = mkdtempSync(join(tmpdir(), 'arke-on-cpu-'))
  const [file, library] = [join(folder, 'kernel.cpp'), join(folder, 'kernel.so')]
  const shared = text
    .replace('extern __shared__ u8 shared_memory[];', 'u8* const shared_memory = nullptr;')
    // The fibers that execute GPU threads take turns, so their accesses are sequentially consistent.
    .replaceAll(/asm volatile\("fence\.\w+\.\w+;" ::: "memory"\);/g, '')
  const before = emitted.source.slice(0, emitted.source.indexOf('extern "C"'))
  writeFileSync(
    file,
    [`#include "${header}"`, '#include <type_traits>', translated(before), shared, callOf(emitted)].join(
      '\n',
    ),
  )
  const flags = ['-std=c++17', '-O1', '-w', '-shared', '-fPIC', '-ffp-contract=off']
  const { status, stderr } = spawnSync(compiler, [...flags, '-o', library, file], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${emitted.name} does not compile as C++: ${stderr.slice(0, 2000)}`)
  const lib = koffi.load(library)
  const start = lib.func('void* on_cpu_start(uint32_t, uint32_t, uint32_t, const uint64_t*, uint32_t)')
  const step = lib.func('uint32_t on_cpu_step(void*)')
  const underWay = new Map<FakeLaunch, unknown>()
  const count = emitted.params.length
  const sizes = sizesOf(emitted)
  const run = (launch: FakeLaunch): boolean => {
    if (!underWay.has(launch)) {
      const bytes = sizes.flatMap((_, n) => [...launch.bytes(n)])
      const params = new BigUint64Array(Uint8Array.from(bytes).buffer)
      underWay.set(launch, start(launch.grid, emitted.block, emitted.sharedBytes, params, params.length))
    }
    if (step(underWay.get(launch)) === 0) return false
    underWay.delete(launch)
    return true
  }
  return {
    kernel: { params: count, sizes, run },
    close: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export interface OnCpuOptions {
  readonly onPrint?: OnPrint
  /** The shared memory of a program, in bytes; by default that of a Hopper GPU. */
  readonly sharedBytes?: number
  /** Called with each kernel before it is compiled. */
  readonly onEmitted?: (emitted: EmittedKernel) => void
}

/** Opens a world whose kernels are compiled for this CPU. */
export function openOnCpu(
  ranks: number,
  { sharedBytes, onEmitted, ...options }: OnCpuOptions = {},
): CudaWorld {
  const kernels: Record<string, FakeKernel> = {}
  const attributes: Record<number, number> = sharedBytes === undefined ? {} : { 97: sharedBytes }
  const { driver } = fakeDriver({ sms: 8 * ranks, programsPerSm: 1, kernels, attributes })
  const compile = (emitted: EmittedKernel): Uint8Array => {
    onEmitted?.(emitted)
    const { kernel, close } = compiled(emitted)
    kernels[emitted.name] = kernel
    close()
    return new Uint8Array()
  }
  return new CudaWorld(
    { devices: [new Device(driver, 0)], compile },
    { ranks, heap: 1 << 22, timeout: 20_000, ...options },
  )
}
