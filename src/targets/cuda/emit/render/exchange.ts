/** Writes fragments to shared tiles and reads them back, so that threads can exchange elements. */
import type { Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { isSplat } from '../assign.ts'
import { all, code, EVEN, group, ODD, REGISTER, type Code } from '../code.ts'
import type { Emission } from '../emission.ts'
import { plainTile } from '../scratch.ts'
import { is16Bit, registerType } from '../spell.ts'
import { sharedAddress, type SharedView } from './places.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'

/** Writes every element of a fragment to a shared tile. */
export function writeTile(value: Node, view: SharedView, emission: Emission): void {
  const { dtype } = value.type as ValueType
  const layout = emission.plans.layouts.of(value)
  const guarded = (i: Code, text: Code): Code => {
    const guard = all([layout.isFirst, layout.exists(i)])
    return guard ? code`if (${guard}) ${text}` : text
  }
  const array = isSplat(value) ? undefined : emission.fragment(value).array
  if (is16Bit(dtype) && array && layout.vector % 2 === 0) {
    const address = sharedAddress(view, layout.place(EVEN))
    const text = guarded(EVEN, code`${lib.shared_store}<u32>(${address}, ${array}[p]);`)
    return emission.out.unrolled(layout.count / 2, text, value.site, 'p')
  }
  const address = sharedAddress(view, layout.place(REGISTER))
  const text = code`${lib.shared_store}<${registerType(dtype)}>(${address}, ${emission.element(value, REGISTER).text});`
  emission.out.unrolled(layout.count, guarded(REGISTER, text), value.site)
}

/** Reads the elements of a fragment from shared memory into registers. `addressOf` returns the address of an element. */
export function readElements(
  node: Node,
  addressOf: (place: readonly Code[]) => Code,
  emission: Emission,
): void {
  const { dtype } = node.type as ValueType
  const layout = emission.plans.layouts.of(node)
  const name = emission.declareFragment(node, 'moved')
  const type = registerType(dtype)
  const read = (i: Code): Code => {
    const text = code`${lib.shared_load}<${type}>(${addressOf(layout.place(i))})`
    const exists = layout.exists(i)
    return exists ? code`(${exists}) ? ${text} : (${type})0` : text
  }
  if (!is16Bit(dtype))
    return emission.out.unrolled(layout.count, code`${name}[i] = ${read(REGISTER)};`, node.site)
  const pair = code`${lib.pack_bits}(${read(EVEN)}, ${read(ODD)})`
  emission.out.unrolled(Math.ceil(layout.count / 2), code`${name}[p] = ${pair};`, node.site, 'p')
}

/** Converts a fragment to another layout or transposes it, through shared memory. */
export const move: Renderer = (node, emission) => {
  const [source] = node.inputs
  const { shape } = source.type as ValueType
  const extents = shape.length === 1 ? [1, shape[0]] : shape
  const base = group(emission.scratch(node))
  const written = { tile: plainTile(source, extents), base, transposed: false, row: undefined }
  const view = { ...written, transposed: node.op === 'transpose' }
  emission.exchange(node, {
    write: () => writeTile(source, written, emission),
    read: () => readElements(node, (place) => sharedAddress(view, place), emission),
  })
}

/** Broadcasts the only element of a fragment to all threads and returns the name of the variable that holds it. */
export function moveElement(node: Node, emission: Emission): string {
  const [source] = node.inputs
  const { dtype } = source.type as ValueType
  const base = group(emission.scratch(node))
  const view = { tile: plainTile(source, [1, 1]), base, transposed: false, row: undefined }
  const name = emission.names.take('stretched')
  const type = registerType(dtype)
  emission.exchange(node, {
    write: () => writeTile(source, view, emission),
    read: () =>
      emission.out.line(code`const ${type} ${name} = ${lib.shared_load}<${type}>(${base});`, node.site),
  })
  return name
}

/** Writes the indices of gathered rows to shared memory, where every thread can read them. */
export const rows: Renderer = (node, emission) => {
  if (!emission.plans.scratch.has(node)) return
  const indices = node.inputs[1]
  const { shape } = indices.type as ValueType
  const view = {
    tile: plainTile(indices, [1, shape[0]]),
    base: group(emission.scratch(node)),
    transposed: false,
    row: undefined,
  }
  emission.exchange(node, { write: () => writeTile(indices, view, emission) })
}
