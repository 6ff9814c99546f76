/**
 * Renders the matrix product, and the writes of operands in registers to shared memory if the matrix instruction reads
 * these operands from shared memory. A matrix product is computed by wgmma (dot.ts), by mma.sync (mma.ts) or by plain
 * arithmetic (elements.ts).
 *
 * With wgmma, a warpgroup multiplies its own rows, 64 at a time, by up to 256 columns at a time. A `swapped` matrix
 * product is computed as its transpose, so that a warpgroup multiplies its own columns by all rows. A matrix product by
 * wgmma is in flight until a `dot.wait`.
 */
import type { Node } from '../../../../ir/node.ts'
import type { Shape, ValueType } from '../../../../ir/type.ts'
import { isSplat } from '../assign.ts'
import {
  code,
  group,
  integer,
  operand,
  plain,
  scaled,
  sum,
  valueOf,
  word,
  type Code,
  type Variable,
} from '../code.ts'
import type { Emission } from '../emission.ts'
import { spreadOf } from '../layout.ts'
import { lib } from '../library.ts'
import { columnsAtOnce } from '../products.ts'
import { stagedOf } from '../scratch.ts'
import type { Tile } from '../tiles.ts'
import { wgmmaName } from '../../prelude.ts'
import { multiplyElements } from './elements.ts'
import { writeTile } from './exchange.ts'
import { multiplyTiles } from './mma.ts'
import { sharedView, type SharedView } from './places.ts'
import type { Renderer } from './renderer.ts'

/** The shared tiles of a matrix product's operands. If `left` is undefined, the left operand is in registers. */
export interface Operands {
  readonly left: SharedView | undefined
  readonly right: SharedView
}

export const dot: Renderer = (node, emission) => {
  const product = emission.plans.products.get(node)!
  const operands = operandsOf(node, emission)
  const acc = accumulator(node, emission)
  switch (product) {
    case 'wgmma':
      return multiplyByWarpgroups(node, { ...operands, shape: (node.type as ValueType).shape }, acc, emission)
    case 'swapped':
      return multiplyByWarpgroups(node, swapped(operands, node), acc, emission)
    case 'mma':
      return multiplyTiles(node, operands, acc, emission)
    case 'elements':
      return multiplyElements(node, operands, acc, emission)
    default:
      product satisfies never
  }
}

/**
 * Returns the shared tiles of operands that are in registers but that the matrix instruction reads from shared memory.
 */
function stagedViews(node: Node, emission: Emission): Partial<Operands> {
  const staged = stagedOf(node, emission.group, emission.plans.layouts)
  const staging = (tile: Tile, at: number): SharedView => ({
    tile,
    base: group(sum(emission.scratch(node), integer(at))),
    transposed: false,
    row: undefined,
  })
  return {
    left: staged.left && staging(staged.left, 0),
    right: staged.right && staging(staged.right, staged.left?.stageBytes ?? 0),
  }
}

export const operands: Renderer = (node, emission) => {
  const dot = emission.plans.uses.users(node.inputs[0]).find(({ op }) => op === 'dot')!
  const [a, b] = dot.inputs
  const { left, right } = stagedViews(dot, emission)
  if (left) writeTile(a, left, emission)
  if (right) writeTile(b, right, emission)
}

function operandsOf(node: Node, emission: Emission): Operands {
  const [a, b] = node.inputs
  const { left, right } = stagedViews(node, emission)
  return {
    left: left ?? (a.type.kind === 'ref' ? sharedView(a, emission) : undefined),
    right: right ?? sharedView(b, emission),
  }
}

/** The operands of wgmma and the shape of its result. */
interface Factors extends Operands {
  readonly shape: Shape
}

/** Returns the operands of the transposed product: both operands are transposed and exchanged. */
function swapped({ left, right }: Operands, node: Node): Factors {
  const transposed = (view: SharedView): SharedView => ({ ...view, transposed: !view.transposed })
  const shape = (node.type as ValueType).shape.toReversed()
  return { left: transposed(right), right: transposed(left!), shape }
}

function multiplyByWarpgroups(node: Node, operands: Factors, acc: Variable, emission: Emission): void {
  const { out } = emission
  // A loop with matrix products in flight fences its accumulators once, before the first matrix product.
  if (!emission.fenced.has(acc)) out.line(code`${lib.fragment_fence}(${acc});`, node.site)
  out.line(code`${lib.wgmma_fence}();`, node.site)
  multiply(node, operands, acc, emission)
  out.line(code`${lib.wgmma_commit}();`)
  emission.inFlight.add(acc)
}

