/**
 * The base class of the worlds of all targets: handles, symmetric allocation, ranks, and the functions built on reading
 * and writing one rank's copy of a tensor. A target defines where elements are stored, how kernels are launched and how
 * the host waits.
 */
import { dtypes, type StorageDType } from '../ir/dtype.ts'
import { elements } from '../ir/type.ts'
import type { Kernel, Meta, Params } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { allocatorOf, expectFlags, expectLength, expectTensor, type Contents } from './allocator.ts'
import type { Handle } from './arguments.ts'
import './disposal.ts'
import { GroupWorld, type GroupHost } from './group.ts'
import { granule } from './heap.ts'
import { HostSignals } from './hostSignals.ts'
import type { Machine } from './machine.ts'
import { expectMembers, groupName, inGroup, type Members } from './members.ts'
import { Requests, type Disagreement } from './symmetric.ts'
import {
  misuse,
  WorldError,
  type Allocator,
  type FlagsOptions,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type PackedTensor,
  type PrepareOptions,
  type Stream,
  type SymmetricFlags,
  type SymmetricTensor,
  type TensorOptions,
  type World,
} from './world.ts'

/**
 * True if a host write consists of words that a kernel may poll. The host writes a word that a kernel may poll with one
 * atomic store, after all writes that the host made before. Longer host writes are copies, which are not ordered with
 * the accesses of kernels.
 */
export const isWords = (dtype: StorageDType, count: number): boolean =>
  dtypes[dtype].bytes === 4 && count <= 4

/** The type `Stored` is a target's record of an allocation. The same memory always has the same `Stored` object. */
export abstract class HostWorld<Stored extends object = object> implements World {
  abstract readonly target: string
  abstract readonly machine: Machine
  readonly ranks: number
  readonly localRanks: readonly number[]
  protected readonly everyRank: readonly number[]
  declare readonly empty: Allocator['empty']
  declare readonly full: Allocator['full']
  declare readonly zeros: Allocator['zeros']
  declare readonly arange: Allocator['arange']
  declare readonly rand: Allocator['rand']
  declare readonly randn: Allocator['randn']
  declare readonly from: Allocator['from']
  declare readonly flags: Allocator['flags']
  readonly #requests: Requests<SymmetricTensor | SymmetricFlags>
  readonly #stored = new Map<SymmetricTensor | SymmetricFlags, Stored>()
  readonly #freed = new WeakSet<object>()
  /** The groups of the world, by the text of their members, and the lists of their members. */
  readonly #groups = new Map<string, World>()
  readonly #lists = new WeakSet<readonly number[]>()
  #seeds = 0

