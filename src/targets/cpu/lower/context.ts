/**
 * Holds the state of lowering one function: the writer, the values of the nodes lowered so far, and the data that all
 * functions of the kernel share. Values that are constant for a whole program (arguments, epochs) are loaded once, at
 * the function's start.
 */
import type { KernelIR, Node } from '../../../ir/node.ts'
import type { Site } from '../../../ir/site.ts'
import {
  elements,
  type BarriersType,
  type FlagsType,
  type RefType,
  type TensorType,
  type ValueType,
} from '../../../ir/type.ts'
import { epochs, launch as launchBlock, param as paramBlock } from '../abi.ts'
import { add, address, i32, step, stride, use, Writer } from '../build.ts'
import type { CodeFunction, Expression, Local, Machine, Statement } from '../code.ts'
import type { CpuFacts } from '../facts.ts'
import { rawCodeType } from './convert.ts'
import type { TileLayout } from './dot.ts'
import { FrameLayout, type Buffer } from './frame.ts'
import type { PackedPlace } from './packed.ts'
import type { Plan } from './plan.ts'
import type { Runtime } from './runtime.ts'
import type { View } from './views.ts'

/** The data that all functions of one kernel share. */
export interface Shared {
  readonly ir: KernelIR
  readonly machine: Machine
  readonly options: CpuFacts
  readonly plan: Plan
  readonly frame: FrameLayout
  readonly runtime: Runtime
  readonly layouts: ReadonlyMap<Node, TileLayout>
  /** Shared tiles whose data may stay in a tensor (borrowed.ts). */
  readonly borrowed: ReadonlySet<Node>
  /** Shared tiles that are aliases of tiles of packed tensors. */
  readonly packedTiles: ReadonlySet<Node>
  readonly sites: Sites
  /** The offsets of shared tiles and barriers in the frame (the private memory of a program). */
  readonly declared: Map<Node, number>
  /** The offsets, in the frame (the private memory of a program), of scalars that a leader writes for its roles. */
  readonly published: Map<Node, number>
  counterWords: number
}

/** Assigns numbers to the author's source lines. */
export class Sites {
  readonly list: (Site | undefined)[] = [undefined]
  /** The messages of the assertions, by the number of their source line. */
  readonly messages: (string | undefined)[] = []
  readonly #numbers = new Map<Site, number>()

  number(node: Node): number {
    if (!node.site) return 0
    let number = this.#numbers.get(node.site)
    if (number === undefined) this.#numbers.set(node.site, (number = this.list.push(node.site) - 1))
    return number
  }
}

/** The local variables that every function of a kernel has. */
export interface Ambient {
  readonly launch: Local
  readonly frame: Local
  readonly slot: Local
  /** The address of the start of the shared memory, where the `control` page is. */
  readonly memory: Local
  readonly program: Local
}

export class Lowering {
  readonly shared: Shared
  readonly plan: Plan
  readonly machine: Machine
  readonly writer: Writer
  readonly ambient: Ambient
  /** Statements that run before all other statements of the function. */
  readonly prologue: Statement[] = []
  readonly scalars = new Map<Node, Expression>()
  readonly buffers = new Map<Node, Buffer>()
  readonly views = new Map<Node, View>()
  /** For each shared tile that is an alias: the tile of a packed tensor to which it refers. */
  readonly packed = new Map<Node, PackedPlace>()
  /**
   * For each `dot` that adds to a sum which a loop carries: a local variable that is 1 until the first matrix product
   * has been stored.
   */
  readonly fresh = new Map<Node, Local>()
  /** The buffers chosen for fragments before the fragments are computed. */
  readonly preferred = new Map<Node, Buffer>()
  /** Stored values whose memory must not be overwritten, because other nodes read the same memory. */
  readonly pinned = new Set<Node>()
  /** The results of control-flow nodes, by index. */
  readonly results = new Map<Node, readonly (Expression | Buffer)[]>()
  /** The number of roles that run concurrently at the position in the program that is being lowered. */
  roles = 1
  /** Returns the value of a scalar that another function computed. */
  capture: ((node: Node) => Expression) | undefined
  readonly #once = new Map<string, Expression>()

  constructor(shared: Shared, writer: Writer, ambient: Ambient) {
    this.shared = shared
    this.plan = shared.plan
    this.machine = shared.machine
    this.writer = writer
    this.ambient = ambient
  }

  /** A named value that is computed once, in the function's prologue. */
  once(name: string, make: (writer: Writer) => Expression | Local): Expression {
    let value = this.#once.get(name)
    if (!value) {
      const { writer } = this
      const outer = writer.statements
      const own: Statement[] = []
      writer.statements = own
      value = use(make(writer))
      // The function `make` may itself have added statements to the prologue. Statements that `make` added must precede
      // the new statements that depend on them.
      this.prologue.push(...own)
      writer.statements = outer
      this.#once.set(name, value)
    }
    return value
  }

