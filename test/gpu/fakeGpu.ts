/**
 * A second vendor of GPUs, in memory: it implements only the device and the platform interface (src/targets/gpu). A
 * wave has 64 threads, kernels are functions of the tests by name, and a tensor argument is a descriptor in a format of
 * this vendor. Streams execute in order whenever the host polls a device.
 */
import type { KernelIR } from '../../src/ir/node.ts'
import { attribute } from '../../src/ir/node.ts'
import type { HeapTensor } from '../../src/world/backend.ts'
import type { RankMemory } from '../../src/targets/gpu/arguments.ts'
import {
  DeviceError,
  type Device,
  type Graph,
  type Heaps,
  type HostMemory,
  type Kernel,
  type KernelArgument,
  type Launch,
  type LaunchShape,
  type Share,
  type Stream,
  type StreamEvent,
} from '../../src/targets/gpu/device.ts'
import type { Emitted, OpaqueParam, Param, Platform, WorldFacts } from '../../src/targets/gpu/platform.ts'

/** Device memory in one range of addresses. */
export class Memory {
  readonly #regions: { readonly from: bigint; readonly view: ArrayBuffer }[] = []
  #next = 1n << 20n

  allocate(bytes: number): HostMemory {
    const region = { from: this.#next, view: new ArrayBuffer(bytes) }
    this.#next += BigInt(Math.ceil(bytes / 4096) * 4096)
    this.#regions.push(region)
    return { address: region.from, view: region.view, free: () => this.free(region.from) }
  }

  free(address: bigint): void {
    this.#regions.splice(
      this.#regions.findIndex(({ from }) => from === address),
      1,
    )
  }

  /** Throws an error if the bytes are not allocated, as a device fails at an access to them. */
  at(address: bigint, bytes: number): DataView {
    for (const { from, view } of this.#regions) {
      const offset = Number(address - from)
      if (offset >= 0 && offset + bytes <= view.byteLength) return new DataView(view, offset, bytes)
    }
    throw new DeviceError(`${bytes} bytes at ${address} are not allocated`)
  }

  word(address: bigint): number {
    return this.at(address, 4).getUint32(0, true)
  }

  setWord(address: bigint, word: number): void {
    this.at(address, 4).setUint32(0, word, true)
  }

  bytes(address: bigint, count: number): Uint8Array {
    const view = this.at(address, count)
    return new Uint8Array(view.buffer, view.byteOffset, count)
  }
}

/** Arguments by the name of the parameter, or by its kind if it has no name. */
export type Arguments = Readonly<Record<string, KernelArgument>>
export interface Running {
  readonly memory: Memory
  readonly grid: number
  readonly args: Arguments
  /** The address in an argument that is a tensor descriptor of this vendor. */
  address(tensor: string): bigint
  number(scalar: string): number
}
/** Returns true when the kernel has ended. The function is called repeatedly until the kernel has ended. */
export type Program = (running: Running) => boolean

type Work = () => boolean

/** The key of a parameter in `Running.args`. */
function nameOf(param: Param): string {
  switch (param.kind) {
    case 'opaque':
    case 'pointer':
      return param.tensor
    case 'scalar':
      return param.name
    case 'flags':
      return param.flags
    case 'epochs':
      return `${param.flags} epochs`
    default:
      return param.kind
  }
}

interface FakeEmitted extends Emitted {
  readonly program: Program
}

/** The machine code of this fake vendor is just the number of a kernel. */
const codes: FakeEmitted[] = []

/** The clock of all devices, in nanoseconds: it advances by 1 us each time it is read. */
let now = 0
const time = (): bigint => BigInt((now += 1000))

export class FakeGpu implements Device {
  readonly name = 'Fake GPU'
  readonly processors = 12
  readonly warp = 64
  readonly perProcessor = {
    ...{ programs: 16, threads: 2048, registers: 131_072, partitions: 4, registerUnit: 512 },
    ...{ sharedBytes: 65_536, reservedBytes: 0, sharedUnit: 256 },
  }
  readonly sharedBytes = 65_536
  readonly cacheBytes = 2 ** 22
  readonly memory = new Memory()
  readonly streams: FakeStream[] = []

  allocate(bytes: number): bigint {
    return this.memory.allocate(bytes).address
  }
  free(address: bigint): void {
    this.memory.free(address)
  }
  allocateHost(bytes: number): HostMemory {
    return this.memory.allocate(bytes)
  }
  createStream(): FakeStream {
    const stream = new FakeStream(this)
    this.streams.push(stream)
    return stream
  }
  loadKernel(code: Uint8Array): Kernel {
    return new FakeKernel(this, codes[code[0]])
  }
  share(ranks: number, processors = Math.floor(this.processors / ranks)): Share[] {
    if (processors < 1 || ranks * processors > this.processors)
      throw new RangeError(`${ranks} ranks with ${processors} compute units each do not fit`)
    return Array.from({ length: ranks }, () => ({
      processors,
      createStream: () => this.createStream(),
      close: () => {},
    }))
  }
  canReach(): boolean {
    return false
  }
  mapHeaps(devices: readonly Device[], bytes: number): Heaps {
    const { address, free } = this.memory.allocate(bytes * devices.length)
    return { heap: address, stride: bytes, close: free }
  }

