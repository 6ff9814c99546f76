/** Tests structural mistakes that recording detects: scopes, carried state, control flow, and kernels as a whole. */
import { describe, expect, it } from 'vitest'
import {
  f32,
  flags,
  i32,
  kernel,
  KernelError,
  scalar,
  tensor,
  type Program,
  type Scalar,
  type Value,
} from 'arke'
import { walk } from '../../src/ir/node.ts'
import { cases, failure, params } from './refusals.ts'

const { refuses, lineOf, thisFile } = cases(import.meta.url)

/** Values that were used outside the scope to which they belong. */
const leaked: Record<string, Value> = {}

describe('symbols have no numbers', () => {
  const advice = /x\.add\(1\) instead of x \+ 1.*t\.if/s
  refuses(
    'addition with +',
    (t, { n }) => {
      t.for((n as never as number) + 1, () => {}) //!
    },
    advice,
  )
  refuses(
    'a template string',
    (_, { n }) => {
      void `${n as never as string}` //!
    },
    advice,
  )
  refuses(
    'a comparison with <',
    (t, { n }) => {
      if ((n as never as number) < 3) t.barrier() //!
    },
    advice,
  )
  refuses(
    'equality with a number by ==',
    (t, { n }) => {
      // eslint-disable-next-line eqeqeq
      if ((n as never) == 3) t.barrier() //!
    },
    advice,
  )
  refuses(
    'an index of an array',
    (_, { n }) => {
      void [1, 2, 3][n as never] //!
    },
    advice,
  )
  refuses(
    'Math on a symbol',
    (_, { n }) => {
      void Math.max(n as never, 2) //!
    },
    advice,
  )
  refuses(
    'arithmetic on a tensor',
    (_, { a }) => {
      void ((a as never as number) * 2) //!
    },
    advice,
  )
})

describe('values can be used only in their scope', () => {
  refuses(
    'a loop index used after the loop',
    (t, { n }) => {
      t.for(n, (i) => {
        leaked.index = i
      })
      ;(leaked.index as Scalar<'i32'>).add(1) //!
    },
    /add: the value made at .*record\.test\.ts:\d+:\d+ does not exist here.*Return the value from its block/s,
  )
  refuses(
    'a value of one branch used in the other',
    (t, { n }) => {
      t.if(
        n.gt(0),
        () => {
          leaked.branch = n.add(1)
        },
        () => {
          t.for(leaked.branch as Scalar<'i32'>, () => {}) //!
        },
      )
    },
    /for: the value made at .* belongs to a loop, branch or role that has ended/,
  )
  refuses(
    'a value of a role used in another role',
    (t, { v }) => {
      t.roles({
        one: () => {
          leaked.role = t.program.add(1)
        },
        two: () => {
          t.store(v.at([leaked.role as Scalar<'i32'>]), 0) //!
        },
      })
    },
    /at: the value made at .* does not exist here/,
  )
  refuses(
    'a result that belongs to an inner loop',
    (t, { n }) => {
      t.for(n, n, () => { //!
        t.for(n, (j) => {
          leaked.inner = j
        })
        return leaked.inner as Scalar<'i32'>
      }) // prettier-ignore
    },
    /the result of a block: the value made at .* does not exist here/,
  )
  it('says where the value was made', () => {
    const error = failure((t, { n }) => {
      t.for(n, (i) => {
        leaked.index = i.add(1) // made here
      })
      ;(leaked.index as Scalar<'i32'>).add(1)
    })
    expect(error.problem).toContain(`test/lang/record.test.ts:${lineOf('made here')}:`)
  })
  refuses(
    "another kernel's symbol",
    (t, { n }) => {
      kernel('other', { m: scalar(i32) }, (_, { m }) => {
        leaked.other = m
      }).record({ world: 2 })
      t.if((leaked.other as Scalar<'i32'>).gt(0), () => {}) //!
      void n
    },
    /after the kernel was recorded: use symbolic values only inside the body/,
  )
  refuses(
    "another kernel's symbol as an operand",
    (_, { n }) => {
      kernel('other', { m: scalar(i32) }, (_, { m }) => {
        leaked.other = m
      }).record({ world: 2 })
      n.add(leaked.other as Scalar<'i32'>) //!
    },
    /belongs to another kernel or another recording/,
  )
  it('a symbol used after its kernel was recorded', () => {
    let late: Scalar<'i32'> | undefined
    kernel('early', params, (_, { n }) => {
      late = n
    }).record({ world: 2 })
    expect(() => late!.add(1)).toThrow(
      /after the kernel was recorded: use symbolic values only inside the body/,
    )
  })
})

