/** The tensors that operators read and write, in bytes, and the tensors that cannot be known. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deviceMemory } from '../../src/taxes/devices.ts'
import { elementType } from '../../src/taxes/dtypes.ts'
import { communicationTraffic, productShape, trafficOf } from '../../src/taxes/shapes.ts'

const half = 'c10::BFloat16'
type Shapes = number[][]
const bytes = (operator: string, shapes: Shapes, types: string[]): [number[], number[]] | null => {
  const traffic = trafficOf(operator, { shapes, types })
  return traffic && [traffic.reads.map((one) => one.bytes), traffic.writes.map((one) => one.bytes)]
}

describe('operators', () => {
  it.each<[string, Shapes, string[], [number[], number[]]]>([
    [
      'aten::mm',
      [
        [4, 8],
        [8, 16],
      ],
      [half, half],
      [[64, 256], [128]],
    ],
    [
      'aten::addmm',
      [[16], [4, 8], [8, 16], [], []],
      [half, half, half, 'Scalar', 'Scalar'],
      [[32, 64, 256], [128]],
    ],
    [
      'aten::bmm',
      [
        [3, 4, 8],
        [3, 8, 2],
      ],
      ['float', 'float'],
      [[384, 192], [96]],
    ],
    [
      'aten::baddbmm',
      [
        [3, 4, 2],
        [3, 4, 8],
        [3, 8, 2],
      ],
      ['float', 'float', 'float'],
      [[96, 384, 192], [96]],
    ],
    ['aten::linear', [[2, 4, 8], [16, 8], [16]], [half, half, half], [[128, 256, 32], [256]]],
    [
      'aten::matmul',
      [
        [2, 1, 4, 8],
        [3, 8, 5],
      ],
      ['float', 'float'],
      [[256, 480], [480]],
    ],
    ['aten::add', [[4, 1], [8], []], ['float', 'float', 'Scalar'], [[16, 32], [128]]],
    ['aten::add', [[4, 8], [8]], [half, 'float'], [[64, 32], [128]]],
    ['aten::add', [[4], [4]], [half, 'c10::Half'], [[8, 8], [16]]],
    ['aten::mul', [[4], []], [half, 'double'], [[8, 8], [8]]],
    ['aten::add_', [[4, 8], [8]], [half, 'float'], [[64, 32], [64]]],
    [
      'aten::eq',
      [
        [4, 8],
        [4, 8],
      ],
      ['long int', 'long int'],
      [[256, 256], [32]],
    ],
    ['aten::where', [[4, 8], [4, 8], []], ['bool', half, half], [[32, 64, 2], [64]]],
    ['aten::gelu', [[4, 8], []], [half, ''], [[64], [64]]],
    ['aten::silu', [[4, 8]], ['c10::Half'], [[64], [64]]],
    ['aten::relu_', [[4, 8]], ['float'], [[128], [128]]],
    ['aten::native_dropout', [[4, 8], [], []], [half, 'Scalar', 'Scalar'], [[64], [64, 32]]],
    ['aten::_softmax', [[4, 8], [], []], ['float', 'Scalar', 'Scalar'], [[128], [128]]],
    [
      'aten::native_layer_norm',
      [[4, 8], [], [8], [8]],
      [half, 'ScalarList', half, half],
      [[64, 16, 16], [64]],
    ],
    [
      'aten::embedding',
      [
        [1000, 8],
        [2, 3],
      ],
      [half, 'long int'],
      [[48], [96]],
    ],
    ['aten::copy_', [[4, 8], [4, 8], []], ['float', half, 'Scalar'], [[64], [128]]],
    ['aten::fill_', [[4, 8], []], [half, 'Scalar'], [[], [64]]],
    [
      'aten::_scaled_dot_product_flash_attention',
      [
        [2, 4, 16, 8],
        [2, 4, 32, 8],
        [2, 4, 32, 8],
      ],
      [half, half, half],
      [[2048, 4096, 4096], [2048]],
    ],
    ['_C::rms_norm', [[4, 8], [4, 8], [8], []], [half, half, half, 'Scalar'], [[64, 16], [64]]],
    [
      '_C::fused_add_rms_norm',
      [[4, 8], [4, 8], [8]],
      [half, half, half],
      [
        [64, 64, 16],
        [64, 64],
      ],
    ],
    [
      '_C::silu_and_mul',
      [
        [4, 8],
        [4, 16],
      ],
      [half, half],
      [[128], [64]],
    ],
    [
      'c10d::_allgather_base_',
      [
        [8, 5],
        [1, 5],
      ],
      [half, half],
      [[10], [80]],
    ],
  ])('%s', (operator, shapes, types, expected) => {
    expect(bytes(operator, shapes, types)).toEqual(expected)
  })

  it('leave out tensors that the shapes do not determine', () => {
    expect(bytes('aten::mean', [[4, 8], [], []], [half, 'ScalarList', 'Scalar'])).toEqual([[64], []])
    expect(bytes('aten::to', [[4, 8], []], [half, 'Scalar'])).toEqual([[64], []])
    expect(bytes('aten::_softmax', [[4, 8], [], []], [half, 'Scalar', 'Scalar'])).toEqual([[64], []])
    expect(bytes('aten::exp', [[4]], ['long int'])).toEqual([[32], []])
    expect(
      bytes(
        'aten::miopen_convolution',
        [
          [1, 3, 8, 8],
          [4, 3, 3, 3],
        ],
        [half, half],
      ),
    ).toEqual([[384, 216], []])
  })

  it('without a rule are unknown', () => {
    expect(bytes('aten::_foreach_add_', [[4], [4]], ['TensorList', 'TensorList'])).toBeNull()
    expect(bytes('aten::cat', [[4], [4], []], ['TensorList', 'TensorList', 'Scalar'])).toBeNull()
    expect(
      bytes(
        'mine::mm',
        [
          [4, 8],
          [8, 16],
        ],
        [half, half],
      ),
    ).toBeNull()
    expect(
      bytes(
        'aten::mm',
        [
          [4, 8],
          [8, 16],
        ],
        ['quantized', half],
      ),
    ).toBeNull()
    expect(bytes('aten::add', [[], []], ['Scalar', 'Scalar'])).toBeNull()
    const damaged = Array<number>(30).fill(2 ** 50)
    expect(bytes('aten::relu', [damaged], [half])).toBeNull()
    expect(bytes('aten::add', [damaged, [4]], [half, half])).toEqual([[8], []])
    expect(bytes('aten::constructor', [[4]], [half])).toBeNull()
  })

  it('extents that do not fit have no result', () => {
    expect(bytes('aten::add', [[4], [5]], [half, half])).toEqual([[8, 10], []])
    expect(productShape([4, 8], [7, 16])).toBeNull()
    expect(productShape([4, 8], [16, 7], true)).toBeNull()
    expect(productShape([8], [8])).toEqual([])
    expect(productShape([3, 4, 8], [8])).toEqual([3, 4])
  })

  it('an operation of any tensors is at least as large as each of them', () => {
    const extents = fc.array(fc.constantFrom(1, 3), { maxLength: 4 })
    fc.assert(
      fc.property(extents, extents, (a, b) => {
        const traffic = trafficOf('aten::add', { shapes: [a, b], types: ['float', 'float'] })
        const rank = Math.max(a.length, b.length)
        const padded = [a, b].map((shape) => [...Array<number>(rank - shape.length).fill(1), ...shape])
        const expected = padded[0].reduce((product, extent, i) => product * Math.max(extent, padded[1][i]), 4)
        expect(traffic?.writes.map((one) => one.bytes)).toEqual([expected])
      }),
      { seed: 11 },
    )
  })
})

describe('types', () => {
  it.each<[string, number | undefined]>([
    ['c10::BFloat16', 2],
    ['BFloat16', 2],
    ['c10::Half', 2],
    ['Float', 4],
    ['double', 8],
    ['long int', 8],
    ['long', 8],
    ['int', 4],
    ['signed char', 1],
    ['unsigned char', 1],
    ['bool', 1],
    ['c10::Float8_e4m3fn', 1],
    ['c10::Float8_e5m2', 1],
    ['c10::complex<float>', 8],
    ['Scalar', undefined],
    ['TensorList', undefined],
    ['', undefined],
    ['toString', undefined],
  ])('%s', (name, size) => {
    expect(elementType(name)?.bytes).toBe(size)
  })

  it('messages', () => {
    const message = {
      collective: 'allGather',
      library: 'nccl',
      group: null,
      groupDescription: null,
      groupRanks: null,
      groupSize: 4,
      communicator: null,
      dtype: 'BFloat16',
      elementsIn: 100,
      elementsOut: 400,
      source: null,
      destination: null,
    }
    const sizes = (of: typeof message) => {
      const traffic = communicationTraffic(of)
      return traffic && [traffic.reads.map((one) => one.bytes), traffic.writes.map((one) => one.bytes)]
    }
    expect(sizes(message)).toEqual([[200], [800]])
    expect(sizes({ ...message, elementsIn: 0 })).toEqual([[], [800]])
    expect(sizes({ ...message, dtype: 'Unknown' })).toBeNull()
  })
})

describe('devices', () => {
  it.each<[string, number, number]>([
    ['NVIDIA A100-SXM4-40GB', 1555e9, 40],
    ['NVIDIA A100-PG509-200', 1555e9, 40],
    ['NVIDIA A100-SXM4-80GB', 2039e9, 40],
    ['NVIDIA A100 80GB PCIe', 1935e9, 40],
    ['NVIDIA H100 80GB HBM3', 3350e9, 50],
    ['NVIDIA H100 PCIe', 2000e9, 50],
    ['NVIDIA H200', 4800e9, 50],
    ['NVIDIA B200', 8000e9, 126],
    ['NVIDIA L40S', 864e9, 96],
    ['NVIDIA A10', 600e9, 6],
    ['Tesla V100-SXM2-16GB', 900e9, 6],
    ['NVIDIA GeForce RTX 4090', 1008e9, 72],
    ['AMD Instinct MI250X', 1638e9, 8],
    ['AMD Instinct MI300X', 5300e9, 256],
  ])('%s', (name, bandwidth, mebibytes) => {
    expect(deviceMemory(name)).toEqual({ bandwidth, cache: mebibytes * 2 ** 20 })
  })

  it('others are unknown', () => {
    expect(deviceMemory('AMD Radeon Graphics')).toBeNull()
    expect(deviceMemory('NVIDIA Z1000')).toBeNull()
  })
})