  launchWord(name: 'rank' | 'grid' | 'heapStride' | 'leaders'): Expression {
    return this.once(name, (writer) =>
      writer.load(name, 'i32', 'i32', this.ambient.launch, launchBlock[name]),
    )
  }
  get rank(): Expression {
    return this.launchWord('rank')
  }
  /** The distance between the heaps of consecutive ranks, in bytes. */
  get heapStride(): Expression {
    return this.once('heap', (writer) => writer.let('heap', stride(this.launchWord('heapStride'), 65536)))
  }
  /**
   * The distance of a rank's heap from this rank's heap, in units of `heapUnit`, for a group of unevenly spaced ranks.
   */
  heapAt(rank: Expression): Expression {
    const at = address(this.ambient.launch, rank, 4)
    return use(this.writer.load('distance', 'i32', 'i32', at, launchBlock.heaps))
  }
  get heapUnit(): Expression {
    return this.once('heap unit', (writer) => writer.let('unit', stride(i32(65536), 1)))
  }

  paramIndex(node: Node): number {
    return this.shared.ir.body.params.indexOf(node)
  }
  #paramAt(node: Node): number {
    return launchBlock.params + this.paramIndex(node) * paramBlock.bytes
  }
  /** The address of this rank's copy of a tensor or flag set. */
  ownCopy(node: Node): Expression {
    const at = this.#paramAt(node)
    return this.once(`own ${at}`, (writer) => {
      const first = writer.loadPointer('rank0', this.ambient.launch, at + paramBlock.pointer)
      return writer.let(String(node.attributes.name), step(first, this.rank, this.heapStride))
    })
  }
  extent(node: Node, axis: number): Expression {
    const at = this.#paramAt(node) + paramBlock.extents + 4 * axis
    return this.once(`extent ${at}`, (writer) => writer.load('extent', 'i32', 'i32', this.ambient.launch, at))
  }
  /** The stride of one axis of a tensor, in bytes. */
  axisStride(node: Node, axis: number, rank: number, bytes: number): Expression {
    if (axis === rank - 1)
      return this.once(`bytes ${bytes}`, (writer) => writer.let('bytes', stride(i32(bytes), 1)))
    return this.once(`stride ${this.paramIndex(node)} ${axis}`, (writer) => {
      const extent = this.extent(node, axis + 1)
      return writer.let(
        'stride',
        axis === rank - 2
          ? stride(extent, bytes)
          : step(stride(i32(0), 1), extent, this.axisStride(node, axis + 1, rank, bytes)),
      )
    })
  }
  /** The address of a flag set's epoch words on this rank. */
  epochsOf(node: Node): Expression {
    const at = this.#paramAt(node) + paramBlock.epochs
    return this.once(`epochs ${at}`, (writer) => {
      const first = writer.loadPointer('epochs0', this.ambient.launch, at)
      return writer.let('epochs', step(first, this.rank, this.heapStride))
    })
  }
  /** The epoch of a flag set during this launch. */
  epoch(node: Node, side: 'signalled' | 'waited'): Expression {
    return this.once(`${side} ${this.paramIndex(node)}`, (writer) => {
      const before = writer.load(side, 'i32', 'i32', this.epochsOf(node), epochs[side])
      return writer.let('epoch', add(before, i32(1)))
    })
  }
  scalarParam(node: Node): Expression {
    const at = this.#paramAt(node) + paramBlock.value
    const { dtype } = valueOf(node)
    if (dtype === 'bool') throw new Error('a mask is no parameter')
    const kind = dtype === 'f32' ? 'f32' : dtype === 'i64' ? 'i64' : 'i32'
    return this.once(`param ${at}`, (writer) =>
      writer.load(String(node.attributes.name), rawCodeType(dtype, false), kind, this.ambient.launch, at),
    )
  }

  call(callee: CodeFunction, ...args: (Expression | Local)[]): Local | undefined {
    return this.writer.call(callee, ...args)
  }

  /** Returns from the function after an abort. */
  stop(): void {
    this.writer.return(i32(-1))
  }
}

export const valueOf = (node: Node): ValueType => node.type as ValueType
export const refOf = (node: Node): RefType => node.type as RefType
export const tensorOf = (node: Node): TensorType => node.type as TensorType
export const flagsOf = (node: Node): FlagsType => node.type as FlagsType
export const barriersOf = (node: Node): BarriersType => node.type as BarriersType
export const isScalarRef = (node: Node): boolean =>
  elements(refOf(node).shape) === 1 && refOf(node).shape.length === 0
export const constantOf = (node: Node): number | undefined =>
  node.op === 'const' ? (node.attributes.value as number) : undefined
