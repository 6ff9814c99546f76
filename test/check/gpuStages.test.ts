/**
 * Runs kernels in their last IR stage for a GPU in the checker: accesses by asynchronous engines, flag-in-data words,
 * and kernels from which one inserted op was removed.
 */
import { describe, expect, it } from 'vitest'
import { f16, f32, flags, i32, kernel, scenario, tensor, type Scenario } from 'arke'
import { expectClose } from '../../src/world/world.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import type { OpName } from '../../src/ir/ops/index.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { print } from '../../src/ir/print.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { marked, unmarked } from '../../src/targets/check/words.ts'
import { marksOf } from '../../src/ir/ops/index.ts'
import { atStage, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { decide } from '../../src/targets/cuda/emit/decide.ts'
import { describeDecisions } from '../../src/targets/cuda/emit/describe.ts'
import { renderCuda } from '../../src/targets/cuda/emit/emit.ts'
import { irStageNames } from '../../src/targets/stages.ts'

type Change = (ir: KernelIR) => KernelIR
const same: Change = (ir) => ir

/** The kernel without its n-th op of a kind, or without all ops of that kind. */
const without =
  (op: OpName, nth?: number): Change =>
  (ir) => {
    let count = 0
    const copier = new Copier((node) =>
      node.op === op && (nth === undefined || count++ === nth) ? 'drop' : undefined,
    )
    return { ...ir, body: copier.copyBlock(ir.body) }
  }

/** Returns the kernel without the ops `op` that are directly in the block of an op `around`. */
const withoutIn =
  (around: OpName, op: OpName): Change =>
  (ir) => {
    const inside = new Set(
      [...walk(ir.body)].filter((node) => node.op === around).flatMap(({ blocks }) => blocks[0].nodes),
    )
    const copier = new Copier((node) => (node.op === op && inside.has(node) ? 'drop' : undefined))
    return { ...ir, body: copier.copyBlock(ir.body) }
  }

async function kinds(subject: Scenario, change: Change = same, stage = 'order'): Promise<string[]> {
  const form = (recorded: KernelIR, shapes: Shapes): KernelIR =>
    change(atStage(recorded, stage, specialise(usualWorld, shapes)))
  const { findings } = await explore(subject, { ranks: subject.ranks[0], stage: form, schedules: 6 })
  return [...new Set(findings.map(({ kind }) => kind))]
}

const ops = (subject: KernelIR): string[] => [...walk(subject.body)].map(({ op }) => op)

/** A kernel in which the matrix unit multiplies a tile that threads have filled. */
const staged = kernel('staged', { x: tensor(f16, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
  const tile = t.shared(f16, [64, 64])
  t.store(tile, t.load(x.tile([0, 0], [64, 64])))
  t.store(y.tile([0, 0], [64, 64]), t.dot(tile, tile, t.zeros(f32, [64, 64])))
})

const product = scenario('product', { ranks: 1 }, async (world) => {
  const [x, y] = [world.zeros(f16, [64, 64]), world.empty(f32, [64, 64])]
  world.launch(staged, { x, y }, { grid: 1 })
  await world.read(y, 0)
})

/**
 * A kernel in which the TMA stores a tile on another rank and signals a flag. The TMA of the other rank then reads the
 * tile.
 */
const sent = kernel(
  'sent',
  { x: tensor(f16, 2), inbox: tensor(f16, 2), y: tensor(f32, 2), told: flags() },
  (t, { x, inbox, y, told }) => {
    const peer = t.rank.add(1).mod(t.world)
    const loaded = t.load(x.tile([0, 0], [64, 64]))
    const unit = t.dot(loaded, t.load(x.tile([0, 0], [64, 64])), t.zeros(f32, [64, 64]))
    t.store(inbox.on(peer).tile([0, 0], [64, 64]), unit.to(f16))
    t.signal(told.on(peer))
    const tile = t.shared(f16, [64, 64])
    t.wait(told)
    const sum = t.pipeline([1], t.zeros(f32, [64, 64]), ([k], acc) => {
      t.copy(inbox.tile([0, k], [64, 64]), tile)
      return t.dot(tile, tile, acc)
    })
    t.store(y.tile([0, 0], [64, 64]), sum)
  },
)

/** A kernel like `sent`, in which threads store the data, because the TMA cannot copy single numbers. */
const written = kernel(
  'written',
  { inbox: tensor(f16, 2), y: tensor(f32, 2), told: flags() },
  (t, { inbox, y, told }) => {
    const peer = t.rank.add(1).mod(t.world)
    t.for(64, (i) => t.for(64, (j) => t.store(inbox.on(peer).at([i, j]), t.constant(f16, 1))))
    t.signal(told.on(peer))
    const tile = t.shared(f16, [64, 64])
    t.wait(told)
    const sum = t.pipeline([1], t.zeros(f32, [64, 64]), ([k], acc) => {
      t.copy(inbox.tile([0, k], [64, 64]), tile)
      return t.dot(tile, tile, acc)
    })
    t.store(y.tile([0, 0], [64, 64]), sum)
  },
)

const exchanged = scenario('exchanged', { ranks: 2 }, async (world) => {
  const [x, y] = [world.zeros(f16, [64, 64]), world.empty(f32, [64, 64])]
  world.launch(sent, { x, y, inbox: world.zeros(f16, [64, 64]), told: world.flags([]) }, { grid: 1 })
  await world.read(y, 0)
})

const filled = scenario('filled', { ranks: 2 }, async (world) => {
  const y = world.empty(f32, [64, 64])
  world.launch(written, { y, inbox: world.zeros(f16, [64, 64]), told: world.flags([]) }, { grid: 1 })
  await world.read(y, 0)
})

/** A kernel in which the TMA stores tiles of one box, one after another, through the same staging buffer. */
const single = kernel('single', { x: tensor(f16, 2), y: tensor(f16, 2) }, (t, { x, y }) => {
  const tile = t.shared(f16, [64, 64])
  t.store(tile, t.load(x.tile([0, 0], [64, 64])))
  const unit = t.dot(tile, tile, t.zeros(f32, [64, 64])).to(f16)
  t.for(3, (i) => t.store(y.tile([0, i], [64, 64]), unit))
})

const oneBox = scenario('one box', { ranks: 1 }, async (world) => {
  const [x, y] = [world.zeros(f16, [64, 64]), world.empty(f16, [64, 192])]
  world.launch(single, { x, y }, { grid: 1 })
  await world.read(y, 0)
})

/** A kernel in which the TMA stores a tile of four boxes through two staging buffers. */
const wide = kernel('wide', { x: tensor(f16, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
  const tile = t.shared(f16, [64, 64])
  const right = t.shared(f16, [64, 128])
  t.store(tile, t.load(x.tile([0, 0], [64, 64])))
  t.store(right, t.load(x.tile([0, 0], [64, 128])))
  t.store(y.tile([0, 0], [64, 128]), t.dot(tile, right, t.zeros(f32, [64, 128])))
})

const boxed = scenario('boxed', { ranks: 1 }, async (world) => {
  const [x, y] = [world.empty(f16, [64, 128]), world.empty(f32, [64, 128])]
  world.write(
    x,
    0,
    Float32Array.from({ length: 64 * 128 }, (_, i) => (i % 7) - 3),
  )
  world.launch(wide, { x, y }, { grid: 1 })
  const [a, c] = [await world.read(x, 0), await world.read(y, 0)]
  const at = (i: number, k: number): number => Number(a[i * 128 + k])
  const sum = (i: number, j: number): number => {
    let total = 0
    for (let k = 0; k < 64; k++) total += at(i, k) * at(k, j)
    return total
  }
  expectClose(
    c,
    Float32Array.from({ length: 64 * 128 }, (_, i) => sum(Math.floor(i / 128), i % 128)),
  )
})

/** Threads read each tile before the TMA refills its buffer. */
const read = kernel('read', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
  const tile = t.shared(f32, [16, 16])
  const sum = t.pipeline(
    [6],
    t.zeros(f32, [16, 16]),
    ([k], acc) => {
      t.copy(x.tile([0, k], [16, 16]), tile)
      return acc.add(t.load(tile))
    },
    { stages: 2 },
  )
  t.store(y.tile([0, 0], [16, 16]), sum)
})

const refilled = scenario('refilled', { ranks: 1 }, async (world) => {
  const [x, y] = [world.zeros(f32, [16, 96]), world.empty(f32, [16, 16])]
  world.launch(read, { x, y }, { grid: 1 })
  await world.read(y, 0)
})

/** The matrix unit reads a ring of two slots, which the TMA refills. */
const ringed = kernel('ringed', { x: tensor(f16, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
  const [a, b] = [t.shared(f16, [64, 16]), t.shared(f16, [16, 32])]
  const sum = t.pipeline(
    [4],
    t.zeros(f32, [64, 32]),
    ([k], acc) => {
      t.copy(x.tile([0, k], [64, 16]), a)
      t.copy(x.tile([k, 0], [16, 32]), b)
      return t.dot(a, b, acc)
    },
    { stages: 2 },
  )
  t.store(y.tile([0, 0], [64, 32]), sum)
})

const inFlight = scenario('products in flight', { ranks: 1 }, async (world) => {
  const [x, y] = [world.zeros(f16, [64, 64]), world.empty(f32, [64, 32])]
  world.launch(ringed, { x, y }, { grid: 1 })
  await world.read(y, 0)
})

/**
 * A kernel that sends the maximum of each row to all ranks, which sum the maxima. In this kernel, words that hold data
 * and an epoch (flag-in-data) replace the flags.
 */
const carrying = kernel(
  'carrying',
  { x: tensor(f32, 2), inbox: tensor(f32, 3, { carries: 'told' }), y: tensor(f32, 1), told: flags(1) },
  (t, { x, inbox, y, told }) => {
    const slot = t.epoch(told).mod(2).to('i32')
    const largest = t.load(x.tile([0, 0], [16, 16])).maximum(1)
    t.for(t.world, (rank) => t.store(inbox.on(rank).pick(slot).pick(t.rank).tile([0], [16]), largest))
    t.for(t.world, (rank) => t.signal(told.on(rank).at([t.rank])))
    t.for(t.world, (rank) => t.wait(told.at([rank])))
    const sum = t.for(t.world, largest.mul(0), (rank, acc) =>
      acc.add(t.load(inbox.pick(slot).pick(rank).tile([0], [16]))),
    )
    t.store(y.tile([0], [16]), sum)
  },
)

const words = scenario('words', { ranks: 3 }, async (world) => {
  const [x, y] = [world.empty(f32, [16, 16]), world.empty(f32, [16])]
  const args = { x, y, inbox: world.zeros(f32, [2, 3, 16]), told: world.flags([3]) }
  for (let rank = 0; rank < 3; rank++) world.write(x, rank, new Float32Array(256).fill(1 + rank))
  for (let launch = 0; launch < 5; launch++) world.launch(carrying, args, { grid: 1 })
  for (let rank = 0; rank < 3; rank++) expectClose(await world.read(y, rank), new Float32Array(16).fill(6))
})

describe('engines', () => {
  it.each([
    ['a product of what threads stored', product],
    ['copies of what an engine stored', exchanged],
    ['copies of what threads stored', filled],
    ['tiles that threads read', refilled],
    ['stores of one box each', oneBox],
  ])('are in order with threads: %s', async (_, subject) => {
    for (const stage of irStageNames('cuda')) expect(await kinds(subject, same, stage), stage).toEqual([])
  })

  it('need a fence before they read data that threads stored in shared memory', async () => {
    expect(await kinds(product, without('fence.async'))).toEqual(['race'])
  })

  it('need a fence before they read data that threads stored in a tensor', async () => {
    const fences = 4
    const found = await Promise.all(
      Array.from({ length: fences }, (_, nth) => kinds(filled, without('fence.async', nth))),
    )
    expect(found).toContainEqual(['race'])
  })

  it('need a fence before they overwrite data that threads have read', async () => {
    expect(await kinds(refilled, without('fence.async'))).toEqual(['race'])
  })

  it('need a fence before they read operands that were in registers', async () => {
    const withoutFences: Change = (ir) => {
      const staged = new Set([...walk(ir.body)].filter(({ op }) => op === 'operands'))
      let last: Node | undefined
      const copier = new Copier((node) => {
        const isOfOperands = node.op === 'fence.async' && staged.has(last!)
        last = node
        return isOfOperands ? 'drop' : undefined
      })
      return { ...ir, body: copier.copyBlock(ir.body) }
    }
    expect(await kinds(exchanged, withoutFences)).toEqual(['race'])
  })

  it('read staging before threads fill it again', async () => {
    const isOf =
      (pending: number | undefined): Change =>
      (ir) => {
        const copier = new Copier(({ op, attributes }) =>
          op === 'drain' && attributes.of === 'reads' && attributes.pending === pending ? 'drop' : undefined,
        )
        return { ...ir, body: copier.copyBlock(ir.body) }
      }
    // If a TMA store has an odd number of boxes, its last box and the next store's first box share a staging buffer.
    expect(await kinds(oneBox, isOf(undefined))).toEqual(['race'])
    expect(await kinds(boxed, isOf(1))).toEqual(['race'])
  })

  it('need a fence before they read staging that threads filled', async () => {
    expect(await kinds(boxed)).toEqual([])
    expect(await kinds(boxed, withoutIn('boxes', 'fence.async'))).toEqual(['race'])
  })

  it('fill and read staging after a thread barrier, which the verifier checks', () => {
    const shapes = { x: [64, 128], y: [64, 128] }
    const ir = atStage(wide.record({ world: 1 }), 'order', specialise(usualWorld, shapes))
    const meets = [...walk(ir.body)].filter(({ op }) => op === 'meet')
    const ofWarpgroup = meets.flatMap(({ attributes }, nth) => (attributes.of === 'warpgroup' ? [nth] : []))
    expect(ofWarpgroup.length).toBe(2)
    const [beforeStage, afterStage] = ofWarpgroup.map((nth) => () => without('meet', nth)(ir))
    expect(beforeStage).toThrow('needs a meet of a warpgroup between drain and stage')
    expect(afterStage).toThrow('needs a meet of a warpgroup between stage and store.box')
  })

  it('must have completed a store before its flag is signalled', async () => {
    expect(await kinds(exchanged, without('drain'))).toEqual(['race'])
  })
})

describe('the text of the last stage', () => {
  const shapes = { x: [64, 128], y: [64, 128] }
  const facts = specialise(usualWorld, shapes)
  const ir = atStage(wide.record({ world: 1 }), 'order', facts)

  it('uses the engines that the checker has explored', () => {
    expect(renderCuda(ir, facts).source).toContain('tma_store')
    const byThreads: Change = (given) => {
      const copier = new Copier((node) =>
        node.op === 'dot' && node.attributes.by === 'engine'
          ? copier.emit(
              'dot',
              node.inputs.map((one) => copier.get(one)),
              {},
              [],
              node.site,
            )
          : undefined,
      )
      return { ...given, body: copier.copyBlock(given.body) }
    }
    expect(() => renderCuda(byThreads(ir), facts)).toThrow(
      /dot is by threads in the stage order, and the decisions say by engine/,
    )
  })

  it('polls the abort word as the stage says', () => {
    const polling = kernel('polling', { n: tensor(i32, 1) }, (t, { n }) => {
      const look = () => t.load(n.at([0]), { order: 'acquire' })
      t.while(look(), (seen) => seen.eq(0), look)
    })
    const given = specialise(usualWorld, { n: [4] })
    const made = atStage(polling.record({ world: 1 }), 'order', given)
    expect(print(made)).toMatch(/while\(%\d+, polls=64\)/)
    expect(() => renderCuda(made, given)).not.toThrow()
    const copier: Copier = new Copier((node) => {
      if (node.op !== 'while') return undefined
      const blocks = node.blocks.map((block) => copier.copyBlock(block))
      return copier.emit(
        node.op,
        node.inputs.map((input) => copier.get(input)),
        { polls: 32 },
        blocks,
        node.site,
      )
    })
    const other = { ...made, body: copier.copyBlock(made.body) }
    expect(() => renderCuda(other, given)).toThrow(/the decisions say that while polls otherwise/)
  })

  it('is described as it is: a store through staging is by TMA', () => {
    const lines = describeDecisions(decide(ir, facts))
    expect(lines).toMatch(/store\.box .* by TMA/)
    expect(lines).not.toMatch(/store\.box .* by threads/)
  })
})

describe('matrix products in flight', () => {
  const shapes = { x: [64, 64], y: [64, 32] }
  const staged = atStage(ringed.record({ world: 1 }), 'order', specialise(usualWorld, shapes))
  const waits = [...walk(staged.body)].filter(({ op }) => op === 'dot.wait')

  it('become ops in this stage: the slot of a product is released when the next one has started', () => {
    expect(waits.map(({ attributes }) => attributes.pending)).toEqual([1, undefined])
    const inLoop = [...walk(staged.body)].find((node) => node.blocks[0]?.nodes.includes(waits[0]))!
    const inOrder = inLoop.blocks[0].nodes.map(({ op }) => op).filter((op) => /^dot|arrive/.test(op))
    expect(inOrder).toEqual(['dot', 'dot.wait', 'arrive.held', 'barrier.arrive'])
  })

  it('never read a slot that the TMA fills again', async () => {
    expect(await kinds(inFlight)).toEqual([])
  })

  it('race with the TMA if the kernel does not wait for the previous product', async () => {
    expect(await kinds(inFlight, without('dot.wait', 0))).toEqual(['race'])
  })

  it('race with the TMA if the slot of a product is released at once', async () => {
    const atOnce: Change = (ir) => {
      const copier = new Copier((node) => {
        if (node.op === 'arrive.held') return 'drop'
        const [barrier, held] = node.inputs as readonly (Node | undefined)[]
        if (node.op !== 'barrier.arrive' || !held) return undefined
        return copier.emit(node.op, [copier.get(barrier!)], node.attributes, [], node.site)
      })
      return { ...ir, body: copier.copyBlock(ir.body) }
    }
    expect(await kinds(inFlight, atOnce)).toEqual(['race'])
  })

  it('block the producer if held arrivals are never made', async () => {
    expect(await kinds(inFlight, without('arrive.held', 0))).toEqual(['deadlock'])
  })
})

describe('barriers', () => {
  it('must be initialised by one thread, and then the threads must synchronise', async () => {
    expect(await kinds(inFlight, without('start.barriers'))).toEqual(['race'])
    expect(await kinds(inFlight, without('start.meet'))).toEqual(['race'])
  })
})

describe('flag-in-data words', () => {
  const shapes = { x: [16, 16], y: [16], inbox: [2, 2, 16] }
  const staged = atStage(carrying.record({ world: 2 }), 'order', specialise(usualWorld, shapes))

  it('become ops in this stage', () => {
    expect(ops(staged)).toEqual(expect.arrayContaining(['words.post', 'until', 'words.take']))
    expect(ops(staged)).not.toContain('wait')
    expect(print(staged)).toContain('words.post')
  })

  it('are all there, in any schedule', async () => {
    for (const stage of irStageNames('cuda')) expect(await kinds(words, same, stage), stage).toEqual([])
  })

  it('cause a deadlock if they were not sent', async () => {
    expect(await kinds(words, without('words.post'))).toEqual(['deadlock'])
  })

  it('keep all but two bits of a number, and preserve NaN and infinities', () => {
    const bits = new DataView(new ArrayBuffer(4))
    for (const x of [0, 1, -1, 0.1, 3e38, 1e-40, -0, Infinity, -Infinity, NaN])
      for (const epoch of [1, 2, 3, 4]) {
        const { value, marks } = unmarked(marked(Math.fround(x), marksOf(epoch)))
        bits.setFloat32(0, x)
        bits.setUint32(0, bits.getUint32(0) & ~3)
        expect(marks).toBe(marksOf(epoch))
        expect(value).toBe(Number.isFinite(x) ? bits.getFloat32(0) : x)
      }
    expect(marksOf(1)).not.toBe(0)
    expect(unmarked(0).marks).toBe(0)
  })
})
