/**
 * Lowers, renders and runs kernels in this thread, one rank after the other. The harness supports only kernels whose
 * ranks do not wait for each other. The harness implements the functions of `World` that such kernels need, so that one
 * host program runs here and on the checker.
 */
import { dtypes, type StorageDType } from '../../../src/ir/dtype.ts'
import type { Kernel, Meta, Params } from '../../../src/lang/kernel.ts'
import { readElements, writeElements } from '../../../src/world/elements.ts'
import {
  control,
  launch as launchBlock,
  param as paramBlock,
  slot as slotBlock,
  type Entry,
} from '../../../src/targets/cpu/abi.ts'
import type { CodeModule, Machine } from '../../../src/targets/cpu/code.ts'
import type { Lowered } from '../../../src/targets/cpu/executable.ts'
import { lowerKernel } from '../../../src/targets/cpu/lower/lower.ts'
import { loadNative, nativeEngine } from '../../../src/targets/native/node.ts'
import { loadWasm, wasmEngine } from '../../../src/targets/wasm/engine.ts'
import { openWorld } from '../../../src/world/open.ts'
import type { World } from '../../../src/world/world.ts'

/** Compiles Code (the intermediate language of the CPU targets) to callable entry points. */
export interface Platform {
  readonly name: string
  readonly machine: Machine
  load(module: CodeModule, memory: WebAssembly.Memory): Entry[]
}

export function wasmPlatform(): Platform {
  const engine = wasmEngine()
  return {
    name: 'wasm',
    machine: engine.machine,
    load: (module, memory) => loadWasm(engine.compile(module), memory, () => performance.now() * 1e6),
  }
}

/** The targets to test: wasm always, and native if there is a compiler. If there is no compiler, the reason is printed. */
export function platforms(): Platform[] {
  const native = nativeEngine()
  if ('unavailable' in native) {
    console.warn(`skipped on native: ${native.unavailable}`)
    return [wasmPlatform()]
  }
  const load: Platform['load'] = (module, memory) => loadNative(native.compile(module), memory)
  return [wasmPlatform(), { name: 'native', machine: native.machine, load }]
}

export interface Tensor {
  readonly kind: 'tensor' | 'flags'
  readonly dtype: StorageDType
  readonly shape: readonly number[]
  /** The address of rank 0's copy of a tensor. */
  readonly address: number
  readonly epochs: number
  readonly arrivals: number
}
type PerRank<T> = T | ((rank: number) => T)
type Argument = PerRank<Tensor | number>

const page = 65536
const privateStart = 512 * 1024
const heapsStart = 24 * page * 16
const heapBytes = 64 * page

/** The value that fills memory which a kernel must not touch. */
const poison = 0x7b

export class Harness {
  readonly ranks: number
  readonly memory: WebAssembly.Memory
  readonly bytes: Uint8Array
  readonly words: Int32Array
  readonly #platform: Platform
  readonly #loaded = new Map<
    string,
    { readonly lowered: Lowered; readonly entries: Entry[]; readonly counters: number }
  >()
  readonly #tensors: Tensor[] = []
  #heap = heapsStart
  #private = privateStart
  /** The value that entry point 0 of the kernel returned on each rank in the last launch. */
  returned: number[] = []
  record = false

  constructor(platform: Platform, ranks: number) {
    this.#platform = platform
    this.ranks = ranks
    const pages = (heapsStart + ranks * heapBytes) / page
    this.memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
    this.bytes = new Uint8Array(this.memory.buffer)
    this.words = new Int32Array(this.memory.buffer)
    this.bytes.fill(poison, heapsStart)
    this.words[control.spins >> 2] = 100
  }

  /** The address of the worker's slot. Every rank has its own worker slot. */
  slotOf(rank: number): number {
    return control.bytes + rank * slotBlock.bytes
  }

  #take(bytes: number): number {
    const at = this.#private
    this.#private = Math.ceil((at + bytes) / 64) * 64
    if (this.#private > heapsStart) throw new Error('the harness has no room left')
    return at
  }
  #allocate(kind: Tensor['kind'], dtype: StorageDType, shape: readonly number[], arrivals = 1): Tensor {
    const count = shape.reduce((a, b) => a * b, 1)
    // A gap after every tensor reveals out-of-bounds writes.
    const address = this.#heap
    this.#heap = Math.ceil((address + count * dtypes[dtype].bytes + 64) / 64) * 64
    const epochs = this.#heap
    if (kind === 'flags') this.#heap += 64
    if (this.#heap > heapsStart + heapBytes) throw new Error('the heap is full')
    const tensor: Tensor = { kind, dtype, shape, address, epochs, arrivals }
    this.#tensors.push(tensor)
    for (let rank = 0; rank < this.ranks; rank++) {
      if (kind !== 'flags') continue
      const base = address + rank * heapBytes
      this.bytes.fill(0, base, base + count * 4)
      this.bytes.fill(0, epochs + rank * heapBytes, epochs + rank * heapBytes + 8)
    }
    return tensor
  }

