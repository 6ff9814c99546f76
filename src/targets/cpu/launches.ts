/**
 * Launches of a CPU world: what was asked for is checked once and becomes a plan, the words of each rank's launch block. A launch
 * that asks for what the last one of its kernel asked for, as those of a loop do, takes its plan: it only writes the blocks.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { Kernel, Meta, Param } from '../../lang/kernel.ts'
import {
  argumentOf,
  expectArguments,
  expectDistinct,
  expectStream,
  gridOf,
  streamNumber,
  type Handle,
} from '../../world/arguments.ts'
import { givenTo, type Given } from '../../world/launchTraffic.ts'
import { usesOf } from '../../world/uses.ts'
import { WorldError, type Launch, type LaunchOptions, type SymmetricFlags } from '../../world/world.ts'
import { mostParams, param as paramOf } from './abi.ts'
import type { Executable } from './executables.ts'
import type { Host } from './host.ts'
import { packedParams } from './packing.ts'
import type { Block, Queue } from './queue.ts'

/** What launches ask of the world's tensors. */
export interface Tensors {
  readonly everyRank: readonly number[]
  /** What is wrong with a handle. */
  wrongHandle(handle: Handle): string | undefined
  expectLocal(rank: number): void
  /** What a handle is stored in: the same object for the same memory. */
  stored(handle: Handle): object
  /** Of rank 0's copy: kernels step from there to the rank they mean. */
  pointer(handle: Handle): number
  /** Of rank 0's epochs. */
  epochsPointer(flags: SymmetricFlags): number
}

/** A rank's part of a plan. */
interface Part {
  readonly queue: Queue
  readonly block: Block
  readonly params: Int32Array
}

/** A launch that was found to be in order. */
interface Plan {
  readonly kernel: Kernel
  readonly executable: Executable
  readonly flags: readonly (SymmetricFlags | undefined)[]
  readonly parts: readonly Part[]
  /** Where the world records. */
  readonly given: Given | undefined
}

/** A plan, and what was asked for. */
interface Asked {
  readonly together: readonly Plan[]
  readonly names: readonly string[]
  readonly values: readonly unknown[]
  readonly grid: LaunchOptions['grid']
  readonly stream: number
  readonly meta: Meta | undefined
}

const isSame = (a: Meta | undefined, b: Meta | undefined): boolean => {
  if (a === undefined || b === undefined) return a === b
  let [left, right] = [0, 0]
  for (const name in a) {
    if (a[name] !== b[name]) return false
    left++
  }
  for (const _ in b) right++
  return left === right
}

function asksForTheSame(asked: Asked, args: Launch['args'], options: LaunchOptions): boolean {
  const { names, values } = asked
  if (
    options.grid !== asked.grid ||
    options.ranks !== undefined ||
    streamNumber(options.stream) !== asked.stream ||
    !isSame(asked.meta, options.meta as Meta | undefined)
  )
    return false
  let given = 0
  for (const _ in args) given++
  if (given !== names.length) return false
  for (let n = 0; n < names.length; n++) if (args[names[n]] !== values[n]) return false
  return true
}

export class Launches {
  readonly #host: Host
  readonly #tensors: Tensors
  /** The last launch of each kernel. */
  readonly #asked = new Map<Kernel, Asked>()
  readonly #recordings = new Map<Kernel, KernelIR>()
  /** Launches that are compiled and not made, while `compile` asks for them. */
  #collected: Launch[] | undefined
  /** One more than the largest number of a stream that was used. */
  streams = 1

  constructor(host: Host, tensors: Tensors) {
    this.#host = host
    this.#tensors = tensors
  }

  /** Some tensor is no longer there: every launch is checked again. */
  forget(): void {
    this.#asked.clear()
  }

  launch(kernel: Kernel, args: Launch['args'], options: LaunchOptions): void {
    if (this.#collected) return void this.#collected.push({ kernel, args, options })
    const asked = this.#asked.get(kernel)
    if (asked && asksForTheSame(asked, args, options)) {
      this.#host.expectRunning()
      return this.#enqueue(asked.together)
    }
    const plan = this.#plan(kernel, args, options)
    const together = [plan]
    this.#remember(plan, together, args, options)
    this.#enqueue(together)
  }

  launchTogether(launches: readonly Launch[]): void {
    if (this.#collected) return void this.#collected.push(...launches)
    this.#enqueue(launches.map(({ kernel, args, options }) => this.#plan(kernel, args, options)))
  }

  /** Compiles what these launches need without blocking this thread; none of them is made. */
  async compile(launches: () => void): Promise<void> {
    const collected: Launch[] = (this.#collected = [])
    try {
      launches()
    } finally {
      this.#collected = undefined
    }
    for (const { kernel, args, options } of collected) {
      const ranks = options.ranks ?? this.#tensors.everyRank
      const ir = this.recorded(kernel, options.meta as Meta | undefined)
      await this.#host.executables.prepare(ir, packedParams(kernel, args, ranks))
    }
  }

  /** Functions of the rank may say something else every time. */
  #remember(plan: Plan, together: readonly Plan[], args: Launch['args'], options: LaunchOptions): void {
    const names = Object.keys(plan.kernel.params)
    const values = names.map((name) => args[name])
    const { grid, ranks, stream } = options
    if (ranks !== undefined || [grid, ...values].some((value) => typeof value === 'function')) return
    const meta = options.meta && ({ ...options.meta } as Meta)
    this.#asked.set(plan.kernel, {
      together,
      names,
      values,
      grid,
      stream: streamNumber(stream),
      meta,
    })
  }