describe('state is carried', () => {
  refuses(
    'a loop that returns nothing',
    (t, { n }) => {
      t.for(4, n, ((_: Scalar, state: Scalar) => { //!
        state.add(1)
      }) as never) // prettier-ignore
    },
    /for: the body returned nothing; return the carried state/,
  )
  refuses(
    'a loop that returns a number',
    (t, { n }) => {
      t.for(4, n, (() => 0) as never) //!
    },
    /for: number 0 is not a value.*t\.constant\(dtype, x\)/s,
  )
  refuses(
    'a number as initial state',
    (t) => {
      t.pipeline([4], 0 as never, ((_: unknown, state: unknown) => state) as never) //!
    },
    /pipeline: number 0 is not a value/,
  )
  refuses(
    'state of another dtype',
    (t, { n }) => {
      t.for(4, n, ((_: Scalar, state: Scalar) => state.to(f32)) as never) //!
    },
    /for: the body must return values of the same types as the carried state: value 0 is f32, carried as i32/,
  )
  refuses(
    'state of another shape',
    (t) => {
      t.for(4, t.zeros(f32, [4]), (() => t.zeros(f32, [5])) as never) //!
    },
    /value 0 is f32\[5\], carried as f32\[4\]/,
  )
  refuses(
    'one of two values returned',
    (t, { n }) => {
      t.for(4, [n, n], ((_: Scalar, [x]: Scalar[]) => [x]) as never) //!
    },
    /1 values where 2 are carried/,
  )
  refuses(
    'memory as state',
    (t, { c }) => {
      t.for(4, c as never, ((_: unknown, state: unknown) => state) as never) //!
    },
    /Tensor is not a value/,
  )
  refuses(
    'a while without a condition',
    (t, { n }) => {
      t.while(n, (() => undefined) as never, (x) => x) //!
    },
    /while: the body returned nothing/,
  )
  refuses(
    'a condition that is a number',
    (t, { n }) => {
      t.while(n, ((x: Scalar) => x) as never, (x) => x) //!
    },
    /the condition: value 0 is i32, carried as bool/,
  )
  refuses(
    'branches of different values',
    (t, { n }) => {
      t.if(n.gt(0), () => n, (() => n.to(f32)) as never) //!
    },
    /the two branches must return values of the same types: value 0 is f32, carried as i32/,
  )
  refuses(
    'a branch without a value',
    (t, { n }) => {
      t.if(n.gt(0), () => n, (() => undefined) as never) //!
    },
    /0 values where 1 are carried/,
  )
  it('without an else, the return value of a branch is ignored', () => {
    const ir = kernel('statement', params, (t, { n, counts }) => {
      t.if(n.gt(0), () => t.atomic.add(counts.at([0]), 1))
    }).record({ world: 2 })
    expect([...walk(ir.body)].map((node) => node.op)).toContain('atomic.add')
  })
})

