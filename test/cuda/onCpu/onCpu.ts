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
}

/** Replaces functions that contain PTX by C++. Functions that the header defines are removed. */
function translated(source: string): string {
  return source.replace(definition, (text: string, result: string, name: string, params: string) => {
    if (!text.includes('asm')) return text
    const operation = operations[name.split('_')[0]]
    if (operation && /_(?:relaxed|acquire|release|acq_rel)_/.test(name))
      return `inline ${result}${name}(${params}) { const auto old = *at; *at = ${operation}; return old; }`
    if (name === 'abort_raised')
      return `inline bool abort_raised(const Control* control) { return control->abort != 0; }`
    if (name === 'tell_wait') return 'inline void tell_wait(Control*, u32, u32, u32, u32) {}'
    return ''
  })
}

/** A C++ function that calls the kernel with its parameters, which are stored in 8 bytes each. */
function callOf({ name, source, params }: EmittedKernel): string {
  const signature = source.slice(source.indexOf(` ${name}(\n`) + name.length + 3)
  const types = signature
    .slice(0, signature.indexOf(') {'))
    .split(',\n')
    .map((line) => line.trim().replace(/\s*\b\w+$/, ''))
  if (types.length !== params.length)
    throw new Error(`${name}: ${types.length} parameters were found, but ${params.length} were expected`)
  const values = types.map((type, n) => `*(const std::remove_const_t<${type}>*)(params + ${n})`)
  return `void on_cpu_kernel(const u64* params) { ${name}(${values.join(', ')}); }`
}

/**
 * Compiles a kernel together with the header. Throws NotOnCpu if it calls a function that the header does not define.
 */
function compiled(emitted: EmittedKernel): { readonly kernel: FakeKernel; close: () => void } {
  const text = emitted.source.slice(emitted.source.indexOf('extern "C"'))
  const missing = /\b(?:tma_\w+|w?g?mma_\w+|load_matrix\w*|registers_\w+|group_arrive)\(/.exec(text)
  if (missing) throw new NotOnCpu(missing[0])
  const folder = mkdtempSync(join(tmpdir(), 'arke-on-cpu-'))
  const [file, library] = [join(folder, 'kernel.cpp'), join(folder, 'kernel.so')]
  const shared = text.replace('extern __shared__ u8 shared_memory[];', 'u8* const shared_memory = nullptr;')
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
  const run = (launch: FakeLaunch): boolean => {
    if (!underWay.has(launch)) {
      const params = BigUint64Array.from({ length: count }, (_, n) => launch.pointer(n))
      underWay.set(launch, start(launch.grid, emitted.block, emitted.sharedBytes, params, count))
    }
    if (step(underWay.get(launch)) === 0) return false
    underWay.delete(launch)
    return true
  }
  return { kernel: { params: count, run }, close: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Opens a world whose kernels are compiled for this CPU. */
export function openOnCpu(ranks: number, options: { readonly onPrint?: OnPrint } = {}): CudaWorld {
  const kernels: Record<string, FakeKernel> = {}
  const { driver } = fakeDriver({ sms: 8 * ranks, programsPerSm: 1, kernels })
  const compile = (emitted: EmittedKernel): Uint8Array => {
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