  /** Executes work until no stream makes progress. */
  advance(): void {
    while (this.streams.map((stream) => stream.advance()).includes(true));
  }
}

class FakeStream implements Stream {
  readonly device: FakeGpu
  readonly work: Work[] = []
  /** The work captured on each stream, shared by all streams of the capture. */
  captured: Map<FakeStream, Work[]> | undefined

  constructor(device: FakeGpu) {
    this.device = device
  }

  enqueue(work: Work): void {
    if (!this.captured) return void this.work.push(work)
    const own = this.captured.get(this)
    if (own) own.push(work)
    else this.captured.set(this, [work])
  }
  advance(): boolean {
    let moved = false
    for (; this.work.length > 0 && this.work[0](); moved = true) this.work.shift()
    return moved
  }
  #do(act: () => void): void {
    this.enqueue(() => {
      act()
      return true
    })
  }
  writeWord(to: bigint, word: number): void {
    this.#do(() => this.device.memory.setWord(to, word))
  }
  copyIn(to: bigint, from: ArrayBufferView): void {
    const bytes = new Uint8Array(from.buffer, from.byteOffset, from.byteLength).slice()
    this.#do(() => this.device.memory.bytes(to, bytes.length).set(bytes))
  }
  startCopyOut(to: ArrayBufferView, from: bigint): void {
    const bytes = new Uint8Array(to.buffer, to.byteOffset, to.byteLength)
    this.#do(() => bytes.set(this.device.memory.bytes(from, bytes.length)))
  }
  copyOut(to: ArrayBufferView, from: bigint): void {
    this.startCopyOut(to, from)
    this.synchronize()
  }
  copy(to: bigint, from: bigint, bytes: number): void {
    const { memory } = this.device
    this.#do(() => memory.bytes(to, bytes).set(memory.bytes(from, bytes)))
  }
  fillBytes(to: bigint, value: number, bytes: number): void {
    this.#do(() => void this.device.memory.bytes(to, bytes).fill(value))
  }
  createEvent(): FakeEvent {
    return new FakeEvent(this)
  }
  waitFor(event: FakeEvent): void {
    const { mark } = event
    // A stream joins the capture of an event that it waits for.
    if (event.stream.captured) this.captured = event.stream.captured
    else this.enqueue(() => mark.at !== undefined)
  }
  beginCapture(): void {
    this.captured = new Map()
  }
  endCapture(): Graph {
    const lists = [...this.captured!.values()]
    this.dropCapture()
    return {
      launch: () => {
        const left = lists.map((list) => [...list])
        this.enqueue(() => {
          for (const list of left) while (list.length > 0 && list[0]()) list.shift()
          return left.every((list) => list.length === 0)
        })
      },
      close: () => {},
    }
  }
  dropCapture(): void {
    const { captured } = this
    for (const stream of this.device.streams) if (stream.captured === captured) stream.captured = undefined
  }
  isIdle(): boolean {
    this.device.advance()
    return this.work.length === 0
  }
  synchronize(): void {
    if (!this.isIdle()) throw new DeviceError('the device would block for ever')
  }
  close(): void {
    this.device.streams.splice(this.device.streams.indexOf(this), 1)
  }
}

class FakeEvent implements StreamEvent {
  readonly stream: FakeStream
  mark: { at: bigint | undefined } = { at: undefined }

  constructor(stream: FakeStream) {
    this.stream = stream
  }
  record(): void {
    const mark: FakeEvent['mark'] = (this.mark = { at: undefined })
    this.stream.enqueue(() => {
      mark.at = time()
      return true
    })
  }
  isReached(): boolean {
    this.stream.device.advance()
    return this.mark.at !== undefined
  }
  millisecondsSince(earlier: FakeEvent): number {
    return Number(this.mark.at! - earlier.mark.at!) / 1e6
  }
  close(): void {}
}

class FakeKernel implements Kernel {
  readonly registersPerThread = 32
  readonly device: FakeGpu
  readonly emitted: FakeEmitted