describe('control flow', () => {
  refuses(
    'a shared tile in a loop',
    (t, { n }) => {
      t.for(n, () => {
        t.store(t.shared(f32, [4]), 0) //!
      })
    },
    /must be at the top of the kernel, outside loops, branches and roles/,
  )
  refuses(
    'a pipeline of no stages',
    (t) => {
      t.pipeline([4], () => {}, { stages: 0 }) //!
    },
    /pipeline: a pipeline of 0 stages/,
  )
  refuses(
    'a loop that does not move',
    (t, { n }) => {
      t.for({ to: n, step: 0 }, () => {}) //!
    },
    /for: the step is 0, but loops count up/,
  )
  refuses(
    'a loop by a constant that does not move',
    (t, { n }) => {
      t.for({ to: n, step: t.constant(i32, -1) }, () => {}) //!
    },
    /for: the step is -1, but loops count up/,
  )
  const warps = (count: number) => (t: Program) => {
    t.roles({ one: { warps: count, body: () => {} }, two: () => {} })
  }
  it.each([0, -1, 1.5, NaN, 33])('a role of %s warps', (count) => {
    expect(failure(warps(count)).problem).toBe(
      `roles: the role one has ${count} warps: give a whole number from 1 to 32`,
    )
  })
  refuses(
    'a role without warps',
    (t) => {
      t.roles({ one: { warps: 0, body: () => {} } }) //!
    },
    /roles: the role one has 0 warps/,
  )
  refuses(
    'roles of too many warps',
    (t) => {
      t.roles({ one: { warps: 30, body: () => {} }, two: () => {} }) //!
    },
    /roles: the roles have 34 warps, but a program has at most 32/,
  )
  refuses(
    'no roles',
    (t) => {
      t.roles({}) //!
    },
    /roles: there is no role: give at least one/,
  )
  refuses(
    'no teams',
    (t) => {
      t.teams({}) //!
    },
    /teams: there is no team: give at least one/,
  )
  refuses(
    'a team of fewer than no programs',
    (t) => {
      t.teams({ one: { programs: -1, body: () => {} }, two: { programs: 'rest', body: () => {} } }) //!
    },
    /teams: the team one has -1 programs/,
  )
  refuses(
    'an assertion about a number of the host',
    (t, { n }) => {
      t.assert(n.gt(0), 'n is positive')
      t.assert(true as never, 'always') //!
    },
    /^assert: true is not a symbolic condition: pass a comparison, such as x\.gt\(0\); check values that are known during recording with TypeScript/,
  )
  refuses(
    'a fragment taken into a role',
    (t, { v }) => {
      const x = t.load(v.tile([0], [8]))
      t.roles({
        one: () => {
          t.store(v.tile([1], [8]), x) //!
        },
      })
    },
    /a role uses the fragment made at .* outside it: pass it through shared memory, or compute it in the role/,
  )
  refuses(
    'roles in a role',
    (t) => {
      t.roles({
        one: () => {
          t.roles({ two: () => t.fence('acquire') }) //!
        },
      })
    },
    /roles: this op must not be inside a role: roles cannot be nested/,
  )
  refuses(
    'the rest before the last team',
    (t) => {
      t.teams({ a: { programs: 'rest', body: () => {} }, b: { programs: 1, body: () => {} } }) //!
    },
    /only the last team can have 'rest'/,
  )
  refuses(
    'an async loop',
    (t) => {
      // eslint-disable-next-line @typescript-eslint/no-misused-promises
      t.for(4, async () => {}) //!
    },
    /for: the body is recorded while it runs and cannot be async/,
  )
  refuses(
    'an async branch',
    (t, { n }) => {
      // eslint-disable-next-line @typescript-eslint/no-misused-promises
      t.if(n.gt(0), async () => {}) //!
    },
    /if: the body is recorded while it runs and cannot be async/,
  )
  refuses(
    'an async role',
    (t) => {
      // eslint-disable-next-line @typescript-eslint/no-misused-promises
      t.roles({ one: async () => {} }) //!
    },
    /the role one: the body is recorded while it runs and cannot be async/,
  )
})

