/**
 * Tests which kernel the variant `fused` of Flash Decode uses, depending on the number of GPUs, the number of tiles and
 * the options.
 */
import { expect, it } from 'vitest'
import { flashDecode, type FlashDecodeOptions } from '../../src/ops/flashDecode/index.ts'
import type { Driver } from '../../src/targets/cuda/driver.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver } from './fakeDriver.ts'
import { itForSome } from '../long.ts'

const few = { batch: 1, queryHeads: 12, kvHeads: 3, D: 16, tokens: 256 }
const many = { ...few, batch: 4 }

async function kernelsOf(devices: number, shape: typeof few, options: Partial<FlashDecodeOptions>) {
  const fake = fakeDriver({ sms: 132, programsPerSm: 1 })
  const own: Partial<Driver> = { cuDeviceCanAccessPeer: (to) => void ((to as Int32Array)[0] = 1) }
  const driver = new Proxy(fake.driver, { get: (all, name: keyof Driver) => own[name] ?? all[name] })
  const world = new CudaWorld(
    {
      devices: Array.from({ length: devices }, (_, index) => new Device(driver, index)),
      compile: () => new Uint8Array(),
    },
    { ranks: 2, heap: 1 << 26 },
  )
  try {
    const operation = flashDecode(world, { shape, dtype: 'bf16', variant: 'fused', ...options })
    operation.launch()
    await world.synchronize()
    const kernels = fake.launches.map(({ kernel }) => kernel.replace('flashDecodeFused', ''))
    return { kernels: [...new Set(kernels)], remoteBytes: operation.traffic.remoteBytes }
  } finally {
    await world.close()
  }
}

const choices = [
  ['few tiles on one GPU', 1, few, {}, 'Fetching'],
  ['few tiles on one GPU, into inboxes', 1, few, { fetching: false }, 'ForAll'],
  ['few tiles on two GPUs', 2, few, {}, 'ForAll'],
  ['few tiles on two GPUs, fetching', 2, few, { fetching: true }, 'Fetching'],
  ['many tiles on one GPU', 1, many, {}, 'ByOwner'],
  ['many tiles on two GPUs', 2, many, {}, 'ByOwner'],
  ['many tiles on one GPU, without owners', 1, many, { owners: false }, 'Fetching'],
  ['many tiles on one GPU, into inboxes', 1, many, { owners: false, fetching: false }, 'ForAll'],
  ['many tiles on one GPU, fetching', 1, many, { fetching: true }, 'Fetching'],
  ['few tiles on one GPU, with owners', 1, few, { owners: true }, 'ByOwner'],
] as const
itForSome(choices, (_, place) => place % 3 === 0)('%s', async ([, devices, shape, options, kernel]) => {
  expect((await kernelsOf(devices, shape, options)).kernels).toEqual([kernel])
})

it('fetching and owners exclude each other', async () => {
  await expect(kernelsOf(1, few, { fetching: true, owners: true })).rejects.toThrow(
    'fetching and owners exclude each other',
  )
})

it('counts the maxima twice as remote bytes when ranks fetch partial results', async () => {
  const [pushed, fetched] = await Promise.all(
    [false, true].map((fetching) => kernelsOf(1, few, { fetching, tiles: { splits: 2 } })),
  )
  expect(pushed.remoteBytes).toBe(2 * 3 * 4 * (16 + 2) * 4)
  expect(fetched.remoteBytes).toBe(2 * 3 * 4 * (16 + 3) * 4)
})
