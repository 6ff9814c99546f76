/**
 * Renders loads, stores and copies by the threads of a group, and asynchronous copies by the TMA (tensor memory
 * accelerator).
 */
import { dtypes } from '../../../../ir/dtype.ts'
import type { Node } from '../../../../ir/node.ts'
import type { Order, Scope } from '../../../../ir/ops/index.ts'
import type { RefType, TensorType, ValueType } from '../../../../ir/type.ts'
import { isFragment, lanesOf } from '../assign.ts'
import type { MapPlan, TensorPlan } from '../copies.ts'
import { registers, type Emission } from '../emission.ts'
import { blockedLayout } from '../layout.ts'
import { ownerOf } from '../record.ts'
import { is16Bit, literal, registerType } from '../spell.ts'
import { tileOf, type TileView } from '../views.ts'
import { engineCoordinates, placeOf, scaled, sharedView, sum, type Place } from './places.ts'
import type { Renderer } from './renderer.ts'
import { storeByEngine } from './store.ts'

const read = (place: Place, type: string, address: string): string =>
  place.space === 'shared' ? `shared_load<${type}>(${address})` : `*(${address})`
const write = (place: Place, type: string, address: string, value: string): string =>
  place.space === 'shared' ? `shared_store<${type}>(${address}, ${value});` : `*(${address}) = ${value};`
const all = (...conditions: (string | undefined)[]): string | undefined =>
  conditions.filter((one) => one !== undefined).join(' && ') || undefined

/**
 * Renders an access. If the timeline is recorded and the memory may be another rank's, the access is recorded as
 * well.
 */
function recorded(node: Node, ref: Node, emission: Emission, access: () => void, last?: () => string): void {
  const owner = emission.recorder && ownerOf(ref)
  if (owner && ref.op !== 'at') emission.recorder!.copy(node, owner, access, last)
  else access()
}

export const load: Renderer = (node, emission) => {
  if (!isFragment(node)) return loadScalar(node, placeOf(node.inputs[0], emission), emission)
  const last = (): string => lastBits(node, emission)
  recorded(node, node.inputs[0], emission, () => loadFragment(node, emission), last)
}

/** Returns the text of the last register of a fragment, as a u32 with the same bits. */
function lastBits(node: Node, emission: Emission): string {
  const { dtype } = node.type as ValueType
  const [type, count] = registers(dtype, emission.plans.layouts.of(node).count)
  const register = `${emission.fragment(node).array!}[${count - 1}]`
  return type === 'float' ? `__float_as_uint(${register})` : `(u32)${register}`
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
    const at = layout.place('i')
    const guard = all(layout.exists('i'), place.inside(at))
    if (guard) emission.out.unrolled(count, `${name}[i] = 0;`, node.site)
    emission.out.line('#pragma unroll')
    const register = is16Bit(dtype) ? 'i / 2' : 'i'
    emission.out.line(
      `for (u32 i = 0; i < ${layout.count}; i += ${step}) ${guard ? `if (${guard}) ` : ''}load_words<${bytes}>(${name}, ${register}, ${place.address(at, 'i')});`,
      node.site,
    )
    return
  }
  const strong =
    order && emission.strong({ op: 'load', dtype, order, scope: scope!, space: place.space }, node)
  const element = (i: string): string => {
    const at = layout.place(i)
    const wanted = mask && emission.element(mask, i, at).text
    const guard = all(layout.exists(i), place.inside(at), other ? undefined : wanted)
    const address = place.address(at, i)
    const value = strong ? `${strong}(${address})` : read(place, type, address)
    const inside = guard ? `(${guard}) ? ${value} : (${type})${literal(dtype, 0)}` : value
    // `other` replaces masked elements only. Unmasked elements outside the tensor read as 0.
    return other ? `(${wanted}) ? (${inside}) : ${emission.element(other, i, at).text}` : inside
  }
  fillElements(name, dtype, layout.count, element, node, emission)
}

function fillElements(
  name: string,
  dtype: ValueType['dtype'],
  count: number,
  element: (i: string) => string,
  node: Node,
  emission: Emission,
): void {
  if (!is16Bit(dtype)) return emission.out.unrolled(count, `${name}[i] = ${element('i')};`, node.site)
  const pair = `pack_bits(${element('(2 * p)')}, ${element('(2 * p + 1)')})`
  emission.out.unrolled(Math.ceil(count / 2), `${name}[p] = ${pair};`, node.site, 'p')
}

