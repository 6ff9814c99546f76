/**
 * Tests the specification of the IR: each rule is violated once, by IR that recording cannot produce, and the verifier
 * must report the violation.
 */
import { describe, expect, it } from 'vitest'
import { Node, walk, type Attributes, type Block, type KernelIR } from '../../src/ir/node.ts'
import { KernelError } from '../../src/ir/site.ts'
import { ops, type OpName } from '../../src/ir/ops/index.ts'
import { productOps } from '../../src/ir/ops/products.ts'
import { stageOps } from '../../src/ir/ops/stages.ts'
import { startOps } from '../../src/ir/ops/start.ts'
import { stagingOps } from '../../src/ir/ops/staging.ts'
import { prints, through } from '../../src/ir/stages.ts'
import { barriersType, flagsType, refType, tensorType, valueType, voidType } from '../../src/ir/type.ts'
import { verify } from '../../src/ir/verify.ts'
import { block, kernelOf, node, param, started } from './build.ts'

const i32 = valueType('i32')
const one = () => node('const', [], { dtype: 'i32', value: 1 })
const zeros = () => {
  const zero = node('const', [], { dtype: 'f32', value: 0 })
  return [zero, node('broadcast', [zero], { shape: [4] })] as const
}
const loop = (bounds: readonly Node[], body: Block, init: readonly Node[] = []): Node =>
  node('for', [...bounds, ...init], {}, [body])

function refuses(ir: KernelIR, problem: RegExp): void {
  expect(() => verify(ir)).toThrow(KernelError)
  expect(() => verify(ir)).toThrow(problem)
}

it('accepts an empty kernel and a plain one', () => {
  verify(kernelOf(block([], [])))
  const [n, x] = [param(i32, 'n'), one()]
  const index = param(i32, 'i')
  const state = param(i32, 'state')
  const sum = node('add', [state, index])
  const total = loop([x, n, x], block([index, state], [sum], [sum]), [n])
  verify(kernelOf(block([n], [x, total, node('result', [total], { index: 0 })])))
})

describe('1. inputs are defined before their users, in scope', () => {
  it('a node used before it is defined', () => {
    const x = one()
    refuses(
      kernelOf(block([], [node('neg', [x]), x])),
      /neg: the op uses const, which is not defined before it in its scope/,
    )
  })
  it('a node that is in no block', () => {
    refuses(kernelOf(block([], [node('neg', [one()])])), /neg: the op uses const/)
  })
  it('a node of a loop used after it', () => {
    const [x, index] = [one(), param(i32)]
    const inner = node('neg', [index])
    const body = block([index], [inner])
    refuses(
      kernelOf(block([], [x, loop([x, x, x], body), node('neg', [inner])])),
      /uses neg, which is not defined before it in its scope/,
    )
  })
  it('a param of a loop used after it', () => {
    const [x, index] = [one(), param(i32)]
    refuses(kernelOf(block([], [x, loop([x, x, x], block([index], [])), node('neg', [index])])), /uses param/)
  })
  it('a node of one branch used in the other', () => {
    const condition = node('const', [], { dtype: 'bool', value: 1 })
    const x = one()
    const branch = node('if', [condition], {}, [block([], [x]), block([], [node('neg', [x])])])
    refuses(kernelOf(block([], [condition, branch])), /uses const/)
  })
  it('a block that yields a node outside its scope', () => {
    const [x, index, stranger] = [one(), param(i32), one()]
    const state = param(i32, 'state')
    const total = loop([x, x, x], block([index, state], [], [stranger]), [x])
    refuses(kernelOf(block([], [x, total])), /const: the op yields const, which is not defined before it/)
  })
  it('a control node used in its own block', () => {
    const [x, index] = [one(), param(i32)]
    const body = block([index], [])
    const total = loop([x, x, x], body)
    body.nodes.push(new Node('result', i32, [total], { index: 0 }))
    refuses(kernelOf(block([], [x, total])), /uses for/)
  })
})

describe('2. types are what ops infer', () => {
  it('a wrong type', () => {
    const x = one()
    const wrong = new Node('neg', valueType('f32'), [x])
    refuses(kernelOf(block([], [x, wrong])), /neg: has type f32, which should be i32/)
  })
  it('inputs that the op refuses', () => {
    const [x, zero] = [one(), node('const', [], { dtype: 'f32', value: 0 })]
    refuses(
      kernelOf(block([], [x, zero, new Node('add', i32, [x, zero])])),
      /add: the operands differ: i32 and f32/,
    )
  })
  it('blocks that the op refuses', () => {
    const [x, index] = [one(), param(valueType('f32'))]
    refuses(
      kernelOf(block([], [x, new Node('for', voidType, [x, x, x], {}, [block([index], [])])])),
      /the parameters of the body: value 0 is f32, carried as i32/,
    )
    refuses(kernelOf(block([], [x, new Node('for', voidType, [x, x, x])])), /for: owns 1 blocks, has 0/)
  })
  it('attributes that the op refuses', () => {
    const x = one()
    refuses(kernelOf(block([], [x, new Node('cast', i32, [x], { dtype: 'f64' })])), /f64 is not a dtype/)
  })
})

