/**
 * Tests of the courier role, which sends data on behalf of a consumer before the consumer's first matrix product. The
 * tests check when the pass creates a courier role, and that other agents cannot observe the change.
 */
import { describe, expect, it } from 'vitest'
import { repeated } from '../../../test/ops/clean.ts'
import { count, lowered, ops, recorded, type Args } from '../../../test/ir/lowered.ts'
import { f32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import type { Scalar } from '../../lang/value.ts'
import { fusedByShardKernel, partsOf } from '../../ops/allGatherGemm/fusedByShard.ts'
import { allGatherGemm } from '../../ops/allGatherGemm/index.ts'
import { explore } from '../../targets/check/explore.ts'
import { formatFinding } from '../../targets/check/findings.ts'
import { emitCuda } from '../../targets/cuda/emit/emit.ts'
import { factsOf, type EmitFacts } from '../../targets/cuda/emit/recipe.ts'
import { scenario, type Scenario } from '../../world/world.ts'
import { attribute, walk, type Block, type KernelIR } from '../node.ts'
import { roleShape } from '../../targets/cuda/roleShape.ts'
import { lower } from '../../targets/cuda/stages.ts'
import { dutiesOf } from '../roles.ts'
import { detachCourier as detachWith } from './courier.ts'

const detachCourier = (ir: KernelIR) => detachWith(ir, roleShape)

const rolesOf = (ir: KernelIR) => {
  const roles = [...walk(ir.body)].find((node) => node.op === 'roles')!
  const names = attribute<readonly string[]>(roles, 'names')
  return { roles, names, of: (name: string): Block => roles.blocks[names.indexOf(name)] }
}

const TILE = [2, 2] as const
type Part = (t: Program, args: Args, peer: (step: Scalar) => Scalar) => void

/**
 * Stores a tile of the tensor `a` into the tensor `b` of every other rank. The test kernel then multiplies `a` with
 * itself (`multiply`) and stores the matrix product.
 */
const send: Part = (t, { a, b, done }, peer) => {
  t.for(t.world - 1, (step) => t.store(b.on(peer(step)).tile([0, 0], TILE), t.load(a.tile([0, 0], TILE))))
  t.for(t.world - 1, (step) => t.signal(done.on(peer(step))))
}
const multiply: Part = (t, { a, c }) => {
  const as = t.shared(f32, TILE)
  const sum = t.pipeline([3], t.zeros(f32, TILE), ([k], acc) => {
    t.copy(a.tile([0, k], TILE), as)
    return t.dot(as, as, acc)
  })
  t.store(c.tile([0, 0], TILE), sum)
}
const peerOf = (t: Program) => (step: Scalar) => t.rank.add(step).add(1).mod(t.world)
const after =
  (...parts: readonly Part[]) =>
  (t: Program, args: Args) =>
    parts.forEach((part) => part(t, args, peerOf(t)))

describe('a courier', () => {
  it('sends the data that the consumer sent before its first matrix product, in place of the consumer', () => {
    const ir = lower(recorded(after(send, multiply)))
    const detached = rolesOf(detachCourier(ir).ir!)
    expect(detached.names).toEqual(['producer', 'courier', 'consumer'])
    expect(attribute(detached.roles, 'warps')).toEqual([2, 2, 4])
    expect(dutiesOf(detached.roles)).toEqual(['producer', 'courier', 'consumer'])
    const wanted = ops(detached.of('courier')).filter((op) => ['load', 'store', 'signal'].includes(op))
    expect(wanted).toEqual(['load', 'store', 'signal'])
    expect(count(detached.of('consumer'), 'signal')).toBe(0)
    expect(count(detached.of('consumer'), 'store')).toBe(1)
    expect(ops(detached.of('producer'))).toEqual(ops(rolesOf(ir).of('producer')))
    expect(detachCourier(detachCourier(ir).ir!).ir).toBeUndefined()
  })

  it('computes scalars and addresses that the consumer also computes', () => {
    const shared: Part = (t, { a, b, c, n, done }, peer) => {
      const twice = n.mul(n)
      const place = a.tile([twice, 0], TILE)
      t.for(t.world - 1, (step) => t.store(b.on(peer(step)).tile([twice, 0], TILE), t.load(place)))
      t.signal(done.on(t.rank.add(1).mod(t.world)))
      const as = t.shared(f32, TILE)
      t.pipeline([3], ([k]) => {
        t.copy(a.tile([0, k], TILE), as)
        t.store(c.tile([twice, k], TILE), t.load(place).add(t.load(as)))
      })
    }
    const detached = rolesOf(detachCourier(lower(recorded(after(shared)))).ir!)
    for (const name of ['courier', 'consumer']) expect(count(detached.of(name), 'mul')).toBe(1)
  })

  it('contains branches, loops, relaxed and release stores, and the nodes on which they depend', () => {
    const conditional: Part = (t, { a, b, n, offsets, counter, done }, peer) => {
      const sum = t.for(n, t.constant('i32', 0), (i, before) => before.add(t.load(offsets.at([i]))))
      t.if(sum.gt(0), () =>
        t.for(t.world - 1, (step) => t.store(b.on(peer(step)).at([0, 0]), t.load(a.at([sum, 0])))),
      )
      t.persistent([n], ([i]) =>
        t.store(counter.on(t.rank.add(1).mod(t.world)).at([i]), i, { order: 'release' }),
      )
      t.signal(done.on(t.rank.add(1).mod(t.world)))
    }
    const detached = rolesOf(detachCourier(lower(recorded(after(conditional, multiply)))).ir!)
    expect(count(detached.of('courier'), 'for')).toBe(2)
    expect(count(detached.of('consumer'), 'load')).toBe(0)
  })
})

/** Kernels that get no courier role because another agent could observe it, each listed under the reason. */
const toPeers = (what: (t: Program, args: Args, peer: Scalar) => void): Part => {
  return (t, args, peer) => t.for(t.world - 1, (step) => what(t, args, peer(step)))
}
const refused: Readonly<Record<string, readonly Part[]>> = {
  'nothing is sent': [multiply],
  'it is sent afterwards': [multiply, send],
  'only waits come before': [(t, { ready }) => t.wait(ready), multiply],
  'the courier role would wait for a flag': [send, (t, { ready }) => t.wait(ready), multiply],
  'the courier role would poll a flag': [
    (t, args, peer) => t.if(t.reached(args.ready, { order: 'relaxed' }), () => send(t, args, peer)),
    multiply,
  ],
  'the courier role would load with an order': [
    toPeers((t, { offsets, counter }, peer) =>
      t.store(counter.on(peer).at([0]), t.load(offsets.at([0]), { order: 'relaxed' })),
    ),
    multiply,
  ],
  'the courier role would store on its own rank': [
    send,
    (t, { counter }) => t.store(counter.at([0]), 1),
    multiply,
  ],
  'the courier role would store on all ranks, including its own': [
    (t, { b }) => t.for(t.world, (step) => t.store(b.on(t.rank.add(step).mod(t.world)).at([0, 0]), 1)),
    multiply,
  ],
  'the courier role would signal its own rank': [send, (t, { ready }) => t.signal(ready), multiply],
  'the courier role would add atomically': [
    toPeers((t, { counter }, peer) => t.atomic.add(counter.on(peer).at([0]), 1)),
    multiply,
  ],
  'the courier role would fence': [send, (t) => t.fence('release'), multiply],
  'the courier role would use shared memory': [
    (t, args, peer) => {
      const tile = t.shared(f32, TILE)
      t.copy(args.a.tile([0, 0], TILE), tile)
      t.for(t.world - 1, (step) => t.store(args.b.on(peer(step)).tile([0, 0], TILE), t.load(tile)))
    },
    multiply,
  ],
  'the courier role might not end': [
    send,
    (t, { counter, offsets }) =>
      t.while(
        t.constant('i32', 0),
        (i) => i.lt(t.load(offsets.at([i]))),
        (i) => {
          t.store(counter.on(t.rank.add(1).mod(t.world)).at([i]), i)
          return i.add(1)
        },
      ),
    multiply,
  ],
  'matrix products use data that the courier role loads': [
    (t, args, peer) => {
      const tile = t.load(args.b.tile([0, 0], TILE))
      t.for(t.world - 1, (step) => t.store(args.b.on(peer(step)).tile([1, 1], TILE), tile))
      multiply(t, args, peer)
      t.store(args.c.tile([1, 1], TILE), tile)
    },
  ],
  'the consumer role uses the result of a loop of the courier role': [
    (t, args, peer) => {
      const sum = t.for(t.world - 1, t.constant('i32', 0), (step, before) => {
        t.store(args.b.on(peer(step)).at([0, 0]), 1)
        return before.add(step)
      })
      multiply(t, args, peer)
      t.store(args.counter.at([0]), sum)
    },
  ],
  'the consumer role stores to memory that the courier role loads': [
    toPeers((t, { b, c }, peer) => t.store(b.on(peer).tile([0, 0], TILE), t.load(c.tile([0, 0], TILE)))),
    multiply,
  ],
  'consumer roles of other ranks store to memory that the courier role loads': [
    toPeers((t, { b, offsets }, peer) => t.store(b.on(peer).at([0, 0]), t.load(offsets.at([0])).to(f32))),
    multiply,
    toPeers((t, { offsets }, peer) => t.store(offsets.on(peer).at([0]), 1)),
  ],
  'the consumer role loads from another rank data that the courier role stores': [
    send,
    multiply,
    (t, { b, c }) => t.store(c.at([3, 3]), t.load(b.on(1).at([0, 0]))),
  ],
  'the consumer role stores to memory to which the courier role stores': [
    send,
    multiply,
    (t, { b }) => t.store(b.at([3, 3]), 1),
  ],
  'the consumer signals': [send, multiply, (t, { ready }) => t.signal(ready)],
  'the consumer releases a store': [
    send,
    multiply,
    (t, { counter }) => t.store(counter.at([0]), 1, { order: 'release' }),
  ],
  'the consumer adds atomically': [send, multiply, (t, { counter }) => void t.atomic.add(counter.at([0]), 1)],
  'the consumer fences': [send, multiply, (t) => t.fence('acqRel')],
  'the consumer executes last()': [
    send,
    multiply,
    (t, { counter }) => t.last(() => t.store(counter.at([0]), 1)),
  ],
}

describe('a consumer sends its data itself if', () => {
  it.each(Object.entries(refused))('%s', (_, parts) => {
    const ir = lower(recorded(after(...parts)))
    expect(ops(ir.body)).toContain('copy.async')
    const { ir: detached, obstacle } = detachCourier(ir)
    expect(detached).toBeUndefined()
    expect(obstacle?.what).toMatch(/^no courier: /)
  })

  it.each([
    [
      'nothing is sent',
      'the consumer role sends nothing to other ranks before it first uses the buffer ring',
      [],
    ],
    ['the courier role would wait for a flag', 'a courier role must not execute', ['wait']],
    ['the courier role would store on its own rank', 'a courier role must not execute', ['store']],
    [
      'matrix products use data that the courier role loads',
      'the consumer role uses values that the courier role would load or compute',
      [],
    ],
    [
      'the consumer signals',
      'the data that the courier role would send is released by the later op',
      ['signal'],
    ],
    [
      'the consumer role stores to memory to which the courier role stores',
      'the courier role and another role would access the same memory, and one of them would write it',
      [],
    ],
  ])('and says so: %s', (name, why, ops) => {
    const { obstacle } = detachCourier(lower(recorded(after(...refused[name]))))
    expect(obstacle?.what).toBe(`no courier: ${why}`)
    expect(obstacle?.others?.map(({ op }) => op)).toEqual(ops)
  })

  it('the kernel does more than execute roles, or an author wrote the roles', () => {
    const inTeams = lower(
      recorded((t, args) => {
        const tile = t.shared(f32, TILE)
        const body = (): void => {
          send(t, args, peerOf(t))
          t.pipeline([3], ([k]) => {
            t.copy(args.a.tile([0, k], TILE), tile)
            t.store(args.c.tile([0, k], TILE), t.load(tile))
          })
        }
        t.teams({ all: { programs: 'rest', body } })
      }),
    )
    expect(ops(inTeams.body)).toContain('copy.async')
    expect(detachCourier(inTeams).obstacle?.what).toMatch(
      /^no courier: the kernel does not consist of only a producer/,
    )
    const written = lowered((t, { a, b, c, done }) => {
      const [tile, full] = [t.shared(f32, TILE), t.barriers(1)]
      t.roles({
        producer: () => {
          t.copyAsync(a.tile([0, 0], TILE), tile, full.at(0))
          t.arrive(full.at(0))
        },
        consumer: () => {
          const peer = t.rank.add(1).mod(t.world)
          t.store(b.on(peer).at([0, 0]), 1)
          t.signal(done.on(peer))
          t.wait(full.at(0), 0)
          t.store(c.tile([0, 0], TILE), t.load(tile))
        },
      })
    })
    expect(detachCourier(written).obstacle?.what).toMatch(
      /^no courier: the kernel does not consist of only a producer/,
    )
  })
})

/** A compiler stage that adds courier roles (which send data), and counts the kernels that have got one. */
function detaching() {
  const made = new Map<KernelIR, KernelIR>()
  let couriers = 0
  const stage = (ir: KernelIR): KernelIR => {
    const known = made.get(ir)
    if (known) return known
    const detached = detachCourier(lower(ir)).ir
    if (detached) couriers++
    const whole = detached ?? lower(ir)
    made.set(ir, whole)
    return whole
  }
  return { stage, couriers: () => couriers }
}

async function findings(subject: Scenario, ranks: number, runs = 8): Promise<string[]> {
  const { stage, couriers } = detaching()
  const random = await explore(subject, { ranks, stage, schedules: runs })
  const search = await explore(subject, { ranks, stage, preemptions: 1, limit: runs })
  expect(couriers()).toBeGreaterThan(0)
  return [...random.findings, ...search.findings].map(formatFinding)
}

const fused = (
  ranks: number,
  shape: { M: number; N: number; K: number },
  inOrder = true,
  grid = 2,
): Scenario =>
  repeated(
    ranks,
    (world) =>
      allGatherGemm(world, {
        ...{ variant: 'fused', shard: 'K', flagPer: 'shard', dtype: 'f32', inOrder },
        ...{ shape, tiles: { BM: 2, BN: 4, BK: 2, stages: 2 }, grid },
      }),
    { factor: 'a', tolerance: 1e-5, launches: 2 },
  )

describe('data that a courier role sends', () => {
  it.each([
    [2, true],
    [3, true],
    [2, false],
  ])('arrives before a consumer uses the data, on %d ranks, in order: %s', async (ranks, inOrder) => {
    expect(await findings(fused(ranks, { M: 3, N: 5, K: 6 }, inOrder), ranks)).toEqual([])
  })

  it('gives correct results for shapes that are multiples of the tile and for other shapes', async () => {
    const between = (low: number, high: number, at: number): number =>
      low + ((Math.imul(at, 2654435761) >>> 8) % (high - low + 1))
    for (let i = 1; i <= 6; i++) {
      const shape = { M: between(1, 6, i), N: between(1, 9, 7 * i), K: 2 * between(1, 9, 13 * i) }
      const found = await findings(fused(2, shape, true, between(1, 3, 17 * i)), 2, 2)
      expect([shape, found]).toEqual([shape, []])
    }
  })

  it('causes a race report by the checker if the consumer signals before the courier has sent the data', async () => {
    // The test uses the kernel that the pass would produce if the pass ignored the signals of the consumer.
    const split = kernel(
      'split',
      { x: tensor(f32, 1), y: tensor(f32, 1), told: flags() },
      (t, { x, y, told }) => {
        const peer = t.rank.add(1).mod(t.world)
        t.roles({
          courier: () => t.store(x.on(peer).at([0]), 1),
          consumer: () => t.signal(told.on(peer)),
        })
        t.wait(told)
        t.store(y.at([0]), t.load(x.at([0])))
      },
    )
    const subject = scenario('split', { ranks: 2 }, async (world) => {
      const [x, y, told] = [world.zeros(f32, [1]), world.zeros(f32, [1]), world.flags([])]
      world.launch(split, { x, y, told }, { grid: 1 })
      await world.synchronize()
    })
    const { findings: found } = await explore(subject, { ranks: 2, stage: 'lowered', schedules: 8 })
    expect(found.map(formatFinding).join('\n')).toContain('race')
  })
})

describe('emitted, a courier', () => {
  const emit = (BM: number, options: Partial<EmitFacts> = {}, K = 8192, stages = 4) => {
    const [M, N] = [BM, 3584]
    const shapes = { a: [M, K / 8], b: [K, N], c: [M, N], inbox: [2, 8, M, K / 8] }
    const made = fusedByShardKernel({ dtype: 'bf16', parts: partsOf([M, K / 8], { BM }), inOrder: true })
    const ir = lower(made.record({ world: 8, meta: { BM, BN: 256, BK: 64, stages } }))
    const tensors = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, factsOf(shape)]))
    const { source, block, recordedSites } = emitCuda(ir, { tensors, ...options })
    const text = source.slice(source.indexOf('__global__'))
    const [before, consumer] = text.split('  // consumer\n')
    return { text, before, consumer, block, recordedSites }
  }

  it.each([{}, { record: true }])(
    'contains the stores and signals that send the data, with %o',
    (options) => {
      const { before, consumer, block } = emit(64, options)
      expect(before).toMatch(/producer, courier\n/)
      for (const sent of ['on_rank(inbox', 'flag_add(']) {
        expect(before).toContain(sent)
        expect(consumer).not.toContain(sent)
      }
      expect(before).toContain('if (threadIdx.x >= 64 && threadIdx.x < 128)')
      expect(block).toBe(256)
    },
  )

  it('records the targets of its copies if recording is on', () => {
    const { before, recordedSites } = emit(64, { record: true })
    expect(before).toContain('write_event(event_log')
    expect(recordedSites?.some(({ line }) => line.includes('fusedByShard.ts'))).toBe(true)
  })

  it('keeps registers for the data that it sends, whereas a producer gives its registers to the consumer', () => {
    const { text, block } = emit(128)
    expect(block).toBe(384)
    expect(text).toContain('registers_lower<136>();')
    expect(text).toContain('registers_raise<184>();')
  })

  it('is not created if the producer needs all its warps', () => {
    const { text } = emit(64, {}, 8 * 1001)
    expect(text).not.toContain('courier')
  })

  it('is not created if its registers would prevent a second resident program per multiprocessor', () => {
    const has = (BM: number, stages: number): boolean => emit(BM, {}, 8192, stages).text.includes('courier')
    expect([has(16, 3), has(32, 3), has(32, 4)]).toEqual([true, false, true])
  })
})
