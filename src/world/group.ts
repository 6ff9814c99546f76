/**
 * A rank group is a world that consists of some ranks of another world. On a group, ranks in calls, in arguments and in
 * kernels are positions in the list of members. Memory belongs to the whole world: an allocation exists on every rank
 * of the world, at the same offset, and its tensors can be passed to launches on any group. An allocation on a group
 * initialises only the members' copies. A launch on a group runs on its members only. On a group, `synchronize`,
 * `reset` and `timeline` apply to the whole world, and `close` does nothing.
 */
import type { StorageDType } from '../ir/dtype.ts'
import type { Kernel, Meta, Params } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import './disposal.ts'
import type { Machine } from './machine.ts'
import { expectList, expectPlace } from './members.ts'
import type {
  Allocator,
  Launch,
  LaunchArguments,
  LaunchOptions,
  PackedTensor,
  PrepareOptions,
  Stream,
  SymmetricFlags,
  SymmetricTensor,
  World,
} from './world.ts'

/** The functions of the world that only its groups use. */
export interface GroupHost {
  readonly world: World
  /**
   * Allocates on behalf of several ranks of the world, and fills the copies of those ranks that are members of the
   * group.
   */
  allocator(group: World, ranks?: readonly number[]): Allocator
  /** Creates a stream whose events measure time on the members of the group. */
  stream(members: readonly number[]): Stream
  /** The world's default stream, with events that measure time on the members of the group. */
  defaultStream(members: readonly number[]): Stream
}

export class GroupWorld implements World {
  readonly members: readonly number[]
  readonly ranks: number
  readonly localRanks: readonly number[]
  readonly machine: Machine
  readonly defaultStream: Stream
  declare readonly empty: Allocator['empty']
  declare readonly full: Allocator['full']
  declare readonly zeros: Allocator['zeros']
  declare readonly arange: Allocator['arange']
  declare readonly rand: Allocator['rand']
  declare readonly randn: Allocator['randn']
  declare readonly from: Allocator['from']
  declare readonly flags: Allocator['flags']
  readonly #host: GroupHost
  readonly #world: World

  constructor(host: GroupHost, members: readonly number[]) {
    const { world } = host
    this.#host = host
    this.#world = world
    this.members = members
    this.ranks = members.length
    this.localRanks = members.flatMap((rank, at) => (world.localRanks.includes(rank) ? [at] : []))
    this.machine = machineOf(world.machine, members)
    this.defaultStream = host.defaultStream(members)
    Object.assign(this, host.allocator(this))
  }

  get target(): string {
    return this.#world.target
  }
  get clockTick(): number {
    return this.#world.clockTick
  }
  get recordedUnlike(): readonly string[] {
    return this.#world.recordedUnlike
  }
  get compile(): World['compile'] {
    const { compile } = this.#world
    return compile && ((launches) => compile.call(this.#world, launches))
  }

  #member(rank: number): number {
    expectPlace(this.members, rank)
    return this.members[rank]
  }

  group(members: readonly number[]): World {
    expectList(members)
    return this.#world.group(members.map((rank) => this.#member(rank)))
  }

  on(rank: number): Allocator {
    return this.#host.allocator(this, [this.#member(rank)])
  }

  free(allocation: SymmetricTensor | SymmetricFlags | PackedTensor): void {
    this.#world.free(allocation)
  }

  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.#world.launch(kernel, args, { ...options, group: options.group ?? this })
  }

  launchTogether(launches: readonly Launch[]): void {
    this.#world.launchTogether(
      launches.map((one) => ({ ...one, options: { ...one.options, group: one.options.group ?? this } })),
    )
  }

  prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options: PrepareOptions<P, M> = {},
  ): Promise<void> {
    return this.#world.prepare(kernel, { ...options, group: options.group ?? this })
  }

  stream(): Stream {
    return this.#host.stream(this.members)
  }

  synchronize(): Promise<void> {
    return this.#world.synchronize()
  }

  barrier(): Promise<void> {
    return this.#world.barrier()
  }

  read(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    return this.#world.read(tensor, this.#member(rank))
  }

  peek(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    return this.#world.peek(tensor, this.#member(rank))
  }

  signal(flags: SymmetricFlags, rank: number, at?: readonly number[]): void {
    this.#world.signal(flags, this.#member(rank), at)
  }

  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.#world.write(tensor, this.#member(rank), contents)
  }

  async copy(
    from: SymmetricTensor,
    to: SymmetricTensor,
    ranks?: { readonly from: number; readonly to: number },
  ): Promise<void> {
    const pairs = ranks ? [ranks] : this.localRanks.map((rank) => ({ from: rank, to: rank }))
    for (const pair of pairs)
      await this.#world.copy(from, to, { from: this.#member(pair.from), to: this.#member(pair.to) })
  }

  async broadcast(tensor: SymmetricTensor, root: number): Promise<void> {
    const from = this.#member(root)
    for (const to of this.members) if (to !== from) await this.#world.copy(tensor, tensor, { from, to })
  }

  pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>> {
    return this.#world.pack(tensor)
  }

  reset(): Promise<void> {
    return this.#world.reset()
  }

  timeline(): Timeline {
    return this.#world.timeline()
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** The machine record of a group: the world's record, reduced to the members and indexed by rank of the group. */
function machineOf(machine: Machine, members: readonly number[]): Machine {
  const places = (ranks: readonly number[]): number[] =>
    ranks.map((rank) => members.indexOf(rank)).filter((at) => at >= 0)
  const shared = machine.memories.map(places).filter((ranks) => ranks.length > 0)
  const caches = machine.caches.map((cache) =>
    cache.ranks ? { ...cache, ranks: places(cache.ranks) } : cache,
  )
  return {
    ...machine,
    processors: members.map((rank) => machine.processors[rank]),
    memories: shared,
    caches: caches.filter(({ ranks }) => ranks === undefined || ranks.length > 0),
  }
}
