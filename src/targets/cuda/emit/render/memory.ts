/**
 * Renders loads, stores and copies by the threads of a group, and asynchronous copies by the TMA (tensor memory
 * accelerator).
 */
import { dtypes } from '../../../../ir/dtype.ts'
import { extentsOf, strideOf } from '../../../../ir/clusters.ts'
import { attribute, type Node } from '../../../../ir/node.ts'
import type { Order, Scope } from '../../../../ir/ops/index.ts'
import type { RefType, TensorType, ValueType } from '../../../../ir/type.ts'
import { isFragment, lanesOf } from '../assign.ts'
import type { ChunksPlan, MapPlan, TensorPlan } from '../copies.ts'
import {
  all,
  code,
  EVEN,
  integer,
  joined,
  ODD,
  REGISTER,
  scaled,
  sum,
  word,
  type Code,
  type Variable,
} from '../code.ts'
import { registers, type Emission } from '../emission.ts'
import { blockedLayout } from '../layout.ts'
import { ownerOf } from '../record.ts'
import { is16Bit, literal, registerType } from '../spell.ts'
import { tileOf, type TileView } from '../views.ts'
import { engineCoordinates, placeOf, sharedView, type Place } from './places.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'
import { PLACE } from './sync.ts'

const read = (place: Place, type: Code, address: Code): Code =>
  place.space === 'shared' ? code`${lib.shared_load}<${type}>(${address})` : code`*(${address})`
const write = (place: Place, type: Code, address: Code, value: Code): Code =>
  place.space === 'shared'
    ? code`${lib.shared_store}<${type}>(${address}, ${value});`
    : code`*(${address}) = ${value};`

/**
 * Renders a memory access. If the kernel records events and the memory may belong to another rank, the access is
 * recorded as well.
 */
export function recorded(
  node: Node,
  ref: Node,
  emission: Emission,
  access: () => void,
  last?: () => Code,
): void {
  const owner = emission.recorder && ownerOf(ref)
  if (owner && ref.op !== 'at') emission.recorder!.copy(node, owner, access, last)
  else access()
}

export const load: Renderer = (node, emission) => {
  if (!isFragment(node)) return loadScalar(node, placeOf(node.inputs[0], emission), emission)
  const last = (): Code => lastBits(node, emission)
  recorded(node, node.inputs[0], emission, () => loadFragment(node, emission), last)
}

/** Returns the text of the last register of a fragment, as a u32 with the same bits. */
function lastBits(node: Node, emission: Emission): Code {
  const { dtype } = node.type as ValueType
  const [, count] = registers(dtype, emission.plans.layouts.of(node).count)
  const register = code`${emission.fragment(node).array!}[${count - 1}]`
  return dtype === 'f32' ? code`__float_as_uint(${register})` : code`(u32)${register}`
}

function loadFragment(node: Node, emission: Emission): void {
  const [ref, mask, other] = node.inputs
  const place = placeOf(ref, emission)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  const layout = emission.plans.layouts.of(node)
  const name = emission.declareFragment(node, `loaded_${dtype}`)
  const bytes = wideBytes(node, ref, layout.vector, emission)
  if (bytes > 0 && !mask && order === undefined) {
    const step = bytes / dtypes[dtype].bytes
    const [, count] = registers(dtype, layout.count)
    const at = layout.place(REGISTER)
    const guard = all([layout.exists(REGISTER), place.inside(at)])
    if (guard) emission.out.unrolled(count, code`${name}[i] = 0;`, node.site)
    emission.out.line('#pragma unroll')
    const register = is16Bit(dtype) ? 'i / 2' : 'i'
    emission.out.line(
      code`for (u32 i = 0; i < ${layout.count}; i += ${step}) ${guard ? code`if (${guard}) ` : ''}${lib.load_words}<${bytes}>(${name}, ${register}, ${place.address(at, REGISTER)});`,
      node.site,
    )
    return
  }
  const strong =
    order && emission.strong({ op: 'load', dtype, order, scope: scope!, space: place.space }, node)
  const element = (i: Code): Code => {
    const at = layout.place(i)
    const wanted = mask && emission.element(mask, i, at).text
    const guard = all([layout.exists(i), place.inside(at), other ? undefined : wanted])
    const address = place.address(at, i)
    const value = strong ? code`${strong}(${address})` : read(place, type, address)
    const inside = guard ? code`(${guard}) ? ${value} : (${type})${literal(dtype, 0)}` : value
    // The value `other` replaces only masked elements. Unmasked elements outside the tensor read as 0.
    return other ? code`(${wanted}) ? (${inside}) : ${emission.element(other, i, at).text}` : inside
  }
  fillElements(name, dtype, layout.count, element, node, emission)
}

