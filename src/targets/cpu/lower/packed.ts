/**
 * Handles packed tensors (panels.ts) in a kernel. The copy `t.copy(w.tile([k, j], [BK, BN]), shared)` from a packed
 * tensor moves no data, and the matrix products that read the shared tile read the tensor itself. Kernels do not write
 * packed tensors, so reading them in place does not change results. Any other use of a packed tensor is rejected with
 * its source line.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, walk, type KernelIR, type Node } from '../../../ir/node.ts'
import { origin } from '../../../ir/ops/index.ts'
import { KernelError } from '../../../ir/site.ts'
import { add, binary, i32, min, step, stride, use } from '../build.ts'
import type { Expression, Local, Machine } from '../code.ts'
import type { CpuFacts } from '../facts.ts'
import { refOf, type Lowering, type Shared } from './context.ts'
import type { PackedOperand, TileLayout } from './dot.ts'
import { panelColumns } from './dot/tiles.ts'
import { readsPacked } from './panels.ts'
import type { TensorView, TileView } from './views.ts'

export const isPacked = ({ options }: { readonly options: CpuFacts }, param: Node): boolean =>
  param.op === 'param' && (options.packed?.has(attribute<string>(param, 'name')) ?? false)

export const packedMisuse = (node: Node, param: Node, what: string): KernelError =>
  new KernelError(
    `${attribute<string>(param, 'name')} is packed, but ${what}: only whole tiles of a packed tensor can be copied, into a shared tile that only matrix products read, as their right operand. Pass the tensor unpacked`,
    node.site,
  )

/**
 * Returns the shared tiles that are aliases of tiles of packed tensors, and throws an error if the kernel uses a packed
 * tensor in any other way than to copy its tiles into such shared tiles.
 */
export function packedTiles(
  ir: KernelIR,
  options: CpuFacts,
  layouts: ReadonlyMap<Node, TileLayout>,
): ReadonlySet<Node> {
  const tiles = new Set<Node>()
  if (!options.packed || options.packed.size === 0) return tiles
  const plain = new Set<Node>()
  const { machine } = options
  for (const node of walk(ir.body)) {
    const target = node.op === 'copy' ? node.inputs[1] : undefined
    const [source] = node.inputs
    if (target?.op === 'shared' && !isPacked({ options }, origin(source).base)) plain.add(target)
    for (const input of node.inputs) {
      if (input.type.kind !== 'ref') continue
      const param = origin(input).base
      if (!isPacked({ options }, param)) continue
      if (node.op !== 'copy' || input !== source || source.op !== 'tile' || node.inputs.length !== 2)
        throw packedMisuse(node, param, 'the kernel accesses the tensor other than by copying a tile')
      if (target!.op !== 'shared' || !isRight(layouts.get(target!), machine) || !isOnlyRight(ir, target!))
        throw packedMisuse(
          node,
          param,
          'the kernel uses a tile other than as the right operand of a matrix product',
        )
      const { shape } = refOf(source)
      if (shape.length !== 2 || !readsPacked(machine, [shape[0], shape[1]]))
        throw packedMisuse(
          node,
          param,
          `its tiles have ${shape.at(-1)} columns, not a multiple of ${panelColumns(machine)}`,
        )
      tiles.add(target!)
    }
  }
  for (const node of walk(ir.body))
    if (node.op === 'copy' && tiles.has(node.inputs[1]) && plain.has(node.inputs[1]))
      throw packedMisuse(
        node,
        origin(node.inputs[0]).base,
        'the same shared tile is also filled from an unpacked tensor',
      )
  return tiles
}

const isRight = (layout: TileLayout | undefined, machine: Machine): boolean =>
  layout?.kind === 'panels' && layout.axis === 1 && layout.width === panelColumns(machine)

/**
 * True if matrix products use the tile only as their right operand, not transposed. The layout of a tile does not show
 * its uses: a narrow tile that is a left operand, or that is multiplied transposed, can have the layout of a right
 * operand.
 */
const isOnlyRight = (ir: KernelIR, tile: Node): boolean =>
  [...walk(ir.body)].every(
    ({ op, inputs }) =>
      !inputs.includes(tile) ||
      op === 'copy' ||
      (op === 'dot' && inputs.indexOf(tile) === 1 && inputs[2] !== tile),
  )

/** A view of a packed tensor, whose row stride is that of one panel. */
export function packedView(l: Lowering, whole: TensorView): TensorView {
  const row = panelColumns(l.machine) * dtypes[whole.dtype].bytes
  const name = `packed ${l.paramIndex(whole.param)}`
  return {
    ...whole,
    strides: [l.once(`bytes ${row}`, (writer) => writer.let('bytes', stride(i32(row), 1))), whole.strides[1]],
    panelStride: l.once(name, (writer) => writer.let('panel', stride(whole.extents[0], row))),
  }
}

/** The address of the panel that begins at the given column. */
export const panelAt = (l: Lowering, row: Expression, column: Expression, panel: Expression): Expression =>
  step(row, binary('div', column, i32(panelColumns(l.machine))), panel)

/** The location of the packed tile that a shared tile currently refers to. */
export interface PackedPlace {
  readonly base: Local
  readonly panelStride: Local
  readonly rowsInside: Local
  readonly panelsInside: Local
}

/** Lowers a copy from a packed tensor: stores the location of the tile. */
export function standFor(l: Lowering, from: TileView, declaration: Node): void {
  let place = l.packed.get(declaration)
  if (!place) {
    place = {
      base: { type: 'ptr', name: 'packed' },
      panelStride: { type: 'ptr', name: 'panel' },
      rowsInside: { type: 'i32', name: 'rowsInside' },
      panelsInside: { type: 'i32', name: 'panelsInside' },
    }
    l.packed.set(declaration, place)
  }
  const { writer } = l
  const width = panelColumns(l.machine)
  const panels = binary('div', add(from.inside!.columns, i32(width - 1)), i32(width))
  writer.set(place.base, from.base)
  writer.set(place.panelStride, from.panelStride!)
  writer.set(place.rowsInside, min(i32(from.rows), from.inside!.rows))
  writer.set(place.panelsInside, min(i32(from.columns / width), panels))
}

/** The right operand of a matrix product that reads a packed tensor. */
export function packedOperand(l: Lowering, node: Node, declaration: Node, tile: TileView): PackedOperand {
  const place = l.packed.get(declaration)
  if (!place)
    throw new KernelError(
      'a tile of a packed tensor can only be multiplied in the role that copied it: copy it in this role, or pass the tensor unpacked',
      node.site,
    )
  const { base, panelStride, rowsInside, panelsInside } = place
  return {
    base: use(base),
    dtype: tile.dtype,
    rows: tile.rows,
    columns: tile.columns,
    panelStride,
    rowsInside,
    panelsInside,
  }
}

export const standsForPacked = (shared: Shared, declaration: Node | undefined): boolean =>
  declaration !== undefined && shared.packedTiles.has(declaration)
