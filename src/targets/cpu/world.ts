/** Defines a world of CPU ranks. Functions that are common to all worlds are in src/world/heapWorld.ts. */
import { dtypes, type StorageDType } from '../../ir/dtype.ts'
import { elements } from '../../ir/type.ts'
import { HeapWorld } from '../../world/heapWorld.ts'
import { WorldError, type PackedTensor, type SymmetricTensor } from '../../world/world.ts'
import { CpuBackend, type CpuMark, type CpuPart } from './backend.ts'
import type { CpuPlatform, HostOptions } from './host.ts'
import { packedLayout, packTensor } from './lower/panels.ts'
import { isPackable, packable, type PackableArray } from './packing.ts'

export type CpuWorldOptions = HostOptions

export class CpuWorld extends HeapWorld<CpuPart, CpuMark, CpuBackend> {
  constructor(platform: CpuPlatform, options: CpuWorldOptions) {
    super(new CpuBackend(platform, options), options)
  }

  /**
   * The number of leaders (threads that run programs) per rank, which is the number of programs that run concurrently
   * on each rank.
   */
  get workers(): number {
    return this.backend.workers
  }

  /** Packs a weight tensor into panels, in the order in which matrix products read them (lower/panels.ts). */
  override async pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>> {
    this.expectHandle(tensor)
    const { dtype, shape, name } = tensor
    if (shape.length !== 2 || !isPackable(dtype))
      throw new WorldError(
        `${name} is ${dtype}[${shape.join(', ')}]: only the right operand of a matrix product can be packed, which has two axes and a dtype of f32, f16, bf16, f8 or i8`,
      )
    await this.synchronize()
    const [rows, columns] = shape
    const { memory, platform } = this.backend
    const { machine } = platform.engine
    const { bytes } = packedLayout(machine, dtype, rows, columns)
    const source = this.empty(dtype, [bytes / dtypes[dtype].bytes], { name: `${name}, packed` })
    const Elements: PackableArray = packable[dtype]
    const of = (handle: SymmetricTensor, rank: number): InstanceType<PackableArray> =>
      new Elements(memory.buffer, memory.address(rank, this.stored(handle).offset), elements(handle.shape))
    for (const rank of this.localRanks)
      of(source, rank).set(packTensor(of(tensor, rank), dtype, rows, columns, machine))
    return { kind: 'packed', name, dtype, shape, source }
  }

  async compile(launches: () => void): Promise<void> {
    this.backend.expectRunning()
    for (const { ir, wanted } of this.wantedFor(launches)) await this.backend.compile(ir, wanted)
  }
}