function fillElements(
  name: Variable,
  dtype: ValueType['dtype'],
  count: number,
  element: (i: Code) => Code,
  node: Node,
  emission: Emission,
): void {
  if (!is16Bit(dtype))
    return emission.out.unrolled(count, code`${name}[i] = ${element(REGISTER)};`, node.site)
  const pair = code`${lib.pack_bits}(${element(EVEN)}, ${element(ODD)})`
  emission.out.unrolled(Math.ceil(count / 2), code`${name}[p] = ${pair};`, node.site, 'p')
}

function loadScalar(node: Node, place: Place, emission: Emission): void {
  const [, mask, other] = node.inputs
  const { dtype } = node.type as ValueType
  const type = registerType(dtype)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  const address = place.address([], integer(0))
  const masked = (value: Code): Code =>
    mask
      ? code`${emission.scalar(mask)} ? ${value} : ${other ? emission.scalar(other) : literal(dtype, 0)}`
      : value
  const name = emission.variable('loaded')
  emission.setVariable(node, name)
  if (!order)
    return emission.out.line(code`const ${type} ${name} = ${masked(read(place, type, address))};`, node.site)
  const strong = emission.strong({ op: 'load', dtype, order, scope: scope!, space: place.space }, node)
  emission.fromLeader(node, type, name, masked(code`${strong}(${address})`))
}

/**
 * The number of bytes that one instruction moves between adjacent registers and adjacent elements in memory. The result
 * 0 means that each instruction moves one element.
 */
function wideBytes(value: Node, ref: Node, vector: number, emission: Emission): number {
  const { dtype } = value.type as ValueType
  const { bytes } = dtypes[dtype]
  if (bytes > 4 || bytes === 1 || (ref.type as RefType).space === 'shared') return 0
  const width = Math.min(vector, emission.plans.copies.alignment(ref)) * bytes
  return width >= 4 ? width : 0
}

export const store: Renderer = (node, emission) => {
  recorded(node, node.inputs[0], emission, () => storeValue(node, emission))
}

function storeValue(node: Node, emission: Emission): void {
  const [ref, value, mask] = node.inputs
  const place = placeOf(ref, emission)
  const { dtype } = value.type as ValueType
  const type = registerType(dtype)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  const strong =
    order && emission.strong({ op: 'store', dtype, order, scope: scope!, space: place.space }, node)
  const put = (address: Code, text: Code): Code =>
    strong ? code`${strong}(${address}, ${text});` : write(place, type, address, text)
  if (!isFragment(value)) {
    const guard = mask ? code`if (${emission.scalar(mask)}) ` : ''
    return emission.byLeader(
      code`${guard}${put(place.address([], integer(0)), emission.scalar(value))}`,
      node.site,
    )
  }
  const layout = emission.plans.layouts.of(value)
  const bytes = wideBytes(value, ref, layout.vector, emission)
  if (bytes > 0 && !mask && !order) {
    const array = emission.inArray(value)
    const step = bytes / dtypes[dtype].bytes
    const at = layout.place(REGISTER)
    const guard = all([layout.isFirst, layout.exists(REGISTER), place.inside(at)])
    const register = is16Bit(dtype) ? 'i / 2' : 'i'
    emission.out.line('#pragma unroll')
    emission.out.line(
      code`for (u32 i = 0; i < ${layout.count}; i += ${step}) ${guard ? code`if (${guard}) ` : ''}${lib.store_words}<${bytes}>(${place.address(at, REGISTER)}, ${array}, ${register});`,
      node.site,
    )
    return
  }
  const at = layout.place(REGISTER)
  const guard = all([
    layout.isFirst,
    layout.exists(REGISTER),
    place.inside(at),
    mask && emission.element(mask, REGISTER, at).text,
  ])
  const text = put(place.address(at, REGISTER), emission.element(value, REGISTER, at).text)
  emission.out.unrolled(layout.count, code`${guard ? code`if (${guard}) ` : ''}${text}`, node.site)
}

