/** Every kernel that Arke ships, as its operations launch it: collectives, products, Flash Decode, what measuring needs, examples. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openWorld } from '../../src/index.ts'
import { load } from '../../src/cli/load.ts'
import type { Kernel, Meta } from '../../src/lang/kernel.ts'
import { allGatherGemmOperation, type AllGatherGemmOptions } from '../../src/ops/allGatherGemm/index.ts'
import { mostInAnyOrder } from '../../src/ops/allGatherGemm/fusedByShard.ts'
import * as collectives from '../../src/ops/collectives/index.ts'
import { flashDecodeOperation, type FlashDecodeOptions } from '../../src/ops/flashDecode/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { operandDTypes, type OperandDType } from '../../src/ops/operation.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { Gate } from '../../src/runs/gate.ts'
import { readBandwidth } from '../../src/runs/bandwidth.ts'
import { argumentOf } from '../../src/world/arguments.ts'
import { intercepted } from '../../src/world/intercept.ts'
import type { Launch, World } from '../../src/world/world.ts'
import { paperMachine, paperWorld } from './paperWorld.ts'

export type GoldenTarget = 'cuda' | 'native' | 'wasm'

/** A kernel as it is launched. */
export interface Launched {
  /** Without blanks. */
  readonly name: string
  readonly kernel: Pick<Kernel, 'record'>
  readonly ranks: number
  readonly meta: Meta | undefined
  readonly shapes: Readonly<Record<string, readonly number[]>>
  /** Parameters that are packed, on a CPU. */
  readonly packed: readonly string[]
  /** All combinations of facts are of interest. */
  readonly isThorough: boolean
}

const worldSizes = [1, 2, 4, 8]

/** What `use` launches on a world of the target; `name` says what that was. */
async function launched(
  name: string,
  target: GoldenTarget,
  ranks: number,
  isThorough: boolean,
  use: (world: World) => unknown,
): Promise<Launched[]> {
  const { world, launches } = paperWorld(target, ranks)
  await use(world)
  return launches.map((launch) => ({
    ...asLaunched(`${name}/${launch.kernel.name}`, ranks, launch),
    isThorough,
  }))
}

function asLaunched(name: string, ranks: number, { kernel, args, options }: Launch): Launched {
  const given = Object.entries(args).map(([param, value]) => [param, argumentOf(value, 0)] as const)
  const tensors = given.flatMap(([param, value]) => {
    const { kind, shape } = value as { readonly kind?: string; readonly shape?: readonly number[] }
    return kind === 'tensor' || kind === 'packed' ? [[param, kind, shape!] as const] : []
  })
  return {
    name,
    kernel,
    ranks,
    meta: options.meta as Meta | undefined,
    shapes: Object.fromEntries(tensors.map(([param, , shape]) => [param, shape])),
    packed: tensors.flatMap(([param, kind]) => (kind === 'packed' ? [param] : [])),
    isThorough: false,
  }
}

type Point<Options> = Omit<Options, 'shape' | 'dtype' | 'tiles'>

/** The variants of All-Gather + GEMM with the options that choose among their kernels. */
function productPoints(target: GoldenTarget, ranks: number, dtype: OperandDType, M: number) {
  const points: Record<string, Point<AllGatherGemmOptions>> = {}
  for (const shard of ['K', 'M'] as const) {
    points[`bsp-${shard}`] = { variant: 'bsp', shard }
    points[`pull-${shard}`] = { variant: 'pull', shard, staged: false }
    points[`push-${shard}`] = { variant: 'push', shard, ...(target !== 'cuda' && { ownFirst: false }) }
    const tile = { variant: 'fused', shard, flagPer: 'tile' } as const
    points[`fused-${shard}`] = { ...tile, ...(target !== 'cuda' && { ownFirst: false }) }
    points[`fused-${shard}-senders`] = { ...tile, senders: 2, ...(target !== 'cuda' && { ownFirst: false }) }
    if (target !== 'cuda' && (shard === 'K' ? dtype === 'f32' : M <= 8))
      for (const variant of ['push', 'fused'] as const)
        points[`${variant}-${shard}-own-first`] = { variant, shard, ownFirst: true }
  }
  points['pull-K-staged'] = { variant: 'pull', shard: 'K', staged: true }
  points['fused-K-by-shard'] = { variant: 'fused', shard: 'K', flagPer: 'shard', inOrder: true }
  if (ranks <= mostInAnyOrder)
    points['fused-K-any-order'] = { variant: 'fused', shard: 'K', flagPer: 'shard', inOrder: false }
  return points
}