  /** A launch that says nothing about meta-parameters, as most do, finds its recording at once. */
  recorded(kernel: Kernel, meta: Meta | undefined): KernelIR {
    if (meta) return kernel.record({ world: this.#host.ranks, meta })
    let ir = this.#recordings.get(kernel)
    if (!ir) this.#recordings.set(kernel, (ir = kernel.record({ world: this.#host.ranks })))
    return ir
  }

  #plan(kernel: Kernel, args: Launch['args'], options: LaunchOptions): Plan {
    const [host, tensors] = [this.#host, this.#tensors]
    host.expectRunning()
    const ir = this.recorded(kernel, options.meta as Meta | undefined)
    const ranks = options.ranks ?? tensors.everyRank
    for (const rank of options.ranks ?? []) tensors.expectLocal(rank)
    expectArguments(kernel, args, ranks, (handle) => tensors.wrongHandle(handle))
    expectStream(options.stream)
    const params = Object.entries(kernel.params)
    if (params.length > mostParams)
      throw new WorldError(`${kernel.name} has more than ${mostParams} parameters`)
    this.#expectDistinct(kernel, ir, args, ranks)
    const executable = host.executables.get(ir, packedParams(kernel, args, ranks))
    const grids = ranks.map((rank) => gridOf(options.grid, rank, host.workers))
    this.#expectResident(kernel, executable, ranks, grids)
    const stream = streamNumber(options.stream)
    this.streams = Math.max(this.streams, stream + 1)
    const parts = ranks.map((rank, at): Part => {
      const queue = host.queue(rank, stream)
      const grid = grids[at]
      const block: Block = {
        executable: executable.number,
        grid,
        leaders: Math.min(host.workers, Math.max(grid, 1)),
        counters: host.equip(queue, executable).counters,
        frameStride: executable.lowered.frameBytes,
      }
      return { queue, block, params: this.#image(params, args, rank) }
    })
    const flags = params.map(([name, { kind }]) =>
      kind === 'flags' ? (args[name] as SymmetricFlags) : undefined,
    )
    const given = host.recording && givenTo(ir, args, ranks, grids)
    return { kernel, executable, flags, parts, given }
  }

  #expectDistinct(kernel: Kernel, ir: KernelIR, args: Launch['args'], ranks: readonly number[]): void {
    const { writes } = usesOf(ir)
    if (writes.size === 0) return
    const tensors = Object.keys(kernel.params).filter((name) => kernel.params[name].kind === 'tensor')
    const varies = tensors.some((name) => typeof args[name] === 'function')
    for (const rank of varies ? ranks : ranks.slice(0, 1))
      expectDistinct(
        kernel.name,
        writes,
        tensors.map((name) => [name, this.#tensors.stored(argumentOf(args[name], rank) as Handle)]),
      )
  }

  #expectResident(
    kernel: Kernel,
    { lowered }: Executable,
    ranks: readonly number[],
    grids: readonly number[],
  ): void {
    if (!lowered.needsResidency) return
    const { workers } = this.#host
    const at = grids.findIndex((grid) => grid > workers)
    if (at < 0) return
    const site = lowered.needsResidency.site
    throw new WorldError(
      `${kernel.name}: ${grids[at]} programs do not fit: ${workers} run at once on rank ${ranks[at]}, and a program that waits for one that has not started waits forever${site ? ` (it may wait at ${site})` : ''}. Launch at most ${workers}, or grid: 'resident'`,
    )
  }

  /** The words of the parameters, as launch blocks hold them. */
  #image(params: readonly [string, Param][], args: Launch['args'], rank: number): Int32Array {
    const view = new DataView(new ArrayBuffer(params.length * paramOf.bytes))
    params.forEach(([name, param], index) => {
      const at = index * paramOf.bytes
      const value = argumentOf(args[name], rank)
      if (param.kind === 'scalar') return writeScalar(view, at + paramOf.value, param.dtype, value as number)
      const handle = value as Handle
      view.setBigUint64(at + paramOf.pointer, BigInt(this.#tensors.pointer(handle)), true)
      handle.shape.forEach((extent, axis) => view.setInt32(at + paramOf.extents + axis * 4, extent, true))
      if (handle.kind === 'flags')
        view.setBigUint64(at + paramOf.epochs, BigInt(this.#tensors.epochsPointer(handle)), true)
    })
    return new Int32Array(view.buffer)
  }

  /** All are written before any worker is told, so that ranks start as nearly together as they can. */
  #enqueue(plans: readonly Plan[]): void {
    const host = this.#host
    const recording = host.recording !== undefined
    const { now } = host.platform.threads
    const enqueued = recording ? now() : 0
    for (let p = 0; p < plans.length; p++) {
      const { parts } = plans[p]
      for (let n = 0; n < parts.length; n++) {
        const { queue, block, params } = parts[n]
        host.makeRoom(queue)
        queue.writeParams(queue.write(block), params)
      }
    }
    for (let p = 0; p < plans.length; p++) {
      const { kernel, executable, flags, parts, given } = plans[p]
      for (let n = 0; n < parts.length; n++) {
        const { queue, block } = parts[n]
        const launched = queue.publish(kernel.name, executable, flags, block.grid, enqueued)
        queue.wake(block.leaders, executable.lowered.roles)
        if (!recording) continue
        launched.given = given
        launched.published = now()
      }
    }
    host.launched()
  }
}

function writeScalar(view: DataView, at: number, dtype: string, value: number): void {
  if (dtype === 'f32') view.setFloat32(at, value, true)
  else if (dtype === 'i64') view.setBigInt64(at, BigInt(value), true)
  else view.setInt32(at, value, true)
}
