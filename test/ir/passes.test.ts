/**
 * Tests constant folding and dead code elimination: the nodes that they must change, and those that they must not
 * change.
 */
import { describe, expect, it } from 'vitest'
import { bool, f32, flags, i32, kernel, scalar, tensor, type Arguments, type Program } from 'arke'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { removeDead } from '../../src/ir/passes/dead.ts'
import { fold } from '../../src/ir/passes/fold.ts'
import { print } from '../../src/ir/print.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { verify } from '../../src/ir/verify.ts'

const params = { out: tensor(i32, 1), x: tensor(i32, 1), v: tensor(f32, 1), n: scalar(i32), ready: flags() }
type Args = Arguments<typeof params>

const recorded = (body: (t: Program, args: Args) => void): KernelIR =>
  kernel('k', params, body).record({ world: 2 })
const opsOf = (ir: KernelIR): string[] => [...walk(ir.body)].map((node) => node.op)
const find = (ir: KernelIR, op: string): Node[] => [...walk(ir.body)].filter((node) => node.op === op)
const storedValues = (ir: KernelIR): unknown[] =>
  find(ir, 'store').map(({ inputs: [, value] }) => (value.op === 'const' ? value.attributes.value : value.op))

function folded(body: (t: Program, args: Args) => void): KernelIR {
  const ir = removeDead(fold(recorded(body)))
  verify(ir)
  return ir
}

describe('fold', () => {
  it('does arithmetic on constants', () => {
    const ir = folded((t, { out, v }) => {
      const three = t.constant(i32, 3)
      t.store(out.at([0]), three.add(4).mul(-2).mod(5))
      t.store(out.at([1]), three.lt(4).select(three.shl(2), 0))
      t.store(v.at([0]), t.constant(f32, 1).div(3).exp2())
    })
    expect(storedValues(ir)).toEqual([-4, 12, Math.fround(2 ** Math.fround(1 / 3))])
    expect(opsOf(ir).filter((op) => !['const', 'at', 'store'].includes(op))).toEqual([])
  })

  it('leaves a division by zero where the author wrote it', () => {
    const ir = folded((t, { out }) => t.store(out.at([0]), t.constant(i32, 1).div(0)))
    expect(storedValues(ir)).toEqual(['div'])
  })

  it('drops neutral elements of integers', () => {
    const ir = folded((t, { out, n }) => {
      const zero = t.constant(i32, 0)
      const one = t.constant(i32, 1)
      const same = [
        n.add(0),
        zero.add(n),
        n.sub(0),
        n.mul(1),
        one.mul(n),
        n.div(1),
        n.or(0),
        n.xor(0),
        n.shl(0),
        n.shr(0),
      ]
      same.forEach((value, i) => t.store(out.at([i]), value))
      ;[n.mul(0), zero.mul(n), n.mod(1)].forEach((value, i) => t.store(out.at([i]), value))
    })
    expect(storedValues(ir)).toEqual([...Array<string>(10).fill('param'), 0, 0, 0])
  })

  it('keeps what is not neutral', () => {
    const ir = folded((t, { out, v, n }) => {
      t.store(out.at([0]), t.constant(i32, 0).sub(n))
      t.store(out.at([1]), t.constant(i32, 1).div(n))
      t.store(out.at([2]), t.constant(i32, 0).shl(n))
      // -0 + 0 is 0, and 0 times infinity is not 0.
      const x = t.load(v.at([0]))
      t.store(v.at([1]), x.add(0))
      t.store(v.at([2]), x.mul(0))
    })
    expect(storedValues(ir)).toEqual(['sub', 'div', 'shl', 'add', 'mul'])
  })

  it('takes the branch that is known, with its values', () => {
    const ir = folded((t, { out, n }) => {
      const chosen = t.if(
        t.constant(i32, 2).gt(1),
        () => {
          t.store(out.at([0]), n)
          return n.add(7)
        },
        () => {
          t.store(out.at([1]), n)
          return n.add(8)
        },
      )
      t.store(out.at([2]), chosen.mul(2))
      t.if(t.constant(bool, 0), () => t.store(out.at([3]), n))
    })
    expect(print(ir)).toMatchInlineSnapshot(`
      "kernel k(out: tensor<i32,1>, x: tensor<i32,1>, v: tensor<f32,1>, n: i32, ready: flag)  // recorded, world=2
        %0 = at(out, 0): global<i32[]>
        store(%0, n)
        %1 = add(n, 7): i32
        %2 = at(out, 2): global<i32[]>
        %3 = mul(%1, 2): i32
        store(%2, %3)
      "
    `)
  })

  it('splices nested branches', () => {
    const ir = folded((t, { out, n }) => {
      const yes = t.constant(bool, 1)
      const value = t.if(
        yes,
        () =>
          t.if(
            yes.not(),
            () => n,
            () => n.add(1),
          ),
        () => n.add(2),
      )
      t.store(out.at([0]), value)
    })
    expect(opsOf(ir)).not.toContain('if')
    const [store] = find(ir, 'store')
    expect(store.inputs[1].op).toBe('add')
    expect(store.inputs[1].inputs[1].attributes.value).toBe(1)
  })

  it('merges equal nodes of a block and of those inside it', () => {
    const ir = folded((t, { out, n }) => {
      t.store(out.at([0]), n.add(5))
      t.store(out.at([1]), n.add(5))
      t.for(n, () => t.store(out.at([2]), n.add(5)))
    })
    expect(find(ir, 'add')).toHaveLength(1)
  })

  it('does not leak from a block to its siblings or to what follows', () => {
    const ir = folded((t, { out, n }) => {
      t.if(
        n.gt(0),
        () => t.store(out.at([0]), n.add(5)),
        () => t.store(out.at([1]), n.add(5)),
      )
      t.for(n, () => t.store(out.at([2]), n.add(5)))
      t.store(out.at([3]), n.add(5))
    })
    expect(find(ir, 'add')).toHaveLength(4)
  })

  it('tells -Infinity, Infinity, NaN, 0 and -0 apart', () => {
    const numbers = [Infinity, -Infinity, NaN, 0, -0]
    const ir = folded((t, { v }) => numbers.forEach((x, i) => t.store(v.at([i]), x)))
    expect(storedValues(ir)).toEqual(numbers)
  })

  it('does not merge the fragment of a role with one outside', () => {
    const ir = folded((t, { v }) => {
      t.store(v.tile([0], [4]), t.zeros(f32, [4]))
      t.roles({
        one: () => t.store(v.tile([1], [4]), t.zeros(f32, [4])),
        two: () => t.store(v.tile([2], [4]), t.zeros(f32, [4])),
      })
    })
    expect(find(ir, 'broadcast')).toHaveLength(3)
    verify(lower(recorded((t, { v }) => {
      t.store(v.tile([0], [4]), t.zeros(f32, [4]))
      t.roles({ one: () => t.store(v.tile([1], [4]), t.zeros(f32, [4])) })
    }))) // prettier-ignore
  })

  it('does not merge loads', () => {
    const ir = folded((t, { out, x }) => {
      t.store(out.at([0]), t.load(x.at([0])))
      t.store(out.at([1]), t.load(x.at([0])))
    })
    expect(find(ir, 'load')).toHaveLength(2)
  })
})

