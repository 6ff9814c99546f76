import { afterEach, expect, test, vi } from 'vitest'
import type { Device } from './device.ts'
import { transfersOf } from './transfers.ts'

afterEach(() => vi.restoreAllMocks())

/** A fake device whose stream is idle after `looks` queries. */
function deviceWith(looks: number): { device: Device; calls: string[] } {
  const calls: string[] = []
  const stream = {
    writeWord: (to: bigint, word: number) => calls.push(`${word} at ${to}`),
    copyIn: (to: bigint, from: Uint8Array) => calls.push(`${from.length} bytes to ${to}`),
    startCopyOut: (to: Uint8Array, from: bigint) => calls.push(`${to.length} bytes from ${from}`),
    copy: (to: bigint, from: bigint, bytes: number) => calls.push(`${bytes} bytes from ${from} to ${to}`),
    isIdle: () => --looks <= 0,
  }
  const device = {
    createStream: () => stream,
    allocateHost: (bytes: number) => ({ address: 0n, view: new ArrayBuffer(bytes), free: () => {} }),
  }
  return { device: device as unknown as Device, calls }
}

test('a copy has ended when the call returns', () => {
  const { device, calls } = deviceWith(5)
  const transfers = transfersOf(device)
  transfers.write(16n, 'f32', [1, 2, 3, 4, 5])
  expect(Array.from(transfers.read(16n, 'f32', 2))).toEqual([1, 2])
  transfers.copy(0n, 8n, 4)
  expect(calls).toEqual(['20 bytes to 16', '8 bytes from 16', '4 bytes from 8 to 0'])
})

test('writes a few words without a DMA copy, since kernels may wait for them', () => {
  const { device, calls } = deviceWith(5)
  transfersOf(device).write(16n, 'i32', [7, -1])
  transfersOf(device).write(32n, 'f32', [1])
  expect(calls).toEqual(['7 at 16', '4294967295 at 20', `${0x3f800000} at 32`])
})

test('copies words if the driver does not support writing them directly', () => {
  const { device, calls } = deviceWith(5)
  const [transfers, stream] = [transfersOf(device), device.createStream()]
  const writeWord = vi.spyOn(stream, 'writeWord').mockImplementation(() => {
    throw new Error('CUDA_ERROR_NOT_SUPPORTED')
  })
  transfers.write(16n, 'i32', [7])
  transfers.write(20n, 'i32', [8])
  expect(calls).toEqual(['4 bytes to 16', '4 bytes to 20'])
  expect(writeWord).toHaveBeenCalledTimes(1)
})

test('throws an error if a copy never ends', () => {
  const { device } = deviceWith(Infinity)
  let now = 0
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 1000))
  expect(() => transfersOf(device).write(0n, 'i32', [1])).toThrow('has not ended for 20000 ms')
})
