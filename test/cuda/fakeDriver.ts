/**
 * A fake CUDA driver without a GPU. Device memory is memory of this process. A stream is a list of work that executes
 * in order when a caller queries its progress. Tests define the effect of a kernel as a function. Only the calls that
 * the runtime and the world use are implemented.
 */
import { CUDA_ERROR_NOT_READY, CudaError, type Driver } from '../../src/targets/cuda/driver.ts'
import { NativeBlock, viewNative, type Argument } from '../../src/targets/cuda/node.ts'

/** A launch as a fake kernel sees it: its grid, and its parameters by position. */
export interface FakeLaunch {
  readonly kernel: string
  readonly stream: number
  readonly grid: number
  readonly cooperative: boolean
  /** True if the launch may start before the previous launch has ended. */
  readonly early: boolean
  word(position: number): number
  pointer(position: number): bigint
  bytes(position: number): Uint8Array
}
export interface FakeKernel {
  /** The number of parameters. */
  readonly params: number
  /** The sizes of the parameters in bytes; 8 by default. */
  readonly sizes?: readonly number[]
  /** Returns true when the kernel has ended. The function is called repeatedly until the kernel has ended. */
  readonly run: (launch: FakeLaunch) => boolean
}

export interface FakeDriver {
  readonly driver: Driver
  /** The names of all driver calls, in order. */
  readonly calls: string[]
  /** The launches in the order in which they were enqueued. */
  readonly launches: FakeLaunch[]
}

interface FakeOptions {
  /** The name of the device. */
  readonly name?: string
  readonly sms?: number
  readonly programsPerSm?: number
  /** Device attributes that differ from those of a Hopper GPU, keyed by CUDA's attribute code. */
  readonly attributes?: Readonly<Record<number, number>>
  /** The fake kernels by name. A kernel without an entry does nothing. */
  readonly kernels?: Readonly<Record<string, FakeKernel>>
}

type Work = () => boolean
interface FakeStream {
  readonly work: Work[]
  captured: Work[] | undefined
}

/** A position in a stream, which is reached when all earlier work of the stream is done. */
interface Mark {
  reached: boolean
}

export const words = (address: bigint, count: number): Uint32Array =>
  new Uint32Array(viewNative(address, 4 * count))