export const copy: Renderer = (node, emission) => {
  const isElements = node.inputs.length > 2 || node.inputs.some((ref) => ref.op === 'at')
  const copy = (): void => {
    if (isElements && (node.inputs[0].type as RefType).shape.length > 0) copyElements(node, emission)
    else copyByThreads(node, emission)
  }
  const [remote] = emission.recorder ? node.inputs.slice(0, 2).filter(ownerOf) : []
  if (remote) emission.recorder!.copy(node, ownerOf(remote)!, copy)
  else copy()
}

/** Renders a gather, scatter or masked copy: each element is copied by the thread that holds its index or its mask. */
function copyElements(node: Node, emission: Emission): void {
  const [source, target, mask] = node.inputs
  const { dtype, shape } = source.type as RefType
  const type = registerType(dtype)
  const [lane] = lanesOf(node)
  const layout = lane
    ? emission.plans.layouts.of(lane)
    : blockedLayout(shape, dtypes[dtype].bytes, emission.group)
  const [from, to] = [placeOf(source, emission), placeOf(target, emission)]
  const at = layout.place(REGISTER)
  const inside = from.inside(at)
  // If a source element is outside its tensor, the target element keeps its value in a tensor, and becomes 0 in a
  // shared tile.
  const isKept = to.space === 'global'
  const guard = all([
    layout.isFirst,
    layout.exists(REGISTER),
    to.inside(at),
    isKept ? inside : undefined,
    mask && emission.element(mask, REGISTER, at).text,
  ])
  const value = read(from, type, from.address(at, REGISTER))
  const text = write(
    to,
    type,
    to.address(at, REGISTER),
    inside && !isKept ? code`(${inside}) ? ${value} : (${type})${literal(dtype, 0)}` : value,
  )
  emission.out.unrolled(layout.count, code`${guard ? code`if (${guard}) ` : ''}${text}`, node.site)
}

function copyByThreads(node: Node, emission: Emission): void {
  const { out } = emission
  const [source, target] = node.inputs
  const { dtype, shape } = source.type as RefType
  const isWide = emission.plans.copies.ofCopy(node).how === 'vector'
  const type = isWide ? lib.Chunk : registerType(dtype)
  const width = isWide ? 16 / dtypes[dtype].bytes : 1
  const [from, to] = [placeOf(source, emission), placeOf(target, emission)]
  const pointer = (place: Place, address: Code): Code =>
    isWide && place.space === 'global' ? code`(${lib.Chunk}*)(${address})` : address
  if (shape.length === 0) {
    const value = read(from, type, pointer(from, from.address([], integer(0))))
    const guard = node.op === 'copy' && node.inputs[2] ? code`if (${emission.scalar(node.inputs[2])}) ` : ''
    return emission.byLeader(
      code`${guard}${write(to, type, pointer(to, to.address([], integer(0))), value)}`,
      node.site,
    )
  }
  overChunks(shape, width, node, emission, (at) => {
    const inside = from.inside(at)
    const value = read(from, type, pointer(from, from.address(at, integer(0))))
    const outside = to.inside(at)
    const put = (text: Code): Code => write(to, type, pointer(to, to.address(at, integer(0))), text)
    if (to.space === 'global') {
      // If a source element is outside its tensor, the target tensor keeps its old element.
      const guard = all([inside, outside])
      out.line(code`${guard ? code`if (${guard}) ` : ''}${put(value)}`)
    } else {
      out.line(code`${type} value = {};`)
      out.line(code`${inside ? code`if (${inside}) ` : ''}value = ${value};`)
      out.line(put(word('value')))
    }
  })
}

/** Writes a loop that divides the chunks of a tile, of `width` elements each, among the threads of the group. */
function overChunks(
  shape: readonly number[],
  width: number,
  { site }: Node,
  { out, group }: Emission,
  body: (at: readonly Code[]) => void,
): void {
  const columns = shape[shape.length - 1] / width
  const count = shape.reduce((product, extent) => product * extent, 1) / width
  out.line('#pragma unroll 4')
  const head = group.solo
    ? code`for (u32 chunk = 0; chunk < ${count}; ++chunk)`
    : code`for (u32 chunk = thread; chunk < ${count}; chunk += ${group.threads})`
  out.block(
    head,
    () => {
      if (shape.length === 1) out.line(code`const u32 column = ${scaled(word('chunk'), width)};`)
      else
        out.line(
          code`const u32 row = chunk / ${columns}, column = ${scaled(code`chunk % ${columns}`, width)};`,
        )
      body((shape.length === 1 ? ['column'] : ['row', 'column']).map((one) => word(one)))
    },
    site,
  )
}

