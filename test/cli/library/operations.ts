/** Uses ready-made operations. This file imports only 'arke/ops' from the package. */
import {
  allGather,
  allGatherGemm,
  allGatherGemmOperation,
  allReduce,
  allToAll,
  barrier,
  barrierKernel,
  broadcast,
  flashDecode,
  flashDecodeOperation,
  gemm,
  gemmKernel,
  gemmTiles,
  oneShotAllReduce,
  reduceScatter,
} from 'arke/ops'

type World = Parameters<typeof barrier>[0]

export const multiply = (world: World) =>
  allGatherGemm(world, {
    shape: { M: 4, N: 8, K: 16 },
    dtype: 'f32',
    shard: 'K',
    variant: 'fused',
  })
export const decode = (world: World) => flashDecode(world, flashDecodeOperation.defaults)
export const contents = (world: World) => [multiply(world).random(1), decode(world).random(1)]
export const inputs = (world: World) => [multiply(world).inputs, decode(world).inputs, decode(world).steps]
export const collectives = (world: World) => {
  const options = { dtype: 'f32', elements: 16 } as const
  return {
    gathered: allGather(world, options),
    reduced: allReduce(world, { ...options, variant: 'oneShot' }),
    scattered: reduceScatter(world, options),
    exchanged: allToAll(world, options),
    sent: broadcast(world, options),
    met: barrier(world),
  }
}
export const kernels = [gemm, gemmKernel('f32'), oneShotAllReduce('bf16'), barrierKernel] as const
export const all = [allGatherGemmOperation, flashDecodeOperation] as const
export const tiling = (world: World) => flashDecodeOperation.tiling(world, flashDecodeOperation.defaults)
export const tiles = (world: World) => gemmTiles(world.machine, { m: 1, n: 2, k: 3, dtype: 'f32' })
