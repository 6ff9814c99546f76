/**
 * Records the control flow of a kernel: loops, branches, roles, teams and `last`. The class `ControlFlow` also knows
 * the program numbers in the enclosing team and the cluster of the enclosing `persistent` loop.
 */
import type { DType } from '../ir/dtype.ts'
import { Block, type Attributes, type Node } from '../ir/node.ts'
import { KernelError, Site } from '../ir/site.ts'
import { valueType } from '../ir/type.ts'
import { flatten, namesOf, unflatten, type Carried } from './carried.ts'
import type { Body, LastOptions, RoleBody, Yielded } from './options.ts'
import { expectSynchronous, type Recorder } from './recorder.ts'
import { ceilDiv } from './tensor.ts'
import { constant, index, Value, type Index, type Rank, type Scalar } from './value.ts'

const nothing = (): void => undefined

export class ControlFlow {
  readonly #recorder: Recorder
  /**
   * The program id and the number of programs of each enclosing team, innermost team last. Inside a team, programs are
   * numbered from 0.
   */
  readonly #numbering: { program: Node; programs: Node }[] = []
  /** The cluster of the enclosing `persistent` loop, if it has one. */
  cluster: readonly number[] | undefined

  constructor(recorder: Recorder) {
    this.#recorder = recorder
  }

  #value<D extends DType, R extends Rank>(node: Node): Value<D, R> {
    return new Value<D, R>(this.#recorder, node)
  }

  /** The index of this program among the programs of its rank, or of its team. */
  get program(): Scalar<'i32'> {
    return this.#value(this.#numbering.at(-1)?.program ?? this.#recorder.emit('program', []))
  }

  get programs(): Scalar<'i32'> {
    return this.#value(this.#numbering.at(-1)?.programs ?? this.#recorder.emit('programs', []))
  }

  while<C>(init: C, condition: (state: C) => unknown, body: (state: C) => unknown): C {
    const recorder = this.#recorder
    const start = flatten(init, 'while')
    const names = namesOf(init)
    const block = (record: (state: C) => unknown): Block => {
      const inner = new Block()
      const params = start.map((node, i) => recorder.param(inner, node.type, names[i]))
      return recorder.within(inner, () => flatten(record(unflatten(recorder, init, params)), 'while'))
    }
    return this.#results(this.#recorder.emit('while', start, {}, [block(condition), block(body)]), init)
  }

