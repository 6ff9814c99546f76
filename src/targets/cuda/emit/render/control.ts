/**
 * Renders control flow. The carried state of loops and branches becomes C++ variables, which are assigned at the end of
 * each block.
 */
import { attribute, type Block, type Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { isFragment, isSplat } from '../assign.ts'
import { bare, code, group, joined, valueOf, word, type Code, type Part, type Variable } from '../code.ts'
import { registers, type Emission } from '../emission.ts'
import type { Group } from '../groups.ts'
import { registerType } from '../spell.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'

/**
 * Declares the variables of a loop's carried state. A carried fragment whose initial value has no other use stays in
 * the registers of the initial value.
 */
function declareState(
  node: Node,
  init: readonly Node[],
  params: readonly Node[],
  emission: Emission,
): Variable[] {
  return init.map((value, i) => {
    const param = params[i]
    const base = emission.paramName(param)
    if (!isFragment(param)) {
      const name = emission.variable(base)
      const { dtype } = param.type as ValueType
      emission.out.line(code`${registerType(dtype)} ${name} = ${emission.scalar(value)};`, node.site)
      return name
    }
    const own = isSplat(value) ? undefined : emission.fragment(value).array
    // An `until` block (`missing` is set) runs repeatedly from the same initial value, so the loop must not
    // overwrite the value.
    if (own && emission.missing === undefined && emission.plans.uses.diesAt(value, node)) return own
    const isAccumulator = ['accumulator', 'swapped'].includes(emission.plans.layouts.of(param).kind)
    const name = emission.variable(isAccumulator ? 'acc' : base)
    const { dtype } = param.type as ValueType
    const [type, count] = registers(dtype, emission.plans.layouts.of(param).count)
    emission.out.line(code`${type} ${name}[${count}];`, node.site)
    emission.fill(name, value, param)
    return name
  })
}

function bindState(variables: readonly Variable[], params: readonly Node[], emission: Emission): void {
  params.forEach((param, i) => {
    if (isFragment(param)) emission.aliasFragment(param, variables[i])
    else emission.setScalar(param, variables[i])
  })
}

/**
 * Assigns the results of a block to the state variables. All results of the block are read before any state variable
 * changes. Each element of `params` has the type and the layout of the corresponding variable. For a loop, `params` are
 * the block parameters that the variables hold.
 */
function assignState(
  variables: readonly Variable[],
  block: Block,
  params: readonly Node[],
  emission: Emission,
): void {
  const { out } = emission
  const pending: { readonly text: Code; readonly isLoop: boolean }[] = []
  block.results.forEach((result, i) => {
    if (isFragment(params[i])) {
      const array = isSplat(result) ? undefined : emission.fragment(result).array
      if (array === variables[i]) return
      if (array && variables.includes(array)) {
        const copy = emission.variable('next')
        const { dtype } = params[i].type as ValueType
        const [type, count] = registers(dtype, emission.plans.layouts.of(params[i]).count)
        out.line(code`${type} ${copy}[${count}];`)
        emission.fill(copy, result, params[i])
        const text = code`for (u32 i = 0; i < ${count}; ++i) ${variables[i]}[i] = ${copy}[i];`
        pending.push({ text, isLoop: true })
      } else emission.fill(variables[i], result, params[i])
      return
    }
    if (result === params[i] && block.params.includes(result)) return
    const text = emission.scalar(result)
    const others = new Set(params.filter((param, j) => j !== i && block.params.includes(param)))
    const assign = (value: Code) => pending.push({ text: code`${variables[i]} = ${value};`, isLoop: false })
    if (!emission.mentions(result, others)) return void assign(bare(text))
    const copy = emission.variable('next')
    out.line(code`const ${registerType((params[i].type as ValueType).dtype)} ${copy} = ${text};`)
    assign(copy)
  })
  for (const { text, isLoop } of pending) {
    if (isLoop) out.line('#pragma unroll')
    out.line(text)
  }
}

function loopBody(
  block: Block,
  variables: readonly Variable[],
  params: readonly Node[],
  emission: Emission,
): void {
  emission.names.scope(() => {
    emission.block(block)
    assignState(variables, block, params, emission)
  })
}

export const result: Renderer = (node, emission) => {
  const variable = emission.results.get(node.inputs[0])![attribute<number>(node, 'index')]
  if (isFragment(node)) emission.aliasFragment(node, variable)
  else emission.setVariable(node, variable)
}

/**
 * Returns the text of a condition that is true if the launch was aborted. All threads of the group synchronise to
 * evaluate the condition, and get the same result.
 */
export function stopped({ group, params }: Emission): Code {
  const raised = code`${lib.abort_raised}(${params.control})`
  return group.solo
    ? raised
    : code`${lib.group_any}(${group.barrier}, ${group.threads}, thread == 0 && ${raised})`
}

/**
 * Emits a `break` for the case that the launch was aborted, if the loop polls the abort word. The function `turns`
 * returns the C++ expression for the number of iterations so far.
 */
function leaveIfStopped(loop: Node, turns: () => Code, emission: Emission): void {
  const { polls: every } = loop.attributes as { polls?: number }
  if (every === undefined) return
  const leave = emission.plans.usesCopyEngine ? code`{ ${lib.copies_arrive}(); break; }` : 'break;'
  emission.out.line(code`if (${turns()} % ${every} == ${every - 1} && ${stopped(emission)}) ${leave}`)
}

function turnsOf(loop: Node, index: string, emission: Emission): Code {
  const [low, , step] = loop.inputs
  const [from, by] = [emission.scalar(low), emission.scalar(step)]
  const passed = valueOf(from) === 0 ? code`(u32)${index}` : code`(u32)(${index} - ${from})`
  return valueOf(by) === 1 ? passed : code`${passed} / (u32)${by}`
}

/**
 * Renders a loop whose iterations are distributed over the threads of the group: each iteration is executed by only one
 * thread.
 */
function apart(loop: Node, emission: Emission): void {
  const { out, group } = emission
  const [body] = loop.blocks
  emission.names.scope(() => {
    const i = emission.names.take(emission.paramName(body.params[0]))
    emission.setScalar(body.params[0], word(i))
    const high = emission.scalar(loop.inputs[1])
    out.block(
      code`for (${lib.i32} ${i} = thread; ${i} < ${high}; ${i} += ${group.threads})`,
      () => emission.apart(() => emission.names.scope(() => emission.block(body))),
      loop.site,
    )
  })
  emission.results.set(loop, [])
}

export const forLoop: Renderer = (node, emission) => {
  const { out, plans } = emission
  if (node.attributes.apart === true) return apart(node, emission)
  const [body] = node.blocks
  const [low, high, step] = node.inputs
  const [index, ...params] = body.params
  const variables = declareState(node, node.inputs.slice(3), params, emission)
  // While matrix products are in flight, the compiler must not move the accumulators to other registers.
  const accumulators =
    node.attributes.inFlight === true ? variables.filter((_, i) => isFragment(params[i])) : []
  for (const acc of accumulators) {
    out.line(code`${lib.fragment_fence}(${acc});`)
    emission.fenced.add(acc)
  }
  emission.names.scope(() => {
    const i = emission.names.take(emission.paramName(index))
    emission.setScalar(index, word(i))
    bindState(variables, params, emission)
    const by = emission.scalar(step)
    const unrolled = plans.loops.unrolled.get(node)
    if (unrolled !== undefined) out.line(code`#pragma unroll ${unrolled}`)
    out.block(
      code`for (${lib.i32} ${i} = ${emission.scalar(low)}; ${i} < ${emission.scalar(high)}; ${valueOf(by) === 1 ? code`++${i}` : code`${i} += ${by}`})`,
      () => {
        leaveIfStopped(node, () => turnsOf(node, i, emission), emission)
        loopBody(body, variables, params, emission)
      },
      node.site,
    )
  })
  emission.results.set(node, variables)
}

export const persistent: Renderer = (node, emission) => {
  const { out, plans } = emission
  const [body] = node.blocks
  const axes = attribute<number>(node, 'axes')
  const [program, programs] = node.inputs
  const extents = node.inputs.slice(2, 2 + axes).map((extent) => emission.scalar(extent))
  const counts = node.inputs.slice(2, 2 + axes).map((extent, axis) => {
    const isCount = plans.ranges.isNonNegative(extent)
    return isCount ? code`(u32)${extents[axis]}` : code`(${extents[axis]} > 0 ? (u32)${extents[axis]} : 0u)`
  })
  const params = body.params.slice(axes)
  const variables = declareState(node, node.inputs.slice(2 + axes), params, emission)
  const count = emission.names.take('tiles')
  out.line(code`const u32 ${count} = ${joined(counts, ' * ')};`, node.site)
  emission.names.scope(() => {
    const tile = emission.names.take('tile')
    bindState(variables, params, emission)
    out.block(
      code`for (u32 ${tile} = ${emission.scalar(program)}; ${tile} < ${count}; ${tile} += ${emission.scalar(programs)})`,
      () => {
        leaveIfStopped(node, () => code`${tile} / (u32)${emission.scalar(programs)}`, emission)
        declareIndices(body.params.slice(0, axes), tile, extents, plans.tileGroup(node), emission)
        loopBody(body, variables, params, emission)
      },
      node.site,
    )
  })
  emission.results.set(node, variables)
}

function declareIndices(
  indices: readonly Node[],
  tile: string,
  extents: readonly Code[],
  group: number,
  emission: Emission,
): void {
  const names = indices.map((index) => emission.names.take(emission.paramName(index)))
  indices.forEach((index, i) => emission.setScalar(index, word(names[i])))
  const isUsed = indices.map((index) => emission.plans.uses.count(index) > 0)
  if (!isUsed.some(Boolean)) return
  if (indices.length === 2 && group > 1) {
    const at = emission.names.take('at')
    emission.out.line(
      code`const ${lib.TileIndex} ${at} = ${lib.grouped_tile}(${tile}, ${extents[0]}, ${extents[1]}, ${group});`,
    )
    const parts = [code`${names[0]} = ${at}.row`, code`${names[1]} = ${at}.column`]
    emission.out.line(
      code`const ${lib.i32} ${joined(
        parts.filter((_, axis) => isUsed[axis]),
        ', ',
      )};`,
    )
    return
  }
  let rest: Part = tile
  for (let axis = indices.length - 1; axis >= 0; axis--) {
    const text = axis === 0 ? rest : code`${rest} % (u32)${extents[axis]}`
    if (isUsed[axis]) emission.out.line(code`const ${lib.i32} ${names[axis]} = (${lib.i32})(${text});`)
    rest = code`(${rest} / (u32)${extents[axis]})`
  }
}

/**
 * A loop without a bound polls the abort word every few iterations. All threads of the group decide in the same way
 * whether to leave the loop.
 */
export const whileLoop: Renderer = (node, emission) => {
  const { out } = emission
  const [condition, body] = node.blocks
  const variables = declareState(node, node.inputs, body.params, emission)
  bindState(variables, condition.params, emission)
  bindState(variables, body.params, emission)
  const turns = emission.names.take('turns')
  const site = emission.waitSite(node)
  out.block(
    code`for (u32 ${turns} = 1;; ++${turns})`,
    () => {
      emission.names.scope(() => {
        emission.block(condition)
        out.line(code`if (!${emission.scalar(condition.results[0])}) break;`, node.site)
        out.block(
          code`if (${turns} % ${attribute<number>(node, 'polls')} == 0 && ${stopped(emission)})`,
          () => {
            emission.byLeader(code`${lib.tell_wait}(${emission.params.control}, ${site}, 0xffffffff, 0, 0);`)
            out.line('break;')
          },
        )
        loopBody(body, variables, body.params, emission)
      })
    },
    node.site,
  )
  emission.results.set(node, variables)
}

export const ifElse: Renderer = (node, emission) => {
  const { out } = emission
  const [yes, no] = node.blocks
  const variables = yes.results.map((value, i) => {
    const { dtype } = value.type as ValueType
    if (!isFragment(value)) {
      const name = emission.variable('chosen')
      out.line(code`${registerType(dtype)} ${name};`, node.site)
      return name
    }
    const like = isSplat(value) ? no.results[i] : value
    if (isSplat(like))
      emission.refuse(
        node,
        'both branches yield a constant fragment: yield scalars, and create the fragment afterwards',
      )
    const name = emission.variable('chosen')
    const [type, count] = registers(dtype, emission.plans.layouts.of(like).count)
    out.line(code`${type} ${name}[${count}];`, node.site)
    return name
  })
  const branch = (block: Block): void => {
    emission.names.scope(() => {
      emission.block(block)
      assignState(
        variables,
        block,
        block.results.map((value, i) =>
          isSplat(value) ? node.blocks.map((one) => one.results[i]).find((one) => !isSplat(one))! : value,
        ),
        emission,
      )
    })
  }
  const hasElse = no.nodes.length > 0 || no.results.length > 0
  const condition = emission.scalar(node.inputs[0])
  if (hasElse && yes.nodes.length === 0 && yes.results.length === 0) {
    out.block(code`if (!(${bare(condition)}))`, () => branch(no), node.site)
    emission.results.set(node, variables)
    return
  }
  out.block(code`if (${bare(condition)})`, () => branch(yes), node.site, hasElse ? '} else {' : '}')
  if (hasElse) {
    out.indented(() => branch(no))
    out.line('}')
  }
  emission.results.set(node, variables)
}

export const roles: Renderer = (node, emission) => {
  const { out, plans } = emission
  const groups = node.blocks.map((block) => ({ block, group: plans.roles.groups.get(block)! }))
  groups.sort((a, b) => a.group.first - b.group.first)
  const branches = new Set(groups.map(({ group }) => group.branch))
  let head = 'if'
  for (const branch of branches) {
    const inside = groups.filter(({ group }) => group.branch === branch)
    const names = inside.map(({ group }) => group.name).join(', ')
    out.line(code`${head} (threadIdx.x < ${branch.first + 32 * branch.warps}) {  // ${names}`)
    out.indented(() => {
      const [{ registers }] = inside.map(({ group }) => group)
      if (registers) out.line(code`${lib[`registers_${registers.change}`]}<${registers.count}>();`)
      for (const { block, group } of inside) role(block, group, inside.length > 1, emission)
    })
    head = '} else if'
  }
  out.line('}')
  out.line('__syncthreads();')
}

function role(block: Block, group: Group, isShared: boolean, emission: Emission): void {
  const { out } = emission
  const { first, warps } = group
  const body = (): void =>
    emission.within(group, () => {
      emission.block(block)
      emission.recorder?.groupEnds()
    })
  if (group.solo) {
    const named = isShared ? code`  // ${group.name}` : ''
    out.line(code`if (threadIdx.x == ${first}) {${named}`)
    out.indented(body)
    return out.line('}')
  }
  const all = (): void => {
    out.line(code`const u32 thread = threadIdx.x${first === 0 ? '' : code` - ${first}`};`)
    body()
  }
  if (!isShared) return all()
  out.block(code`if (threadIdx.x >= ${first} && threadIdx.x < ${first + 32 * warps})`, all)
}

export const teams: Renderer = (node, emission) => {
  const { out } = emission
  const [program, ...sizes] = node.inputs
  const names = attribute<readonly string[]>(node, 'names')
  let rest = emission.scalar(program)
  node.blocks.forEach((block, i) => {
    const size = emission.scalar(sizes[i])
    out.line(code`${i === 0 ? 'if' : '} else if'} (${rest} < ${size}) {  // ${names[i]}`)
    out.indented(() =>
      emission.names.scope(() => {
        const [own, all] = block.params
        emission.setScalar(own, rest)
        emission.setScalar(all, size)
        emission.block(block)
      }),
    )
    rest = group(code`${rest} - ${size}`)
  })
  out.line('}')
}

/**
 * One thread increments the counter of arrivals. In the program that arrives last, the group executes the block, and
 * sees the memory accesses that the other programs made before they arrived.
 */
export const last: Renderer = (node, emission) => {
  const { out } = emission
  const [arrivals, index] = node.inputs as readonly [Node, Node?]
  const wanted = arrivals.op === 'programs' ? 'gridDim.x' : code`(u32)${emission.scalar(arrivals)}`
  const counter = emission.params.counter((node.attributes.of as number | undefined) ?? 1)
  const arrival = index
    ? code`${lib.last_arrival}(${counter} + ${emission.scalar(index)}, ${wanted})`
    : code`${lib.last_program}(${counter}, ${wanted})`
  const name = emission.names.take('is_last')
  emission.fromLeader(node, 'u32', name, code`(u32)${arrival}`)
  out.block(code`if (${name})`, () => emission.names.scope(() => emission.block(node.blocks[0])))
}