function loadScalar(node: Node, place: Place, emission: Emission): void {
  const [, mask, other] = node.inputs
  const { dtype } = node.type as ValueType
  const type = registerType(dtype)
  // A group that may start before the previous kernel has ended (PDL) could read a stale cache line for memory that
  // the host has written since. A relaxed load at device scope avoids the stale line.
  const isEarly = emission.plans.early?.group === emission.group
  const usual: { order?: Order; scope?: Scope } = isEarly ? { order: 'relaxed', scope: 'device' } : {}
  const { order, scope } = { ...usual, ...(node.attributes as { order?: Order; scope?: Scope }) }
  const address = place.address([], '0')
  const masked = (value: string): string =>
    mask
      ? `${emission.scalar(mask)} ? ${value} : ${other ? emission.scalar(other) : literal(dtype, 0)}`
      : value
  const name = emission.names.take('loaded')
  emission.setVariable(node, name)
  if (!order)
    return emission.out.line(`const ${type} ${name} = ${masked(read(place, type, address))};`, node.site)
  const strong = emission.strong({ op: 'load', dtype, order, scope: scope!, space: place.space }, node)
  emission.fromLeader(type, name, masked(`${strong}(${address})`), node.site)
}

/**
 * The number of bytes that one instruction moves between adjacent registers and adjacent elements. 0 means one
 * element at a time.
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
  const plan = emission.plans.stores.get(node)
  if (plan) return storeByEngine(node, plan, emission)
  const [ref, value, mask] = node.inputs
  const place = placeOf(ref, emission)
  const { dtype } = value.type as ValueType
  const type = registerType(dtype)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  const strong =
    order && emission.strong({ op: 'store', dtype, order, scope: scope!, space: place.space }, node)
  const put = (address: string, text: string): string =>
    strong ? `${strong}(${address}, ${text});` : write(place, type, address, text)
  if (!isFragment(value)) {
    const guard = mask ? `if (${emission.scalar(mask)}) ` : ''
    return emission.byLeader(`${guard}${put(place.address([], '0'), emission.scalar(value))}`, node.site)
  }
  const layout = emission.plans.layouts.of(value)
  const bytes = wideBytes(value, ref, layout.vector, emission)
  if (bytes > 0 && !mask && !order) {
    const array = emission.inArray(value)
    const step = bytes / dtypes[dtype].bytes
    const at = layout.place('i')
    const guard = all(layout.isFirst, layout.exists('i'), place.inside(at))
    const register = is16Bit(dtype) ? 'i / 2' : 'i'
    emission.out.line('#pragma unroll')
    emission.out.line(
      `for (u32 i = 0; i < ${layout.count}; i += ${step}) ${guard ? `if (${guard}) ` : ''}store_words<${bytes}>(${place.address(at, 'i')}, ${array}, ${register});`,
      node.site,
    )
    return
  }
  const at = layout.place('i')
  const guard = all(
    layout.isFirst,
    layout.exists('i'),
    place.inside(at),
    mask && emission.element(mask, 'i', at).text,
  )
  const text = put(place.address(at, 'i'), emission.element(value, 'i', at).text)
  emission.out.unrolled(layout.count, `${guard ? `if (${guard}) ` : ''}${text}`, node.site)
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

/** Copies each element by the thread that holds its index or its mask. */
function copyElements(node: Node, emission: Emission): void {
  const [source, target, mask] = node.inputs
  const { dtype, shape } = source.type as RefType
  const type = registerType(dtype)
  const [lane] = lanesOf(node)
  const layout = lane
    ? emission.plans.layouts.of(lane)
    : blockedLayout(shape, dtypes[dtype].bytes, emission.group)
  const [from, to] = [placeOf(source, emission), placeOf(target, emission)]
  const at = layout.place('i')
  const inside = from.inside(at)
  // If a source element is outside its tensor, a target tensor keeps its old element, and a shared tile gets 0.
  const isKept = to.space === 'global'
  const guard = all(
    layout.isFirst,
    layout.exists('i'),
    to.inside(at),
    isKept ? inside : undefined,
    mask && emission.element(mask, 'i', at).text,
  )
  const value = read(from, type, from.address(at, 'i'))
  const text = write(
    to,
    type,
    to.address(at, 'i'),
    inside && !isKept ? `(${inside}) ? ${value} : (${type})${literal(dtype, 0)}` : value,
  )
  emission.out.unrolled(layout.count, `${guard ? `if (${guard}) ` : ''}${text}`, node.site)
}