function decodePoints(target: GoldenTarget) {
  const points: Record<string, Point<FlashDecodeOptions>> = {}
  const plain = { owners: false, fetching: false, ...(target !== 'cuda' && { stealing: false }) }
  for (const variant of flashDecodeOperation.variants) points[variant] = { variant, ...plain }
  points['fused-owners'] = { ...plain, variant: 'fused', owners: true }
  points['fused-fetching'] = { ...plain, variant: 'fused', fetching: true }
  if (target !== 'cuda') points['fused-stealing'] = { ...plain, variant: 'fused', stealing: true }
  return points
}

async function operations(target: GoldenTarget, ranks: number, dtype: OperandDType): Promise<Launched[]> {
  const all: Launched[] = []
  const isThorough = ranks === 2 && dtype === 'bf16'
  for (const M of [8, ...(isThorough ? [1000, 1024] : [])]) {
    const shape = M === 1000 ? { M, N: 1000, K: 1000 } : { M, N: 1024, K: 2048 }
    for (const [point, options] of Object.entries(productPoints(target, ranks, dtype, M))) {
      // Packed weights are a CPU's, whatever the ranks.
      for (const pack of target === 'cuda' || ranks !== 2 ? [false] : [false, true]) {
        const name = `allGatherGemm/${point}/${dtype}/M=${M}${pack ? '/packed' : ''}`
        const made = await launched(name, target, ranks, isThorough && M === 8, async (world) => {
          const given = { ...options, shape, dtype }
          const [tiles] = allGatherGemmOperation.tiling(world, given).candidates()
          const operation = allGatherGemmOperation.make(world, { ...given, tiles })
          if (pack) await operation.pack()
          operation.launch()
        })
        all.push(...(pack ? made.filter(({ packed }) => packed.length > 0) : made))
      }
    }
  }
  const shapes = [
    { batch: 2, queryHeads: 16, kvHeads: 2, D: 128, tokens: 4096 },
    ...(isThorough ? [{ batch: 1, queryHeads: 64, kvHeads: 1, D: 128, tokens: 1001 }] : []),
  ]
  for (const [point, options] of Object.entries(decodePoints(target)))
    for (const shape of shapes)
      for (const splits of [1, ...(isThorough && target === 'cuda' ? [0] : [])]) {
        const name = `flashDecode/${point}/${dtype}/tokens=${shape.tokens}${splits === 0 ? '/even-shares' : ''}`
        all.push(
          ...(await launched(name, target, ranks, isThorough && shape === shapes[0], (world) => {
            const given = { ...options, shape, dtype }
            const [first] = flashDecodeOperation.tiling(world, given).candidates()
            flashDecodeOperation.make(world, { ...given, tiles: { ...first, splits } }).launch()
          })),
        )
      }
  return all
}