export const copyAsync: Renderer = (node, emission) => {
  const plan = emission.plans.copies.ofCopy(node)
  if (plan.how !== 'tensor')
    return recorded(node, node.inputs[0], emission, () => copyByThreads(node, emission))
  const { recorder, group } = emission
  const owner = recorder && ownerOf(node.inputs[0])
  if (!owner) return copyByEngine(node, plan, emission)
  const copy = (): void => copyByEngine(node, plan, emission)
  if (group.solo) recorder.started(node, owner, copy)
  else recorder.copy(node, owner, copy)
}

/**
 * Describes the strip of a tile that this program copies into the shared memory of all programs on a line of its
 * cluster: the first row of the strip, its offset in shared memory, and the multicast mask. Returns undefined if the
 * program copies the whole tile for itself.
 */
function partOf(node: Node, { part }: TensorPlan): { row: Code; offset: Code; line: Code } | undefined {
  if (!part) return undefined
  const cluster = extentsOf(node)
  const axis = attribute<number>(node, 'multicast')
  const [stride, extent] = [strideOf(cluster, axis), cluster[axis]]
  const own = code`${PLACE} / ${stride} % ${extent}`
  return {
    row: code`(${lib.i32})(${own} * ${part.rows})`,
    offset: code`${own} * ${part.bytes}`,
    line: code`${lib.cluster_line}(${PLACE}, ${stride}, ${extent})`,
  }
}

function copyByEngine(node: Node, plan: TensorPlan, emission: Emission): void {
  const { out } = emission
  const [source, target, barrier] = node.inputs
  const view = tileOf(source)
  const map = emission.params.map(plan.map)
  const start = sharedStart(target, emission)
  const completes = emission.scalar(barrier)
  const parts = partOf(node, plan)
  const call = emission.tensorCopy(
    parts ? 'multicast' : 'load',
    plan.map.box.length + Number(plan.map.ranked),
  )
  const guard = emission.group.solo ? '' : 'if (thread == 0) '
  out.line(code`${guard}${lib.barrier_expect_bytes}(${completes}, ${plan.bytes});`, node.site)
  const copyWhole = (): void => {
    for (const box of plan.boxes) {
      const at = (view.shape.length === 1 ? [box.column] : [box.row, box.column]).map(integer)
      if (parts) at[0] = sum(parts.row, at[0])
      const coordinates = engineCoordinates(view, at, plan.map.ranked, emission)
      const to = sum(parts ? sum(start, parts.offset) : start, integer(box.offset))
      const line = parts ? code`${parts.line}, ` : ''
      out.line(
        code`${guard}${call}(${to}, ${map}, ${completes}, ${line}${joined(coordinates, ', ')});`,
        node.site,
      )
    }
  }
  if (!plan.ragged) return copyWhole()
  const rows = emission.names.take('rows_left')
  const before = scaled(emission.scalar(view.indices[0]), view.shape[0])
  out.line(code`const ${lib.i32} ${rows} = ${emission.scalar(view.axes[0].size!)} - ${before};`, node.site)
  out.block(code`if (${rows} >= ${view.shape[0]})`, copyWhole, node.site, '} else {')
  out.indented(() => copyRows(plan, view, { start, completes, rows, call: code`${guard}${call}` }, emission))
  out.line('}')
}

/**
 * Renders a copy in flight. Either one thread of the group starts TMA stores, which form one bulk group, or all threads
 * start cp.async copies into a shared tile.
 */
export const copyInFlight: Renderer = (node, emission) => {
  const plan = emission.plans.copies.ofCopy(node)
  if (plan.how !== 'chunks') return recorded(node, node.inputs[1], emission, () => storeTile(node, emission))
  fetchChunks(node, plan, emission)
  const owner = emission.recorder && ownerOf(node.inputs[0])
  if (owner) emission.recorder!.fetching(node, owner)
}