  constructor(device: FakeGpu, emitted: FakeEmitted) {
    this.device = device
    this.emitted = emitted
  }
  programsPerProcessor(): number {
    return 1
  }
  prepare({ grid }: LaunchShape, args: readonly KernelArgument[]): Launch {
    const { device, emitted } = this
    const { memory } = device
    let current = [...args]
    return {
      setArgument: (position, arg) => void (current = current.with(position, arg)),
      on: (stream: FakeStream) => {
        const named = Object.fromEntries(current.map((arg, at) => [nameOf(emitted.params[at]), arg]))
        const address = (tensor: string): bigint => {
          const { value } = named[tensor] as { readonly value: Uint8Array }
          return new DataView(value.buffer).getBigUint64(0, true)
        }
        const number = (scalar: string): number => Number(named[scalar].value)
        let start: bigint | undefined
        stream.enqueue(() => {
          start ??= time()
          if (!emitted.program({ memory, grid, args: named, address, number })) return false
          if ('log' in named) logLaunch(memory, named.log.value as bigint, start, time())
          return true
        })
      },
      close: () => {},
    }
  }
}

/** Writes the record of a launch, in the format of src/targets/gpu/log.ts. */
function logLaunch(memory: Memory, log: bigint, start: bigint, end: bigint): void {
  const number = memory.word(log)
  const times = memory.at(log + BigInt(64 + 32 * number), 32)
  times.setBigUint64(0, BigInt.asUintN(64, ~start), true)
  times.setBigUint64(8, end, true)
  times.setUint32(16, 1, true)
  memory.setWord(log, number + 1)
}

export class FakePlatform implements Platform {
  readonly target = 'fake'
  readonly devices: readonly FakeGpu[] = [new FakeGpu()]
  readonly capabilities = {
    ...{ matrixUnit: false, copyEngine: false, nearPeers: false },
    ...{ sharedProcessors: true, deviceQueues: true },
  }
  readonly products = { besideTiles: 1024, tileRows: [[32]] }
  readonly clock: FakeEmitted
  readonly #programs: Readonly<Record<string, Program>>
  readonly measuredOn = () => ({})
  readonly #emitted = new Map<string, FakeEmitted>()
  readonly #numbers = new Map<KernelIR, number>()

  constructor(programs: Readonly<Record<string, Program>>) {
    this.#programs = programs
    const params: Param[] = [
      { kind: 'scalar', name: 'told', dtype: 'i64' },
      { kind: 'scalar', name: 'changes', dtype: 'u32' },
    ]
    this.clock = emittedOf('clock', params, [], ({ memory, number }) => {
      memory.at(BigInt(number('told')), 16).setBigUint64(8, 1000n, true)
      memory.at(BigInt(number('told')), 16).setBigUint64(0, time(), true)
      return true
    })
  }

  emit(recorded: KernelIR, _: unknown, { record }: WorldFacts): FakeEmitted {
    if (!this.#numbers.has(recorded)) this.#numbers.set(recorded, this.#numbers.size)
    const key = `${this.#numbers.get(recorded)} ${record}`
    let emitted = this.#emitted.get(key)
    if (emitted) return emitted
    const sites: string[] = []
    const visit = ({ nodes }: KernelIR['body']): void => {
      for (const node of nodes) {
        if (node.op === 'wait') sites.push(String(node.site?.line))
        node.blocks.forEach(visit)
      }
    }
    visit(recorded.body)
    const params = recorded.body.params.flatMap((node): Param[] => {
      const name = attribute<string>(node, 'name')
      const { type } = node
      if (type.kind === 'tensor') return [{ kind: 'opaque', tensor: name }]
      if (type.kind !== 'flags') return [{ kind: 'scalar', name, dtype: 'i32' }]
      return [
        { kind: 'flags', flags: name },
        { kind: 'epochs', flags: name },
      ]
    })
    params.push({ kind: 'rank' }, { kind: 'heapStride' })
    if (sites.length > 0) params.push({ kind: 'control' })
    if (record) params.push({ kind: 'log' })
    emitted = emittedOf(recorded.name, params, sites, this.#programs[recorded.name])
    this.#emitted.set(key, emitted)
    return emitted
  }

  compile(emitted: FakeEmitted): Uint8Array {
    return Uint8Array.of(codes.push(emitted) - 1)
  }

  /** A tensor descriptor of this fake vendor: the tensor's address and its number of bytes. */
  encode(_: OpaqueParam, { offset, bytes }: HeapTensor, { heap, stride, rank }: RankMemory): Uint8Array {
    const words = BigUint64Array.of(heap + BigInt(rank * stride + offset), BigInt(bytes))
    return new Uint8Array(words.buffer)
  }
}

const emittedOf = (
  name: string,
  params: readonly Param[],
  waitSites: readonly string[],
  program: Program,
): FakeEmitted => ({
  ...{ name, params, waitSites, program },
  ...{ block: 64, sharedBytes: 0, writes: [], carriesEpochs: [], unlike: [] },
})