describe('kernels', () => {
  const thrownBy = (body: () => unknown): KernelError => {
    try {
      body()
    } catch (error) {
      if (error instanceof KernelError) return error
      throw error
    }
    throw new Error('nothing was thrown')
  }
  it('an async body is refused, and what it does later is not an unhandled rejection', async () => {
    // eslint-disable-next-line @typescript-eslint/no-misused-promises
    const late = kernel('late', params, async (t) => { // async kernel
      await Promise.resolve()
      t.barrier()
    }) // prettier-ignore
    const error = thrownBy(() => late.record({ world: 2 }))
    expect(error.problem).toMatch(/late: the body is recorded while it runs and cannot be async/)
    expect(error.site?.position).toMatchObject({ file: thisFile, line: lineOf('async kernel') })
    await new Promise((resolve) => setTimeout(resolve, 1))
  })
  it('an unknown meta-parameter', () => {
    const tiled = kernel('tiled', params, { BM: 4, BN: 4 }, () => {}) // tiled kernel
    const error = thrownBy(() => tiled.record({ world: 2, meta: { BK: 8 } }))
    expect(error.problem).toBe('tiled has no meta-parameter BK; it has BM, BN')
    expect(error.site?.position).toMatchObject({ file: thisFile, line: lineOf('tiled kernel') })
  })
  it('a world of no ranks', () => {
    const plain = kernel('plain', params, () => {})
    for (const world of [0, -1, 1.5])
      expect(() => plain.record({ world })).toThrow(`a positive integer number of ranks, not ${world}`)
  })
  it('a name that is no identifier', () => {
    const error = thrownBy(() => kernel('all gather', {}, () => {})) // bad name
    expect(error.problem).toMatch(/a kernel's name is an identifier, not "all gather"/)
    expect(error.site?.position).toMatchObject({ file: thisFile, line: lineOf('bad name') })
  })
  it('parameters that cannot be', () => {
    expect(() => tensor('bool' as never, 1)).toThrow(/a tensor cannot hold bool/)
    expect(() => tensor(f32, 5 as never)).toThrow(/one to four axes, not 5/)
    expect(() => flags(0, { arrivals: 0 })).toThrow(/arrivals per epoch, not 0/)
    for (const axes of [-1, 4, 1.5])
      expect(() => flags(axes as never)).toThrow(`flags have zero to three axes, not ${axes}`)
  })
  it('an error in the body passes through', () => {
    const broken = kernel('broken', {}, () => {
      throw new TypeError('my own')
    })
    expect(() => broken.record({ world: 1 })).toThrow(TypeError)
  })
})

describe('what is recorded', () => {
  it('once for each specialisation', () => {
    let calls = 0
    const counted = kernel('counted', params, { BM: 4, fast: true }, (t) => {
      calls++
      t.barrier()
    })
    const first = counted.record({ world: 2 })
    expect(counted.record({ world: 2, meta: { BM: 4 } })).toBe(first)
    expect(calls).toBe(1)
    expect(counted.record({ world: 2, meta: { BM: 8 } })).not.toBe(first)
    expect(counted.record({ world: 3 }).world).toBe(3)
    expect(counted.record({ world: 2, meta: { fast: false } }).meta).toEqual({ BM: 4, fast: false })
    expect(calls).toBe(4)
  })
  it('constants as their dtype holds them', () => {
    const ir = kernel('constants', { c: tensor(f32, 1) }, (t, { c }) => {
      t.store(c.at([0]), 0.1)
    }).record({ world: 1 })
    const values = [...walk(ir.body)]
      .filter((node) => node.op === 'const')
      .map((node) => node.attributes.value)
    expect(values).toContain(Math.fround(0.1))
    expect(values).not.toContain(0.1)
  })
  it("every node knows the author's line", () => {
    const ir = kernel('sites', params, (t, { n, v }) => {
      t.store(v.at([n.add(1)]), 2) // the only statement
    }).record({ world: 1 })
    const here = { file: thisFile, line: lineOf('the only statement') }
    for (const node of walk(ir.body)) expect(node.site?.position).toMatchObject(here)
  })
})