  if<C extends Carried>(
    condition: Scalar<'bool'>,
    then: () => Yielded,
    otherwise: () => Yielded = nothing,
  ): C | undefined {
    let form: C | undefined
    const block = (record: () => unknown) =>
      this.#recorder.within(new Block(), () => {
        const result = record() as C | undefined
        expectSynchronous(result, 'if')
        if (otherwise === nothing || result === undefined) return []
        form ??= result
        return flatten(result, 'if')
      })
    const node = this.#recorder.emit('if', [condition.node], {}, [block(then), block(otherwise)])
    return form === undefined ? undefined : this.#results(node, form)
  }

  /** True while the body of a team is recorded. */
  get isInTeam(): boolean {
    return this.#numbering.length > 0
  }

  /**
   * Emits a loop over a space whose items are assigned round-robin to the programs. The body takes the indices of an
   * item, and the carried state if there is one.
   */
  persistent(
    extents: readonly Scalar<'i32'>[],
    cluster: readonly number[] | undefined,
    init: Carried | undefined,
    body: (at: readonly Scalar<'i32'>[], ...state: unknown[]) => unknown,
  ): unknown {
    const count = extents.length
    const outer = this.cluster
    this.cluster = cluster
    try {
      const bounds = [this.program, this.programs, ...extents].map(({ node }) => node)
      const flat = (...args: unknown[]): unknown =>
        body(args.slice(0, count) as Scalar<'i32'>[], ...args.slice(count))
      return this.loop('persistent', bounds, count, init, flat, { axes: count })
    } finally {
      this.cluster = outer
    }
  }

  /**
   * Emits a `persistent` loop over blocks of items, with one item of a block for each program of a cluster. The indices
   * of the last axes of the loop are the position of a program in its cluster. A program of a cluster skips an item
   * outside the space.
   */
  inClusters(
    extents: readonly Scalar<'i32'>[],
    cluster: readonly number[],
    init: Carried | undefined,
    body: (at: readonly Scalar<'i32'>[], ...state: unknown[]) => unknown,
  ): unknown {
    const count = extents.length
    const blocks = extents.map((extent, axis) => ceilDiv(extent, cluster[axis]))
    const record = (...args: unknown[]): unknown => {
      const [block, place] = [args.slice(0, count), args.slice(count, 2 * count)] as Scalar<'i32'>[][]
      const at = block.map((one, axis) => one.mul(cluster[axis]).add(place[axis]))
      const isInside = at
        .map((one, axis) => one.lt(extents[axis]))
        .filter((_, axis) => cluster[axis] > 1)
        .reduce((all, one) => all.and(one))
      if (init === undefined) return this.if(isInside, () => void body(at))
      const state = args[2 * count] as Carried
      return this.if(
        isInside,
        () => body(at, state) as Carried,
        () => state,
      )
    }
    const outer = this.cluster
    this.cluster = cluster
    try {
      const bounds = [
        ...[this.program, this.programs, ...blocks].map(({ node }) => node),
        ...cluster.map((extent) => index(this.#recorder, extent)),
      ]
      return this.loop('persistent', bounds, 2 * count, init, record, { axes: 2 * count, cluster })
    } finally {
      this.cluster = outer
    }
  }

  roles(bodies: Readonly<Record<string, RoleBody>>): void {
    const names = Object.keys(bodies)
    const blocks = names.map((name) => {
      const role = bodies[name]
      return this.#recorder.within(new Block(), () => {
        expectSynchronous(typeof role === 'function' ? role() : role.body(), `the role ${name}`)
        return []
      })
    })
    const warps = names.map((name) => (typeof bodies[name] === 'function' ? 4 : bodies[name].warps))
    this.#recorder.emit('roles', [], { names, warps }, blocks)
  }

  teams(teams: Readonly<Record<string, { readonly programs: Index | 'rest'; readonly body: Body }>>): void {
    const names = Object.keys(teams)
    let taken: Scalar<'i32'> = constant(this.#recorder, 'i32', 0)
    const sizes = names.map((name, i) => {
      const size = teams[name].programs
      if (size === 'rest' && i !== names.length - 1)
        throw new KernelError(
          "teams: only the last team can have 'rest' as its number of programs",
          Site.here(),
        )
      const count =
        size === 'rest' ? this.programs.sub(taken) : this.#value<'i32', 0>(index(this.#recorder, size))
      taken = taken.add(count)
      return count.node
    })
    const program = this.program.node
    const blocks = names.map((name) => {
      const inner = new Block()
      const numbering = {
        program: this.#recorder.param(inner, valueType('i32'), 'program'),
        programs: this.#recorder.param(inner, valueType('i32'), 'programs'),
      }
      this.#numbering.push(numbering)
      try {
        return this.#recorder.within(inner, () => {
          expectSynchronous(teams[name].body(), `the team ${name}`)
          return []
        })
      } finally {
        this.#numbering.pop()
      }
    })
    this.#recorder.emit('teams', [program, ...sizes], { names }, blocks)
  }

  last(body: Body, options?: LastOptions): void {
    const { at = 0, of = 1, arrivals = this.programs } = options ?? {}
    const inputs = [index(this.#recorder, arrivals), ...(options ? [index(this.#recorder, at)] : [])]
    const block = this.#recorder.within(new Block(), () => {
      expectSynchronous(body(), 'last')
      return []
    })
    this.#recorder.emit('last', inputs, options ? { of } : {}, [block])
  }

  /** Emits a loop whose body takes `indices` indices, and the carried state if there is one. */
  loop(
    op: 'for' | 'persistent' | 'pipeline',
    bounds: readonly Node[],
    indices: number,
    init: Carried | undefined,
    body: (...args: unknown[]) => unknown,
    attributes: Attributes = {},
  ): unknown {
    const recorder = this.#recorder
    const start = init === undefined ? [] : flatten(init, op)
    const inner = new Block()
    const at = Array.from({ length: indices }, (_, axis) =>
      this.#value(recorder.param(inner, valueType('i32'), `i${axis}`)),
    )
    const names = init === undefined ? [] : namesOf(init)
    const state = start.map((node, i) => recorder.param(inner, node.type, names[i]))
    recorder.within(inner, () => {
      const result = body(...at, ...(init === undefined ? [] : [unflatten(recorder, init, state)]))
      expectSynchronous(result, op)
      return init === undefined ? [] : flatten(result, op)
    })
    const node = this.#recorder.emit(op, [...bounds, ...start], attributes, [inner])
    return init === undefined ? undefined : this.#results(node, init)
  }

  #results<C>(from: Node, form: C): C {
    const count = flatten(form, from.op).length
    const nodes = Array.from({ length: count }, (_, i) => this.#recorder.emit('result', [from], { index: i }))
    return unflatten(this.#recorder, form, nodes)
  }
}
