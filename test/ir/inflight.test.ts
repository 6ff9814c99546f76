/** Tests how the analyses and the common stages treat asynchronous copies and puts with a signal. */
import { describe, expect, it } from 'vitest'
import { f32, flags, kernel, tensor, type Program } from 'arke'
import { onlyMoves } from '../../src/ir/moves.ts'
import { walk, type KernelIR } from '../../src/ir/node.ts'
import { completeAtOnce } from '../../src/ir/passes/complete.ts'
import { simplified, through } from '../../src/ir/stages.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { traffic } from '../../src/ir/traffic.ts'
import { atCpuStage } from '../../src/targets/cpu/stages.ts'
import { usesOf } from '../../src/world/uses.ts'

const params = { x: tensor(f32, 2), y: tensor(f32, 2), told: flags() }

/**
 * In this test, rank 1 is the peer. The tile [1, 1] of x has 3 x 2 elements inside the tensor, and the tile [1, 1] of y
 * has 4 x 4.
 */
const sent = kernel('sent', params, (t, { x, y, told }) => {
  t.putNbi(x.tile([0, 0], [4, 4]), y.on(1).tile([0, 0], [4, 4]))
  t.getNbi(x.on(1).tile([0, 0], [4, 4]), y.tile([0, 0], [4, 4]))
  t.quiet()
  t.putSignal(x.tile([1, 1], [4, 4]), y.on(1).tile([1, 1], [4, 4]), told.on(1))
  t.wait(told)
})
const recorded = sent.record({ world: 2 })
const opsIn = ({ body }: KernelIR): string[] => [...walk(body)].map(({ op }) => op)
/** The ops of a kernel that copy tiles, wait for copies or signal flags, in order. */
const steps = (ir: KernelIR): string[] =>
  opsIn(ir).filter((op) => ['copy', 'copy.nbi', 'quiet', 'put.signal', 'signal'].includes(op))

describe('analyses', () => {
  it('count the bytes and the signals that these copies move', () => {
    const binding = { rank: 0, program: 0, programs: 1, extents: { x: [7, 6], y: [8, 8], told: [] } }
    const [whole, edge] = [4 * 4 * 4, 4 * 3 * 2]
    for (const ir of [recorded, lower(recorded), atCpuStage(recorded, 'complete')]) {
      const { tensors, flags: counts, unknown } = traffic(ir, binding)
      expect(unknown).toEqual([])
      expect(tensors.get('x')).toMatchObject({ readLocal: whole + edge, readRemote: whole })
      expect(tensors.get('y')).toMatchObject({ writtenRemote: whole + edge, writtenLocal: whole })
      expect(counts.get('told')).toMatchObject({ signalledRemote: 1, waitedLocal: 1 })
    }
  })

  it('know what is written and signalled, with the line of the put', () => {
    const { signals, waits, writes, signalSites } = usesOf(recorded)
    expect([[...signals], [...waits], [...writes]]).toEqual([['told'], ['told'], ['y']])
    const put = [...walk(recorded.body)].find(({ op }) => op === 'put.signal')
    expect(signalSites.get('told')).toEqual([put!.site])
  })

  it('call a kernel that only puts and signals communication', () => {
    expect(onlyMoves(recorded)).toBe(true)
    const local = kernel('local', params, (t, { x, y }) => {
      t.putNbi(x.tile([0, 0], [4, 4]), y.tile([0, 0], [4, 4]))
    })
    expect(onlyMoves(local.record({ world: 2 }))).toBe(false)
  })
})

describe('the stages', () => {
  it('separate a put with a signal first, and complete copies at once on a CPU', () => {
    expect(steps(recorded)).toEqual(['copy.nbi', 'copy.nbi', 'quiet', 'put.signal'])
    expect(steps(through(recorded, [simplified], undefined))).toEqual([
      'copy.nbi',
      'copy.nbi',
      'quiet',
      'copy',
      'signal',
    ])
    expect(steps(atCpuStage(recorded, 'complete'))).toEqual(['copy', 'copy', 'copy', 'signal'])
  })

  it('keep a quiet only in a role that has other copies in flight', () => {
    const roles = kernel('roles', { ...params }, (t, { x, y }) => {
      const tile = t.shared(f32, [4, 4])
      t.roles({
        puts: () => {
          t.putNbi(x.tile([0, 0], [4, 4]), y.on(1).tile([0, 0], [4, 4]))
          t.quiet()
        },
        stores: () => {
          t.copyAsync(tile, y.tile([0, 1], [4, 4]))
          t.quiet({ reads: true })
        },
      })
      t.quiet()
    }).record({ world: 2 })
    const kept = completeAtOnce(roles, ({ inputs: [source] }) => source.op === 'shared')
    expect(steps(kept)).toEqual(['copy', 'copy.nbi', 'quiet'])
  })
})

describe('what is refused', () => {
  const refusal = (body: (t: Program) => void): string => {
    const made = kernel('refused', params, (t) => body(t))
    try {
      made.record({ world: 2 })
    } catch (error) {
      return String(error)
    }
    return 'nothing'
  }

  it('a copy in flight between shared tiles, and a put with a signal into a shared tile', () => {
    const between = refusal((t) => {
      const [from, to] = [t.shared(f32, [4]), t.shared(f32, [4])]
      t.putNbi(from, to as never)
    })
    expect(between).toContain(
      'an asynchronous copy must read or write a tensor: copy between shared tiles with t.copy()',
    )
    const into = kernel('into', params, (t, { x, told }) => {
      t.putSignal(x.pick(0).tile([0], [4]), t.shared(f32, [4]) as never, told)
    })
    expect(() => into.record({ world: 2 })).toThrow(
      'operand 3 lies in shared memory: the operand must be a tile or elements of a tensor',
    )
  })

  it('a put with a signal to a whole flag set, or of another shape', () => {
    const many = kernel('many', { ...params, set: flags(1) }, (t, { x, y, set }) => {
      t.putSignal(x.tile([0, 0], [4, 4]), y.tile([0, 0], [4, 4]), set as never)
    })
    expect(() => many.record({ world: 2 })).toThrow('needs one flag of the flags<1>')
    const shapes = kernel('shapes', params, (t, { x, y, told }) => {
      t.putSignal(x.tile([0, 0], [4, 4]), y.tile([0, 0], [4, 8]), told)
    })
    expect(() => shapes.record({ world: 2 })).toThrow(
      'the source has shape [4x4], but the target has shape [4x8]',
    )
  })
})