describe('dead code', () => {
  it('goes, with what only it used', () => {
    const ir = folded((t, { out, x, n }) => {
      const unused = t.load(x.at([n.add(3)]))
      unused.mul(2)
      t.shared(f32, [8])
      t.for(n, n, (i, state) => state.add(i))
      t.if(n.gt(0), () => void n.add(1))
      t.store(out.at([0]), 1)
    })
    expect(opsOf(ir)).toEqual(['const', 'const', 'at', 'store'])
  })

  it('is not a strong load, an atomic, a signal, a wait, a fence or a barrier', () => {
    const ir = folded((t, { x, ready }) => {
      t.load(x.at([0]), { order: 'relaxed' })
      t.load(x.at([1]), { order: 'acquire' })
      t.atomic.add(x.at([2]), 1)
      t.signal(ready)
      t.wait(ready)
      t.fence('seqCst')
      t.barrier()
    })
    expect(opsOf(ir).filter((op) => !['const', 'at'].includes(op))).toEqual([
      'load',
      'load',
      'atomic.add',
      'signal',
      'wait',
      'fence',
      'barrier',
    ])
  })

  it('is not a while, which may never end', () => {
    const ir = folded((t, { n }) => {
      t.while(
        n,
        (m) => m.gt(0),
        (m) => m.sub(1),
      )
    })
    expect(opsOf(ir)).toContain('while')
  })

  it('is not an effect deep inside', () => {
    const ir = folded((t, { out, n }) => {
      t.for(n, () => {
        t.for(n, (j) => {
          t.if(j.gt(2), () => t.store(out.at([j]), 1))
        })
      })
    })
    expect(opsOf(ir).filter((op) => ['for', 'if', 'store'].includes(op))).toEqual([
      'for',
      'for',
      'if',
      'store',
    ])
  })
})