/**
 * Writes a loop in which each thread starts cp.async copies of chunks. A chunk outside the tensor is filled with zeros.
 */
function fetchChunks(node: Node, plan: ChunksPlan, emission: Emission): void {
  const [source, target] = node.inputs
  const { dtype, shape } = source.type as RefType
  const [from, to] = [placeOf(source, emission), placeOf(target, emission)]
  overChunks(shape, plan.bytes / dtypes[dtype].bytes, node, emission, (at) => {
    const inside = from.inside(at) ?? word('true')
    const places = code`${to.address(at, integer(0))}, ${from.address(at, integer(0))}`
    emission.out.line(code`${lib.fetch}<${plan.bytes}>(${places}, ${inside});`)
  })
}

function storeTile(node: Node, emission: Emission): void {
  const { out, group, params } = emission
  const [source, target] = node.inputs
  const plan = emission.plans.copies.ofCopy(node)
  if (plan.how !== 'tensor')
    return emission.refuse(
      node,
      'TMA cannot make this copy, so an earlier stage should have made it complete at once',
    )
  const view = tileOf(target)
  const call = emission.tensorCopy('store', plan.map.box.length + Number(plan.map.ranked))
  const start = sharedStart(source, emission)
  const stores = (): void => {
    for (const box of plan.boxes) {
      const at = (view.shape.length === 1 ? [box.column] : [box.row, box.column]).map(integer)
      const coordinates = engineCoordinates(view, at, plan.map.ranked, emission)
      out.line(
        code`${call}(${params.map(plan.map)}, ${sum(start, integer(box.offset))}, ${joined(coordinates, ', ')});`,
      )
    }
    out.line(code`${lib.tma_store_commit}();`)
  }
  if (group.solo) stores()
  else out.block('if (thread == 0)', stores, node.site)
}

/** Returns the address at which a view of a shared tile starts. */
function sharedStart(ref: Node, emission: Emission): Code {
  const { base, row, tile } = sharedView(ref, emission)
  return row ? code`${base} + ${row} * ${tile.columns * dtypes[tile.dtype].bytes}` : base
}

interface RaggedCopy {
  readonly start: Code
  readonly completes: Code
  /** The number of rows from the start of the tile to the end of the window. */
  readonly rows: string
  readonly call: Code
}

/**
 * Renders the TMA copy of a tile that crosses the end of its window (a slice of the tensor's rows). Eight rows are
 * copied at a time if all are inside or all are outside the window. The other rows of the tile are copied one by one.
 */
function copyRows(plan: TensorPlan, view: TileView, copy: RaggedCopy, emission: Emission): void {
  const { out } = emission
  const { start, completes, rows, call } = copy
  const { eight, one } = plan.ragged!
  const rowBytes = eight.box[0] * dtypes[(view.base.type as TensorType).dtype].bytes
  const panels = plan.boxes.filter((box) => box.row === 0)
  const axis = view.axes.length + view.picks.length - 1 - view.axes[0].axis
  const copyAt = (row: Code, map: MapPlan): void => {
    for (const { column, offset } of panels) {
      const coordinates = engineCoordinates(view, [row, integer(column)], map.ranked, emission)
      coordinates[axis] = code`${row} < ${rows} ? ${coordinates[axis]} : -${map.box[1]}`
      const to = sum(sum(start, integer(offset)), code`${row} * ${rowBytes}`)
      out.line(code`${call}(${to}, ${emission.params.map(map)}, ${completes}, ${joined(coordinates, ', ')});`)
    }
  }
  const [step] = eight.box.slice(1)
  // The loops for single rows seldom run. If they were unrolled, they would be most of the producer's code, and a
  // program would have to fetch that code before its first copy.
  const notWrittenOut = '#pragma unroll 1'
  out.line(notWrittenOut)
  out.block(code`for (${lib.i32} row = 0; row < ${view.shape[0]}; row += ${step})`, () => {
    if (step === 1) return copyAt(word('row'), one)
    out.block(
      code`if (row + ${step} <= ${rows} || row >= ${rows})`,
      () => copyAt(word('row'), eight),
      undefined,
      '} else {',
    )
    out.indented(() => {
      out.line(notWrittenOut)
      out.block(code`for (${lib.i32} single = row; single < row + ${step}; ++single)`, () =>
        copyAt(word('single'), one),
      )
    })
    out.line('}')
  })
}