  empty(dtype: StorageDType, shape: readonly number[]): Tensor {
    return this.#allocate('tensor', dtype, shape)
  }
  from(dtype: StorageDType, shape: readonly number[], contents: PerRank<ArrayLike<number>>): Tensor {
    const tensor = this.empty(dtype, shape)
    for (let rank = 0; rank < this.ranks; rank++)
      this.write(tensor, rank, typeof contents === 'function' ? contents(rank) : contents)
    return tensor
  }
  full(dtype: StorageDType, shape: readonly number[], value: number): Tensor {
    return this.from(dtype, shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(value))
  }
  zeros(dtype: StorageDType, shape: readonly number[]): Tensor {
    return this.full(dtype, shape, 0)
  }
  flags(shape: readonly number[] = [], options: { readonly arrivals?: number } = {}): Tensor {
    return this.#allocate('flags', 'u32', shape, options.arrivals)
  }
  write(tensor: Tensor, rank: number, contents: ArrayLike<number>): void {
    writeElements(this.memory.buffer, tensor.address + rank * heapBytes, tensor.dtype, contents)
  }
  read(tensor: Tensor, rank: number): Float64Array {
    const count = tensor.shape.reduce((a, b) => a * b, 1)
    return readElements(this.memory.buffer, tensor.address + rank * heapBytes, tensor.dtype, count)
  }

  lower<P extends Params, M extends Meta>(kernel: Kernel<P, M>, meta: Partial<M> = {}): Lowered {
    return lowerKernel(kernel.record({ world: this.ranks, meta: meta as Meta }), {
      machine: this.#platform.machine,
      record: this.record,
    })
  }

  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: Readonly<Record<string, Argument>>,
    options: {
      readonly grid: PerRank<number>
      readonly meta?: Partial<M>
      readonly ranks?: readonly number[]
    },
  ): void {
    const key = `${kernel.name} ${JSON.stringify(options.meta ?? {})} ${this.record}`
    let loaded = this.#loaded.get(key)
    if (!loaded) {
      const lowered = this.lower(kernel, options.meta)
      const entries = this.#platform.load(lowered.module, this.memory)
      const counters = this.#take(Math.max(lowered.counterWords, 1) * 4 * this.ranks)
      this.#loaded.set(key, (loaded = { lowered, entries, counters }))
    }
    const { lowered, entries, counters } = loaded
    if (lowered.roles > 1) throw new Error('the harness runs no roles')
    this.returned = []
    const mark = this.#private
    const block = this.#take(launchBlock.bytes)
    const frame = this.#take(lowered.frameBytes)
    // The memory of a program (its frame) contains leftovers of the previous program.
    this.bytes.fill(poison, frame, frame + lowered.frameBytes)
    for (const rank of options.ranks ?? Array.from({ length: this.ranks }, (_, i) => i)) {
      const word = (offset: number, value: number): void => void (this.words[(block + offset) >> 2] = value)
      this.bytes.fill(0, block, block + launchBlock.bytes)
      word(launchBlock.grid, typeof options.grid === 'function' ? options.grid(rank) : options.grid)
      word(launchBlock.leaders, 1)
      word(launchBlock.rank, rank)
      word(launchBlock.ranks, this.ranks)
      word(launchBlock.heapStride, heapBytes / page)
      word(launchBlock.counters, counters + rank * 4 * lowered.counterWords)
      word(launchBlock.frames, frame)
      word(launchBlock.frameStride, lowered.frameBytes)
      word(launchBlock.sequence, 1)
      lowered.params.forEach((name, i) => {
        const given = args[name]
        const value = typeof given === 'function' ? given(rank) : given
        const at = block + launchBlock.params + i * paramBlock.bytes
        if (typeof value === 'number') {
          const kind = kernel.params[name]
          writeElements(
            this.memory.buffer,
            at,
            kind.kind === 'scalar' ? (kind.dtype as StorageDType) : 'i32',
            [value],
          )
          return
        }
        this.words[(at + paramBlock.pointer) >> 2] = value.address
        value.shape.forEach((extent, axis) => (this.words[((at + paramBlock.extents) >> 2) + axis] = extent))
        if (value.kind === 'flags') this.words[(at + paramBlock.epochs) >> 2] = value.epochs
      })
      this.returned.push(entries[0](block, frame, this.slotOf(rank)))
    }
    this.#private = mark
    this.expectUntouched()
  }

  /** Checks that no kernel has written between tensors. */
  expectUntouched(): void {
    for (let rank = 0; rank < this.ranks; rank++)
      for (const tensor of this.#tensors) {
        const end =
          tensor.address +
          rank * heapBytes +
          tensor.shape.reduce((a, b) => a * b, 1) * dtypes[tensor.dtype].bytes
        const gap = this.bytes.subarray(end, Math.ceil((end + 64) / 64) * 64 - (end % 64 === 0 ? 0 : 64))
        if (gap.some((byte) => byte !== poison))
          throw new Error(`bytes behind a tensor of ${tensor.shape.join('x')} were written`)
      }
  }
}

/**
 * Runs a host program on the checker and on a platform, and returns the contents that it reads. Ranks run one at a
 * time.
 */
export async function onBoth(
  platform: Platform,
  ranks: number,
  run: (world: World) => Promise<readonly Float64Array[]>,
): Promise<{ readonly expected: readonly Float64Array[]; readonly actual: readonly Float64Array[] }> {
  const checker = await openWorld({ target: 'check', ranks })
  const expected = await run(checker)
  await checker.close()
  // The harness implements only the functions of a world that these programs use.
  const actual = await run(new Harness(platform, ranks) as unknown as World)
  return { expected, actual }
}
