/** Tests the number of attention programs on ranks with different GPUs: all ranks use the same number. */
import { describe, expect } from 'vitest'
import { flashDecode, type FlashDecodeOptions } from '../../src/ops/flashDecode/index.ts'
import type { Driver } from '../../src/targets/cuda/driver.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver } from './fakeDriver.ts'
import { itForSome } from '../long.ts'

const multiprocessorCount = 16

/**
 * Opens a world with one device per rank. Each device has the given number of multiprocessors, with room for one
 * program each.
 */
function open(sms: readonly number[]) {
  const fake = fakeDriver({ sms: sms[0], programsPerSm: 1 })
  const own: Partial<Driver> = {
    cuDeviceGetAttribute: (to, code, device) =>
      Number(code) === multiprocessorCount
        ? void ((to as Int32Array)[0] = sms[Number(device)])
        : fake.driver.cuDeviceGetAttribute(to, code, device),
  }
  const driver = new Proxy(fake.driver, { get: (all, name: keyof Driver) => own[name] ?? all[name] })
  const devices = sms.map((_, index) => new Device(driver, index))
  const world = new CudaWorld(
    { devices, compile: () => new Uint8Array() },
    { ranks: sms.length, heap: 1 << 26 },
  )
  return { world, fake }
}

describe.each([
  ['stream-K', { batch: 1, queryHeads: 100, kvHeads: 100, D: 16, tokens: 2048 }, { splits: 0 }, 0],
  [
    'one split per program',
    { batch: 1, queryHeads: 32, kvHeads: 8, D: 16, tokens: 16_384 },
    { splits: 14 },
    14,
  ],
] as const)('ranks with different GPUs, %s', (_, shape, tiles, splits) => {
  const pairs = [
    [132, 114],
    [114, 132],
  ] as const
  itForSome(pairs, (_, place) => place === 0)('of %i and %i multiprocessors', async (sms) => {
    for (const variant of ['bsp', 'fused-coarse', 'fused'] satisfies FlashDecodeOptions['variant'][]) {
      const { world, fake } = open(sms)
      const operation = flashDecode(world, { shape, dtype: 'bf16', variant, tiles })
      expect(operation.tiles.splits).toBe(splits)
      operation.launch()
      await world.synchronize()
      const attending = fake.launches.filter(({ kernel }) => /Attend|Fused/.test(kernel))
      expect(attending.map(({ grid }) => grid)).toEqual(sms.map(() => (splits > 0 ? 8 * splits : 114)))
      await world.close()
    }
  })
})
