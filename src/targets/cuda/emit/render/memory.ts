/** Loads, stores and copies by the threads of a group; asynchronous copies by the copy engine. */
import { dtypes } from '../../../../ir/dtype.ts'
import type { Node } from '../../../../ir/node.ts'
import type { Order, Scope } from '../../../../ir/ops/index.ts'
import type { RefType, ValueType } from '../../../../ir/type.ts'
import { isFragment } from '../assign.ts'
import { registers, type Emission } from '../emission.ts'
import { is16Bit, literal, registerType } from '../spell.ts'
import { tileOf } from '../views.ts'
import { engineCoordinates, placeOf, scaled, sharedView, sum, type Place } from './places.ts'
import type { Renderer } from './renderer.ts'
import { storeByEngine } from './store.ts'
import { acquire, release } from './sync.ts'

const read = (place: Place, type: string, address: string): string =>
  place.space === 'shared' ? `shared_load<${type}>(${address})` : `*(${address})`
const write = (place: Place, type: string, address: string, value: string): string =>
  place.space === 'shared' ? `shared_store<${type}>(${address}, ${value});` : `*(${address}) = ${value};`
const all = (...conditions: (string | undefined)[]): string | undefined =>
  conditions.filter((one) => one !== undefined).join(' && ') || undefined

export const load: Renderer = (node, emission) => {
  emission.settle(node)
  const [ref, mask, other] = node.inputs
  const place = placeOf(ref, emission)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype, node)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  if (!isFragment(node)) return loadScalar(node, place, emission)
  const layout = emission.plans.layouts.of(node)
  const name = emission.declareFragment(node, `loaded_${dtype}`)
  const bytes = wideBytes(node, ref, layout.vector, emission)
  if (bytes > 0 && !mask && order === undefined) {
    const step = bytes / dtypes[dtype].bytes
    const [, count] = registers(dtype, layout.count, node)
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
    const guard = all(layout.exists(i), place.inside(at), mask && emission.element(mask, i).text)
    const address = place.address(at, i)
    const value = strong ? `${strong}(${address})` : read(place, type, address)
    return guard
      ? `(${guard}) ? ${value} : ${other ? emission.element(other, i).text : `(${type})${literal(dtype, 0)}`}`
      : value
  }
  fillElements(name, dtype, layout.count, element, node, emission)
  if (order === 'acquire') acquire(node, emission)
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
  const type = registerType(dtype, node)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  const address = place.address([], '0')
  const masked = (value: string): string =>
    mask
      ? `${emission.scalar(mask)} ? ${value} : ${other ? emission.scalar(other) : literal(dtype, 0)}`
      : value
  const name = emission.names.take('loaded')
  emission.setScalar(node, name)
  if (!order)
    return emission.out.line(`const ${type} ${name} = ${masked(read(place, type, address))};`, node.site)
  const strong = emission.strong({ op: 'load', dtype, order, scope: scope!, space: place.space }, node)
  emission.fromLeader(type, name, masked(`${strong}(${address})`), node.site)
  if (order === 'acquire') acquire(node, emission)
}

/** Bytes that one instruction moves between registers side by side and places side by side; 0: one element a time. */
function wideBytes(value: Node, ref: Node, vector: number, emission: Emission): number {
  const { dtype } = value.type as ValueType
  const { bytes } = dtypes[dtype]
  if (bytes > 4 || bytes === 1 || (ref.type as RefType).space === 'shared') return 0
  const width = Math.min(vector, emission.plans.copies.alignment(ref)) * bytes
  return width >= 4 ? width : 0
}

export const store: Renderer = (node, emission) => {
  emission.settle(node)
  const plan = emission.plans.stores.get(node)
  if (plan) return storeByEngine(node, plan, emission)
  const [ref, value, mask] = node.inputs
  const place = placeOf(ref, emission)
  const { dtype } = value.type as ValueType
  const type = registerType(dtype, node)
  const { order, scope } = node.attributes as { order?: Order; scope?: Scope }
  if (order === 'release') release(node, emission)
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
    mask && emission.element(mask, 'i').text,
  )
  const text = put(place.address(at, 'i'), emission.element(value, 'i').text)
  emission.out.unrolled(layout.count, `${guard ? `if (${guard}) ` : ''}${text}`, node.site)
}

export const copy: Renderer = (node, emission) => {
  emission.settle(node)
  copyByThreads(node, emission)
}

function copyByThreads(node: Node, emission: Emission): void {
  const { out, group } = emission
  const [source, target] = node.inputs
  if (node.op === 'copy' && node.inputs.length > 2)
    emission.refuse(node, 'with a mask is not lowered to CUDA yet: load with the mask and store')
  const { dtype, shape } = source.type as RefType
  const isWide = emission.plans.copies.ofCopy(node).how === 'vector'
  const type = isWide ? 'Chunk' : registerType(dtype, node)
  const width = isWide ? 16 / dtypes[dtype].bytes : 1
  const columns = shape[shape.length - 1] / width
  const [from, to] = [placeOf(source, emission), placeOf(target, emission)]
  const pointer = (place: Place, address: string): string =>
    isWide && place.space === 'global' ? `(Chunk*)(${address})` : address
  const count = shape.reduce((product, extent) => product * extent, 1) / width
  if (shape.length === 0) {
    const value = read(from, type, pointer(from, from.address([], '0')))
    return emission.byLeader(write(to, type, pointer(to, to.address([], '0')), value), node.site)
  }
  const fromHere = source.op === 'at' || target.op === 'at'
  if (fromHere)
    emission.refuse(node, 'between single elements is not lowered to CUDA yet: load them and store them')
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
      if (outside) out.line(`if (${all(inside, outside)}) ${put(value)}`)
      else {
        out.line(`${type} value = {};`)
        out.line(`${inside ? `if (${inside}) ` : ''}value = ${value};`)
        out.line(put('value'))
      }
    },
    node.site,
  )
}

export const copyAsync: Renderer = (node, emission) => {
  const { out } = emission
  const plan = emission.plans.copies.ofCopy(node)
  emission.settle(node)
  if (plan.how !== 'tensor') {
    copyByThreads(node, emission)
    return out.line('fence_async_shared();', node.site)
  }
  const [source, target, barrier] = node.inputs
  const view = tileOf(source)
  const map = emission.params.map(plan.map)
  const { base, row, tile } = sharedView(target, emission)
  const start = row ? `${base} + ${row} * ${tile.columns * dtypes[tile.dtype].bytes}` : base
  const completes = emission.scalar(barrier)
  if (emission.plans.written.has(view.base)) out.line('fence_async();', node.site)
  const call = emission.tensorCopy('load', plan.map.box.length + Number(plan.map.ranked))
  const guard = emission.group.solo ? '' : 'if (thread == 0) '
  out.line(`${guard}barrier_expect_bytes(${completes}, ${plan.bytes});`, node.site)
  for (const box of plan.boxes) {
    const at = view.shape.length === 1 ? [String(box.column)] : [String(box.row), String(box.column)]
    const coordinates = engineCoordinates(view, at, plan.map.ranked, emission)
    out.line(
      `${guard}${call}(${sum(start, String(box.offset))}, ${map}, ${completes}, ${coordinates.join(', ')});`,
      node.site,
    )
  }
}
