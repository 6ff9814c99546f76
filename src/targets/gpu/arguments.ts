/**
 * Computes the kernel arguments of a launch from the parameters of the kernel: addresses on the heaps, extents and
 * scalars. The vendor's platform encodes the arguments in the format of its driver. Contract: a tensor has the same
 * offset on every rank's heap.
 */
import type { Stored } from '../../world/backend.ts'
import { bytes, f32, i32, u32, u64, type Device, type KernelArgument } from './device.ts'
import type { Param, Platform } from './platform.ts'

type LaunchArgument = Stored | number
export type LaunchArguments = Readonly<Record<string, LaunchArgument>>

/** The memory and the identity of one rank, as its kernels receive them. */
export interface RankMemory {
  readonly device: Device
  /** The rank in the group of the launch, and the size of the group. */
  readonly rank: number
  readonly ranks: number
  /** The address of the first heap, the distance in bytes between consecutive heaps, and the number of heaps. */
  readonly heap: bigint
  readonly stride: number
  readonly heaps: number
  /**
   * For each rank of the group, the index of its heap in the range of heaps. The index of a rank's heap equals the rank
   * if the ranks of the group are at a constant distance in the world.
   */
  readonly places: readonly number[]
  /** The address of the counters of the launched kernel on the rank. */
  readonly counters: bigint
  readonly control: bigint
  /** The address of the queue's event log; undefined if the world does not record. */
  readonly log?: bigint
}

export function kernelArgument(
  param: Param,
  args: LaunchArguments,
  memory: RankMemory,
  platform: Platform,
): KernelArgument {
  const own = memory.heap + BigInt(memory.places[memory.rank]) * BigInt(memory.stride)
  switch (param.kind) {
    case 'pointer':
      return u64(own + BigInt(expectKind(args[param.tensor], 'tensor', param.tensor).offset))
    case 'dim':
      return i32((args[param.of] as Stored).shape[param.axis])
    case 'opaque':
      return bytes(platform.encode(param, expectKind(args[param.tensor], 'tensor', param.tensor), memory))
    case 'flags':
      return u64(own + BigInt(expectKind(args[param.flags], 'flags', param.flags).offset))
    case 'epochs':
      return u64(own + BigInt(expectKind(args[param.flags], 'flags', param.flags).epochsOffset))
    case 'scalar': {
      const value = args[param.name] as number
      if (param.dtype === 'f32') return f32(value)
      if (param.dtype === 'i64') return u64(BigInt.asUintN(64, BigInt(value)))
      return param.dtype === 'u32' ? u32(value) : i32(value)
    }
    case 'rank':
      return i32(memory.rank)
    case 'heapStride':
      return u64(BigInt(memory.stride))
    case 'places':
      return bytes(new Uint8Array(Int32Array.from(memory.places).buffer))
    case 'counters':
      return u64(memory.counters)
    case 'settled':
      return u32(0)
    case 'control':
      return u64(memory.control)
    case 'log':
      return u64(memory.log ?? 0n)
    default:
      return param satisfies never
  }
}

function expectKind<K extends 'tensor' | 'flags'>(
  argument: LaunchArgument | undefined,
  kind: K,
  name: string,
): Extract<LaunchArgument, { kind: K }> {
  if (typeof argument !== 'object' || argument.kind !== kind)
    throw new TypeError(`the launch has no ${kind} argument for parameter ${name}`)
  return argument as Extract<LaunchArgument, { kind: K }>
}
