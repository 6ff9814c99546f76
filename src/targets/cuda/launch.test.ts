import { describe, expect, it, vi } from 'vitest'

import type { EmittedKernel } from './emit/recipe.ts'
import { expectDistinct, LaunchWorld, type HeapTensor } from './launch.ts'
import type { Device, KernelArgument } from './runtime.ts'

// A device that keeps what it is asked for, in place of the compiler and the driver.
const stream = { sms: 4, fillBytes: vi.fn(), synchronize: vi.fn() }
vi.mock('./nvrtc.ts', () => ({ compileCuda: () => ({ bytes: new Uint8Array() }) }))
vi.mock('./ranks.ts', () => ({
  createVirtualRanks: (_: Device, { world, heapBytes }: { world: number; heapBytes: number }) => ({
    ranks: Array.from({ length: world }, () => ({ stream })),
    heapStride: heapBytes,
    heapOf: (rank: number) => BigInt(0x10000 + rank * heapBytes),
  }),
}))

const emitted: EmittedKernel = {
  name: 'add',
  source: '',
  architecture: 'sm_90a',
  block: 128,
  sharedBytes: 0,
  params: [
    ...['x', 'y', 'out'].map((tensor) => ({ kind: 'pointer', tensor }) as const),
    { kind: 'counters', words: 2 },
    { kind: 'control' },
  ],
  writes: ['out'],
  signals: [],
  waits: [],
  waitSites: ['a.ts:1', 'a.ts:2'],
  notes: [],
}

describe('arguments of a launch', () => {
  const at = (offset: number): HeapTensor => ({ kind: 'tensor', dtype: 'f32', shape: [4, 16], offset })

  it('may share what is only read', () => {
    expect(() => expectDistinct(emitted, { x: at(0), y: at(0), out: at(256) })).not.toThrow()
  })

  it('may not share what the kernel writes, not even in part', () => {
    const message = /^add: out and y are the same memory, and the kernel writes out/
    expect(() => expectDistinct(emitted, { x: at(0), y: at(256), out: at(256) })).toThrow(message)
    expect(() => expectDistinct(emitted, { x: at(0), y: at(508), out: at(256) })).toThrow(message)
  })

  it('are all needed', () => {
    expect(() => expectDistinct(emitted, { x: at(0), y: at(256) })).toThrow(/no tensor was given for out/)
  })
})

describe('a world of two ranks', () => {
  const control = { address: 0x900000n, view: new ArrayBuffer(1 << 18), free: vi.fn() }
  const prepared: (readonly KernelArgument[])[] = []
  const kernel = {
    programsPerSm: () => 2,
    prepare: (_: unknown, args: readonly KernelArgument[]) => prepared.push(args),
  }
  const device = {
    allocateHost: () => control,
    loadModule: () => ({ kernel: () => kernel }),
  }
  const world = new LaunchWorld(device as unknown as Device, { ranks: 2, heapBytes: 4096 })
  const tensor = (): HeapTensor => world.tensor('f32', [16])
  const args = { x: tensor(), y: tensor(), out: tensor() }
  const loaded = world.load(emitted)

  it('gives all launches of a kernel on a rank the same counters, and each rank control of its own', () => {
    for (let i = 0; i < 20; i++) for (const rank of [0, 1]) world.prepare(loaded, args, rank)
    const [first, other] = prepared
    for (const [i, one] of prepared.entries()) expect(one).toEqual(i % 2 === 0 ? first : other)
    expect(other[3].value).toBe((first[3].value as bigint) + 4096n)
    expect(other[4].value).toBe((first[4].value as bigint) + 16n + 16n * 4096n)
  })

  it('refuses a tensor for two parameters of which the kernel writes one', () => {
    expect(() => world.prepare(loaded, { ...args, out: args.x }, 0)).toThrow(/out and x are the same memory/)
  })

  it('stops every rank, and tells their records apart', () => {
    world.abort()
    const words = new Uint32Array(control.view)
    const start = (rank: number): number => Number((prepared[rank][4].value as bigint) - control.address) / 4
    expect([words[start(0)], words[start(1)]]).toEqual([1, 1])
    words.set([1, 1, 6, 7], start(0) + 4 + 4 * 3)
    words.set([2, 0, 4, 5], start(1) + 4 + 4 * 3)
    expect(world.waitRecords(emitted)).toEqual([
      { rank: 0, program: 3, site: 'a.ts:1', owner: 1, value: 6, wanted: 7 },
      { rank: 1, program: 3, site: 'a.ts:2', owner: 0, value: 4, wanted: 5 },
    ])
  })
})