export function fakeDriver({
  name: deviceName = 'fake',
  sms = 132,
  programsPerSm = 2,
  attributes: unlike = {},
  kernels = {},
}: FakeOptions = {}): FakeDriver {
  const calls: string[] = []
  const launches: FakeLaunch[] = []
  const streams = new Map<number, FakeStream>()
  const events = new Map<number, Mark>()
  const names = new Map<number, string>()
  const graphs = new Map<number, Work[]>()
  const blocks = new Map<bigint, NativeBlock>()
  let handles = 1
  let capturing: FakeStream | undefined
  /** The streams that have joined the capture. */
  let joined = new Set<number>()

  const out = (to: Argument, value: number | bigint): void => {
    if (to instanceof BigUint64Array) to[0] = BigInt(value)
    else (to as Int32Array)[0] = Number(value)
  }
  const memory = (bytes: number): bigint => {
    // A `NativeBlock` is filled with zeros when it is allocated.
    const block = new NativeBlock(bytes)
    blocks.set(block.address, block)
    return block.address
  }
  const free = (at: bigint): void => {
    blocks.get(at)?.free()
    blocks.delete(at)
  }
  const bytesOf = (at: Argument, count: number): Uint8Array =>
    typeof at === 'bigint'
      ? new Uint8Array(viewNative(at, count))
      : new Uint8Array((at as Uint8Array).buffer, (at as Uint8Array).byteOffset, count)
  const stream = (handle: Argument): FakeStream => streams.get(Number(handle))!
  const drain = (): void => {
    for (let moved = true; moved;) {
      moved = false
      for (const { work } of streams.values())
        while (work.length > 0 && work[0]()) {
          work.shift()
          moved = true
        }
    }
  }
  const notReady = (call: string): never => {
    throw new CudaError(call, CUDA_ERROR_NOT_READY, 'CUDA_ERROR_NOT_READY', 'not ready')
  }
  const enqueue = (handle: Argument, work: Work): void => {
    if (capturing && (stream(handle) === capturing || joined.has(Number(handle))))
      capturing.captured!.push(work)
    else stream(handle).work.push(work)
  }
  const newStream = (to: Argument): void => {
    streams.set(handles, { work: [], captured: undefined })
    out(to, handles++)
  }
  const copy = (to: Argument, from: Argument, count: Argument, on: Argument): void =>
    enqueue(on, () => {
      bytesOf(to, Number(count)).set(bytesOf(from, Number(count)))
      return true
    })

  /**
   * The CUDA device attributes that the target reads, by code. The first are the warp size, the number of
   * multiprocessors, the bytes of the L2 cache, and the compute capability (9.0). The others are the limits of shared
   * memory, threads and registers.
   */
  const attributes: Readonly<Record<number, number>> = {
    ...{ 10: 32, 16: sms, 38: 50 * 2 ** 20, 75: 9, 76: 0 },
    ...{ 97: 232_448, 39: 2048, 81: 233_472, 82: 65_536, 106: 32, 111: 1024 },
    ...unlike,
  }
  const functions: Partial<Record<keyof Driver, (...args: Argument[]) => void>> = {
    cuDeviceGetName: (text) => (text as Uint8Array).set(new TextEncoder().encode(`${deviceName}\0`)),
    cuDeviceGetAttribute: (to, code) => out(to, attributes[Number(code)] ?? 1),
    cuDeviceCanAccessPeer: (to) => out(to, 1),
    cuDeviceGetDevResource: () => {},
    cuDevSmResourceSplitByCount: (parts, count, _whole, _rest, _flags, wanted) => {
      const view = new DataView((parts as Uint8Array).buffer)
      const most = Math.floor(sms / Number(wanted))
      ;(count as Uint32Array)[0] = Math.min((count as Uint32Array)[0], most)
      for (let part = 0; part < (count as Uint32Array)[0]; part++)
        view.setUint32(part * 144 + 96, Number(wanted), true)
    },
    cuGreenCtxStreamCreate: newStream,
    cuStreamCreate: newStream,
    cuStreamCreateWithPriority: newStream,
    cuMemGetAllocationGranularity: (to) => out(to, 4096),
    cuMemAddressReserve: (to, bytes) => out(to, memory(Number(bytes))),
    cuMemAlloc_v2: (to, bytes) => out(to, memory(Number(bytes))),
    cuMemHostAlloc: (to, bytes) => out(to, memory(Number(bytes))),
    cuMemAddressFree: (at) => free(at as bigint),
    cuMemFree_v2: (at) => free(at as bigint),
    cuMemFreeHost: (at) => free(at as bigint),
    cuMemcpyHtoDAsync_v2: copy,
    cuMemcpyDtoHAsync_v2: copy,
    cuMemcpyDtoDAsync_v2: copy,
    cuMemsetD8Async: (at, value, count, on) =>
      enqueue(on, () => {
        bytesOf(at, Number(count)).fill(Number(value))
        return true
      }),
    cuLibraryGetKernel: (to, _library, name) => {
      names.set(handles, name as string)
      out(to, handles++)
    },
    cuKernelGetFunction: (to, kernel) => out(to, Number(kernel)),
    cuOccupancyMaxActiveBlocksPerMultiprocessor: (to) => out(to, programsPerSm),
    cuLaunchKernelEx: (config, kernel, pointers) => {
      const shape = new DataView(viewNative(BigInt(config as number), 64))
      const name = names.get(Number(kernel))!
      const attributes = Array.from({ length: shape.getUint32(48, true) }, (_, i) => {
        const at = shape.getBigUint64(40, true) + BigInt(72 * i)
        return new DataView(viewNative(at, 4)).getUint32(0, true)
      })
      const on = Number(shape.getBigUint64(32, true))
      // The driver copies parameters at the launch.
      const params = Array.from({ length: kernels[name]?.params ?? 0 }, (_, i) => {
        const [at] = new BigUint64Array(viewNative(BigInt((pointers as number) + 8 * i), 8))
        return new DataView(viewNative(at, kernels[name]?.sizes?.[i] ?? 8).slice(0))
      })
      const launch: FakeLaunch = {
        kernel: name,
        stream: on,
        grid: shape.getUint32(0, true),
        cooperative: attributes.includes(2),
        early: attributes.includes(6),
        word: (position) => params[position].getUint32(0, true),
        pointer: (position) => params[position].getBigUint64(0, true),
        bytes: (position) => new Uint8Array(params[position].buffer),
      }
      launches.push(launch)
      enqueue(BigInt(on), () => kernels[name]?.run(launch) ?? true)
    },
    cuEventCreate: (to) => {
      events.set(handles, { reached: false })
      out(to, handles++)
    },
    cuEventRecord: (event, on) => {
      if (capturing && (stream(on) === capturing || joined.has(Number(on)))) return
      const mark: Mark = { reached: false }
      events.set(Number(event), mark)
      enqueue(on, () => (mark.reached = true))
    },
    cuStreamWriteValue32_v2: (on, at, word) =>
      enqueue(on, () => {
        new DataView(viewNative(at as bigint, 4)).setUint32(0, Number(word), true)
        return true
      }),
    cuStreamWaitEvent: (on, event) => {
      if (capturing) return void joined.add(Number(on))
      const mark = events.get(Number(event))!
      enqueue(on, () => mark.reached)
    },
    cuEventQuery: (event) => {
      drain()
      if (!events.get(Number(event))!.reached) notReady('cuEventQuery')
    },
    cuStreamQuery: (on) => {
      drain()
      if (stream(on).work.length > 0) notReady('cuStreamQuery')
    },
    cuStreamSynchronize: (on) => {
      drain()
      if (stream(on).work.length > 0) throw new Error('this driver call would never return')
    },
    cuEventElapsedTime: (to) => void ((to as Float32Array)[0] = 0),
    cuStreamBeginCapture_v2: (on) => {
      capturing = stream(on)
      capturing.captured = []
      joined = new Set()
    },
    cuStreamEndCapture: (_on, to) => {
      graphs.set(handles, capturing!.captured!)
      capturing = undefined
      joined.clear()
      out(to, handles++)
    },
    cuGraphInstantiateWithFlags: (to, graph) => out(to, graph as bigint),
    cuGraphLaunch: (graph, on) => {
      const left = [...graphs.get(Number(graph))!]
      enqueue(on, () => {
        for (let i = left.length - 1; i >= 0; i--) if (left[i]()) left.splice(i, 1)
        return left.length === 0
      })
    },
  }
  const handle = (to: Argument): void => {
    if (to instanceof BigUint64Array) out(to, handles++)
  }
  const driver = new Proxy({} as Driver, {
    get:
      (_, name: keyof Driver) =>
      (...args: Argument[]) => {
        calls.push(name)
        return (functions[name] ?? handle)(...args)
      },
  })
  return { driver, calls, launches }
}
