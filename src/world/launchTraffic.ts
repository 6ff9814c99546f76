/**
 * Computes the memory traffic of recorded launches: the bytes written to each rank's copy of a tensor, and the bytes
 * that the rank itself reads back. The byte counts come from the analysis of the kernel's traffic (src/ir/traffic.ts).
 * The byte counts are computed on demand and cached, so a world that records events only stores the arguments of each
 * launch.
 */
import { dtypes } from '../ir/dtype.ts'
import type { KernelIR } from '../ir/node.ts'
import { trafficOfCopies } from '../ir/traffic.ts'
import { elements } from '../ir/type.ts'
import type { TensorBytes } from '../timeline/timeline.ts'
import { argumentOf, type Handle } from './arguments.ts'
import { inGroup, type Members } from './members.ts'
import type { Launch, SymmetricTensor } from './world.ts'

/**
 * A launch on some ranks of a group, with the number of programs and the arguments per rank of the group. Ranks that do
 * not take part in the launch have no entry.
 */
export interface Given {
  readonly ir: KernelIR
  readonly members: Members
  readonly programs: ReadonlyMap<number, number>
  readonly args: ReadonlyMap<number, Readonly<Record<string, Handle | number>>>
}

export function givenTo(
  ir: KernelIR,
  args: Launch['args'],
  ranks: readonly number[],
  grids: readonly number[],
  members?: Members,
): Given {
  const of = (rank: number): Record<string, Handle | number> =>
    Object.fromEntries(
      Object.entries(args).map(([name, given]) => [name, argumentOf(given, rank) as Handle | number]),
    )
  return {
    ...{ ir, members },
    programs: new Map(ranks.map((rank, at) => [rank, grids[at]])),
    args: new Map(ranks.map((rank) => [rank, of(rank)])),
  }
}

/**
 * The maximum number of loop iterations that are enumerated per memory access. Enumerating the maximum number of
 * iterations takes about a second; the tiles of large tensors need thousands of iterations.
 */
const limit = 2 ** 20

type Copies = ReturnType<typeof trafficOfCopies>

export class LaunchTraffic {
  /**
   * The cached traffic of a kernel. The key of the cache is the rank with its number of programs, extents and scalars,
   * as JSON text.
   */
  readonly #copies = new Map<KernelIR, Map<string, Copies>>()
  readonly #known = new WeakMap<Given, Map<number, readonly TensorBytes[]>>()
  readonly #numbers = new Map<SymmetricTensor, number>()

  /**
   * The bytes that a launch, on all its ranks together, writes to and reads from the copies of one rank of the world.
   */
  of(given: Given, rank: number): readonly TensorBytes[] {
    let known = this.#known.get(given)
    if (!known) this.#known.set(given, (known = new Map()))
    let traffic = known.get(rank)
    if (!traffic) known.set(rank, (traffic = this.#traffic(given, inGroup(given.members, rank))))
    return traffic
  }

  #traffic(given: Given, rank: number): readonly TensorBytes[] {
    const sums = new Map<SymmetricTensor, { written: number; read: number }>()
    for (const [by, args] of given.args)
      for (const [name, copies] of this.#copiesOf(given, by)) {
        const tensor = tensorOf(args[name] as Handle)
        const sum = sums.get(tensor) ?? { written: 0, read: 0 }
        sums.set(tensor, sum)
        sum.written += copies[rank].written
        if (by === rank) sum.read += copies[rank].readLocal
      }
    return [...sums]
      .filter(([, { written, read }]) => written + read > 0)
      .map(([tensor, bytes]) => ({
        tensor: this.#number(tensor),
        name: tensor.name,
        size: elements(tensor.shape) * dtypes[tensor.dtype].bytes,
        ...bytes,
      }))
  }

  /** The bytes that the programs of one rank write to and read from the copies of all ranks. */
  #copiesOf({ ir, programs, args }: Given, by: number): Copies {
    const given = Object.entries(args.get(by)!)
    const extents = Object.fromEntries(
      given.flatMap(([name, value]) => (typeof value === 'number' ? [] : [[name, value.shape]])),
    )
    const scalars = Object.fromEntries(
      given.flatMap(([name, value]) => (typeof value === 'number' ? [[name, value]] : [])),
    )
    let known = this.#copies.get(ir)
    if (!known) this.#copies.set(ir, (known = new Map()))
    const key = JSON.stringify([by, programs.get(by), extents, scalars])
    let copies = known.get(key)
    if (!copies) {
      const ofRank = (rank: number): number => (rank === by ? programs.get(by)! : 0)
      known.set(key, (copies = trafficOfCopies(ir, { extents, scalars, programs: ofRank }, limit)))
    }
    return copies
  }

  #number(tensor: SymmetricTensor): number {
    let number = this.#numbers.get(tensor)
    if (number === undefined) this.#numbers.set(tensor, (number = this.#numbers.size))
    return number
  }
}

const tensorOf = (handle: Handle): SymmetricTensor =>
  handle.kind === 'packed' ? handle.source : (handle as SymmetricTensor)