export const dotWait: Renderer = ({ attributes }, { out, inFlight, fenced }) => {
  const { pending = 0 } = attributes as { pending?: number }
  const why = pending > 0 ? '  // waits until the previous matrix product has read its slot' : ''
  out.line(code`${lib.wgmma_wait}<${pending}>();${why}`)
  if (pending > 0) return
  for (const acc of inFlight) out.line(code`${lib.fragment_fence}(${acc});`)
  inFlight.clear()
  fenced.clear()
}

/**
 * Returns the registers to which the matrix product is added: the registers of the accumulator if the accumulator has
 * no other use, otherwise a copy of them.
 */
function accumulator(node: Node, emission: Emission): Variable {
  const from = node.inputs[2]
  const array = isSplat(from) ? undefined : emission.fragment(from).array
  if (array && emission.plans.uses.diesAt(from, node)) {
    emission.aliasFragment(node, array)
    return array
  }
  const name = emission.declareFragment(node, 'acc')
  emission.fill(name, from, node)
  return name
}

function multiply(node: Node, operands: Factors, acc: Variable, emission: Emission): void {
  const { out } = emission
  const [a] = node.inputs
  const { dtype, shape } = a.type as ValueType
  const depth = shape[1]
  const columns = operands.shape[1]
  const perTile = columns / 2
  const tiles = spreadOf(operands.shape, emission.group).rowTiles
  const { tile, transposed } = operands.right
  const width = columnsAtOnce(columns, { span: tile.span, areInner: !transposed })!
  const chunks = columns / width
  const wgmma = {
    n: width,
    dtype: dtype as 'bf16' | 'f16',
    a: operands.left ? ('shared' as const) : ('registers' as const),
  }
  emission.wgmma.push(wgmma)
  const steps = depth / 16
  const right = operandOf(operands.right, 'right')
  const left = operands.left && operandOf(operands.left, 'left')
  const registersA = left ? '' : emission.inArray(a, 'left')
  const row = emission.group.warps === 4 ? integer(0) : plain('thread / 128')

  out.block('', () => {
    for (let chunk = 0; chunk < chunks; chunk++)
      out.line(code`const u64 right${chunk} = ${right.descriptor(integer(chunk * width))};`)
    if (left)
      for (let tile = 0; tile < tiles; tile++) {
        const first = sum(scaled(row, 64 * tiles), integer(64 * tile))
        out.line(code`const u64 left${tile} = ${left.descriptor(first)};`)
      }
    out.line('#pragma unroll')
    out.block(code`for (u32 step = 0; step < ${steps}; ++step)`, () => {
      for (let tile = 0; tile < tiles; tile++)
        for (let chunk = 0; chunk < chunks; chunk++) {
          const part =
            tiles * chunks === 1
              ? acc
              : code`${lib.part}<${width / 2}>(${acc}, ${tile * perTile + (chunk * width) / 2})`
          const from = left
            ? code`left${tile} + ${left.step}`
            : code`${lib.part}<4>(${registersA}, ${sum(integer((tile * depth) / 4), plain('step * 4'))})`
          const flags = left ? code`${left.transposed}, ${right.transposed}` : right.transposed
          out.line(
            code`${word(wgmmaName(wgmma), wgmmaName(wgmma))}<${flags}>(${part}, ${from}, right${chunk} + ${right.step});`,
          )
        }
    })
  })
}

interface OperandText {
  /**
   * Returns the wgmma descriptor of the operand, starting at row `first` (or at column `first` for the right operand).
   */
  descriptor(first: Code): Code
  /** The amount to add to a descriptor per step of 16 elements along k, in units of 16 bytes. */
  readonly step: Code
  /** 1 if the k axis is not the contiguous axis of the operand in shared memory, otherwise 0. */
  readonly transposed: 0 | 1
}

function operandOf(view: SharedView, side: 'left' | 'right'): OperandText {
  const { tile, base } = view
  const { span, rows } = tile
  const panel = rows * span
  const isDepthInner = (side === 'left') !== view.transposed
  if (isDepthInner) {
    const perPanel = span / 32
    const step =
      tile.columns * 2 <= span
        ? plain('step * 2')
        : code`(step / ${perPanel} * ${panel / 16} + step % ${perPanel} * 2)`
    return {
      descriptor: (first) =>
        code`${lib.wgmma_operand}<${span}>(${sum(base, scaled(operand(first), span))}, 16, ${8 * span})`,
      step,
      transposed: 0,
    }
  }
  const perPanel = span / 2
  return {
    descriptor: (first) =>
      code`${lib.wgmma_operand}<${span}>(${sum(base, scaled(operand(divided(first, perPanel)), panel))}, ${panel}, ${8 * span})`,
    step: code`step * ${span}`,
    transposed: 1,
  }
}

function divided(one: Code, by: number): Code {
  const value = valueOf(one)
  return value === undefined ? code`(${one}) / ${by}` : integer(value / by)
}