describe('3. results and params have one owner', () => {
  it('a result of a node that leaves none', () => {
    const x = one()
    refuses(
      kernelOf(block([], [x, new Node('result', i32, [x], { index: 0 })])),
      /result: a result must refer to a node that yields values/,
    )
  })
  it('a result of roles', () => {
    const roles = node('roles', [], { names: ['a'], warps: [4] }, [block([], [])])
    refuses(
      kernelOf(block([], [roles, new Node('result', i32, [roles], { index: 0 })])),
      /must refer to a node that yields values/,
    )
  })
  it('a result that does not exist', () => {
    const [x, index] = [one(), param(i32)]
    const total = loop([x, x, x], block([index], []))
    refuses(
      kernelOf(block([], [x, total, new Node('result', i32, [total], { index: 0 })])),
      /result: there is no such result/,
    )
  })
  it('a param among the nodes', () => {
    refuses(kernelOf(block([], [param(i32)])), /param: a param must be in the parameter list of a block/)
  })
  it('a node among the params', () => {
    refuses(kernelOf(block([one()], [])), /const: only a param can be in the parameter list of a block/)
  })
  it('a param of two blocks, one inside the other', () => {
    const [x, n] = [one(), param(i32)]
    refuses(kernelOf(block([n], [x, loop([x, x, x], block([n], []))])), /param: is defined twice/)
  })
  it('a param of two blocks, one after the other', () => {
    const [x, index] = [one(), param(i32)]
    const loops = [loop([x, x, x], block([index], [])), loop([x, x, x], block([index], []))]
    refuses(kernelOf(block([], [x, ...loops])), /param: is defined twice/)
  })
  it('a node in two places', () => {
    const x = one()
    refuses(kernelOf(block([], [x, x])), /const: is defined twice/)
  })
  it('a block of two nodes', () => {
    const [x, index] = [one(), param(i32)]
    const body = block([index], [one()])
    refuses(kernelOf(block([], [x, loop([x, x, x], body), loop([x, x, x], body)])), /is defined twice/)
  })
})

describe('4. a role captures no fragment', () => {
  const role = (body: Block): Node => node('roles', [], { names: ['a'], warps: [4] }, [body])
  it('as an input', () => {
    const [zero, fragment] = zeros()
    refuses(
      kernelOf(block([], [zero, fragment, role(block([], [node('neg', [fragment])]))])),
      /neg: a role uses the fragment made at .* outside it: pass it through shared memory/,
    )
  })
  it('deep inside', () => {
    const [zero, fragment] = zeros()
    const [x, index] = [one(), param(i32)]
    const inner = loop([x, x, x], block([index], [node('neg', [fragment])]))
    refuses(kernelOf(block([], [zero, fragment, x, role(block([], [inner]))])), /a role uses the fragment/)
  })
  it('as the result of a block of the role', () => {
    const [zero, fragment] = zeros()
    const condition = node('const', [], { dtype: 'bool', value: 1 })
    const choice = node('if', [condition], {}, [block([], [], [fragment]), block([], [], [fragment])])
    refuses(
      kernelOf(block([], [zero, fragment, condition, role(block([], [choice]))])),
      /broadcast: a role yields the fragment/,
    )
  })
  it('but scalars, views and its own fragments', () => {
    const [x, tensor] = [one(), param(tensorType('f32', 1), 'v')]
    const [zero, own] = zeros()
    const tile = node('tile', [tensor, x], { shape: [4] })
    const store = node('store', [tile, own])
    verify(kernelOf(block([tensor], [x, role(block([], [zero, own, tile, store]))])))
  })
})