async function ofCollectives(target: GoldenTarget, ranks: number, dtype: OperandDType): Promise<Launched[]> {
  const all: Launched[] = []
  for (const elements of ranks === 2 ? [1 << 20, 1001] : [1 << 20]) {
    const options = { dtype, elements }
    const one = (world: World) => world.empty(dtype, [elements])
    const each = (world: World) => world.empty(dtype, [ranks, elements])
    const uses: Record<string, (world: World) => void> = {
      allGather: (world) => collectives.allGather(world, options).launch(one(world), each(world)),
      allToAll: (world) => collectives.allToAll(world, options).launch(each(world), each(world)),
      broadcast: (world) => collectives.broadcast(world, options).launch(one(world), 0),
      reduceScatter: (world) => collectives.reduceScatter(world, options).launch(each(world), one(world)),
    }
    for (const variant of ['oneShot', 'twoShot', 'ring'] as const)
      uses[`allReduce-${variant}`] = (world) =>
        collectives.allReduce(world, { ...options, variant }).launch(one(world))
    for (const [collective, use] of Object.entries(uses)) {
      const name = `collectives/${collective}/${dtype}/elements=${elements}`
      all.push(...(await launched(name, target, ranks, ranks === 2 && elements !== 1001, use)))
    }
  }
  return all
}

/** Products on one rank, and what measuring launches. */
async function others(target: GoldenTarget, ranks: number): Promise<Launched[]> {
  const all: Launched[] = []
  const use = async (name: string, how: (world: World) => unknown): Promise<void> => {
    all.push(...(await launched(name, target, ranks, ranks === 2, how)))
  }
  for (const dtype of operandDTypes)
    for (const m of [8, 1024]) {
      const { BM, BN, BK, stages } = gemmTiles(paperMachine(target, 1), { m, n: 1024, k: 2048, dtype })
      const options = { grid: 16, meta: { BM, BN, BK, stages } }
      const matrices = (world: World) => ({
        a: world.empty(dtype, [m, 2048]),
        b: world.empty(dtype, [2048, 1024]),
        c: world.empty(dtype, [m, 1024]),
      })
      if (ranks > 2) continue
      await use(`gemm/${dtype}/M=${m}`, (world) => world.launch(gemmKernel(dtype), matrices(world), options))
    }
  await use('collectives/barrier', (world) => collectives.barrier(world).launch())
  for (const spin of [true, false])
    await use(`measuring/${spin ? 'spinning' : 'sleeping'}`, async (world) => {
      await readBandwidth(world, () => 0, spin, 1 << 24)
      const gate = new Gate(world, world.stream(), () => 0, spin)
      const delayed = await gate.delaying(0, 1000)
      delayed({ launches: 0, launch: () => {} }).launch()
    })
  return all
}

/** What a target runs of the shipped operations, on worlds of every size. */
export async function shippedLaunches(target: GoldenTarget): Promise<Launched[]> {
  const all: Launched[] = []
  for (const ranks of worldSizes) {
    for (const dtype of operandDTypes)
      all.push(...(await operations(target, ranks, dtype)), ...(await ofCollectives(target, ranks, dtype)))
    all.push(...(await others(target, ranks)))
  }
  return all
}

/** The kernels of the examples, as their scenarios launch them and with their own meta-parameters. */
export async function exampleLaunches(root: string): Promise<Launched[]> {
  const all: Launched[] = []
  const folder = join(root, 'examples')
  const files = readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name))
  for (const file of files.sort()) {
    const { kernels, scenarios } = await load(join(folder, file))
    const name = `examples/${file.replace(/\.ts$/, '')}`
    for (const kernel of kernels)
      for (const ranks of [2, 4])
        all.push({
          ...{ name: `${name}/${kernel.name}`, kernel, ranks, meta: undefined },
          ...{ shapes: {}, packed: [], isThorough: ranks === 2 },
        })
    for (const scenario of scenarios)
      for (const ranks of scenario.ranks) {
        const world = await openWorld({ target: 'check', ranks })
        const watched = intercepted(world, (launches, go) => {
          go()
          for (const one of launches) all.push(asLaunched(`${name}/${one.kernel.name}/launched`, ranks, one))
        })
        await scenario.run(watched)
        await world.close()
      }
  }
  return all
}