  constructor(ranks: number, localRanks?: readonly number[]) {
    this.ranks = ranks
    this.everyRank = Array.from({ length: ranks }, (_, rank) => rank)
    this.localRanks = localRanks ?? this.everyRank
    this.#requests = new Requests(ranks)
    Object.assign(this, this.#as(this.everyRank))
  }

  get members(): readonly number[] {
    return this.everyRank
  }

  get clockTick(): number {
    return 0
  }

  // Functions that each target implements

  /** Allocates a tensor on every rank. */
  protected abstract place(tensor: SymmetricTensor, alignment: number): Stored
  /** Allocates a flag set on every rank, with all flags zero. */
  protected abstract placeFlags(flags: SymmetricFlags): Stored
  /** Releases the memory of a freed allocation. Launches that use the freed memory may still be running. */
  protected abstract remove(stored: Stored): void
  /** Writes all elements of a rank's copy of a tensor. */
  protected abstract fill(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void
  protected abstract contents(tensor: SymmetricTensor, rank: number): Float64Array
  abstract launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void
  abstract launchTogether(launches: readonly Launch[]): void
  abstract prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options?: PrepareOptions<P, M>,
  ): Promise<void>
  /** The number of a newly created stream. */
  protected abstract newStream(): number
  /** The stream with number `id`, whose events measure time on the given ranks. */
  protected abstract streamOf(id: number, members: readonly number[]): Stream
  abstract synchronize(): Promise<void>
  abstract reset(): Promise<void>
  abstract timeline(): Timeline
  get recordedUnlike(): readonly string[] {
    return []
  }
  abstract close(): Promise<void>

  // Streams of the world

  get defaultStream(): Stream {
    return (this.#default ??= this.streamOf(0, this.everyRank))
  }
  #default: Stream | undefined

  stream(): Stream {
    return this.streamOf(this.newStream(), this.everyRank)
  }

  // Groups of ranks

  group(members: readonly number[]): World {
    expectMembers(members, this.ranks)
    const key = members.join()
    let group = this.#groups.get(key)
    if (!group) {
      const own = key === this.everyRank.join() ? this.everyRank : Object.freeze([...members])
      this.#lists.add(own)
      this.#groups.set(key, (group = new GroupWorld(this.#groupHost, own)))
    }
    return group
  }

  readonly #groupHost: GroupHost = {
    world: this,
    allocator: (group, ranks = this.everyRank) => this.#as(ranks, this.membersOf({ group })),
    stream: (members) => this.streamOf(this.newStream(), members),
    defaultStream: (members) => this.streamOf(0, members),
  }

  /**
   * The members of the group of a launch; the same group always has the same list object. The list of members is
   * undefined if the launch is on the whole world.
   */
  protected membersOf({ group }: Pick<LaunchOptions, 'group'>): Members {
    if (group === undefined || group.members === this.everyRank) return undefined
    if (!Array.isArray(group?.members))
      throw misuse(`the group of a launch is what world.group(…) returns, not ${JSON.stringify(group)}`)
    if (!this.#lists.has(group.members))
      throw misuse(`${groupName(group.members)} is a group of another world`)
    return group.members
  }

  // Allocation of tensors and flags

  /** Allocates memory on behalf of the given ranks. On a group, only the copies of its members are filled. */
  #as(ranks: readonly number[], members?: Members): Allocator {
    return allocatorOf({
      tensor: (dtype, shape, contents, options) =>
        this.#tensor(ranks, members, dtype, shape, contents, options),
      flags: (shape, options) => this.#flags(ranks, members, shape, options),
      nextSeed: () => ++this.#seeds,
    })
  }

  on(rank: number): Allocator {
    this.expectRank(rank)
    return this.#as([rank])
  }

  #tensor<D extends StorageDType>(
    ranks: readonly number[],
    members: Members,
    dtype: D,
    shape: readonly number[],
    contents: Contents,
    options: TensorOptions,
  ): SymmetricTensor<D> {
    const alignment = expectTensor(dtype, shape, options)
    const aligned = alignment === granule ? '' : ` aligned to ${alignment} bytes`
    const tensor = this.#allocate(ranks, `${dtype}[${shape.join(', ')}]${aligned}`, (number) => {
      const made: SymmetricTensor<D> = {
        kind: 'tensor',
        name: options.name ?? `x${number}`,
        dtype,
        shape: [...shape],
      }
      this.#stored.set(made, this.place(made, alignment))
      return made
    }) as SymmetricTensor<D>
    if (contents === undefined) return tensor
    for (const rank of ranks)
      if (this.localRanks.includes(rank) && inGroup(members, rank) >= 0) {
        if (typeof contents === 'number') this.fillWith(tensor, rank, contents)
        else {
          const given = typeof contents === 'function' ? contents(inGroup(members, rank)) : contents
          expectLength(tensor, rank, given)
          this.fill(tensor, rank, given)
        }
      }
    return tensor
  }

  #flags(
    ranks: readonly number[],
    members: Members,
    shape: readonly number[],
    options: FlagsOptions,
  ): SymmetricFlags {
    const arrivals = expectFlags(shape, options)
    const { signaller } = options
    const where = members ? ` on ${groupName(members)}` : ''
    return this.#allocate(ranks, `flags[${shape.join(', ')}] of ${arrivals} arrivals${where}`, (number) => {
      const made: SymmetricFlags = {
        kind: 'flags',
        name: options.name ?? `x${number}`,
        shape: [...shape],
        arrivals,
        ...(signaller && { signaller }),
        ...(members && { members }),
      }
      this.#stored.set(made, this.placeFlags(made))
      return made
    }) as SymmetricFlags
  }

  #allocate(
    ranks: readonly number[],
    text: string,
    make: (number: number) => SymmetricTensor | SymmetricFlags,
  ): SymmetricTensor | SymmetricFlags {
    const handle = this.#requests.add(ranks, text, make)
    // A rank may fill a tensor only if all ranks have allocated the same tensor.
    this.expectSymmetric('so far')
    return handle
  }

  /**
   * Throws an error if ranks have made different allocations. With the argument 'so far', it is not an error if a rank
   * has made fewer allocations than other ranks.
   */
  protected expectSymmetric(when: 'so far' | 'now' = 'now'): void {
    const disagreement = this.#requests.disagreement(when)
    if (disagreement) this.asymmetric(disagreement)
  }

  free(allocation: SymmetricTensor | SymmetricFlags | PackedTensor): void {
    this.expectHandle(allocation)
    const own = allocation.kind === 'packed' ? allocation.source : allocation
    const stored = this.stored(own)
    this.#stored.delete(own)
    this.#freed.add(own)
    this.remove(stored)
  }

  /**
   * Begins to lend the world to a host program. The returned function ends the loan: it frees everything that was
   * allocated on the world and its groups since the call, and restarts the random numbers of allocations without a
   * seed.
   */
  lend(): () => void {
    const before = new Set(this.#stored.keys())
    const seeds = this.#seeds
    return () => {
      for (const own of [...this.#stored.keys()]) if (!before.has(own)) this.free(own)
      this.#seeds = seeds
    }
  }

  /** Throws an error that lists the allocations that differ between ranks. */
  protected asymmetric({ message, parties }: Disagreement): never {
    const lines = parties.map(({ who, what, site }) => `  ${site ?? '(unknown line)'}  ${who} ${what}`)
    throw new WorldError([message, ...lines].join('\n'))
  }

  // Ranks of the world, and handles of tensors and flags

  protected expectRank(rank: number): void {
    if (!Number.isInteger(rank) || rank < 0 || rank >= this.ranks)
      throw misuse(`there is no rank ${rank} in a world of ${this.ranks}`)
  }

  /** Throws an error unless the memory of the rank is accessible from this process. */
  protected expectLocal(rank: number): void {
    this.expectRank(rank)
    if (!this.localRanks.includes(rank))
      throw misuse(
        `rank ${rank} is in another process: read and write its data there. This process has ranks ${this.localRanks.join(', ') || '(none)'}`,
      )
  }

  /** The storage of a tensor or flag handle of this world. */
  protected stored(handle: Handle): Stored {
    return this.#stored.get(handle.kind === 'packed' ? handle.source : handle)!
  }

  protected get everyStored(): Iterable<Stored> {
    return this.#stored.values()
  }

  /**
   * Describes the problem with a handle that was freed or that belongs to another world. The result is undefined if the
   * handle is valid.
   */
  protected wrongHandle(handle: Handle): string | undefined {
    const own = handle.kind === 'packed' ? handle.source : handle
    if (this.#stored.has(own)) return undefined
    return this.#freed.has(own) ? 'was freed' : 'was not allocated on this world'
  }

  protected expectHandle(handle: Handle): void {
    const problem = this.wrongHandle(handle)
    if (problem) throw new WorldError(`${handle.name} ${problem}`)
  }

  // Reading and writing of tensors by the host

  /** Sets all elements of a rank's copy of a tensor to one value. */
  protected fillWith(tensor: SymmetricTensor, rank: number, value: number): void {
    this.fill(tensor, rank, new Float64Array(elements(tensor.shape)).fill(value))
  }

  async read(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    this.expectLocal(rank)
    this.expectHandle(tensor)
    await this.synchronize()
    return this.contents(tensor, rank)
  }

  async peek(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    this.expectLocal(rank)
    this.expectHandle(tensor)
    await yieldSometimes()
    return this.present(tensor, rank)
  }

  /**
   * Reads the elements of a rank's copy of a tensor while launches may be running. Words that kernels may store are
   * loaded with acquire order.
   */
  protected abstract present(tensor: SymmetricTensor, rank: number): Float64Array

  signal(flags: SymmetricFlags, rank: number, at: readonly number[] = []): void {
    this.expectLocal(rank)
    this.expectHandle(flags)
    this.#signals.signal(flags, rank, at, (index, value) => this.post(flags, rank, index, value))
  }
  readonly #signals = new HostSignals()

  /**
   * Stores the value of a host-signalled flag with release order at system scope, and wakes the programs that wait for
   * it.
   */
  protected abstract post(flags: SymmetricFlags, rank: number, index: number, value: number): void

  /** Resets the counts of host signals; must be called when all flags have become zero. */
  protected forgetSignals(): void {
    this.#signals.forget()
  }

  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.expectLocal(rank)
    this.expectHandle(tensor)
    expectLength(tensor, rank, contents)
    this.overwrite(tensor, rank, contents)
  }

  /** Overwrites a rank's copy of a tensor like `fill`, but while launches may be running. */
  protected overwrite(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.fill(tensor, rank, contents)
  }

  async copy(
    from: SymmetricTensor,
    to: SymmetricTensor,
    ranks?: { readonly from: number; readonly to: number },
  ): Promise<void> {
    this.expectHandle(from)
    this.expectHandle(to)
    if (from.dtype !== to.dtype || elements(from.shape) !== elements(to.shape))
      throw new WorldError(
        `${from.name} is ${from.dtype}[${from.shape.join(', ')}], ${to.name} is ${to.dtype}[${to.shape.join(', ')}]: a copy keeps dtype and number of elements, so both must be equal`,
      )
    const pairs = ranks ? [ranks] : this.localRanks.map((rank) => ({ from: rank, to: rank }))
    for (const pair of pairs) {
      this.expectLocal(pair.from)
      this.expectLocal(pair.to)
    }
    await this.synchronize()
    for (const pair of pairs) this.move(from, pair.from, to, pair.to)
  }

  async broadcast(tensor: SymmetricTensor, root: number): Promise<void> {
    this.expectLocal(root)
    this.expectHandle(tensor)
    await this.synchronize()
    for (const rank of this.everyRank) {
      this.expectLocal(rank)
      if (rank !== root) this.move(tensor, root, tensor, rank)
    }
  }

  /**
   * Copies all elements of one tensor to another. The source and the target of the copy have the same dtype and number
   * of elements.
   */
  protected move(from: SymmetricTensor, fromRank: number, to: SymmetricTensor, toRank: number): void {
    this.fill(to, toRank, this.contents(from, fromRank))
  }

  /** By default, packing a tensor returns the tensor itself, for targets without a special layout. */
  async pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>> {
    this.expectHandle(tensor)
    await this.synchronize()
    return { kind: 'packed', name: tensor.name, dtype: tensor.dtype, shape: tensor.shape, source: tensor }
  }

  async barrier(): Promise<void> {
    await this.synchronize()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** The longest time in milliseconds for which a host that polls keeps the event loop from running. */
const longestPoll = 5
let yielded = performance.now()

/**
 * Lets the event loop run from time to time, so that a polling host does not delay timers and signals of the process.
 */
async function yieldSometimes(): Promise<void> {
  if (performance.now() - yielded < longestPoll) return
  await new Promise((resolve) => setTimeout(resolve))
  yielded = performance.now()
}