describe('5. roles are not nested', () => {
  const inRole = (inner: Node, before: readonly Node[] = []): KernelIR =>
    kernelOf(block([], [...before, node('roles', [], { names: ['a'], warps: [4] }, [block([], [inner])])]))
  it('roles of another number than their warps or duties', () => {
    const made = (attributes: Attributes) => () =>
      node('roles', [], { names: ['a'], warps: [4], ...attributes }, [block([], [])])
    expect(made({ duties: ['producer'] })).not.toThrow()
    expect(made({ warps: [4, 4] })).toThrow('there are 1 names, 2 numbers of warps and 1 duties')
    expect(made({ duties: ['producer', 'consumer'] })).toThrow(
      'there are 1 names, 1 numbers of warps and 2 duties',
    )
  })
  it('roles in a role', () => {
    const inner = node('roles', [], { names: ['b'], warps: [4] }, [block([], [])])
    refuses(inRole(inner), /roles: this op must not be inside a role: roles cannot be nested/)
  })
  it('but teams and pipelines may be in a role', () => {
    const x = one()
    const team = block([param(i32, 'program'), param(i32, 'programs')], [])
    verify(inRole(node('teams', [x, x], { names: ['b'] }, [team]), [x]))
    const inner = node('pipeline', [x], { axes: 1, stages: 2 }, [block([param(i32)], [])])
    verify(inRole(inner, [x]))
  })
})

describe('6. shared memory and barriers are declared at the top', () => {
  it.each([
    ['shared', { dtype: 'f32', shape: [4] }, refType('shared', 'f32', [4])],
    ['barriers', { count: 2, arrivals: 1 }, barriersType(2, 1)],
  ] as const)('%s in a loop', (op, attributes, type) => {
    const [x, index] = [one(), param(i32)]
    const declaration = new Node(op, type, [], attributes)
    refuses(
      kernelOf(block([], [x, loop([x, x, x], block([index], [declaration]))])),
      /must be at the top of the kernel, outside loops, branches and roles/,
    )
  })
})

describe('7. lowered', () => {
  const x = one()
  const pipeline = () => node('pipeline', [x], { axes: 1, stages: 2 }, [block([param(i32)], [])])
  it('a pipeline is left', () => {
    refuses(
      { ...kernelOf(block([], [x, pipeline()]), 'lowered'), removed: ['pipeline'] },
      /pipeline: is left in lowered IR/,
    )
  })
  it('but a recorded kernel has them', () => {
    verify(kernelOf(block([], [x, pipeline()])))
  })
  it('a print is left after the stage `prints`', () => {
    const print = node('print', [x], { label: 'x' })
    const recorded = kernelOf(block([], [x, print]))
    verify(recorded)
    const staged = through(recorded, [prints], undefined)
    expect([...walk(staged.body)].map(({ op }) => op)).not.toContain('print')
    staged.body.nodes.push(...recorded.body.nodes)
    refuses({ ...staged }, /print: is left in prints IR/)
  })
})

describe('8. last without an index is where every program passes once', () => {
  const last = (inputs: readonly Node[], inner: readonly Node[] = []): Node =>
    node('last', inputs, inputs.length > 1 ? { of: 4 } : {}, [block([], inner)])
  const inLoop = (of: (x: Node) => Node): KernelIR => {
    const [x, index] = [one(), param(i32)]
    return kernelOf(block([], [x, loop([x, x, x], block([index], [of(x)]))]))
  }
  const inBranch = (of: (x: Node) => Node): KernelIR => {
    const x = one()
    const isOne = node('eq', [x, x])
    return kernelOf(block([], [x, isOne, node('if', [isOne], {}, [block([], [of(x)]), block([], [])])]))
  }
  it('in a loop', () =>
    refuses(
      inLoop((x) => last([x])),
      /last: the op counts one arrival per program, so it must not be in a loop/,
    ))
  it('in a branch', () =>
    refuses(
      inBranch((x) => last([x])),
      /last: .* so it must not be in a branch or another last/,
    ))
  it('in another last', () => {
    const x = one()
    refuses(
      kernelOf(block([], [x, last([x], [last([x])])])),
      /last: .* so it must not be in a branch or another last/,
    )
  })
  it('but with an index it may be there', () => {
    verify(inLoop((x) => last([x, x])))
    verify(inBranch((x) => last([x, x])))
  })
})