function copyByThreads(node: Node, emission: Emission): void {
  const { out, group } = emission
  const [source, target] = node.inputs
  const { dtype, shape } = source.type as RefType
  const isWide = emission.plans.copies.ofCopy(node).how === 'vector'
  const type = isWide ? 'Chunk' : registerType(dtype)
  const width = isWide ? 16 / dtypes[dtype].bytes : 1
  const columns = shape[shape.length - 1] / width
  const [from, to] = [placeOf(source, emission), placeOf(target, emission)]
  const pointer = (place: Place, address: string): string =>
    isWide && place.space === 'global' ? `(Chunk*)(${address})` : address
  const count = shape.reduce((product, extent) => product * extent, 1) / width
  if (shape.length === 0) {
    const value = read(from, type, pointer(from, from.address([], '0')))
    const guard = node.op === 'copy' && node.inputs[2] ? `if (${emission.scalar(node.inputs[2])}) ` : ''
    return emission.byLeader(`${guard}${write(to, type, pointer(to, to.address([], '0')), value)}`, node.site)
  }
  out.line('#pragma unroll 4')
  const head = group.solo
    ? `for (u32 chunk = 0; chunk < ${count}; ++chunk)`
    : `for (u32 chunk = thread; chunk < ${count}; chunk += ${group.threads})`
  out.block(
    head,
    () => {
      const at = shape.length === 1 ? ['column'] : ['row', 'column']
      if (shape.length === 1) out.line(`const u32 column = ${scaled('chunk', width)};`)
      else out.line(`const u32 row = chunk / ${columns}, column = ${scaled(`chunk % ${columns}`, width)};`)
      const inside = from.inside(at)
      const value = read(from, type, pointer(from, from.address(at, '0')))
      const outside = to.inside(at)
      const put = (text: string): string => write(to, type, pointer(to, to.address(at, '0')), text)
      if (to.space === 'global') {
        // If a source element is outside its tensor, the target tensor keeps its old element.
        const guard = all(inside, outside)
        out.line(`${guard ? `if (${guard}) ` : ''}${put(value)}`)
      } else {
        out.line(`${type} value = {};`)
        out.line(`${inside ? `if (${inside}) ` : ''}value = ${value};`)
        out.line(put('value'))
      }
    },
    node.site,
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

function copyByEngine(node: Node, plan: TensorPlan, emission: Emission): void {
  const { out } = emission
  const [source, target, barrier] = node.inputs
  const view = tileOf(source)
  const map = emission.params.map(plan.map)
  const { base, row, tile } = sharedView(target, emission)
  const start = row ? `${base} + ${row} * ${tile.columns * dtypes[tile.dtype].bytes}` : base
  const completes = emission.scalar(barrier)
  const call = emission.tensorCopy('load', plan.map.box.length + Number(plan.map.ranked))
  const guard = emission.group.solo ? '' : 'if (thread == 0) '
  out.line(`${guard}barrier_expect_bytes(${completes}, ${plan.bytes});`, node.site)
  const copyWhole = (): void => {
    for (const box of plan.boxes) {
      const at = view.shape.length === 1 ? [String(box.column)] : [String(box.row), String(box.column)]
      const coordinates = engineCoordinates(view, at, plan.map.ranked, emission)
      out.line(
        `${guard}${call}(${sum(start, String(box.offset))}, ${map}, ${completes}, ${coordinates.join(', ')});`,
        node.site,
      )
    }
  }
  if (!plan.ragged) return copyWhole()
  const rows = emission.names.take('rows_left')
  const before = scaled(emission.scalar(view.indices[0]), view.shape[0])
  out.line(`const i32 ${rows} = ${emission.scalar(view.axes[0].size!)} - ${before};`, node.site)
  out.block(`if (${rows} >= ${view.shape[0]})`, copyWhole, node.site, '} else {')
  out.indented(() => copyRows(plan, view, { start, completes, rows, call: `${guard}${call}` }, emission))
  out.line('}')
}

interface RaggedCopy {
  readonly start: string
  readonly completes: string
  /** The number of rows from the start of the tile to the end of the window. */
  readonly rows: string
  readonly call: string
}

/**
 * Copies a tile that crosses the end of its window. Eight rows are copied at a time if all are inside or all are
 * outside the window. The remaining rows are copied one by one.
 */
function copyRows(plan: TensorPlan, view: TileView, copy: RaggedCopy, emission: Emission): void {
  const { out } = emission
  const { start, completes, rows, call } = copy
  const { eight, one } = plan.ragged!
  const rowBytes = eight.box[0] * dtypes[(view.base.type as TensorType).dtype].bytes
  const panels = plan.boxes.filter((box) => box.row === 0)
  const axis = view.axes.length + view.picks.length - 1 - view.axes[0].axis
  const copyAt = (row: string, map: MapPlan): void => {
    for (const { column, offset } of panels) {
      const coordinates = engineCoordinates(view, [row, String(column)], map.ranked, emission)
      coordinates[axis] = `${row} < ${rows} ? ${coordinates[axis]} : -${map.box[1]}`
      const to = sum(sum(start, String(offset)), `${row} * ${rowBytes}`)
      out.line(`${call}(${to}, ${emission.params.map(map)}, ${completes}, ${coordinates.join(', ')});`)
    }
  }
  const [step] = eight.box.slice(1)
  // These loops seldom run. If unrolled, they would be most of the producer's code, and a program fetches that code
  // before its first copy.
  const notWrittenOut = '#pragma unroll 1'
  out.line(notWrittenOut)
  out.block(`for (i32 row = 0; row < ${view.shape[0]}; row += ${step})`, () => {
    if (step === 1) return copyAt('row', one)
    out.block(
      `if (row + ${step} <= ${rows} || row >= ${rows})`,
      () => copyAt('row', eight),
      undefined,
      '} else {',
    )
    out.indented(() => {
      out.line(notWrittenOut)
      out.block(`for (i32 single = row; single < row + ${step}; ++single)`, () => copyAt('single', one))
    })
    out.line('}')
  })
}