describe('9. ops of a stage occur after the stage', () => {
  const flagSet = param(flagsType(1), 'flags')
  const [zero, vector] = zeros()
  const cases: Readonly<Partial<Record<OpName, readonly Node[]>>> = {
    convert: [zero, vector, node('convert', [vector])],
    meet: [node('meet')],
    'fence.async': [node('fence.async', [], { space: 'all' })],
    drain: [node('drain')],
    'advance.signal': [node('advance.signal', [flagSet])],
    'advance.wait': [node('advance.wait', [flagSet])],
  }
  it.each(Object.entries(cases))('%s', (op, nodes) => {
    const body = block([flagSet], nodes)
    for (const stage of ['recorded', 'lowered', 'courier'])
      refuses(
        kernelOf(body, stage),
        new RegExp(
          `${op}: only the stage \\w+ inserts this op, but the IR after the stage ${stage} has not passed that stage`,
        ),
      )
    const ir = { ...kernelOf(started(body), 'order'), passed: ['lowered', 'layouts', 'words', 'order'] }
    if (op !== 'drain') verify(ir)
  })

  it('every op that authors cannot write names its stage', () => {
    const inserted = Object.entries(ops).filter(([, { inserted }]) => inserted !== 'recorded')
    expect(inserted.map(([name]) => name).sort()).toEqual(
      [stageOps, stagingOps, productOps, startOps].flatMap((some) => Object.keys(some)).sort(),
    )
  })
})

const last = (body: Block): KernelIR => ({
  ...kernelOf(started(body), 'order'),
  passed: ['lowered', 'courier', 'layouts', 'words', 'order'],
})

describe('10. ops of repeated code are in repeated code', () => {
  const tiles = (): readonly [Node, Node, Node] => {
    const [x, at] = [param(tensorType('f32', 1), 'x'), one()]
    return [x, at, node('tile', [x, at], { shape: [4] })]
  }
  const flagSet = param(flagsType(1), 'flags')
  const strong = { order: 'relaxed', scope: 'system' }

  it('words.take outside until', () => {
    const [x, at, tile] = tiles()
    const taken = node('words.take', [tile, flagSet], strong)
    const advance = node('advance.wait', [flagSet])
    refuses(
      last(block([x, flagSet], [at, tile, advance, taken])),
      /words.take: this op must be inside `until`/,
    )
    const until = node('until', [], {}, [block([], [taken], [taken])])
    verify(last(block([x, flagSet], [at, tile, advance, until])))
  })

  it('until without words, or around a store', () => {
    expect(() => node('until', [], {}, [block([], [])])).toThrow(/the block must contain a words.take/)
    const [, , tile] = tiles()
    const taken = node('words.take', [tile, flagSet], strong)
    const store = node('store', [tile, taken])
    expect(() => node('until', [], {}, [block([], [taken, store])])).toThrow(
      /would repeat store, which must be executed only once/,
    )
  })

  it('once outside a loop, or without a wait', () => {
    const set = param(flagsType(0), 'one')
    const wait = node('wait', [set], { order: 'acquire', scope: 'system', lag: 0 })
    const once = node('once', [], { remembers: 'last' }, [block([], [wait])])
    refuses(last(block([set], [once])), /once: this op must be inside a loop/)
    expect(() => node('once', [], {}, [block([], [])])).toThrow(/skips 1 wait, has 0/)
    const [x, index] = [one(), param(i32)]
    verify(last(block([set], [x, loop([x, x, x], block([index], [once]))])))
  })
})

describe('11. ops have what they need', () => {
  const flagSet = param(flagsType(1), 'flags')
  const tile = node('shared', [], { dtype: 'f32', shape: [4] })
  const stored = (by: string): Node[] => {
    const at = one()
    const target = node('tile', [x, at], { shape: [4] })
    return [at, target, node('copy.nbi', [tile, target], { by })]
  }
  const x = param(tensorType('f32', 1), 'x')

  it('drain without a store by an engine', () => {
    refuses(
      last(block([x], [tile, ...stored('threads'), node('drain', [], { by: 'threads' }), node('drain')])),
      /drain: needs an asynchronous store or copy for which the drain can wait/,
    )
    verify(last(block([x], [tile, ...stored('engine'), node('drain')])))
  })
  it('a copy or store by an engine that no drain completes', () => {
    const reads = node('drain', [], { of: 'reads' })
    refuses(
      last(block([x], [tile, ...stored('engine')])),
      /copy.nbi: needs a drain that waits for all asynchronous copies/,
    )
    refuses(
      last(block([x], [tile, ...stored('engine'), reads])),
      /copy.nbi: needs a drain that waits for all asynchronous copies/,
    )
    refuses(
      last(block([x], [tile, ...stored('threads'), node('drain')])),
      /copy.nbi: needs a drain that waits for all asynchronous copies/,
    )
  })
  it('drain in another role than the store', () => {
    const roles = node('roles', [], { names: ['a', 'b'], warps: [4, 4] }, [
      block([], stored('engine')),
      block([], [node('drain')]),
    ])
    refuses(
      last(block([x], [tile, roles])),
      /copy.nbi: needs a drain that waits for all asynchronous copies in its role/,
    )
  })
  it('words without the epoch of their flags', () => {
    const [zero, vector] = zeros()
    const at = one()
    const tile = node('tile', [x, at], { shape: [4] })
    const post = node('words.post', [tile, flagSet, vector], { order: 'relaxed', scope: 'system' })
    const nodes = [zero, vector, at, tile, post]
    refuses(last(block([x, flagSet], nodes)), /words.post: needs advance.signal of its flags in the kernel/)
    const wrong = [...nodes, node('advance.wait', [flagSet])]
    refuses(last(block([x, flagSet], wrong)), /words.post: needs advance.signal/)
    verify(last(block([x, flagSet], [...nodes, node('advance.signal', [flagSet])])))
    const taken = node('words.take', [tile, flagSet], { order: 'relaxed', scope: 'system' })
    const until = node('until', [], {}, [block([], [taken], [taken])])
    refuses(last(block([x, flagSet], [at, tile, until])), /words.take: needs advance.wait of its flags/)
  })
  it('the epoch of a part of a flag set', () => {
    const at = one()
    const part = node('at', [flagSet, at])
    for (const op of ['advance.signal', 'advance.wait'] as const)
      expect(() => node(op, [part])).toThrow(/needs a whole flag set that is a parameter of the kernel/)
  })
  describe('matrix products in flight', () => {
    const left = node('shared', [], { dtype: 'f16', shape: [64, 16] })
    const right = node('shared', [], { dtype: 'f16', shape: [16, 8] })
    const [zero] = zeros()
    const sum = node('broadcast', [zero], { shape: [64, 8] })
    const product = (): Node => node('dot', [left, right, sum], { by: 'engine' })
    const operands = [left, right, zero, sum]
    const barriers = node('barriers', [], { count: 2, arrivals: 1 })
    const index = one()
    const slot = node('pick', [barriers, index])
    const ring = [barriers, index, slot]

    it('without a wait', () => {
      refuses(
        last(block([], [...operands, product()])),
        /dot: needs a dot.wait that leaves no product pending/,
      )
      const pending = node('dot.wait', [], { pending: 1 })
      refuses(last(block([], [...operands, product(), pending])), /dot: needs a dot.wait that leaves no/)
      verify(last(block([], [...operands, product(), node('dot.wait')])))
    })
    it('a wait without a product by an engine', () => {
      const byThreads = node('dot', [left, right, sum])
      const nodes = [...operands, byThreads, node('dot.wait')]
      refuses(
        last(block([], nodes)),
        /dot.wait: needs a matrix product that the matrix unit executes in its role/,
      )
      expect(() => node('dot.wait', [], { pending: 0 })).toThrow(/at least one/)
    })
    it('a held arrival that is never made, or at other barriers', () => {
      const held = node('held', [barriers])
      const arrive = node('barrier.arrive', [slot, held])
      refuses(last(block([], [...ring, held, arrive])), /barrier.arrive: needs an arrive.held/)
      verify(last(block([], [...ring, held, arrive, node('arrive.held', [held])])))
      const others = node('held', [node('barriers', [], { count: 2, arrivals: 1 })])
      expect(() => node('barrier.arrive', [slot, others])).toThrow(/arrives at another barrier/)
      expect(() => node('barrier.arrive', [slot, barriers])).toThrow(/needs `held`, not barriers/)
    })
  })

  it('combine of something else than a reduction', () => {
    const [zero, vector] = zeros()
    refuses(
      last(block([], [zero, vector, node('combine', [vector])])),
      /combine: needs a reduction as its input/,
    )
  })
})

describe('12. threads do not meet in a loop that is divided among them', () => {
  it.each(['meet', 'drain', 'fence.async', 'barrier'] as const)('%s', (op) => {
    const [x, index] = [one(), param(i32)]
    const inner = node(op, [], { space: 'all' })
    const apart = node('for', [x, x, x], { apart: true }, [block([index], [inner])])
    refuses(
      last(block([], [x, apart])),
      new RegExp(`${op}: all threads of a role must execute this op together`),
    )
    if (op !== 'drain') verify(last(block([], [x, loop([x, x, x], block([index], [inner]))])))
  })
  it('a reduction', () => {
    const [zero, vector] = zeros()
    const [x, index] = [one(), param(i32)]
    const reduce = node('reduce.sum', [vector], { axis: 0 })
    const apart = node('for', [x, x, x], { apart: true }, [block([index], [reduce])])
    refuses(
      last(block([], [x, zero, vector, apart])),
      /reduce.sum: all threads of a role must execute this op together/,
    )
  })
})
